"""What a search can choose from: the ways to tile a kernel, and those that differ little from one.

    first = first_choices(body, target)         the default first, then by what they are estimated to take
    varied(first[0], body, target)              the same with one size, one range, or the order changed

`body` is the kernel as the pass `tile` sees it (`pipeline.before_tiling`). A contraction can go through panels, with
any sizes that fit the caches (`tiling.candidates`, of more depths and register tiles than the default looks at), or
through plain loops, as every other kernel. Nothing here says what is fast: that is measured. What may not run in
another order is left alone: ranges that are scanned, or along which a store may come to one place twice."""

from __future__ import annotations

from collections.abc import Iterator

from whit.codegen.cpu.loops import LoopStrategy, choose_strategy, vector_width
from whit.codegen.cpu.panel_sizes import MOST_STACK_BYTES, Scope, Tiling, Way, candidates, choose_tiling, stack_elements
from whit.codegen.passes.split_blocks import write_out_blocks
from whit.codegen.strategy.choice import (
    choice_of_plan,
    choice_of_strategy,
    choice_of_tiling,
    contracted,
    ranges_by_name,
    strategy_of,
    tiling_of,
)
from whit.codegen.strategy.cost import Operands, estimate_tiling
from whit.codegen.strategy.record import Choice, UnfitError
from whit.codegen.strategy.tile_apart import tile_apart
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp
from whit.kernel.contraction import Contraction, find_contractions
from whit.kernel.ranges import free_ranges, ordered_ranges, scanned_ranges, size_of
from whit.records import replace
from whit.target import Target

WIDE = Scope(depths=(512, 1024, 1536, 2048, 3072, 4096, 6144), tiles=6)
UNROLL = (1, 2, 4, 8, 16)
MOST_COPIES = 64  # of all that is inside, written out: more takes long to compile


def first_choices(body: UOp, target: Target) -> list[Choice]:
    """All tilings of a contraction by what they are estimated to take, then loops; the default is the first.

    Nothing where the default is not one of them: the kernel has symbolic sizes, or several contractions.
    """
    try:
        ranges_by_name(body)
    except UnfitError:
        return []
    if any(not isinstance(r.size, int) for r in free_ranges(body)[body]):
        return []
    loops = choice_of_strategy(choose_strategy(write_out_blocks(body), target))
    form = contracted(body, target)
    plan = choose_tiling(form, target)
    if plan is None:
        return [loops] if tile_apart(body, target) is None else []
    found: list[tuple[float, Choice]] = []
    for operand, contraction in enumerate(find_contractions(form)):
        given = Operands(contraction, form, target)
        for tiling in candidates(contraction, form, given, WIDE):
            if _has_room(tiling, contraction):
                found.append((estimate_tiling(tiling, given).total, choice_of_tiling(operand, tiling)))
    ranked = [choice for _, choice in sorted(found, key=lambda pair: (pair[0], pair[1].text))]
    return list(dict.fromkeys([choice_of_plan(plan, form), *ranked, loops]))


def varied(choice: Choice, body: UOp, target: Target) -> list[Choice]:
    """Choices that differ from one in one thing; contractions by what they are estimated to take."""
    if choice.data["kind"] == "loops":
        written_out = write_out_blocks(body)
        near = _near_strategy(strategy_of(choice, written_out), written_out, target)
        found = [choice_of_strategy(strategy) for strategy in near if _copies(strategy) <= MOST_COPIES]
        return [other for other in dict.fromkeys(found) if other != choice]
    form = contracted(body, target)
    operand, tiling = tiling_of(choice, form)
    contraction = find_contractions(form)[operand]
    given = Operands(contraction, form, target)
    costs = {
        choice_of_tiling(operand, near): estimate_tiling(near, given).total
        for near in _near_tiling(tiling, contraction, given)
        if _has_room(near, contraction)
    }
    costs.pop(choice, None)
    return sorted(costs, key=lambda other: (costs[other], other.text))


# ---- contractions


def _near_tiling(tiling: Tiling, found: Contraction, given: Operands) -> Iterator[Tiling]:
    """Other blocks of rows and columns, other shares of the cores."""
    if tiling.image:  # whole lines of it: `candidates` has them all
        return
    count = -(-given.m // tiling.rows)
    for panels in _near(tiling.panels, count):
        yield _with_rows(tiling, count, panels, tiling.row_items)
    for items in _near(tiling.row_items, count):
        yield _with_rows(tiling, count, tiling.panels, items)
    if tiling.inside > 1:
        yield replace(tiling, inside=1, row_items=tiling.row_items * tiling.inside)
    for group in _near(tiling.group, tiling.column_blocks):
        yield replace(tiling, group=group)
    step = size_of(found.n[-1]) if tiling.way_b is Way.WINDOWS else tiling.columns
    for steps in _near(-(-tiling.span // step), -(-given.n // step)):
        span = min(steps * step, given.n)
        blocks = -(-given.n // span) * given.outer
        yield replace(tiling, span=span, column_blocks=blocks, group=min(tiling.group, blocks))


def _near(count: int, most: int) -> list[int]:
    found = {count // 2, count * 3 // 4, count - 1, count + 1, count * 3 // 2, count * 2}
    return sorted(n for n in found if 1 <= n <= most and n != count)


def _with_rows(tiling: Tiling, count: int, panels: int, items: int) -> Tiling:
    """Blocks of `panels` tiles of rows, of which there are `count`, shared between `items` items."""
    here = -(-count // items)
    inside = -(-here // min(panels, here))
    return replace(tiling, panels=-(-here // inside), inside=inside, row_items=items)


def _has_room(tiling: Tiling, found: Contraction) -> bool:
    """Whether panels and sums are small enough for the stack."""
    itemsize = max(found.a.dtype.itemsize, found.b.dtype.itemsize, found.reduce.dtype.itemsize)
    return stack_elements(tiling) * itemsize <= MOST_STACK_BYTES


# ---- loops


def _near_strategy(strategy: LoopStrategy, body: UOp, target: Target) -> Iterator[LoopStrategy]:
    """Other lanes, other counts side by side, another order, other cores."""
    free, scanned = free_ranges(body), scanned_ranges(body)
    fixed = scanned | ordered_ranges(body, free)
    movable = [r for r in strategy.order if r not in fixed]
    for r in dict.fromkeys([*strategy.lanes, *movable]):
        for count in UNROLL:
            if r not in fixed and count * strategy.lanes.get(r, 1) <= max(size_of(r), 1):
                yield replace(strategy, unroll={**strategy.unroll, r: count})
    yield from _other_lanes(strategy, body, movable, vector_width(body, target))
    for core in [None, *movable]:
        if target.cores > 1 and core is not strategy.core:
            yield replace(strategy, core=core)
    if not fixed:
        for i in range(len(strategy.order) - 1):
            order = list(strategy.order)
            order[i], order[i + 1] = order[i + 1], order[i]
            yield replace(strategy, order=order)


def _other_lanes(strategy: LoopStrategy, body: UOp, movable: list[UOp], width: int) -> Iterator[LoopStrategy]:
    """Vectors of another width, or along another output range."""
    for r, lanes in strategy.lanes.items():
        for other in (lanes // 2, lanes * 2):
            if 2 <= other <= max(2 * width, 2) and other < 2 * size_of(r):
                yield replace(strategy, lanes={**strategy.lanes, r: other})
    for new in movable:
        if new not in strategy.lanes and size_of(new) >= width > 1:
            gone = {r for r in strategy.lanes if r in movable} | _reduced_for(new, body)
            lanes_left, unroll = (
                {r: count for r, count in counts.items() if r not in gone and r is not new}
                for counts in (strategy.lanes, strategy.unroll)
            )
            yield replace(strategy, lanes={**lanes_left, new: width}, unroll=unroll)


def _reduced_for(r: UOp, body: UOp) -> set[UOp]:
    """The ranges of reductions that depend on an output range: where it has lanes, they have none."""
    free = free_ranges(body)
    reduces = [node for node in topological((body,)) if node.op is ops.REDUCE and r in free[node]]
    return {s for node in reduces for s in node.src[1:]}


def _copies(strategy: LoopStrategy) -> int:
    found = 1
    for count in strategy.unroll.values():
        found *= count
    return found
