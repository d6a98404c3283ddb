"""Loops of a plan as words that native code reads: launches of the steps, and what their pointers become.

Goes in: the steps of a plan and their kernels. Comes out: a `Layout`: launches, and words behind them, of which some
are addresses in the words themselves (`own`), some have to be filled in for each run (`filled`): with where a memory of
the plan's table begins, and some bytes more. Loops in loops: what an inner one reads is a word that the outer one
moves. The form of records is told in `runtime.pool.repeat`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whit.engine.compile.compile import CompiledKernel
from whit.engine.memory.storage import nbytes_of
from whit.engine.plan.plan import Plan, PlanStep
from whit.ir import ops
from whit.ir.args import MoveArg
from whit.ir.uop import UOp
from whit.records import dataclass, field
from whit.runtime.pool.repeat import KINDS, RECORD_WORDS
from whit.simplify.bounds import bounds

CHUNKS_A_THREAD = 16  # how finely work is handed out, where there is that much: cores are not equally fast
UNKNOWN_COUNT = (1 << 64) - 1  # of the steps of a while loop: counted from the end, the first step is even


@dataclass(frozen=True, slots=True)
class CompiledLoop:
    """A loop in the place of a kernel: its kernels, for each of its schedules."""

    name: str
    inner: tuple[tuple[Any, ...], ...]
    ops: int
    bytes_read: int
    bytes_written: int
    count: int  # kernels that it has, each counted once
    widest: int  # the largest range that cores share
    total: int = 0
    variables: tuple[str, ...] = ()
    explanation: str = "a loop"
    address: int = 0
    function: Any = None
    graph: UOp | None = None


def with_loops(plan: Plan, kernels: list[CompiledKernel]) -> tuple[Any, ...]:
    """For each step of a plan its kernel, or its loop; kernels are taken from the front of a list."""
    return tuple([_loop(step, kernels) if step.inner else kernels.pop(0) for step in plan.steps])


def _loop(step: PlanStep, kernels: list[CompiledKernel]) -> CompiledLoop:
    inner = tuple([with_loops(plan, kernels) for plan in step.inner])
    times = _times(step.repeat)
    each = [kernel for row in inner for kernel in row]
    return CompiledLoop(
        step.function.arg.name,
        inner,
        times * sum(kernel.ops for kernel in each),
        times * sum(kernel.bytes_read for kernel in each),
        times * sum(kernel.bytes_written for kernel in each),
        sum(kernel_count(kernel) for kernel in each),
        max((widest(kernel) for kernel in each), default=1),
    )


def _times(repeat: UOp | None) -> int:
    """How often a loop runs, at most; once, where that is not known."""
    assert repeat is not None, "a loop has one"
    if repeat.arg.kind != "scan":
        return 1
    if repeat.arg.length is not None:
        return int(repeat.arg.length)
    found = bounds(repeat.src[-1])
    return 1 if found is None else max(found[1], 0)


def kernel_count(kernel: Any) -> int:
    """How many kernels stand in a list for this."""
    return kernel.count if isinstance(kernel, CompiledLoop) else 1


def widest(kernel: Any) -> int:
    """The largest range of this that cores share."""
    return kernel.widest if isinstance(kernel, CompiledLoop) else kernel.total


Filled = tuple[int, int, int]  # word, place in the table of a plan, bytes after it


@dataclass(slots=True)
class Layout:
    """Words, before they have an address."""

    threads: int
    words: list[int] = field(default_factory=list)
    own: list[tuple[int, int]] = field(default_factory=list)  # word -> the word whose address it is
    numbers: list[tuple[int, int]] = field(default_factory=list)  # word -> the variable where the kernel's begin
    variables: list[str] = field(default_factory=list)
    lengths: list[tuple[int, UOp]] = field(default_factory=list)  # word -> how often a loop runs

    def add(self, *words: int) -> int:
        """More words; the number of the first."""
        first = len(self.words)
        self.words += words
        return first

    def launches(self, plan: Plan, kernels: Sequence[Any]) -> tuple[int, list[Filled]]:
        """The launches of a plan, and what is to be filled in."""
        filled: list[Filled] = []
        rows: list[tuple[int, ...]] = []
        for step, kernel in zip(plan.steps, kernels, strict=True):
            if step.inner:
                record, more = self.record(step, kernel)
                filled += more
                rows.append((record, -1, 0, 0, 1, KINDS[step.function.src[0].arg.kind]))
                continue
            pointers = self.add(*[0] * len(step.places))
            filled += [(pointers + i, place, 0) for i, place in enumerate(step.places)]
            threads = min(self.threads, kernel.total)
            rows.append((pointers, len(self.variables), kernel.address, *shares(kernel.total, threads)))
            self.variables += kernel.variables
        start = len(self.words)
        for pointers, number, address, *rest in rows:
            at = self.add(address, 0, 0, *[value % (1 << 64) for value in rest])
            self.own.append((at + 1, pointers))
            if number >= 0:
                self.numbers.append((at + 2, number))
        return start, filled

    def record(self, step: PlanStep, kernel: CompiledLoop) -> tuple[int, list[Filled]]:
        """What native code knows of a loop."""
        repeat = step.repeat
        assert repeat is not None, "a loop has one"
        arg = repeat.arg
        filled: list[Filled] = []
        moves: list[tuple[int, int, int]] = []  # word, slot, bytes after it
        lists = []
        for plan, kernels in zip(step.inner, kernel.inner, strict=True):
            start, inside = self.launches(plan, kernels)
            lists.append((start, len(plan.steps)))
            for word, place, offset in inside:
                slot, more = _resolved(plan, place)
                if slot < 0:
                    filled.append((word, step.places[-1], offset + more))
                elif _stays(arg.moves[slot]):
                    filled.append((word, step.places[arg.moves[slot].even], offset + more))
                else:
                    moves.append((word, slot, offset + more))
        move_words = len(self.words)
        for word, slot, offset in moves:
            at = self.add(0)
            self.own.append((at, word))
            filled += self._moved(step, slot, offset)
        final_words = len(self.words)
        for target, slot in enumerate(arg.finals):
            filled.append((self.add(0), step.places[target], 0))
            filled += self._moved(step, slot, 0)
            self.add(_bytes_of(repeat, target))
        record = self.add(*[0] * RECORD_WORDS)
        count = arg.length if arg.kind == "scan" else UNKNOWN_COUNT
        if count is None:
            self.lengths.append((record, repeat.src[-1]))
        others = lists[1] if len(lists) > 1 else (record, 0)
        numbers = (count or 0, int(arg.is_reversed), 0, len(moves), 0, len(arg.finals), 0, lists[0][1], 0, others[1], 0)
        self.words[record:] = numbers
        pairs = ((2, move_words), (4, final_words), (6, lists[0][0]), (8, others[0]))
        self.own += [(record + place, word) for place, word in pairs]
        if arg.decides >= 0:
            filled.append((record + 10, step.places[arg.decides], 0))
        return record, filled

    def _moved(self, step: PlanStep, slot: int, offset: int) -> list[Filled]:
        """The first, even, odd and stride of a param, some bytes after where it begins."""
        repeat = step.repeat
        assert repeat is not None, "a loop has one"
        move: MoveArg = repeat.arg.moves[slot]
        stride = _part_bytes(repeat, move.even) if move.is_part else 0
        back = stride * (1 if repeat.arg.is_reversed else -1) if move.is_before else 0
        at = self.add(0, 0, 0, stride)
        filled = [(at + 1, step.places[move.even], offset + back), (at + 2, step.places[move.odd], offset + back)]
        if move.first >= 0:
            filled.append((at, step.places[move.first], offset))
        return filled


def shares(total: int, threads: int) -> tuple[int, int, int]:
    """Of a launch: its range, how many iterations a thread takes at once, and how many threads there are."""
    return total, max(total // (max(threads, 1) * CHUNKS_A_THREAD), 1), max(threads, 1)


def _stays(move: MoveArg) -> bool:
    return move.even == move.odd and move.first < 0 and not move.is_part


def _operand(repeat: UOp, slot: int) -> UOp:
    return [source for source in repeat.src if source.op is ops.PARAM][slot]


def _part_bytes(repeat: UOp, slot: int) -> int:
    memory = _operand(repeat, slot)
    return nbytes_of(memory.dtype, memory.shape[1:])


def _bytes_of(repeat: UOp, slot: int) -> int:
    memory = _operand(repeat, slot)
    return nbytes_of(memory.dtype, memory.shape)


def _resolved(plan: Plan, place: int) -> tuple[int, int]:
    """The slot behind a place of a plan of steps, or -1 for its arena, and the byte after which it begins."""
    slots, count = len(plan.params), len(plan.temporaries)
    offset = 0
    if place >= slots + count:
        place, offset = plan.parts[place - slots - count]
    if place < slots:
        return place, offset
    return -1, plan.temporaries[place - slots].offset + offset
