"""The tangents of loops: a loop of twice the states, which computes values and tangents together.

    c, ys = scan(f, c0, xs, w)       ->      (c, dc), (ys, dys) = scan(f with its tangent, (c0, dc0), (xs, dxs), w, dw)

States move if they do at first or after any step. The tangent of a choice is a choice of functions with tangents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from whit.cache import RecentlyUsed
from whit.ir import ops
from whit.ir.args import LoopArg
from whit.ir.uop import UOp, make
from whit.records import dataclass
from whit.transform.loops import operands_of, params_of, zeros_like

# (values, tangents of nodes below them) -> the tangents of the values: `tangents_of` of forward.py
Forward = Callable[[Sequence[UOp], "dict[UOp, UOp]"], "list[UOp | None]"]


@dataclass(frozen=True, slots=True)
class _Moving:
    """The functions that also compute tangents."""

    functions: tuple[UOp, ...]
    slots: tuple[int, ...]  # the operands that move: those given, and states
    results: tuple[int | None, ...]  # of each result the place of its tangent


_made: RecentlyUsed[tuple[UOp, tuple[int, ...]], _Moving] = RecentlyUsed("transform.loop_tangents", 1024)


def loop_tangents(loop: UOp, given: dict[int, UOp], forward: Forward) -> dict[int, UOp]:
    """The tangents of the results of a LOOP, by place, from those of its sources, by place."""
    arg = loop.arg
    operands, size = operands_of(loop)
    sizes = () if size is None else (size,)
    first = arg.functions + (arg.kind == "cond")
    predicate = operands[:1] if arg.kind == "cond" else []
    operands = operands[len(predicate) :]
    moving = tuple(place - first for place in sorted(given))
    made = _made.get((loop, moving))
    if made is None:
        made = _made[loop, moving] = _make(loop, operands, moving, forward)
    added = {slot: _or_zeros(given.get(first + slot), operands[slot]) for slot in made.slots}
    src: list[UOp] = []
    for group in _groups(arg, len(operands)):
        src += [operands[slot] for slot in group]
        src += [added[slot] for slot in made.slots if slot in group]
    states, inputs = (sum(slot in group for slot in made.slots) for group in _groups(arg, len(operands))[:2])
    kind = LoopArg(arg.kind, arg.carries + states, arg.inputs + inputs, arg.length, arg.is_reversed)
    result = make(ops.LOOP, (*made.functions, *predicate, *src, *sizes), kind)
    found = enumerate(made.results)
    return {place: make(ops.ITEM, (result,), number) for place, number in found if number is not None}


def _groups(arg: LoopArg, count: int) -> list[range]:
    """The slots of states, of inputs, and of constants."""
    ends = arg.carries, arg.carries + arg.inputs
    return [range(ends[0]), range(*ends), range(ends[1], count)]


def _or_zeros(tangent: UOp | None, node: UOp) -> UOp:
    return zeros_like(node) if tangent is None else tangent


def _make(loop: UOp, operands: list[UOp], moving: tuple[int, ...], forward: Forward) -> _Moving:
    arg = loop.arg
    body, *others = [function.src[0] for function in loop.src[: arg.functions]]
    order, tangents, found = _all_moving(loop, operands, set(moving), forward)
    rename = _renamed(loop, operands, order, tangents)
    if arg.kind == "cond":
        return _of_choice(loop, order, tangents, rename, forward)
    states = [slot for slot in order if slot < arg.carries]
    following = [_or_zeros(found[slot], operands[slot]) for slot in states]
    outputs = [place for place in range(arg.carries, len(body.src)) if found[place] is not None]
    members = [*body.src[: arg.carries], *following, *body.src[arg.carries :], *(found[place] for place in outputs)]
    names = [function.arg.name for function in loop.src[: arg.functions]]
    functions = [_function(members, rename, f"{names[0]}_tangent")]
    functions += [_function(other.src, rename, name) for other, name in zip(others, names[1:], strict=True)]
    results: list[int | None] = [None] * len(body.src)
    for number, slot in enumerate(states):
        results[slot] = arg.carries + number
    for number, place in enumerate(outputs):
        results[place] = len(body.src) + len(states) + number
    return _Moving(tuple(functions), tuple(order), tuple(results))


def _all_moving(
    loop: UOp, operands: list[UOp], slots: set[int], forward: Forward
) -> tuple[list[int], dict[int, UOp], list[UOp | None]]:
    """The operands that move, states that do after any step among them; the params of their tangents, and the tangents
    of the first function's results."""
    while True:
        tangents = _new_params(loop, operands, sorted(slots))
        found = _tangents(loop.src[0].src[0], tangents, forward)
        more = {place for place in range(loop.arg.carries) if found[place] is not None} - slots
        if not more:
            return sorted(slots), tangents, found
        slots |= more


def _of_choice(
    loop: UOp, order: list[int], tangents: dict[int, UOp], rename: dict[UOp, UOp], forward: Forward
) -> _Moving:
    bodies = [function.src[0] for function in loop.src[:2]]
    found = [_tangents(body, tangents, forward) for body in bodies]
    places = [p for p in range(len(bodies[0].src)) if any(each[p] is not None for each in found)]
    functions = []
    for body, each, function in zip(bodies, found, loop.src, strict=False):
        pieces = [each[place] for place in places]
        filled = [zeros_like(body.src[p]) if node is None else node for p, node in zip(places, pieces, strict=True)]
        functions.append(_function([*body.src, *filled], rename, f"{function.arg.name}_tangent"))
    results: list[int | None] = [None] * len(bodies[0].src)
    for number, place in enumerate(places):
        results[place] = len(bodies[0].src) + number
    return _Moving(tuple(functions), tuple(order), tuple(results))


def _shape_in_step(loop: UOp, operands: list[UOp], slot: int) -> tuple[int, ...]:
    """The shape of what a step gets of an operand."""
    arg, shape = loop.arg, operands[slot].shape
    return shape[1:] if arg.carries <= slot < arg.carries + arg.inputs else shape


def _new_params(loop: UOp, operands: list[UOp], slots: list[int]) -> dict[int, UOp]:
    """Params for tangents, behind all others."""
    count = len(operands)
    return {slot: UOp.param(count + slot, operands[slot].dtype, _shape_in_step(loop, operands, slot)) for slot in slots}


def _tangents(body: UOp, tangents: dict[int, UOp], forward: Forward) -> list[UOp | None]:
    params = params_of(body)
    return forward(body.src, {params[slot]: node for slot, node in tangents.items() if slot in params})


def _numbers(loop: UOp, count: int, order: list[int]) -> tuple[dict[int, int], dict[int, int]]:
    """The new slots of operands, and those of their tangents: states, their tangents, inputs, theirs, and the rest."""
    operands: dict[int, int] = {}
    tangents: dict[int, int] = {}
    number = 0
    for group in _groups(loop.arg, count):
        for slot in group:
            operands[slot] = number
            number += 1
        for slot in order:
            if slot in group:
                tangents[slot] = number
                number += 1
    return operands, tangents


def _renamed(loop: UOp, operands: list[UOp], order: list[int], tangents: dict[int, UOp]) -> dict[UOp, UOp]:
    """All params in their new slots."""
    numbers, of_tangents = _numbers(loop, len(operands), order)
    found: dict[UOp, UOp] = {}
    for function in loop.src[: loop.arg.functions]:
        for slot, param in params_of(function.src[0]).items():
            found[param] = UOp.param(numbers[slot], param.dtype, param.shape)
    for slot in order:
        found[tangents[slot]] = UOp.param(of_tangents[slot], tangents[slot].dtype, tangents[slot].shape)
    return found


def _function(members: Sequence[UOp | None], rename: dict[UOp, UOp], name: str) -> UOp:
    nodes = [node for node in members if node is not None]
    return UOp.group(*nodes).substitute(rename).function(name)
