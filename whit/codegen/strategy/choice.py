"""How a kernel is tiled, as plain data: what a search tries, and what it keeps on disk.

    choice = choice_of_tiling(plan, body)           {"kind": "panels", "operand": 0, "rows": 12, "vectors": 2, ...}
    choice = choice_of_strategy(strategy)           {"kind": "loops", "lanes": {"r0": 16}, "unroll": {"r0": 4}, ...}
    tiled, reasons = apply_choice(choice, body, target)     the same tiling again, of the same kernel

It is JSON, and holds numbers and names alone: of ranges, which are the same whenever the same kernel comes here. What
does not fit the kernel is an `UnfitError`, and the kernel is tiled as if there were no choice."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from whit.codegen.cpu.dot_words import as_dot
from whit.codegen.cpu.loops import LoopStrategy
from whit.codegen.cpu.panel_sizes import Depth, PanelPlan, Tiling, Way, choose_tiling
from whit.codegen.passes.simplify_lanes import simplify_lanes
from whit.codegen.passes.split_blocks import write_out_blocks, write_out_fills
from whit.codegen.strategy.apply import apply_strategy
from whit.codegen.strategy.panels import apply_panels
from whit.codegen.strategy.record import Choice, UnfitError
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp
from whit.kernel.contraction import find_contractions
from whit.kernel.ranges import free_ranges, sizes_of
from whit.records import fields
from whit.target import Target


def _spelled(data: dict[str, Any]) -> Choice:
    return Choice(json.dumps(data, sort_keys=True, separators=(",", ":")))


def apply_choice(choice: Choice, body: UOp, target: Target) -> tuple[UOp, list[str]]:
    """The tiled kernel, and what is to be said about it."""
    try:
        if choice.data["kind"] == "panels":
            form = contracted(body, target)
            operand, tiling = tiling_of(choice, form)
            tiled = apply_panels(form, find_contractions(form)[operand], tiling)
            return write_out_fills(simplify_lanes(tiled)) if form is body else tiled, [str(tiling)]
        form = write_out_blocks(body)
        strategy = strategy_of(choice, form)
        return apply_strategy(form, strategy), strategy.reasons
    except (KeyError, IndexError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise UnfitError(f"{type(error).__name__}: {error}") from error


def contracted(body: UOp, target: Target) -> UOp:
    """The kernel as its contraction is tiled: four bytes at once, where that is possible."""
    by_words = as_dot(body, target)
    return body if by_words is None or choose_tiling(by_words, target) is None else by_words


# ---- contractions through panels


def choice_of_tiling(operand: int, tiling: Tiling) -> Choice:
    """The choice of a tiling; `operand` says which of the contractions of `find_contractions` it is of."""
    data: dict[str, Any] = {"kind": "panels", "operand": operand}
    for part in fields(tiling):
        value = getattr(tiling, part.name)
        if isinstance(value, Depth):
            value = [value.split, value.length]
        data[part.name] = value.name if isinstance(value, Way) else value
    return _spelled(data)


def choice_of_plan(plan: PanelPlan, body: UOp) -> Choice:
    """The choice of a plan for a kernel."""
    operands = [found.a for found in find_contractions(body)]
    return choice_of_tiling(operands.index(plan.found.a), plan.tiling)


def tiling_of(choice: Choice, body: UOp) -> tuple[int, Tiling]:
    """The tiling of a choice, and the number of its contraction."""
    data = choice.data
    contractions = find_contractions(body)
    operand = data["operand"]
    if operand not in range(len(contractions)):
        raise UnfitError(f"contraction {operand} of {len(contractions)}")
    along = contractions[operand].along
    split, length = data["depth"]
    if split not in range(len(along)) or not 0 < length <= sizes_of(along)[split]:
        raise UnfitError(f"a block of {length} of range {split} of {len(along)}")
    values: dict[str, Any] = {"depth": Depth(along, split, length)}
    for part in fields(Tiling):
        if part.name in values:
            continue
        value = data[part.name]
        values[part.name] = Way[value] if part.name.startswith("way") else _number(part.name, value)
    return operand, Tiling(**values)


def _number(name: str, value: object) -> float:
    if not isinstance(value, int | float) or value < 0:
        raise UnfitError(f"{name} is {value!r}")
    return value


# ---- loops


def choice_of_strategy(strategy: LoopStrategy) -> Choice:
    """The choice of a strategy."""
    return _spelled(
        {
            "kind": "loops",
            "lanes": {_name(r): count for r, count in strategy.lanes.items()},
            "unroll": {_name(r): count for r, count in strategy.unroll.items() if count > 1},
            "order": [_name(r) for r in strategy.order],
            "core": None if strategy.core is None else _name(strategy.core),
        }
    )


def strategy_of(choice: Choice, body: UOp) -> LoopStrategy:
    """The strategy of a choice."""
    data = choice.data
    known = ranges_by_name(body)
    order = [known[name] for name in data["order"]]
    if set(order) != free_ranges(body)[body] or len(set(order)) != len(order):
        raise UnfitError(f"an order of other ranges: {', '.join(data['order'])}")
    core = None if data["core"] is None else known[data["core"]]
    lanes, unroll = (_counts(data[name], known) for name in ("lanes", "unroll"))
    return LoopStrategy(lanes, unroll, order, core, _reasons(data))


def _reasons(data: dict[str, Any]) -> list[str]:
    lanes = ", ".join(f"{count} along {name}" for name, count in data["lanes"].items()) or "none"
    unroll = ", ".join(f"{count} of {name}" for name, count in data["unroll"].items()) or "none"
    return [f"lanes: {lanes}", f"side by side: {unroll}", f"loops: {', '.join(data['order'])}; cores: {data['core']}"]


def _counts(given: dict[str, Any], known: dict[str, UOp]) -> dict[UOp, int]:
    if any(type(count) is not int or count < 1 for count in given.values()):
        raise UnfitError(f"counts {given}")
    return {known[name]: count for name, count in given.items()}


def ranges_by_name(body: UOp) -> dict[str, UOp]:
    """The ranges of a kernel; an UnfitError where two have one name."""
    ranges: Iterable[UOp] = [node for node in topological((body,)) if node.op is ops.RANGE]
    found = {_name(r): r for r in ranges}
    if len(found) != len(list(ranges)):
        raise UnfitError("two ranges have one name")
    return found


def _name(r: UOp) -> str:
    return str(r.arg.name)
