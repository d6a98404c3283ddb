"""Where in the user's code a tensor was made.

A tensor keeps the code object and the offset of the instruction that made it, and what that called (0.3 us); file and
line are worked out when a message needs them. Its node has the same, for the names of launches; while somebody wants
these (`whit.engine.report.launch_names`), the path of the layer too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextvars import ContextVar, Token
from types import CodeType, FrameType
from typing import Any

from whit.engine.report.launch_names import watched
from whit.engine.report.layers import note_layer
from whit.engine.report.spoken import small, spoken
from whit.engine.report.user_place import Place, spell_place

__all__ = ["Place", "inside", "leave", "line_of_caller", "spell_place", "user_method"]

_NESTED = 16  # inspect.CO_NESTED
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


_said: ContextVar[Place | None] = ContextVar("whit_place", default=None)


def inside(path: str, what: str) -> Token[Place | None]:
    """Tensors that this thread makes from now on are parts of `path`, and what makes them is called `what`: for models
    whose parts are no objects with methods. Up to `leave` of what this returns."""
    before = _said.get()
    user = before or _user(sys._getframe(1))
    return _said.set((user[0], user[1], what, path, False))


def leave(token: Token[Place | None]) -> None:
    """Ends what `inside` has begun."""
    _said.reset(token)


def path_here() -> str:
    """The path that `inside` has said last; "" if nothing."""
    place = _said.get()
    return "" if place is None else place[3]


def _user(frame: FrameType) -> tuple[CodeType, int]:
    """The innermost frame from outside of whit, or the outermost of all."""
    while frame.f_code.co_filename.startswith(_OURS) and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code, frame.f_lasti


def line_of_caller() -> Place | None:
    """The innermost call from outside of whit; None if every frame belongs to whit."""
    said = _said.get()  # 30 ns
    if said is not None:
        return said
    frame = sys._getframe(2)
    called: CodeType | None = None
    inner: CodeType | None = None
    while True:
        code = frame.f_code
        if not code.co_filename.startswith(_OURS):
            if called is not None and called.co_flags & _NESTED:  # what is put around a method is not what was called
                called = inner
            return _watched(frame, called) if watched else (code, frame.f_lasti, called, "", False)
        back = frame.f_back
        if back is None:
            return None
        frame = back
        inner = called
        called = code


def what_made(place: Place | None) -> str:
    """What the user called at a place: "softmax", or "softmax backward" of a gradient; "" where that is not known."""
    if place is None or place[2] is None:
        return ""
    what = place[2] if isinstance(place[2], str) else spoken(place[2])
    return f"{what} backward" if place[4] else what


def user_method() -> str:
    """The method that the user called: "add" of `x + 1`."""
    frame, name = sys._getframe(1), ""
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        name = frame.f_code.co_name
        frame = frame.f_back  # type: ignore[assignment]
    return name.strip("_")


# ---- layers

_LAYERS = f"{_OURS}nn{os.sep}"
_OPTIMISERS = f"{_LAYERS}optim{os.sep}"
_NO_LAYERS = (_OPTIMISERS, f"{_LAYERS}state{os.sep}", f"{_LAYERS}functional{os.sep}")
_CLEARS = sys.version_info < (3, 13)  # before, a frame keeps what it was asked for, and with it all its locals alive
DEEP = 3  # lists of lists of layers
_HOLDERS = frozenset({"module", "shape", "transformer", "attention"})  # files of layers that are made of others


def _watched(user: FrameType, called: CodeType | None) -> Place:
    """The place with all that takes long: the path of the layer and what it does, of optimisers their class."""
    if called is not None and called.co_filename.startswith(_OPTIMISERS):
        return user.f_code, user.f_lasti, called, _optimiser(user), False
    path, what = _path(sys._getframe(3))
    return user.f_code, user.f_lasti, what or called, path, False


def _optimiser(user: FrameType) -> str:
    """ "Adam", of the frame that `user` has called."""
    frame: FrameType | None = sys._getframe(3)
    while frame is not None and frame.f_back is not user:
        frame = frame.f_back
    owner = None if frame is None else _owner(frame, frame.f_code)
    return "" if owner is None else type(owner).__name__


def _path(frame: FrameType | None) -> tuple[str, str]:
    """The layer that is being called, as its parameters are named: "blocks.3.attn", and what it does: the name of its
    class, if it is a layer of whit, or the method that it calls. "" outside of layers.

    Layers call each other by methods: with the first plain function of the user around them the model ends.
    """
    if sys.gettrace() is not None:  # a debugger has its own plans with the locals of frames
        return "", ""
    names: list[str] = []  # the innermost first
    owners: list[Any] = []
    what, is_made = "", False
    for owner, called, code in _objects(frame):
        if not owners:
            file = code.co_filename if code.co_filename.startswith(_OURS) else ""
            is_made = code.co_name == "__init__"
            what = f"{_does(owner, file, called)} init" if is_made and file else _does(owner, file, called)
            owners.append(owner)
        elif owner is not owners[-1] and (name := _name_in(vars(owner), owners[-1], DEEP)):
            names.append(name)
            owners.append(owner)
    names.reverse()
    if not is_made:  # else its place in the model is not known yet
        for count, owner in enumerate(reversed(owners)):
            note_layer(".".join(names[:count]), owner)
    return ".".join(names), what


def _objects(frame: FrameType | None) -> Iterator[tuple[Any, CodeType | None, CodeType]]:
    """The objects whose methods are being called, the innermost first: each with what it has called, and its method.
    Up to the first plain function of the user."""
    called: CodeType | None = None
    inner: CodeType | None = None
    while frame is not None:
        code = frame.f_code
        if not code.co_name.startswith("<"):  # lambdas and comprehensions are inside of methods, too
            if _is_of_layer(code.co_filename):
                owner = _owner(frame, code)
                if owner is not None:
                    is_wrapper = called is not None and called.co_flags & _NESTED
                    yield owner, inner if is_wrapper else called, code
                elif not code.co_filename.startswith(_OURS):
                    return
            inner, called = called, code
        frame = frame.f_back


def _is_of_layer(file: str) -> bool:
    """Whether methods in a file may be those of layers: of the user's, or of whit's."""
    return not file.startswith(_OURS) or (file.startswith(_LAYERS) and not file.startswith(_NO_LAYERS))


def _does(owner: Any, file: str, called: CodeType | None) -> str:
    """What the innermost layer is doing: "layer_norm", "softmax"."""
    if file and file.rpartition(os.sep)[2].removesuffix(".py") not in _HOLDERS:
        return small(type(owner).__name__)
    return "" if called is None else spoken(called)


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
