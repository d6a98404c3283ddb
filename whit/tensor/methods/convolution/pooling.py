"""Pooling: windows that slide over axes (`sliding.py`), and a reduction over them."""

from __future__ import annotations

from math import prod
from typing import Any, Self

from whit.config import FROZEN
from whit.dtype import dtypes, least_upper_float
from whit.engine.devices.device import target_of
from whit.errors import ArgumentError, ShapeError
from whit.ir import ops
from whit.ir.op import spell_shape
from whit.ir.uop import UOp, const
from whit.kernel.forms import forms_of
from whit.tensor.core import Core, broadcast_scalar, expand_to
from whit.tensor.graphs.convolution.sliding import windows
from whit.tensor.graphs.softmax import reduced
from whit.tensor.methods.readings import two_readings
from whit.tensor.methods.reduction.reduce import sum_dtype
from whit.tensor.told import told
from whit.tensor.topic import Topic

Pads = list[tuple[int, int]]

FEW_CHANNELS = 8  # below which an image does not gain by lying with channels last


def each(name: str, what: str, value: Any, count: int, least: int | None = None) -> tuple[int, ...]:
    """One number for all axes, or one for each."""
    values = tuple(value) if isinstance(value, tuple | list) else (value,) * count
    if least is None:
        least = 0 if what in ("padding", "output_padding") else 1
    if len(values) != count or any(not isinstance(v, int) or v < least for v in values):
        raise ArgumentError(
            f"{name}: {what}={value!r} for {count} axes",
            fix=f"Give a number of at least {least}, or one for each axis.",
        )
    return values


def paddings(
    name: str,
    padding: Any,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    least: int = 0,
) -> Pads:
    """One number; one for each axis; (before, after) for each axis; the same as one list, last axis first; or a word.

    "valid" is none at all, "same" what keeps the sizes, the odd one after. `least` is what a number is not below.
    """
    count = len(kernel)
    if padding == "valid":
        return [(0, 0)] * count
    if padding == "same":
        return _same_sizes(name, kernel, stride, dilation)
    if isinstance(padding, str):
        raise ArgumentError(f"{name}: there is no padding {padding!r}", fix='Use numbers, "same" or "valid".')
    given = padding if isinstance(padding, tuple | list) else ()
    if len(given) == count and all(isinstance(p, tuple | list) for p in given):
        pairs = [each(name, "padding", pair, 2, least) for pair in given]
        return [(before, after) for before, after in pairs]
    if count and len(given) == 2 * count:
        flat = each(name, "padding", given, 2 * count, least)
        return [(flat[i], flat[i + 1]) for i in range(0, 2 * count, 2)][::-1]
    return [(p, p) for p in each(name, "padding", padding, count, least)]


def _same_sizes(name: str, kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]) -> Pads:
    """The padding that keeps the sizes."""
    if any(s != 1 for s in stride):
        raise ArgumentError(f'{name}: padding="same" and stride {stride}', fix="The stride must be 1.")
    totals = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    return [(total // 2, total - total // 2) for total in totals]


def check_fits(
    name: str, tensor: Core, kernel: tuple[int, ...], dilation: tuple[int, ...], sizes: tuple[int, ...]
) -> None:
    """A window is no larger than the padded axes."""
    for size, k, d in zip(sizes, kernel, dilation, strict=True):
        if size < d * (k - 1) + 1:
            raise ShapeError(
                f"{name}: a window of {kernel} (dilation {dilation}) is larger than {sizes}, the padded axes",
                f"the tensor, {spell_shape(tensor.shape)}, {tensor._made()}",
                "Pad more, or use a smaller window.",
            )


class Pooling(Topic):
    """Channels are axis 1, space the axes after it; any number of them."""

    __slots__ = ()

    def _pool_plan(
        self, name: str, kernel_size: Any, stride: Any, dilation: Any, padding: Any, ceil_mode: bool
    ) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], Pads, Pads]:
        """Window, stride, dilation, the user's padding, and what rounding up adds at the end."""
        kernel = tuple(kernel_size) if isinstance(kernel_size, tuple | list) else (kernel_size, kernel_size)
        count = len(kernel)
        if self.ndim < count:
            raise ShapeError(
                f"{name}: {count} window axes for a tensor {spell_shape(self.shape)}", self._made(), "Add axes."
            )
        each(name, "kernel_size", kernel, count)
        steps = kernel if stride is None else each(name, "stride", stride, count)
        gaps = each(name, "dilation", dilation, count)
        pads = paddings(name, padding, kernel, steps, gaps)
        space = tuple(n + sum(pair) for n, pair in zip(self.shape[self.ndim - count :], pads, strict=True))
        check_fits(name, self, kernel, gaps, space)
        for k, d, pair in zip(kernel, gaps, pads, strict=True):
            if max(pair) > d * (k - 1):
                raise ArgumentError(
                    f"{name}: padding {pair} for a window of {k} (dilation {d}): some windows hold padding alone",
                    self._made(),
                    "Pad less than the window is long.",
                )
        extra = [(0, 0)] * count
        if ceil_mode:
            for i, (n, k, s, d) in enumerate(zip(space, kernel, steps, gaps, strict=True)):
                o = -(-(n - d * (k - 1) - 1) // s) + 1
                if (o - 1) * s >= n - pads[i][1]:  # a window must start inside, or in the padding before
                    o -= 1
                extra[i] = (0, max((o - 1) * s + d * (k - 1) + 1 - n, 0))
        return kernel, steps, gaps, pads, extra

    @two_readings("stride", "padding", "ceil_mode", "count_include_pad", "divisor_override")
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
            mean = self._wrap((total / float(prod(kernel))).cast(least_upper_float(self.uop.dtype)))
            return told("avg_pool", mean, self, kernel=kernel, stride=steps, dilation=gaps, padding=pads)
        number = UOp.const(dtypes.weakint, 1)
        outputs = total.shape[lead:]
        for i, (n, o) in enumerate(zip(self.shape[lead:], outputs, strict=True)):
            before, after = pads[i]
            inside = (0, n + before + after) if count_include_pad else (before, n)
            counted = _counted(o, kernel[i], steps[i], gaps[i], *inside)
            alone = counted.reshape(tuple(o if j == i else 1 for j in range(count)))
            number = number * alone.expand(outputs)
        return self._wrap(
            (total / expand_to(number.cast(x.dtype), total.shape)).cast(least_upper_float(self.uop.dtype))
        )

    @two_readings("stride", "padding", "dilation", "ceil_mode", "return_indices")
    def max_pool2d(
        self,
        kernel_size: Any = (2, 2),
        stride: Any = None,
        dilation: Any = 1,
        padding: Any = 0,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        """The largest of each window of the last axes; stride None is the window's size.

        With `return_indices` also where it is: its place among all positions of these axes, row by row.
        """
        plan = self._pool_plan("max_pool2d", kernel_size, stride, dilation, padding, ceil_mode)
        kernel, steps, gaps, pads, extra = plan
        both = [(before, after + more) for (before, after), (_, more) in zip(pads, extra, strict=True)]
        if not return_indices and gaps == (1, 1) and self._gathers(kernel, steps):
            from whit.tensor.graphs.convolution.max_pool import max_pool_of_images  # lazy: an algorithm

            forms = forms_of(target_of(self.device), is_frozen=bool(FROZEN))
            is_last = forms.keeps_weights and self.dtype is dtypes.float32 and self.shape[1] >= FEW_CHANNELS
            return self._wrap(max_pool_of_images(self.uop, kernel, steps, tuple(both), is_last))
        x = _padded(self.uop, both)
        if any(map(any, both)):
            inside = _padded(broadcast_scalar(const(dtypes.bool, True), self.shape), both)
            x = inside.where(x, const(x.dtype, x.dtype.min))
        op = ops.OR if self.dtype.is_bool else ops.MAX
        best = _pooled(x, kernel, steps, gaps, op)
        if not return_indices:
            return self._wrap(best)
        return self._wrap(best), self._wrap(self._first_places(x, best, both, plan))

    def _gathers(self, kernel: tuple[int, ...], steps: tuple[int, ...]) -> bool:
        """Whether the gradient of max pooling reads windows of images."""
        forms = forms_of(target_of(self.device), is_frozen=bool(FROZEN))
        is_of_images = self.ndim == 4 and all(isinstance(size, int) and size for size in self.shape)
        if not is_of_images or not self.dtype.is_float:
            return False
        overlaps = any(size > step for size, step in zip(kernel, steps, strict=True))
        return (
            forms.pools_gather
            or forms.keeps_weights
            or (forms.overlaps_gather and overlaps and self.dtype not in dtypes.float16s)
        )

    @two_readings("stride", "padding", "output_size")
    def max_unpool2d(
        self,
        indices: Any,
        kernel_size: Any = (2, 2),
        stride: Any = None,
        dilation: Any = 1,
        padding: Any = 0,
        output_size: Any = None,
    ) -> Self:
        """Each element at the place that `max_pool2d` found it, zeros elsewhere; of equal places the last one counts.

        `output_size`: the sizes of the last axes, where they are not those that one window after the other would give.
        """
        places = self._operand("max_unpool2d", indices)
        self._one_device("max_unpool2d", places)
        kernel = tuple(kernel_size) if isinstance(kernel_size, tuple | list) else (kernel_size, kernel_size)
        count = len(kernel)
        lead, space = self.shape[: self.ndim - count], self.shape[self.ndim - count :]
        if places.shape != self.shape or not places.dtype.is_int or self.ndim < count:
            raise ShapeError(
                f"max_unpool2d: values {spell_shape(self.shape)} and places {spell_shape(places.shape)} of "
                f"{places.dtype.name} for a window of {count} axes",
                f"values {self._made()}, places {places._made()}",
                "Use what max_pool2d(return_indices=True) gave.",
            )
        steps = kernel if stride is None else each("max_unpool2d", "stride", stride, count)
        gaps = each("max_unpool2d", "dilation", dilation, count)
        pads = paddings("max_unpool2d", padding, kernel, steps, gaps)
        sizes = tuple(
            (n - 1) * s - sum(pair) + d * (k - 1) + 1
            for n, k, s, d, pair in zip(space, kernel, steps, gaps, pads, strict=True)
        )
        if output_size is not None:
            sizes = each("max_unpool2d", "output_size", tuple(output_size)[-count:], count)
        number = prod(sizes)
        place = places.uop.cast(dtypes.weakint).reshape((prod(lead), prod(space)))
        row = UOp.arange(prod(lead)).reshape((prod(lead), 1)).expand(place.shape)
        inside = (place >= 0) & (place < number)
        empty = broadcast_scalar(const(self.dtype, 0), (prod(lead), number))
        values = self.uop.reshape(place.shape)
        filled = empty.after(empty.store(values, row, place, gate=inside))
        return self._wrap(filled.reshape((*lead, *sizes)))

    def _first_places(self, x: UOp, best: UOp, pads: Pads, plan: Any) -> UOp:
        """Where in each window its first largest element or NaN is: the number of the position in the whole space."""
        kernel, steps, gaps, *_ = plan
        count = len(kernel)
        space = self.shape[self.ndim - count :]
        dtype = dtypes.default_int
        number = prod(space)
        place = UOp.arange(number, dtype).reshape(space)
        if any(map(sum, pads)):
            inside = broadcast_scalar(const(dtypes.bool, True), space).pad(pads)
            place = inside.where(place.pad(pads), const(dtype, number))
        seen = windows(x, kernel, steps, gaps)
        around = (*best.shape, *(1,) * count)
        hit = seen.eq(best.reshape(around).expand(seen.shape))
        hit = hit | seen.ne(seen) if x.dtype.is_float else hit
        places = expand_to(windows(place, kernel, steps, gaps), seen.shape)
        rank = len(seen.shape)
        return reduced(hit.where(places, const(dtype, number)), ops.MIN, tuple(range(rank - count, rank)))


def _padded(x: UOp, pads: Pads) -> UOp:
    """Zeros around the last axes."""
    if not any(map(any, pads)):
        return x
    return x.pad([(0, 0)] * (len(x.shape) - len(pads)) + pads)


def _counted(outputs: int, k: int, s: int, d: int, start: int, size: int) -> UOp:
    """How many elements of each window lie in the `size` positions from `start` on."""
    first = UOp.arange(outputs) * s - start  # of the window, as seen from there
    below = ((-first).maximum(0) + (d - 1)) // d  # elements of the window before it
    upto = ((first * -1 + (size - 1)) // d).minimum(k - 1)
    return upto - below + 1


def _pooled(x: UOp, kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...], op: Any) -> UOp:
    x = windows(x, kernel, stride, dilation)
    rank = len(x.shape)
    return reduced(x, op, tuple(range(rank - len(kernel), rank)))
