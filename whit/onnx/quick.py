"""Calls of a model that is one program, with arrays of shapes that were seen: without tensors for the inputs.

    quick = Quick(ports)
    quick.note(program, tensors, values, {})    after a call: its inputs, which are tensors by name
    quick(inputs, {})                   outputs by name; None if the inputs are others, or the program does not fit

The tensors of the first call stay, and are what the program reads: a call copies its arrays into their memory. So what
is left of a call is that copy, memory for the results, and the program.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from whit.engine.memory.storage import found_storage
from whit.jit.signature import MISSED
from whit.onnx import types
from whit.onnx.capture import Place, Program
from whit.onnx.graph import Port
from whit.onnx.tensors import NUMPY
from whit.records import dataclass
from whit.runtime.buffer import is_on_host
from whit.tensor import Tensor

MOST_READY: Final = 32  # kinds of inputs
Key = tuple[tuple[tuple[int, ...], ...], tuple[bytes, ...]]  # shapes of the inputs, and conditions


@dataclass(frozen=True, slots=True)
class Ready:
    """A program, the tensors that it reads with their memory as arrays, and which of its results the outputs are."""

    program: Program
    tensors: tuple[Tensor, ...]
    arrays: tuple[Any, ...]  # of all inputs; None: nobody reads it
    places: tuple[tuple[str, int], ...]


class Quick:
    """The programs of a model by the shapes of its inputs. One call at a time."""

    def __init__(self, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        self._outputs = tuple(port.name for port in outputs)
        self._wanted = [(port.name, _plain_dtype(port)) for port in inputs]
        self._can_be = all(dtype is not None for _, dtype in self._wanted)
        self._ready: OrderedDict[Key, Ready] = OrderedDict()

    def __call__(self, inputs: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any] | None:
        """The outputs; None if this call is another one. `known` are conditions."""
        if not self._ready or len(inputs) != len(self._wanted):
            return None
        given = []
        for name, dtype in self._wanted:
            array = inputs.get(name)
            if type(array) is not np.ndarray or array.dtype != dtype:
                return None
            given.append(array)
        key = (tuple([array.shape for array in given]), _truths(known))
        ready = self._ready.get(key)
        if ready is None:
            return None
        for held, array in zip(ready.arrays, given, strict=True):
            if held is not None:
                held[...] = array
        found = ready.program.replay(ready.tensors, {})
        if found is MISSED:
            del self._ready[key]
            return None
        return {name: found[place] for name, place in ready.places}

    def takes(self, inputs: Mapping[str, Any]) -> bool:
        """Whether calls like this one can be quick."""
        wanted = self._wanted if self._can_be and len(inputs) == len(self._wanted) else ()
        return bool(wanted) and all(type(inputs.get(name)) is np.ndarray for name, _ in wanted)

    def note(
        self, program: Program, arguments: Sequence[Any], values: Mapping[str, Any], known: Mapping[str, Any]
    ) -> None:
        """The next call with inputs like these is quick, if it can be."""
        places = [program.template.get(name) for name in self._outputs]
        tensors = [values[name] for name, _ in self._wanted]
        if not _makes_all(program) or {type(place) for place in places} != {Place}:
            return
        arrays = _memories(tensors, arguments)
        if arrays is None:
            return
        shapes = tuple([tuple(tensor.shape) for tensor in tensors])
        pairs = tuple((name, place.number) for name, place in zip(self._outputs, places, strict=True))
        self._ready[shapes, _truths(known)] = Ready(program, tuple(arguments), arrays, pairs)
        if len(self._ready) > MOST_READY:
            self._ready.popitem(last=False)


def _memories(tensors: Sequence[Any], arguments: Sequence[Any]) -> tuple[Any, ...] | None:
    """The memory of inputs as arrays, None for one that is no argument; None if there is one without, or if there are
    other arguments."""
    read = {id(tensor) for tensor in arguments}
    if not read <= {id(tensor) for tensor in tensors if type(tensor) is Tensor}:
        return None
    found = {id(tensor): _memory_of(tensor) for tensor in tensors if id(tensor) in read}
    if any(array is None for array in found.values()):
        return None
    return tuple([found.get(id(tensor)) for tensor in tensors])


def _truths(known: Mapping[str, Any]) -> tuple[bytes, ...]:
    return tuple([value.tobytes() for value in known.values()]) if known else ()


def _plain_dtype(port: Port) -> Any:
    """The dtype of NumPy that an input has; None of what is no tensor of plain numbers."""
    kind = port.type
    if kind.kind != "tensor" or kind.dtype is None or kind.is_complex or kind.element in types.STANDS_FOR:
        return None
    found = NUMPY.get(kind.element)  # none of ml_dtypes, nor the interpreter's table: they take 15 ms to load
    return None if found is None else np.dtype(found)


def _makes_all(program: Program) -> bool:
    """Whether all results are tensors that each call makes: no argument, no view of one."""
    return not program.replay.shared and program.replay.result.numbers is not None


def _memory_of(tensor: Tensor) -> Any:
    """The memory of a tensor that nobody else has, as an array that can be written; None if it has none."""
    buffer = found_storage(tensor.uop)
    if buffer is None or not buffer.writable or not is_on_host(buffer.device) or tensor._family is not None:
        return None
    return np.frombuffer(buffer.memory(), tensor.dtype.name).reshape(tuple(tensor.shape))
