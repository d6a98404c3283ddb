"""Scatters on a GPU whose order matters: shared between threads, or between blocks that look for what is theirs."""
