"""Where windows of memory begin is no part of a graph: `X[i : i + 32]` in a loop is one program, whatever i is.

    X[64:96] @ w, X of (1024, 8)       p1 @ p2        p1 = the 256 elements of X from 512 on: memory of its own shape
    X[:, 3:5] * 2                      shrink(p1, (s, 2)) * 2        s = 3: a variable, for elements that lie apart

A window is a SHRINK of memory, or of another window. One whose elements lie together is a slot of its own, which is a
view of that memory while the program runs. Several windows of one memory move independently. If there are many, they
are how the program is written (`x[t]` for every t), and move together: what changes is where the first of them begins.

Memory that the same graph writes is left alone: the scheduler has to see which of its elements are read (`effects`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

from whit.engine.memory.storage import computed_entries, is_known
from whit.ir import ops
from whit.ir.contiguous import start_of_view
from whit.ir.op import Shape
from whit.ir.uop import UOp, make
from whit.records import dataclass, field

FEW_WINDOWS = 4  # windows of one memory that move independently
VIEWS = frozenset({ops.RESHAPE, ops.PERMUTE, ops.FLIP})  # a part of what is repeated or padded is how an op is written
SAME_VALUE = frozenset(ops.SAME_VALUE)


@dataclass(slots=True)
class Anchor:
    """Where windows begin along one axis of a memory: the first of them, and how far it can move."""

    first: int
    low: int
    high: int
    variable: UOp | None = None

    def hold(self, start: int, length: int, size: int) -> None:
        """One more window that moves with the others: all of them stay inside."""
        ahead = start - self.first
        self.low, self.high = max(self.low, -ahead), min(self.high, size - length - ahead)


@dataclass(slots=True)
class Window:
    """What a SHRINK becomes: a part of a slot with its own place in memory, or a part that begins at variables."""

    slot: UOp | None = None  # a contiguous part of a BUFFER, in one axis
    start: int = 0  # the element of the slot at which the window begins
    anchors: dict[int, Anchor] = field(default_factory=dict)  # by axis


@dataclass(slots=True)
class _Found:
    """A SHRINK of memory."""

    node: UOp
    memory: UOp  # BUFFER
    start: int | None  # its first element there, if its elements lie together


def find_windows(order: Sequence[UOp], written: Collection[UOp] = ()) -> dict[UOp, Window]:
    """The windows of a graph in the order of its nodes. BUFFERs that are `written` have none."""
    found: dict[UOp, _Found] = {}
    together: dict[UOp, list[_Found]] = {}  # memory or window -> the windows of it
    for node in order:
        if node.op is not ops.SHRINK or len(node.src) != 1 or id(node) in computed_entries:
            continue
        if not is_known(node.src[0].shape) or prod(node.shape) in (0, prod(node.src[0].shape)):
            continue
        below = _below(node, found)
        if below is None or below[1].memory in written:
            continue
        parent, window = below
        found[node] = window
        together.setdefault(parent, []).append(window)
    result: dict[UOp, Window] = {}
    for parent, windows in together.items():
        _place(parent, found.get(parent), windows, result)
    return result


def _below(node: UOp, found: dict[UOp, _Found]) -> tuple[UOp, _Found] | None:
    """The memory or the window that a SHRINK shows a part of, and where that is."""
    start = start_of_view(node)
    (inner,) = node.src
    while True:
        entry = computed_entries.get(id(inner))
        if entry is not None:
            inner = entry[0]
        if inner.op is ops.BUFFER:
            return (inner, _Found(node, inner, start)) if is_known(inner.shape) else None
        if inner in found:
            outer = found[inner]
            if outer.start is None:
                return inner, _Found(node, outer.memory, None)
            return inner, _Found(node, outer.memory, None if start is None else outer.start + start)
        if inner.op in VIEWS and len(inner.src) == 1:
            here = None if start is None else start_of_view(inner)
            start = None if here is None or start is None else start + here
        elif inner.op not in SAME_VALUE:
            return None
        inner = inner.src[0]


def _place(parent: UOp, outer: _Found | None, windows: list[_Found], result: dict[UOp, Window]) -> None:
    """Decides what the windows of one memory, or of one window of it, become."""
    is_few = len(windows) <= FEW_WINDOWS
    near = [window for window in windows if window.start is not None]
    low = min((window.start for window in near if window.start is not None), default=0)
    high = max((window.start + prod(window.node.shape) for window in near if window.start is not None), default=0)
    is_whole = high - low == prod(parent.shape)
    anchors: dict[tuple[UOp, int], Anchor] = {}
    for window in windows:
        node, start = window.node, window.start
        if start is None:
            result[node] = Window(anchors=_anchors(node, {} if is_few else anchors))
        elif is_few:
            result[node] = Window(_part(window.memory, start, prod(node.shape)))
        elif not is_whole and (outer is None or outer.start is not None):
            result[node] = Window(_part(window.memory, low, high - low), start - low)


def _part(memory: UOp, start: int, count: int) -> UOp:
    """Elements of a BUFFER that lie together."""
    flat = make(ops.RESHAPE, (memory,), (prod(memory.shape),))
    return make(ops.SHRINK, (flat,), ((start, count),))


def _anchors(node: UOp, known: dict[tuple[UOp, int], Anchor]) -> dict[int, Anchor]:
    """Where a window begins along each axis that it has a part of; `known` has the windows that it moves with."""
    source: UOp = node.src[0]
    shape: Shape = source.shape
    found: dict[int, Anchor] = {}
    for axis, ((start, length), size) in enumerate(zip(node.arg, shape, strict=True)):
        if length != size and isinstance(size, int):
            found[axis] = known.setdefault((source, axis), Anchor(start, 0, size))
            found[axis].hold(start, length, size)
    return found
