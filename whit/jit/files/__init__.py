"""Captured functions in files: `jit` is the way in and out, the others write their parts as JSON."""
