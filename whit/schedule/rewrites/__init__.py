"""Tensor graph -> tensor graph: the same values, said so that kernels can compute them well. One file a rewrite."""
