"""Tensors in containers (`whit.containers`), as arguments and results of functions have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whit.containers import Structure, flatten, map_parts, parts_in
from whit.tensor.core import Core


def map_tensors(function: Callable[..., Any], value: Any, *others: Any) -> Any:
    """The same containers with function(tensor) for every tensor.

    With several containers of one structure function(tensor, *those of the others): a step of training is
    `map_tensors(lambda p, g: p - 0.1 * g, parameters, gradients)`. What is no tensor stays as it is in the first.
    """
    return map_parts(Core, function, value, *others)


def tensors_in(value: Any) -> list[Any]:
    """The tensors of a structure, in order."""
    return parts_in(Core, value)


def flatten_tensors(value: Any) -> tuple[list[Any], Structure]:
    """The tensors of a structure, and the structure."""
    return flatten(Core, value)
