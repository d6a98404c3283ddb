"""Linear programs: instructions run strictly in order, on flat memory.

Goes in: a LINEAR of instructions, and the arrays of its params, buffers and variables. What it stores changes those
arrays in place.

    acc = UOp.buffer(0, float32, (1,), memory=Memory.REGISTER)
    LINEAR(acc.store(zero, 0), i := RANGE, x := a.load(i), s := acc.load(0) + x, acc.store(s, 0), i.end(), ...)

RANGE repeats what follows up to its END; IF skips it. An instruction's value is the one from when it last ran. Ranges
run one iteration after another, but for what belongs to their kind: an iteration of CORE or BLOCK has
shared memory of its own; an iteration of those, WARP or THREAD has registers of its own (at first those of its parent);
and threads (WARP, THREAD) take turns at barriers: all reach a BARRIER before any goes on. Memory that was never written
holds poison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from whit.dtype import dtypes
from whit.errors import InternalError
from whit.ir import ops
from whit.ir.args import Memory, RangeKind, place_of
from whit.ir.interpret.values import (
    Array,
    bitcast,
    cast,
    checked,
    constant,
    dot,
    elementwise,
    gather,
    mma,
    numpy_dtype,
    poison,
    reduce,
    write,
)
from whit.ir.uop import UOp

_OWN_SHARED_MEMORY = (RangeKind.CORE, RangeKind.BLOCK)
_THREADS = (RangeKind.WARP, RangeKind.THREAD)
_NOT_LISTED = (ops.CONST, ops.VARIABLE, ops.PARAM, ops.BUFFER)  # may be used without standing in the list

Leaf = Callable[[UOp], Array]  # the array of a PARAM or a global BUFFER, the value of a VARIABLE


@dataclass(slots=True)
class _Block:
    """What a RANGE or an IF governs; the whole program has no opener."""

    opener: UOp | None
    closer: UOp | None = None
    body: list[UOp | _Block] = field(default_factory=list)


@dataclass(slots=True)
class _State:
    """What one thread sees: the values of its instructions, its registers, and the memory it shares."""

    leaf: Leaf
    values: dict[UOp, Any] = field(default_factory=dict)
    registers: dict[UOp, Array] = field(default_factory=dict)
    shared: dict[UOp, Any] = field(default_factory=dict)  # arrays; and by thread, what instructions show to others

    def fork(self, kind: RangeKind) -> _State:
        """A thread that begins here."""
        registers = {buffer: array.copy() for buffer, array in self.registers.items()}
        own = {buffer: array.copy() for buffer, array in self.shared.items()}  # each core does what is outside, too
        return _State(self.leaf, dict(self.values), registers, own if kind in _OWN_SHARED_MEMORY else self.shared)


def run_program(linear: UOp, leaf: Leaf) -> None:
    """Executes a LINEAR of instructions."""
    for _ in _steps(_parse(linear), _State(leaf)):
        pass  # outside of all threads a barrier waits for nobody


def _parse(linear: UOp) -> _Block:
    """The list as nested blocks."""
    open_blocks = [_Block(None)]
    for node in linear.src:
        if node.op is ops.RANGE or node.op is ops.IF:
            open_blocks.append(_Block(node))
        elif node.op is ops.END:
            block = open_blocks.pop()
            if block.opener is not node.src[0] or block.opener is None:
                inner = "nothing" if block.opener is None else block.opener.short()
                raise InternalError(
                    f"linear: {node.src[0].short()} is closed while {inner} is the innermost open block"
                )
            block.closer = node
            open_blocks[-1].body.append(block)
        else:
            open_blocks[-1].body.append(node)
    unclosed = open_blocks[-1].opener
    if unclosed is not None:
        raise InternalError(f"linear: {unclosed.short()} is never closed", fix="Every RANGE and IF needs its END.")
    return open_blocks[0]


def _steps(block: _Block, state: _State) -> Iterator[None]:
    """Runs a block once; pauses at each barrier."""
    for item in block.body:
        if isinstance(item, _Block):
            yield from _enter(item, state)
            assert item.closer is not None, "a block inside of another one was closed"
            state.values[item.closer] = None
        elif item.op is ops.BARRIER:
            state.values[item] = None
            yield
        elif item.op is ops.ACROSS or (item.op is ops.BLOCK_MMA and item.arg.a_in_registers):
            state.shared.setdefault(item, {})[_thread(item, state)] = _shown(item, state)
            yield  # all have shown what they have
            state.values[item] = _execute(item, state)
            yield  # all have seen it
        else:
            state.values[item] = _execute(item, state)


def _enter(block: _Block, state: _State) -> Iterator[None]:
    """Runs a block as often as its opener says."""
    opener = block.opener
    assert opener is not None, "only loops and conditions are entered"
    (source,) = opener.src
    how_often = int(_operand(opener, source, state))
    state.values[opener] = None
    if opener.op is ops.IF:
        if how_often:
            yield from _steps(block, state)
        return
    kind = opener.arg.kind
    if kind in _THREADS:
        yield from _in_lockstep(opener, [_iteration(block, state.fork(kind), i) for i in range(how_often)])
        return
    for i in range(how_often):
        if kind in _OWN_SHARED_MEMORY:
            for _ in _iteration(block, state.fork(kind), i):
                pass  # all its threads have reached the barrier
        else:
            yield from _iteration(block, state, i)


def _iteration(block: _Block, state: _State, i: int) -> Iterator[None]:
    assert block.opener is not None, "only loops are repeated"
    state.values[block.opener] = constant(block.opener.dtype, i)
    return _steps(block, state)


def _in_lockstep(opener: UOp, threads: list[Iterator[None]]) -> Iterator[None]:
    """Runs threads from barrier to barrier, each up to the same one."""
    done = object()
    while threads:
        waiting = [next(thread, done) is not done for thread in threads]
        if not any(waiting):
            return
        if not all(waiting):
            raise InternalError(
                f"barrier: {sum(waiting)} of {len(threads)} threads wait, the others have ended",
                opener.short(),
                "A barrier must be reached by all threads, or by none.",
            )
        yield


def _operand(user: UOp, node: UOp, state: _State) -> Any:
    """The value of a source of an instruction."""
    if node in state.values:
        return state.values[node]
    if node.op is ops.CONST:
        return state.values.setdefault(node, constant(node.dtype, node.arg))
    if node.op in _NOT_LISTED:
        return _memory(node, state)
    raise InternalError(
        f"linear: {user.op.name} uses the value of {node.op.name} before it has run",
        f"the instruction: {user.short()}\nits source: {node.short()}",
        "In a LINEAR every source stands before its users.",
    )


def _memory(node: UOp, state: _State) -> Array:
    """The array behind a buffer; local memory comes into being when it is first used."""
    if node.op is not ops.BUFFER or node.arg.memory is Memory.GLOBAL:
        return state.leaf(node)
    local = state.registers if node.arg.memory is Memory.REGISTER else state.shared
    if node not in local:
        sizes = [size if isinstance(size, int) else int(_operand(node, size, state)) for size in node.shape]
        local[node] = poison(node.dtype, tuple(sizes))
    return local[node]


def _flat_memory(user: UOp, node: UOp, state: _State) -> Array:
    """The memory that a load or store names, as one flat array that shares it."""
    while node.op is ops.AFTER:
        node = node.src[0]
    if node.op is not ops.BUFFER and node.op is not ops.PARAM:
        raise InternalError(f"{user.op.name}: {node.short()} is no memory", user.short())
    return _memory(node, state).reshape(-1)  # a view: all memory is C-contiguous


def _execute(node: UOp, state: _State) -> Any:  # noqa: C901  one line for each instruction
    """The value of one instruction, or None for an effect."""
    if node.op is ops.LOAD:
        return _load(node, state)
    if node.op is ops.STORE:
        return _store(node, state)
    if node.op is ops.BLOCK_MMA:
        return _block_mma(node, state)
    if node.op is ops.BLOCK_STORE:
        return _block_store(node, state)
    if node.op is ops.ACROSS:
        return _across(node, state)
    if node.op in (ops.PREFETCH, ops.LAUNCH):
        return None
    if node.op in _NOT_LISTED:
        return _operand(node, node, state)
    if node.op is ops.AFTER:
        return _operand(node, node.src[0], state)
    sources = [_operand(node, source, state) for source in node.src]
    if node.op is ops.GROUP:
        return None
    if node.op.elementwise:
        return elementwise(node.op, node.dtype, sources, [source.dtype for source in node.src])
    if node.op is ops.CAST:
        return cast(node.dtype, node.src[0].dtype, *sources)
    if node.op is ops.BITCAST:
        return bitcast(node.dtype, node.src[0].dtype, *sources)
    if node.op is ops.STACK:
        return np.stack(sources)
    if node.op is ops.REDUCE and len(node.src) == 1 and node.arg.axes == (0,):
        return reduce(node.arg.op, node.dtype, np.moveaxis(sources[0], 0, -1))
    if node.op is ops.SHUFFLE:
        return np.concatenate(sources)[list(node.arg)]
    if node.op is ops.MMA:
        return mma(node.dtype, node.src[0].dtype, *sources)
    if node.op is ops.DOT:
        return dot(node.arg, *sources)
    if node.op is ops.INDEX:
        x, *positions = sources
        gate = positions.pop() if node.arg else None
        return gather(node, x, positions, gate)
    raise InternalError(f"linear: {node.op.name} is no instruction", node.short())


def _positions(start: Array, lanes: int) -> Array:
    """The flat positions of an access: neighbours from a scalar start, or one for each lane of it."""
    return start if start.ndim or lanes == 0 else start + np.arange(lanes).astype(object)


def _neighbours(start: Array, lanes: int, gate: Array | None, memory: Array) -> Array | None:
    """The part of the memory that an access of neighbours inside of it is about; None of any other."""
    if lanes == 0 or start.ndim or (gate is not None and (gate.ndim or not gate)):
        return None
    first = start.item()
    return memory[first : first + lanes] if 0 <= first <= memory.size - lanes else None


def _load(node: UOp, state: _State) -> Array:
    target, *rest = node.src
    start, *gates = (_operand(node, source, state) for source in rest)
    gate = gates[0] if gates else None
    memory, lanes = _flat_memory(node, target, state), node.arg if node.arg > 1 else 0
    part = _neighbours(start, lanes, gate, memory)
    return gather(node, memory, [_positions(start, lanes)], gate) if part is None else part.copy()  # 28 us -> 3 us


def _store(node: UOp, state: _State) -> None:
    target, *rest = node.src
    value, *positions = (_operand(node, source, state) for source in rest)
    gate = positions.pop() if node.arg.gated else None
    if len(positions) != 1 or value.ndim > 1:
        raise InternalError("store: in a program it needs one flat position and a scalar or vector value", node.short())
    memory, lanes = _flat_memory(node, target, state), value.size if value.ndim else 0
    part = None if node.arg.combine else _neighbours(positions[0], lanes, gate, memory)
    if part is not None:
        part[...] = value
        return
    places = _positions(positions[0], lanes)
    places = checked(node, places, gate, 0, memory.size, otherwise=-1)
    value = value if value.shape == places.shape else np.broadcast_to(value, places.shape)
    write(memory, places, value, target.dtype, node.arg.combine)


def _thread(node: UOp, state: _State) -> int:
    """Which thread runs an instruction that others take part in."""
    return int(_operand(node, node.src[1 if node.op is ops.ACROSS else 3], state))


def _shown(node: UOp, state: _State) -> Array:
    """What a thread has for the others."""
    if node.op is ops.ACROSS:
        return np.array(_operand(node, node.src[0], state))
    return _flat_memory(node, node.src[1], state).copy()


def _across(node: UOp, state: _State) -> Array:
    """Neighbours with each other first, as threads exchange them."""
    first = _thread(node, state) // node.arg.threads * node.arg.threads
    found: list[Array] = [state.shared[node][first + i] for i in range(node.arg.threads)]
    if node.arg.op is None:
        mine, before = _thread(node, state) - first, node.arg.before
        taken: Array = found[mine - before if mine >= before else mine]
        return taken
    while len(found) > 1:
        pairs = zip(found[::2], found[1::2], strict=True)
        found = [elementwise(node.arg.op, node.dtype, list(pair), [node.dtype] * 2) for pair in pairs]
    return found[0]


def _block_mma(node: UOp, state: _State) -> None:
    """What one thread has of a tile: sums along the depth in order. Outside of the matrices there are zeros."""
    accumulator, a, b, *rest = node.src
    thread, row, column, a_batch, b_batch = (int(_operand(node, source, state)) for source in rest)
    arg = node.arg
    registers = _flat_memory(node, accumulator, state)
    places = [arg.place(thread, i) for i in range(registers.size)]
    rows = sorted({place[0] for place in places})
    columns = sorted({place[1] for place in places})
    if arg.a_in_registers:
        left = _rows_held(node, rows, state)
    else:
        left = _rows_of(node, a, arg.a, [row + i for i in rows], arg.sizes[0], a_batch, state)
    right = _rows_of(node, b, arg.b, [column + i for i in columns], arg.sizes[1], b_batch, state)
    sums = np.zeros((len(rows), len(columns)), registers.dtype)
    if arg.accumulate:
        for i, (at, column) in enumerate(places):
            sums[rows.index(at), columns.index(column)] = registers[i]
    if arg.atom == "tf32":
        left, right = _rounded(left), _rounded(right)
    source = b.dtype
    if source is dtypes.uint32:  # the bits of float32
        left, right, source = _cut(left), _cut(right), dtypes.float32
    sums = mma(accumulator.dtype, source, left, right.T, sums)
    for i, (at, column) in enumerate(places):
        registers[i] = sums[rows.index(at), columns.index(column)]


def _block_store(node: UOp, state: _State) -> None:
    """What one thread has of a part of a tile."""
    memory, *rest = node.src
    thread, row, column, batch, *values = (_operand(node, source, state) for source in rest)
    arg, count = node.arg, prod(mode.count for mode in node.arg.elements)
    elements = np.concatenate([np.broadcast_to(value, (count // len(values),)) for value in values])
    down, right = np.array([arg.place(int(thread), i) for i in range(count)]).T
    rows, columns = int(row) + down, int(column) + right
    inside = (rows < arg.sizes[0]) & (columns < arg.sizes[1])
    positions = arg.matrix.start + int(batch) * arg.matrix.batch + rows * arg.matrix.row + columns * arg.matrix.depth
    flat = _flat_memory(node, memory, state)
    write(flat, checked(node, positions, inside, 0, flat.size, otherwise=-1), elements, memory.dtype, None)


def _rounded(x: Array) -> Array:
    """float32 with 10 bits of mantissa, ties away from zero."""
    bits = x.view(np.uint32)
    return np.where(np.isfinite(x), ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32), x)


def _cut(x: Array) -> Array:
    """float32 of bits, without what is after 10 bits of mantissa."""
    return (x & np.uint32(0xFFFFE000)).view(np.float32)


def _rows_held(node: UOp, rows: list[int], state: _State) -> Array:
    """Rows of an operand that threads have in registers, rounded to the dtype of the other one."""
    _, a, b, *_ = node.src
    found = np.zeros((len(rows), node.arg.sizes[2]), numpy_dtype(a.dtype))
    for thread, registers in state.shared[node].items():
        (row, column) = place_of(thread, node.arg.threads)
        for i, value in enumerate(registers):
            down, right = place_of(i, node.arg.a_in_registers)
            if row + down in rows:
                found[rows.index(row + down), column + right] = value
    return cast(b.dtype, a.dtype, found)


def _places_in_windows(matrix: Any, row: Array, depth: Array, batch: int) -> tuple[Array, Array]:
    """The positions of elements of windows, and which are inside of the image."""
    window, tap = (row, depth // matrix.channels) if matrix.is_depth_major else (depth, row // matrix.channels)
    positions = matrix.start + (depth if matrix.is_depth_major else row) % matrix.channels
    inside = np.ones(np.broadcast_shapes(row.shape, depth.shape), bool)
    for number, axis in reversed([*enumerate(matrix.axes)]):
        at = (window % axis.count if number else window + batch) * axis.step
        at = at + tap % axis.taps * axis.gap - axis.before
        positions, inside = positions + at * axis.stride, inside & (at >= 0) & (at < axis.size)
        window, tap = window // axis.count, tap // axis.taps
    return positions, inside


def _rows_of(node: UOp, memory: UOp, matrix: Any, rows: list[int], size: int, batch: int, state: _State) -> Array:
    """Rows of an operand over the whole depth."""
    depth = np.arange(node.arg.sizes[2])
    if matrix.axes:
        positions, inside = _places_in_windows(matrix, np.array(rows)[:, None], depth[None, :], batch)
        inside = inside & (np.array(rows) < size)[:, None]
        return gather(node, _flat_memory(node, memory, state), [positions.astype(object)], inside)
    starts = matrix.start + batch * matrix.batch + np.array(rows)[:, None] * matrix.row
    inside = np.broadcast_to((np.array(rows) < size)[:, None], (len(rows), depth.size))
    positions = (starts + depth * matrix.depth).astype(object)
    if matrix.lines:
        first, itemsize = matrix.start + batch * matrix.batch, memory.dtype.itemsize
        lines = [[first + matrix.swizzled(row, int(k), itemsize) for k in depth] for row in rows]
        positions = np.array(lines, object)
    return gather(node, _flat_memory(node, memory, state), [positions], inside)
