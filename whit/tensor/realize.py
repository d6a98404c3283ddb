"""The one place where tensors meet the engine. It is loaded by the first tensor that has data, not by `import whit`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from whit.dtype import DType
from whit.ir.uop import UOp

if TYPE_CHECKING:
    import numpy.typing as npt

    from whit.engine.repeat import Step

    Array = npt.NDArray[Any]


@functools.cache
def _engine() -> tuple[ModuleType, ModuleType, ModuleType]:
    from whit.engine import realize, storage, values  # lazy: they load the runtime, which `import whit` must not

    return realize, storage, values


def realize(nodes: Sequence[UOp], device: str | None) -> list[UOp]:
    """The BUFFERs that hold the values of nodes; `device` is for those that have none."""
    return _engine()[0].realize(nodes, device)  # type: ignore[no-any-return]


def from_numpy(array: Array, device: str | None) -> UOp:
    """A BUFFER over the memory of an array."""
    return _engine()[2].from_numpy(array, device)  # type: ignore[no-any-return]


def from_bytes(data: bytes | bytearray, dtype: DType, shape: tuple[int, ...], device: str | None) -> UOp:
    """A BUFFER with a copy of bytes."""
    return _engine()[1].from_bytes(data, dtype, shape, device)  # type: ignore[no-any-return]


def new_buffer(dtype: DType, shape: tuple[Any, ...], device: str) -> UOp:
    """A BUFFER with arbitrary content."""
    return _engine()[1].new_buffer(dtype, shape, device)  # type: ignore[no-any-return]


def to_numpy(buffer: UOp) -> Array:
    """The elements of a BUFFER, copied."""
    return _engine()[2].to_numpy(buffer)  # type: ignore[no-any-return]


def to_bytes(buffer: UOp) -> bytes:
    """The elements of a BUFFER, row-major."""
    return _engine()[1].to_bytes(buffer)  # type: ignore[no-any-return]


def to_list(buffer: UOp) -> Any:
    """The elements of a BUFFER as nested lists."""
    return _engine()[2].to_list(buffer)


def item(buffer: UOp) -> Any:
    """The one element of a BUFFER."""
    return _engine()[2].item(buffer)


def repeat(step: Step, state: Sequence[UOp], count: int, device: str) -> list[UOp]:
    """The BUFFERs of a state after so many steps of one graph."""
    from whit.engine.repeat import repeat as run  # lazy, as above

    return run(step, state, count, device)
