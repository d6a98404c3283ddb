"""How a window slides over axes: what convolution and pooling read from the attributes of a node."""

from __future__ import annotations

from collections.abc import Sequence

from whit.ir.sizes import larger, settled
from whit.onnx.operators.registry import Node
from whit.records import dataclass


@dataclass(frozen=True)
class Window:
    """The size of a window, its steps and gaps, and what is added around, each a number or pair for each axis."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]

    @property
    def reach(self) -> tuple[int, ...]:
        """How many positions a window covers on each axis."""
        return tuple(d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    def rounded_up(self, space: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """The padding that lets the last window, which begins inside, be whole."""
        pairs = []
        for n, reach, step, (before, after) in zip(space, self.reach, self.strides, self.pads, strict=True):
            outputs = -(-(n + before + after - reach) // step) + 1
            outputs -= (outputs - 1) * step >= n + before
            pairs.append((before, max((outputs - 1) * step + reach - n - before, after)))
        return tuple(pairs)


def per_axis(node: Node, name: str, count: int, default: int = 1) -> tuple[int, ...]:
    """An attribute with a number for each axis."""
    return tuple(int(number) for number in node.get(name) or (default,) * count)


def pad_pairs(node: Node, count: int) -> tuple[tuple[int, int], ...]:
    """The attribute `pads`, first all that is before and then all that is after, as pairs."""
    flat = per_axis(node, "pads", 2 * count, 0)
    return tuple(zip(flat[:count], flat[count:], strict=True))


def window_of(node: Node, space: Sequence[int], kernel: Sequence[int]) -> Window:
    """From the attributes, with `auto_pad` worked out for these sizes."""
    count = len(kernel)
    strides, dilations = per_axis(node, "strides", count), per_axis(node, "dilations", count)
    how = node.get("auto_pad", "NOTSET")
    if how in ("NOTSET", ""):
        return Window(tuple(kernel), strides, dilations, pad_pairs(node, count))
    pairs = [(0, 0)] * count
    if how != "VALID":
        for i, (n, k, step, gap) in enumerate(zip(space, kernel, strides, dilations, strict=True)):
            total = larger(settled((-(-n // step) - 1) * step + gap * (k - 1) + 1 - n), 0)
            pairs[i] = (total // 2, total - total // 2) if how == "SAME_UPPER" else (total - total // 2, total // 2)
    return Window(tuple(kernel), strides, dilations, tuple(pairs))
