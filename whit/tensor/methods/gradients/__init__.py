"""Gradients, and functions and kernels with gradients of their own."""

from whit.tensor.methods.gradients.backward import Backward
from whit.tensor.methods.gradients.custom import Custom


class Gradients(Backward, Custom):
    """Gradients, and functions with gradients of their own."""

    __slots__ = ()
