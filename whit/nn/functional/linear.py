"""Products by weights: linear, bilinear, convolutions, and rows of tables."""

from __future__ import annotations

from math import prod
from typing import Any

from whit.dtype import dtypes
from whit.errors import ArgumentError, DTypeError, ShapeError
from whit.ir.op import spell_shape
from whit.tensor import Tensor


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias."""
    return input.linear(weight.transpose() if weight.ndim == 2 else weight, bias)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """sum over i and j of input1[..., i] * weight[out, i, j] * input2[..., j], plus bias."""
    if input1.shape[:-1] != input2.shape[:-1] or weight.shape[1:] != (input1.shape[-1], input2.shape[-1]):
        raise ShapeError(
            f"bilinear: inputs {spell_shape(input1.shape)} and {spell_shape(input2.shape)}, a weight "
            f"{spell_shape(weight.shape)}",
            f"the first {input1._made()}, the second {input2._made()}",
            "They are (..., a), (..., b) and (out, a, b).",
        )
    outputs, first, second = weight.shape
    count = prod(input1.shape[:-1])
    both = input1.reshape(count, first) @ weight.transpose(0, 1).reshape(first, outputs * second)
    found = both.reshape(count, outputs, second) @ input2.reshape(count, second, 1)
    found = found.reshape(*input1.shape[:-1], outputs)
    return found if bias is None else found + bias


def _conv(name: str, axes: int, input: Tensor, weight: Tensor, bias: Any, **given: Any) -> Tensor:
    if weight.ndim != axes + 2:
        raise ShapeError(f"{name}: a weight {spell_shape(weight.shape)}", weight._made(), f"It has {axes + 2} axes.")
    alone = input.ndim == axes + 1
    x = input.unsqueeze(0) if alone else input
    found = x.conv_transpose2d(weight, bias, **given) if "output_padding" in given else x.conv2d(weight, bias, **given)
    return found.squeeze(0) if alone else found


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Of (batch, channels, length)."""
    return _conv("conv1d", 1, input, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Of images."""
    return _conv("conv2d", 2, input, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups)


def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Of volumes."""
    return _conv("conv3d", 3, input, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups)


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Each input spreads over a window; of (batch, channels, length)."""
    given = {"stride": stride, "padding": padding, "output_padding": output_padding, "groups": groups}
    return _conv("conv_transpose1d", 1, input, weight, bias, dilation=dilation, **given)


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Of images."""
    given = {"stride": stride, "padding": padding, "output_padding": output_padding, "groups": groups}
    return _conv("conv_transpose2d", 2, input, weight, bias, dilation=dilation, **given)


def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Of volumes."""
    given = {"stride": stride, "padding": padding, "output_padding": output_padding, "groups": groups}
    return _conv("conv_transpose3d", 3, input, weight, bias, dilation=dilation, **given)


# ---- rows of tables


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """A row of the weight for each index; rows of `padding_idx` have no gradient.

    With `max_norm`, rows that are longer are made shorter, in the table, before they are read. With
    `scale_grad_by_freq`, the gradient of a row is divided by how often it is read. `sparse` changes nothing.
    """
    if not input.dtype.is_int:
        raise DTypeError(f"embedding: the indices are {input.dtype.name}", fix="Cast them to an integer dtype.")
    if max_norm is not None:
        shorten_rows(input, weight, max_norm, norm_type)
    rows = weight[input]
    if scale_grad_by_freq:
        often = _how_often(input, weight.shape[0])[input].unsqueeze(-1).cast(rows.dtype)
        rows = rows.detach() + (rows - rows.detach()) / often
    if padding_idx is None:
        return rows
    return (input == row_of(padding_idx, weight)).unsqueeze(-1).where(rows.detach(), rows)


def row_of(padding_idx: int, weight: Tensor) -> int:
    """The row of a padding_idx, which may be counted from the end."""
    count = int(weight.shape[0])
    if not -count <= padding_idx < count:
        raise ArgumentError(f"embedding: padding_idx={padding_idx} of {count} rows")
    return padding_idx % count


def _how_often(index: Tensor, count: int) -> Tensor:
    flat = index.reshape(-1)
    return Tensor.zeros(count, dtype=dtypes.int32, device=index.device).scatter_add(
        0, flat, Tensor.ones(flat.shape[0], dtype=dtypes.int32, device=index.device)
    )


def shorten_rows(index: Tensor, weight: Tensor, max_norm: float, norm_type: float) -> None:
    """Rows that are read get a norm of at most max_norm, in the table."""
    norm = weight.detach().norm(norm_type, 1, keepdim=True)
    is_read = (_how_often(index, weight.shape[0]) > 0).unsqueeze(1)
    scale = (is_read & (norm > max_norm)).where(max_norm / (norm + 1e-7), 1)
    weight.assign((weight.detach() * scale).cast(weight.dtype))


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Rows of the weight, added up, averaged or compared ("max") in each bag: (bags, size).

    A bag is a row of indices; indices of one axis are bags one after the other, which begin at the offsets. Rows of
    `padding_idx` do not count.
    """
    if mode not in ("sum", "mean", "max"):
        raise ArgumentError(f"embedding_bag: mode={mode!r}", fix='It is "sum", "mean" or "max".')
    if per_sample_weights is not None and mode != "sum":
        raise ArgumentError(f'embedding_bag: per_sample_weights with mode="{mode}"', fix='They need mode="sum".')
    if (input.ndim == 1) != (offsets is not None) or input.ndim not in (1, 2):
        raise ShapeError(
            f"embedding_bag: indices {spell_shape(input.shape)} {'with' if offsets is not None else 'without'} offsets",
            input._made(),
            "Give (bags, length), or one axis and offsets.",
        )
    flat = input.reshape(-1)
    rows = embedding(flat, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape(-1, 1)
    counts = Tensor.ones(flat.shape[0], 1, dtype=rows.dtype, device=rows.device)
    if padding_idx is not None:
        counts = (flat != row_of(padding_idx, weight)).unsqueeze(1).cast(rows.dtype)
    if offsets is None:
        return _bags(rows.reshape(*input.shape, weight.shape[1]), counts.reshape(*input.shape, 1), mode)
    begin = offsets[:-1] if include_last_offset else offsets
    bag = (begin.reshape(1, -1) <= Tensor.arange(flat.shape[0]).reshape(-1, 1)).sum(1) - 1
    return _scattered_bags(rows, counts, bag, int(begin.shape[0]), mode)


def _bags(rows: Tensor, counts: Tensor, mode: str) -> Tensor:
    """(bags, length, size) and whether each counts -> (bags, size)."""
    if not rows.shape[1]:
        return Tensor.zeros(rows.shape[0], rows.shape[2], dtype=rows.dtype, device=rows.device)
    if mode == "max":
        best = (counts > 0).where(rows, -float("inf")).max(1)
        return (counts.sum(1) > 0).where(best, 0)
    total = (rows * counts).sum(1)
    return total if mode == "sum" else total / counts.sum(1).maximum(1)


def _scattered_bags(rows: Tensor, counts: Tensor, bag: Tensor, number: int, mode: str) -> Tensor:
    """Rows, whether each counts, and its bag -> (bags, size)."""
    zeros = Tensor.zeros(number, rows.shape[1], dtype=rows.dtype, device=rows.device)
    place = bag.unsqueeze(1).expand(rows.shape)
    number_of = Tensor.zeros(number, 1, dtype=rows.dtype, device=rows.device).scatter_add(0, bag.unsqueeze(1), counts)
    if mode == "max":
        low = (counts > 0).where(rows, -float("inf"))
        return (number_of > 0).where((zeros - float("inf")).scatter_reduce(0, place, low, "amax"), 0)
    total = zeros.scatter_add(0, place, rows * counts)
    return total if mode == "sum" else total / number_of.maximum(1)
