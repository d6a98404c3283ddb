"""A hint where a program is compiled again and again for other sizes: that line of the user could use a `Variable`.

    for n in range(1, 100): model(tokens[:n])       # 99 programs; x[:length.bind(n)] would be one

Programs are the same but for sizes if their graphs have the same nodes, shapes left out. What is noted of each is the
shapes of what goes in and out; it is asked for only when a program was just compiled, which takes thousands of times as
long. There is no hint where sizes come back, as those of a model's layers do.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from whit.cache import RecentlyUsed, register_cache
from whit.errors import user_line
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.op import Shape, spell_shape
from whit.ir.uop import UOp

MANY = 8  # sizes, after which there is a hint

MOST_SHAPES = 64  # of one program that are remembered

# (line, device, nodes) -> the shapes so far
_seen: RecentlyUsed[tuple[str, str, int], dict[tuple[Shape, ...], None]] = RecentlyUsed(
    "engine.sizes_of_programs", 4096
)
_warned: set[str] = set()  # lines
register_cache(_warned.clear, "engine.lines_with_many_sizes")


_expected: ContextVar[bool] = ContextVar("sizes_are_expected", default=False)


@contextmanager
def expecting_sizes() -> Iterator[None]:
    """No hints inside: who calls keeps programs by size, and the user can do nothing about it."""
    token = _expected.set(True)
    try:
        yield
    finally:
        _expected.reset(token)


def note_program(graph: UOp, device: str) -> None:
    """A program was made for this graph."""
    line = user_line()
    if not line or line in _warned or _expected.get():
        return
    order = topological((graph,))
    shapes = tuple([node.shape for node in order if node.op is ops.PARAM])
    key = (line, device, _nodes(order))
    seen = _seen.get(key)
    if seen is None:
        seen = _seen[key] = {}
    seen[shapes] = None
    if len(seen) > MOST_SHAPES:
        del seen[next(iter(seen))]
    last = list(seen)[-MANY:]
    changed = _changing(last) if len(last) == MANY else None
    if changed is None:
        return
    _warned.add(line)
    before, after = last[-2][changed], last[-1][changed]
    warnings.warn(
        f"realize: {MANY} programs that differ only in sizes were compiled at {line}, the last two for shapes such as "
        f"{spell_shape(before)} and {spell_shape(after)}. A Variable in the place of the size that changes makes one "
        'program for all of them: n = Variable("n", 1, 1024); x[:n.bind(size)] (docs/symbolic.md)',
        RuntimeWarning,
        stacklevel=2,
    )


def _changing(seen: list[tuple[Shape, ...]]) -> int | None:
    """Which shape changes, if every size that changes is another one each time, as in a loop. Layers of a model, say,
    share some sizes."""
    found = None
    for number, shapes in enumerate(zip(*seen, strict=True)):
        if len({len(shape) for shape in shapes}) > 1:
            return None
        counts = [len(set(sizes)) for sizes in zip(*shapes, strict=True)]
        if any(1 < count < len(seen) for count in counts):
            return None
        if len(seen) in counts:
            found = number
    return found


def _nodes(order: list[UOp]) -> int:
    """What is the same of graphs that differ in sizes: ops, dtypes, and which node is whose source."""
    number = {node: i for i, node in enumerate(order)}
    return hash(tuple([(node.op.name, node.dtype.name, *[number.get(s, -1) for s in node.src]) for node in order]))
