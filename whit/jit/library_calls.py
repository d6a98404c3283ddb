"""Calls of a function that is captured to what gives something else each time: the time, files, the operating system.

Only C code can ask the world, so it is enough to look at the calls of C functions; Python tells about each of them.
This makes a trace two or three times as slow, and is done where code of the user names a library that is not known to
compute from its arguments alone.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

from whit.engine.programs.overlay import current
from whit.engine.programs.trace import Trace
from whit.jit.origin import is_library_file

_ALWAYS_SAME = frozenset(
    [
        "abc",
        "array",
        "bisect",
        "builtins",
        "cmath",
        "collections",
        "contextlib",
        "copy",
        "dataclasses",
        "decimal",
        "enum",
        "fractions",
        "functools",
        "heapq",
        "itertools",
        "json",
        "logging",
        "math",
        "numbers",
        "operator",
        "re",
        "statistics",
        "string",
        "struct",
        "textwrap",
        "types",
        "typing",
        "typing_extensions",
        "warnings",
        "einops",
    ]
)
_ASKS = frozenset(
    [
        "_curses",
        "_posixshmem",
        "_posixsubprocess",
        "_queue",
        "_socket",
        "_sqlite3",
        "_ssl",
        "_uuid",
        "fcntl",
        "gc",
        "io",
        "_io",
        "mmap",
        "nt",
        "posix",
        "readline",
        "resource",
        "select",
        "signal",
        "termios",
        "time",
        "winreg",
    ]
)
ASKING_BUILTINS = frozenset({"eval", "exec", "input", "open"})
_OF_PATHS = ("fspath", "_path_normpath", "_path_splitroot", "_path_splitroot_ex")  # of the text of a path alone
_HARMLESS = frozenset(["isenabled", "BytesIO", "StringIO", "text_encoding", "sleep", *_OF_PATHS])
_OF_CLASSES = frozenset({"now", "utcnow", "today"})
_NOT_FOLLOWED = ("logging", "warnings", "importlib", "linecache", "traceback", "threading", "whit")


def may_ask(module: str, names: set[str]) -> bool:
    """Whether functions of a module, if code with these names calls them, may depend on more than their arguments."""
    package = module.partition(".")[0].lstrip("_")
    if package in ("numpy", "torch"):
        return "random" in names or package == "torch"
    return package not in _ALWAYS_SAME and package != "whit"


def refusing_calls(trace: Trace, function: Callable[[], Any]) -> Callable[[], Any]:
    """A function that does the same, and fails its trace with such a call."""
    looks = _Calls(trace)

    def run() -> Any:
        if sys.getprofile() is not None:  # somebody measures, and must not be disturbed
            return function()
        try:
            sys.setprofile(looks)
            return function()
        finally:
            sys.setprofile(None)

    return run


class _Calls:
    """What Python tells about calls."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def __call__(self, frame: types.FrameType, event: str, function: Any) -> None:
        if current() is not self._trace:  # an interrupt has come before this was taken off
            sys.setprofile(None)
            return
        if event != "c_call":
            return
        name, owner = function.__name__, function.__self__
        module = getattr(function, "__module__", None)
        if module in _ASKS and name not in _HARMLESS:
            self._refuse(frame, f"{module.lstrip('_')}.{name}")
        elif name in _OF_CLASSES and isinstance(owner, type) and owner.__module__ == "datetime":
            self._refuse(frame, f"{owner.__name__}.{name}")
        elif module == "builtins" and name in ASKING_BUILTINS and not _is_library(frame):
            self._refuse(frame, name)
        elif name == "seed" and frame.f_globals.get("__name__") == "random" and frame.f_locals.get("a") is None:
            self._refuse(frame, "random.seed()")

    def _refuse(self, frame: types.FrameType | None, what: str) -> None:
        """Fails, if the user's code has asked, itself or through a library; not whit, and not for a message."""
        while frame is not None:
            module = str(frame.f_globals.get("__name__", ""))
            if module.partition(".")[0] in _NOT_FOLLOWED:
                return
            if not _is_library(frame):
                raise self._trace.fail(
                    f"{what}: {self._trace.name} is being captured, and a replay would not ask again",
                    fix="Call it outside, and pass what it gives as an argument.",
                )
            frame = frame.f_back


def _is_library(frame: types.FrameType) -> bool:
    return is_library_file(frame.f_code.co_filename, str(frame.f_globals.get("__name__", "")))
