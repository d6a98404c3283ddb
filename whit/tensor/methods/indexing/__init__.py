"""Parts of tensors: `x[...]`, positions, scatter, sort."""
