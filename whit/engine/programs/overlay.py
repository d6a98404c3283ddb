"""How tensors that existed before show themselves while a function is traced, or while it is noted what it reads.

A trace gives a tensor another node, another family, another gradient, seen by its thread alone. This costs nothing
while nothing is traced: `uop`, `_family` and `grad` are slots then, and become properties when the first
trace of the process begins (a property takes 107 ns to read, a slot 15).
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from whit.errors import JitError
from whit.ir.assumed import when_assumed
from whit.ir.uop import UOp, before_unbind

if TYPE_CHECKING:
    from whit.engine.programs.trace import Shown, Trace


class Overlaid:
    """The fields of a tensor that a trace shows its thread differently. Tensors inherit from it."""

    __slots__ = ("_family", "grad", "uop")

    uop: UOp
    grad: Any
    _family: Any


FIELDS = Overlaid.__slots__
_SLOTS: dict[str, Any] = {name: Overlaid.__dict__[name] for name in FIELDS}


class _Slot(Protocol):
    """A field of a class with slots."""

    def __get__(self, instance: Any, owner: Any = None) -> Any: ...

    def __set__(self, instance: Any, value: Any) -> None: ...


class Wrapper:
    """A function under the JIT, or what keeps one in an object. In a captured function it is the plain function: what
    it has captured itself changes nothing."""

    __slots__ = ()

    def wrapped(self) -> Any:
        """The plain function."""
        raise NotImplementedError


_active: dict[int, Trace] = {}  # thread -> what it traces
_reading: dict[int, list[Reads]] = {}  # thread -> who notes what it reads, outer first
_lock = threading.RLock()  # a thread that was interrupted in here can go on


def _use_properties() -> None:
    """Under the lock: fields are properties while anybody needs that."""
    found = _PROPERTIES if _active or _reading else _SLOTS
    for name in FIELDS:
        setattr(Overlaid, name, found[name])


def current() -> Trace | None:
    """What this thread traces."""
    return _active.get(threading.get_ident()) if _active else None


def begin(trace: Trace) -> None:
    """From here on this thread traces."""
    thread = threading.get_ident()
    if thread in _active:
        raise JitError(f"{trace.name}: a trace inside a trace", fix="Call the function itself.")
    with _lock:
        _active[thread] = trace
        _use_properties()


def end() -> None:
    """This thread no longer traces. To be called again after an interrupt has come meanwhile."""
    with _lock:
        _active.pop(threading.get_ident(), None)
        _use_properties()


def forbid(what: str) -> None:
    """Raises if this thread traces a function: values are not known then."""
    trace = current()
    if trace is not None:
        raise trace.fail(
            f"{what}: {trace.name} is being captured, and its tensors have no values yet",
            fix="A captured function runs again without Python. Return the tensor and read it outside, or compute with "
            "tensors: where() in place of if.",
        )


before_unbind.append(forbid)


_transforming: dict[int, int] = {}  # thread -> functions that are transformed and run now, one in another


@contextmanager
def transforming() -> Iterator[None]:
    """Meanwhile this thread runs a function to see its graph: what is captured by itself would be cut out of it."""
    thread = threading.get_ident()
    _transforming[thread] = _transforming.get(thread, 0) + 1
    try:
        yield
    finally:
        _transforming[thread] -= 1
        if not _transforming[thread]:
            del _transforming[thread]


def is_traced() -> bool:
    """Whether this thread runs a function to see what it does: a captured function in it is a plain one."""
    if not _active and not _transforming:
        return False
    thread = threading.get_ident()
    return thread in _active or thread in _transforming


def _note_room(room: UOp) -> None:
    """What is captured takes for granted what it has asked."""
    trace = current()
    if trace is not None:
        trace.rooms[room] = None


when_assumed.append(_note_room)


class Reads:
    """Notes which nodes of tensors from before are read in this thread, in the order of their first reading.

    reads = Reads()
    y = reads.run(lambda: function(x))
    reads.nodes                     # those of x and of all that the function has from elsewhere
    """

    def __init__(self) -> None:
        self.nodes: dict[UOp, None] = {}
        self._made: dict[int, weakref.ref[Any]] = {}

    def run(self, function: Callable[[], Any]) -> Any:
        """What a function returns. An interrupt may come at any line: nothing is noted afterwards."""
        try:
            try:
                with _lock:
                    _reading.setdefault(threading.get_ident(), []).append(self)
                    _use_properties()
                return function()
            finally:
                self._leave()
        finally:
            self._leave()

    def _leave(self) -> None:
        with _lock:
            stack = [reads for reads in _readers() if reads is not self]
            if stack:
                _reading[threading.get_ident()] = stack
            else:
                _reading.pop(threading.get_ident(), None)
            _use_properties()

    def is_made(self, tensor: Any) -> bool:
        """Whether a tensor was not there before."""
        made = self._made.get(id(tensor))
        return made is not None and made() is tensor

    def note(self, tensor: Any, node: UOp) -> None:
        """A tensor was read."""
        if not self.is_made(tensor):
            self.nodes[node] = None

    def note_made(self, tensor: Any) -> None:
        """A tensor has come into being."""
        self._made[id(tensor)] = weakref.ref(tensor)

    def check_change(self, tensor: Any) -> None:
        """A tensor is about to show something else, because the program wants it: who forbids that raises."""

    def check_gradient(self, tensor: Any) -> None:
        """A tensor is about to get another gradient."""


def before_change(changes: Iterable[tuple[Any, str, Any]]) -> None:
    """Asks whoever looks on whether tensors may show something else: (owner, field, value), families among them."""
    for reads in _readers():
        for owner, name, _ in changes:
            if name == "uop" and isinstance(owner, Overlaid):
                reads.check_change(owner)


def _readers() -> list[Reads]:
    return _reading.get(threading.get_ident(), []) if _reading else []


def _entry_of(tensor: Any) -> Shown | None:
    """How this thread sees a tensor; None if as everybody does."""
    trace = _active.get(threading.get_ident())
    return None if trace is None else trace.entry(tensor)


def _node_property(slot: _Slot) -> property:
    def get(tensor: Any) -> UOp:
        entry = _entry_of(tensor)
        node: UOp = slot.__get__(tensor) if entry is None else entry.uop
        for reads in _readers():
            reads.note(tensor, node)
        return node

    def set_(tensor: Any, node: UOp) -> None:
        if _reading and not _is_set(slot, tensor):
            for reads in _readers():
                reads.note_made(tensor)
        entry = _entry_of(tensor)
        if entry is None:
            slot.__set__(tensor, node)
        else:
            entry.before, entry.uop = entry.uop, node

    return property(get, set_)


def _family_property(slot: _Slot) -> property:
    def get(tensor: Any) -> Any:
        entry = _entry_of(tensor)
        return slot.__get__(tensor) if entry is None else entry.family

    def set_(tensor: Any, family: Any) -> None:
        entry = _entry_of(tensor)
        if entry is None:
            slot.__set__(tensor, family)
        else:
            entry.join(family)

    return property(get, set_)


def _gradient_property(slot: _Slot) -> property:
    def get(tensor: Any) -> Any:
        entry = _entry_of(tensor)
        if entry is None:
            return slot.__get__(tensor)
        entry.reads_grad = entry.reads_grad or not entry.writes_grad
        return entry.grad

    def set_(tensor: Any, gradient: Any) -> None:
        for reads in _readers() if gradient is not None else ():
            reads.check_gradient(tensor)
        entry = _entry_of(tensor)
        if entry is None:
            slot.__set__(tensor, gradient)
        else:
            entry.grad, entry.writes_grad = gradient, True

    return property(get, set_)


def _is_set(slot: _Slot, tensor: Any) -> bool:
    try:
        slot.__get__(tensor)
    except AttributeError:
        return False
    return True


_PROPERTIES = {
    "uop": _node_property(_SLOTS["uop"]),
    "_family": _family_property(_SLOTS["_family"]),
    "grad": _gradient_property(_SLOTS["grad"]),
}


def slot_of(name: str) -> Any:
    """The field itself, also while there is an overlay."""
    return _SLOTS[name]


def raw_set(name: str) -> Any:
    """What sets a field of a tensor, also while there is an overlay: a function of C, which no interrupt enters."""
    return _SLOTS[name].__set__


def _after_fork() -> None:
    global _lock  # noqa: PLW0603  a fork: nobody would release it
    _lock = threading.RLock()
    trace, reads = current(), _readers()
    depth = _transforming.get(threading.get_ident(), 0)
    _active.clear()
    _reading.clear()
    _transforming.clear()
    if depth:
        _transforming[threading.get_ident()] = depth
    if trace is not None:
        _active[threading.get_ident()] = trace
    if reads:
        _reading[threading.get_ident()] = reads
    _use_properties()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
