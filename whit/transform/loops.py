"""The gradients of loops, which are loops.

    c, ys = scan(f, c0, xs, w)       c' = f(c, x, w), kept           the loop again, with what the gradient needs
    loss = ...                ->     dc = g(dc, dy, c, x, kept)      a loop from the end: what gradients of states need
                                     dw = sum of what each step gives, all steps at once

The gradient of a scan goes through its steps from the last to the first. In that loop is only what the gradients of
states are computed from. All else is computed for all steps at once after it (`whit.transform.batch`), from values that
the loop returns for each step: the gradients of weights are products over time and batch, in place of sums of products
in every step. Forward, expensive values inside of a step are kept for it; elementwise ones are computed again.

The gradient of a choice is a choice of two gradients. A while loop has none: nobody knows how many values there would
be to keep.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from whit.cache import RecentlyUsed
from whit.errors import NotSupportedError
from whit.ir import ops
from whit.ir.args import LoopArg
from whit.ir.batching import spread
from whit.ir.gradients.rules import total
from whit.ir.graph import topological
from whit.ir.uop import UOp, const, make
from whit.records import dataclass
from whit.transform.batch import Batch
from whit.transform.calls import Reverse, expensive_below

VIEWS = frozenset({*ops.MOVEMENT, ops.DETACH})
Origin = tuple[str, int]  # what a value of a step is: ("operand", 2), ("state", 0), ("kept", 3), ("dy", 1), ("back", 4)


def operands_of(loop: UOp) -> tuple[list[UOp], UOp | None]:
    """The operands of a LOOP, and its length if that is symbolic."""
    operands = list(loop.src[loop.arg.functions :])
    return operands, operands.pop() if loop.arg.length is None else None


def smooth_operands(loop: UOp) -> list[UOp]:
    """The operands to which a gradient can go."""
    operands, _ = operands_of(loop)
    return operands[1:] if loop.arg.kind == "cond" else operands


def zeros_like(node: UOp) -> UOp:
    """Zeros of a dtype and shape."""
    zero = const(node.dtype, 0.0 if node.dtype.is_continuous else 0)
    return zero.reshape((1,) * len(node.shape)).expand(node.shape) if node.shape else zero


def _or_zeros(gradient: UOp | None, node: UOp) -> UOp:
    return zeros_like(node) if gradient is None else gradient


def params_of(body: UOp) -> dict[int, UOp]:
    """The params of a body by slot."""
    return {node.arg.slot: node for node in body.topological() if node.op is ops.PARAM}


def loop_gradients(loop: UOp, dy: dict[int, UOp], wanted: Sequence[int], reverse: Reverse) -> list[UOp | None]:
    """The gradient of each source of a LOOP, from those of its results; None where there is none, or none is wanted."""
    found: list[UOp | None] = [None] * len(loop.src)
    first = loop.arg.functions
    slots = tuple(place - first for place in wanted if loop.src[place].dtype.is_continuous)
    if loop.arg.kind == "while":
        raise NotSupportedError(
            "gradient: a while loop has none in reverse: nobody knows how many steps there will be to keep values of",
            fix="Use scan or fori_loop with bounds that are known, or forward mode: jvp.",
        )
    if loop.arg.kind == "cond":
        gradients = _of_choice(loop, dy, slots, reverse)
    else:
        key = (loop.src[0], loop.arg, tuple(sorted(dy)), slots)
        made = _made.get(key)
        if made is None:
            made = _made[key] = _Making(loop, sorted(dy), slots, reverse).made()
        gradients = made.applied(loop, dy)
    for slot, gradient in gradients.items():
        found[first + slot] = gradient
    return found


def _of_choice(loop: UOp, dy: dict[int, UOp], slots: Sequence[int], reverse: Reverse) -> dict[int, UOp]:
    """One of two gradients: each computes its function once more. Slots are counted with the bool."""
    yes, no, predicate, *operands = loop.src
    seeds = [UOp.param(len(operands) + i, node.dtype, node.shape) for i, node in enumerate(dy.values())]
    functions = []
    for function in (yes, no):
        (body,) = function.src
        params = params_of(body)
        targets = [slot for slot in slots if slot - 1 in params]
        roots = [(body.src[place], seed) for place, seed in zip(dy, seeds, strict=True)]
        found = dict(zip(targets, reverse(roots, [params[slot - 1] for slot in targets]), strict=True))
        members = [_or_zeros(found.get(slot), operands[slot - 1]) for slot in slots]
        functions.append(UOp.group(*members).function(f"{function.arg.name}_grad"))
    if not slots:
        return {}
    result = make(ops.LOOP, (*functions, predicate, *operands, *dy.values()), LoopArg("cond"))
    return {slot: make(ops.ITEM, (result,), place) for place, slot in enumerate(slots)}


# ---- scans


@dataclass(frozen=True, slots=True)
class _Derived:
    """How the gradients of the scans of one function are had."""

    forward: UOp  # the function that also returns what is kept
    states: tuple[int, ...]  # those that have gradients: the states of the loop from the end
    step: UOp | None  # its function; None: there are none
    inputs: tuple[Origin, ...]  # what a step of it gets a part of
    constants: tuple[Origin, ...]
    rest: UOp  # GROUP of the gradients that are no states, of one step, over params
    known: tuple[tuple[UOp, Origin], ...]  # what these are
    slots: tuple[int, ...]  # the operand of each member

    def applied(self, loop: UOp, dy: dict[int, UOp]) -> dict[int, UOp]:
        """The gradients of operands, by slot."""
        arg = loop.arg
        operands, size = operands_of(loop)
        sizes = () if size is None else (size,)
        again = make(ops.LOOP, (self.forward, *operands, *sizes), arg)
        source: dict[str, Callable[[int], UOp]] = {
            "operand": operands.__getitem__,
            "kept": lambda place: make(ops.ITEM, (again,), place),
            "state": lambda slot: states_before(operands[slot], self._after(again, slot), arg.is_reversed),
            "dy": dy.__getitem__,
        }
        found: dict[int, UOp] = {}
        if self.step is not None:
            firsts = [dy[slot] if slot in dy else zeros_like(operands[slot]) for slot in self.states]
            given = [source[kind](place) for kind, place in (*self.inputs, *self.constants)]
            backwards = LoopArg("scan", len(firsts), len(self.inputs), arg.length, not arg.is_reversed)
            back = make(ops.LOOP, (self.step, *firsts, *given, *sizes), backwards)
            found |= {slot: make(ops.ITEM, (back,), number) for number, slot in enumerate(self.states)}
            source["back"] = lambda place: make(ops.ITEM, (back,), place)
        batch = Batch(arg.length if size is None else size, {})
        for param, (kind, place) in self.known:
            if kind == "operand" and place >= arg.carries + arg.inputs:
                batch.know({param: operands[place]})
            else:
                batch.give(param, source[kind](place))
        for (node, has_axis), slot in zip(batch.of(self.rest.src), self.slots, strict=True):
            of_steps = node if has_axis else spread(node, batch.size)
            found[slot] = of_steps if slot < arg.carries + arg.inputs else sum_of_steps(of_steps)
        return found

    def _after(self, again: UOp, slot: int) -> UOp:
        """A state after every step."""
        members = self.forward.src[0].src
        return make(ops.ITEM, (again,), members.index(members[slot], again.arg.carries))


_made: RecentlyUsed[tuple[Any, ...], _Derived] = RecentlyUsed("transform.loops", 1024)


def states_before(first: UOp, after: UOp, is_reversed: bool) -> UOp:
    """A state before each step, from that before the first and those after all."""
    size, *rest = after.shape
    whole = [(0, each) for each in rest]
    none = [(0, 0)] * len(rest)
    others = after.shrink([(1 if is_reversed else 0, size - 1), *whole])
    beside, alone = (0, 1), (size - 1, 0)
    if not is_reversed:
        beside, alone = (1, 0), (0, size - 1)
    return others.pad([beside, *none]) + first.reshape((1, *first.shape)).pad([alone, *none])


def sum_of_steps(node: UOp) -> UOp:
    """The sum over the first axis: of sums over other axes one sum over all, as a product of matrices is."""
    if node.op is ops.REDUCE and node.arg.op is ops.ADD and 0 not in node.arg.axes:
        return total(node.src[0], (0, *node.arg.axes))
    if node.op is ops.PERMUTE and node.arg[0] == 0:
        return sum_of_steps(node.src[0]).permute(tuple([axis - 1 for axis in node.arg[1:]]))
    if node.op is ops.RESHAPE and len(node.src) == 1 and node.shape[:1] == node.src[0].shape[:1]:
        return sum_of_steps(node.src[0]).reshape(node.shape[1:])
    if node.op is ops.ADD:
        left, right = node.src
        if left.shape == right.shape:
            return sum_of_steps(left) + sum_of_steps(right)
    return total(node, (0,))


class _Making:
    """Reverse mode on one step, parted into what goes from step to step and the rest."""

    def __init__(self, loop: UOp, seeded: list[int], slots: Sequence[int], reverse: Reverse) -> None:
        self.arg = arg = loop.arg
        self.function = loop.src[0]
        (self.body,) = self.function.src
        self.params = params_of(self.body)
        self.operands, _ = operands_of(loop)
        count = len(self.operands)
        seeds = [UOp.param(count + place, node.dtype, node.shape) for place, node in enumerate(self.body.src)]
        self.seeds = dict(enumerate(seeds))
        self.outputs = [place for place in seeded if place >= arg.carries]
        self.states, gradients = self._gradients({place for place in seeded if place < arg.carries}, slots, reverse)
        self.recurrence = [_or_zeros(gradients.get(slot), self.operands[slot]) for slot in self.states]
        wanted = [slot for slot in slots if slot >= arg.carries]
        self.others = {slot: gradients[slot] for slot in wanted if slot in gradients}
        self.kept = self._to_keep([*self.recurrence, *self.others.values()])

    def _gradients(self, states: set[int], slots: Sequence[int], reverse: Reverse) -> tuple[list[int], dict[int, UOp]]:
        """The states that have gradients, and what a step makes of these: more states, until there are no more."""
        carries = self.arg.carries
        targets = [slot for slot, param in self.params.items() if param.dtype.is_continuous]
        targets = [slot for slot in targets if slot < carries or slot in slots]
        while True:
            seeded = [*sorted(states), *self.outputs]
            roots = [(self.body.src[place], self.seeds[place]) for place in seeded]
            found = zip(targets, reverse(roots, [self.params[slot] for slot in targets]), strict=True)
            gradients = {slot: node for slot, node in found if node is not None}
            more = {slot for slot in gradients if slot < carries} - states
            if not more:
                return sorted(states), gradients
            states |= more

    def _to_keep(self, gradients: list[UOp]) -> list[UOp]:
        """The values of a step, expensive ones, that the gradients read: those that do not depend on gradients after
        the step, but on its state or inputs."""
        first = self.arg.carries + self.arg.inputs
        varying = {param for slot, param in self.params.items() if slot < first}
        moving = set(self.seeds.values())
        for node in topological(gradients):
            if not moving.isdisjoint(node.src):
                moving.add(node)
            if not varying.isdisjoint(node.src):
                varying.add(node)
        return expensive_below(
            gradients, lambda node: node in varying and node not in moving and node.dtype.itemsize > 0
        )

    def made(self) -> _Derived:
        """The functions."""
        carries = self.arg.carries
        ends = {*self.params.values(), *self.kept, *self.seeds.values()}
        every = topological([*self.recurrence, *self.others.values()], stop=self.kept)
        read = {node.arg.slot for node in every if node.op is ops.PARAM and node.arg.slot < carries}
        outputs = dict.fromkeys([*self.body.src[carries:], *(self.body.src[slot] for slot in sorted(read)), *self.kept])
        extra = [node for node in outputs if node not in self.body.src[carries:]]
        members = [*self.body.src, *extra]
        origins: dict[UOp, Origin] = {}
        for slot, param in self.params.items():
            origins[param] = ("state", slot) if slot < carries else ("operand", slot)
        origins |= {node: ("kept", members.index(node, carries)) for node in self.kept}
        origins |= {self.seeds[place]: ("dy", place) for place in self.outputs}
        handed = self._handed(ends)
        step, inputs, constants = self._step(handed, origins)
        origins |= {node: ("back", len(self.states) + number) for number, node in enumerate(handed)}
        rest, known = _over_params(list(self.others.values()), origins)
        forward = UOp.group(*members).function(self.function.arg.name)
        return _Derived(forward, tuple(self.states), step, inputs, constants, rest, known, tuple(self.others))

    def _handed(self, ends: set[UOp]) -> list[UOp]:
        """The values of the loop from the end that the rest is computed from: they are in memory there anyway."""
        inside = set(topological(self.recurrence, stop=ends)) - ends
        states = {self.seeds[slot] for slot in self.states}
        moving = set(ends)
        for node in topological([*self.recurrence, *self.others.values()], stop=ends):
            if not moving.isdisjoint(node.src):
                moving.add(node)
        found: dict[UOp, None] = {}
        seen: set[UOp] = set()
        stack = list(self.others.values())
        while stack:
            node = stack.pop()
            if node in seen or node not in moving:
                continue
            seen.add(node)
            is_result = node.op is ops.ITEM and node.src[0] in inside
            if node in states or is_result or (node in inside and node not in ends and node.op not in VIEWS):
                found[node] = None
            elif node not in ends:
                stack += node.src
        return list(found)

    def _step(
        self, handed: list[UOp], origins: dict[UOp, Origin]
    ) -> tuple[UOp | None, tuple[Origin, ...], tuple[Origin, ...]]:
        """The function of a step from the end; what it gets parts of, and its constants."""
        if not self.states:
            return None, (), ()
        first = self.arg.carries + self.arg.inputs
        members = [*self.recurrence, *handed]
        read = _read(members, origins)
        used = [node for node in origins if node in read]
        constants = [node for node in used if origins[node][0] == "operand" and origins[node][1] >= first]
        inputs = [node for node in used if node not in constants]
        order = [*(self.seeds[slot] for slot in self.states), *inputs, *constants]
        params = {node: UOp.param(slot, node.dtype, node.shape) for slot, node in enumerate(order)}
        step = UOp.group(*members).substitute(params).function(f"{self.function.arg.name}_grad")
        return step, tuple(origins[node] for node in inputs), tuple(origins[node] for node in constants)


def _read(roots: Iterable[UOp], ends: Collection[UOp]) -> set[UOp]:
    """Which of some nodes the roots are made of."""
    found: set[UOp] = set()
    seen: set[UOp] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node in ends:
            found.add(node)
        elif not node.op.opaque:
            stack += node.src
    return found


def _over_params(members: list[UOp], origins: dict[UOp, Origin]) -> tuple[UOp, tuple[tuple[UOp, Origin], ...]]:
    """A GROUP of values over params for what they are made of, and what that is."""
    read = _read(members, origins)
    used = [node for node in origins if node in read]
    params = {node: UOp.param(slot, node.dtype, node.shape) for slot, node in enumerate(used)}
    known = tuple([(params[node], origins[node]) for node in used])
    return UOp.group(*members).substitute(params), known
