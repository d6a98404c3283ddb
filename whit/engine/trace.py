"""Running a function on tensors without data: what it reads, writes, draws and returns.

    with Trace("step") as trace:        # in this thread, up to the end of the block
        y = function(x)                 # graphs over placeholders; nothing is computed, nothing real is changed

While a function is traced, the tensors that existed before show themselves through an overlay. The first read of one
gives a placeholder, a BUFFER without memory whose number is negative; a write goes to the overlay and is seen by the
rest of the function, by no other thread, and not afterwards. A view keeps its movement over the placeholder of what it
shows, so that writes through views reach their family. Tensors of constants have no device and stay what they are.
What the trace leaves behind (`Trace.shown`, `families`, `places`, `draws`) is what a capture is made of.

The overlay costs nothing while nothing is traced: `uop`, `_family` and `grad` are slots of the class then, and become
properties when the first trace of the process begins (a property takes 107 ns to read, a slot 15).
"""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from whit.errors import JitError, user_line
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp, before_unbind

FIELDS = ("uop", "_family", "grad")
_ids = itertools.count(-1, -1)


class _Slot(Protocol):
    """A field of a class with slots."""

    def __get__(self, instance: Any, owner: Any = None) -> Any: ...

    def __set__(self, instance: Any, value: Any) -> None: ...


@dataclass(slots=True)
class Shown:
    """A tensor that existed before, as the trace sees it."""

    tensor: Any
    start: UOp  # what it showed first
    uop: UOp
    family: Any
    first_family: Any
    grad: Any
    first_grad: Any
    wanted: str | None  # the device it was to be on before
    reads_grad: bool = False
    writes_grad: bool = False
    is_replaced: bool = False  # it has left its family, as by replace(): others keep what they are
    before: UOp | None = None  # what it was before its last change
    writes_first: bool = False  # it was written to before it was replaced
    left: Any = None  # the family of views made by the trace that it has left


@dataclass(slots=True)
class Place:
    """A placeholder: the node that it stands for, and the tensors through which it was seen."""

    placeholder: UOp
    node: UOp
    tensors: list[Any]


@dataclass(slots=True)
class Drawn:
    """Random numbers: the placeholder of the counter; the seed if the function sets one, else that of the process."""

    placeholder: UOp
    seed: int | None
    start: int  # counted from the seed, or from where the process is
    count: int


class _Overlay:
    """The class of tensors, and its slots."""

    tensor: type = type(None)
    slots: dict[str, _Slot]
    properties: dict[str, property]
    leaves: Callable[[], list[Any]]
    result: type


_active: dict[int, Trace] = {}  # thread -> what it traces
_reading: dict[int, list[Reads]] = {}  # thread -> who notes what it reads, outer first
_lock = threading.Lock()


def _use_properties() -> None:
    """Under the lock: fields are properties while anybody needs that."""
    found = _Overlay.properties if _active or _reading else _Overlay.slots
    for name in FIELDS:
        setattr(_Overlay.tensor, name, found[name])


def current() -> Trace | None:
    """What this thread traces."""
    return _active.get(threading.get_ident()) if _active else None


def is_placeholder(node: UOp) -> bool:
    """Whether a BUFFER only stood for something while a function was traced."""
    return node.op is ops.BUFFER and node.arg.id < 0


def new_placeholder(dtype: Any, shape: Any, device: str) -> UOp:
    """A BUFFER without memory."""
    return UOp.buffer(next(_ids), dtype, shape, device)


def forbid(what: str) -> None:
    """Raises if this thread traces a function: values are not known then."""
    trace = current()
    if trace is not None:
        raise JitError(
            f"{what}: {trace.name} is being captured, and its tensors have no values yet",
            fix="A captured function runs again without Python. Return the tensor and read it outside, or compute with "
            "tensors: where() in place of if.",
        )


before_unbind.append(forbid)


class Trace:
    """One run of a function in this thread."""

    def __init__(self, name: str, views: bool = True) -> None:
        self.name = name
        self.views = views  # whether arguments that are views are seen as views
        self.shown: dict[int, Shown] = {}
        self.families: dict[int, tuple[Any, Place | None, Any]] = {}  # id -> a family, and what stands for it
        self.places: dict[Any, Place] = {}  # by what they stand for
        self.constants: dict[int, tuple[Any, UOp]] = {}  # tensors of constants that were read, and their nodes
        self.made: dict[int, weakref.ref[Any]] = {}
        self.arguments: dict[int, str] = {}  # tensors that are arguments, and the device of those that have none
        self.draws: list[Drawn] = []
        self.seed: int | None = None
        self.drawn = 0
        self.asks_gradients = False

    def __enter__(self) -> Trace:
        thread = threading.get_ident()
        if thread in _active:
            raise JitError(f"{self.name}: a trace inside a trace", fix="Call the function itself.")
        with _lock:
            _active[thread] = self
            _use_properties()
        return self

    def __exit__(self, kind: Any, error: Any, where: Any) -> None:
        if kind is not None:
            for entry in self.shown.values():
                entry.tensor._wanted = entry.wanted
        with _lock:
            _active.pop(threading.get_ident(), None)
            _use_properties()

    # ---- the overlay

    def entry(self, tensor: Any) -> Shown | None:
        """How a tensor from before is seen; None if the trace has made it."""
        entry = self.shown.get(id(tensor))
        if entry is not None:
            return entry
        made = self.made.get(id(tensor))
        if made is not None and made() is tensor:
            return None
        try:
            node = _Overlay.slots["uop"].__get__(tensor)
        except AttributeError:  # it is being made right now
            self.made[id(tensor)] = weakref.ref(tensor)
            return None
        return self._show(tensor, node)

    def knows(self, tensor: Any) -> bool:
        """Whether the trace has made the tensor, or seen it or a relative of it."""
        made = self.made.get(id(tensor))
        if id(tensor) in self.shown or (made is not None and made() is tensor):
            return True
        family = _Overlay.slots["_family"].__get__(tensor)
        return family is not None and id(family) in self.families

    def value(self, tensor: Any) -> UOp:
        """What a tensor is at the end."""
        entry = self.entry(tensor)
        node: UOp = self.raw_uop(tensor) if entry is None else entry.uop
        return node

    def is_made(self, tensor: Any) -> bool:
        """Whether the trace has made a tensor."""
        made = self.made.get(id(tensor))
        return made is not None and made() is tensor

    def raw_uop(self, tensor: Any) -> UOp:
        """What a tensor is to everybody else."""
        return _Overlay.slots["uop"].__get__(tensor)  # type: ignore[no-any-return]

    def raw_family(self, tensor: Any) -> Any:
        """The family of a tensor to everybody else."""
        return _Overlay.slots["_family"].__get__(tensor)

    def _show(self, tensor: Any, node: UOp) -> Shown:
        family = _Overlay.slots["_family"].__get__(tensor)
        grad = _Overlay.slots["grad"].__get__(tensor)
        standing = None
        is_value = id(tensor) in self.arguments and not self.views
        if family is None or is_value:
            place = self._place(node, tensor, id(tensor))
            start = uop = node if place is None else place.placeholder
        else:
            place, standing = self._standing(family, tensor)
            uop = standing.same_view(node, family.uop)
            first = family.uop if place is None else place.placeholder
            start = family.shown_on(first).same_view(node, family.uop)
        if place is None:
            self.constants[id(tensor)] = (tensor, node)
        else:
            place.tensors.append(tensor)
        entry = Shown(tensor, start, uop, standing, standing, grad, grad, tensor._wanted)
        self.shown[id(tensor)] = entry
        if standing is not None:
            standing.add(tensor)
        return entry

    def _standing(self, family: Any, tensor: Any) -> tuple[Place | None, Any]:
        """The placeholder of a family's base, and the family that stands for it."""
        if id(family) not in self.families:
            place = self._place(family.uop, tensor, id(family))
            base = family.uop if place is None else place.placeholder
            self.families[id(family)] = (family, place, family.shown_on(base))
        return self.families[id(family)][1:]

    def _place(self, node: UOp, tensor: Any, owner: int) -> Place | None:
        """The placeholder of a node; of a captured constant, None."""
        device = node.device or self.arguments.get(id(tensor))
        if not device:
            return None
        key = node if node.device is not None else (node, owner)  # equal numbers are no shared memory
        if key not in self.places:
            self.places[key] = Place(new_placeholder(node.dtype, node.shape, device), node, [])
        return self.places[key]

    def check(self) -> None:
        """Raises for what a trace cannot stand for."""
        for place in self.places.values():
            if str(place.node.device).startswith("DISK"):
                raise JitError(
                    f"{self.name}: the captured function reads a file", fix='Move it before: x = x.to("CPU").'
                )

    # ---- random numbers

    def draw(self, count: int, device: str, dtype: Any) -> UOp:
        """A placeholder for a counter that nobody had before."""
        node = new_placeholder(dtype, (4,), device)
        self.draws.append(Drawn(node, self.seed, self.drawn, count))
        self.drawn += count
        return node

    def seed_with(self, seed: int) -> None:
        """From here on the numbers of this seed."""
        self.seed, self.drawn = seed, 0

    # ---- gradients

    def is_number(self, tensor: Any) -> bool:
        """Whether a tensor is a plain number outside, though here it has a placeholder."""
        return id(tensor) in self.arguments and _Overlay.slots["uop"].__get__(tensor).op is ops.CONST

    def check_gradient(self, below: set[UOp], takes_gradient: Any, tensors: list[Any], is_asked: bool) -> None:
        """Raises where a gradient would go on through a lazy tensor to what it was computed from outside."""
        self.asks_gradients = True
        for place in self.places.values():
            if place.placeholder not in below or place.node.op is ops.BUFFER:
                continue
            inside = set(topological((place.node,)))
            for tensor in tensors:
                node = _Overlay.slots["uop"].__get__(tensor)
                if node in inside and takes_gradient(tensor) and (tensor.requires_grad or not is_asked):
                    raise JitError(
                        f"backward: {self.name} is captured, and the gradient flows to a tensor that one of its inputs "
                        "was computed from",
                        f"input {place.tensors[0]._made()}, computed from one {tensor._made()}",
                        "Compute the input inside, or pass it as x.detach() or realised.",
                    )


class Reads:
    """Notes which nodes of tensors from before are read in this thread, in the order of their first reading.

    with Reads() as reads:
        y = function(x)
    reads.nodes                     # those of x and of all that the function has from elsewhere
    """

    def __init__(self) -> None:
        self.nodes: dict[UOp, None] = {}
        self._made: dict[int, weakref.ref[Any]] = {}

    def __enter__(self) -> Reads:
        with _lock:
            _reading.setdefault(threading.get_ident(), []).append(self)
            _use_properties()
        return self

    def __exit__(self, kind: Any, error: Any, where: Any) -> None:
        with _lock:
            stack = _reading[threading.get_ident()]
            stack.remove(self)
            if not stack:
                del _reading[threading.get_ident()]
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


def _readers() -> list[Reads]:
    return _reading.get(threading.get_ident(), []) if _reading else []


def _property(name: str) -> property:
    slot = _Overlay.slots[name]
    field = name.lstrip("_")

    def get(tensor: Any) -> Any:
        trace = _active.get(threading.get_ident())
        entry = None if trace is None else trace.entry(tensor)
        return slot.__get__(tensor) if entry is None else getattr(entry, field)

    def get_uop(tensor: Any) -> UOp:
        node: UOp = get(tensor)
        for reads in _readers():
            reads.note(tensor, node)
        return node

    def set_(tensor: Any, value: Any) -> None:
        if name == "uop" and _reading and not _is_set(slot, tensor):
            for reads in _readers():
                reads.note_made(tensor)
        trace = _active.get(threading.get_ident())
        entry = None if trace is None else trace.entry(tensor)
        if entry is None:
            slot.__set__(tensor, value)
        else:
            if field == "uop":
                entry.before = entry.uop
            elif value is None:  # `replace` sets the node first, and then this
                is_written = entry.before is not entry.start and entry.first_family is None
                entry.writes_first = entry.writes_first or is_written
                entry.is_replaced = True
                entry.left = entry.left or entry.family
            setattr(entry, field, value)

    def get_grad(tensor: Any) -> Any:
        trace = _active.get(threading.get_ident())
        entry = None if trace is None else trace.entry(tensor)
        if entry is None:
            return slot.__get__(tensor)
        entry.reads_grad = entry.reads_grad or not entry.writes_grad
        return entry.grad

    def set_grad(tensor: Any, value: Any) -> None:
        trace = _active.get(threading.get_ident())
        entry = None if trace is None else trace.entry(tensor)
        if entry is None:
            slot.__set__(tensor, value)
        else:
            entry.grad, entry.writes_grad = value, True

    if name == "grad":
        return property(get_grad, set_grad)
    return property(get_uop if name == "uop" else get, set_)


def _is_set(slot: _Slot, tensor: Any) -> bool:
    try:
        slot.__get__(tensor)
    except AttributeError:
        return False
    return True


def register_tensor(kind: type, leaves: Callable[[], list[Any]]) -> None:
    """The class whose instances are seen through the overlay, with FIELDS as slots; and what gives all leaves."""
    _Overlay.tensor = kind
    _Overlay.leaves = leaves
    _Overlay.slots = {name: kind.__dict__[name] for name in FIELDS}
    _Overlay.properties = {name: _property(name) for name in FIELDS}


def slot_of(name: str) -> Any:
    """The field itself, also while there is an overlay."""
    return _Overlay.slots[name]


def raw_set(name: str) -> Any:
    """What sets a field of a tensor, also while there is an overlay: a function of C, which no interrupt enters."""
    return _Overlay.slots[name].__set__


_used_up: set[int] = set()  # numbers of placeholders that stand for gradients


_given_away: set[int] = set()  # numbers of placeholders that stand for arguments whose memory a result has got


def given_away(dtype: Any, shape: Any, device: str) -> UOp:
    """What a donated argument is after a call."""
    node = new_placeholder(dtype, shape, device)
    _given_away.add(node.arg.id)
    return node


def gradient_used_up(dtype: Any, shape: Any, device: str) -> UOp:
    """What `.grad` of a tensor is after a captured step that has used it."""
    node = new_placeholder(dtype, shape, device)
    _used_up.add(node.arg.id)
    return node


class Generator(Protocol):
    """The random numbers of the process, for replays."""

    def reserve(self, count: int, reseed: int | None, used: int) -> tuple[int, int]:
        """The seed and the first of `count` counters; sets another seed, of which `used` are gone, if one is given."""

    def counter_bytes(self, seed: int, start: int) -> bytes:
        """What the memory of a draw holds."""


_generators: list[Generator] = []


def register_generator(generator: Generator) -> None:
    """Says where random numbers come from."""
    _generators[:] = [generator]


def generator() -> Generator:
    """Where random numbers come from."""
    return _generators[0]


def register_result(kind: type) -> None:
    """The class of tensors that are made from a file of captured functions."""
    _Overlay.result = kind


def result_type() -> Any:
    """That class."""
    return _Overlay.result


def all_leaves() -> list[Any]:
    """The living tensors that are no results of operations."""
    return _Overlay.leaves()


def tensor_type() -> type:
    """The class of tensors."""
    return _Overlay.tensor


def escaped(node: UOp) -> JitError:
    """What a placeholder without memory means to somebody who asks for its value."""
    if node.arg.id in _used_up:
        return JitError(
            "the gradients of a captured step are not kept: the function has used them to change their tensors",
            f"asked for at {user_line()}" if user_line() else "",
            "Return them from the function, or call backward() and step() in two of them.",
        )
    if node.arg.id in _given_away:
        return JitError(
            "the tensor was donated to a captured function, and a result has its memory now",
            f"asked for at {user_line()}" if user_line() else "",
            "Use the result, or leave the argument out of donate=.",
        )
    return JitError(
        "a tensor that was made while a function was captured has no value afterwards",
        f"it depends on {node.short()}" + (f", and is used at {user_line()}" if user_line() else ""),
        "Return it from the function: what a captured function keeps elsewhere is not computed when it is replayed.",
    )


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    trace, reads = current(), _readers()
    _active.clear()
    _reading.clear()
    if trace is not None:
        _active[threading.get_ident()] = trace
    if reads:
        _reading[threading.get_ident()] = reads
    if _Overlay.tensor is not type(None):
        _use_properties()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
