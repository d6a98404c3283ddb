"""Tensor methods against NumPy, and the messages of their errors."""
