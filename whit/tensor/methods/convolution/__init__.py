"""Windows that slide over images: convolution, pooling, resizing."""
