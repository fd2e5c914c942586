"""The engine for GPUs, through torch."""
