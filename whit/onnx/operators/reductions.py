"""Reductions: axes into one number, the place of the largest, running sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from whit.dtype import DType, dtypes
from whit.onnx.operators.registry import Node, Value, axis_of, given_ints, host_int_list, operator, positive_axes
from whit.tensor import Tensor

SUM_AXES: Final = 13  # the version since which sums take their axes as an input; the others since 18


def reduction(op_type: str, function: Callable[[Tensor, tuple[int, ...], bool], Tensor], since: Sequence[int]) -> None:
    """One row of a table: axes as an input or an attribute; none of them are all, or with the attribute nothing."""

    def reduce(node: Node, x: Tensor, axes: Value = None) -> Tensor:
        given = given_ints(node, "axes", axes)
        if not given and node.get("noop_with_empty_axes", 0):
            return x if op_type in _NO_MAP else function(x.unsqueeze(0), (0,), False)
        chosen = positive_axes(node, given, x.ndim) if given else tuple(range(x.ndim))
        return function(x, chosen, bool(node.get("keepdims", 1))).cast(x.dtype)

    operator(op_type, since, host=(1,))(reduce)


_NO_MAP: Final = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd")


def log_sum(x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
    """The logarithm of a sum."""
    return x.sum(axes, keep).log()


def _wide(dtype: DType) -> DType:
    return dtype if dtype.is_float else dtypes.float64


def root_of_squares(x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
    """The Euclidean norm."""
    return x.cast(_wide(x.dtype)).square().sum(axes, keep).sqrt()


def log_sum_exp(x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
    """Without overflow."""
    return x.cast(_wide(x.dtype)).logsumexp(axes, keep)


def average(x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
    """The mean; of integers cut off."""
    return x.mean(axes, keep)


def _of_nothing(x: Tensor, axes: tuple[int, ...], keep: bool, value: Any) -> Tensor:
    sizes = [1 if i in axes else n for i, n in enumerate(x.shape) if keep or i not in axes]
    return Tensor.full(tuple(sizes), value, dtype=x.dtype, device=x.device)


def largest(x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
    """Of no elements the smallest number there is."""
    return _of_nothing(x, axes, keep, x.dtype.min) if x.numel() == 0 else x.max(axes, keep)


def smallest(x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
    """Of no elements the largest number there is."""
    return _of_nothing(x, axes, keep, x.dtype.max) if x.numel() == 0 else x.min(axes, keep)


_FEW: Final = (1, 11, 13, 18)
reduction("ReduceSum", lambda x, axes, keep: x.sum(axes, keep), (1, 11, 13))
reduction("ReduceMean", average, _FEW)
reduction("ReduceProd", lambda x, axes, keep: x.prod(axes, keep), _FEW)
reduction("ReduceMax", largest, (1, 11, 12, 13, 18, 20))
reduction("ReduceMin", smallest, (1, 11, 12, 13, 18, 20))
reduction("ReduceL1", lambda x, axes, keep: x.abs().sum(axes, keep), _FEW)
reduction("ReduceL2", root_of_squares, _FEW)
reduction("ReduceLogSum", log_sum, _FEW)
reduction("ReduceLogSumExp", log_sum_exp, _FEW)
reduction("ReduceSumSquare", lambda x, axes, keep: x.square().sum(axes, keep), _FEW)


def _place(node: Node, x: Tensor, find: Callable[..., Tensor]) -> Tensor:
    axis, keep = axis_of(node, x, 0), bool(node.get("keepdims", 1))
    if not node.get("select_last_index", 0):
        return find(x, axis, keep).cast(dtypes.int64)
    result: Tensor = (x.shape[axis] - 1 - find(x.flip(axis), axis, keep)).cast(dtypes.int64)
    return result


@operator("ArgMax", since=(1, 11, 12, 13))
def arg_max(node: Node, x: Tensor) -> Tensor:
    """Where the largest is: the first, or with `select_last_index` the last."""
    return _place(node, x, Tensor.argmax)


@operator("ArgMin", since=(1, 11, 12, 13))
def arg_min(node: Node, x: Tensor) -> Tensor:
    """Where the smallest is: the first, or with `select_last_index` the last."""
    return _place(node, x, Tensor.argmin)


def _running(node: Node, x: Tensor, axis: Value, function: Callable[..., Tensor], start: int) -> Tensor:
    """From the front or the back; with `exclusive` without the element itself."""
    (at,) = positive_axes(node, host_int_list(axis), x.ndim)
    turned = x.flip(at) if node.get("reverse", 0) else x
    if node.get("exclusive", 0):
        kept = turned.shrink([(0, max(n - 1, 0)) if i == at else (0, n) for i, n in enumerate(x.shape)])
        turned = kept.pad([(min(1, n), 0) if i == at else (0, 0) for i, n in enumerate(x.shape)], value=start)
    total = function(turned, at).cast(x.dtype)
    return total.flip(at) if node.get("reverse", 0) else total


@operator("CumSum", since=(11, 14), host=(1,))
def cumulative_sum(node: Node, x: Tensor, axis: Value) -> Tensor:
    """Running sums."""
    return _running(node, x, axis, Tensor.cumsum, 0)


@operator("CumProd", since=(26,), host=(1,))
def cumulative_product(node: Node, x: Tensor, axis: Value) -> Tensor:
    """Running products."""
    return _running(node, x, axis, Tensor.cumprod, 1)
