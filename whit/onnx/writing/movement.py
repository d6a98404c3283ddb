"""The same elements in other places: Reshape, Transpose, Expand, Pad, Slice. Chains of one kind become one node."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from whit.ir import ops
from whit.ir.op import Op
from whit.ir.shapes import filled
from whit.ir.uop import UOp

if TYPE_CHECKING:
    from whit.onnx.writing.translate import Translator

BEFORE_THE_FIRST: Final = -(1 << 63)  # where a Slice that goes backwards ends


def bare(node: UOp) -> UOp:
    """What is spread to a shape: operators spread it themselves."""
    while node.op is ops.EXPAND:
        node = node.src[0]
    return node


def aligned(node: UOp) -> UOp:
    """What gets axes of size 1 in front: operators give it these themselves, if another operand has them."""
    before = unshaped(node)
    count = len(node.shape) - len(before.shape)
    is_led = count > 0 and tuple(node.shape) == (*(1,) * count, *before.shape)
    return before if is_led else node


def unshaped(node: UOp) -> UOp:
    """The same elements in the shape before all reshapes."""
    while node.op is ops.RESHAPE:
        node = node.src[0]
    return node


def settled(node: UOp) -> UOp:
    """The same value, without reshapes there and back."""
    before = unshaped(node)
    return before if before.shape == node.shape else node


def write_reshape(to: Translator, node: UOp) -> str:
    """Of reshapes of reshapes the last counts; none is needed back to the first shape."""
    inner = unshaped(node)
    name = to.name(inner)
    if inner.shape == node.shape:
        return name
    shape = node.shape
    symbolic = [axis for axis, size in enumerate(shape) if not isinstance(size, int)]
    if len(symbolic) == 1 and 0 not in shape:  # -1 is what is left
        return to.sheet.add("Reshape", name, to.sheet.numbers([n if isinstance(n, int) else -1 for n in shape]))
    return to.sheet.add("Reshape", name, to.sizes(shape), **({"allowzero": 1} if 0 in shape else {}))


def write_permute(to: Translator, node: UOp) -> str:
    """Permutations of permutations are one; none if it is the order that was."""
    order = tuple(node.arg)
    inner = settled(node.src[0])
    while inner.op is ops.PERMUTE:
        order = tuple(inner.arg[axis] for axis in order)
        inner = settled(inner.src[0])
    name = to.name(inner)
    return name if order == tuple(range(len(order))) else to.sheet.add("Transpose", name, perm=order)


def write_expand(to: Translator, node: UOp) -> str:
    """Repeated along axes of size 1."""
    inner = bare(node)
    name = to.name(inner)
    return name if inner.shape == node.shape else to.sheet.add("Expand", name, to.sizes(node.shape))


def write_pad(to: Translator, node: UOp) -> str:
    """Zeros around."""
    pads = filled(node.arg, node.src[1:])
    sizes = to.sizes((*[before for before, _ in pads], *[after for _, after in pads]))
    return to.sheet.add("Pad", to.name(node.src[0]), sizes, to.number(node.dtype, 0))


def write_shrink(to: Translator, node: UOp) -> str:
    """A window of each axis that has one."""
    parts = filled(node.arg, node.src[1:])
    axes = [axis for axis, (start, size) in enumerate(parts) if (start, size) != (0, node.src[0].shape[axis])]
    name = to.name(node.src[0])
    if not axes:
        return name
    starts = tuple(parts[axis][0] for axis in axes)
    ends = tuple(parts[axis][0] + parts[axis][1] for axis in axes)
    return to.sheet.add("Slice", name, to.sizes(starts), to.sizes(ends), to.sheet.numbers(axes))


def write_flip(to: Translator, node: UOp) -> str:
    """Axes back to front."""
    numbers, count = to.sheet.numbers, len(node.arg)
    name = to.name(node.src[0])
    if not count:
        return name
    lists = [-1] * count, [BEFORE_THE_FIRST] * count, node.arg, [-1] * count
    return to.sheet.add("Slice", name, *map(numbers, lists))


MOVEMENT: Final[dict[Op, Callable[[Translator, UOp], str]]] = {
    ops.RESHAPE: write_reshape,
    ops.PERMUTE: write_permute,
    ops.EXPAND: write_expand,
    ops.PAD: write_pad,
    ops.SHRINK: write_shrink,
    ops.FLIP: write_flip,
}
