"""Where the threads of a GPU are in a kernel: ranges as digits of a number, neighbours in vectors, stores of some.

number, ranges r0 < 40 and r1 < 48      ->      r0 = number // 48, r1 = number % 48
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from whit.ir import ops
from whit.ir.args import RangeKind
from whit.ir.graph import topological
from whit.ir.nesting import Owner
from whit.ir.uop import UOp, as_index
from whit.kernel.ranges import stride
from whit.simplify import simplify
from whit.simplify.sums import linear_form
from whit.target import Target

Free = dict[UOp, frozenset[UOp]]
MOST_FOLDED = 64  # elements that a thread stores side by side, each read from somewhere else


@dataclass(frozen=True, slots=True)
class Copy:
    """One of the vectors that a thread has of a row: what nodes are for its elements, and which of these there are."""

    values: dict[UOp, UOp]
    gate: UOp | None  # None: all

    def sources(self, node: UOp) -> tuple[UOp, ...]:
        """The operands of a node here."""
        return tuple([self.values[s] for s in node.src])


def block_range(count: int | UOp) -> UOp:
    """The range over thread blocks."""
    return UOp.range(count, 0, RangeKind.BLOCK, Owner.BLOCK)


def thread_range(count: int) -> UOp:
    """The range over the threads of a block."""
    return UOp.range(count, 0, RangeKind.THREAD, Owner.THREAD)


def unravel(number: UOp, ranges: list[UOp], steps: dict[UOp, int]) -> dict[UOp, UOp]:
    """The ranges as digits of a number, the last one the lowest; a range with a step counts in these."""
    indices: dict[UOp, UOp] = {}
    for i, r in enumerate(reversed(ranges)):
        size = as_index(r.size) // steps.get(r, 1)
        indices[r] = number if i == len(ranges) - 1 else number % size
        number = number // size
    return indices


def trips(count: UOp, parts: int, part: UOp) -> UOp:
    """How often a thread runs that has the part-th of these, and every `parts`-th after it."""
    if count.op is ops.CONST and count.arg % parts == 0:
        return as_index(count.arg // parts)
    return (count + (parts - 1) - part) // parts


def strided_loop(count: UOp, parts: int, part: UOp, most: int) -> tuple[UOp, int]:
    """The same in steps of several at once: how many steps, and of how many. One, if not all threads have as many."""
    steps = most if count.op is ops.CONST else 1
    while steps > 1 and count.arg % (parts * steps):
        steps -= 1
    return trips(count // steps, parts, part), steps


def width_of(body: UOp, target: Target, ranges: Collection[UOp], free: Free) -> int:
    """Lanes of 16 bytes of the widest dtype that is read or written along ranges: 8 of halves, whatever they are
    computed in."""
    accesses = [node for node in topological((body,)) if node.op in (ops.INDEX, ops.STORE)]
    along = [node.src[0].dtype.itemsize for node in accesses if not free[node].isdisjoint(ranges)]
    return max(target.vector_bytes // max(along, default=4), 1)


def places_along(r: UOp, free: Free) -> list[UOp]:
    """The positions of all accesses to memory that move along a range."""
    reads = [node.src[1] for node in free if node.op is ops.INDEX and node.src[0].op is ops.PARAM and r in free[node]]
    return reads + [node.src[2] for node in free if node.op is ops.STORE and r in free[node]]


def lanes_of(r: UOp, width: int, places: Collection[UOp], free: Free, is_whole: bool = True) -> int:
    """How many neighbours along a range are one vector: a power of two that divides it; if it need not be whole
    vectors, that divides how far rows are apart."""
    if not isinstance(r.size, int):
        return 1
    while width > 1:
        steps = [_step(place, r, width, free) for place in places]
        moving = [place for place, step in zip(places, steps, strict=True) if step]
        apart = [r.size] if is_whole else [n for place in moving for n in _apart(place, r)]
        if 1 in steps and all(step in (0, 1) for step in steps) and not any(n % width for n in apart):
            return width
        width //= 2
    return 1


def is_folded(body: UOp, r: UOp, places: Collection[UOp], free: Free) -> bool:
    """Whether a short range, of neighbours in what is stored, is several in what is read, as taps and channels of a
    convolution are (`fold_taps`): if a thread has all of it, where each element is read is known before it runs."""
    if any(stride(store.src[2], r, free) != 1 for store in body.src):
        return False
    folded = [place for place in places if stride(place, r, free) is None]
    is_computed = not any(node.op is ops.INDEX for place in folded for node in place.topological())
    return bool(folded) and is_computed and isinstance(r.size, int) and r.size <= MOST_FOLDED


def _step(place: UOp, r: UOp, width: int, free: Free) -> int | None:
    """How far a position moves along a range, from one of `width` neighbours to the next: r % 64 by 1, among 8."""
    step = stride(place, r, free)
    if step is not None or r.size % width:
        return step
    first = r.resized(r.size // width) * width
    forms = [linear_form(simplify(place.substitute({r: first + lane}))) for lane in range(width)]
    (terms, offset), (_, second) = forms[:2]
    step = second - offset
    return step if all(form == (terms, offset + step * lane) for lane, form in enumerate(forms)) else None


def _apart(place: UOp, r: UOp) -> list[int]:
    """What a position moves by when others than this range move."""
    terms, offset = linear_form(place)
    return [offset, *(factor for base, factor in terms.items() if base is not r)]


def narrowed(gate: UOp, given: list[UOp]) -> UOp:
    """A gate, and the one that an access has already, if it has one."""
    return gate & given[0] if given else gate


def as_wide(gate: UOp, position: UOp) -> UOp:
    """A gate for each of the lanes of a position, if it has lanes."""
    return UOp.stack(*([gate] * position.shape[0])) if position.shape and not gate.shape else gate


def once(store: UOp, indices: dict[UOp, UOp], ranges: list[UOp], free: Free) -> list[UOp]:
    """Where a store runs that does not move along some of the ranges: at the first place along these."""
    return [indices[r].eq(0) for r in ranges if r not in free[store]]


def only_where(store: UOp, gates: list[UOp]) -> UOp:
    """A store under more conditions."""
    if not gates:
        return store
    target, value, position, *gate = store.src
    every = gate[0] if gate else gates.pop()
    for more in gates:
        every = every & more
    return target.store(value, position, combine=store.arg.combine, gate=as_wide(every, position))
