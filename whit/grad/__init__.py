"""Tensor graph -> the graph of its gradient. The rules are in the op records (`whit/ir/ops.py`)."""

from whit.grad.formulas import FORMULAS, derivative
from whit.grad.reverse import gradients

__all__ = ["FORMULAS", "derivative", "gradients"]
