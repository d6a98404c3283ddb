"""Tensors in lists, tuples and dictionaries, as arguments and results of functions have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whit.tensor.core import Core


def map_tensors(function: Callable[[Any], Any], value: Any, kind: type = Core) -> Any:
    """The same structure with something else for every tensor, or for everything of another kind."""
    if isinstance(value, kind):
        return function(value)
    if isinstance(value, dict):
        return {key: map_tensors(function, part, kind) for key, part in value.items()}
    if isinstance(value, list | tuple):
        parts = [map_tensors(function, part, kind) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)  # a named tuple has fields
    return value


def tensors_in(value: Any) -> list[Any]:
    """The tensors of a structure, in order."""
    found: list[Any] = []
    map_tensors(found.append, value)
    return found
