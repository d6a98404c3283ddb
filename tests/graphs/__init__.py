"""Graphs of whole steps: how many kernels they become, and how much memory they move."""
