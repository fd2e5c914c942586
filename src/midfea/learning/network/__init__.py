"""The network head: the chain fine-tuned end to end, its training (torch) and its use (NumPy)."""
