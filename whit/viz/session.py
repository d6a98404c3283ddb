"""Starts and ends a recording.

    with whit.trace("step.trace"):          # a part of a program
        train_step()

    VIZ=run.trace python program.py         # all of it; VIZ=1 names the file after the process

One recording at a time, of the whole process. A child of `fork` is not recorded; other child processes that inherit VIZ
write files of their own.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from whit.config import VIZ, VIZ_LIMIT, VIZ_REWRITES
from whit.engine.report.launch_names import watch
from whit.errors import ArgumentError
from whit.recording import hooks

if TYPE_CHECKING:
    from whit.viz.recorder import Recorder

MB = 1_000_000


@contextmanager
def trace(path: str | os.PathLike[str], *, rewrites: bool | None = None, limit: int | None = None) -> Iterator[str]:
    """Records what runs inside into a file, whose name it gives. `limit` is in megabytes.

    What is left out comes from the settings VIZ_REWRITES and VIZ_LIMIT.
    """
    recorder = _begin(path, rewrites, limit)
    try:
        yield recorder.writer.path
    finally:
        _end(recorder)


def start_from_environment() -> None:
    """Records this process from now on, if VIZ says so."""
    name = VIZ.value
    if name in ("", "0") or _only_reads(sys.orig_argv):
        return
    recorder = _begin(f"whit-{os.getpid()}.trace" if name == "1" else name, None, None)
    atexit.register(_end, recorder)


def _only_reads(command: list[str]) -> bool:
    """Whether this process is `python -m whit.viz` or `python -m whit viz`: it must not write over what it reads."""
    if "-m" not in command:
        return False
    after = command[command.index("-m") + 1 :]
    return after[:1] == ["whit.viz"] or after[:2] == ["whit", "viz"]


def _begin(path: str | os.PathLike[str], rewrites: bool | None, limit: int | None) -> Recorder:
    if hooks.recorder is not None:
        raise ArgumentError(
            "trace: a recording is under way",
            "one recording at a time, of the whole process",
            "End that one first: leave its `with whit.trace(...)`, or unset VIZ.",
        )
    size = VIZ_LIMIT.value if limit is None else limit
    if size < 1:
        raise ArgumentError(f"trace: a limit of {size} megabytes", fix="Give at least 1.")
    from whit.viz.recorder import Recorder  # lazy: loads the runtime, and few programs record

    recorder = Recorder(path, size * MB, bool(VIZ_REWRITES) if rewrites is None else rewrites)
    recorder.end_watch = watch()
    hooks.recorder = recorder
    return recorder


def _end(recorder: Recorder) -> None:
    if hooks.recorder is recorder:
        hooks.recorder = None
    recorder.end_watch()
    if recorder.process == os.getpid():
        hooks.settle()
        recorder.close()


def _after_fork() -> None:
    hooks.recorder = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
