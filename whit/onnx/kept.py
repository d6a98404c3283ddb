"""Captured parts of a model on disk: the next process that loads the model runs them at once.

    shelf = Shelf(store)
    key = shelf.key(graph.number, signature, "CPU")     # None: nothing is kept now
    shelf.keep(key, stop, program)
    shelf.find(key, "CPU")                              # stop and Program, or None

A program follows from what the model is, that is its file without large data, and from the kinds of values that come
in. Weights are not a part of it: they are named by number, and read from the file when a program is found. Where the
host has read one (a size, a scale), the entry says what it was; for a model with another one it is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from whit.engine.compile.sha256 import sha256
from whit.errors import JitError
from whit.jit.files import kept
from whit.jit.files.result import spell_key
from whit.onnx.capture import Place, Program
from whit.onnx.constants import Constant, Derived
from whit.onnx.graph import Graph
from whit.onnx.tensors import Store
from whit.onnx.weights import all_graphs
from whit.records import dataclass


@dataclass(frozen=True, slots=True)
class HostArray:
    """An array of numbers as plain data."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


TYPES = (Place, HostArray)


class Shelf:
    """The programs of one model, whose `graph` is set when it is built."""

    def __init__(self, store: Store) -> None:
        self.graph: Graph | None = None
        self.has_given = False  # a program that was found, which does not know what nodes it computes
        self._store = store
        self._structure: str | None = None
        self._constants: dict[int, Constant] | None = None

    def key(self, graph: int, signature: Any, device: str) -> str | None:
        """What a part is kept under; None if none is kept now, or the signature cannot be written down."""
        if graph < 0 or not kept.is_used():
            return None
        try:
            text = spell_key(signature)
        except JitError:
            return None
        if self._structure is None:
            self._structure = sha256(self._store.structure()).hex()
        return kept.key_of(device, "onnx", np.__version__, self._structure, str(graph), text)

    def keep(self, key: str, stop: int, program: Program) -> None:
        """Keeps a part up to `stop`, if another process can know what it is made of."""
        constants = self._by_number()
        numbers = {id(tensor): number for number, one in constants.items() for tensor in one.tensors()}
        try:
            template = _to_plain(program.template)
        except TypeError:
            return
        reads = dict(self._store.read_on_host or {})
        if all(reads.values()):
            kept.keep(key, kept.Kept(program.replay, [stop, reads, template]), numbers, TYPES)

    def find(self, key: str, device: str) -> tuple[int, Program] | None:
        """The part that is kept, up to where it goes and its program; None if there is none for these weights."""
        constants = self._by_number()
        found = kept.find(key, lambda number: constants[number].tensor(device), self._fits, TYPES)
        if found is None:
            return None
        self.has_given = True
        stop, _, template = found.template
        return stop, Program(found.replay, _of_plain(template))

    def _fits(self, template: Any) -> bool:
        """Whether the host reads the same."""
        reads: Mapping[int, str] = template[1]
        return all(self._read(number) == value for number, value in reads.items())

    def _read(self, number: int) -> str:
        known = self._store.read_on_host
        if known is None:
            return ""
        if number not in known:
            self._by_number()[number].array()
        return known[number]

    def _by_number(self) -> dict[int, Constant]:
        """The constants of all graphs, with those that they are computed from."""
        if self._constants is None:
            self._constants = {}
            found = [one for each in all_graphs(self.graph) for one in each.constants.values()] if self.graph else []
            while found:
                constant = found.pop()
                if constant.number not in self._constants:
                    self._constants[constant.number] = constant
                    found += constant.sources if isinstance(constant, Derived) else ()
        return self._constants


def _to_plain(value: Any) -> Any:
    """A template with arrays as plain data; a TypeError if there is something else in it."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "biufc":
            raise TypeError(f"an array of {value.dtype}")
        return HostArray(value.dtype.str, value.shape, value.tobytes())
    if type(value) in (list, tuple):
        return type(value)(map(_to_plain, value))
    if type(value) is dict:
        return {key: _to_plain(part) for key, part in value.items()}
    if value is None or type(value) in (Place, bool, int, float, str):
        return value
    raise TypeError(f"a {type(value).__name__}")


def _of_plain(value: Any) -> Any:
    """The template that `_to_plain` was given."""
    if type(value) is HostArray:
        return np.frombuffer(value.data, value.dtype).reshape(value.shape)
    if type(value) in (list, tuple):
        return type(value)(map(_of_plain, value))
    if type(value) is dict:
        return {key: _of_plain(part) for key, part in value.items()}
    return value
