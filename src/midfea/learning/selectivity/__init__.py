"""The solver of the neuron-selectivity layer (Section 3 of the paper)."""
