"""Images as users hand them over, turned into pixels that the chain can see."""
