"""Writes records to a file, in blocks; says when it is time to record less.

A full block goes to the system at once, and so does everything on `flush`: what was handed to the system survives the
end of the process, however it comes.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Any

from whit.errors import FileError, warn
from whit.viz.format import BLOCK_BYTES, file_start, pack

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class TraceWriter:
    """An open trace file. Not for several threads at once: the recorder has a lock."""

    def __init__(self, path: str | os.PathLike[str], limit: int) -> None:
        self.path, self._file = _open(os.fspath(path))
        self.limit = limit  # bytes
        self.written = 0
        self.failure = ""  # why nothing is written any more: a full disk must not end the program
        self._lines: list[str] = []
        self._pending = 0
        self._put(file_start())

    def add(self, record: str, **fields: Any) -> None:
        """One more record."""
        line = _encode({"record": record, **fields})
        self._lines.append(line)
        self._pending += len(line) + 1
        if self._pending >= BLOCK_BYTES:
            self.flush()

    def flush(self) -> None:
        """Hands over what is there."""
        if self._lines:
            lines, self._lines, self._pending = self._lines, [], 0
            self._put(pack(lines))

    def close(self) -> None:
        """The end of the file; a second call does nothing."""
        if self._file < 0:
            return
        self.flush()
        self.failure = self.failure or "it is closed"  # another thread may still have something to report
        os.close(self._file)
        self._file = -1

    def _put(self, data: bytes) -> None:
        if self.failure:
            return
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._file, view) :]
        except OSError as error:
            self.failure = str(error)
            warn(f"viz: the recording into {self.path} has ended: {error}")
        self.written += len(data)


def _open(path: str) -> tuple[str, int]:
    """The file, emptied; where another process is recording into it, one beside it."""
    for name in (path, f"{path}.{os.getpid()}"):
        try:
            file = os.open(name, os.O_WRONLY | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
        except OSError as error:
            raise FileError(
                f"viz: {name} cannot be written", str(error), "Name a file in a folder that exists and can be written."
            ) from None
        if _lock(file):
            with suppress(OSError):  # a pipe has no length
                os.ftruncate(file, 0)
            return name, file
        os.close(file)
    raise FileError(f"viz: {path} is being written by another recording", fix="Name another file.")


def _lock(file: int) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
