"""Stores as values: what is written into which memory, in which order, and the kernels that write."""
