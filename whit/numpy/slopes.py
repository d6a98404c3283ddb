"""`gradient`: slopes by differences of neighbours."""

from __future__ import annotations

from typing import Any

from whit.errors import ArgumentError, ShapeError
from whit.numpy.operands import tensor_of
from whit.tensor import Tensor

__all__ = ["gradient"]


def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Slopes along each axis, or along those that are named: a tensor for one axis, a tuple for several.

    `varargs`: a distance for all axes, or for each a distance or the places of the elements. At the ends the
    difference of two, or with edge_order=2 the slope of a parabola through three.
    """
    x = tensor_of(f)
    axes = list(range(x.ndim)) if axis is None else [axis] if isinstance(axis, int) else list(axis)
    steps = list(varargs) if len(varargs) == len(axes) else list(varargs or (1,)) * len(axes)
    if len(steps) != len(axes) or edge_order not in (1, 2):
        raise ArgumentError(
            f"gradient: {len(varargs)} distances for {len(axes)} axes, edge_order={edge_order}",
            fix="Give one distance, or one for each axis; edge_order is 1 or 2.",
        )
    found = tuple(_slope(x, place, step, edge_order) for place, step in zip(axes, steps, strict=True))
    return found[0] if len(found) == 1 else found


def _slope(x: Tensor, axis: int, step: Any, edge_order: int) -> Tensor:
    size = x.shape[axis]
    if size <= edge_order:
        raise ShapeError(f"gradient: axis {axis} has {size} elements", fix=f"It needs {edge_order + 1}.")
    x = x.transpose(axis, -1)
    is_distance = isinstance(step, int | float) or not getattr(step, "shape", ())
    places = Tensor.arange(size, dtype=x.dtype, device=x.device) * step if is_distance else tensor_of(step)
    gaps = places.diff()
    slopes = x.diff() / gaps
    before, after = gaps[:-1], gaps[1:]
    inner = (slopes[..., :-1] * after + slopes[..., 1:] * before) / (before + after)
    first, last = slopes[..., :1], slopes[..., -1:]
    if edge_order == 2:
        first = first + (first - slopes[..., 1:2]) * _share(gaps, 0, 1)
        last = last + (last - slopes[..., -2:-1]) * _share(gaps, -1, -2)
    return Tensor.cat([first, inner, last], dim=-1).transpose(axis, -1)


def _share(gaps: Tensor, near: int, far: int) -> Tensor:
    found: Tensor = gaps[near] / (gaps[near] + gaps[far])
    return found
