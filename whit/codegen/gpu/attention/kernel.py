"""Flash attention on a GPU: contractions of contractions by tensor cores; the matrix in between stays in registers.

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

from whit.codegen.gpu.attention.rows import AttentionRows
from whit.codegen.gpu.attention.sizes import QUAD, by_reciprocals
from whit.codegen.gpu.gemm.atoms import multiplied_halves
from whit.codegen.passes.lanes import lane_numbers
from whit.codegen.strategy.fill_panels import Values
from whit.ir import ops
from whit.ir.args import Memory
from whit.ir.graph import topological
from whit.ir.uop import UOp, as_index, make
from whit.kernel.attention_form import find_attention
from whit.kernel.online_softmax import as_online_softmax
from whit.kernel.ranges import free_ranges
from whit.target import Target


def write_attention(body: UOp, target: Target) -> tuple[UOp, str] | None:
    """The program and why it is so; None if it is no attention, or tensor cores do not compute it."""
    if sum(node.op is ops.REDUCE for node in topological((body,))) < 2:
        return None
    form = find_attention([store.src[1] for store in body.src])
    if form is None or any(store.arg.combine is not None or len(store.src) > 3 for store in body.src):
        return None
    online = as_online_softmax(form)
    if online is None or online.dtype not in multiplied_halves(target):
        return None
    kernel = _Kernel(body, form, online, target)
    program = kernel.write()
    rooms = [node for node in topological((program,)) if node.op is ops.BUFFER and node.arg.memory is Memory.SHARED]
    if sum(int(node.shape[0]) * node.dtype.itemsize for node in rooms) > target.shared_bytes:
        return None
    return program, str(kernel)


class _Kernel(AttentionRows):
    """Writes the program."""

    # ---- the program

    def write(self) -> UOp:
        w, size = self.w, self.size
        with w.walk(self.in_program(self.block)), w.walk(self.in_program(self.thread)):
            self._write(self.fills(self.shared, self.form.rows, self.first, self.m, None), {})
            begin, self.count = self._seen()
            self.begins = dict.fromkeys(self._fixed_begin(), begin)
            self._read_once([value for row in self.rows for value in row.all()])
            self.make_room()
            self.key_fills = self._key_fills()
            self.stages = w.variable(self.number(0))
            self._copy_keys(self.number(0), self.number(0))
            if size.is_pipelined:
                self._run_pipelined()
            else:
                self._go()
            self._stores()
        params = sorted({node for node in topological((self.body,)) if node.op is ops.PARAM}, key=lambda p: p.arg.slot)
        return w.linear(params)

    def _go(self) -> None:
        """Keys after keys."""
        with self.w.loop(self.count) as step:
            stage = self._arrived(step, self.stages.get())
            self.scores(stage)
            self.weigh(step)
            self.rescale()
            self.products(stage)
            self.stages.set(self._after(stage))

    def _run_pipelined(self) -> None:
        """The first keys; then scores while what is of the keys before is multiplied; then the last product. Products
        are waited for at the beginning of a step, which a compiler does not move to before the weights."""
        w, first = self.w, self.number(0)
        self.scores(self._arrived(first, first))
        self.weigh(first)
        with w.loop(w.value(self.count - self.number(1))) as before:
            self._finish()
            step, last = w.value(before + self.number(1)), self.stages.get()
            stage = self._arrived(step, self._after(last))
            self.scores(stage, True)
            self.products(last, True)
            self.weigh(step)
            self.stages.set(stage)
        self._finish()
        self.products(self.stages.get())

    def _finish(self) -> None:
        """Products that go on are done, and ready for more."""
        w = self.w
        for memory in self.o:
            w.effect(make(ops.BARRIER, (w.now(memory),)), memory)
        self.rescale()

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
        self._write(self.key_fills, {**self.now(step), self.in_program(self.stage_now): stage})

    def _read_once(self, roots: list[UOp]) -> None:
        """What templates read of memory that is the same in all steps."""
        changing = {self.in_program(self.step), *self._fixed_begin()}
        for load in [node for node in topological(roots) if node.op is ops.LOAD]:
            if changing.isdisjoint(topological((load,))):
                self.w.value(load)

    def _fixed_begin(self) -> list[UOp]:
        return [self.in_program(self.begin)] if self.begin.op is ops.RANGE else []

    def _seen(self) -> tuple[UOp, UOp]:
        """The first block of keys that some row of this block sees, and how many there are."""
        keys = self.size.keys
        last = as_index(self.m).minimum(self.first + self.size.rows) - 1
        low, high = self.bounds.of_rows(self.first, last, self.n)
        begin = low.minimum(self.n - 1) // keys
        least = 1 if self.size.is_pipelined else 0
        found = self.lowered(begin, ((high + (keys - 1)) // keys - begin).maximum(least))
        return self.w.value(found[0]), self.w.value(found[1])

    def _key_fills(self) -> list[UOp]:
        """The stores of the block of keys with the number `step`."""
        first = (self.begin + self.step) * self.size.keys
        return self.fills(self.shared, self.form.keys, first, self.n, self.stage_now)

    def _write(self, stores: list[UOp], values: Values) -> None:
        for store in stores:
            target, *rest = (source.substitute(values) for source in store.src)
            value, position, *gate = (self.w.value(source) for source in rest)
            allowed = gate[0] if gate else None
            self.w.store(target, value, position, gate=allowed, asynchronous=store.arg.asynchronous)

    def _barrier(self) -> None:
        shared = self.shared.values()
        last = [self.w.last_store[memory] for memory in shared]
        self.w.effect(make(ops.BARRIER, tuple(dict.fromkeys(last))), *shared)

    # ---- results

    def _stores(self) -> None:
        form, online, w = self.form, self.online, self.w
        free = free_ranges(self.body)
        pairs = list(zip(self.body.src, online.values, strict=True))
        for slot in range(self.slots):
            known = {part.leaf: self.held(200 + i) for i, part in enumerate(online.sums)}
            if online.top is not None:
                known[online.top.leaf] = self.held(100)
            row = self.row(slot)
            at = {**known, form.rows: row}
            gate = row < self.m if self.m % self.size.rows else None
            rows, elements = [], []
            for store, value in pairs:
                if form.columns in free[store]:
                    elements += [self._store(store, value, at, gate, r) for r in range(0, self.columns, self.width)]
                else:
                    first = (self.thread % QUAD).eq(0)
                    rows.append(self._store(store, value, at, first if gate is None else first & gate))
            values: Values = {}
            if online.top is not None:
                values[self.held(100)] = self.tops[slot].get()
            for i, sums in enumerate(self.sums):
                values[self.held(200 + i)] = self.across(sums[slot].get(), ops.ADD)
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
            here[self.form.columns] = column + lane_numbers(2) if self.width == 2 else column
            for i, part in enumerate(self.online.products):
                here[part.leaf] = self._sum(i, register)
        value = by_reciprocals(value, [self.form.columns, *(part.leaf for part in self.online.products)])
        inside = {**here, self.form.rows: self.inside(here[self.form.rows], self.m, self.size.rows)}
        return target.store(self.at(value, inside), self.at(position, here), gate=gate)
