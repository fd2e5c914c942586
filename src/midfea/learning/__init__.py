"""What is learned from data: the codebook's sample, the projection, the linear classifier."""
