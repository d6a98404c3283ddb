"""Captured programs in a file, to be run by another process on the same kind of machine.

    step.save("step.whit")                             # here: what was captured so far
    step = TinyJit.load("step.whit"); step(x)          # there: no tracing, no scheduling, no compiling

A file holds for every capture the signature, the schedules as text, the machine code of their kernels, and which memory
goes where; and the tensors that were captured, each under the way to it (`model.layers[0].weight`), with their
gradients where a program asks for these. Nothing in it is run as Python. A loaded function has tensors of its own:
`tensors`, by those names.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from whit.config import Context, settings
from whit.engine.compile.compile import target_text_of
from whit.engine.compile.disk_cache import pack, unpack
from whit.engine.devices.device import Device
from whit.engine.programs.overlay import current
from whit.errors import DeviceError, FileMissingError, JitError, WhitError
from whit.jit.files.program import Json, JsonReader, JsonWriter
from whit.jit.files.replay import TensorWriter, read_tensors, replay_from, replay_to
from whit.jit.files.result import Classes, spell_key
from whit.jit.replayer import Replay
from whit.jit.signature import MISSED, Arguments, Key
from whit.runtime.buffer import OutOfMemoryError

MAGIC = b"whit captured functions\n"
FORMAT = 5  # what another version of whit writes into a file, or expects of machine code, has another number
MEANT = ("TRAINING", "DEFAULT_FLOAT", "DEFAULT_INT", "WINO")  # what a function depends on; other settings make code


class LoadedJit:
    """A captured function from a file."""

    def __init__(self, name: str, tensors: dict[str, Any]) -> None:
        self.name = name
        self.tensors = tensors  # what was captured, by the way to it: write to them to change them
        self.captured: list[Replay] = []
        self._variants: dict[str, list[Replay]] = {}

    def add(self, key: str, replay: Replay) -> None:
        """One more program, for arguments of this kind."""
        self.captured.append(replay)
        self._variants.setdefault(key, []).append(replay)

    @property
    def kernels(self) -> int:
        """Kernels of the program that was captured last."""
        return self.captured[-1].program.kernels()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the program that was captured with arguments like these."""
        if current() is not None:
            raise JitError(f"{self.name}: a loaded function cannot be part of another capture", fix="Call it outside.")
        arguments = Arguments()
        parts: list[Any] = [arguments.key(value, i) for i, value in enumerate(args)]
        parts += [(name, arguments.key(kwargs[name], name)) for name in sorted(kwargs)]
        key = _spell(self.name, tuple(parts), _settings(), Device.DEFAULT)
        variants = self._variants.get(key, [])
        for replay in reversed(variants):
            result = replay(arguments.tensors, arguments.bindings)
            if result is not MISSED:
                return result
        for replay in variants:
            values = replay.values(arguments.bindings)
            for assumption in replay.program.assumptions:
                if not assumption.holds(values):
                    raise assumption.error(self.name, values)
        if variants:
            raise JitError(
                f"{self.name}: the file has a program for these arguments, but not for what its tensors are now",
                "one of them is a constant or a view, has a gradient, shares its memory or is an argument, where it "
                "was otherwise when the function was captured",
                "Put the tensors back (`.grad = None`, or as they were loaded), or capture it anew.",
            )
        raise JitError(
            f"{self.name}: the file has no program for these arguments",
            "\n".join([f"given were {key}", *[f"captured were {known}" for known in self._variants]]),
            "Call it with the same shapes, dtypes, values and settings, or capture it anew.",
        )


def _settings() -> dict[str, Any]:
    """The settings that change results."""
    return {variable.setting.name: variable.value for variable in settings() if variable.setting.changes_results}


def _spell(name: str, key: Key, chosen: Json, device: str) -> str:
    """What a program is found by."""
    try:
        text = spell_key(key)
    except JitError as error:
        raise JitError(f"{name}: {error.what}", error.details, error.fix) from None
    return f"{text} on {device} with {', '.join(f'{setting}={chosen[setting]!r}' for setting in MEANT)}"


# ---- saving


def save(path: str | os.PathLike[str], name: str, captures: Sequence[tuple[Key, Any, Any]]) -> None:
    """Writes captures: of each the signature, what is replayed, and the `Watch`, which has the ways to tensors."""
    writer = JsonWriter()
    tensors = TensorWriter(writer, Classes())
    programs: list[Json] = []
    keys: dict[str, Key] = {}
    for key, replay, watch in captures:
        *arguments, values, device = key
        chosen = dict(zip(_settings(), values, strict=True))
        text = _spell(name, tuple(arguments), chosen, device)
        if keys.setdefault(text, tuple(arguments)) != tuple(arguments):
            raise JitError(
                f"save: {name} cannot be saved: classes of equal names are in its arguments",
                text,
                "Give one of them another name.",
            )
        if (not watch.holds() and watch.changed() is not None) or not replay.guards.constants_hold():
            continue  # a number, an object or a constant that it was captured with is another one now
        tensors.ways = watch.tensors
        try:
            with Context(**chosen):
                programs.append({"key": text, "settings": chosen, **replay_to(replay, tensors)})
        except JitError as error:
            raise JitError(f"save: {name} cannot be saved: {error.what}", error.details, error.fix) from None
    if not programs:
        raise JitError(
            f"save: no program of {name} fits what the function reads now", fix="Call it once more before you save it."
        )
    header = {
        "format": FORMAT,
        "name": name,
        "targets": {device: target_text_of(device) for device in sorted(_devices(programs))},
        "nodes": writer.nodes(),
        "tensors": tensors.rows,
        "programs": programs,
    }
    _write(Path(path), pack(header, bytes(writer.data), MAGIC))


def _devices(programs: Iterable[Json]) -> set[str]:
    return {part["device"] for program in programs for part in _parts(program["program"])}


def _parts(program: Json) -> list[Json]:
    before = program["before"]
    return [*program["parts"], *(_parts(before) if before is not None else [])]


def _write(path: Path, content: bytes) -> None:
    """All of a file or nothing: whoever reads it meanwhile sees the one before."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content)
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


# ---- loading


def load(path: str | os.PathLike[str], types: Iterable[type] = ()) -> LoadedJit:
    """Reads what `save` has written. `types` are the classes in results that are neither Python's nor whit's."""
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        raise FileMissingError(f"load: there is no file {path}", fix="Save a captured function there first.") from None
    found = unpack(content, MAGIC)
    if found is None:
        raise _damaged(path, "it is something else, cut off, or changed")
    header, data = found
    if header.get("format") != FORMAT:
        raise JitError(
            f"load: {path} was saved by another version of whit",
            f"the file has format {header.get('format')!r:.20}, this version reads {FORMAT}",
            "Capture and save it with this version.",
        )
    classes = Classes(types)
    try:
        _check_targets(path, header["targets"], _devices(header["programs"]))
        reader = JsonReader(header["nodes"], data)
        tensors = read_tensors(header["tensors"], reader, classes)
        loaded = LoadedJit(header["name"], tensors)
        for entry in header["programs"]:
            with Context(**entry["settings"]):
                loaded.add(entry["key"], replay_from(loaded.name, entry, reader, list(tensors.values()), classes))
    except (JitError, DeviceError, OutOfMemoryError):
        raise
    except (
        WhitError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        ArithmeticError,
        RecursionError,
        MemoryError,
    ) as error:
        raise _damaged(path, f"{type(error).__name__}: {error}") from error
    return loaded


def _damaged(path: str | os.PathLike[str], why: str) -> JitError:
    return JitError(f"load: {path} is no file of captured functions, or a damaged one", why, "Save it again.")


def _check_targets(path: str | os.PathLike[str], targets: dict[str, str], devices: set[str]) -> None:
    for device in sorted(devices):
        here = target_text_of(device)
        if targets[device] != here:
            raise JitError(
                f"load: {path} was compiled for another {device} than this one",
                f"the file {targets[device]}\nhere {here}",
                "Capture and save it on a machine of this kind.",
            )
