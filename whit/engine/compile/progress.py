"""A line on the terminal while something is compiled that takes longer than a second, and nothing anywhere else.

    with Compiling(): ...           compiling for train.py:12: kernel 17 of 60, 4 s

A thread writes it: scheduling is one long call, and so is much of LLVM. The line goes when the work is done.
"""

from __future__ import annotations

import sys
import threading
from time import perf_counter
from types import TracebackType

from whit.errors import user_line

PATIENCE_SECONDS = 1.0  # seconds without a line
PAUSE_SECONDS = 0.25  # seconds between two of them
ERASE = "\r\x1b[K"


class Compiling:
    """The line of one piece of work; the outermost one of a thread counts."""

    current: Compiling | None = None  # of the process: whoever came first

    def __init__(self) -> None:
        self.done = self.kernels = 0
        self._line = ""
        self._start = 0.0
        self._is_shown = False
        self._end: threading.Event | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Compiling:
        if Compiling.current is not None or not _is_terminal():
            return self
        Compiling.current = self
        self._line, self._start, self._end = user_line(), perf_counter(), threading.Event()
        self._thread = threading.Thread(target=self._show, name="whit compiling", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._end is None or self._thread is None:
            return
        Compiling.current = None
        self._end.set()
        self._thread.join()
        if self._is_shown:
            _write(ERASE)

    def _show(self) -> None:
        assert self._end is not None, "the thread that shows it is started by __enter__"
        pause = PATIENCE_SECONDS
        while not self._end.wait(pause):
            pause = PAUSE_SECONDS
            self._is_shown = True
            _write(f"{ERASE}{self.text(perf_counter() - self._start)}")

    def text(self, seconds: float) -> str:
        """What is shown."""
        where = f" for {self._line}" if self._line else ""
        what = f"kernel {self.done + 1} of {self.kernels}, " if self.done < self.kernels else ""
        return f"compiling{where}: {what}{seconds:.0f} s"


def note_kernels(done: int, count: int) -> None:
    """So many of the kernels of a program are compiled."""
    current = Compiling.current
    if current is not None:
        current.done, current.kernels = done, count


def _is_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # there is no stderr, or it is closed
        return False


def _write(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):  # the terminal has gone
        pass
