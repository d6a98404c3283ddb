"""Convolutions of few channels as ones of many: taps become channels.

    x (b, 3, 224, 224), 7 x 7 taps, stride 2      ->   (b, 2*7*3 = 42 and zeros up to 64, 115, 112)
    w (64, 3, 7, 7)                               ->   (64, 64, 4, 1)

Matrix units want 64 neighbours of one tap (`channels_last`); the three colours of a picture are not enough. A window is
cut into pieces of `stride` lines. The channels of line i of the new image, at position j, are all elements of the i-th
such piece that a window at the j-th place sees. No line is stored twice, and the window over the new image is one wide,
at stride 1.
"""

from __future__ import annotations

from whit.ir.uop import UOp
from whit.kernel.convolution_cost import CHANNELS_TOGETHER
from whit.records import dataclass
from whit.tensor.graphs.convolution.channels_last import is_half_precision
from whit.tensor.graphs.convolution.sliding import window


@dataclass(frozen=True, slots=True)
class Folding:
    """How a convolution of images is folded: what it was, and the sizes of what it becomes."""

    channels: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    across: int  # dilation along lines
    before: tuple[int, int]
    outputs: tuple[int, int]

    @property
    def taps(self) -> int:
        """Pieces of lines that a window sees."""
        return -(-self.kernel[0] // self.stride[0])

    @property
    def folded(self) -> int:
        """Channels that are made of taps."""
        return self.stride[0] * self.kernel[1] * self.channels

    @property
    def padded(self) -> int:
        """With zeros up to a whole piece."""
        return -(-self.folded // CHANNELS_TOGETHER) * CHANNELS_TOGETHER

    @property
    def sizes(self) -> tuple[int, int]:
        """Of the new image."""
        return self.outputs[0] + self.taps - 1, self.outputs[1]

    def image(self, x: UOp) -> UOp:
        """(batch, channels, h, w) -> (batch, padded, *sizes)"""
        (lines, across), (down, right) = self.sizes, self.stride
        x = _placed(x, 2, self.before[0], lines * down)
        x = _placed(x, 3, self.before[1], (across - 1) * right + (self.kernel[1] - 1) * self.across + 1)
        seen = window(x, 3, self.kernel[1], right, self.across)  # (batch, channels, lines * down, across, taps)
        seen = seen.reshape((*x.shape[:2], lines, down, across, self.kernel[1])).permute((0, 3, 5, 1, 2, 4))
        return _placed(seen.reshape((x.shape[0], self.folded, lines, across)), 1, 0, self.padded)

    def weight(self, w: UOp) -> UOp:
        """(out, channels, *kernel) -> (out, padded, taps, 1)"""
        outputs, (down, _) = w.shape[0], self.stride
        w = _placed(w, 2, 0, self.taps * down).reshape((outputs, self.channels, self.taps, down, self.kernel[1]))
        w = w.permute((0, 3, 4, 1, 2)).reshape((outputs, self.folded, self.taps, 1))
        return _placed(w, 1, 0, self.padded)

    def unfolded(self, w: UOp) -> UOp:
        """And back."""
        outputs, (down, _) = w.shape[0], self.stride
        w = _placed(w, 1, 0, self.folded).reshape((outputs, down, self.kernel[1], self.channels, self.taps))
        w = w.permute((0, 3, 4, 1, 2)).reshape((outputs, self.channels, self.taps * down, self.kernel[1]))
        return _placed(w, 2, 0, self.kernel[0])


def folds(x: UOp, kernel: tuple[int, ...], dilation: tuple[int, ...]) -> bool:
    """Whether a value has too few channels to be copied by the pixel, and can be folded."""
    return len(kernel) == 2 and dilation[0] == 1 and x.shape[1] < CHANNELS_TOGETHER and is_half_precision(x)


def _placed(x: UOp, axis: int, before: int, size: int) -> UOp:
    """`size` elements of an axis: `before` zeros, then those from the first on."""
    after = size - before - x.shape[axis]
    if after < 0:
        x = x.shrink([(0, n + after) if i == axis else (0, n) for i, n in enumerate(x.shape)])
    return x.pad([(before, max(after, 0)) if i == axis else (0, 0) for i in range(len(x.shape))])
