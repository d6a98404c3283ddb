"""The same elements elsewhere: shapes, order of axes, pieces, repetition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whit.errors import ArgumentError, ShapeError
from whit.ir.op import spell_shape
from whit.numpy.data_types import result_type
from whit.numpy.operands import listed, stacked, tensor_of
from whit.tensor import Tensor
from whit.tensor.core import common_shape

__all__ = [
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "concat",
    "concatenate",
    "expand_dims",
    "flip",
    "moveaxis",
    "permute_dims",
    "repeat",
    "reshape",
    "roll",
    "squeeze",
    "stack",
    "tile",
    "unstack",
]


def broadcast_arrays(*arrays: Any) -> tuple[Tensor, ...]:
    """All in their common shape."""
    given = listed(arrays)
    shape = common_shape("broadcast_arrays", [(f"array {i}", tensor) for i, tensor in enumerate(given)])
    return tuple(tensor.expand(shape) for tensor in given)


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape that arrays of these shapes broadcast to."""
    given = [Tensor.full(shape if isinstance(shape, tuple | list) else (shape,), 0) for shape in shapes]
    return common_shape("broadcast_shapes", [(f"shape {i}", tensor) for i, tensor in enumerate(given)])


def broadcast_to(x: Any, /, shape: Any) -> Tensor:
    """Repeated to a shape."""
    given, sizes = tensor_of(x), tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    common = common_shape("broadcast_to", [("array", given), ("shape", Tensor.full(sizes, 0))])
    if common != sizes:
        raise ShapeError(
            f"broadcast_to: {spell_shape(given.shape)} does not fit {spell_shape(sizes)}",
            given._made(),
            "Sizes are those of the array, or its size is 1 there.",
        )
    return given.expand(sizes)


def concat(arrays: Any, /, axis: int | None = 0) -> Tensor:
    """One after another along an axis that they have, in their common dtype; without an axis, all elements in a row."""
    given = _several("concat", arrays)
    parts = [each.flatten() for each in given] if axis is None else given
    dtype = result_type(*parts)
    first, *rest = (part if part.dtype is dtype else part.cast(dtype) for part in parts)
    return first.cat(*rest, dim=axis or 0) if rest else first


concatenate = concat  # NumPy's name


def stack(arrays: Any, /, axis: int = 0) -> Tensor:
    """Arrays of one shape along a new axis, in their common dtype."""
    given = _several("stack", arrays)
    dtype = result_type(*given)
    return stacked([part if part.dtype is dtype else part.cast(dtype) for part in given], axis)


def _several(name: str, arrays: Any) -> list[Tensor]:
    given = listed(arrays)
    if not given:
        raise ArgumentError(f"{name}: there are no arrays", fix="Give a list or tuple of one or more.")
    return given


def expand_dims(x: Any, /, axis: int = 0) -> Tensor:
    """A new axis of size 1."""
    return tensor_of(x).unsqueeze(axis)


def flip(x: Any, /, axis: Any = None) -> Tensor:
    """Axes back to front; all of them if none is named."""
    given = tensor_of(x)
    return given.flip(tuple(range(given.ndim)) if axis is None else axis)


def moveaxis(x: Any, source: Any, destination: Any, /) -> Tensor:
    """Axes in other places; the others stay in order."""
    return tensor_of(x).moveaxis(source, destination)


def permute_dims(x: Any, /, axes: Sequence[int]) -> Tensor:
    """The axes in another order."""
    return tensor_of(x).permute(tuple(axes))


def repeat(x: Any, repeats: Any, /, axis: int | None = None) -> Tensor:
    """Each element, or each position of an axis, as often as `repeats` says: one number, or one for each."""
    given = tensor_of(x)
    times = repeats if isinstance(repeats, int) else tensor_of(repeats)
    if isinstance(times, Tensor) and times.numel() == 1 and times.ndim:
        times = int(times.item())
    return (given.flatten() if axis is None else given).repeat_interleave(times, dim=axis or 0)


def reshape(x: Any, /, shape: Any, *, copy: bool | None = None) -> Tensor:
    """The elements in another shape; one size may be -1. It shares them with x unless copy says otherwise."""
    result = tensor_of(x).reshape(tuple(shape) if isinstance(shape, tuple | list) else (shape,))
    return result.clone() if copy else result


def roll(x: Any, /, shift: Any, axis: Any = None) -> Tensor:
    """Elements moved along axes; what leaves at one end comes in at the other. Without an axis, all in a row."""
    return tensor_of(x).roll(shift, axis)


def squeeze(x: Any, /, axis: Any = None) -> Tensor:
    """Without axes of size 1: those named, or all. A named one of another size is an error."""
    given = tensor_of(x)
    for each in given._axes("squeeze", axis) if axis is not None else ():
        if given.shape[each] != 1:
            raise ShapeError(
                f"squeeze: axis {each} of {spell_shape(given.shape)} is not of size 1",
                given._made(),
                "Name axes of size 1, or none.",
            )
    return given.squeeze(axis)


def tile(x: Any, repetitions: Any, /) -> Tensor:
    """The whole array several times along each axis."""
    return tensor_of(x).tile(tuple(repetitions) if isinstance(repetitions, tuple | list) else (repetitions,))


def unstack(x: Any, /, axis: int = 0) -> tuple[Tensor, ...]:
    """The parts along an axis, without it."""
    return tensor_of(x).unbind(axis)
