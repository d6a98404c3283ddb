"""Layers that learn the number of their inputs from the first one, and are ordinary layers from then on.

    layer = nn.LazyLinear(10)
    layer(Tensor.rand(4, 784))       # nn.Linear(784, 10)

They have no parameters before: call the model once before an optimiser is made, or a state is loaded.
"""

from __future__ import annotations

from typing import Any, ClassVar

from whit.errors import ShapeError
from whit.ir.op import spell_shape
from whit.nn.linear import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, Linear
from whit.nn.module import Module
from whit.nn.norm import BatchNorm1d, BatchNorm2d, BatchNorm3d, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from whit.tensor import Tensor


class _Lazy(Module):
    """Keeps what the layer is made of, until the first call."""

    becomes: ClassVar[type[Module]]  # the layer
    axes: ClassVar[int] = 0  # after that of the inputs; 0 where it is the last one

    def __init__(self, *args: Any, **given: Any) -> None:
        self._given = (args, given)

    def _inputs(self, x: Tensor) -> int:
        """How many inputs there are."""
        axis = -1 - self.axes
        if x.ndim < 1 + self.axes:
            raise ShapeError(
                f"{type(self).__name__}: {spell_shape(x.shape)}", x._made(), f"It has {1 + self.axes} axes at least."
            )
        return int(x.shape[axis])

    def __call__(self, x: Tensor, *args: Any) -> Any:
        """What the layer gives, which this is from now on."""
        inputs = self._inputs(x)
        positional, named = vars(self).pop("_given")
        self.__class__ = self.becomes  # type: ignore[assignment]
        self.__init__(inputs, *positional, **named)  # type: ignore[misc]  # that of the layer
        return self(x, *args)

    def extra_repr(self) -> str:
        """What is known of it."""
        positional, named = self._given
        return ", ".join([*map(repr, positional), *[f"{name}={value!r}" for name, value in named.items()]])

    def has_uninitialized_params(self) -> bool:
        """Whether it was called already: no."""
        return True


class _LazyNorm(_Lazy):
    """The channels are axis 1, or the first one where the batch may be missing."""

    def _inputs(self, x: Tensor) -> int:
        return int(x.shape[1]) if x.ndim > 1 else super()._inputs(x)


class LazyLinear(_Lazy):
    """Linear(inputs, out_features, bias)."""

    becomes = Linear


class LazyConv1d(_Lazy):
    """Conv1d(inputs, out_channels, kernel_size, ...)."""

    becomes, axes = Conv1d, 1


class LazyConv2d(_Lazy):
    """Conv2d(inputs, out_channels, kernel_size, ...)."""

    becomes, axes = Conv2d, 2


class LazyConv3d(_Lazy):
    """Conv3d(inputs, out_channels, kernel_size, ...)."""

    becomes, axes = Conv3d, 3


class LazyConvTranspose1d(_Lazy):
    """ConvTranspose1d(inputs, out_channels, kernel_size, ...)."""

    becomes, axes = ConvTranspose1d, 1


class LazyConvTranspose2d(_Lazy):
    """ConvTranspose2d(inputs, out_channels, kernel_size, ...)."""

    becomes, axes = ConvTranspose2d, 2


class LazyConvTranspose3d(_Lazy):
    """ConvTranspose3d(inputs, out_channels, kernel_size, ...)."""

    becomes, axes = ConvTranspose3d, 3


class LazyBatchNorm1d(_LazyNorm):
    """BatchNorm1d(inputs, ...)."""

    becomes = BatchNorm1d


class LazyBatchNorm2d(_LazyNorm):
    """BatchNorm2d(inputs, ...)."""

    becomes = BatchNorm2d


class LazyBatchNorm3d(_LazyNorm):
    """BatchNorm3d(inputs, ...)."""

    becomes = BatchNorm3d


class LazyInstanceNorm1d(_Lazy):
    """InstanceNorm1d(inputs, ...)."""

    becomes, axes = InstanceNorm1d, 1


class LazyInstanceNorm2d(_Lazy):
    """InstanceNorm2d(inputs, ...)."""

    becomes, axes = InstanceNorm2d, 2


class LazyInstanceNorm3d(_Lazy):
    """InstanceNorm3d(inputs, ...)."""

    becomes, axes = InstanceNorm3d, 3
