"""Tensor: the array that users see. Methods build a graph; `realize`, `numpy`, `item` ... compute it.

    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    (x @ x + 1).sum().item()             # 58.0

`tensor.py` is the list of its topics, each a file or a folder of `methods/`.
"""

from whit.tensor.graphs import derivatives  # noqa: F401  # registers them
from whit.tensor.methods.linear_algebra import decompose_gradients  # noqa: F401  # registers them
from whit.tensor.recompute import checkpoint
from whit.tensor.tensor import Tensor

__all__ = ["Tensor", "checkpoint"]
