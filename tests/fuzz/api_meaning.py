"""What the calls of `api_programs.py` mean, in NumPy: views are NumPy's views, all other results are new arrays.

Each function refuses (`Unclear`) what has more than one right answer: sums whose terms are not added exactly in every
order, and derivatives where two elements are equal. Arrays may be complex: the imaginary part of `f(x + ih)` over h is
the derivative of f to the last digit, so that gradients have a reference that shares nothing with ours. Order is that
of the real parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

EXACT = {2: 2.0**9, 4: 2.0**22, 8: 2.0**22, 16: 2.0**22}  # by bytes: such whole numbers, and the sum of two, are exact
Array = np.ndarray
Axis = int | tuple[int, ...] | None


class Unclear(Exception):  # noqa: N818
    """The program has no single right result here."""


def whole(shape: tuple[int, ...], seed: int, dtype: str = "float32") -> Array:
    """Small whole numbers, always the same."""
    places = np.arange(int(np.prod(shape)), dtype=np.int64) + 1000 * seed
    return (((places * 2654435761) >> 7) % 7 - 3).reshape(shape).astype(dtype)


def wave(shape: tuple[int, ...], seed: int) -> Array:
    """Numbers between -1.5 and 1.5, all different, always the same."""
    places = np.arange(int(np.prod(shape)), dtype=np.float64) + 977 * seed
    return (np.sin(places * 12.9898) * 43758.5453 % 3 - 1.5).reshape(shape)


def own(x: Any) -> Array:
    """A result that shares nothing, row-major, within the numbers that are exact."""
    result = np.array(x, order="C", copy=True)
    if result.dtype.kind in "fci" and result.size:
        largest = np.abs(result.real).max()
        if not largest <= EXACT[result.dtype.itemsize]:
            raise Unclear("large numbers")
    return result


def summed(x: Array, compute: Callable[[Array], Array]) -> Array:
    """A sum, of absolute values that are added exactly too."""
    own(compute(np.abs(x.real)))
    return own(compute(x).astype(x.dtype))


def sum(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    return summed(x, lambda v: np.asarray(v.sum(axis, keepdims=keepdims)))


def prod(x: Array, axis: Axis = None) -> Array:
    own(np.prod(np.maximum(np.abs(x.real), 1), axis))
    return own(np.asarray(x.prod(axis)).astype(x.dtype))


def cumsum(x: Array, axis: int) -> Array:
    return summed(x, lambda v: v.cumsum(axis))


def cumprod(x: Array, axis: int) -> Array:
    own(np.maximum(np.abs(x.real), 1).cumprod(axis))
    return own(x.cumprod(axis).astype(x.dtype))


def matmul(x: Array, y: Array) -> Array:
    own(np.abs(x.real) @ np.abs(y.real))
    return own(x @ y)


def einsum(formula: str, *given: Array) -> Array:
    own(np.einsum(formula, *(np.abs(x.real) for x in given)))
    return own(np.einsum(formula, *given))


def clear_order(x: Array, axis: Axis) -> Array:
    """Elements that are equal must have equal derivatives."""
    if x.dtype.kind == "c" and x.size:
        flat = x.reshape(-1) if axis is None else np.moveaxis(x, axis, -1)
        flat = flat.reshape(-1, flat.shape[-1])
        flat = np.take_along_axis(flat, np.argsort(flat.real, -1, kind="stable"), -1)
        same = (flat[:, 1:].real == flat[:, :-1].real) & (flat[:, 1:].imag != flat[:, :-1].imag)
        if same.any():
            raise Unclear("equal elements")
    return x


def clear_pair(x: Array, y: Any) -> None:
    """The same of two arrays, element by element."""
    x, y = np.broadcast_arrays(x, y)
    if ((x.real == y.real) & (x.imag != y.imag)).any():
        raise Unclear("equal elements")


def max(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    for one in (axis,) if not isinstance(axis, tuple) else ():
        clear_order(x, one)
    if isinstance(axis, tuple) and x.dtype.kind == "c":
        raise Unclear("several axes")
    return own(x.max(axis, keepdims=keepdims))


def min(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    return own(-max(-x, axis, keepdims))


def argmax(x: Array, axis: int | None = None) -> Array:
    return own(np.asarray(x.real.argmax(axis)).astype(x.dtype))


def argmin(x: Array, axis: int | None = None) -> Array:
    return own(np.asarray(x.real.argmin(axis)).astype(x.dtype))


def cummax(x: Array, axis: int) -> Array:
    clear_order(x, axis)
    return own(np.maximum.accumulate(x, axis))


def cummin(x: Array, axis: int) -> Array:
    return own(-cummax(-x, axis))


def sort(x: Array, axis: int, descending: bool = False) -> Array:
    clear_order(x, axis)
    return own(-np.sort(-x, axis) if descending else np.sort(x, axis))


def argsort(x: Array, axis: int, descending: bool = False) -> Array:
    keys = x.real
    return own(np.argsort(-keys if descending else keys, axis, kind="stable").astype(x.dtype))


def maximum(x: Array, y: Any) -> Array:
    clear_pair(x, y)
    return own(np.maximum(x, y).astype(x.dtype))


def minimum(x: Array, y: Any) -> Array:
    clear_pair(x, y)
    return own(np.minimum(x, y).astype(x.dtype))


def relu(x: Array) -> Array:
    return maximum(x, 0)


def absolute(x: Array) -> Array:
    clear_pair(x, -x)
    return own(np.where(x.real < 0, -x, x))


def clamp(x: Array, low: float, high: float) -> Array:
    return minimum(maximum(x, low), high)


def sigmoid(x: Array) -> Array:
    return own(1 / (1 + np.exp(-x)))


def softmax(x: Array, axis: int) -> Array:
    e = np.exp(x - x.real.max(axis, keepdims=True))
    return own(e / e.sum(axis, keepdims=True))


def logsumexp(x: Array, axis: int) -> Array:
    return own(np.log(np.exp(x).sum(axis)))


def var(x: Array, axis: Axis, correction: int) -> Array:
    d = x - x.mean(axis, keepdims=True)
    return own((d * d).sum(axis) / (x.size // np.mean(x, axis).size - correction))


def layernorm(x: Array) -> Array:
    d = x - x.mean(-1, keepdims=True)
    return own(d / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-5))


def places(x: Any) -> Array:
    """Positions, of what computes them."""
    return np.asarray(x).real.astype(np.int64)


def gather(x: Array, axis: int, index: Array) -> Array:
    cut = tuple(slice(None) if i == axis else slice(0, n) for i, n in enumerate(index.shape))
    return own(np.take_along_axis(x[cut], index, axis))


def _combined(old: Any, new: Any, how: str) -> Any:
    if how == "sum":
        return old + new
    if how == "prod":
        return old * new
    if old.real == new.real and old.imag != new.imag:
        raise Unclear("equal elements")
    return builtin_max(old, new) if how == "amax" else -builtin_max(-old, -new)


def builtin_max(a: Any, b: Any) -> Any:
    return a if a.real >= b.real else b


def scatter(x: Array, axis: int, index: Array, src: Any, how: str = "", include: bool = True) -> Array:
    """One element after the other, the last axis fastest."""
    result, seen = own(x), np.zeros(x.shape, bool)
    source = np.broadcast_to(np.asarray(src, x.dtype), index.shape) if np.ndim(src) == 0 else src
    for place in np.ndindex(*index.shape):
        goal = (*place[:axis], int(index[place]), *place[axis + 1 :])
        value = source[place]
        if how and (include or seen[goal]):
            value = _combined(result[goal], value, how)
        result[goal] = value
        seen[goal] = True
    if how in ("sum", "prod") and np.abs(result.real).max(initial=0) > EXACT[x.dtype.itemsize] / 64:
        raise Unclear("large numbers")
    return own(result)


def index_add(x: Array, axis: int, index: Array, source: Array, alpha: int = 1) -> Array:
    result = own(x)
    np.add.at(np.moveaxis(result, axis, 0), index, alpha * np.moveaxis(source, axis, 0))
    return own(result)


def put_added(x: Array, index: tuple[Any, ...], values: Any) -> Array:
    result = own(x)
    np.add.at(result, index, values)
    return own(result)


def put(x: Array, index: tuple[Any, ...], values: Any) -> Array:
    result = own(x)
    result[index] = values
    return result


def put_along(x: Array, index: Array, values: Array, axis: int) -> None:
    np.put_along_axis(x, index, own(np.broadcast_to(values, index.shape)), axis)


def unfold(x: Array, axis: int, size: int, step: int) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(x, size, axis)
    return own(np.moveaxis(np.moveaxis(windows, axis, 0)[::step], 0, axis))


def conv2d(x: Array, w: Array, stride: int, padding: int, dilation: int, groups: int) -> Array:
    """Cross-correlation of (batch, channels, height, width)."""
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    high, wide = ((n - 1) * dilation + 1 for n in w.shape[2:])
    windows = np.lib.stride_tricks.sliding_window_view(x, (high, wide), (2, 3))
    windows = windows[:, :, ::stride, ::stride, ::dilation, ::dilation]
    parts = zip(np.split(windows, groups, 1), np.split(w, groups, 0), strict=True)
    return own(np.concatenate([einsum("nchwij,ocij->nohw", part, weight) for part, weight in parts], 1))


def pool(x: Array, size: int, stride: int, reduce: Callable[[Array], Array]) -> Array:
    """A reduction of the elements of each window of the last two axes, which come last."""
    windows = np.lib.stride_tricks.sliding_window_view(x, (size, size), (-2, -1))[..., ::stride, ::stride, :, :]
    return own(reduce(own(windows).reshape(*windows.shape[:-2], size * size)))


def max_pool(x: Array, size: int, stride: int) -> Array:
    return pool(x, size, stride, lambda windows: max(windows, -1))


def avg_pool(x: Array, size: int, stride: int) -> Array:
    means = pool(x, size, stride, lambda windows: windows.mean(-1))
    return means.astype(np.float32) if x.dtype.kind in "biu" else means


def wheres(condition: Array, yes: Any, no: Any, dtype: Any) -> Array:
    return own(np.where(condition, yes, no).astype(dtype))


def cat(parts: Sequence[Array], axis: int) -> Array:
    return own(np.concatenate(parts, axis))


def pad(x: Array, widths: Sequence[tuple[int, int]], mode: str, value: float = 0) -> Array:
    if mode == "constant":
        return own(np.pad(x, widths, constant_values=value))
    return own(np.pad(x, widths, mode={"replicate": "edge", "circular": "wrap"}.get(mode, mode)))


def diagonal(x: Array) -> Array:
    """A view that can be written to, as ours can."""
    result = x.diagonal()
    if x.flags.writeable:
        result.flags.writeable = True
    return result
