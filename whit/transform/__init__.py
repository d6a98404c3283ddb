"""Tensor graph -> the graph of its gradients. The rules are in the op records (`whit/ir/ops.py`)."""

from whit.transform.flow import flow, smooth_sources
from whit.transform.formulas import FORMULAS, derivative, own_rule
from whit.transform.reverse import gradients

__all__ = ["FORMULAS", "derivative", "flow", "gradients", "own_rule", "smooth_sources"]
