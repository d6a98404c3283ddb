"""Wrong programs, and what whit says about them: the files of catalogue/, one for each topic.

    x = Tensor.zeros(2, 3)
    x.reshape(4, 2)
    ! ShapeError, RuntimeError
    ! reshape: (2, 3) has 6 elements and (4, 2) has 8
    ! made at program.py:1

An entry is a program whose last line is wrong; then the class that is raised and the one of Python's that a user would
catch; then the first line of the message; then every line of it that names a line of the program. Empty lines separate
entries, the first line of a file is the topic. Messages as a whole are in docs/errors.md, which is made of this.
"""

from __future__ import annotations

import builtins
import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import whit
from whit import Context, Device, Tensor, dtypes, errors, nn
from whit.errors import UserError
from whit.tensor.methods.data import exchange

FOLDER = Path(__file__).parent / "catalogue"
TOPICS = [
    "making",
    "casts",
    "elementwise",
    "shapes",
    "reductions",
    "products",
    "layers",
    "losses",
    "reading",
    "writing",
    "gathering",
    "sorting",
    "linalg",
    "random",
    "gradients",
    "transforms",
    "control",
    "devices",
    "files",
    "values",
    "settings",
]
PROGRAM = "program.py"
MODULES: tuple[ModuleType, ...] = (errors, exchange)


@dataclass(frozen=True)
class Wrong:
    """One entry."""

    topic: str
    program: str
    error: type[UserError]
    caught_as: type[Exception]
    what: str
    places: tuple[str, ...]

    @property
    def line(self) -> int:
        """The line that raises: the last one."""
        return self.program.count("\n") + 1


def entries(name: str) -> list[Wrong]:
    """The entries of one file."""
    heading, *blocks = (FOLDER / f"{name}.txt").read_text().rstrip("\n").split("\n\n")
    return [_entry(heading.removeprefix("# "), block) for block in blocks]


def catalogue() -> list[Wrong]:
    """All entries, by topic."""
    return [entry for name in TOPICS for entry in entries(name)]


def _entry(topic: str, block: str) -> Wrong:
    lines = block.split("\n")
    program = [line for line in lines if not line.startswith("! ")]
    classes, what, *places = (line.removeprefix("! ") for line in lines if line.startswith("! "))
    error, python = classes.split(", ")
    found: Any = next(getattr(module, error) for module in MODULES if hasattr(module, error))
    return Wrong(topic, "\n".join(program), found, getattr(builtins, python), what, tuple(places))


@contextlib.contextmanager
def workplace() -> Iterator[str]:
    """A folder with a file of ten bytes, in which programs run."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "ten.bin").write_bytes(bytes(range(10)))
        os.chdir(folder)
        try:
            yield os.path.realpath(folder)
        finally:
            os.chdir(before)


def run(program: str, file: str = PROGRAM) -> Exception | None:
    """What a program raises. It knows the names that a user imports."""
    names: dict[str, Any] = {"__name__": "__main__", "whit": whit, "np": np, "Path": Path}
    names |= {"Tensor": Tensor, "dtypes": dtypes, "Device": Device, "Context": Context, "nn": nn}
    try:
        exec(compile(program, file, "exec"), names)
    except Exception as error:
        return error
    return None


def message(error: Exception, folder: str) -> str:
    """The text of an error as every user would see it: with the same folder."""
    return str(error).replace(folder, "/data")
