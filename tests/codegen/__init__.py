"""Kernels of loops become programs: by each pass, and what it does on each kind of target."""
