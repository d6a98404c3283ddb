"""Which values are stored in memory: the kernels of a schedule.

Goes in: the values to compute, each with the buffer it goes to. Comes out: the values that get a buffer, and the scalar
expression of each, reading the others from theirs.

Everything fuses unless `may_fuse.py` has a reason against it. Starting from the outputs, a kernel is lowered with what
is stored so far; what it reports is stored too, and every kernel that had it fused is lowered again. The set only
grows, so this ends. Some values were stored early that cost next to nothing now that others are stored too: in the end
each of these is given up, if nothing else has to be stored instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from whit.config import FLASH_ATTENTION, NOOPT
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp
from whit.records import dataclass, field, replace
from whit.schedule.lower import Lowering, read_value, reads_of
from whit.schedule.movement import Positions, ranges_over, source_position
from whit.schedule.stages.epilogue import narrowing
from whit.schedule.stages.join import lower_join, to_compute
from whit.schedule.stages.may_fuse import (
    MOST_READS,
    MOST_STACKED,
    after_product,
    for_products,
    is_copied_operand,
    is_next_to_nothing,
    is_row_of_products,
    of_shared,
    of_way_station,
)
from whit.schedule.values import is_join, narrowest, prod_of
from whit.schedule.writes.lower import lower_write
from whit.target import ANY_CPU, Target

# elements of a source of a STACK: choosing between sources costs more than a loop for each
LARGE_PART_ELEMENTS = 1 << 12
WHOLE_VIEWS = frozenset({ops.RESHAPE, ops.PERMUTE, ops.FLIP})  # they show every element once
FAR_NODES = 100  # nodes to look at for a scan


@dataclass(frozen=True, slots=True)
class StoredValue:
    """One value over the ranges of its shape."""

    root: UOp  # the tensor-stage node
    value: UOp  # its element at the ranges
    ranges: tuple[UOp, ...]  # one for each axis that is longer than 1
    position: tuple[UOp, ...]  # one for each axis; none if the root is a join, whose value is a GROUP too
    parts: int  # of a long STACK: the value is a GROUP with one element for each source; 0 for anything else
    fused: dict[UOp, None]  # tensor-stage nodes computed here
    reads: list[UOp]  # the memory that it reads: stored nodes, params and buffers
    is_attention: bool = False  # it computes blocks of a matrix that is not stored
    is_write: bool = False  # the root is a write: the value is a GROUP of STOREs into the memory of what it stands on
    reason: str = ""  # why the value is stored; none for what was asked for


@dataclass(slots=True)
class Writes:
    """What is written over, and what had to be stored or copied so that this comes out right."""

    over: dict[UOp, UOp]  # write -> the value whose memory it takes
    # stores of a write whose sources are stored first
    staged: dict[tuple[UOp, int], None] = field(default_factory=dict)
    saved: dict[UOp, UOp] = field(default_factory=dict)  # value that is overwritten too early -> its copy

    @property
    def overwritten(self) -> Collection[UOp]:
        """The values whose memory is taken."""
        return self.over.values()


NO_WRITES = Writes({})


def choose_stages(
    outputs: Iterable[UOp], writes: Writes = NO_WRITES, target: Target = ANY_CPU
) -> dict[UOp, StoredValue]:
    """The kernels that compute the outputs and the writes, by the value they compute."""
    roots = list(dict.fromkeys([*outputs, *writes.over, *writes.saved.values()]))
    order = topological(roots)
    stages = Stages(
        writes,
        set(roots),
        _asked_for(roots, writes),
        Counter(s for node in order for s in node.src),
        narrowing(order),
        target,
    )
    stages.compute_in_blocks(roots)
    stages.settle(roots)
    stages.reconsider(roots)
    return stages.used(roots)


def _asked_for(roots: Iterable[UOp], writes: Writes) -> dict[UOp, str]:
    """Why those are stored that are not results, nor found here."""
    staged = dict.fromkeys((root for root in roots if root.op is ops.STAGE), "the graph asks for it")
    return staged | dict.fromkeys(writes.saved.values(), "what it is a copy of is overwritten before it is read last")


@dataclass(slots=True)
class Attempt:
    """What changes while a value is given up, to go back to: in proportion to that, not to all kernels."""

    before: dict[UOp, tuple[int, StoredValue | None]] = field(default_factory=dict)  # root -> number and kernel
    has_failed: bool = False  # something would have to be stored instead


@dataclass(slots=True)
class Stages:
    """The state of choosing."""

    writes: Writes
    stored: set[UOp]
    reasons: dict[UOp, str]  # why what is stored is, but for what was asked for
    uses: Counter[UOp]  # of nodes, in the graph
    narrowing: dict[UOp, UOp]  # nodes that are used once, by a cast to a narrower dtype
    target: Target
    kernels: dict[UOp, StoredValue] = field(default_factory=dict)
    numbers: dict[UOp, int] = field(default_factory=dict)  # in which order they were lowered
    count: int = 0  # of all that were
    attempt: Attempt | None = None
    owners: dict[UOp, UOp] = field(default_factory=dict)  # expensive node -> the kernel that has it fused
    users: dict[UOp, dict[UOp, None]] = field(default_factory=dict)  # node -> the kernels that have computed it
    readers: dict[UOp, dict[UOp, None]] = field(default_factory=dict)  # node -> the kernels that have read its memory
    inline: set[UOp] = field(default_factory=set)  # nodes that are computed wherever they are needed
    in_doubt: dict[UOp, None] = field(default_factory=dict)  # stored for a reason that may be gone
    dropped: list[UOp] = field(default_factory=list)  # kernels that were to be lowered again
    positions: Positions = field(default_factory=dict)
    scores: set[UOp] = field(default_factory=set)  # contractions whose results are never stored
    for_products: set[UOp] = field(default_factory=set)  # values that products of matrices are to read from memory

    def compute_in_blocks(self, roots: list[UOp]) -> None:
        """Finds the matrices that are never stored, and keeps what is made of them."""
        if NOOPT or not FLASH_ATTENTION:  # without tiles, a matrix would be computed for each column made of it
            return
        order = topological(roots)
        if all(node.op is not ops.REDUCE for node in order):
            return
        from whit.schedule.stages.attention import find_attentions  # lazy: the first graph that reduces

        def lower(root: UOp, inline: Collection[UOp], stored: Collection[UOp]) -> UOp:
            more = [node for node in stored if node not in self.stored]
            self.stored.update(more)  # for now: a copy of all would take longer with every layer
            try:
                return lower_kernel(root, self.stored, self.writes, inline, self.positions, self.target.is_gpu)[0].value
            finally:
                self.stored.difference_update(more)

        found = find_attentions(order, self.stored, lower, self.target)
        self.inline |= found.inline
        self.scores |= found.scores
        self._note_kept({self.narrowing.get(node, node): reason for node, reason in found.stored.items()})

    def settle(self, roots: list[UOp]) -> None:
        """Lowers kernels, and what they read, until nothing more is to be stored."""
        kernels, stored = self.kernels, self.stored
        todo = list(reversed(roots))
        while todo:
            root = todo.pop()
            if root in kernels:
                continue
            kernel, lowering = lower_kernel(root, stored, self.writes, self.inline, self.positions, self.target.is_gpu)
            if self.scores and not self.scores.isdisjoint(kernel.fused):
                kernel = replace(kernel, is_attention=True)
            fresh = self._fresh(kernel, lowering)
            self.in_doubt.update(dict.fromkeys(map(narrowest, lowering.in_doubt)))
            if fresh and self.attempt is not None:
                self.attempt.has_failed = True
                return  # what else would have to be stored does not matter, and it may be all layers above
            if fresh:
                todo.append(root)
                todo.extend(self._store(fresh))
                continue
            self._enter(kernel)
            needs = [node for node in _needs(kernel) if node not in kernels]
            todo.extend(reversed(needs) if is_join(root) else needs)  # parts in their order, as outputs are

    def reconsider(self, roots: list[UOp]) -> None:
        """Gives up values that were stored and need not be, as things are now."""
        fixed = set(roots)
        for node in self._in_order(self.kernels):
            kernel = self.kernels.get(node)
            if kernel is not None and node not in fixed and node not in self.for_products:
                self._reconsider(kernel)

    def _reconsider(self, kernel: StoredValue) -> None:
        node = kernel.root
        is_maybe = node in self.in_doubt or is_next_to_nothing(kernel, self.readers, self.stored)
        if is_maybe and self._give_up(node, self._reading(node)):
            return
        readers = self._reading(node)
        reading = [self.kernels[root] for root in readers]
        is_row = is_row_of_products(kernel, reading, self.target)
        if is_row or is_copied_operand(kernel, reading, self.readers, self.stored):
            above = [n for reader in reading for n in reader.fused if is_row and narrowest(n) is node]
            inside = {node, *kernel.fused, *above} - self.inline  # casts of a row are as expensive as it is
            self.inline |= inside
            if not self._give_up(node, readers):
                self.inline -= inside

    def _reading(self, node: UOp) -> list[UOp]:
        """The kernels that read the memory of a value as things are now."""
        found = self.readers.get(node, ())
        return [root for root in found if root in self.kernels and node in self.kernels[root].reads]

    def _give_up(self, node: UOp, readers: Iterable[UOp]) -> bool:
        """Computes a value wherever it is needed, unless others would be stored for that."""
        self.attempt = attempt = Attempt()
        self.dropped = [root for root in (node, *readers) if self._drop(root)]
        self.stored.discard(node)
        self.settle(self.dropped[1:])
        self.attempt = None
        if not attempt.has_failed:
            return True
        self.stored.add(node)
        for root, (number, kernel) in attempt.before.items():
            self.kernels.pop(root, None)
            if kernel is not None:
                self.kernels[root], self.numbers[root] = kernel, number
        for root in self.dropped:
            if root in self.kernels:
                self._note(self.kernels[root])
        return False

    def _drop(self, root: UOp) -> bool:
        """Forgets a kernel; whether there was one."""
        kernel = self.kernels.pop(root, None)
        if self.attempt is not None and root not in self.attempt.before:
            self.attempt.before[root] = (self.numbers.get(root, 0), kernel)
        return kernel is not None

    def _enter(self, kernel: StoredValue) -> None:
        self._drop(kernel.root)
        self.count += 1
        self.kernels[kernel.root], self.numbers[kernel.root] = kernel, self.count
        self._note(kernel)

    def _note(self, kernel: StoredValue) -> None:
        for node in kernel.fused:
            self.users.setdefault(node, {})[kernel.root] = None
        for node in _needs(kernel):
            self.readers.setdefault(node, {})[kernel.root] = None

    def _in_order(self, roots: Iterable[UOp]) -> list[UOp]:
        """Kernels in the order in which they were lowered."""
        return sorted(roots, key=self.numbers.__getitem__)

    def used(self, roots: list[UOp]) -> dict[UOp, StoredValue]:
        """The kernels that are needed, in the order in which they were lowered."""
        found = set(roots)
        stack = list(roots)
        while stack:
            fresh = [node for node in _needs(self.kernels[stack.pop()]) if node not in found]
            found.update(fresh)
            stack.extend(fresh)
        return {root: replace(self.kernels[root], reason=self.reasons.get(root, "")) for root in self._in_order(found)}

    def _fresh(self, kernel: StoredValue, lowering: Lowering) -> dict[UOp, str]:
        """What is to be stored for a kernel, and why, without what is stored already."""
        places: dict[UOp, str] = {}
        for node, reason in (*lowering.to_store.items(), *self._beside(kernel)):
            narrow = narrowest(node)
            places.setdefault(self.narrowing.get(narrow, narrow), reason)
        for node in to_compute(kernel.root, self.stored) if is_join(kernel.root) else ():
            places.setdefault(node, "computed where it lies, as a part of another")
        for node, reason in lowering.views.items():
            places.setdefault(node, reason)
        if not kernel.is_attention:
            wanted = for_products((kernel.root, *kernel.fused), self.stored, self.target)
            found = {self.narrowing.get(node, node): reason for node, reason in wanted.items()}
            self.for_products.update(found)
            for node, reason in found.items():
                places.setdefault(node, reason)
        memory = (ops.PARAM, ops.BUFFER)
        return {node: why for node, why in places.items() if node not in self.stored and node.op not in memory}

    def _beside(self, kernel: StoredValue) -> Iterator[tuple[UOp, str]]:
        """What a kernel is not to compute beside others, beside so much, or beside a product."""
        yield from self._shared(kernel)
        if kernel.is_attention:
            return
        if len(kernel.reads) > MOST_READS:
            for node in kernel.fused:
                if node.op.elementwise and self.uses[node] > 1 and node is not kernel.root and node not in self.inline:
                    answer = of_way_station(node, self.stored)
                    if answer.stored:
                        yield node, answer.reason
        if self.target.has_wgmma:
            yield from after_product(kernel.root, kernel.value, kernel.fused).items()

    def _shared(self, kernel: StoredValue) -> Iterator[tuple[UOp, str]]:
        """What this kernel and another compute, and should not."""
        root = kernel.root
        for node in kernel.fused:
            if not self._may_be_shared(node) or node is root:
                continue
            owner = self.owners.setdefault(node, root)
            if owner is root:
                continue
            if owner not in self.kernels or node not in self.kernels[owner].fused:
                self.owners[node] = root
                continue
            answer = of_shared(node, self.stored)
            if answer.stored:
                yield node, answer.reason

    def _may_be_shared(self, node: UOp) -> bool:
        """Whether a value may be too much for two kernels: loops are, and what more than one value is made of."""
        return node not in self.inline and (node.op is ops.REDUCE or (node.op.elementwise and self.uses[node] > 1))

    def _note_kept(self, places: Mapping[UOp, str]) -> None:
        self.reasons.update({node: reason for node, reason in places.items() if node not in self.stored})
        self.stored.update(places)

    def _store(self, fresh: Mapping[UOp, str]) -> list[UOp]:
        """Keeps values; the kernels that had computed them are to be lowered again."""
        self._note_kept(fresh)
        stale = [root for node in fresh for root in self.users.pop(node, ()) if root is not node]
        dropped = [root for root in dict.fromkeys(stale) if self._drop(root)]
        self.dropped.extend(dropped)
        return dropped


def lower_kernel(
    root: UOp,
    stored: set[UOp],
    writes: Writes = NO_WRITES,
    inline: Collection[UOp] = (),
    positions: Positions | None = None,
    is_gpu: bool = False,
) -> tuple[StoredValue, Lowering]:
    """The kernel of a value, and what its lowering says about the values that it should not compute itself."""
    known = {} if positions is None else positions
    lowering = Lowering(stored, inline, _saved_for(root, writes.saved), positions=known, is_gpu=is_gpu)
    if root in writes.over:
        staged = [(root, i) in writes.staged for i in range(len(root.src) - 1)]
        ranges, value = lower_write(root, staged, writes.overwritten, lowering)
        return StoredValue(root, value, ranges, (), 0, lowering.fused, reads_of(value), is_write=True), lowering
    if is_join(root):
        value = lower_join(root, lowering)
        return StoredValue(root, value, (), (), 0, lowering.fused, reads_of(value)), lowering
    stack = stack_under(root, stored)
    ranges, position = ranges_over(root.shape if stack is None else stack.shape[1:])
    backward = None if stack is not None else _backward_axis(root)
    if backward is not None:
        position = source_position(root.flip((backward,)), position)[0]
    if stack is not None:
        sources = (read_value(s, position) if s in stored else lowering.lower(s, ranges, position) for s in stack.src)
        value, parts = UOp.group(*sources), len(stack.src)
    else:
        value, parts = lowering.lower(root, ranges, position), 0
    return StoredValue(root, value, ranges, position, parts, lowering.fused, reads_of(value)), lowering


def stack_under(root: UOp, stored: set[UOp]) -> UOp | None:
    """The STACK that a value shows all of in some order, if it is to be written part by part: many, or large ones."""
    node = root
    while (node.op in WHOLE_VIEWS or node.op is ops.STAGE) and (node is root or node not in stored):
        node = node.src[0]
    if node.op is not ops.STACK or (node is not root and node in stored):
        return None
    is_long = len(node.src) > MOST_STACKED or prod_of(node.shape[1:]) >= LARGE_PART_ELEMENTS
    return node if is_long else None


def _backward_axis(root: UOp) -> int | None:
    """The axis that a kernel walks from its end: that of a scan from the end, also below elementwise ops, which are
    then computed on the way."""
    stack, seen = [root], {root}
    while stack and len(seen) < FAR_NODES:
        node = stack.pop()
        if node.op is ops.SCAN and node.arg.reverse:
            axis: int = node.arg.axis
            return axis
        if node.op.elementwise or node.op is ops.CAST:
            fresh = [s for s in node.src if s not in seen and s.shape == root.shape]
            seen.update(fresh)
            stack.extend(fresh)
    return None


def _saved_for(root: UOp, saved: Mapping[UOp, UOp]) -> Mapping[UOp, UOp]:
    """The copies to read; the kernel that makes a copy reads what it copies."""
    if root not in saved.values():
        return saved
    return {value: copy for value, copy in saved.items() if copy is not root}


def _needs(kernel: StoredValue) -> list[UOp]:
    """The stored values that the kernel reads."""
    return [node for node in kernel.reads if node.op not in (ops.PARAM, ops.BUFFER)]
