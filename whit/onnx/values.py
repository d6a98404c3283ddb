"""Values between nodes: from the host to a device, also while a function is traced."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from whit.dtype import to_dtype
from whit.engine.programs.overlay import current, is_traced
from whit.onnx.sizes import Sizes
from whit.tensor import Tensor

Result = TypeVar("Result")


def untraced(function: Callable[[], Result]) -> Result:
    """Calls a function that computes values, also while this thread traces another one: then in a thread of its own,
    which sees tensors as everybody does. For what belongs to the model, not to the run: its weights."""
    if not is_traced():
        return function()
    found: list[Result] = []
    problems: list[BaseException] = []
    context = contextvars.copy_context()

    def run() -> None:
        try:
            found.append(context.run(function))
        except BaseException as error:  # raised again where it belongs
            problems.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if problems:
        raise problems[0]
    return found[0]


@contextmanager
def own_arrays() -> Iterator[None]:
    """Arrays that operators make tensors of while a function of the user is traced are the model's, which are the same
    in all runs."""
    trace = current()
    if trace is None or trace.takes_arrays:
        yield
        return
    trace.takes_arrays = True
    try:
        yield
    finally:
        trace.takes_arrays = False


def lifted(value: Any, device: str | None) -> Any:
    """An array of numbers -> a tensor; one element -> a number, which is part of the kernels that read it. The rest
    stays as it is.

    Arrays of others cannot be read while a function is traced, as they may change; what the host has computed does not.
    """
    if isinstance(value, Sizes):
        return value.tensor(device)
    if not isinstance(value, np.ndarray | np.generic) or value.dtype.kind in "OUSc":
        return value
    dtype = to_dtype(value.dtype.name)
    if value.size == 1 and value.dtype.kind in "biuf":
        return Tensor(value.reshape(-1)[0].item(), device=device, dtype=dtype).reshape(value.shape)
    return Tensor(value.tobytes(), device=device, dtype=dtype).reshape(value.shape)
