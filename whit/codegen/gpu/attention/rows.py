"""The rows of attention on a GPU: products in registers, the largest of each row, sums, and what is multiplied.

    registers S <- A * B                            scores: tiles of shared memory (`block_mma`)
    registers F <- what the largest is searched of, hidden keys being -inf
    m, l <- the largest of each row, its sum;       registers P <- weights
    registers O <- O * power of (old m - m)         then O += P * W

A thread has elements of the same rows of S, F, P and O. `attention.kernel` says in which order all of it happens.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import reduce
from operator import or_

from whit.codegen.gpu.attention.sizes import F32, QUAD, AttentionSizes, RowTemplates, fused_powers
from whit.codegen.gpu.gemm.atoms import PAIRS_OF_QUADS
from whit.codegen.passes.index_dtype import fix_index_dtype
from whit.codegen.passes.writer import ProgramWriter, Variable
from whit.codegen.strategy.fill_panels import Values
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.args import AcrossArg, BlockMmaArg, MatrixArg, Memory, Mode
from whit.ir.op import Op
from whit.ir.uop import UOp, const, make
from whit.kernel.attention_form import AttentionForm, with_values
from whit.kernel.online_softmax import OLD, OnlineSoftmax, RescaledSum
from whit.kernel.ranges import size_of
from whit.simplify import simplify
from whit.target import Target

NEAR = 2.0**-8  # a row keeps the largest score that it has while what comes is larger by less than a power of 2**8


class AttentionRows(AttentionSizes):
    """Writes what is done with rows."""

    def __init__(self, body: UOp, form: AttentionForm, online: OnlineSoftmax, target: Target) -> None:
        super().__init__(body, form, online, target)
        self.w = ProgramWriter()
        self.shared = {dtype: self.w.buffer(dtype, self.room(dtype, self.size)) for dtype in self.stage}
        self.slots, self.lanes, self.columns = 2 * self.size.pieces, self.size.keys // 4, self.wide // 4
        self.begins: Values = {}  # the first block of keys, once it is known
        self.is_whole = self.sees_all()
        self.rows = [self._of_slot(slot) for slot in range(self.slots)]

    def in_program(self, node: UOp) -> UOp:
        """A range as programs have it."""
        return fix_index_dtype(node, self.index)

    def now(self, step: UOp) -> Values:
        """What templates of a step are of."""
        return {**self.begins, self.in_program(self.step): step}

    def make_room(self) -> None:
        """Registers: scores, what becomes of them, sums, and what is known of rows."""
        w, online = self.w, self.online
        self.s = [w.buffer(F32, self.slots * self.lanes, Memory.REGISTER) for _ in self.form.inner]
        self.f = w.buffer(F32, self.slots * self.lanes, Memory.REGISTER) if online.top is not None else self.s[0]
        self.p = [w.buffer(F32, self.slots * self.lanes, Memory.REGISTER) for _ in online.products]
        self.o = [w.buffer(F32, self.slots * self.columns, Memory.REGISTER) for _ in online.products]
        for memory in self.o:
            self._clear(memory)
        least, none = const(F32, float("-inf")), const(F32, 0.0)
        self.tops = [w.variable(least) for _ in range(self.slots)] if online.top is not None else []
        self.sums: list[list[Variable]] = [[w.variable(none) for _ in range(self.slots)] for _ in online.sums]
        one, scales = const(F32, 1.0), _scales(online)
        self.scales = [{scale: w.variable(one) for scale in scales} for _ in range(self.slots)]

    def _clear(self, memory: UOp) -> None:
        self.w.store(memory, self.w.value(UOp.stack(*([const(F32, 0.0)] * memory.shape[0]))), 0)

    def _mma(
        self,
        memory: UOp,
        a: UOp,
        b: UOp,
        stage: UOp,
        shape: tuple[int, int],
        tiles: tuple[MatrixArg, MatrixArg],
        in_flight: int,
    ) -> None:
        """registers += a * b"""
        size, w, zero = self.size, self.w, self.number(0)
        columns, depth = shape
        elements = self._elements(columns)
        of_a = self._elements(depth) if a.arg.memory is Memory.REGISTER else ()
        threads = (Mode(size.warps, row=self.steps[0]), *PAIRS_OF_QUADS)
        tile = (size.rows, columns, depth)
        arg = BlockMmaArg(
            "wgmma" if self.by_groups else "mma", tile, tile, *tiles, threads, elements, 1, True, 1, of_a, in_flight
        )
        thread = self.in_program(self.thread)
        operands = (w.now(memory), w.now(a), w.now(b), thread, zero, zero, zero, stage)
        w.effect(make(ops.BLOCK_MMA, operands, arg), memory)

    def _elements(self, columns: int) -> tuple[Mode, ...]:
        """The elements of a thread: row by row."""
        pieces = Mode(self.size.pieces, row=self.steps[1])
        return (pieces, Mode(2, row=8), Mode(columns // 8, column=8), Mode(2, column=1))

    def scores(self, stage: UOp, is_in_flight: bool = False) -> None:
        for i, (memory, a, b) in enumerate(zip(self.s, self.a, self.b, strict=True)):
            self._clear(memory)
            tiles = (a.matrix(False), b.matrix(False, self.stage[b.dtype]))
            shape = (self.size.keys, size_of(a.along))
            operands = self.shared[a.dtype], self.shared[b.dtype]
            self._mma(memory, *operands, stage, shape, tiles, i + 1 if is_in_flight else 0)

    def products(self, stage: UOp, is_in_flight: bool = False) -> None:
        """If they are in flight, scores before them are done afterwards."""
        for memory, p, tile in zip(self.o, self.p, self.c, strict=True):
            tiles = (MatrixArg(0, 0, 1), tile.matrix(True, self.stage[tile.dtype]))
            shape, shared = (self.wide, self.size.keys), self.shared[tile.dtype]
            self._mma(memory, p, shared, stage, shape, tiles, len(self.o) if is_in_flight else 0)

    def _of_slot(self, slot: int) -> RowTemplates:
        """Templates for one row of a thread. Where all keys are seen nothing has to be hidden: that is done afterwards,
        of scores if there is a largest one, else of products."""
        form, online, top = self.form, self.online, self.online.top
        keys = self.keys()
        at = {inner.leaf: self.held(i, self.lanes) for i, inner in enumerate(form.inner)}
        at[form.rows] = self.inside(self.row(slot), self.m, self.size.rows)
        at[form.keys] = self.inside(keys, self.n, self.size.keys)
        hidden = self._hidden(keys, at)
        scores = const(F32, 0.0)
        if top is not None:
            scores = self.at(top.value, {**at, **self.seen})
            at |= {top.leaf: self.held(100), top.value: self.held(99, self.lanes)}
        values: list[UOp] = []
        whole = {**self.seen, **({top.value: at[top.value]} if top is not None else {})}
        for part in (*online.sums, *online.products):
            is_whole = part.scale is not None or (top is None and part.w is not None)
            value = simplify(with_values(part.value, whole)) if is_whole else part.value
            value = self.at(fused_powers(value), at)
            values.append(value if is_whole else hidden.where(const(F32, 0.0), value))
        scales = [self.at(scale, {**at, OLD: self.held(101)}) for scale in _scales(online)]
        lanes = [value if value.shape else UOp.stack(*([value] * self.lanes)) for value in (hidden, scores, *values)]
        hidden, scores, *found = self.lowered(*lanes, *scales)
        count = len(online.sums)
        return RowTemplates(hidden, scores, found[:count], found[count : len(values)], found[len(values) :])

    def _hidden(self, keys: UOp, at: Values) -> UOp:
        """Which keys are not seen, or past the last one."""
        tests = [condition if is_seen.arg is False else ~condition for condition, is_seen in self.seen.items()]
        tests = [self.at(test, at) for test in tests] + ([keys >= self.n] if self.n % self.size.keys else [])
        return reduce(or_, tests) if tests else const(dtypes.bool, False)

    def weigh(self, step: UOp) -> None:
        """From scores to what is multiplied."""
        now, w = self.now(step), self.w
        test = self.is_whole
        is_hiding = None if test is None else test if test.op is ops.CONST else w.value(~test.substitute(now))
        if self.online.top is not None:
            for slot, row in enumerate(self.rows):
                w.store(self.f, w.value(row.scores.substitute(self._of_scores(slot, now))), slot * self.lanes)
            self._hide([self.f], float("-inf"), is_hiding, now)
        for slot, row in enumerate(self.rows):
            self._row_of(slot, row, now)
        if self.online.top is None:
            self._hide(self.p, 0.0, is_hiding, now)

    def _of_scores(self, slot: int, now: Values) -> Values:
        loads = {i: self.w.load(memory, slot * self.lanes, self.lanes) for i, memory in enumerate(self.s)}
        return {**now, **{self.held(i, self.lanes): load for i, load in loads.items()}}

    def _hide(self, memories: list[UOp], none: float, is_hiding: UOp | None, now: Values) -> None:
        """What is hidden is as if it was not there."""
        if is_hiding is None:
            return
        w, lanes = self.w, self.lanes
        with nullcontext() if is_hiding.op is ops.CONST else w.when(is_hiding):
            for memory in memories:
                for slot, row in enumerate(self.rows):
                    value = row.hidden.substitute(now).where(const(F32, none), w.load(memory, slot * lanes, lanes))
                    w.store(memory, w.value(value), slot * lanes)

    def _row_of(self, slot: int, row: RowTemplates, now: Values) -> None:
        """One row of a thread: the largest score, sums, and what is multiplied."""
        w, online = self.w, self.online
        values = self._of_scores(slot, now)
        scales: dict[UOp, UOp] = {}
        if online.top is not None:
            old = self.tops[slot].get()
            values[self.held(99, self.lanes)] = scores = w.load(self.f, slot * self.lanes, self.lanes)
            new = w.value(make(ops.MAX, (old, self.across(scores.reduce(ops.MAX, axes=(0,)), ops.MAX))))
            wanted = _scales(online)
            if len(wanted) == 1:
                scale = row.scales[0].substitute({**values, self.held(100): new, self.held(101): old})
                is_near = w.value(scale >= NEAR)
                new = w.value(is_near.where(old, new))
                scales[wanted[0]] = w.value(is_near.where(const(F32, 1.0), scale))
            self.tops[slot].set(new)
            values = {**values, self.held(100): new, self.held(101): old}
            for scale, template in zip(wanted, row.scales, strict=True):
                scales.setdefault(scale, w.value(template.substitute(values)))
        for part, sums, value in zip(online.sums, self.sums, row.sums, strict=True):
            total = value.substitute(values).reduce(ops.ADD, axes=(0,))
            sums[slot].set(w.value(_times(sums[slot].get(), part, scales) + total))
        for p, value in zip(self.p, row.products, strict=True):
            w.store(p, w.value(value.substitute(values)), slot * self.lanes)
        for scale, factor in scales.items():
            self.scales[slot][scale].set(factor)

    def rescale(self) -> None:
        """What was summed with a smaller largest score."""
        w = self.w
        for slot, scales in enumerate(self.scales):
            for part, memory in zip(self.online.products, self.o, strict=True):
                if part.scale is None:
                    continue
                factor = scales[part.scale].get()
                with w.when(factor.ne(1.0)):
                    before = w.load(memory, slot * self.columns, self.columns)
                    w.store(memory, w.value(before * factor), slot * self.columns)

    def across(self, value: UOp, op: Op) -> UOp:
        return self.w.value(make(ops.ACROSS, (self.w.value(value), self.in_program(self.thread)), AcrossArg(op, QUAD)))


def _scales(online: OnlineSoftmax) -> list[UOp]:
    """The different factors of sums."""
    return list(dict.fromkeys(part.scale for part in (*online.sums, *online.products) if part.scale is not None))


def _times(value: UOp, part: RescaledSum, scales: Values) -> UOp:
    return value if part.scale is None else value * scales[part.scale]
