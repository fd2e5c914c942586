"""The fast engine: compiled loops, and an exact search for the nearest words."""
