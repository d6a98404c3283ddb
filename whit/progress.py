"""Progress bars: how much is done, how fast it goes, and how long the rest will take.

    for batch in tqdm(batches, desc="train"):        train:  42%|########            | 420/1000 [00:12<00:16, 35.01it/s]

The bar goes to stderr. On a terminal it is one line that changes, a few times a second. Elsewhere (a file, a pipe, a
log) it is plain lines: one after each ten seconds, and one at the end.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, TypeVar

__all__ = ["tqdm", "trange"]

Item = TypeVar("Item")

PLAIN_SECONDS = 10.0  # between two lines where there is no terminal


class tqdm(Generic[Item]):  # noqa: N801  # the name that programs use
    """A progress bar around an iterable, or moved by `update`."""

    def __init__(
        self,
        iterable: Iterable[Item] | None = None,
        desc: str = "",
        disable: bool = False,
        unit: str = "it",
        unit_scale: bool = False,
        total: int | None = None,
        rate: float = 10.0,
        initial: int = 0,
        mininterval: float | None = None,
        leave: bool = True,
        **others: Any,
    ) -> None:
        """The names are those of the tqdm package; what else it has is about how a bar looks, and changes nothing."""
        self.iterable = iterable
        self.desc = desc
        self.disable = disable
        self.unit = unit
        self.unit_scale = unit_scale  # 12.3k in place of 12345
        self.total = total if total is not None else len(iterable) if hasattr(iterable, "__len__") else 0  # type: ignore[arg-type]
        self.n = initial
        self.leave = leave  # False: the line goes at the end, on a terminal
        self._postfix = ""
        self._is_plain = not _is_terminal()
        self._pause = PLAIN_SECONDS if self._is_plain else (1 / rate if mininterval is None else mininterval)
        self._started_at = initial
        self._start = self._printed = time.perf_counter()

    def __iter__(self) -> Iterator[Item]:
        items: Iterable[Item] = () if self.iterable is None else self.iterable
        return iter(items) if self.disable else self._iterate(items)

    def _iterate(self, items: Iterable[Item]) -> Iterator[Item]:
        clock, pause = time.perf_counter, self._pause
        with self:
            for item in items:
                yield item
                self.n += 1
                if clock() - self._printed > pause:
                    self._print()

    def __enter__(self) -> tqdm[Item]:
        if not self._is_plain:
            self._print()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.update(0, close=True)

    def set_description(self, desc: str, refresh: bool = True) -> None:
        """The text before the bar."""
        self.desc = desc

    def set_postfix(self, values: dict[str, Any] | None = None, refresh: bool = True, **more: Any) -> None:
        """Names and numbers after the bar."""
        given = {**(values or {}), **more}
        self._postfix = "".join(
            f", {key}={value:.3g}" if isinstance(value, float) else f", {key}={value}" for key, value in given.items()
        )

    def close(self) -> None:
        """The last state of the bar, and the end of its line."""
        self.update(0, close=True)

    def update(self, n: int = 1, close: bool = False) -> None:
        """So many more are done."""
        self.n += n
        if close or time.perf_counter() - self._printed > self._pause:
            self._print(close)

    @staticmethod
    def write(text: str) -> None:
        """A line that does not get in the way of the bar."""
        _say(f"\r\033[K{text}\n" if _is_terminal() else f"{text}\n")

    def _print(self, close: bool = False) -> None:
        if self.disable:
            return
        self._printed = time.perf_counter()
        line = self._line(self._printed - self._start)
        if close and not self.leave and not self._is_plain:
            _say("\r\033[K")
        else:
            _say(f"{line}\n" if self._is_plain else f"\r\033[K{line}" + "\n" * close)

    def _line(self, elapsed: float) -> str:
        speed = (self.n - self._started_at) / elapsed if elapsed > 0 else 0.0
        rest = f"<{_clock((self.total - self.n) / speed) if speed else '?'}" if self.total > self.n else ""
        head = f"{self.desc}: " if self.desc else ""
        pace = f"{self._scaled(speed, 2)}{self.unit}/s{self._postfix}"
        tail = f"{self._scaled(self.n)}{self._of()} [{_clock(elapsed)}{rest}, {pace}]"
        if not self.total:
            return head + tail
        done = min(self.n / self.total, 1.0)
        width = max(_columns() - len(head) - len(tail) - 9, 4)
        return f"{head}{done:4.0%}|{'#' * int(done * width):{width}s}| {tail}"

    def _of(self) -> str:
        return f"/{self._scaled(self.total)}" if self.total else self.unit

    def _scaled(self, number: float, digits: int = 0) -> str:
        if not self.unit_scale or number < 1000:
            return f"{number:.{digits}f}"
        power = min(int(math.log10(number)) // 3, 4)
        return f"{number / 1000**power:.2f}{' kMGT'[power]}"


def trange(n: int, **options: Any) -> tqdm[int]:
    """A progress bar over range(n)."""
    return tqdm(range(n), total=n, **options)


def _say(text: str) -> None:
    if sys.stderr is None:
        return
    with suppress(ValueError, OSError):  # it is closed: a loop should not end because of its bar
        sys.stderr.write(text)
        sys.stderr.flush()


def _is_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # there is no stderr, or it is closed
        return False


def _columns() -> int:
    """The width of the terminal."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError, AttributeError):  # no terminal
        return 80


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"
