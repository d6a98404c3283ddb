"""Which values are kept in memory: the kernels of a schedule.

Goes in: the values to compute, each with the buffer it goes to. Comes out: the values that get a buffer, and the scalar
expression of each, reading the others from theirs.

Everything fuses unless it would be computed too often (`lower.py` reports those), or on too few cores: a reduction to
very few elements over very many stands alone, so that it can be split. Starting from the outputs, a kernel is lowered
with what is kept so far; what it reports is kept too, and every kernel that had it fused is lowered again. The set only
grows, so this ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp
from whit.schedule.join import lower_join, to_compute
from whit.schedule.lower import MOST_STACKED, Lowering, is_join, narrowest, prod_of, read_value, reads_of
from whit.schedule.lower_write import lower_write
from whit.schedule.movement import over, source_position

LARGE_PART = 1 << 12  # elements of a source of a STACK: choosing between sources costs more than a loop for each
WHOLE_VIEWS = frozenset({ops.RESHAPE, ops.PERMUTE, ops.FLIP})  # they show every element once
MUCH = 3  # values of its own size that a value reads, from which on two kernels do not both compute it
WIDE = 500  # nodes to look at for what a value reads: the gates of a recurrent layer are 100
FAR = 100  # nodes to look at for a scan


@dataclass(frozen=True, slots=True)
class Kernel:
    """One value over the ranges of its shape."""

    root: UOp  # the tensor-stage node
    value: UOp  # its element at the ranges
    ranges: tuple[UOp, ...]  # one for each axis that is longer than 1
    position: tuple[UOp, ...]  # one for each axis; none if the root is a join, whose value is a GROUP too
    parts: int  # of a long STACK: the value is a GROUP with one element for each source; 0 for anything else
    fused: dict[UOp, None]  # tensor-stage nodes computed here
    is_write: bool = False  # the root is a write: the value is a GROUP of STOREs into the memory of what it stands on


@dataclass(slots=True)
class Writes:
    """What is written over, and what had to be kept or copied so that this comes out right."""

    over: dict[UOp, UOp]  # write -> the value whose memory it takes
    staged: dict[tuple[UOp, int], None] = field(default_factory=dict)  # stores of a write whose sources are kept first
    saved: dict[UOp, UOp] = field(default_factory=dict)  # value that is overwritten too early -> its copy

    @property
    def overwritten(self) -> Collection[UOp]:
        """The values whose memory is taken."""
        return self.over.values()


NO_WRITES = Writes({})


def choose_stages(outputs: Iterable[UOp], writes: Writes = NO_WRITES) -> dict[UOp, Kernel]:
    """The kernels that compute the outputs and the writes, by the value they compute."""
    roots = list(dict.fromkeys([*outputs, *writes.over, *writes.saved.values()]))
    kept = set(roots)
    kernels: dict[UOp, Kernel] = {}
    owners: dict[UOp, UOp] = {}  # expensive node -> the kernel that has it fused
    users: dict[UOp, dict[UOp, None]] = {}  # node -> the kernels that have computed it
    uses = Counter(s for node in topological(roots) for s in node.src)
    todo = list(reversed(roots))
    while todo:
        root = todo.pop()
        if root in kernels:
            continue
        kernel, to_keep = lower_kernel(root, kept, writes)
        to_keep += _shared(kernel, owners, kernels, kept, uses)
        fresh = [narrowest(node) for node in to_keep]
        fresh += to_compute(root, kept) if is_join(root) else ()
        fresh = [node for node in dict.fromkeys(fresh) if node not in kept and node.op not in (ops.PARAM, ops.BUFFER)]
        kept.update(fresh)
        if fresh:
            todo.append(root)
            todo.extend(_forget(fresh, kernels, users))
            continue
        kernels[root] = kernel
        for node in kernel.fused:
            users.setdefault(node, {})[root] = None
        needs = [node for node in _needs(kernel) if node not in kernels]
        todo.extend(reversed(needs) if is_join(root) else needs)  # parts in their order, as outputs are
    return kernels


def lower_kernel(root: UOp, kept: set[UOp], writes: Writes = NO_WRITES) -> tuple[Kernel, list[UOp]]:
    """The kernel of a value, and the values that it should not compute itself."""
    lowering = Lowering(kept, _saved_for(root, writes.saved))
    if root in writes.over:
        staged = [(root, i) in writes.staged for i in range(len(root.src) - 1)]
        ranges, value = lower_write(root, staged, writes.overwritten, lowering)
        return Kernel(root, value, ranges, (), 0, lowering.fused, is_write=True), lowering.to_keep
    if is_join(root):
        return Kernel(root, lower_join(root, lowering), (), (), 0, lowering.fused), lowering.to_keep
    stack = stack_under(root, kept)
    ranges, position = over(root.shape if stack is None else stack.shape[1:])
    backward = None if stack is not None else _backward_axis(root)
    if backward is not None:
        position = source_position(root.flip((backward,)), position)[0]
    if stack is not None:
        sources = (read_value(s, position) if s in kept else lowering.lower(s, ranges, position) for s in stack.src)
        value, parts = UOp.group(*sources), len(stack.src)
    else:
        value, parts = lowering.lower(root, ranges, position), 0
    return Kernel(root, value, ranges, position, parts, lowering.fused), lowering.to_keep


def stack_under(root: UOp, kept: set[UOp]) -> UOp | None:
    """The STACK that a value shows all of in some order, if it is to be written part by part: many, or large ones."""
    node = root
    while node.op in WHOLE_VIEWS and (node is root or node not in kept):
        node = node.src[0]
    if node.op is not ops.STACK or (node is not root and node in kept):
        return None
    is_long = len(node.src) > MOST_STACKED or prod_of(node.shape[1:]) >= LARGE_PART
    return node if is_long else None


def _backward_axis(root: UOp) -> int | None:
    """The axis that a kernel walks from its end: that of a scan from the end, also below elementwise ops, which are
    then computed on the way."""
    stack, seen = [root], {root}
    while stack and len(seen) < FAR:
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


def _shared(
    kernel: Kernel, owners: dict[UOp, UOp], kernels: dict[UOp, Kernel], kept: set[UOp], uses: Counter[UOp]
) -> list[UOp]:
    """What this kernel and another compute: reductions, and values that read much, are computed once and kept."""
    found = []
    for node in kernel.fused:
        is_reduce = node.op is ops.REDUCE
        if node is kernel.root or not (is_reduce or (node.op.elementwise and uses[node] > 1)):
            continue
        owner = owners.setdefault(node, kernel.root)
        if owner is not kernel.root and owner in kernels and node in kernels[owner].fused:
            if is_reduce or reads_much(node, kept):
                found.append(node)
        elif owner is not kernel.root:
            owners[node] = kernel.root
    return found


def reads_much(root: UOp, kept: set[UOp]) -> bool:
    """Whether a value reads so many others of its size that reading it instead is worth storing it.

    A sum that goes on from layer to layer would otherwise be added up from its beginning in every kernel that needs it,
    and the memory of a recurrent layer be computed from the first step on. Several parts of one value count each.
    """
    size, reads = prod_of(root.shape), 0
    stack, seen = [root], {root}
    while stack and reads < MUCH and len(seen) < WIDE:
        node = stack.pop()
        base = _viewed(node, kept)
        if node is not root and (base in kept or base.op in (ops.PARAM, ops.BUFFER)):
            reads += 2 * min(prod_of(node.shape), prod_of(base.shape)) >= size
        elif node.op.elementwise or node.op in ops.MOVEMENT or node.op is ops.CAST:
            fresh = [s for s in node.src if s not in seen]
            seen.update(fresh)
            stack.extend(fresh)
    return reads >= MUCH


def _viewed(node: UOp, kept: set[UOp]) -> UOp:
    """What a value is a view of."""
    while node not in kept and node.op in ops.MOVEMENT:
        node = node.src[0]
    return node


def _forget(fresh: list[UOp], kernels: dict[UOp, Kernel], users: dict[UOp, dict[UOp, None]]) -> list[UOp]:
    """Kernels that had computed what is kept from now on: to be lowered again."""
    stale = [root for node in fresh for root in users.pop(node, ()) if root is not node]
    return [root for root in dict.fromkeys(stale) if kernels.pop(root, None) is not None]


def _needs(kernel: Kernel) -> list[UOp]:
    """The kept values that the kernel reads."""
    return [node for node in reads_of(kernel.value) if node.op not in (ops.PARAM, ops.BUFFER)]
