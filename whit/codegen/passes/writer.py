"""Programs written by hand: loops, conditions, memory and variables, one instruction after another.

For kernels whose program is an algorithm rather than a nest of loops, such as a sort.

    w = Writer()
    total = w.variable(dtypes.int64, zero)
    with w.loop(n) as i:
        total.set(total.get() + w.load(p0, i))
    w.linear()

Values are expressions; an expression is listed in the outermost open block that has all its sources, so that nothing
is computed in a loop that could be computed before it. Accesses stay where they are written. Two equal accesses are two
instructions if something may have been stored in between: their memory is AFTER the last store, and AFTER the block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.args import Memory, RangeKind
from whit.ir.op import Op
from whit.ir.uop import UOp, const, make

Index = UOp | int
EFFECTS = (ops.STORE, ops.BARRIER, ops.BLOCK_MMA)


def index(value: Index) -> UOp:
    """A position as int64."""
    return value if isinstance(value, UOp) else const(dtypes.int64, value)


def lanes_from(start: UOp, width: int) -> UOp:
    """The vector start, start + 1, ... of the dtype of start."""
    if width == 1:
        return start
    return start + UOp.stack(*(const(start.dtype, lane) for lane in range(width)))


class Variable:
    """A number (or vector) that changes as the program runs, in a register."""

    def __init__(self, writer: ProgramWriter, register: UOp) -> None:
        self.writer = writer
        self.register = register

    def get(self) -> UOp:
        """The value now."""
        return self.writer.load(self.register, 0, self.register.shape[0])

    def set(self, value: UOp) -> None:
        """Another value from now on."""
        self.writer.store(self.register, value, 0)


class ProgramWriter:
    """A LINEAR under construction."""

    def __init__(self) -> None:
        self.blocks: list[list[UOp]] = [[]]  # the instructions so far of each open block
        self.openers: list[UOp] = []
        self.depth_of: dict[UOp, int] = {}  # of listed instructions: how many blocks are around them
        self.last_store: dict[UOp, UOp] = {}
        self.ranges = 0
        self.buffers = 0

    # ---- values

    def value(self, root: UOp) -> UOp:
        """Lists an expression, and what it is made of."""
        stack = [root]
        while stack:
            node = stack[-1]
            missing = [s for s in node.src if s.op is not ops.CONST and s not in self.depth_of]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            if node not in self.depth_of and node.op is not ops.CONST:
                self._list(node)
        return root

    def at(self, expression: UOp, values: dict[UOp, UOp]) -> UOp:
        """An expression over ranges and params with values for the ranges; it reads the params here."""
        params = [node for node in expression.topological() if node.op is ops.PARAM]
        return self.value(expression.substitute({**values, **{param: self._now(param) for param in params}}))

    def _list(self, node: UOp) -> None:
        stays = node.op in (ops.LOAD, ops.AFTER, ops.ACROSS, *EFFECTS)
        depth = len(self.openers) if stays else max((self.depth_of.get(s, 0) for s in node.src), default=0)
        self.depth_of[node] = depth
        self.blocks[depth].append(node)

    # ---- memory

    def buffer(self, dtype: DType, size: int, memory: Memory = Memory.SHARED) -> UOp:
        """Memory of the program itself."""
        self.buffers += 1
        return self.value(UOp.buffer(self.buffers - 1, dtype, (size,), memory=memory))

    def variable(self, start: UOp) -> Variable:
        """A variable and its first value."""
        width = start.shape[0] if start.shape else 1
        found = Variable(self, self.buffer(start.dtype, width, Memory.REGISTER))
        found.set(start)
        return found

    def _now(self, memory: UOp) -> UOp:
        """The memory as it is here."""
        last = [self.last_store[memory]] if memory in self.last_store else []
        return memory.after(*last, *self.openers[-1:])

    def load(self, memory: UOp, position: Index, width: int = 1, gate: UOp | None = None) -> UOp:
        """Elements of memory that the program may have written."""
        return self.value(self._now(memory).load(index(position), width, gate))

    def store(
        self,
        memory: UOp,
        value: UOp,
        position: Index,
        combine: Op | None = None,
        gate: UOp | None = None,
        asynchronous: bool = False,
    ) -> None:
        """Writes to memory."""
        place = index(position)
        effect = self._now(memory).store(value, place, combine=combine, gate=gate, asynchronous=asynchronous)
        self.last_store[memory] = self.value(effect)

    def effect(self, node: UOp, *memories: UOp) -> None:
        """An effect on memories: what is read of them from now on is read after it."""
        self.value(node)
        self.last_store.update(dict.fromkeys(memories, node))

    def now(self, memory: UOp) -> UOp:
        """The memory as it is here."""
        return self.value(self._now(memory))

    # ---- blocks

    @contextmanager
    def loop(self, size: Index, kind: RangeKind = RangeKind.LOOP) -> Iterator[UOp]:
        """What is written inside runs for 0, 1, ... below the size."""
        self.ranges += 1
        with self.walk(UOp.range(self.value(index(size)), self.ranges - 1, kind)) as opener:
            yield opener

    @contextmanager
    def walk(self, opener: UOp) -> Iterator[UOp]:
        """What is written inside runs along a range that expressions are made of already."""
        self._open(opener)
        yield opener
        self._close(opener)

    @contextmanager
    def when(self, condition: UOp) -> Iterator[None]:
        """What is written inside runs where the condition holds."""
        opener = make(ops.IF, (self.value(condition),))
        self._open(opener)
        yield
        self._close(opener)

    def _open(self, opener: UOp) -> None:
        self.blocks.append([opener])
        self.openers.append(opener)
        self.depth_of[opener] = len(self.openers)

    def _close(self, opener: UOp) -> None:
        inside = self.blocks.pop()
        self.openers.pop()
        depth = len(self.openers)
        for node in [node for node, inner in self.depth_of.items() if inner > depth]:
            if node.op in EFFECTS or node.op is ops.END:
                self.depth_of[node] = depth  # an effect can be named afterwards
            else:
                del self.depth_of[node]
        end = opener.end()
        self.blocks[-1] += [*inside, end]
        self.depth_of[end] = depth

    def linear(self, leaves: Iterable[UOp] = ()) -> UOp:
        """The program."""
        (instructions,) = self.blocks
        listed = set(instructions)
        return make(ops.LINEAR, (*(leaf for leaf in leaves if leaf not in listed), *instructions))
