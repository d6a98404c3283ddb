"""Where in the user's code a tensor was made.

A tensor keeps the code object and the offset of the instruction that made it, and what that called (0.3 us); file and
line are worked out when a message needs them. Its node has the same, for the names of launches; while somebody wants
these (`whit.engine.report.launch_names`), the path of the layer too.
"""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType
from typing import Any

from whit.engine.report.launch_names import Place, spell_place, watched

__all__ = ["Place", "line_of_caller", "spell_place", "user_method"]

_NESTED = 16  # inspect.CO_NESTED
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def line_of_caller() -> Place | None:
    """The innermost call from outside of whit; None if every frame belongs to whit."""
    frame = sys._getframe(2)
    called: CodeType | None = None
    inner: CodeType | None = None
    while True:
        code = frame.f_code
        if not code.co_filename.startswith(_OURS):
            if called is not None and called.co_flags & _NESTED:  # what is put around a method is not what was called
                called = inner
            return code, frame.f_lasti, called, _path(sys._getframe(2)) if watched else "", False
        back = frame.f_back
        if back is None:
            return None
        frame = back
        inner = called
        called = code


def user_method() -> str:
    """The method that the user called: "add" of `x + 1`."""
    frame, name = sys._getframe(1), ""
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        name = frame.f_code.co_name
        frame = frame.f_back  # type: ignore[assignment]
    return name.strip("_")


# ---- layers

_LAYERS = f"{_OURS}nn{os.sep}"
_NO_LAYERS = (f"{_LAYERS}optim{os.sep}", f"{_LAYERS}state{os.sep}")
_CLEARS = sys.version_info < (3, 13)  # before, a frame keeps what it was asked for, and with it all its locals alive
DEEP = 3  # lists of lists of layers


def _path(frame: FrameType | None) -> str:
    """The layer that is being called, as its parameters are named: "blocks.3.attn"; "" outside of layers.

    Layers call each other by methods: with the first plain function of the user around them the model ends.
    """
    if sys.gettrace() is not None:  # a debugger has its own plans with the locals of frames
        return ""
    names: list[str] = []  # the innermost first
    inner = None
    while frame is not None:
        code = frame.f_code
        file, name = code.co_filename, ""
        is_layer = not file.startswith(_OURS) or (file.startswith(_LAYERS) and not file.startswith(_NO_LAYERS))
        if is_layer and not code.co_name.startswith("<"):  # lambdas and comprehensions are inside of methods, too
            owner = _owner(frame, code)
            if owner is None and not file.startswith(_OURS):
                break
            if inner is not None and owner is not None and owner is not inner:
                name = _name_in(vars(owner), inner, DEEP)
                if name:
                    names.append(name)
            inner = owner if inner is None or name else inner
        frame = frame.f_back
    return ".".join(reversed(names))


def _owner(frame: FrameType, code: CodeType) -> Any:
    """The object whose method a frame runs."""
    if not code.co_argcount or code.co_varnames[0] != "self":
        return None
    local = frame.f_locals
    owner = local.get("self")
    if _CLEARS:
        local.clear()
    return owner if hasattr(owner, "__dict__") and not isinstance(owner, type) else None


def _name_in(values: Any, wanted: Any, deep: int) -> str:
    """The name of an object among attributes: "attn", "blocks.3"."""
    items = values.items() if isinstance(values, dict) else enumerate(values)
    inside = []
    for key, value in items:
        if value is wanted:
            return str(key)
        if deep and type(value) in (list, tuple, dict):
            inside.append((key, value))
    for key, value in inside:
        name = _name_in(value, wanted, deep - 1)
        if name:
            return f"{key}.{name}"
    return ""
