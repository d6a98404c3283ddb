"""Sorts on a GPU: a bitonic network in shared memory, and merges of runs."""
