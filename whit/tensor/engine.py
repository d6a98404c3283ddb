"""The one place where tensors meet the engine. It is loaded by the first tensor that has data, not by `import whit`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from whit.dtype import DType, dtypes
from whit.engine.memory.placeholder import is_placeholder
from whit.engine.programs.overlay import current, forbid
from whit.ir.graph import topological
from whit.ir.ops import BUFFER
from whit.ir.uop import UOp
from whit.tensor.place import user_method
from whit.transform.active import computed, greatest, repeated

if TYPE_CHECKING:
    import numpy.typing as npt

    from whit.engine.realize.repeat import Step

    Array = npt.NDArray[Any]


@functools.cache
def _engine() -> tuple[ModuleType, ModuleType, ModuleType]:
    from whit.engine.memory import storage, values  # lazy: they load the runtime, which `import whit` must not
    from whit.engine.realize import realize  # lazy: they load the runtime, which `import whit` must not

    return realize, storage, values


def realize(nodes: Sequence[UOp], device: str | None) -> list[UOp]:
    """The BUFFERs that hold the values of nodes; `device` is for those that have none."""
    if current() is not None and any(is_placeholder(node) for node in topological(nodes)):
        forbid(user_method())
    return _engine()[0].realize(nodes, device)  # type: ignore[no-any-return]


def is_in_memory(node: UOp) -> bool:
    """Whether a node is a BUFFER whose memory Python can read."""
    return node.op is BUFFER and _engine()[1].is_in_memory(node)


def compute(nodes: Sequence[UOp], device: str) -> list[UOp]:
    """The same while a function runs that is transformed: of one that is mapped, the values of all examples."""
    return computed(nodes, lambda nodes: realize(nodes, device))


def note_realised(node: UOp, buffer: UOp) -> None:
    """A tensor of a node has become one of a BUFFER, which gradients of older graphs must know."""
    _history().note_realised(node, buffer)


def former(node: UOp) -> list[tuple[UOp, bool]]:
    """What a tensor of this node was before it was realised or written to, and whether that is the same value."""
    return list(_history().former(node))


def is_realised(node: UOp) -> bool:
    """Whether a BUFFER was computed: it has no graph, but had one."""
    return bool(_history().is_realised(node))


@functools.cache
def _history() -> ModuleType:
    from whit.engine.memory import history  # lazy: it loads the runtime, which `import whit` must not

    return history


def explain(node: UOp, device: str | None) -> str:
    """What would run to compute a node, and why."""
    from whit.engine.report import explain  # lazy: few programs ask

    return explain.explain(node, device)


def linear_of(nodes: Sequence[UOp], device: str | None) -> UOp:
    """The calls of kernels that `realize` would run for some nodes, in order."""
    from whit.engine.report import explain as report  # lazy: as above

    return report.linear(nodes, device)


def kernels(node: UOp, device: str | None) -> list[Any]:
    """A report about each kernel that would compute a node."""
    from whit.engine.report import explain  # lazy: few programs ask

    return list(explain.kernels(node, device))


def from_numpy(array: Array, device: str | None) -> UOp:
    """A BUFFER over the memory of an array."""
    return _engine()[2].from_numpy(array, device)  # type: ignore[no-any-return]


def from_bytes(data: bytes | bytearray, dtype: DType, shape: tuple[int, ...], device: str | None) -> UOp:
    """A BUFFER with a copy of bytes."""
    return _engine()[1].from_bytes(data, dtype, shape, device)  # type: ignore[no-any-return]


def new_buffer(dtype: DType, shape: tuple[Any, ...], device: str) -> UOp:
    """A BUFFER with arbitrary content."""
    return _engine()[1].new_buffer(dtype, shape, device)  # type: ignore[no-any-return]


def to_numpy(buffer: UOp, copy: bool = True) -> Array:
    """The elements of a BUFFER, copied, or read-only in the memory of the BUFFER."""
    return _engine()[2].to_numpy(buffer, copy=copy)  # type: ignore[no-any-return]


def to_list(buffer: UOp) -> Any:
    """The elements of a BUFFER as nested lists."""
    return _engine()[2].to_list(buffer)


def item(buffer: UOp) -> Any:
    """The one element of a BUFFER."""
    return _engine()[2].item(buffer)


def peek(node: UOp, shown: Sequence[Sequence[int]]) -> Array | None:
    """The elements at these positions of each axis, if they are in memory."""
    from whit.engine.memory.peek import peek as look  # lazy: it loads the runtime and NumPy

    return look(node, shown)


def repeat(step: Step, state: Sequence[UOp], count: int, device: str) -> list[UOp]:
    """The BUFFERs of a state after `count` steps of one graph, or what stands for them, as in `compute`."""
    from whit.engine.realize.repeat import repeat as run  # lazy: as above

    def plain(step: Step, state: Sequence[UOp]) -> list[UOp]:
        is_stored = all(node.op is BUFFER for node in state)
        return run(step, state if is_stored else realize(state, device), count, device)

    return repeated(step, state, plain) if count else list(state)


def greatest_item(node: UOp, device: str) -> float:
    """A number that is computed at once; of a function that is mapped, the greatest of all examples."""
    return greatest(node, lambda node: float(item(realize([node], device)[0])))


# ---- files and memory of others


@functools.cache
def _outside() -> tuple[ModuleType, ModuleType, ModuleType]:
    from whit.engine.devices import (  # lazy: they load the runtime, which `import whit` must not
        disk,
        exchange,
        file_views,
    )

    return disk, exchange, file_views


def file_node(device: str) -> UOp:
    """A BUFFER over all of the file that a device is called after."""
    buffer = _outside()[0].file_buffer(device)
    return _engine()[1].attach(buffer, dtypes.uint8, (buffer.nbytes,))  # type: ignore[no-any-return]


def copy_of_view(node: UOp, device: str) -> UOp:
    """A COPY to another device; of a file, of what it holds before later writes."""
    return _outside()[2].copy_of_view(node, device)  # type: ignore[no-any-return]


def write_view(view: UOp, value: UOp) -> None:
    """Writes a value to where a view of a file shows."""
    _outside()[2].write_view(view, value, _engine()[0].realize_one)


def bitcast_view(view: UOp, dtype: DType) -> UOp | None:
    """The bytes of a view of a file as other elements; None where they do not lie side by side."""
    return _outside()[2].bitcast_view(view, dtype)  # type: ignore[no-any-return]


def from_memory(memory: Any, dtype: DType, shape: tuple[int, ...], device: str | None) -> UOp:
    """A BUFFER over the memory of an object with the buffer protocol."""
    return _outside()[1].from_memory(memory, dtype, shape, device)  # type: ignore[no-any-return]


def from_address(address: int, dtype: DType, shape: tuple[int, ...], device: str | None) -> UOp:
    """A BUFFER over memory at an address."""
    return _outside()[1].from_address(address, dtype, shape, device)  # type: ignore[no-any-return]


def import_dlpack(producer: Any, device: str | None, copy: bool) -> UOp:
    """A BUFFER over the array of another library; or of a copy of it, if others can write to it."""
    return _outside()[1].import_dlpack(producer, device, copy)  # type: ignore[no-any-return]


def own_copy(buffer: UOp) -> UOp:
    """A BUFFER whose memory nobody else can write to: a copy if this one is over memory of others."""
    return _engine()[1].own_copy(buffer)  # type: ignore[no-any-return]


def export_dlpack(buffer: UOp, copy: bool, versioned: bool, stream: int | None) -> Any:
    """A capsule with the elements of a BUFFER, for another library."""
    return _outside()[1].export_buffer(buffer, copy=copy, versioned=versioned, stream=stream)


def shared_memory(buffer: UOp) -> memoryview:
    """The bytes of a BUFFER, not copied."""
    return _outside()[1].shared_memory(buffer)  # type: ignore[no-any-return]


def run_kernel(body: UOp, name: str, nodes: Sequence[UOp], written: Sequence[int], device: str) -> list[UOp]:
    """The BUFFERs of nodes after a kernel that the user wrote."""
    from whit.engine.realize.custom import run_kernel as run  # lazy: as above

    return run(body, name, realize(nodes, device), written, device)
