"""Functions of nodes: formulas, algorithms and their derivatives. They know UOps, and no Tensor."""
