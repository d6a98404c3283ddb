"""Layers, optimisers, data and model files."""
