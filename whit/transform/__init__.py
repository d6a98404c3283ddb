"""Tensor graph -> the graph of its gradients (`reverse`), of its tangents (`forward`), or over a batch (`batch`).

The rules are in the op records (`whit/ir/ops.py`); what is here walks graphs with them.
"""

from whit.transform.flow import flow, smooth_sources
from whit.transform.formulas import FORMULAS, Form, complex_derivative, derivative, own_rule
from whit.transform.reverse import gradients

__all__ = ["FORMULAS", "Form", "complex_derivative", "derivative", "flow", "gradients", "own_rule", "smooth_sources"]
