"""Tensor graph -> the graph of its gradient. The rules are in the op records (`whit/ir/ops.py`)."""

from whit.grad.flow import flow, smooth_sources
from whit.grad.formulas import FORMULAS, derivative, own_rule
from whit.grad.reverse import gradients

__all__ = ["FORMULAS", "derivative", "flow", "gradients", "own_rule", "smooth_sources"]
