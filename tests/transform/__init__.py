"""Functions into functions: gradients, tangents, batches."""
