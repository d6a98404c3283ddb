"""The gradient of a call is a call: of a function made once for all calls of the same function.

    y = f(x, w)                  y, h = f'(x, w)               f' returns also what the gradient needs from inside of f
    loss = sum(y)         ->     dx, dw = f_grad(h, x, w, dy)

What f' returns besides: sums and other expensive values that the gradient is computed from. Elementwise ops on them
are computed again, which is cheaper than storing what they give. The scheduler calls f' instead of f where both have
the same arguments, so nothing inside of f is computed twice.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence

from whit.cache import RecentlyUsed
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp, make
from whit.records import dataclass

# What is computed again rather than kept, apart from elementwise ops and movement.
CHEAP = frozenset({ops.CAST, ops.BITCAST, ops.ARANGE, ops.INDEX, ops.STACK, ops.GROUP, *ops.SAME_VALUE})

# (values with their seeds, targets) -> the gradients: `gradients` of reverse.py
Reverse = Callable[[Sequence[tuple[UOp, UOp]], Iterable[UOp]], "list[UOp | None]"]


@dataclass(frozen=True, slots=True)
class _Derived:
    """How the gradients or the tangents of one function are had."""

    forward: UOp  # the function that also returns what is needed
    derivative: UOp  # the function of gradients, or of tangents
    given: tuple[tuple[str, int], ...]  # its arguments: ("argument", slot), ("result", place), ("dy", place) ...
    places: tuple[int | None, ...]  # for each argument, or result, where its derivative is among the results


_made: RecentlyUsed[tuple[UOp, tuple[int, ...], tuple[int, ...]], _Derived] = RecentlyUsed("transform.calls", 1024)
_made_forward: RecentlyUsed[tuple[UOp, tuple[int, ...]], _Derived] = RecentlyUsed("transform.tangents_of_calls", 1024)


def call_gradients(call: UOp, dy: dict[int, UOp], wanted: tuple[int, ...], reverse: Reverse) -> list[UOp | None]:
    """The gradients of the wanted arguments of a call (others get None), from those of its results."""
    function, *arguments = call.src
    key = (function, tuple(sorted(dy)), wanted)
    made = _made.get(key)
    if made is None:
        made = _made[key] = _make(*key, len(arguments), reverse)
    if not made.derivative.src[0].src:
        return [None] * len(arguments)
    forward = made.forward.call(*arguments)
    source: dict[str, Callable[[int], UOp]] = {
        "argument": arguments.__getitem__,
        "result": lambda place: make(ops.ITEM, (forward,), place),
        "dy": dy.__getitem__,
    }
    result = made.derivative.call(*(source[kind](place) for kind, place in made.given))
    return [None if place is None else make(ops.ITEM, (result,), place) for place in made.places]


def _make(function: UOp, seeded: tuple[int, ...], wanted: tuple[int, ...], count: int, reverse: Reverse) -> _Derived:
    """The two functions: reverse mode on the body, whose results with a gradient get a param each for it."""
    (body,) = function.src
    params = {node.arg.slot: node for node in body.topological() if node.op is ops.PARAM}
    seeds = [UOp.param(count + i, body.src[place].dtype, body.src[place].shape) for i, place in enumerate(seeded)]
    roots = [(body.src[place], seed) for place, seed in zip(seeded, seeds, strict=True)]
    targets = [slot for slot in wanted if slot in params]
    found = zip(targets, reverse(roots, [params[slot] for slot in targets]), strict=True)
    gradients = {slot: node for slot, node in found if node is not None}
    kept = values_to_keep(gradients.values(), body)
    members = list(dict.fromkeys([*body.src, *kept]))
    forward = function if len(members) == len(body.src) else UOp.group(*members).function(function.arg.name)
    given = {node: ("argument", slot) for slot, node in params.items()}
    given |= zip(seeds, (("dy", place) for place in seeded), strict=True)
    given |= {node: ("result", members.index(node)) for node in kept}
    backward, used = _over_params(UOp.group(*gradients.values()), given, kept)
    places = dict(zip(gradients, itertools.count(), strict=False))
    name = f"{function.arg.name}_grad"
    return _Derived(forward, backward.function(name), used, tuple(map(places.get, range(count))))


# (values, tangents of nodes below them) -> the tangents of the values: `tangents_of` of forward.py
Forward = Callable[[Sequence[UOp], "dict[UOp, UOp]"], "list[UOp | None]"]


def call_tangents(call: UOp, given: dict[int, UOp], forward: Forward) -> dict[int, UOp]:
    """The tangents of a call's results, by place, from those of its arguments, by place."""
    function, *arguments = call.src
    key = (function, tuple(sorted(given)))
    made = _made_forward.get(key)
    if made is None:
        made = _made_forward[key] = _make_tangents(*key, len(arguments), forward)
    if not made.derivative.src[0].src:
        return {}
    value = made.forward.call(*arguments)
    source: dict[str, Callable[[int], UOp]] = {
        "argument": arguments.__getitem__,
        "result": lambda place: make(ops.ITEM, (value,), place),
        "tangent": given.__getitem__,
    }
    result = made.derivative.call(*(source[kind](place) for kind, place in made.given))
    return {place: make(ops.ITEM, (result,), number) for place, number in enumerate(made.places) if number is not None}


def _make_tangents(function: UOp, moving: tuple[int, ...], count: int, forward: Forward) -> _Derived:
    """The function that also returns what tangents need, and the function of tangents."""
    (body,) = function.src
    params = {node.arg.slot: node for node in body.topological() if node.op is ops.PARAM}
    slots = [slot for slot in moving if slot in params]
    fresh = {slot: UOp.param(count + i, params[slot].dtype, params[slot].shape) for i, slot in enumerate(slots)}
    found = forward(body.src, {params[slot]: fresh[slot] for slot in slots})
    tangents = {place: node for place, node in enumerate(found) if node is not None}
    kept = values_to_keep(tangents.values(), body)
    members = list(dict.fromkeys([*body.src, *kept]))
    with_kept = function if len(members) == len(body.src) else UOp.group(*members).function(function.arg.name)
    given = {node: ("argument", slot) for slot, node in params.items()}
    given |= {node: ("tangent", slot) for slot, node in fresh.items()}
    given |= {node: ("result", members.index(node)) for node in kept}
    tangent, used = _over_params(UOp.group(*tangents.values()), given, kept)
    places = dict(zip(tangents, itertools.count(), strict=False))
    name = f"{function.arg.name}_tangent"
    return _Derived(with_kept, tangent.function(name), used, tuple(map(places.get, range(len(body.src)))))


def _over_params(
    gradients: UOp, given: dict[UOp, tuple[str, int]], kept: Collection[UOp]
) -> tuple[UOp, tuple[tuple[str, int], ...]]:
    """Gradients over params for as much as they use of what they are given, and what that is."""
    below = {*topological((gradients,), stop=kept), *kept}
    used = [node for node in given if node in below]
    moved = {node: UOp.param(slot, node.dtype, node.shape) for slot, node in enumerate(used)}
    return gradients.substitute(moved), tuple(given[node] for node in used)


def values_to_keep(gradients: Iterable[UOp], body: UOp) -> list[UOp]:
    """The values inside of a function that its gradients read and that are too expensive to compute again."""
    inside = set(topological((body,)))
    return expensive_below(gradients, inside.__contains__)


def expensive_below(gradients: Iterable[UOp], may_be_kept: Callable[[UOp], bool]) -> list[UOp]:
    """The first expensive values on each way down from gradients, of those that may be kept."""
    kept: dict[UOp, None] = {}
    seen: set[UOp] = set()
    stack = list(gradients)
    while stack:
        node = stack.pop()
        if node in seen or not node.src or node.op.opaque:
            continue
        seen.add(node)
        if may_be_kept(node) and not is_cheap(node):
            kept[node] = None
        else:
            stack.extend(node.src[:1] if node.op in ops.SAME_VALUE else node.src)
    return list(kept)


def is_cheap(node: UOp) -> bool:
    """Whether a value is computed again rather than kept."""
    return node.op.elementwise or node.op in ops.MOVEMENT or node.op in CHEAP
