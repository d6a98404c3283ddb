"""Whole models, each written once for whit and PyTorch, and what one and two steps of training make of them."""
