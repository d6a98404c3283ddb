"""What a search is about: one kernel, for one target, and how a program of it is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from whit.ir.uop import UOp
from whit.records import dataclass
from whit.target import Target


class Runnable(Protocol):
    """A kernel in this process."""

    @property
    def total(self) -> int:
        """The size of the range that cores share."""

    @property
    def address(self) -> int:
        """Of its machine code."""

    @property
    def explanation(self) -> str:
        """How it is tiled, and why."""


@dataclass(frozen=True, slots=True)
class Task:
    """A kernel to be tuned."""

    function: UOp
    target: Target
    key: str  # what is found is kept under it
    build: Callable[[str | None], Runnable]  # a choice, or None for the default, to machine code

    @property
    def body(self) -> UOp:
        """What the kernel computes."""
        return self.function.src[0]
