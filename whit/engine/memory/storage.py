"""Where a node meets its memory: BUFFER nodes and the buffers behind them, and what was computed already.

    b = new_buffer(dtypes.float32, (2, 3), "CPU")      # a BUFFER node with memory
    storage(b)                                         # its Buffer
    remember(x + y, b); computed(x + y) is b           # later graphs that contain x + y read b instead

Both tables hold their keys weakly: memory is freed when the last graph that refers to its BUFFER goes, and what is
remembered of an expression goes with the expression.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from whit.dtype import DType, dtypes
from whit.engine.devices.device import Device, canonicalize
from whit.engine.devices.disk import allocate
from whit.engine.memory.holders import ComputedHolder, add, clock, computing, forget
from whit.engine.memory.node_table import NodeTable
from whit.engine.memory.placeholder import escaped, is_placeholder
from whit.errors import DTypeError, InternalError
from whit.ir import ops
from whit.ir.op import Shape, spell_shape
from whit.ir.uop import UOp, fresh_buffer
from whit.recording import hooks
from whit.runtime.buffer import Buffer, has_memory, is_on_host
from whit.simplify.bounds import bounds
from whit.simplify.fold import fold

_buffers: NodeTable[Buffer] = NodeTable()
_computed: NodeTable[UOp] = NodeTable()

# Asked for every node of every graph, so without a call in between.
computed_entries = _computed._entries


def computed(node: UOp) -> UOp | None:
    """The BUFFER that holds the value of an expression, if it was realised."""
    return _computed.get(node)


def remember(node: UOp, buffer: UOp) -> None:
    """The value of this expression is in this BUFFER."""
    if node is not buffer:
        _computed[node] = buffer
        add(ComputedHolder(node, forget))


def nbytes_of(dtype: DType, shape: Shape) -> int:
    """The room for an array; a symbolic size counts with its largest value."""
    if not dtype.itemsize:
        raise DTypeError(f"buffer: {dtype.name} has no size in memory", fix="Cast to a dtype that can be stored.")
    return int(prod([size if isinstance(size, int) else _largest(size) for size in shape])) * dtype.itemsize


def _largest(size: UOp) -> int:
    found = bounds(size)
    if found is None:
        raise InternalError(f"buffer: the size {size.expression()} has no upper bound", size.short())
    return max(found[1], 0)


def is_known(shape: Shape) -> bool:
    """Whether a shape depends on no variables."""
    return set(map(type, shape)) <= {int}


def attach(buffer: Buffer, dtype: DType, shape: Shape) -> UOp:
    """A BUFFER node for existing memory."""
    return attach_known(buffer, dtype, shape) if is_known(shape) else _attached(buffer, dtype, shape, UOp.buffer)


def attach_known(buffer: Buffer, dtype: DType, shape: Shape) -> UOp:
    """The same of a shape that depends on no variables."""
    return _attached(buffer, dtype, shape, fresh_buffer)


def _attached(buffer: Buffer, dtype: DType, shape: Shape, make_node: Callable[..., UOp]) -> UOp:
    node = make_node(next(clock), dtype, shape, buffer.device)
    _buffers[node] = buffer
    if (recorder := hooks.recorder) is not None:
        recorder.typed(buffer, dtype, shape)
    return node


def new_buffer(dtype: DType, shape: Shape, device: str) -> UOp:
    """A BUFFER node with new memory; its content is arbitrary."""
    return attach(allocate(device, nbytes_of(dtype, shape)), dtype, shape)


def found_storage(node: UOp) -> Buffer | None:
    """The memory of a BUFFER node, if it has some."""
    return _buffers.get(node)


def is_in_memory(node: UOp) -> bool:
    """Whether a BUFFER node has memory that Python can read."""
    found = _buffers.get(node)
    return found is not None and is_on_host(found.device)


def storage(node: UOp) -> Buffer:
    """The memory of a BUFFER node."""
    found = _buffers.get(node)
    if found is None:
        if is_placeholder(node):
            raise escaped(node)
        raise InternalError(
            f"storage: {node.short()} has no memory",
            "It was never allocated, or its content was replaced by an assignment.",
            "Realise the tensor first; a graph from another process has no data here.",
        )
    return found


def taking_over(node: UOp, top: UOp, content: UOp) -> list[tuple[Any, ...]]:
    """The calls, of C, after a memory has been written over: the BUFFER with the old content has none any more, and the
    value of `top` is in `content`."""
    return [_buffers.dropping(node), *remembering(top, content)]


def remembering(node: UOp, buffer: UOp) -> list[tuple[Any, ...]]:
    """The calls, of C, of `remember`; none for what has no device, whose value may be wanted elsewhere next time."""
    if node is buffer or node.device is None:
        return []
    return [_computed.setting(node, buffer), *computing(node)]


def forgetting(node: UOp) -> tuple[Any, ...]:
    """The call, of C, that forgets the value of an expression: should somebody build it again, it is computed again."""
    return _computed.dropping(node)


def size_value(size: int | UOp, variables: Mapping[str, int] | None = None) -> int:
    """A symbolic size as a number: bound variables have theirs, the others take it from `variables`."""
    if isinstance(size, int):
        return size
    known: dict[UOp, UOp] = {}
    for node in size.topological():
        if node.op is ops.CONST:
            known[node] = node
        elif node.op is ops.BIND:
            known[node] = node.src[1]
        elif node.op is ops.VARIABLE:
            value = (variables or {}).get(node.arg.name)
            known[node] = UOp.const(dtypes.weakint, node.arg.low if value is None else value)
        else:
            known[node] = fold(node.replace(src=tuple(known[s] for s in node.src)))
    return int(known[size].arg)


def concrete_shape(shape: Shape, variables: Mapping[str, int] | None = None) -> tuple[int, ...]:
    """A shape in numbers."""
    return tuple(size_value(size, variables) for size in shape)


# ---- data in and out


def from_bytes(data: Any, dtype: DType, shape: tuple[int, ...], device: str | None = None) -> UOp:
    """A BUFFER with a copy of these bytes, row-major."""
    node = new_buffer(dtype, shape, canonicalize(device))
    buffer = storage(node)
    view = memoryview(data).cast("B")
    if len(view) != buffer.nbytes:
        raise DTypeError(
            f"from_bytes: {len(view)} bytes for {dtype.name}{spell_shape(shape)}, which has {buffer.nbytes}",
            fix="Give exactly one item for each element.",
        )
    if has_memory(buffer.device):
        buffer.fill(view)
    return node


def own_copy(node: UOp) -> UOp:
    """A BUFFER whose memory nobody else can write to: a copy if this one is over memory of others."""
    shared = storage(node)
    if shared.writable:
        return node
    copied = allocate(shared.device, shared.nbytes)
    copied.copy_from(shared)
    if not is_on_host(copied.device) and has_memory(copied.device):
        Device[copied.device].synchronize()  # others may write on streams of their own from now on
    return attach(copied, node.dtype, node.shape)


def to_bytes(node: UOp) -> bytes:
    """The elements of a BUFFER, row-major."""
    return bytes(_memory(node))


def _memory(node: UOp) -> memoryview:
    used = prod(concrete_shape(node.shape)) * node.dtype.itemsize
    return storage(node).memory()[:used]
