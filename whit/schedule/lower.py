"""One kernel: a value of the tensor graph, computed over the ranges of its shape.

Goes in: a tensor-stage node and the set of nodes that are stored in memory. Comes out: the scalar expression of its
element at (r0, r1, ...): movement ops are index arithmetic now, everything up to stored nodes is fused, a reduction is
a REDUCE over ranges of its own.

    relu(a @ b)   ->   max(reduce add over k of a[r0, k] * b[k, r1], 0)

While it goes, it meets values that would be computed more often than they have elements (an expanded reduction, a value
asked for at two positions). Where `may_fuse` says that such a value is stored, it is reported in `to_store` with the
reason, for `choose_stages`, and also in `in_doubt`, if that may come out otherwise when more is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping
from math import gcd, prod
from typing import Any

from whit.dtype import DType, dtypes
from whit.errors import InternalError, NotSupportedError
from whit.ir import ops
from whit.ir.args import FunctionArg, RangeKind
from whit.ir.free import free_ranges
from whit.ir.graph import joined
from whit.ir.nesting import Owner
from whit.ir.op import Op
from whit.ir.uop import UOp, as_index, const, make
from whit.records import dataclass, field, replace
from whit.schedule.movement import ZERO, Position, Positions, new_range, source_position, view_position
from whit.schedule.stages.may_fuse import Answer, Reading, may_fuse, of_recomputed, of_sorted, of_windows, with_epilogue
from whit.schedule.values import LOOPS, narrowest, prod_of
from whit.simplify import simplify

Step = Generator[Any, UOp, UOp]


@dataclass(slots=True)
class Request:
    """One value asked for: where, under which condition, inside which loops."""

    node: UOp
    position: Position
    gate: UOp | None
    loops: tuple[UOp, ...]  # the ranges around it, outer first


@dataclass(slots=True)
class Lowering:
    """The state of lowering one kernel."""

    stored: set[UOp]  # nodes that are read from memory
    inline: Collection[UOp] = ()  # nodes that are computed wherever they are needed
    saved: Mapping[UOp, UOp] = field(default_factory=dict)  # what is overwritten too early -> the copy to read instead
    to_store: dict[UOp, str] = field(default_factory=dict)  # value -> why it is stored
    views: dict[UOp, str] = field(default_factory=dict)  # the same for views, in the order in which they are read
    in_doubt: list[UOp] = field(default_factory=list)  # those to keep as long as nothing else is that they are made of
    fused: dict[UOp, None] = field(default_factory=dict)  # nodes computed in this kernel
    done: dict[Any, UOp] = field(default_factory=dict)
    asked: dict[UOp, float] = field(default_factory=dict)  # node -> evaluations so far
    path: list[Request] = field(default_factory=list)  # what is being computed, from the root down
    depth: int = 0  # how many reductions and scans are on that path
    reduce_ranges: int = 0  # how many there are
    free: dict[UOp, frozenset[UOp]] = field(default_factory=dict)  # what `free_ranges` has found so far
    positions: Positions = field(default_factory=dict)  # memo of source_position, of all kernels of a schedule
    is_gpu: bool = False

    def lower(self, root: UOp, ranges: tuple[UOp, ...], position: Position) -> UOp:
        """The element of root at this position, computed here."""
        return self._run(Request(root, position, None, ranges))

    def ask(self, request: Request) -> UOp:
        """The value asked for: from memory if it is there, else computed here."""
        answer = self._at_hand(request)
        if answer is not None:
            return answer
        self.fused[request.node] = None
        return self._run(request)

    def _run(self, first: Request) -> UOp:
        """Iterative: generators on a stack instead of calls."""
        self._enter(first)
        stack: list[Step] = [self._compute(first)]
        answer: Any = None
        while stack:
            try:
                request = stack[-1].send(answer)
            except StopIteration as finished:
                stack.pop()
                request = self.path.pop()
                self.depth -= request.node.op in LOOPS
                answer = self.done[request.node, request.position, request.gate] = finished.value
                continue
            answer = self._at_hand(request)
            if answer is None:
                self.fused[request.node] = None
                self._enter(request)
                stack.append(self._compute(request))
        return answer  # type: ignore[no-any-return]

    def _enter(self, request: Request) -> None:
        self.path.append(request)
        self.depth += request.node.op in LOOPS

    def _at_hand(self, request: Request) -> UOp | None:
        """The value if it need not be computed here."""
        node = request.node
        answer = self.done.get((node, request.position, request.gate))
        if answer is not None:
            return answer
        if 0 in node.shape:  # it has no elements, so this one is never needed
            return zero_of(node)
        if node in self.stored or node.op in (ops.PARAM, ops.BUFFER) or self._is_stored(request):
            answer = self.done[node, request.position, request.gate] = self._read(request)
        return answer

    def _read(self, request: Request) -> UOp:
        node = self.saved.get(request.node, request.node)
        return read_value(node, request.position, request.gate)

    def _is_stored(self, request: Request) -> bool:
        """Whether the value is read from memory: what `may_fuse` says is noted with its reason."""
        node = request.node
        if node in self.inline:
            return False
        if node.op is ops.RESHAPE and self.depth and not self.is_gpu:
            answer = of_windows(node, request.position, self.stored, self.ranges_of, self.positions)
            if answer.stored:
                self.views[node] = answer.reason
            return answer.stored
        if node.op in ops.MOVEMENT or node.op is ops.RECOMPUTE or not node.src:
            return False
        reading = self._reading(request)
        answer = may_fuse(reading, self.stored)
        if answer.stored:
            self._store(reading, answer)
        return answer.stored

    def _reading(self, request: Request) -> Reading:
        """How a value is read, with what was read of it before. It stands as far out in the loops as it can."""
        node, hoisted = request.node, self._hoisted(request)
        times, size = float(prod_of(tuple(loop.size for loop in hoisted))), prod_of(node.shape)
        if times > size and node.op not in (ops.REDUCE, ops.SCAN, ops.SORT):
            times /= self._same_for(request)
        total = self.asked[node] = self.asked.get(node, 0) + times
        is_outside = len(hoisted) < len(request.loops)
        return Reading(node, total / max(size, 1), is_outside, self.depth > 0, self.is_gpu)

    def _store(self, reading: Reading, answer: Answer) -> None:
        """Notes what to store for a value, and why."""
        node = reading.node
        above = self.path[-1].node if len(self.path) > 1 else node
        if node.op in LOOPS:
            path = (request.node for request in reversed(self.path[1:]))
            node = with_epilogue(node, path, self.asked, reading.times, answer.is_alone, self.stored)
        elif node.op is ops.INDEX and above.op is ops.PERMUTE:
            self.views[above] = answer.reason  # what is picked along an axis, with the axes where they were
            return
        self._note(node, answer)
        if answer.is_in_doubt:
            self.in_doubt.append(node)

    def _store_for_recompute(self, value: UOp) -> None:
        stored = narrowest(value)
        self._note(stored, of_recomputed(stored, self.stored))

    def _note(self, value: UOp, answer: Answer) -> None:
        if answer.stored:
            self.to_store.setdefault(value, answer.reason)

    def _same_for(self, request: Request) -> int:
        """Steps of reduce ranges along which a value stays the same, because its position divides them by a number: the
        scale of a block. Such ranges are split there, and the value is computed once for each block."""
        reduced = {loop for loop in request.loops if loop.arg.kind is RangeKind.REDUCE and isinstance(loop.size, int)}
        steps: dict[UOp, int] = {}
        for node in UOp.group(*request.position).topological() if reduced else ():
            for r in node.src:
                if r in reduced:
                    is_divided = node.op is ops.FLOORDIV and node.src[1].op is ops.CONST
                    steps[r] = gcd(steps.get(r, prod_of((r.size,))), node.src[1].arg if is_divided else 1)
        return prod(steps.values())

    def _hoisted(self, request: Request) -> tuple[UOp, ...]:
        """The loops that are left around a value when it is moved out of those it does not depend on."""
        needed: set[UOp] = set()
        for i in request.position:
            needed |= self.ranges_of(i)
        loops = request.loops
        while loops and loops[-1] not in needed:
            loops = loops[:-1]
        return loops

    def ranges_of(self, node: UOp) -> frozenset[UOp]:
        """The ranges that an expression depends on and that nothing inside it binds."""
        return self.free[node] if node in self.free else free_ranges(node, self.free)[node]

    def _compute(self, request: Request) -> Step:
        node, position, gate, loops = request.node, request.position, request.gate, request.loops
        op = node.op
        if op in (ops.CONST, ops.VARIABLE, ops.BIND):
            return node
        if op in (ops.PARAM, ops.BUFFER):
            return self._read(request)
        if op in _STEPS:
            return (yield from _STEPS[op](self, request))
        if op.elementwise or op in (ops.CAST, ops.BITCAST):
            parts = []
            for s in node.src:
                parts.append((yield Request(s, position if s.shape else (), gate, loops)))
            return make(op, tuple(parts), node.arg)
        if op is ops.RECOMPUTE:
            self._store_for_recompute(node.src[0])
        if op in (*ops.SAME_VALUE, ops.RECOMPUTE, ops.STAGE, ops.COPY):
            return (yield Request(node.src[0], position, gate, loops))
        if op is ops.ARANGE:
            return position[0].cast(node.dtype)
        raise NotSupportedError(f"schedule: {op.name} cannot be lowered", node.short())

    def _move(self, request: Request) -> Step:
        node, gate, loops = request.node, request.gate, request.loops
        position, valid = source_position(node, request.position, self.positions)
        if valid is None:
            return (yield Request(node.src[0], position, gate, loops))
        both = valid if gate is None else valid & gate
        value = yield Request(node.src[0], position, both, loops)
        return valid.where(value, zero_of(node))

    def _reduce(self, request: Request) -> Step:
        node, position, gate = request.node, request.position, request.gate
        (value,) = node.src
        if 0 in value.shape:
            return const(node.dtype, node.arg.op.identity(node.dtype))
        outside = iter(position)
        inner: list[UOp] = []
        ranges: list[UOp] = []
        for axis, size in enumerate(value.shape):
            if axis not in node.arg.axes:
                inner.append(next(outside))
            elif size == 1:
                inner.append(ZERO)
            else:
                ranges.append(new_range(size, self.reduce_ranges, RangeKind.REDUCE, Owner.REDUCE))
                self.reduce_ranges += 1
                inner.append(ranges[-1])
        result = yield Request(value, tuple(inner), self._relevant(gate, position), (*self._hoisted(request), *ranges))
        if not ranges:
            return of_one(node, result)
        same = [r for r in ranges if r not in self.ranges_of(result)]
        if same and has_repeated(node):
            return repeated(node, result, [r for r in ranges if r not in same], prod_of(tuple(r.size for r in same)))
        return result.reduce(node.arg.op, ranges=tuple(ranges))

    def _relevant(self, gate: UOp | None, position: Position) -> UOp | None:
        """The conditions that say something about the position: those that share ranges with it, directly or not.

        The padding of one axis must not make a reduction over another depend on it, and be computed for each of its
        elements.
        """
        if gate is None:
            return None
        ranges: set[UOp] = set()
        for i in position:
            ranges |= self.ranges_of(i)
        waiting, found = joined(gate, ops.AND), []
        while True:
            near = [part for part in waiting if not self.ranges_of(part) or not ranges.isdisjoint(self.ranges_of(part))]
            if not near:
                break
            waiting = [part for part in waiting if part not in near]
            found += near
            for part in near:
                ranges |= self.ranges_of(part)
        result: UOp | None = None
        for part in found:
            result = part if result is None else result & part
        return result

    def _scan(self, request: Request) -> Step:
        node, position = request.node, request.position
        result = yield Request(node.src[0], position, request.gate, request.loops)
        axis = node.arg.axis
        along = position[axis]
        if node.arg.reverse:
            along = simplify(as_index(node.shape[axis]) - 1 - along)
        if node.shape[axis] == 1:
            return of_one(node, result)
        if along.op is not ops.RANGE:
            raise InternalError(f"schedule: a scan of {node.shape} is asked for at {along}, not along its axis {axis}")
        return result.scan(node.arg.op, range=along)

    def _sort(self, request: Request) -> Step:
        node, position, axis = request.node, request.position, request.node.arg.axis
        if node.src[0].shape[axis] == 1:
            return (yield Request(node.src[1], position, request.gate, request.loops))
        for source in node.src:
            self._note(source, of_sorted(source, self.stored))
        along = new_range(node.src[0].shape[axis], self.reduce_ranges, RangeKind.REDUCE, Owner.REDUCE)
        self.reduce_ranges += 1
        inside = (*position[:axis], along, *position[axis + 1 :])
        parts: list[UOp] = []
        for source in node.src:
            parts.append((yield Request(source, inside, request.gate, (*request.loops, along))))
        return make(ops.SORT, (*parts, along, position[axis]), replace(node.arg, axis=None))

    def _gather(self, request: Request) -> Step:
        node, position, gate, loops = request.node, request.position, request.gate, request.loops
        value, *indices = node.src
        own_gate = indices.pop() if node.arg else None
        picked = len(node.shape) - (len(value.shape) - len(indices))
        places: list[UOp] = []
        for index in indices:
            place = yield Request(index, position[:picked] if index.shape else (), gate, loops)
            places.append(place.cast(dtypes.weakint))
        both = gate
        if own_gate is not None:
            allowed = yield Request(own_gate, position[:picked] if own_gate.shape else (), gate, loops)
            both = allowed if gate is None else allowed & gate
        result = yield Request(value, (*places, *position[picked:]), both, loops)
        if own_gate is None:
            return result
        return allowed.where(result, zero_of(node))

    def _stack(self, request: Request) -> Step:
        first, *rest = request.position
        parts: list[UOp] = []
        for i, s in enumerate(request.node.src):
            chosen = first.eq(i)
            gate = chosen if request.gate is None else chosen & request.gate
            parts.append((yield Request(s, tuple(rest), gate, request.loops)))
        result = parts[-1]
        for i in reversed(range(len(parts) - 1)):
            result = first.eq(i).where(parts[i], result)
        return result

    def _after(self, request: Request) -> Step:
        """The old element, or the new one of the last store that has one for this position."""
        position, gate, loops = request.position, request.gate, request.loops
        old, *stores = request.node.src
        result = yield Request(old, position, gate, loops)
        for store in stores:
            target, value, *gates = store.src
            place, inside = _place_in_view(target, position)
            both = _and(gate, inside)
            for allowed in gates:
                condition = yield Request(allowed, place if allowed.shape else (), both, loops)
                inside = _and(condition, inside)
            new = yield Request(value, place if value.shape else (), _and(gate, inside), loops)
            if store.arg.combine is not None:
                new = make(store.arg.combine, (_bits(result, target.dtype), new))
            new = _bits(new, old.dtype)
            result = new if inside is None else inside.where(new, result)
        return result


_STEPS: dict[Op, Callable[[Lowering, Request], Step]] = {
    **dict.fromkeys(ops.MOVEMENT, Lowering._move),
    ops.REDUCE: Lowering._reduce,
    ops.SCAN: Lowering._scan,
    ops.SORT: Lowering._sort,
    ops.INDEX: Lowering._gather,
    ops.STACK: Lowering._stack,
    ops.AFTER: Lowering._after,
}


def _place_in_view(target: UOp, position: Position) -> tuple[Position, UOp | None]:
    """Where a view of a memory has the element at this position of the memory, and whether it has it."""
    views = [target]
    while views[-1].src and views[-1].op is not ops.PARAM:
        views.append(views[-1].src[0])
    inside: UOp | None = None
    for view in reversed(views):
        if view.op in ops.MOVEMENT:
            position, valid = view_position(view, position)
            inside = _and(inside, valid)
    return position, inside


def _and(a: UOp | None, b: UOp | None) -> UOp | None:
    if a is None or b is None:
        return a if b is None else b
    return a & b


def _bits(value: UOp, dtype: DType) -> UOp:
    return value if value.dtype is dtype else value.bitcast(dtype)


def zero_of(node: UOp) -> UOp:
    """The zero of a node's dtype."""
    return const(node.dtype, False if node.dtype.is_bool else 0)


STORED = FunctionArg("stored")
WRITTEN = FunctionArg("written")


def read_value(node: UOp, position: Position, gate: UOp | None = None) -> UOp:
    """An element of a stored value, a param or a buffer.

    A stored value is a node of the tensor graph. Here it stands for its memory, as a FUNCTION, which nothing enters.
    """
    memory = node if node.op in (ops.PARAM, ops.BUFFER) else make(ops.FUNCTION, (node,), STORED)
    return memory.index(*position, gate=gate) if node.shape else memory


def reads_of(value: UOp) -> list[UOp]:
    """The memory that a kernel reads: stored nodes, params and buffers."""
    found: list[UOp] = []
    for node in value.topological():
        if node.op in (ops.PARAM, ops.BUFFER):
            found.append(node)
        elif node.op is ops.FUNCTION and node.arg == STORED:
            found += node.src
    return found


def has_repeated(node: UOp) -> bool:
    """Whether a reduction of one value many times is known: a product, or the value itself."""
    is_exact = node.dtype.itemsize >= 4 or not node.dtype.is_float
    known = all(isinstance(size, int) for size in node.src[0].shape)
    return known and is_exact and node.arg.op in (ops.ADD, ops.MAX, ops.MIN, ops.AND, ops.OR)


def repeated(node: UOp, value: UOp, ranges: list[UOp], count: int) -> UOp:
    """The reduction of a value over ranges, of which each element is there `count` times: the sum is a product, which
    is rounded once."""
    result = value.reduce(node.arg.op, ranges=tuple(ranges)) if ranges else of_one(node, value)
    if node.arg.op is not ops.ADD:
        return result
    times = count if node.dtype.is_float else count % (1 << node.dtype.bitsize)
    if not node.dtype.is_float and times > node.dtype.max:
        times -= 1 << node.dtype.bitsize
    return result * const(node.dtype, times)


def of_one(node: UOp, value: UOp) -> UOp:
    """The reduction or scan of one element: the op on its identity and the element, which mostly is the element.

    Not for a sum of floats, where 0.0 + -0.0 is 0.0.
    """
    op, dtype = node.arg.op, node.dtype
    if not dtype.is_float or op is not ops.ADD:
        return value
    return make(ops.ADD, (const(dtype, 0.0), value))
