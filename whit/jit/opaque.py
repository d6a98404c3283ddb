"""Objects whose content Python code cannot reach: what stands for it when a captured function is to be compared.

np.ndarray, array.array, bytearray, torch.Tensor      their bytes
random.Random, np.random.Generator, re.Pattern ...    what `pickle` would write; other objects in there by identity
iterators, files, locks that are held, sockets ...    nothing does: an error when the function is captured
"""

from __future__ import annotations

import functools
import io
import logging
import pickle
import sys
import threading
import types
from typing import Any

from whit.engine.programs.overlay import Wrapper
from whit.tensor.core import Core

MOST_BYTES = 1 << 20  # comparing these takes about 50 us
_HEAP, _IMMUTABLE = 1 << 9, 1 << 8  # flags of classes: made while Python runs; by C code that allows no changes
_LOCKS = (type(threading.Lock()), type(threading.RLock()))
_SCALARS = (int, str, bytes, float)
_BY_IDENTITY = (type, types.FunctionType, types.ModuleType, types.BuiltinFunctionType, types.MethodType, Wrapper)


class OpaqueError(Exception):
    """Nothing stands for the content of an object; says why, and what to do."""


@functools.lru_cache(4096)
def is_python_class(kind: type) -> bool:
    """Whether a class was made by a `class` statement: its instances have attributes, and nothing else of their own."""
    flags = kind.__flags__
    if not flags & _HEAP or flags & _IMMUTABLE:
        return False
    slots = kind.__dict__.get("__slots__", ())
    count = 1 if isinstance(slots, str) else len(slots)
    base = kind.__base__ or object
    rest = kind.__basicsize__ - base.__basicsize__ - 8 * count
    return rest <= 16  # for the dictionary and weak references


@functools.lru_cache(4096)
def native_class(kind: type) -> type:
    """The first base of a class that C code has made."""
    return next(base for base in kind.__mro__ if not is_python_class(base))


def has_no_value(value: Any) -> bool:
    """Whether an object is there for what it does, and not for a value: a lock."""
    return isinstance(value, _LOCKS) or type(value).__name__ in ("SemLock", "PyCapsule")


def decimal_context() -> Any:
    """How numbers of `decimal` are rounded in this thread."""
    context = sys.modules["decimal"].getcontext()
    return context.prec, context.rounding, context.Emin, context.Emax, context.clamp


def snapshot(value: Any) -> Any:
    """What stands for the content of an object."""
    if value is decimal_context:
        return decimal_context()
    if isinstance(value, threading.local):
        return [
            (name, type(part), part if isinstance(part, _SCALARS) else id(part)) for name, part in vars(value).items()
        ]
    if isinstance(value, logging.Logger):
        return value.getEffectiveLevel(), value.disabled
    if hasattr(value, "__next__"):
        raise OpaqueError(
            "a function that is replayed does not see what it gives next",
            "Take the element outside, and pass it as an argument.",
        )
    memory = _memory(value)
    if memory is None:
        return _pickled(value)
    _check_size(memory.nbytes)
    return memory.format, memory.shape, memory.tobytes()


def _memory(value: Any) -> memoryview | None:
    """The bytes of an array; None of what is none."""
    try:
        return _bytes_of(value)
    except Exception:  # classes that look like arrays, and are none
        return None


def _bytes_of(value: Any) -> memoryview | None:
    """The same; raises for what is none."""
    if hasattr(value, "__array__"):
        import numpy as np  # lazy: `import whit` must not load it

        array = np.asarray(value.detach() if hasattr(value, "detach") else value)  # of PyTorch: without its graph
        is_data = not array.dtype.hasobject and array.dtype.kind not in "mMV"
        data: Any = np.ascontiguousarray(array).reshape(array.shape)
        return memoryview(data) if is_data else None
    return memoryview(value)


class _Pickler(pickle.Pickler):
    def persistent_id(self, value: Any) -> Any:
        """Code and tensors count by what they are, not by what is in them: that is compared elsewhere."""
        if isinstance(value, (*_BY_IDENTITY, Core)):
            return id(value)
        return None


def _pickled(value: Any) -> bytes:
    file = io.BytesIO()
    try:
        _Pickler(file, pickle.HIGHEST_PROTOCOL).dump(value)
    except Exception:  # classes say no in many ways
        raise OpaqueError(
            "it cannot be looked into: a function that is replayed would not notice that it has changed",
            "Read from it outside, and pass what was read as an argument.",
        ) from None
    _check_size(file.tell())
    return file.getvalue()


def _check_size(count: int) -> None:
    if count > MOST_BYTES:
        raise OpaqueError(
            f"it has {count} bytes, too many to compare in each call",
            "Make a tensor of it outside, or pass what the function reads as an argument.",
        )
