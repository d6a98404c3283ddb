"""Lines of the user's program: each stack once, then by its number."""

from __future__ import annotations

import os
import sys
from types import FrameType

import whit.errors

_PACKAGE = os.path.dirname(os.path.abspath(whit.errors.__file__)) + os.sep
MOST_FRAMES = 12
# Those who only pass the wish for memory on.
_INNER = tuple(
    os.path.join(*parts)
    for parts in (("runtime", "buffer.py"), ("engine", "memory", "storage.py"), ("engine", "devices", "disk.py"))
)

Frame = tuple[str, int, str]  # file, line, function


def user_stack(depth: int) -> tuple[tuple[Frame, ...], str]:
    """The user's frames, innermost first, and the function of whit that asked for memory: `engine.devices.cpu.run`."""
    frame: FrameType | None = sys._getframe(depth)
    frames: list[Frame] = []
    maker = ""
    while frame is not None and len(frames) < MOST_FRAMES:
        path = frame.f_code.co_filename
        if path.startswith(_PACKAGE):
            if not maker and not path.endswith(_INNER):
                inside = path[len(_PACKAGE) :].removesuffix(".py").replace(os.sep, ".")
                maker = f"{inside}.{frame.f_code.co_name}"
        elif not path.startswith("<"):
            frames.append((path, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return tuple(frames), maker
