"""`scan`, `map`, `while_loop`, `fori_loop`: loops over time, over examples, and as long as something holds.

A loop is one node of the graph, LOOP, of which the body is scheduled and compiled once, whatever the length. With a
symbolic size or a variable inside of the body a scan is written out step by step, as a loop in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from whit.cache import RecentlyUsed
from whit.config import settings_key
from whit.containers import Structure
from whit.dtype import dtypes
from whit.engine.memory.storage import is_known
from whit.errors import ArgumentError, DTypeError, NotSupportedError, ShapeError
from whit.ir import ops
from whit.ir.args import LoopArg
from whit.ir.op import spell_shape, spell_size
from whit.ir.sizes import Size, is_size, same_size, settled
from whit.ir.uop import UOp, as_index, make
from whit.tensor.control.body import Body, as_tensors, stand_in_for
from whit.tensor.graphs.threefry import Draws, draws_of_steps
from whit.tensor.nested import flatten_tensors, map_tensors
from whit.tensor.tensor import Tensor
from whit.tensor.transforms.arguments import check_function, name_of
from whit.transform.hoist import hoisted

NO_DRAWS = "while_loop: random numbers in a body, and nobody knows how many steps there will be"


def scanned(f: Callable[..., Any], init: Any, xs: Any, length: Any, reverse: bool) -> tuple[Any, Any]:
    """What `scan` gives."""
    check_function("scan", f)
    state, xs = as_tensors(init), as_tensors(xs)
    steps = _length("scan", xs, length)
    return _Scan(f, state, xs, steps, reverse).run()


def mapped(f: Callable[[Any], Any], xs: Any) -> Any:
    """What `map` gives."""
    check_function("map", f)
    return scanned(lambda state, x: (state, f(x)), (), xs, None, False)[1]


def looped(cond: Callable[[Any], Any], body: Callable[[Any], Any], init: Any) -> Any:
    """What `while_loop` gives."""
    check_function("while_loop", cond)
    check_function("while_loop", body)
    state = as_tensors(init)
    leaves, structure = flatten_tensors(state)
    inside = structure.unflatten([stand_in_for(leaf, leaf.shape) for leaf in leaves])
    inputs = [tensor.uop for tensor in flatten_tensors(inside)[0]]
    step = Body.trace("while_loop", name_of(body), body, (inside,), Draws(NO_DRAWS))
    inside = structure.unflatten([leaf._make(node, leaf.device) for leaf, node in zip(leaves, inputs, strict=True)])
    test = Body.trace("while_loop", name_of(cond), cond, (inside,), Draws(NO_DRAWS))
    _check_state("while_loop", leaves, structure, step.tensors, step.structure)
    if len(test.members) != 1 or test.members[0].shape or test.members[0].dtype is not dtypes.bool:
        raise ArgumentError(
            f"while_loop: {test.name} gives {test.structure}, {', '.join(_spelled(t) for t in test.tensors)}",
            fix="Return one bool: a comparison of numbers, with shape ().",
        )
    if not (step.is_fixed() and test.is_fixed()):
        raise NotSupportedError(
            "while_loop: a symbolic size or a variable inside of the body", fix="Make it a part of the state."
        )
    constants: dict[UOp, UOp] = {}
    functions = (step.function(inputs, step.members, constants), test.function(inputs, test.members, constants))
    loop = make(ops.LOOP, (*functions, *[leaf.uop for leaf in leaves], *constants), LoopArg("while", len(leaves)))
    return structure.unflatten([leaf._wrap(make(ops.ITEM, (loop,), place)) for place, leaf in enumerate(leaves)])


def counted(lower: Any, upper: Any, body: Callable[[Any, Any], Any], init: Any) -> Any:
    """What `fori_loop` gives."""
    check_function("fori_loop", body)
    if not isinstance(lower, Tensor) and not isinstance(upper, Tensor):
        count = settled(upper - lower)
        if isinstance(count, int) and count <= 0:
            return as_tensors(init)
        numbers = Tensor.arange(count) + lower if not isinstance(lower, int) or lower else Tensor.arange(count)
        return scanned(lambda state, i: (body(i, state), None), init, numbers, None, False)[0]
    first = as_tensors(lower)
    last = as_tensors(upper).cast(first.dtype)
    found = looped(lambda s: s[0] < last, lambda s: (s[0] + 1, body(s[0], s[1])), (first, init))
    return found[1]


Steps = Callable[..., Sequence[Any]]
# -> the function, and numbers that it reads; or that there is none
_pure: RecentlyUsed[tuple[Any, ...], tuple[tuple[UOp, tuple[UOp, ...]] | None]] = RecentlyUsed(
    "tensor.pure_steps", 1024
)


def scan_pure(
    step: Steps, inputs: Sequence[Any], states: Sequence[Any], others: Sequence[Any], is_reversed: bool
) -> tuple[list[Any], list[Any]]:
    """(states, outputs) of `states, outputs = step(inputs, states, others)`, a function of nothing but tensors, some of
    `others` being None. It runs once for all calls with tensors of the same kind."""
    length = _length("scan", list(inputs), None)
    given = [tensor for tensor in others if tensor is not None]
    key = (
        step,
        settings_key(),
        _kinds(states),
        _kinds(inputs, 1),
        tuple([_kinds([t]) if t is not None else None for t in others]),
    )
    known = _pure.get(key)
    if known is None:
        known = _pure[key] = (_pure_function(step, inputs, states, others),)
    (found,) = known
    if found is None or length == 0:
        return _pure_written_out(step, inputs, states, others, length, is_reversed)
    function, numbers = found
    is_known = isinstance(length, int)
    sizes = () if is_known else (as_index(length),)
    operands = [tensor.uop for tensor in (*states, *inputs, *given)]
    arg = LoopArg("scan", len(states), len(inputs), length if is_known else None, is_reversed)
    loop = make(ops.LOOP, (function, *operands, *numbers, *sizes), arg)
    items = [states[0]._wrap(make(ops.ITEM, (loop,), place)) for place in range(len(function.src[0].src))]
    return items[: len(states)], items[len(states) :]


def _kinds(tensors: Sequence[Any], first: int = 0) -> tuple[Any, ...]:
    return tuple([None if t is None else (t.dtype, t.shape[first:], t.device) for t in tensors])


def _pure_function(
    step: Steps, inputs: Sequence[Any], states: Sequence[Any], others: Sequence[Any]
) -> tuple[UOp, tuple[UOp, ...]] | None:
    """The FUNCTION of a step, and the numbers that it reads; None if it has symbolic sizes."""
    parts = [stand_in_for(each, each.shape[1:]) for each in inputs]
    inside = [stand_in_for(each, each.shape) for each in states]
    constants = [None if each is None else stand_in_for(each, each.shape) for each in others]
    given = [*inside, *parts, *flatten_tensors(constants)[0]]
    if not all(is_known(tensor.shape) for tensor in given):
        return None
    body = Body.trace("scan", name_of(step), step, (parts, inside, constants), Draws())
    numbers: dict[UOp, UOp] = {}
    return body.function([tensor.uop for tensor in given], body.members, numbers), tuple(numbers)


def _pure_written_out(
    step: Steps, inputs: Sequence[Any], states: Sequence[Any], others: Sequence[Any], length: Size, is_reversed: bool
) -> tuple[list[Any], list[Any]]:
    if not isinstance(length, int):
        raise NotSupportedError("scan: a step of symbolic sizes, and a symbolic length", fix="Bind one to a number.")
    rows = []
    for t in reversed(range(length)) if is_reversed else range(length):
        states, outputs = step([each[t] for each in inputs], list(states), list(others))
        rows.append(outputs)
    ordered = rows[::-1] if is_reversed else rows
    return list(states), [first.stack(*more) for first, *more in zip(*ordered, strict=True)]


def _length(what: str, xs: Any, length: Any) -> Size:
    """How many steps there are: the first size of all inputs."""
    leaves, structure = flatten_tensors(xs)
    sizes: list[tuple[str, Any]] = []
    for leaf, place in zip(leaves, structure.leaf_places(), strict=True):
        if not leaf.shape:
            raise ShapeError(f"{what}: xs{place} has no axis of steps", leaf._made(), "Give it one, in front.")
        sizes.append((f"xs{place}", leaf.shape[0]))
    if length is not None:
        sizes.append(("length", _as_length(what, length)))
    if not sizes:
        raise ArgumentError(f"{what}: neither xs nor length says how many steps there are", fix="Give one of them.")
    _, first = sizes[0]
    for _, size in sizes:
        if not same_size(first, size):
            listed = ", ".join(f"{place}: {spell_size(each)}" for place, each in sizes)
            raise ShapeError(f"{what}: inputs have different numbers of steps", listed, "Give all the same first size.")
    return first if isinstance(first, int) else settled(first)


def _as_length(what: str, length: Any) -> Size:
    """A number of steps that was given."""
    if isinstance(length, UOp) and is_size(length):
        return length
    if isinstance(length, bool | UOp) or not hasattr(length, "__index__"):
        raise ArgumentError(f"{what}: length={length!r:.60}", fix="Give an integer, or a bound variable.")
    if length.__index__() < 0:
        raise ArgumentError(f"{what}: length={length}", fix="There are 0 steps or more.")
    return int(length.__index__())


def _spelled(tensor: Any) -> str:
    return f"{tensor.dtype.name}{spell_shape(tensor.shape)}"


def _check_state(
    what: str, before: Sequence[Any], structure: Structure, after: Sequence[Any], found: Structure
) -> None:
    """A step returns a state of the structure, shapes and dtypes that it gets."""
    if not structure.fits(found):
        raise ArgumentError(
            f"{what}: the state is {structure}, and a step returns {found}",
            fix="Return containers of the same kinds, lengths and names, with a tensor where there is one.",
        )
    for one, other, place in zip(before, after, structure.leaf_places(), strict=True):
        at = f" at {place}" if place else ""
        if one.shape != other.shape:
            shapes = spell_shape(one.shape), spell_shape(other.shape)
            raise ShapeError(
                f"{what}: the state{at} has shape {shapes[0]}, and {shapes[1]} after a step",
                f"{one._made()}; after a step {other._made()}",
                "A state keeps its shape: begin with the one that it has after a step.",
            )
        if one.dtype is not other.dtype:
            raise DTypeError(
                f"{what}: the state{at} is {one.dtype.name}, and {other.dtype.name} after a step",
                f"{one._made()}; after a step {other._made()}",
                "A state keeps its dtype: cast the one, or the other.",
            )


class _Scan:
    """One call of `scan`."""

    def __init__(self, f: Callable[..., Any], state: Any, xs: Any, length: Size, is_reversed: bool) -> None:
        self._f, self._state, self._xs, self._length, self._is_reversed = f, state, xs, length, bool(is_reversed)
        self._states, self._structure = flatten_tensors(state)
        self._inputs, self._inner = flatten_tensors(xs)

    def run(self) -> tuple[Any, Any]:
        """The last state, and what all steps return."""
        inside = [stand_in_for(each, each.shape) for each in self._states]
        parts = [stand_in_for(each, each.shape[1:]) for each in self._inputs]
        nodes = [tensor.uop for tensor in (*inside, *parts)]
        given = (self._structure.unflatten(inside), self._inner.unflatten(parts))
        body = Body.trace("scan", name_of(self._f), self._as_pair, given, Draws())
        found, rest = body.structure.inside
        states = body.tensors[: found.count]
        _check_state("scan", self._states, self._structure, states, found)
        if not body.is_fixed():
            return self._written_out()
        if self._length == 0:
            empty = [Tensor.zeros(0, *t.shape, dtype=t.dtype, device=t.device) for t in body.tensors[found.count :]]
            return self._state, rest.unflatten(empty)
        outputs = self._loop(body, nodes)
        return found.unflatten(outputs[: found.count]), rest.unflatten(outputs[found.count :])

    def _as_pair(self, state: Any, x: Any) -> tuple[Any, Any]:
        result = self._f(state, x)
        if not isinstance(result, tuple) or len(result) != 2:
            raise ArgumentError(
                f"scan: {name_of(self._f)} returns {type(result).__name__}, and a pair is wanted",
                fix="Return (state, y); y may be None.",
            )
        return result

    def _loop(self, body: Body, nodes: list[UOp]) -> list[Any]:
        """The results of the node."""
        draws = [draws_of_steps(size, self._length, str(node.device)) for node, size in body.draws]
        constants: dict[UOp, UOp] = {}
        order = [*nodes, *(node for node, _ in body.draws)]
        function = body.function(order, body.members, constants)
        operands = [tensor.uop for tensor in (*self._states, *self._inputs)]
        is_known = isinstance(self._length, int)
        sizes = () if is_known else (as_index(self._length),)
        arg = LoopArg(
            "scan",
            len(self._states),
            len(self._inputs) + len(draws),
            self._length if is_known else None,
            self._is_reversed,
        )
        loop = make(ops.LOOP, (function, *operands, *draws, *constants, *sizes), arg)
        loop = hoisted(loop) if is_known else loop
        return [tensor._wrap(make(ops.ITEM, (loop,), place)) for place, tensor in enumerate(body.tensors)]

    def _written_out(self) -> tuple[Any, Any]:
        """The steps as a loop in Python."""
        if not isinstance(self._length, int):
            raise NotSupportedError(
                "scan: a symbolic size or a variable inside of the body, and a symbolic length",
                fix="Bind the length to a number, or make the variable a part of the state.",
            )
        state, rows = self._state, []
        order = range(self._length)
        for step in reversed(order) if self._is_reversed else order:
            state, row = self._f(state, map_tensors(lambda tensor, at=step: tensor[at], self._xs))
            rows.append(as_tensors(row))
        first, *others = reversed(rows) if self._is_reversed else rows
        return as_tensors(state), map_tensors(lambda one, *more: one.stack(*more), first, *others)
