"""A place in the user's program: what a tensor keeps, and its line in words."""

from __future__ import annotations

import os
from types import CodeType

# The user's code and the offset in it; the function of whit that it called, or what layers that are watched call it;
# the path of the layer ("" if nobody wanted to know), of optimisers their class; whether this is a gradient of what was
# made there.
Place = tuple[CodeType, int, CodeType | str | None, str, bool]

_OPTIMISERS = f"{os.sep}nn{os.sep}optim{os.sep}"


def spell_place(place: Place | None) -> str:
    """A line for messages: "train.py:12", or "?" where it is unknown."""
    if place is None:
        return "?"
    code, offset, *_ = place
    line = next((line for start, end, line in code.co_lines() if start <= offset < end), None)
    return f"{code.co_filename.rpartition(os.sep)[2]}:{line or code.co_firstlineno}"


def is_step(place: Place) -> bool:
    """Whether an optimiser made it."""
    return type(place[2]) is CodeType and _OPTIMISERS in place[2].co_filename
