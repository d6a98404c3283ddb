"""Kernels for CPUs: loops, vector lanes and cores (`loops`), panels of a GEMM (`panel_sizes`), attention, sorts."""
