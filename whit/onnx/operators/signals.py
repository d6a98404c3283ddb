"""Signals: Fourier transforms, windows, mel filters. A complex number is a pair on a last axis of size 2."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy

from whit.dtype import dtypes
from whit.onnx.operators.element_types import dtype_of
from whit.onnx.operators.registry import Node, Value, host_array, host_int_list, operator, positive_axis
from whit.tensor import Tensor
from whit.tensor.methods.linear_algebra.fourier import transform


def transformed(x: Tensor, sign: int) -> Tensor:
    """(batch, n, 1 or 2) -> (batch, n, 2): a transform along n without a scale; sign -1 is forward."""
    wide = x.cast(dtypes.float64 if x.dtype is dtypes.float64 else dtypes.float32)
    return wide._wrap(transform(wide.uop, sign, wide.device)).cast(x.dtype)


def _resized(x: Tensor, size: int) -> Tensor:
    """(batch, n, parts) cut or padded with zeros to a length."""
    batch, n, parts = x.shape
    if n > size:
        return x.shrink([(0, batch), (0, size), (0, parts)])
    return x.pad([(0, 0), (0, size - n), (0, 0)]) if n < size else x


def _mirrored(x: Tensor, size: int) -> Tensor:
    """(batch, n // 2 + 1, 2) -> (batch, n, 2): the other half are conjugates."""
    batch, known, _ = x.shape
    rest = size - known
    if rest <= 0:
        return x.shrink([(0, batch), (0, size), (0, 2)])
    signs = Tensor([1.0, -1.0], dtype=x.dtype, device=x.device)
    return x.cat(x[:, 1 : rest + 1].flip(1) * signs, dim=1)


@operator("DFT", since=(17, 20), host=(1, 2))
def dft(node: Node, x: Tensor, length: Value = None, axis: Value = None) -> Tensor:
    """The discrete Fourier transform along an axis, or its inverse; `onesided` leaves out what is known."""
    default = int(node.get("axis", 1)) if node.version < 20 else -2
    at = positive_axis(node, default if axis is None else host_int_list(axis)[0], x.ndim)
    last = x.ndim - 1
    order = [i for i in range(last) if i != at]
    moved = x.permute((*order, at, last))
    rows = moved.reshape((math.prod(moved.shape[:-2]), *moved.shape[-2:]))
    result = _dft_of_rows(node, rows, None if length is None else host_int_list(length)[0])
    whole = result.reshape((*moved.shape[:-2], *result.shape[1:]))
    back = [order.index(i) if i != at else len(order) for i in range(last)]
    return whole.permute((*back, last))


def _dft_of_rows(node: Node, rows: Tensor, length: int | None) -> Tensor:
    """(batch, n, 1 or 2) -> (batch, count, 2), or of an inverse that is real (batch, count, 1)."""
    inverse, onesided, size = bool(node.get("inverse", 0)), bool(node.get("onesided", 0)), int(rows.shape[1])
    if not inverse:
        count = size if length is None else length
        result = transformed(_resized(rows, count), -1)
        return result[:, : count // 2 + 1] if onesided else result
    if not onesided:
        count = size if length is None else length
        return transformed(_resized(rows, count), 1) / count
    count = 2 * (size - 1) if length is None else length
    known = _resized(rows, count // 2 + 1)
    return (transformed(_mirrored(known, count), 1) / count)[..., :1]


@operator("STFT", since=(17,), host=(1, 3))
def stft(node: Node, x: Tensor, step: Value, window: Tensor | None = None, length: Value = None) -> Tensor:
    """(batch, n, parts) -> (batch, frames, bins, 2): transforms of windows that slide over a signal."""
    hop = host_int_list(step)[0]
    if length is not None:
        size = host_int_list(length)[0]
    elif window is not None:
        size = int(window.shape[0])
    else:
        size = int(x.shape[1])
    x = x if x.ndim == 3 else x.unsqueeze(-1)
    batch, total, parts = x.shape
    frames = (int(total) - size) // hop + 1
    places = numpy.arange(frames)[:, None] * hop + numpy.arange(size)
    rows = x.index_select(1, Tensor(places.reshape(-1), device=x.device)).reshape((batch * frames, size, parts))
    if window is not None:
        rows = rows * window.cast(x.dtype).reshape((1, size, 1))
    result = transformed(rows, -1)
    if node.get("onesided", 1) and parts == 1:
        result = result[:, : size // 2 + 1]
    return result.reshape((batch, frames, *result.shape[1:]))


def _cosines(name: str, weigh: Callable[[numpy.ndarray], numpy.ndarray]) -> None:
    """A window of cosines of the angle, as a table from the host."""

    def window(node: Node, size: Value) -> Tensor:
        count = host_int_list(size)[0]
        turns = count if node.get("periodic", 1) else max(count - 1, 1)
        table = weigh(2 * numpy.pi * numpy.arange(count) / turns)
        return Tensor(table).cast(dtype_of(int(node.get("output_datatype", 1))))

    operator(name, since=(17,), host=(0,))(window)


_cosines("HannWindow", lambda angle: 0.5 - 0.5 * numpy.cos(angle))
_cosines("HammingWindow", lambda angle: 25 / 46 - 21 / 46 * numpy.cos(angle))
_cosines("BlackmanWindow", lambda angle: 0.42 - 0.5 * numpy.cos(angle) + 0.08 * numpy.cos(2 * angle))


@operator("MelWeightMatrix", since=(17,), host=(0, 1, 2, 3, 4))
def mel_weight_matrix(node: Node, bands: Value, length: Value, rate: Value, low: Value, high: Value) -> Tensor:
    """(bins of a spectrum, bands): triangles evenly spaced on the mel scale, as far apart as the standard says."""
    count, size, samples = (host_int_list(value)[0] for value in (bands, length, rate))
    bins = size // 2 + 1
    edges = [float(host_array(value).reshape(-1)[0]) for value in (low, high)]
    first, last = (2595 * math.log10(1 + edge / 700) for edge in edges)
    mel = first + (last - first) / (count + 2) * numpy.arange(count + 2)
    hertz = 700 * (10 ** (mel / 2595) - 1)
    places = ((size + 1) * hertz // samples).astype(numpy.int64)
    table = numpy.zeros((bins, count))
    for band in range(count):
        start, middle, end = places[band : band + 3]
        if start == middle:
            table[middle, band] = 1
        for i in range(start, min(middle + 1, bins)):
            if middle > start:
                table[i, band] = (i - start) / (middle - start)
        for i in range(middle, min(end, bins)):
            table[i, band] = (end - i) / (end - middle)
    return Tensor(table).cast(dtype_of(int(node.get("output_datatype", 1))))
