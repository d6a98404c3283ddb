"""Gradients, compared with finite differences and with PyTorch."""
