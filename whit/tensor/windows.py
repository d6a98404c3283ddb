"""Convolution and pooling: windows that slide over axes (`sliding.py`), and a reduction over them."""

from __future__ import annotations

from math import prod
from typing import Any, Self

from whit.dtype import DType, dtypes, least_upper_float
from whit.errors import ArgumentError, NotSupportedError, ShapeError
from whit.ir import ops
from whit.ir.op import spell_shape
from whit.ir.uop import UOp, const
from whit.tensor.core import expand_to, spread, storable
from whit.tensor.einsum import Einsum
from whit.tensor.reduce import reduced, sum_dtype
from whit.tensor.sliding import windows

Pads = list[tuple[int, int]]


def _each(name: str, what: str, value: Any, count: int) -> tuple[int, ...]:
    """One number for all axes, or one for each."""
    values = (value,) * count if isinstance(value, int) else tuple(value)
    least = 0 if what == "padding" else 1
    if len(values) != count or any(not isinstance(v, int) or v < least for v in values):
        raise ArgumentError(
            f"{name}: {what}={value!r} for {count} axes",
            fix=f"Give a number of at least {least}, or one for each axis.",
        )
    return values


def _pads(name: str, padding: Any, count: int) -> Pads:
    """One number, one for each axis, or (before, after) of the last axis, then of the one before, ..."""
    if not isinstance(padding, int) and len(padding) == 2 * count and count:
        flat = _each(name, "padding", padding, 2 * count)
        return [(flat[i], flat[i + 1]) for i in range(0, 2 * count, 2)][::-1]
    return [(p, p) for p in _each(name, "padding", padding, count)]


class Windows(Einsum):
    """Channels are axis 1, space the axes after it; any number of them."""

    __slots__ = ()

    def _fits(self, name: str, kernel: tuple[int, ...], dilation: tuple[int, ...], sizes: tuple[int, ...]) -> None:
        for size, k, d in zip(sizes, kernel, dilation, strict=True):
            if size < d * (k - 1) + 1:
                raise ShapeError(
                    f"{name}: a window of {kernel} (dilation {dilation}) is larger than {sizes}, the padded axes",
                    f"the tensor, {spell_shape(self.shape)}, {self._made()}",
                    "Pad more, or use a smaller window.",
                )

    def conv2d(
        self,
        weight: Any,
        bias: Any = None,
        groups: int = 1,
        stride: Any = 1,
        dilation: Any = 1,
        padding: Any = 0,
        dtype: DType | str | None = None,
    ) -> Self:
        """(batch, in, *space) with (out, in / groups, *window) -> (batch, out, *space). Sums as in `dot`."""
        kernels = self._operand("conv2d", weight)
        self._one_device("conv2d", kernels)
        count = kernels.ndim - 2
        made = f"the tensor {self._made()}, the weight {kernels._made()}"
        if count < 1 or self.ndim != kernels.ndim:
            raise ShapeError(
                f"conv2d: a tensor {spell_shape(self.shape)} and a weight {spell_shape(kernels.shape)}",
                made,
                "Both need the same number of axes: (batch, in, *space) and (out, in / groups, *window).",
            )
        batch, inputs = self.shape[:2]
        outputs, part = kernels.shape[:2]
        if inputs != part * groups or outputs % groups:
            raise ShapeError(
                f"conv2d: {inputs} input channels do not fit a weight {spell_shape(kernels.shape)} in {groups} groups",
                made,
                "The weight is (out, in / groups, *window), and groups divides out.",
            )
        left, right = self._together("conv2d", (kernels,))
        narrow = left.dtype if dtype is None else storable("conv2d", dtype)
        wide = sum_dtype(narrow)
        kernel = kernels.shape[2:]
        steps, gaps = _each("conv2d", "stride", stride, count), _each("conv2d", "dilation", dilation, count)
        pads = _pads("conv2d", padding, count)
        x = left.pad([(0, 0), (0, 0), *pads]).uop.cast(wide)
        self._fits("conv2d", kernel, gaps, x.shape[2:])
        x = windows(x, kernel, steps, gaps)  # (batch, in, *space, *window)
        space = x.shape[2 : 2 + count]
        full = (batch, groups, outputs // groups, *space, part, *kernel)
        x = x.reshape((batch, groups, part, *space, *kernel))
        last = range(3 + count, 3 + 2 * count)
        x = x.permute((0, 1, *range(3, 3 + count), 2, *last))
        x = x.reshape((batch, groups, 1, *space, part, *kernel)).expand(full)
        w = right.uop.cast(wide).reshape((1, groups, outputs // groups, *(1,) * count, part, *kernel)).expand(full)
        total = (x * w).reduce(ops.ADD, tuple(range(3 + count, 4 + 2 * count))).reshape((batch, outputs, *space))
        result = self._wrap(total.cast(narrow) if narrow.is_float or dtype is not None else total)
        if bias is None:
            return result
        return result + self._operand("conv2d", bias).reshape((1, outputs, *(1,) * count))

    def _pool_plan(
        self, name: str, kernel_size: Any, stride: Any, dilation: Any, padding: Any, ceil_mode: bool
    ) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], Pads, Pads]:
        """Window, stride, dilation, the user's padding, and what rounding up adds at the end."""
        kernel = (kernel_size, kernel_size) if isinstance(kernel_size, int) else tuple(kernel_size)
        count = len(kernel)
        if self.ndim < count:
            raise ShapeError(
                f"{name}: {count} window axes for a tensor {spell_shape(self.shape)}", self._made(), "Add axes."
            )
        _each(name, "kernel_size", kernel, count)
        steps = kernel if stride is None else _each(name, "stride", stride, count)
        gaps = _each(name, "dilation", dilation, count)
        pads = _pads(name, padding, count)
        space = tuple(n + sum(pair) for n, pair in zip(self.shape[self.ndim - count :], pads, strict=True))
        self._fits(name, kernel, gaps, space)
        extra = [(0, 0)] * count
        if ceil_mode:
            for i, (n, k, s, d) in enumerate(zip(space, kernel, steps, gaps, strict=True)):
                o = -(-(n - d * (k - 1) - 1) // s) + 1
                if (o - 1) * s >= n - pads[i][1]:  # a window must start inside, or in the padding before
                    o -= 1
                extra[i] = (0, max((o - 1) * s + d * (k - 1) + 1 - n, 0))
        return kernel, steps, gaps, pads, extra

    def avg_pool2d(
        self,
        kernel_size: Any = (2, 2),
        stride: Any = None,
        dilation: Any = 1,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> Self:
        """The mean of each window of the last axes; stride None is the window's size."""
        plan = self._pool_plan("avg_pool2d", kernel_size, stride, dilation, padding, ceil_mode)
        kernel, steps, gaps, pads, extra = plan
        count = len(kernel)
        lead = self.ndim - count
        x = self.uop.cast(sum_dtype(least_upper_float(self.uop.dtype)))
        both = [(before, after + more) for (before, after), (_, more) in zip(pads, extra, strict=True)]
        total = _pooled(_padded(x, both), kernel, steps, gaps, ops.ADD)
        if not any(more for _, more in extra) and (count_include_pad or not any(map(sum, pads))):
            return self._wrap((total / float(prod(kernel))).cast(least_upper_float(self.uop.dtype)))
        ones = spread(const(x.dtype, 1.0), self.shape[lead:])
        if count_include_pad:
            ones = spread(const(x.dtype, 1.0), tuple(n + sum(p) for n, p in zip(ones.shape, pads, strict=True)))
            both = extra
        number = _pooled(_padded(ones, both), kernel, steps, gaps, ops.ADD)
        return self._wrap((total / expand_to(number, total.shape)).cast(least_upper_float(self.uop.dtype)))

    def max_pool2d(
        self,
        kernel_size: Any = (2, 2),
        stride: Any = None,
        dilation: Any = 1,
        padding: Any = 0,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Self:
        """The largest of each window of the last axes; stride None is the window's size."""
        if return_indices:
            raise NotSupportedError("max_pool2d: return_indices is not there yet", self._made(), "Leave it out.")
        plan = self._pool_plan("max_pool2d", kernel_size, stride, dilation, padding, ceil_mode)
        kernel, steps, gaps, pads, extra = plan
        both = [(before, after + more) for (before, after), (_, more) in zip(pads, extra, strict=True)]
        x = _padded(self.uop, both)
        if any(pad for pair in both for pad in pair):
            inside = _padded(spread(const(dtypes.bool, True), self.shape), both)
            x = inside.where(x, const(x.dtype, x.dtype.min))
        return self._wrap(_pooled(x, kernel, steps, gaps, ops.OR if self.dtype.is_bool else ops.MAX))


def _padded(x: UOp, pads: Pads) -> UOp:
    """Zeros around the last axes."""
    if not any(pad for pair in pads for pad in pair):
        return x
    return x.pad([(0, 0)] * (len(x.shape) - len(pads)) + pads)


def _pooled(x: UOp, kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...], op: Any) -> UOp:
    x = windows(x, kernel, stride, dilation)
    rank = len(x.shape)
    return reduced(x, op, tuple(range(rank - len(kernel), rank)))
