"""Tensor and kernel graphs, calls and schedules.

Goes in: a graph, the arrays of its params and buffers, the numbers of its variables. Comes out: the value of the graph
(`evaluate`), or its effects on the arrays (`run`).

Ranges are axes: the value of a node is an array with one leading axis for each range it depends on (`Value`), and a
reduction, scan or stage over ranges works on those axes. No loop is ever run, so no order of loops has to be chosen.

Effects are values too. A STORE is a list of places and what goes there (`_Write`); the content of a buffer after some
effects is its first content with these writes applied, after those that their targets show: what a value was computed
of changes nothing. A plain read of a buffer sees its first content; AFTER sees the content after its effects. `run`
puts the last contents into the arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from whit.dtype import dtypes
from whit.errors import ArgumentError, InternalError, ShapeError
from whit.ir import ops
from whit.ir.args import Memory, RepeatArg
from whit.ir.graph import topological
from whit.ir.interpret.frame import Frame
from whit.ir.interpret.program import run_program
from whit.ir.interpret.ranged import Value, align, at_positions, bind, in_order, move
from whit.ir.interpret.values import (
    Array,
    bitcast,
    cast,
    constant,
    dot,
    elementwise,
    mma,
    numpy_dtype,
    poison,
    reduce,
    running,
    sort_order,
    write,
)
from whit.ir.interpret.views import Views, changed_values, written
from whit.ir.op import Op
from whit.ir.uop import UOp


def evaluate(node: UOp, inputs: Mapping[UOp, Any] | None = None) -> Any:
    """The value of a node: an array, or for a GROUP a tuple of them.

    `inputs` has an array for each PARAM and BUFFER, a number for each VARIABLE. If the node depends on ranges that
    nothing binds, they are the first axes, in the order of their ids.
    """
    result = _Evaluation(Frame(inputs or {})).compute(node)
    if result is None:
        raise ArgumentError(f"evaluate: {node.short()} is an effect", fix="Use run for effects.")
    return _arrays(result)


def run(node: UOp, inputs: Mapping[UOp, Any] | None = None) -> dict[UOp, Array]:
    """Executes the effects of a node, a schedule or a program; the arrays in `inputs` are written in place.

    Returns every array that the graph can write. Buffers that it writes need not be given: they start as poison.
    """
    frame = Frame(inputs or {})
    _execute(node, frame)
    return frame.commit()


def _arrays(result: Any) -> Any:
    if isinstance(result, tuple):
        return tuple(_arrays(member) for member in result)
    return None if result is None else np.array(result.array)


# ---- schedules and calls in place


def _is_schedule(linear: UOp) -> bool:
    """Whether a LINEAR lists calls rather than instructions; a store of instructions has a position."""
    calls = (ops.CALL, ops.LINEAR, ops.GROUP, ops.COPY)
    return all(item.op in calls or (item.op is ops.STORE and len(item.src) == 2) for item in linear.src)


def _execute(node: UOp, frame: Frame) -> None:
    """Effects on the frame's memory, in place. Depth of recursion: calls inside calls."""
    if node.op is ops.LINEAR and not _is_schedule(node):
        for base in written(node):
            if base.op is ops.BUFFER and base.arg.memory is Memory.GLOBAL:
                frame.allocate(base, [_size(size, frame) for size in base.shape])
        run_program(node, frame.leaf)
    elif node.op is ops.LINEAR:
        for item in node.src:
            _execute(item, frame)
    elif node.op is ops.CALL:
        _call_in_place(node, frame)
    elif node.op is ops.REPEAT:
        _repeat_in_place(node, frame)
    else:
        evaluation = _Evaluation(frame)
        evaluation.compute(node)
        for base, content in evaluation.contents(node).items():
            frame.leaf(base)[...] = content


def _size(size: int | UOp, frame: Frame) -> int:
    return size if isinstance(size, int) else int(_Evaluation(frame).compute(size).array)


def _call_in_place(node: UOp, frame: Frame) -> None:
    """A call in a schedule: what its function stores lands in the memory of the arguments, at once."""
    function, *arguments = node.src
    (body,) = function.src
    slots = {target.arg.slot for target in written(body) if target.op is ops.PARAM}
    given: list[Value] = []
    copies = []
    for slot, argument in enumerate(arguments):
        base = Views(argument.topological()).base.get(argument)
        if base is None and slot in slots:
            raise InternalError(
                f"call: {function.arg.name} writes its argument {slot}, which is no memory", node.short()
            )
        if base is not None and slot in slots:
            frame.allocate(base, [_size(size, frame) for size in base.shape])
        evaluation = _Evaluation(frame)
        value = evaluation.compute(argument)
        if evaluation.writes:
            raise InternalError(
                f"call: argument {slot} of {function.arg.name} depends on effects, which would happen once more",
                node.short(),
                "In a schedule the list is the order: give the buffer itself, without AFTER.",
            )
        if base is not None and slot in slots and not _is_part_of(value.array, frame.leaf(base)):
            value = Value(np.array(value.array, order="C"))
            copies.append((base, evaluation.places(argument).array, value.array))
        given.append(value)
    _execute(body, _inner_frame(node, given, frame))
    for base, places, array in copies:
        write(frame.leaf(base).reshape(-1), places, array, base.dtype, None)


def _repeat_in_place(node: UOp, frame: Frame) -> None:
    """Schedules again and again; the memory of their params is a part of that of the operands."""
    arg = node.arg
    schedules = [source for source in node.src if source.op is ops.FUNCTION]
    operands = [frame.leaf(source) for source in node.src if source.op is ops.PARAM]
    if arg.kind == "cond":
        _step(schedules[0 if operands[arg.decides] else 1], node, operands, 0, 1, frame)
    elif arg.kind == "while":
        count = 0
        body, test = schedules
        _step(test, node, operands, count, -1, frame)
        while operands[arg.decides]:
            _step(body, node, operands, count, -1, frame)
            count += 1
            _step(test, node, operands, count, -1, frame)
        _finish(node, operands, count, -1)
    else:
        length = _size(node.src[-1], frame) if arg.length is None else arg.length
        for step in range(length):
            _step(schedules[0], node, operands, step, length, frame)
        _finish(node, operands, length, length)


def _step(function: UOp, node: UOp, operands: list[Array], step: int, length: int, frame: Frame) -> None:
    """One run of a schedule."""
    (linear,) = function.src
    inner = Frame({}, frame)
    for call in linear.src:
        for param in topological(call.src):
            if param.op is ops.PARAM:
                inner.memory[param] = _moved(node.arg, param.arg.slot, operands, step, length)
            elif param.op is ops.BUFFER:  # of a step alone, whatever it is called
                inner.memory[param] = poison(param.dtype, tuple([_size(size, frame) for size in param.shape]))
    _execute(linear, inner)


def _moved(arg: RepeatArg, slot: int, operands: list[Array], step: int, length: int) -> Array:
    """The memory of a param in a step."""
    move = arg.moves[slot]
    if step == 0 and move.first >= 0:
        return operands[move.first]
    found: Array = operands[move.odd if (length - 1 - step) % 2 else move.even]
    if not move.is_part:
        return found
    place = length - 1 - step if arg.is_reversed else step
    if move.is_before:
        place += 1 if arg.is_reversed else -1
    part: Array = found[place, ...]
    return part


def _finish(node: UOp, operands: list[Array], step: int, length: int) -> None:
    for target, slot in enumerate(node.arg.finals):
        operands[target][...] = _moved(node.arg, slot, operands, step, length)


def _is_part_of(array: Array, memory: Array) -> bool:
    """Whether a contiguous array lies inside that memory, so that a write to one is a write to the other."""
    return bool(array.flags.c_contiguous and (array.size == 0 or np.shares_memory(array, memory)))


def _inner_frame(node: UOp, given: list[Value], frame: Frame) -> Frame:
    """The frame in which a function's body runs: its params are the arguments, its variables the bound ones too."""
    function, *arguments = node.src
    if any(value.ranges for value in given):
        raise InternalError("call: an argument depends on a range", node.short())
    inner = Frame({}, frame)
    for argument, value in zip(arguments, given, strict=True):
        if argument.op is ops.BIND:
            inner.given[argument.src[0]] = value.array
    for inside in topological((function.src[0],)):
        if inside.op is ops.PARAM:
            inner.memory[inside] = np.asarray(given[inside.arg.slot].array, order="C")
    return inner


# ---- graphs


@dataclass(frozen=True, slots=True)
class _Write:
    """One effect: values go to flat places of a buffer; negative places are nowhere."""

    base: UOp
    places: Array
    values: Array
    combine: Op | None

    def applied_to(self, content: Array) -> Array:
        """The content of the buffer afterwards."""
        result = np.array(content, order="C")
        write(result.reshape(-1), self.places, self.values, self.base.dtype, self.combine)
        return result


class _Evaluation:
    """The values of the nodes of one graph, each computed once, sources first."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.values: dict[UOp, Any] = {}  # Value; tuple for a GROUP; None for an effect
        self.writes: list[_Write] = []
        self.happened: dict[UOp, int] = {}  # node -> the writes it depends on: bit i is writes[i]; absent: none
        self.shown: dict[UOp, int] = {}  # node -> those that its memory shows: not what its value was computed of
        self.writes_to: dict[UOp, int] = {}  # buffer -> the writes to it, as such bits
        self.content_cache: dict[tuple[UOp, int], Array] = {}
        self.views = Views()

    def compute(self, root: UOp) -> Any:
        """The value of the root."""
        order = topological((root,))
        if any(node.op is ops.STORE or node.op is ops.CALL for node in order):
            self._allocate_outputs(root)
            self.views.values.update(changed_values(order))
        skipped = _bound_variables(order)
        for node in order:
            if node in skipped:
                continue
            self.views.add(node)
            happened = shown = 0
            for source in node.src:
                happened |= self.happened.get(source, 0)
                shown |= self.shown.get(source, 0)
            if happened:
                self.happened[node] = happened
                self.shown[node] = shown if node.op is not ops.STORE else self.shown.get(node.src[0], 0)
            self.values[node] = self._value(node)
        return self.values[root]

    def _allocate_outputs(self, root: UOp) -> None:
        for base in written(root):
            if base.op is ops.BUFFER and not self.frame.has(base):
                self.frame.allocate(base, [_size(size, self.frame) for size in base.shape])

    def _value(self, node: UOp) -> Any:
        op = node.op
        sources: list[Any] = [self.values.get(source) for source in node.src]  # None: an effect, or not evaluated
        if op.elementwise:
            result: Any = self._elementwise(node, sources)
        elif op in ops.MOVEMENT:
            result = move(node, sources[0], sources[1:])
        elif op in _MEANINGS:
            result = _MEANINGS[op](self, node, sources)
        else:
            raise InternalError(f"interpret: {op.name} has no meaning in a graph", node.short())
        if isinstance(result, Value):
            _check_shape(node, result)
        return result

    def _elementwise(self, node: UOp, sources: list[Value]) -> Value:
        ranges, arrays = align(sources)
        return Value(elementwise(node.op, node.dtype, arrays, [source.dtype for source in node.src]), ranges)

    # ---- leaves

    def const(self, node: UOp, sources: list[Any]) -> Value:
        return Value(constant(node.dtype, node.arg))

    def bound(self, node: UOp, sources: list[Any]) -> Value:
        return Value(constant(dtypes.weakint, node.src[1].arg))

    def range(self, node: UOp, sources: list[Any]) -> Value:
        (size,) = sources
        if size.ranges:
            raise InternalError(
                "range: its size depends on another range, which only a linear program can do", node.short()
            )
        return Value(np.arange(int(size.array)).astype(object), (node,))

    def arange(self, node: UOp, sources: list[Any]) -> Value:
        size = int(sources[0].array) if sources else node.arg.size
        return Value(cast(node.dtype, dtypes.weakint, np.arange(size).astype(object)))

    def leaf(self, node: UOp, sources: list[Any]) -> Value:
        return Value(self.frame.leaf(node))

    # ---- values of other kinds

    def first(self, node: UOp, sources: list[Any]) -> Any:
        return sources[0]

    def cast(self, node: UOp, sources: list[Any]) -> Value:
        (x,) = sources
        return Value(cast(node.dtype, node.src[0].dtype, x.array), x.ranges)

    def bitcast(self, node: UOp, sources: list[Any]) -> Value:
        (x,) = sources
        return Value(bitcast(node.dtype, node.src[0].dtype, x.array), x.ranges)

    def each(self, node: UOp, sources: list[Any]) -> Value:
        (x,) = sources
        return Value(np.ones(x.array.shape, bool), x.ranges)

    def reduce(self, node: UOp, sources: list[Any]) -> Value:
        x, *ranges = sources
        kept, array = bind(x, ranges)
        if not ranges:
            axes = tuple(len(kept) + axis for axis in node.arg.axes)
            array = np.moveaxis(array, axes, range(-len(axes), 0))
        bound = len(ranges) or len(node.arg.axes)
        flat = array.reshape((*array.shape[: array.ndim - bound], int(np.prod(array.shape[array.ndim - bound :]))))
        return Value(reduce(node.arg.op, node.dtype, flat), kept)

    def scan(self, node: UOp, sources: list[Any]) -> Value:
        x, *ranges = sources
        arg = node.arg
        if ranges:
            kept, array = bind(x, ranges)
            (each,) = ranges
            unordered = running(arg.op, node.dtype, array, arg.reverse, arg.exclusive)
            return in_order(Value(np.moveaxis(unordered, -1, 0), each.ranges + kept))
        axis = len(x.ranges) + arg.axis
        result = running(arg.op, node.dtype, np.moveaxis(x.array, axis, -1), arg.reverse, arg.exclusive)
        return Value(np.moveaxis(result, -1, axis), x.ranges)

    def sort(self, node: UOp, sources: list[Any]) -> Value:
        key, value, *rest = sources
        arg = node.arg
        ranges, both = align([key, value], rest[0].ranges if rest else ())
        axis = ranges.index(rest[0].ranges[0]) if rest else len(ranges) + arg.axis
        sizes = list(np.broadcast_shapes(both[0].shape, both[1].shape))
        if rest:
            sizes[axis] = len(rest[0].array)
        keys, values = (np.moveaxis(np.broadcast_to(array, sizes), axis, -1) for array in both)
        order = sort_order(keys, arg.descending, arg.piece)
        found = np.take_along_axis(values, order, -1)[..., : arg.count]
        if not rest:
            return Value(np.moveaxis(found, -1, axis), ranges)
        kept = Value(found, tuple(r for r in ranges if r is not rest[0].ranges[0]))
        return at_positions(node, kept, rest[1:2], None)

    def stage(self, node: UOp, sources: list[Any]) -> Value:
        x, *ranges = sources
        kept, array = bind(x, ranges)
        count = len(ranges)
        return Value(np.moveaxis(array, range(-count, 0), range(len(kept), len(kept) + count)), kept)

    def index(self, node: UOp, sources: list[Any]) -> Value:
        x, *positions = sources
        gate = positions.pop() if node.arg else None
        return at_positions(node, x, positions, gate)

    def stack(self, node: UOp, sources: list[Any]) -> Value:
        ranges, arrays = align(sources)
        return Value(np.stack(np.broadcast_arrays(*arrays), axis=len(ranges)), ranges)

    def shuffle(self, node: UOp, sources: list[Any]) -> Value:
        ranges, arrays = align(sources)
        return Value(np.concatenate(np.broadcast_arrays(*arrays), axis=-1)[..., list(node.arg)], ranges)

    def mma(self, node: UOp, sources: list[Any]) -> Value:
        ranges, arrays = align(sources)
        return Value(mma(node.dtype, node.src[0].dtype, *arrays), ranges)

    def dot(self, node: UOp, sources: list[Any]) -> Value:
        ranges, arrays = align(sources)
        return Value(dot(node.arg, *arrays), ranges)

    def group(self, node: UOp, sources: list[Any]) -> tuple[Any, ...]:
        return tuple(sources)

    def item(self, node: UOp, sources: list[Any]) -> Any:
        return sources[0][node.arg]

    def nothing(self, node: UOp, sources: list[Any]) -> None:
        return None

    # ---- effects

    def contents(self, node: UOp) -> dict[UOp, Array]:
        """The last content of every buffer that is written on the way to this node."""
        happened = self.happened.get(node, 0)
        return {base: self._content(base, happened) for base in self.writes_to if base not in self.views.values}

    def _content(self, base: UOp, happened: int) -> Array:
        """The content of a buffer after these writes, in the order in which the graph lists them."""
        happened &= self.writes_to.get(base, 0)
        missing = []
        while happened and (base, happened) not in self.content_cache:
            last = happened.bit_length() - 1
            missing.append(last)
            happened ^= 1 << last
        content = self.content_cache[base, happened] if happened else self._first_content(base)
        for i in reversed(missing):
            happened |= 1 << i
            content = self.content_cache[base, happened] = self.writes[i].applied_to(content)
        return content

    def _first_content(self, base: UOp) -> Array:
        """What is in a buffer before all effects; a value that is changed in parts starts as itself."""
        if base not in self.views.values:
            return self.frame.leaf(base)
        value = self.values[base]
        if value.ranges:
            raise InternalError("store: a value that depends on a range cannot be changed in parts", base.short())
        return np.asarray(value.array)

    def _happens(self, node: UOp, effect: _Write) -> None:
        bit = 1 << len(self.writes)
        self.writes.append(effect)
        self.writes_to[effect.base] = self.writes_to.get(effect.base, 0) | bit
        self.happened[node] = self.happened.get(node, 0) | bit
        self.shown[node] = self.shown.get(node, 0) | bit

    def after(self, node: UOp, sources: list[Any]) -> Any:
        base = self.views.base.get(node)
        if base is None:
            return sources[0]
        return self._view(self.views.chain(node), Value(self._content(base, self.shown.get(node, 0))))

    def _view(self, chain: list[UOp], value: Value) -> Value:
        """Movement, bitcasts and gathers again, on another content of the buffer."""
        for view in chain:
            rest = [self.values[source] for source in view.src[1:]]
            if view.op in ops.MOVEMENT:
                value = move(view, value, rest)
            elif view.op is ops.BITCAST:
                value = Value(bitcast(view.dtype, view.src[0].dtype, value.array), value.ranges)
            elif view.op is ops.INDEX:
                gate = rest.pop() if view.arg else None
                value = at_positions(view, value, rest, gate)
        return value

    def places(self, target: UOp) -> Value:
        """For each element of a view its flat place in the buffer; -1 for padding and where a gate is false."""
        base = self.views.base.get(target)
        if base is None:
            raise InternalError(
                f"store: {target.short()} is no memory", fix="Store into a buffer, a param or a view of one."
            )
        content = self._first_content(base)
        moves = [view for view in self.views.chain(target) if view.op is not ops.BITCAST]
        # Counted from 1, because padding and gates give 0.
        numbers = self._view(moves, Value(np.arange(1, content.size + 1).reshape(content.shape)))
        return Value(numbers.array - 1, numbers.ranges)

    def store(self, node: UOp, sources: list[Any]) -> None:
        target, *_ = node.src
        _, value, *positions = sources
        gate = positions.pop() if node.arg.gated else None
        places = self.places(target)
        if positions:
            places = at_positions(node, places, positions, gate, fill=-1)
        elif gate is not None:
            together, (numbers, wanted) = align([places, gate])
            places = Value(np.where(wanted, numbers, -1), together)
        ranges, (where, what) = align([places, value])
        shape = np.broadcast_shapes(where.shape, what.shape)
        if len(shape) - len(ranges) != places.array.ndim - len(places.ranges):
            raise ShapeError(f"store: a value of shape {what.shape} for places of shape {where.shape}", node.short())
        base = self.views.base[target]
        values = bitcast(base.dtype, target.dtype, np.broadcast_to(what, shape))
        self._happens(node, _Write(base, np.broadcast_to(where, shape), values, node.arg.combine))

    def call(self, node: UOp, sources: list[Any]) -> Any:
        _, *given = sources
        function, *arguments = node.src
        (body,) = function.src
        inner = _inner_frame(node, [Value(np.array(value.array), value.ranges) for value in given], self.frame)
        result = None
        if body.op is ops.LINEAR:
            _execute(body, inner)
            contents = {base: inner.leaf(base) for base in written(body)}
        else:
            evaluation = _Evaluation(inner)
            result = evaluation.compute(body)
            contents = evaluation.contents(body)
        for base, content in contents.items():
            target = arguments[base.arg.slot] if base.op is ops.PARAM else base
            self.views.add(target)
            places = self.places(target).array
            self._happens(node, _Write(self.views.base[target], places, content, None))
        return result

    def loop(self, node: UOp, sources: list[Any]) -> tuple[Any, ...]:
        arg = node.arg
        functions = node.src[: arg.functions]
        given = [np.asarray(each.array) for each in sources[arg.functions :]]
        if arg.kind == "cond":
            predicate, *operands = given
            return self._applied(functions[0 if bool(predicate) else 1], operands)
        if arg.kind == "while":
            body, test = functions
            states, constants = given[: arg.carries], given[arg.carries :]
            while bool(self._applied(test, [*states, *constants])[0].array):
                states = [each.array for each in self._applied(body, [*states, *constants])]
            return tuple(map(Value, states))
        length = arg.length if arg.length is not None else int(given.pop())
        split = arg.carries + arg.inputs
        states, inputs, constants = given[: arg.carries], given[arg.carries : split], given[split:]
        rows: list[Any] = [None] * length
        for step in reversed(range(length)) if arg.is_reversed else range(length):
            found = self._applied(functions[0], [*states, *[each[step] for each in inputs], *constants])
            states = [each.array for each in found[: arg.carries]]
            rows[step] = [each.array for each in found[arg.carries :]]
        members = functions[0].src[0].src[arg.carries :]
        outputs = [self._stacked(member, [row[i] for row in rows]) for i, member in enumerate(members)]
        return tuple(map(Value, [*states, *outputs]))

    def _applied(self, function: UOp, given: list[Array]) -> tuple[Any, ...]:
        """The results of a function of several values."""
        (body,) = function.src
        inner = Frame({}, self.frame)
        for node in topological((body,)):
            if node.op is ops.PARAM:
                inner.memory[node] = np.array(given[node.arg.slot], order="C")
        result: tuple[Any, ...] = _Evaluation(inner).compute(body)
        return result

    def _stacked(self, member: UOp, rows: list[Array]) -> Array:
        if rows:
            return np.stack(rows)
        return np.empty((0, *[_size(size, self.frame) for size in member.shape]), numpy_dtype(member.dtype))


_MEANINGS: dict[Op, Callable[[_Evaluation, UOp, list[Any]], Any]] = {
    ops.CONST: _Evaluation.const,
    ops.VARIABLE: _Evaluation.leaf,
    ops.PARAM: _Evaluation.leaf,
    ops.BUFFER: _Evaluation.leaf,
    ops.BIND: _Evaluation.bound,
    ops.RANGE: _Evaluation.range,
    ops.ARANGE: _Evaluation.arange,
    ops.CAST: _Evaluation.cast,
    ops.BITCAST: _Evaluation.bitcast,
    **dict.fromkeys(ops.SAME_VALUE, _Evaluation.first),
    ops.COPY: _Evaluation.first,
    ops.EACH: _Evaluation.each,
    ops.RECOMPUTE: _Evaluation.first,
    ops.REDUCE: _Evaluation.reduce,
    ops.SCAN: _Evaluation.scan,
    ops.SORT: _Evaluation.sort,
    ops.INDEX: _Evaluation.index,
    ops.STAGE: _Evaluation.stage,
    ops.MMA: _Evaluation.mma,
    ops.DOT: _Evaluation.dot,
    ops.STACK: _Evaluation.stack,
    ops.SHUFFLE: _Evaluation.shuffle,
    ops.GROUP: _Evaluation.group,
    ops.BARRIER: _Evaluation.nothing,
    ops.PREFETCH: _Evaluation.nothing,
    ops.LAUNCH: _Evaluation.nothing,
    ops.ITEM: _Evaluation.item,
    ops.STORE: _Evaluation.store,
    ops.AFTER: _Evaluation.after,
    ops.FUNCTION: _Evaluation.nothing,
    ops.CALL: _Evaluation.call,
    ops.LOOP: _Evaluation.loop,
}


def _bound_variables(order: list[UOp]) -> set[UOp]:
    """The variables of a graph that only occur with a value bound to them."""
    bound = {node.src[0] for node in order if node.op is ops.BIND}
    if bound:
        bound.difference_update(source for node in order if node.op is not ops.BIND for source in node.src)
        bound.discard(order[-1])
    return bound


def _check_shape(node: UOp, value: Value) -> None:
    """The interpreter and the shape rules must agree."""
    found = value.array.shape[len(value.ranges) :]
    if len(found) != len(node.shape) or any(
        isinstance(wanted, int) and wanted != size for wanted, size in zip(node.shape, found, strict=True)
    ):
        raise InternalError(f"interpret: a node of shape {node.shape} has a value of shape {found}", node.short())
