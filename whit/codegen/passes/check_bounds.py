"""Proves that every access of a program stays inside its memory; the setting CHECK_OOB turns it on.

Goes in: a LINEAR program. Comes out: the accesses that are inside only if some data is right (a gather whose positions
or gates another kernel has computed). If one leaves its buffer whatever the data, or cannot be shown not to, an
InternalError names the kernel, the access and the values of the ranges.

    r0 < 17;  load p0, r0*8, width=8      of 136 elements: bounds say 0 .. 135
    r0 < 20;  load p0, r0 - 2, gate=...   of 17: all 20 values are tried
    r0 < 9000, r1 < 9000, ...             too many values: the solver z3

Three ways, from cheap to expensive. The interval of the position, if there is no gate or it is not needed. All values
of the ranges and variables that position and gate depend on, up to `MOST_POINTS` of them. The solver, in which whatever
it does not know (a value that was loaded, a product that wraps) is any number within its bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from whit.dtype import dtypes
from whit.errors import InternalError, NotSupportedError
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.interpret.values import bitcast, cast, constant, elementwise
from whit.ir.op import Op
from whit.ir.uop import UOp, const
from whit.simplify.bounds import bounds, range_of

MOST_POINTS = 1 << 18
SOLVER_MILLISECONDS = 10_000

Points = dict[UOp, Any]  # node -> its value at each point; vectors have their lanes as a second axis


@dataclass(frozen=True, slots=True)
class Access:
    """One LOAD or STORE, with the blocks around it."""

    node: UOp
    memory: UOp
    position: UOp
    gate: UOp | None
    width: int  # neighbours from a scalar position on
    blocks: tuple[UOp, ...]  # RANGEs and IFs, outer first

    @property
    def size(self) -> UOp:
        """Elements of the memory."""
        (size,) = self.memory.shape
        return size if isinstance(size, UOp) else const(dtypes.int64, size)


def check_bounds(linear: UOp, name: str = "kernel") -> list[Access]:
    """Raises unless every access of the program is inside its memory; returns those for which that depends on data."""
    trusted: list[Access] = []
    for access in accesses(linear):
        problem = find_problem(access)
        if problem and any(_depends_on_data(node) for node in (access.position, *conditions(access))):
            trusted.append(access)
        elif problem:
            ranges = ", ".join(_spelled(block) for block in access.blocks) or "no ranges"
            position = access.position.expression()
            gate = "none" if access.gate is None else access.gate.expression()
            raise InternalError(
                f"check_bounds: {name}: {access.node.op.name} at {position} {problem}",
                f"memory: {access.memory.short()}\ngate: {gate}\ninside: {ranges}",
                "A pass has made a wrong position, or has lost a gate.",
            )
    return trusted


def _spelled(block: UOp) -> str:
    if block.op is ops.IF:
        return f"if {block.src[0].expression()}"
    return f"{block.arg.name} < {block.src[0].expression()}"


def accesses(linear: UOp) -> list[Access]:
    """The loads and stores of a program."""
    found: list[Access] = []
    blocks: list[UOp] = []
    for node in linear.src:
        if node.op is ops.RANGE or node.op is ops.IF:
            blocks.append(node)
        elif node.op is ops.END:
            blocks.pop()
        elif node.op is ops.LOAD:
            memory, position, *gate = node.src
            found.append(Access(node, _base(memory), position, gate[0] if gate else None, node.arg, tuple(blocks)))
        elif node.op is ops.STORE:
            memory, value, position, *gate = node.src
            width = value.shape[0] if value.shape and not position.shape else 1
            found.append(Access(node, _base(memory), position, gate[0] if gate else None, width, tuple(blocks)))
    return found


def _base(memory: UOp) -> UOp:
    while memory.op is ops.AFTER:
        memory = memory.src[0]
    return memory


def find_problem(access: Access) -> str:
    """What is wrong with an access; nothing if it is proved to be right."""
    access = _without_single_loops(access)
    if _is_inside_by_bounds(access) or any(bounds(block.src[0]) == (0, 0) for block in access.blocks):
        return ""
    points = all_points(access)
    if points is not None:
        return _try_all(access, points)
    return _solve(access)


def _depends_on_data(node: UOp) -> bool:
    """Whether memory decides the value."""
    return any(below.op in (ops.LOAD, ops.INDEX, ops.AFTER, ops.PARAM) for below in topological((node,)))


def _without_single_loops(access: Access) -> Access:
    """The access with 0 for every loop around it that has one iteration, or none: bounds do not take that for 0."""
    loops = [block for block in access.blocks if block.op is ops.RANGE and (bounds(block.src[0]) or (0, 2))[1] <= 1]
    return replace(access, position=access.position.substitute({r: const(r.dtype, 0) for r in loops}))


def _is_inside_by_bounds(access: Access) -> bool:
    inside, size = bounds(access.position), bounds(access.size)
    if inside is None or size is None:
        return False
    return inside[0] >= 0 and inside[1] + access.width <= size[0]


# ---- all values


def conditions(access: Access) -> list[UOp]:
    """What decides whether the access happens: the gate, the conditions around it, loops that may not run."""
    around = [block.src[0] for block in access.blocks if block.op is ops.IF]
    return around if access.gate is None else [*around, access.gate]


def inputs_of(access: Access) -> list[UOp] | None:
    """The ranges and variables that matter, outer first; None if data matters too."""
    needed = {*conditions(access), access.position, access.size}
    loops = [block for block in access.blocks if block.op is ops.RANGE]
    needed.update(loop for loop in loops if loop.src[0].op is not ops.CONST)
    if any(_depends_on_data(node) for node in needed):
        return None
    below = topological(needed)
    variables = [node for node in below if node.op is ops.VARIABLE]
    inside = set(below)
    return variables + [loop for loop in loops if loop in inside]


def all_points(access: Access) -> Points | None:
    """Every combination of values of what the access depends on; None if there are too many."""
    inputs = inputs_of(access)
    if inputs is None:
        return None
    points: Points = {}
    count = 1
    for node in inputs:
        if node.op is ops.VARIABLE:
            low, high = node.arg.low, node.arg.high
            sizes = np.full(count, high - low + 1, np.int64) if high - low < MOST_POINTS else None
        else:
            low = 0
            values = values_at(node.src[0], points)
            limits = np.asarray(np.broadcast_to(values, (count,)), np.float64)
            sizes = np.asarray(values, np.int64) if limits.max(initial=0) <= MOST_POINTS else None
            sizes = None if sizes is None else np.broadcast_to(np.maximum(sizes, 0), (count,))
        if sizes is None or sizes.sum() > MOST_POINTS:
            return None
        points = {other: np.repeat(values, sizes) for other, values in points.items()}
        starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
        points[node] = (np.arange(sizes.sum()) - starts + low).astype(_storage(node))
        count = int(sizes.sum())
    return points


def _storage(node: UOp) -> Any:
    return object if node.dtype is dtypes.weakint else np.int64


def values_at(root: UOp, points: Points) -> Any:
    """The value of an expression at each point: (points,), or (points, lanes) of a vector, or a single one."""
    done: dict[UOp, Any] = dict(points)
    for node in topological((root,), stop=points):
        sources = [done[s] for s in node.src]
        if node.shape and node.op.elementwise:  # scalars meet vectors
            sources = [v[:, None] if not s.shape and np.ndim(v) else v for s, v in zip(node.src, sources, strict=True)]
        done[node] = _value(node, sources)
    return done[root]


def _value(node: UOp, sources: list[Any]) -> Any:
    """The value of one node, given those of its sources."""
    if node.op is ops.CONST:
        return constant(node.dtype, node.arg)
    if node.op.elementwise:
        return elementwise(node.op, node.dtype, sources, [s.dtype for s in node.src])
    if node.op is ops.CAST:
        return cast(node.dtype, node.src[0].dtype, *sources)
    if node.op is ops.BITCAST:
        return bitcast(node.dtype, node.src[0].dtype, *sources)
    if node.op is ops.EACH:
        return np.ones(np.shape(sources[0]), np.bool_)
    if node.op is ops.STACK:
        lanes = np.stack(np.broadcast_arrays(*sources), axis=-1)
        return lanes[None, :] if lanes.ndim == 1 else lanes
    raise NotSupportedError(f"check_bounds: {node.op.name} in a position", node.short())


def _try_all(access: Access, points: Points) -> str:
    """Whether the position is inside at every point at which the access happens."""
    count = len(next(iter(points.values()))) if points else 1
    if count == 0:
        return ""
    with np.errstate(all="ignore"):
        position = as_lanes(values_at(access.position, points), access.position)
        size = as_lanes(values_at(access.size, points), access.size)
        if access.width > 1:
            position = position + np.arange(access.width)
        bad = (position < 0) | (position >= size)
        for condition in conditions(access):
            bad = bad & as_lanes(values_at(condition, points), condition)
    bad = np.asarray(bad, np.bool_)
    if not bad.any():
        return ""
    place = tuple(int(axis[0]) for axis in np.nonzero(bad))
    number, limit = (int(np.broadcast_to(values, bad.shape)[place]) for values in (position, size))
    where = ", ".join(f"{_name(node)} = {int(values[place[0]])}" for node, values in points.items())
    return f"is {number} for {where or 'its only value'}, outside of {limit} elements"


def as_lanes(values: Any, node: UOp) -> Any:
    """Points first, lanes second."""
    values = np.asarray(values)
    return values if node.shape else values.reshape(-1, 1)


def _name(node: UOp) -> str:
    return str(node.arg.name) if node.op is ops.VARIABLE else node.arg.name


# ---- the solver


def _solve(access: Access) -> str:
    """Asks z3 for values for which the access is outside."""
    try:
        import z3  # lazy: only for kernels that nothing else decides
    except ImportError:
        return "cannot be decided without the solver: install z3-solver"
    terms = _Terms(z3)
    lane = terms.lane
    position, size = terms.of(access.position), terms.of(access.size)
    lanes = access.width if access.width > 1 else access.position.shape[0] if access.position.shape else 1
    if access.width > 1:
        position = position + lane
    if access.gate is not None and access.gate.shape:
        lanes = max(lanes, access.gate.shape[0])
    solver = z3.Solver()
    solver.set("timeout", SOLVER_MILLISECONDS)
    outside = z3.Or(position < 0, position >= size)
    happens = [terms.of(condition) for condition in conditions(access)]
    for block in access.blocks:
        if block.op is ops.RANGE:
            terms.of(block)
    solver.add(lane >= 0, lane < lanes, outside, *happens, *terms.facts)
    answer = solver.check()
    if answer == z3.unsat:
        return ""
    if answer == z3.unknown:
        return "could not be proved to be inside: the solver gave up"
    model = solver.model()
    known = [f"{term} = {model[term]}" for term in terms.leaves if model[term] is not None]
    return f"may be outside: {', '.join(known)}"


def _floor_divide(z3: Any, x: Any, y: Any) -> Any:
    return z3.If(y == 0, 0, z3.If(y > 0, x / y, (-x) / (-y)))


def _floor_modulo(z3: Any, x: Any, y: Any) -> Any:
    return z3.If(y == 0, x, z3.If(y > 0, x % y, -((-x) % (-y))))


_TERMS: dict[Op, Any] = {
    ops.ADD: lambda z3, x, y: x + y,
    ops.SUB: lambda z3, x, y: x - y,
    ops.MUL: lambda z3, x, y: x * y,
    ops.NEG: lambda z3, x: -x,
    ops.FLOORDIV: _floor_divide,
    ops.FLOORMOD: _floor_modulo,
    ops.MAX: lambda z3, x, y: z3.If(x < y, y, x),
    ops.MIN: lambda z3, x, y: z3.If(x < y, x, y),
    ops.LT: lambda z3, x, y: x < y,
    ops.LE: lambda z3, x, y: x <= y,
    ops.EQ: lambda z3, x, y: x == y,
    ops.NE: lambda z3, x, y: x != y,
    ops.WHERE: lambda z3, condition, yes, no: z3.If(condition, yes, no),
}
_OF_BOOLS: dict[Op, Any] = {
    ops.AND: lambda z3, x, y: z3.And(x, y),
    ops.OR: lambda z3, x, y: z3.Or(x, y),
    ops.XOR: lambda z3, x, y: z3.Xor(x, y),
    ops.NOT: lambda z3, x: z3.Not(x),
    ops.EQ: lambda z3, x, y: x == y,
    ops.NE: lambda z3, x, y: x != y,
    ops.WHERE: lambda z3, condition, yes, no: z3.If(condition, yes, no),
}


class _Terms:
    """Expressions as terms of the solver, over unbounded integers; vectors are functions of `lane`."""

    def __init__(self, z3: Any) -> None:
        self.z3 = z3
        self.lane = z3.Int("lane")
        self.known: dict[UOp, Any] = {}
        self.facts: list[Any] = []
        self.leaves: list[Any] = []

    def of(self, root: UOp) -> Any:
        """The term of an expression."""
        for node in topological((root,)):
            if node not in self.known and (node.dtype.is_int or node.dtype.is_bool):
                self.known[node] = self._term(node)
        return self.known[root]

    def _term(self, node: UOp) -> Any:
        z3 = self.z3
        if node.op is ops.CONST:
            return z3.BoolVal(node.arg) if node.dtype.is_bool else z3.IntVal(node.arg)
        if node.op is ops.RANGE:
            (size,) = node.src
            leaf = self._leaf(node.arg.name, False)
            self.facts += [leaf >= 0, leaf < self.known[size]]
            return leaf
        if node.op is ops.VARIABLE:
            leaf = self._leaf(str(node.arg.name), False)
            self.facts += [leaf >= node.arg.low, leaf <= node.arg.high]
            return leaf
        operands = [self.known.get(s) for s in node.src]
        if operands and all(operand is not None for operand in operands):
            exact = self._exact(node, operands)
            if exact is not None:
                return exact
        return self._unknown(node)

    def _exact(self, node: UOp, operands: list[Any]) -> Any:
        """The term of an op that the solver knows; where the result wraps, it is any number of the dtype."""
        if node.op is ops.STACK:
            term = operands[-1]
            for i in reversed(range(len(operands) - 1)):
                term = self.z3.If(self.lane == i, operands[i], term)
            return term
        if node.op is ops.CAST:
            (source,) = node.src
            inside, whole = bounds(source), range_of(node.dtype)
            fits = node.dtype is dtypes.weakint or (
                inside is not None and whole is not None and _lies_in(inside, whole)
            )
            return operands[0] if fits and source.dtype.is_int and node.dtype.is_int else None
        meanings = _OF_BOOLS if node.src[-1].dtype.is_bool else _TERMS
        if node.op not in meanings:
            return None
        exact = meanings[node.op](self.z3, *operands)
        if not node.dtype.is_int or _cannot_wrap(node):
            return exact
        wrapped = self._unknown(node)
        low, high = range_of(node.dtype) or (0, 0)
        self.facts += [self.z3.Implies(self.z3.And(exact >= low, exact <= high), wrapped == exact)]
        return wrapped

    def _unknown(self, node: UOp) -> Any:
        leaf = self._leaf(f"{node.op.name}{len(self.leaves)}", node.dtype.is_bool)
        inside = bounds(node)
        if inside is not None and not node.dtype.is_bool:
            self.facts += [leaf >= inside[0], leaf <= inside[1]]
        if node.shape:  # another value in each lane
            function = self.z3.Function(f"{leaf}.lanes", self.z3.IntSort(), leaf.sort())
            self.facts += [leaf == function(self.lane)]
        return leaf

    def _leaf(self, name: str, is_bool: bool) -> Any:
        leaf = self.z3.Bool(name) if is_bool else self.z3.Int(name)
        self.leaves.append(leaf)
        return leaf


def _lies_in(inner: tuple[int, int], outer: tuple[int, int]) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _cannot_wrap(node: UOp) -> bool:
    """Whether the exact result of an op fits its dtype for all operands."""
    whole = range_of(node.dtype)
    if whole is None:
        return True
    if node.op is ops.WHERE:
        return True
    sources = [bounds(s) for s in node.src]
    if node.op.bounds is None or any(source is None for source in sources):
        return False
    exact = node.op.bounds(*sources)
    return exact is not None and _lies_in(exact, whole)
