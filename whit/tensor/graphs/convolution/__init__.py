"""Convolution and pooling as graphs."""
