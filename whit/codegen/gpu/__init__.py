"""Kernels for GPUs, loaded for GPUs only. `threads` has those that need no strategy of their own."""
