"""The gradient of a call is a call: of a function made once for all calls of the same function.

    y = f(x, w)                  y, h = f'(x, w)               f' returns also what the gradient needs from inside of f
    loss = sum(y)         ->     dx, dw = f_grad(h, x, w, dy)

What f' returns besides: sums and other expensive values that the gradient is computed from. Elementwise ops on them
are computed again, which is cheaper than storing what they give. The scheduler calls f' instead of f where both have
the same arguments, so nothing inside of f is computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from whit.cache import register_cache
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp, make

# What is computed again rather than kept, apart from elementwise ops and movement.
CHEAP = frozenset({ops.CAST, ops.BITCAST, ops.ARANGE, ops.INDEX, ops.STACK, ops.GROUP, *ops.SAME_VALUE})

# (values with their seeds, targets) -> the gradients: `gradients` of reverse.py
Reverse = Callable[[Sequence[tuple[UOp, UOp]], Iterable[UOp]], "list[UOp | None]"]


@dataclass(frozen=True, slots=True)
class _Backward:
    """How the gradients of one function are had."""

    forward: UOp  # the function that also returns what is needed
    backward: UOp  # the function of gradients
    given: tuple[tuple[str, int], ...]  # its arguments: ("argument", slot), ("result", place) or ("dy", place)
    places: tuple[int | None, ...]  # for each argument of the call where its gradient is among the results


_made: dict[tuple[UOp, tuple[int, ...], tuple[int, ...]], _Backward] = {}
register_cache(_made.clear, "grad.calls")


def call_gradients(call: UOp, dy: dict[int, UOp], wanted: tuple[int, ...], reverse: Reverse) -> list[UOp | None]:
    """The gradients of the wanted arguments of a call (others get None), from those of its results."""
    function, *arguments = call.src
    key = (function, tuple(sorted(dy)), wanted)
    made = _made.get(key)
    if made is None:
        made = _made[key] = _make(*key, len(arguments), reverse)
    if not made.backward.src[0].src:
        return [None] * len(arguments)
    forward = made.forward.call(*arguments)
    source: dict[str, Callable[[int], UOp]] = {
        "argument": arguments.__getitem__,
        "result": lambda place: make(ops.ITEM, (forward,), place),
        "dy": dy.__getitem__,
    }
    result = made.backward.call(*(source[kind](place) for kind, place in made.given))
    return [None if place is None else make(ops.ITEM, (result,), place) for place in made.places]


def _make(function: UOp, seeded: tuple[int, ...], wanted: tuple[int, ...], count: int, reverse: Reverse) -> _Backward:
    """The two functions: reverse mode on the body, whose results with a gradient get a param each for it."""
    (body,) = function.src
    params = {node.arg.slot: node for node in body.topological() if node.op is ops.PARAM}
    targets = [slot for slot in wanted if slot in params]
    seeds = [UOp.param(count + i, body.src[place].dtype, body.src[place].shape) for i, place in enumerate(seeded)]
    roots = [(body.src[place], seed) for place, seed in zip(seeded, seeds, strict=True)]
    found = dict(zip(targets, reverse(roots, [params[slot] for slot in targets]), strict=True))
    present = [slot for slot, node in found.items() if node is not None]
    gradients = [node for slot in present if (node := found[slot]) is not None]
    kept = values_to_keep(gradients, body)
    members = list(dict.fromkeys([*body.src, *kept]))
    forward = function if len(members) == len(body.src) else UOp.group(*members).function(function.arg.name)
    given = [*(("argument", slot) for slot in params), *(("dy", place) for place in seeded)]
    nodes = [*params.values(), *seeds]
    given += [("result", members.index(node)) for node in kept]
    nodes += kept
    below = set(topological(gradients, stop=kept)) | set(kept)
    used = [i for i, node in enumerate(nodes) if node in below]
    moved = {nodes[i]: UOp.param(slot, nodes[i].dtype, nodes[i].shape) for slot, i in enumerate(used)}
    backward = UOp.group(*gradients).substitute(moved).function(f"{function.arg.name}_grad")
    places = tuple(present.index(slot) if slot in present else None for slot in range(count))
    return _Backward(forward, backward, tuple(given[i] for i in used), places)


def values_to_keep(gradients: Iterable[UOp], body: UOp) -> list[UOp]:
    """The values inside of a function that its gradients read and that are too expensive to compute again."""
    inside = set(topological((body,)))
    kept: dict[UOp, None] = {}
    seen: set[UOp] = set()
    stack = list(gradients)
    while stack:
        node = stack.pop()
        if node in seen or not node.src or node.op.opaque:
            continue
        seen.add(node)
        if node in inside and not _is_cheap(node):
            kept[node] = None
        elif node.op in ops.SAME_VALUE:
            stack.append(node.src[0])
        else:
            stack.extend(node.src)
    return list(kept)


def _is_cheap(node: UOp) -> bool:
    return node.op.elementwise or node.op in ops.MOVEMENT or node.op in CHEAP
