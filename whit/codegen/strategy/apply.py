"""Splits ranges and names what each piece is: the one step from a kernel to its tiled form.

A range of size n with vectors of w lanes, u of them side by side, becomes up to three pieces:

    r < 120, w = 16, u = 2    ->    o < 3: r = o*32 + lane, r = o*32 + 16 + lane      the main part
                                    r = 96 + lane                                     whole vectors that are left
                                    r = 112 + lane, where lane < 8                    a masked vector

Lanes are the elements of a vector: `lane` is the vector (0, 1, ..., w-1), and whatever depends on it becomes a vector
by the shape rules of the IR. So a vectorised kernel means what the interpreter says it means. Unrolled copies are
separate stores (or separate accumulators) that share their loops.

A symbolic size is cut in the same way, by expressions: loops of n // 32 and n % 32 // 16, and a mask lane < n % 16.

When a range that runs on the cores leaves a rest, its loop has one more iteration for the rest, and a loop of size 0
or 1 inside decides which of the two an iteration is. An access is in that loop because its memory is AFTER the range:
its position cannot say so, since adding a number that is always 0 is simplified away.
"""

from __future__ import annotations

import itertools

from whit.codegen.cpu.loops import PIECE_ELEMENTS, LoopStrategy
from whit.codegen.passes.lanes import lane_numbers, masked
from whit.codegen.strategy.split_scan import split_scan
from whit.ir import ops
from whit.ir.args import RangeKind
from whit.ir.graph import topological
from whit.ir.map_graph import map_graph, rebuilt
from whit.ir.nesting import Owner
from whit.ir.op import Sources
from whit.ir.uop import UOp, as_index, const, make
from whit.kernel.ranges import free_ranges, in_order, replace_ranges
from whit.records import dataclass
from whit.simplify.bounds import bounds

ZERO = as_index(0)
MOST_LOOPS = 16  # that the pieces of one range have
# Bytes inside of which a processor looks ahead. Sums of four pages at once: 2.9 -> 2.5 ms for 64 MiB on two cores if
# they start inside of a cache line, as NumPy's do; the same if they start with one.
PAGE = 4096


@dataclass(frozen=True, slots=True)
class Loops:
    """The loops over the pieces of one range."""

    owner: Owner
    first: int  # the id of the first

    def over(self, count: int | UOp, number: int) -> UOp:
        """One of them; 0 where it would run once."""
        return UOp.range(count, self.first + number, owner=self.owner) if count != 1 else ZERO

    def after(self, count: int) -> Loops:
        """All but the first `count`."""
        return Loops(self.owner, self.first + count)


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a range: the values it takes, side by side, the lanes that exist, the loop that decides if it runs."""

    copies: tuple[UOp, ...]
    mask: UOp | None = None
    guard: UOp | None = None


def apply_strategy(body: UOp, strategy: LoopStrategy) -> UOp:
    """The tiled kernel: a GROUP of stores."""
    body = split_scan(_split_reductions(body, strategy), strategy)
    needs = _outputs_needed(body, strategy.order)
    stores: list[UOp] = []
    numbers: dict[tuple[UOp, tuple[int, ...]], UOp] = {}
    for picks, choice in _choices(strategy):
        mask = _all_of([piece.mask for piece in choice])
        source = _guarded(body, strategy.core, [piece.guard for piece in choice if piece.guard is not None])
        loops = _own_loops(needs, picks, strategy.order, numbers)
        # the innermost range first: in a register tile, a broadcast operand meets all its partners at once, and is done
        for copies in itertools.product(*(piece.copies for piece in reversed(choice))):
            values = {**dict(zip(reversed(strategy.order), copies, strict=True)), **loops}
            copied = replace_ranges(source, values, {old: (new,) for old, new in loops.items()})
            stores.extend(copied.src if mask is None else masked(copied, mask).src)
    return UOp.group(*dict.fromkeys(stores))  # what a row has once comes with each of its pieces


def _guarded(body: UOp, core: UOp | None, guards: list[UOp]) -> UOp:
    """The kernel with what depends on the cores' range inside of loops that may not run."""
    if not guards:
        return body
    free = free_ranges(body)

    def guarded(node: UOp, src: Sources) -> UOp | None:
        is_access = node.op in (ops.INDEX, ops.STORE) and core in free[node]
        return make(node.op, (src[0].after(*guards), *src[1:]), node.arg) if is_access else None

    return map_graph(body, guarded)


def _choices(strategy: LoopStrategy) -> list[tuple[tuple[int, ...], tuple[Piece, ...]]]:
    """Every combination of pieces of the output ranges, with their numbers. Inner loops are new in each."""
    found: list[tuple[tuple[int, ...], tuple[Piece, ...]]] = [((), ())]
    used = 0
    for r in strategy.order:
        extended = []
        for picks, choice in found:
            used += 1
            for number, piece in enumerate(_pieces_of(r, Loops(Owner.PIECE, used * MOST_LOOPS), strategy)):
                extended.append(((*picks, number), (*choice, piece)))
        found = extended
    return found


def _outputs_needed(body: UOp, order: list[UOp]) -> dict[UOp, set[UOp]]:
    """For every reduce range, the output ranges that its reductions depend on."""
    free = free_ranges(body)
    needs: dict[UOp, set[UOp]] = {}
    for node in reversed(topological((body,))):  # outer reductions first
        if node.op is ops.REDUCE:
            outside = {r for r in free[node] if r in order}
            for r in free[node] - outside:
                outside |= needs.get(r, set())
            for r in node.src[1:]:
                needs.setdefault(r, set()).update(outside)
    return needs


def _own_loops(
    needs: dict[UOp, set[UOp]],
    picks: tuple[int, ...],
    order: list[UOp],
    numbers: dict[tuple[UOp, tuple[int, ...]], UOp],
) -> dict[UOp, UOp]:
    """Reductions run inside the loops of their pieces: a range for each combination they depend on."""
    loops: dict[UOp, UOp] = {}
    for r, outputs in needs.items():
        key = (r, tuple(pick for pick, output in zip(picks, order, strict=True) if output in outputs))
        if key not in numbers:
            numbers[key] = UOp.range(r.src[0], len(numbers), r.arg.kind, Owner.SUM)
        loops[r] = numbers[key]
    return loops


def _all_of(masks: list[UOp | None]) -> UOp | None:
    found = [mask for mask in masks if mask is not None]
    result = found[0] if found else None
    for mask in found[1:]:
        result = mask if result is None else result & mask
    return result


def split(size: int, width: int, unroll: int) -> tuple[int, int, int]:
    """How often the main part runs, how many whole vectors are left, how many elements after that."""
    step = width * unroll
    main, rest = divmod(size, step)
    if width == 1:
        return main, 0, rest
    return main, rest // width, rest % width


def _pieces_of(r: UOp, loops: Loops, strategy: LoopStrategy) -> list[Piece]:
    """The pieces of an output range."""
    width, unroll = strategy.lanes.get(r, 1), strategy.unroll.get(r, 1)
    if r is strategy.core:
        return _core_pieces(r, width, unroll, loops, len(strategy.order) == 1)
    if width == unroll == 1:
        return [Piece((loops.over(r.src[0], 2),))]
    return _cut(r.size, width, unroll, ZERO, loops.after(2), None)


def _cut(
    size: int | UOp, width: int, unroll: int, start: UOp, loops: Loops, guard: UOp | None, far: int = 0
) -> list[Piece]:
    """Main part, whole vectors, masked vector of `size` elements from `start` on.

    The copies of the main part are neighbours; or, if each can have `far` elements to itself, each walks a part alone.
    """
    if not isinstance(size, int):
        return _cut_symbolic(size, width, unroll, start, loops)
    main, vectors, rest = split(size, width, unroll)
    lane = lane_numbers(width) if width > 1 else None
    pieces: list[Piece] = []

    def at(offset: UOp | int) -> UOp:
        place = start + as_index(offset)
        return place if lane is None else place + lane

    if main:
        is_far = 0 < far <= main * width
        step, between = (width, main * width) if is_far else (width * unroll, width)
        block = loops.over(main, 0) * step
        pieces.append(Piece(tuple(at(block + u * between) for u in range(unroll)), None, guard))
    done = main * width * unroll
    if vectors:
        pieces.append(Piece((at(loops.over(vectors, 1) * width + done),), None, guard))
        done += vectors * width
    if rest and lane is None:
        pieces.append(Piece(tuple(at(done + u) for u in range(rest)), None, guard))
    elif rest and lane is not None:
        pieces.append(Piece((at(done),), lane < rest, guard))
    return pieces


def _cut_symbolic(size: UOp, width: int, unroll: int, start: UOp, loops: Loops) -> list[Piece]:
    """The same for a size that is known when the kernel runs. Loops may not run, and a mask may have no lanes."""
    step = width * unroll
    lane = lane_numbers(width) if width > 1 else None
    largest = (bounds(size) or (0, step))[1]
    pieces: list[Piece] = []

    def at(place: UOp) -> UOp:
        return start + place if lane is None else start + place + lane

    if largest >= step:
        block = loops.over(size // step, 0) * step
        pieces.append(Piece(tuple(at(block + u * width) for u in range(unroll))))
    if lane is None:
        rest = loops.over(size % step, 1)
        return [*pieces, Piece((at(size // step * step + rest),))] if unroll > 1 else pieces
    if unroll > 1 and largest >= width:
        vectors = loops.over(size % step // width, 1) * width
        pieces.append(Piece((at(size // step * step + vectors),)))
    return [*pieces, Piece((at(size // width * width),), lane < size % width)]


def _core_pieces(r: UOp, width: int, unroll: int, loops: Loops, is_only: bool) -> list[Piece]:
    """The pieces of the range that runs on the cores: a block for each iteration, and one more for the rest."""
    if not isinstance(r.size, int):
        return _symbolic_core_pieces(r.size, width, unroll, loops, is_only)
    if width == unroll == 1:
        return [Piece((UOp.range(r.src[0], 0, RangeKind.CORE, Owner.CORE),))]
    step = width * unroll
    block = step * max(min(PIECE_ELEMENTS, r.size // 8) // step, 1) if is_only else step
    blocks, rest = divmod(r.size, block)
    if blocks == 0:
        return _cut(r.size, width, unroll, as_index(0), loops.after(2), None)
    if rest == 0:
        return _cut(
            block, width, unroll, UOp.range(blocks, 0, RangeKind.CORE, Owner.CORE) * block, loops.after(2), None
        )
    core = UOp.range(blocks + 1, 0, RangeKind.CORE, Owner.CORE)
    one, none = as_index(1), as_index(0)
    # inside the loops of outer ranges, which the two parts have in common
    in_main = loops.over((core < blocks).where(one, none), 0)
    in_rest = loops.over(core.eq(blocks).where(one, none), 1)
    main = _cut(block, width, unroll, core * block, loops.after(2), in_main)
    return main + _cut(rest, width, unroll, as_index(blocks * block), loops.after(6), in_rest)


def _symbolic_core_pieces(size: UOp, width: int, unroll: int, loops: Loops, is_only: bool) -> list[Piece]:
    """As many blocks as there can be; those past the end are empty."""
    step = width * unroll
    most = (bounds(size) or (0, 0))[1]
    block = step * max(min(PIECE_ELEMENTS, most // 8) // step, 1) if is_only else step
    core = UOp.range(-(-most // block), 0, RangeKind.CORE, Owner.CORE)
    length = (size - core * block).maximum(0).minimum(block)
    if block == 1:
        return [Piece((core + loops.over(length, 2),))]
    return _cut_symbolic(length, width, unroll, core * block, loops.after(2))


# ---- reductions


def _split_reductions(body: UOp, strategy: LoopStrategy) -> UOp:
    """Every reduction along a range with lanes becomes partial results in vectors, combined at the end.

    Reductions share ranges, and lanes are chosen for one of them. Another, that depends on an output range with lanes
    or holds a reduction of vectors which depends on the range, runs along it element by element.
    """
    free = free_ranges(body)
    taken: dict[UOp, frozenset[UOp]] = {}  # node -> what reductions of vectors inside it depend on
    wide = frozenset(r for r in strategy.order if r in strategy.lanes)

    def in_vectors(node: UOp, src: Sources) -> UOp:
        new = rebuilt(node, src)
        inside = frozenset[UOp]().union(*(taken[s] for s in node.src if taken[s]))
        if node.op is ops.REDUCE and not wide & free[node]:
            vector = [r for r in node.src[1:] if r in strategy.lanes and r in free[node.src[0]] and r not in inside]
            if vector:
                new = _split_reduction(new, vector[0], strategy)
                inside |= free[node]
        taken[node] = inside
        return new

    return map_graph(body, in_vectors)


def _split_reduction(node: UOp, r: UOp, strategy: LoopStrategy) -> UOp:
    value, *ranges = node.src
    op = node.arg.op
    others = tuple(other for other in ranges if other is not r)
    width, unroll = strategy.lanes[r], strategy.unroll.get(r, 1)
    parts_of_r = Loops(Owner.PART, in_order(strategy.lanes).index(r) * MOST_LOOPS)
    identity = const(node.dtype, op.identity(node.dtype))
    parts: list[UOp] = []
    page = PAGE // node.dtype.itemsize
    for piece in _cut(r.size, width, unroll, ZERO, parts_of_r, None, far=page):
        for copy in piece.copies:
            part = replace_ranges(value, {r: copy}, {})
            if piece.mask is not None:
                part = piece.mask.where(masked(part, piece.mask), identity)
            loops = tuple(loop for loop in topological((copy,)) if loop.op is ops.RANGE)
            bound = (*others, *loops)
            parts.append(part.reduce(op, ranges=bound) if bound else part)
    total = parts[0]
    for part in parts[1:]:
        total = make(op, (total, part))
    return total.reduce(op, axes=(0,)) if total.shape else total
