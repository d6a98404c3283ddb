"""Kernels that can be one, loops that they share, and when what is recomputed runs."""
