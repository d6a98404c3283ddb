"""The methods of Tensor, one file a topic. They check what users give, and build nodes with `tensor.graphs`."""
