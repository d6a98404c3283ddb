"""What is computed of a model's weights once, before any run: weights in the order in which a kernel reads them.

    kept(weight, "column sums", lambda array: ...)     tensors in memory, the same ones in every run and program

Only tensors that are the same in all runs have such values; of others `kept` gives None. They are known as objects:
while a function is traced, the node of a tensor says nothing about which one it is.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from whit.cache import register_cache
from whit.onnx.values import untraced
from whit.records import dataclass
from whit.tensor import Tensor

Found = dict[Any, tuple[Tensor, ...]]


@dataclass(frozen=True, eq=False)
class _Weight:
    """A tensor that is a weight, or a matrix that is turned."""

    tensor: weakref.ref[Tensor]
    weight: Tensor | None  # what it is a view of
    order: tuple[int, ...]
    found: Found


_weights: dict[int, _Weight] = {}


def _forget() -> None:
    for known in _weights.values():
        known.found.clear()


register_cache(_forget, "onnx.kept")


def _note(tensor: Tensor, weight: Tensor | None, order: tuple[int, ...], found: Found) -> None:
    key = id(tensor)
    _weights[key] = _Weight(weakref.ref(tensor, lambda _: _weights.pop(key, None)), weight, order, found)


def mark_weight(tensor: Tensor) -> None:
    """Says that a tensor in memory is the same in all runs."""
    _note(tensor, None, (), {})


def unmark_weight(tensor: Tensor) -> None:
    """Says that a tensor may change from now on."""
    _weights.pop(id(tensor), None)


def permuted(tensor: Tensor, order: tuple[int, ...]) -> Tensor:
    """Its axes in another order; of a weight, a weight."""
    result = tensor.permute(order)
    known = _known(tensor)
    if known is not None and known.weight is None:
        _note(result, tensor, order, known.found)
    return result


def _known(tensor: Tensor) -> _Weight | None:
    found = _weights.get(id(tensor))
    return found if found is not None and found.tensor() is tensor else None


def is_weight(tensor: Tensor) -> bool:
    """Whether a tensor is the same in all runs."""
    return _known(tensor) is not None


def kept(tensor: Tensor, key: str, compute: Callable[[Any], tuple[Any, ...]]) -> tuple[Tensor, ...] | None:
    """Arrays that `compute` makes of the array of a weight, on the weight's device; None for what is no weight."""
    known = _known(tensor)
    if known is None:
        return None
    name = (key, known.order)
    if name not in known.found:
        weight, device, order = tensor if known.weight is None else known.weight, tensor.device, known.order

        def made() -> tuple[Tensor, ...]:
            array = weight.numpy()
            parts = compute(array.transpose(order) if order else array)
            return tuple([Tensor(np.ascontiguousarray(part), device=device).realize() for part in parts])

        known.found[name] = untraced(made)
    return known.found[name]
