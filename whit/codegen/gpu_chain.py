"""Attention on a GPU: contractions of contractions by tensor cores, whose matrix in between stays in registers.

    out[i, e] = sum over j of P(i, j) * W[j, e],   P made of S(i, j) = sum over d of A[i, d] * B[j, d]

    shared memory <- the rows of A of this block; the first block of keys
    for each block of keys that some row sees:
        all threads wait;  shared memory, another stage <- the next block of keys
        registers S <- A * B                                block_mma
        keys that are hidden get their neutral element, where a block has some
        the largest of each row so far; what was summed with a smaller one is multiplied (`chain_online`)
        registers P, from S element by element
        registers O += P * W                                block_mma: P as it lies in registers
    store what becomes of O

Ahead, by warp groups: S of the next keys, then O += P * W of the last ones, which goes on while P is computed of S.

Goes in: a kernel of this form. Comes out: its program. A thread has elements of the same rows of S, P and O; four
neighbours have a row between them, and exchange what they know of it. One kernel is attention, others its gradients:
those have two contractions inside, and the one of keys and values two products.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import reduce
from operator import or_

from whit.codegen.fill_panels import Values
from whit.codegen.gpu_atoms import PAIRS_OF_QUADS
from whit.codegen.gpu_chain_cut import F32, QUAD, GpuCut, Row, by_reciprocals, fused_powers
from whit.codegen.index_dtype import fix_index_dtype
from whit.codegen.lanes import lane_numbers
from whit.codegen.ranges import free_ranges, size_of
from whit.codegen.writer import Variable, Writer
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.args import AcrossArg, BlockMmaArg, Digit, MatrixArg, Memory, RangeKind
from whit.ir.graph import topological
from whit.ir.op import Op
from whit.ir.uop import UOp, as_index, const, make
from whit.simplify import simplify
from whit.simplify.chain import Chain, find_chain, with_values
from whit.simplify.chain_online import OLD, Online, Part, as_online
from whit.target import Target

NEAR = 2.0**-8  # a row keeps its largest score for the time being while others are at most so many times as much


def write_chain(body: UOp, target: Target) -> tuple[UOp, str] | None:
    """The program and why it is so; None if the kernel is no chain, or one that tensor cores do not compute."""
    if sum(node.op is ops.REDUCE for node in topological((body,))) < 2:
        return None
    chain = find_chain([store.src[1] for store in body.src])
    if chain is None or any(store.arg.combine is not None or len(store.src) > 3 for store in body.src):
        return None
    online = as_online(chain)
    if online is None:
        return None
    kernel = _Kernel(body, chain, online, target)
    return kernel.write(), str(kernel)


class _Kernel(GpuCut):
    """Writes the program."""

    def __init__(self, body: UOp, chain: Chain, online: Online, target: Target) -> None:
        super().__init__(body, chain, online, target)
        self.w = Writer()
        self.shared = {dtype: self.w.buffer(dtype, self.room(dtype, self.size)) for dtype in self.stage}

    # ---- the program

    def write(self) -> UOp:
        w, size = self.w, self.size
        self.slots, self.lanes, self.columns = 2 * size.pieces, size.keys // 4, self.wide // 4
        with w.loop(self.number(self.blocks), RangeKind.BLOCK), w.loop(self.number(self.threads), RangeKind.THREAD):
            self._write(self.fills(self.shared, self.chain.rows, self.first, self.m, None), {})
            begin, self.count = self._seen()
            self.begins = dict.fromkeys(self._fixed_begin(), begin)
            self.is_whole = self.sees_all()
            self.rows = [self._of_slot(slot) for slot in range(self.slots)]
            self._read_once([value for row in self.rows for value in row.all()])
            self._make_room()
            self.key_fills = self._key_fills()
            self.stages = w.variable(self.number(0))
            self._copy_keys(self.number(0), self.number(0))
            if size.in_turns:
                self._go_in_turns()
            elif size.is_ahead:
                self._go_ahead()
            else:
                self._go()
            self._stores()
        params = sorted({node for node in topological((self.body,)) if node.op is ops.PARAM}, key=lambda p: p.arg.slot)
        return w.linear(params)

    def _go(self) -> None:
        """Keys after keys."""
        with self.w.loop(self.count) as step:
            stage = self._arrived(step, self.stages.get())
            self._scores(stage)
            self._weigh(step)
            self._rescale()
            self._products(stage)
            self.stages.set(self._after(stage))

    def _go_ahead(self) -> None:
        """The first keys; then scores while what is of the keys before is multiplied; then the last product. Products
        are waited for at the beginning of a step, which a compiler does not move to before the weights."""
        w, first = self.w, self.number(0)
        self._scores(self._arrived(first, first))
        self._weigh(first)
        with w.loop(w.value(self.count - self.number(1))) as before:
            self._finish()
            step, last = w.value(before + self.number(1)), self.stages.get()
            stage = self._arrived(step, self._after(last))
            self._scores(stage, True)
            self._products(last, True)
            self._weigh(step)
            self.stages.set(stage)
        self._finish()
        self._products(self.stages.get())

    def _go_in_turns(self) -> None:
        """Two groups of four warps: one multiplies what is of its last weights, and its next scores, while the other
        computes weights. The first begins; in the end it waits for the second."""
        w, one = self.w, self.number(1)
        other = w.value(self._fixed(self.thread) // self.number(128))
        before, now, copied = (w.variable(self.number(0)) for _ in range(3))
        with w.loop(w.value(self.count * self.number(2) + self.number(2))) as turn:
            self._barrier()
            later = w.value(turn // self.number(2) + one)
            with w.when(w.value((turn % self.number(2)).eq(0) & (later < self.count))):
                copied.set(self._after(copied.get()))
                self._copy_keys(later, copied.get())
            mine = w.value(turn + one - other)
            step = w.value(mine // self.number(2))
            is_odd = w.value((mine % self.number(2)).ne(0))
            with w.when(is_odd):
                with w.when(w.value(step.eq(0))):
                    self._scores(now.get())
                with w.when(w.value((step > 0) & (step < self.count))):
                    self._products(before.get(), True)
                    self._scores(now.get())
                with w.when(w.value((step > 0) & step.eq(self.count))):
                    self._products(before.get())
                before.set(now.get())
                now.set(self._after(now.get()))
            with w.when(w.value(~is_odd & (step > 0) & (step <= self.count))):
                self._weigh(w.value(step - one))
                self._rescale()

    def _finish(self) -> None:
        """Products that go on are done, and ready for more."""
        w = self.w
        for memory in self.o:
            w.effect(make(ops.BARRIER, (w.now(memory),)), memory)
        self._rescale()

    def _at(self, step: UOp) -> Values:
        """What templates of a step are of."""
        return {**self.begins, self._fixed(self.step): step}

    def _after(self, stage: UOp) -> UOp:
        """The stage of the next keys."""
        later = self.w.value(stage + self.number(1))
        return self.w.value(later.eq(self.size.stages).where(self.number(0), later))

    def _arrived(self, step: UOp, stage: UOp) -> UOp:
        """Waits for keys, and has the next ones copied; where they are."""
        w = self.w
        self._barrier()
        later = w.value(step + self.number(1))
        with w.when(later < self.count):
            self._copy_keys(later, self._after(stage))
        return stage

    def _copy_keys(self, step: UOp, stage: UOp) -> None:
        self._write(self.key_fills, {**self._at(step), self._fixed(self.stage_now): stage})

    def _read_once(self, roots: list[UOp]) -> None:
        """What templates read of memory that is the same in all steps."""
        changing = {self._fixed(self.step), *self._fixed_begin()}
        for load in [node for node in topological(roots) if node.op is ops.LOAD]:
            if changing.isdisjoint(topological((load,))):
                self.w.value(load)

    def _fixed(self, node: UOp) -> UOp:
        """A range as programs have it."""
        return fix_index_dtype(node, self.index)

    def _fixed_begin(self) -> list[UOp]:
        return [self._fixed(self.begin)] if self.begin.op is ops.RANGE else []

    def _seen(self) -> tuple[UOp, UOp]:
        """The first block of keys that some row of this block sees, and how many there are."""
        keys = self.size.keys
        last = as_index(self.m).minimum(self.first + self.size.rows) - 1
        low, high = self.bounds.of_rows(self.first, last, self.n)
        begin = low.minimum(self.n - 1) // keys
        least = 1 if self.size.is_ahead else 0
        found = self.lowered(begin, ((high + (keys - 1)) // keys - begin).maximum(least))
        return self.w.value(found[0]), self.w.value(found[1])

    def _key_fills(self) -> list[UOp]:
        """The stores of the block of keys with the number `step`."""
        first = (self.begin + self.step) * self.size.keys
        return self.fills(self.shared, self.chain.keys, first, self.n, self.stage_now)

    def _write(self, stores: list[UOp], values: Values) -> None:
        for store in stores:
            target, *rest = (source.substitute(values) for source in store.src)
            value, position, *gate = (self.w.value(source) for source in rest)
            self.w.store(target, value, position, gate=gate[0] if gate else None)

    def _barrier(self) -> None:
        shared = self.shared.values()
        last = [self.w.last_store[memory] for memory in shared]
        self.w.effect(make(ops.BARRIER, tuple(dict.fromkeys(last))), *shared)

    def _make_room(self) -> None:
        """Registers: scores, what becomes of them, sums, and what is known of rows."""
        w, online = self.w, self.online
        self.s = [w.buffer(F32, self.slots * self.lanes, Memory.REGISTER) for _ in self.chain.inner]
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

    # ---- scores and rows

    def _mma(
        self,
        memory: UOp,
        a: UOp,
        b: UOp,
        stage: UOp,
        shape: tuple[int, int],
        tiles: tuple[MatrixArg, MatrixArg],
        flying: int,
    ) -> None:
        """registers += a * b"""
        size, w, zero = self.size, self.w, self.number(0)
        columns, depth = shape
        elements = self._elements(columns)
        held = self._elements(depth) if a.arg.memory is Memory.REGISTER else ()
        threads = (Digit(size.warps, row=self.steps[0]), *PAIRS_OF_QUADS)
        tile = (size.rows, columns, depth)
        arg = BlockMmaArg(
            "wgmma" if self.by_groups else "mma", tile, tile, *tiles, threads, elements, 1, True, 1, held, flying
        )
        thread = self._fixed(self.thread)
        operands = (w.now(memory), w.now(a), w.now(b), thread, zero, zero, zero, stage)
        w.effect(make(ops.BLOCK_MMA, operands, arg), memory)

    def _elements(self, columns: int) -> tuple[Digit, ...]:
        """The elements of a thread: row by row."""
        pieces = Digit(self.size.pieces, row=self.steps[1])
        return (pieces, Digit(2, row=8), Digit(columns // 8, column=8), Digit(2, column=1))

    def _scores(self, stage: UOp, flies: bool = False) -> None:
        for i, (memory, a, b) in enumerate(zip(self.s, self.a, self.b, strict=True)):
            self._clear(memory)
            tiles = (a.matrix(False), b.matrix(False, self.stage[b.dtype]))
            shape = (self.size.keys, size_of(a.along))
            operands = self.shared[a.dtype], self.shared[b.dtype]
            self._mma(memory, *operands, stage, shape, tiles, i + 1 if flies else 0)

    def _products(self, stage: UOp, flies: bool = False) -> None:
        """If they fly, scores before them are done afterwards."""
        for memory, p, tile in zip(self.o, self.p, self.c, strict=True):
            tiles = (MatrixArg(0, 0, 1), tile.matrix(True, self.stage[tile.dtype]))
            shape, shared = (self.wide, self.size.keys), self.shared[tile.dtype]
            self._mma(memory, p, shared, stage, shape, tiles, len(self.o) if flies else 0)

    def _of_slot(self, slot: int) -> Row:
        """Templates for one row of a thread. Where all keys are seen nothing has to be hidden: that is done afterwards,
        of scores if there is a largest one, else of products."""
        chain, online, top = self.chain, self.online, self.online.top
        keys = self.keys()
        at = {inner.leaf: self.held(i, self.lanes) for i, inner in enumerate(chain.inner)}
        at[chain.rows] = self.inside(self.row(slot), self.m, self.size.rows)
        at[chain.keys] = self.inside(keys, self.n, self.size.keys)
        tests = [condition if is_seen.arg is False else ~condition for condition, is_seen in self.seen.items()]
        tests = [self.at(test, at) for test in tests] + ([keys >= self.n] if self.n % self.size.keys else [])
        hidden = reduce(or_, tests) if tests else const(dtypes.bool, False)
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
        return Row(hidden, scores, found[:count], found[count : len(values)], found[len(values) :])

    def _weigh(self, step: UOp) -> None:
        """From scores to what is multiplied."""
        now, w = self._at(step), self.w
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

    def _row_of(self, slot: int, row: Row, now: Values) -> None:
        """One row of a thread: the largest score, sums, and what is multiplied."""
        w, online = self.w, self.online
        values = self._of_scores(slot, now)
        scales: dict[UOp, UOp] = {}
        if online.top is not None:
            old = self.tops[slot].get()
            values[self.held(99, self.lanes)] = scores = w.load(self.f, slot * self.lanes, self.lanes)
            new = w.value(make(ops.MAX, (old, self._across(scores.reduce(ops.MAX, axes=(0,)), ops.MAX))))
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

    def _rescale(self) -> None:
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

    def _across(self, value: UOp, op: Op) -> UOp:
        return self.w.value(make(ops.ACROSS, (self.w.value(value), self._fixed(self.thread)), AcrossArg(op, QUAD)))

    # ---- results

    def _stores(self) -> None:
        chain, online, w = self.chain, self.online, self.w
        free = free_ranges(self.body)
        pairs = list(zip(self.body.src, online.values, strict=True))
        for slot in range(self.slots):
            known = {part.leaf: self.held(200 + i) for i, part in enumerate(online.sums)}
            if online.top is not None:
                known[online.top.leaf] = self.held(100)
            row = self.row(slot)
            at = {**known, chain.rows: row}
            gate = row < self.m if self.m % self.size.rows else None
            rows, elements = [], []
            for store, value in pairs:
                if chain.columns in free[store]:
                    elements += [self._store(store, value, at, gate, r) for r in range(0, self.columns, self.width)]
                else:
                    first = (self.thread % QUAD).eq(0)
                    rows.append(self._store(store, value, at, first if gate is None else first & gate))
            values: Values = {}
            if online.top is not None:
                values[self.held(100)] = self.tops[slot].get()
            for i, sums in enumerate(self.sums):
                values[self.held(200 + i)] = self._across(sums[slot].get(), ops.ADD)
            for i, memory in enumerate(self.o):
                for r in range(0, self.columns, self.width):
                    values[self._sum(i, r)] = w.load(memory, slot * self.columns + r, self.width)
            self._write(self.lowered(*rows, *elements), values)

    def _sum(self, product: int, register: int) -> UOp:
        """What stands for sums of a product: two neighbours, or one."""
        return self.held(1000 * (product + 1) + register, self.width if self.width > 1 else 0)

    def _store(self, store: UOp, value: UOp, at: Values, gate: UOp | None, register: int | None = None) -> UOp:
        """A store of a row, or of elements of it."""
        target, _, position = store.src
        here = dict(at)
        if register is not None:
            column = self.thread % QUAD * 2 + (register // 2 * 8 + register % 2)
            here[self.chain.columns] = column + lane_numbers(2) if self.width == 2 else column
            for i, part in enumerate(self.online.products):
                here[part.leaf] = self._sum(i, register)
        value = by_reciprocals(value, [self.chain.columns, *(part.leaf for part in self.online.products)])
        inside = {**here, self.chain.rows: self.inside(here[self.chain.rows], self.m, self.size.rows)}
        return target.store(self.at(value, inside), self.at(position, here), gate=gate)


def _scales(online: Online) -> list[UOp]:
    """The different factors of sums."""
    return list(dict.fromkeys(part.scale for part in (*online.sums, *online.products) if part.scale is not None))


def _times(value: UOp, part: Part, scales: Values) -> UOp:
    return value if part.scale is None else value * scales[part.scale]
