"""Kernels to machine code, kept in memory and on disk: each is compiled once. `tune` searches for faster tilings."""
