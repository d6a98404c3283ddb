"""Buffers that come and go, noted from any thread and from the garbage collector, written later.

A note is appended to a deque, which is atomic. Nothing here takes a lock or writes: a buffer may be freed in the
middle of anything, also in the middle of writing a record.
"""

from __future__ import annotations

import itertools
from collections import deque
from time import perf_counter_ns
from typing import Any

from whit.ir.op import spell_shape
from whit.viz.stacks import Frame, user_stack
from whit.viz.tables import Stacks

Note = tuple[str, int, int, int, str, tuple[Frame, ...], str]  # kind, time, buffer, bytes, device, stack, text


class MemoryLog:
    """The notes that are not written yet."""

    def __init__(self, start: int) -> None:
        self._start = start
        self._notes: deque[Note] = deque()
        self._numbers: dict[int, int] = {}  # id of a live buffer -> its number
        self._count = itertools.count(1)

    def allocated(self, buffer: Any) -> None:
        """A buffer has memory."""
        number = self._numbers[id(buffer)] = next(self._count)
        frames, maker = user_stack(4)
        now = perf_counter_ns() - self._start
        self._notes.append(("+", now, number, buffer.nbytes, buffer.device, frames, maker))

    def freed(self, buffer: Any) -> None:
        """It has none any more; 0 is a buffer from before the recording."""
        number = self._numbers.pop(id(buffer), 0)
        now = perf_counter_ns() - self._start
        self._notes.append(("-", now, number, buffer.nbytes, buffer.device, (), ""))

    def typed(self, buffer: Any, dtype: Any, shape: Any) -> None:
        """What is in a buffer."""
        number = self._numbers.get(id(buffer if buffer.base is None else buffer.base))
        if number is not None:
            self._notes.append(("=", 0, number, 0, "", (), f"{dtype.name}{spell_shape(shape)}"))

    def __len__(self) -> int:
        return len(self._notes)

    def take(self, stacks: Stacks) -> list[list[Any]]:
        """The notes, to be written, and no longer here."""
        events: list[list[Any]] = []
        for _ in range(len(self._notes)):
            kind, now, number, nbytes, device, frames, text = self._notes.popleft()
            if kind == "+":
                events.append([kind, now, number, nbytes, device, stacks.number(frames), text])
            elif kind == "-":
                events.append([kind, now, number, nbytes, device])
            else:
                events.append([kind, number, text])
        return events
