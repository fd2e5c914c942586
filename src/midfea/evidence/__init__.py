"""A decision value traced back to words, descriptors and pixels."""
