"""Layers that put more around the last axes: numbers, mirror images, repetitions."""

from __future__ import annotations

from collections.abc import Sequence

from whit.errors import ArgumentError
from whit.nn.module import Module
from whit.tensor import Tensor


class _Pad(Module):
    """One number for all sides, or (before, after) of each axis, the last axis first."""

    axes = 1
    mode = "constant"

    def __init__(self, padding: int | Sequence[int]) -> None:
        self.padding = (padding,) * (2 * self.axes) if isinstance(padding, int) else tuple(padding)
        if len(self.padding) != 2 * self.axes:
            raise ArgumentError(
                f"{type(self).__name__}: padding={padding!r} for {self.axes} axes",
                fix="Give one number, or two for each axis, the last axis first.",
            )

    def __call__(self, x: Tensor) -> Tensor:
        return x.pad(self.padding, self.mode)


class ConstantPad1d(_Pad):
    """A number around the last axis."""

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def __call__(self, x: Tensor) -> Tensor:
        return x.pad(self.padding, value=self.value)


class ConstantPad2d(ConstantPad1d):
    """A number around the last two axes."""

    axes = 2


class ConstantPad3d(ConstantPad1d):
    """A number around the last three axes."""

    axes = 3


class ZeroPad1d(_Pad):
    """Zeros around the last axis."""

    axes = 1


class ZeroPad2d(_Pad):
    """Zeros around the last two axes."""

    axes = 2


class ZeroPad3d(_Pad):
    """Zeros around the last three axes."""

    axes = 3


class ReflectionPad1d(_Pad):
    """The mirror image around the last axis."""

    axes = 1
    mode = "reflect"


class ReflectionPad2d(_Pad):
    """The mirror image around the last two axes."""

    axes = 2
    mode = "reflect"


class ReflectionPad3d(_Pad):
    """The mirror image around the last three axes."""

    axes = 3
    mode = "reflect"


class ReplicationPad1d(_Pad):
    """The outermost elements around the last axis."""

    axes = 1
    mode = "replicate"


class ReplicationPad2d(_Pad):
    """The outermost elements around the last two axes."""

    axes = 2
    mode = "replicate"


class ReplicationPad3d(_Pad):
    """The outermost elements around the last three axes."""

    axes = 3
    mode = "replicate"


class CircularPad1d(_Pad):
    """What is at the other end, around the last axis."""

    axes = 1
    mode = "circular"


class CircularPad2d(_Pad):
    """What is at the other end, around the last two axes."""

    axes = 2
    mode = "circular"


class CircularPad3d(_Pad):
    """What is at the other end, around the last three axes."""

    axes = 3
    mode = "circular"
