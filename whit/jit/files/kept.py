"""Captured programs on disk, so that the next process neither traces nor schedules nor compiles them again.

    key = key_of("onnx", "CPU", text)               # everything that the program follows from
    keep(key, Kept(replay, template), numbers)      # `numbers` of the tensors that it has captured, by id
    find(key, tensor_of, fits)                      # in another process: a Kept, or None

An entry lies among the compiled kernels (`engine.compile.disk_cache`), and has what a file of captured functions has
(`whit.jit.files.jit`) without the tensors: those belong to who captures, and `tensor_of` gives the one of a number. So
weights stay where they are, and an entry is as large as its machine code. The key has whit's own sources, the settings
that change results, and the target; an entry that is damaged, or made for other tensors, is none.

Nothing is kept or found while somebody watches how programs are made: in recordings, profiles and proofs of plans.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from whit.config import CACHE, CHECK_PLAN, DEBUG, TRACK_MATCH_STATS, settings_key
from whit.engine.compile import disk_cache
from whit.engine.compile.compile import code_settings, digest, sources_digest, target_text_of
from whit.engine.compile.schedules import WITH_SCHEDULES
from whit.engine.compile.tune import store
from whit.engine.report import launch_names
from whit.errors import JitError, WhitError
from whit.jit.files.program import Json, JsonReader, JsonWriter
from whit.jit.files.replay import NOT_THERE, replay_from, replay_to
from whit.jit.files.result import Classes, template_from, template_to
from whit.jit.replayer import Replay
from whit.recording import hooks
from whit.records import dataclass

MOST_BYTES: Final = 1 << 25  # of an entry; a program with more is captured anew
NO_ENTRY = (WhitError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
# What a captured program depends on: a change in any of these makes new entries.
SOURCES = (
    *("dtype.py", "target.py", "config.py", "names.py", "containers.py"),
    *("ir", "simplify", "kernel", "transform", "schedule", "codegen", "render", "runtime", "engine"),
    *("tensor", "jit", "nn", "numpy", "onnx"),
)


@dataclass(frozen=True, slots=True)
class Kept:
    """A program, and what its user keeps with it: plain data, or records of the classes that `find` is given."""

    replay: Replay
    template: Any


def is_used() -> bool:
    """Whether programs are kept and found now."""
    is_watched = hooks.recorder is not None or bool(launch_names.watched) or bool(hooks.timers())
    return CACHE == WITH_SCHEDULES and not (is_watched or CHECK_PLAN or TRACK_MATCH_STATS or DEBUG >= 2)


def key_of(device: str, *parts: str) -> str:
    """What a program is kept under. `parts` say what it computes, and of what kinds of tensors."""
    here = (sys.version, repr(settings_key()), repr(code_settings()), str(store.generation()))
    return digest("captured program", sources_digest(SOURCES), target_text_of(device), *here, *parts)


def keep(key: str, kept: Kept, numbers: Mapping[int, int], types: Iterable[type] = ()) -> bool:
    """Keeps a program, if all that it has captured has a number. Whether it could be kept."""
    classes, writer = Classes(types), JsonWriter()
    tensors = _Numbered(writer, classes, numbers)
    try:
        program = replay_to(kept.replay, tensors)
        template = template_to(kept.template, writer, classes)
        header = {"program": program, "template": template, "tensors": tensors.rows, "nodes": writer.nodes()}
    except JitError:
        return False
    name = kept.replay.name
    header |= {"name": "captured program", "title": f"captured program of {name}", "function": name}
    if len(writer.data) > MOST_BYTES:
        return False
    disk_cache.keep(key, header, bytes(writer.data))
    return True


def find(
    key: str, tensor_of: Callable[[int], Any], fits: Callable[[Any], bool], types: Iterable[type] = ()
) -> Kept | None:
    """The program under a key, over the tensors that its numbers stand for here, if its template `fits`."""
    entry = disk_cache.find(key)
    if entry is None:
        return None
    header, data = entry
    try:
        return _read(header, JsonReader(header["nodes"], data), tensor_of, fits, Classes(types))
    except NO_ENTRY:
        return None


def _read(
    header: Json, reader: JsonReader, tensor_of: Callable[[int], Any], fits: Callable[[Any], bool], classes: Classes
) -> Kept | None:
    template = template_from(header["template"], reader, classes)
    if not fits(template):
        return None
    tensors = []
    for number, dtype, shape, device in header["tensors"]:
        tensor = tensor_of(number)
        if [tensor.dtype.name, list(tensor.shape), tensor.device] != [dtype, shape, device]:
            raise ValueError(f"tensor {number} is another one")
        tensors.append(tensor)
    return Kept(replay_from(str(header["function"]), header["program"], reader, tensors, classes), template)


class _Numbered:
    """The tensors of an entry: numbers that their owner knows."""

    def __init__(self, writer: JsonWriter, classes: Classes, numbers: Mapping[int, int]) -> None:
        self.writer = writer
        self.classes = classes
        self.rows: list[list[Any]] = []
        self._numbers = numbers
        self._known: dict[int, int] = {}

    def number(self, tensor: Any, name: str = "tensor") -> int:
        """The place of a tensor in the list; NOT_THERE of None."""
        if tensor is None:
            return NOT_THERE
        if id(tensor) not in self._known:
            number = self._numbers.get(id(tensor))
            if number is None or tensor.grad is not None:
                raise JitError(f"keep: a {name} belongs to nobody", fix="It is captured anew in the next process.")
            self._known[id(tensor)] = len(self.rows)
            self.rows.append([number, tensor.dtype.name, list(tensor.shape), tensor.device])
        return self._known[id(tensor)]

    def add_gradient(self, tensor: Any) -> None:
        """A tensor is asked for its gradient: it has none."""
        self.number(tensor)
