"""What a graph takes for granted of bound variables (`whit.ir.assumed`), put into the graph that kernels are made of.

    shrink(x, (s=5, 2)), x of 128, s in 0..128      shrink(p1, (s, 2)), s in 0..126

Goes in: the nodes of a graph. Comes out: the bounds that its variables have there, so that every window is inside its
memory for all values between them. Where bounds alone cannot say it, as of two variables (s + t <= 128), a window is
put inside: it begins no later than at `128 - t`, or is one of memory that is padded. Where values fit, both are the
same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whit.engine.memory.storage import computed_entries
from whit.errors import OutOfRangeError
from whit.ir import ops
from whit.ir.assumed import Bindings, Bounds, narrowed, rooms, value_with
from whit.ir.op import Shape, spell_size
from whit.ir.shapes import filled
from whit.ir.sizes import Size, is_at_most, larger, reach, settled, smaller
from whit.ir.uop import UOp
from whit.records import dataclass, field

SIZED = frozenset({ops.SHRINK, ops.PAD, ops.EXPAND, ops.ARANGE, ops.BUFFER})


@dataclass(frozen=True, slots=True)
class Assumption:
    """A size that must not be negative, and what is wrong where it is: a text with places for sizes."""

    room: UOp
    text: str
    sizes: Shape

    def holds(self, bindings: Bindings) -> bool:
        """Whether it does with these values of variables; the others have those that they are bound to."""
        return value_with(self.room, bindings) >= 0

    def error(self, name: str, bindings: Bindings) -> OutOfRangeError:
        """What to raise where it does not hold."""
        now = [spell_size(value_with(size, bindings)) for size in self.sizes]
        bound = {node for node in self.room.topological() if node.op is ops.BIND}
        values = sorted((node.src[0].arg.name, value_with(node, bindings)) for node in bound)
        return OutOfRangeError(
            f"{name}: {self.text.format(*now)}",
            f"with {', '.join(f'{key} = {value}' for key, value in values)}",
            "The function was captured for values with which all windows and sizes fit. Bind such values.",
        )


@dataclass(slots=True)
class Assumed:
    """The assumptions of a graph."""

    found: list[Assumption] = field(default_factory=list)
    bounds: Bounds = field(default_factory=dict)  # of BINDs


def assumed_by(order: Sequence[UOp]) -> Assumed:
    """What a graph takes for granted, from its nodes."""
    result = Assumed()
    known: dict[UOp, None] = {}
    for node in order:
        entry = computed_entries.get(id(node))
        if entry is not None:
            node = entry[0]
        if node.op not in SIZED or not _is_symbolic(node):
            continue
        for room in rooms(node):
            if room not in known:
                known[room] = None
                result.found.append(_assumption(node, room))
    result.bounds = narrowed(known)
    return result


def _is_symbolic(node: UOp) -> bool:
    if len(node.src) > 1 or (node.src and not node.src[0].shape):
        return True
    return node.op is ops.SHRINK and any(not isinstance(size, int) for size in node.src[0].shape)


def _assumption(node: UOp, room: UOp) -> Assumption:
    if node.op is not ops.SHRINK:
        return Assumption(room, f"{node.op.name}: a size is {{0}}", (room,))
    shape: Shape = node.src[0].shape
    for axis, (old, (start, size)) in enumerate(zip(shape, parts_of(node, lambda each: each), strict=True)):
        if room in (settled(old - (start + size)), settled(start), settled(size)):
            places = ", ".join(f"{{{number}}}" for number in range(2, 2 + len(shape)))
            text = f"{{0}} to {{1}} is not inside axis {axis} of ({places}{',' * (len(shape) == 1)})"
            return Assumption(room, text, (settled(start), settled(start + size), *shape))
    raise AssertionError("a room is that of one of the axes")


def parts_of(node: UOp, source: Any) -> tuple[Any, ...]:
    """The pairs of a SHRINK or a PAD, over other sizes."""
    return filled(node.arg, [source(size) for size in node.src[1:]])


# ---- windows for which bounds are not enough


def window_inside(memory: UOp, parts: Sequence[tuple[Size, Size]], is_written: bool = False) -> UOp:
    """A SHRINK that is inside for all values of its variables, and the same where that holds anyway. One that is
    written to has the memory's size at most; of others the memory is padded."""
    pads: list[tuple[Size, Size]] = []
    windows: list[tuple[Size, Size]] = []
    for old, (first, given) in zip(memory.shape, parts, strict=True):
        start, size = first if is_at_most(0, first) else larger(first, 0), given
        pad = 0
        if is_written and not is_at_most(size, old):
            size = smaller(size, old)
        if not is_at_most(start + size, old):
            if is_written or is_at_most(size, old):
                start = smaller(start, settled(old - size))
            else:
                pad = reach(settled(start + size - old))[1] or 0
        pads.append((0, pad))
        windows.append((start, size))
    return (memory.pad(pads) if any(pad for _, pad in pads) else memory).shrink(windows)
