"""Convolution in any number of dimensions: windows times weights, summed. One kernel, with bias and activation.

The transposed one spreads the elements `stride` apart and slides the weights over them, turned round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from whit.config import FROZEN, WINO
from whit.dtype import DType, dtypes
from whit.engine.devices.device import target_of
from whit.errors import ArgumentError, ShapeError
from whit.ir.op import Shape, spell_shape
from whit.kernel.forms import forms_of
from whit.tensor.core import storable, whole
from whit.tensor.methods.convolution.pooling import check_fits, each, paddings
from whit.tensor.methods.readings import two_readings
from whit.tensor.methods.reduction.reduce import sum_dtype
from whit.tensor.told import told
from whit.tensor.topic import Topic

MOST_CUT_OFF = -(2**31)  # positions of an axis, as negative padding


def _check_channels(inputs: int, weight: Shape, groups: int, made: str) -> None:
    outputs, part = weight[:2]
    if groups < 1 or inputs != part * groups or outputs % groups:
        raise ShapeError(
            f"conv2d: {inputs} input channels do not fit a weight {spell_shape(weight)} in {groups} groups",
            made,
            "The weight is (out, in / groups, *window), and groups divides out.",
        )


class Convolutions(Topic):
    """Channels are axis 1, space the axes after it; any number of them."""

    __slots__ = ()

    @two_readings("bias", "stride", "padding", "dilation", "groups")
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
        """(batch, in, *space) with (out, in / groups, *window) -> (batch, out, *space). Sums as in `dot`.

        `padding`: a number, one for each axis, (before, after) for each, PyTorch's flat list, "same" or "valid".
        Negative padding cuts off.
        """
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
        groups = whole("conv2d", "groups", groups, made)
        _check_channels(self.shape[1], kernels.shape, groups, made)
        outputs = kernels.shape[0]
        offset = self._bias("conv2d", bias, outputs)
        left, right = self._together("conv2d", (kernels,))
        narrow = left.dtype if dtype is None else storable("conv2d", dtype)
        wide = sum_dtype(narrow)
        kernel = kernels.shape[2:]
        steps, gaps = each("conv2d", "stride", stride, count), each("conv2d", "dilation", dilation, count)
        pads = paddings("conv2d", padding, kernel, steps, gaps, MOST_CUT_OFF)
        if any(min(pair) < 0 for pair in pads):  # cuts off
            left, pads = left.pad([(0, 0), (0, 0), *pads]), [(0, 0)] * count
        around = tuple(size + before + after for size, (before, after) in zip(left.shape[2:], pads, strict=True))
        check_fits("conv2d", self, kernel, gaps, around)
        from whit.tensor.graphs.convolution.convolve import NEVER, Sliding, convolve  # lazy: six modules of algorithms

        forms = forms_of(target_of(self.device), is_frozen=bool(FROZEN))
        fewer = int(WINO) if WINO >= 0 or forms.has_transforms else NEVER
        slide = Sliding(steps, gaps, groups, tuple(left.shape[2:]), tuple(kernel), tuple(pads), fewer, forms)
        total = convolve(left.uop.cast(wide), right.uop.cast(wide), slide)
        result = self._wrap(total.cast(narrow) if narrow.is_float or dtype is not None else total)
        if offset is None:
            return result
        said = {"groups": groups, "stride": steps, "dilation": gaps, "padding": pads, "kernel": kernel}
        return told("conv", result + offset.reshape((1, outputs, *(1,) * count)), left, kernels, offset, **said)

    def _bias(self, name: str, bias: Any, outputs: int) -> Self | None:
        """One number for each output channel."""
        if bias is None:
            return None
        offset = self._operand(name, bias)
        self._one_device(name, offset)
        if offset.numel() != outputs:
            raise ShapeError(
                f"{name}: a bias {spell_shape(offset.shape)} for {outputs} output channels",
                f"the tensor {self._made()}, the bias {offset._made()}",
                "Give one number for each output channel.",
            )
        return offset

    @two_readings("bias", "stride", "padding", "output_padding", "groups", "dilation")
    def conv_transpose2d(
        self,
        weight: Any,
        bias: Any = None,
        groups: int = 1,
        stride: Any = 1,
        dilation: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
    ) -> Self:
        """(batch, in, *space) with (in, out / groups, *window) -> (batch, out, *space): the gradient of `conv2d`.

        `padding` is cut off from the result at both ends, `output_padding` added at the end of each axis.
        """
        kernels = self._operand("conv_transpose2d", weight)
        self._one_device("conv_transpose2d", kernels)
        count = kernels.ndim - 2
        fits = count >= 1 and self.ndim == kernels.ndim and self.shape[1] == kernels.shape[0]
        if not fits or whole("conv_transpose2d", "groups", groups) < 1 or self.shape[1] % groups:
            raise ShapeError(
                f"conv_transpose2d: a tensor {spell_shape(self.shape)} and a weight {spell_shape(kernels.shape)} "
                f"in {groups} groups",
                f"the tensor {self._made()}, the weight {kernels._made()}",
                "They are (batch, in, *space) and (in, out / groups, *window), and groups divides in.",
            )
        inputs, part, *kernel = kernels.shape
        bias = self._bias("conv_transpose2d", bias, part * groups)
        steps, gaps = (
            each("conv_transpose2d", what, given, count) for what, given in (("stride", stride), ("dilation", dilation))
        )
        pads = paddings("conv_transpose2d", padding, tuple(kernel), (1,) * count, gaps)
        more = each("conv_transpose2d", "output_padding", output_padding, count)
        if any(extra and extra >= max(s, d) for extra, s, d in zip(more, steps, gaps, strict=True)):
            raise ArgumentError(
                f"conv_transpose2d: output_padding {more} with stride {steps} and dilation {gaps}",
                self._made(),
                "It must be smaller than the stride or the dilation.",
            )
        ends = zip(self.shape[2:], steps, gaps, kernel, pads, more, strict=True)
        sizes = tuple([(n - 1) * s - sum(p) + d * (k - 1) + 1 + extra for n, s, d, k, p, extra in ends])
        said = {"groups": groups, "stride": steps, "dilation": gaps, "padding": pads, "output_padding": more}
        if self._is_gathered(kernels, sizes, steps, pads):
            result = self._by_residues(kernels, sizes, steps, gaps, groups, pads)
            result = result if bias is None else result + bias.reshape((1, part * groups, *(1,) * count))
            return told("conv_transpose", result, self, kernels, bias, **said)
        flipped = kernels.reshape((groups, inputs // groups, part, *kernel)).transpose(1, 2)
        flipped = flipped.reshape((groups * part, inputs // groups, *kernel)).flip(tuple(range(2, 2 + count)))
        reach = [d * (k - 1) for k, d in zip(kernel, gaps, strict=True)]
        around = [(r - before, r - after + extra) for r, (before, after), extra in zip(reach, pads, more, strict=True)]
        spread = self._spread_out(steps).pad([(0, 0), (0, 0), *around])
        result = spread.conv2d(flipped, bias, groups=groups, dilation=gaps)
        return told("conv_transpose", result, self, kernels, bias, **said)

    def _by_residues(
        self,
        weight: Self,
        sizes: tuple[int, ...],
        steps: tuple[int, ...],
        gaps: tuple[int, ...],
        groups: int,
        pads: Sequence[tuple[int, int]],
    ) -> Self:
        """The transposed convolution as the gradient of a convolution."""
        from whit.tensor.graphs.convolution.convolve import NEVER, Sliding, gradient_of_input  # lazy: as above

        forms = forms_of(target_of(self.device), is_frozen=bool(FROZEN))
        fewer = int(WINO) if WINO >= 0 or forms.has_transforms else NEVER
        slide = Sliding(steps, gaps, groups, sizes, tuple(weight.shape[2:]), tuple(pads), fewer, forms)
        return self._wrap(gradient_of_input(self.uop, weight.uop, slide))

    def _is_gathered(
        self, weight: Self, sizes: tuple[Any, ...], steps: tuple[int, ...], pads: Sequence[tuple[int, int]]
    ) -> bool:
        """Whether a transposed convolution is computed for each remainder of positions by the strides: no kernel reads
        zeros between elements."""
        is_spread = any(step > 1 for step in steps)
        is_known = all(isinstance(size, int) and size > 0 for size in (*self.shape, *weight.shape, *sizes))
        is_plain = self.dtype is weight.dtype is dtypes.float32 and all(min(pair) >= 0 for pair in pads)
        return is_spread and is_known and is_plain and forms_of(target_of(self.device)).has_residues

    def _spread_out(self, steps: tuple[int, ...]) -> Self:
        """Zeros between the elements of the last axes: n -> (n - 1) * step + 1."""
        x = self
        for axis, step in enumerate(steps, self.ndim - len(steps)):
            size = x.shape[axis]
            if step == 1 or size == 0:
                continue
            rest = x.ndim - axis
            x = x.unsqueeze(axis + 1).pad([*[(0, 0)] * (axis + 1), (0, step - 1), *[(0, 0)] * (rest - 1)])
            x = x.flatten(axis, axis + 1)
            x = x.shrink([(0, (size - 1) * step + 1) if i == axis else None for i in range(x.ndim)])
        return x
