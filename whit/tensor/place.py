"""Where in the user's code a tensor was made.

A tensor keeps the code object and the offset of the instruction that made it (0.3 us); file and line are worked out
when a message needs them.
"""

from __future__ import annotations

import os
import sys
from types import CodeType

Place = tuple[CodeType, int]

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def here() -> Place | None:
    """The innermost call from outside of whit; None if every frame belongs to whit."""
    frame = sys._getframe(2)
    while True:
        code = frame.f_code
        if not code.co_filename.startswith(_OURS):
            return code, frame.f_lasti
        back = frame.f_back
        if back is None:
            return None
        frame = back


def user_method() -> str:
    """The method that the user called: "add" of `x + 1`."""
    frame, name = sys._getframe(1), ""
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        name = frame.f_code.co_name
        frame = frame.f_back  # type: ignore[assignment]
    return name.strip("_")


def spell_place(place: Place | None) -> str:
    """A place for messages: "train.py:12", or "?" where it is unknown."""
    if place is None:
        return "?"
    code, offset = place
    line = next((line for start, end, line in code.co_lines() if start <= offset < end), None)
    return f"{code.co_filename.rpartition(os.sep)[2]}:{line or code.co_firstlineno}"
