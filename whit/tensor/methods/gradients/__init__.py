"""Gradients, and functions and kernels with gradients of their own."""
