"""Running a function on tensors without data: what it reads, writes, draws and returns.

    trace = Trace("step")
    y = trace.run(lambda: function(x))      # graphs over placeholders; nothing is computed, nothing real is changed

While a function is traced, the tensors that existed before show themselves through an overlay. The first read of one
gives a placeholder, a BUFFER without memory whose number is negative; a write goes to the overlay and is seen by the
rest of the function, by no other thread, and not afterwards. A view keeps its movement over the placeholder of what it
shows, so that writes through views reach their family. Tensors of constants have no device and stay what they are.
What the trace leaves behind (`Trace.shown`, `families`, `places`, `draws`) is what a capture is made of.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from whit.engine.memory.origins import behind, cuts
from whit.engine.memory.placeholder import new_placeholder
from whit.engine.programs.overlay import begin, end, slot_of
from whit.errors import JitError
from whit.ir import ops
from whit.ir.sizes import Size, settled
from whit.ir.uop import UOp
from whit.records import dataclass
from whit.transform import flow


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

    def join(self, family: Any) -> None:
        """It belongs to another family; None: to none, as `replace` says after it has set the node."""
        if family is None:
            is_written = self.before is not self.start and self.first_family is None
            self.writes_first = self.writes_first or is_written
            self.is_replaced = True
            self.left = self.left or self.family
        self.family = family


@dataclass(slots=True)
class TracedPlaceholder:
    """A placeholder: the node that it stands for, and the tensors through which it was seen."""

    placeholder: UOp
    node: UOp
    tensors: list[Any]


@dataclass(slots=True)
class Drawn:
    """Random numbers: the placeholder of the counter; the seed if the function sets one, else that of the process."""

    placeholder: UOp
    seed: int | None
    start: Size  # counted from the seed, or from where the process is
    count: Size


class Trace:
    """One run of a function in this thread."""

    def __init__(self, name: str, views: bool = True, takes_arrays: bool = False) -> None:
        self.name = name
        self.views = views  # whether arguments that are views are seen as views
        self.takes_arrays = takes_arrays  # arrays that tensors are built from are the same in all runs
        self.shown: dict[int, Shown] = {}
        # id -> a family, and what stands for it
        self.families: dict[int, tuple[Any, TracedPlaceholder | None, Any]] = {}
        self.places: dict[Any, TracedPlaceholder] = {}  # by what they stand for
        self.constants: dict[int, tuple[Any, UOp]] = {}  # tensors of constants that were read, and their nodes
        self.made: dict[int, weakref.ref[Any]] = {}
        self.arguments: dict[int, str] = {}  # tensors that are arguments, and the device of those that have none
        self.draws: list[Drawn] = []
        self.seed: int | None = None
        self.drawn: Size = 0
        self.asks_gradients = False
        self.rooms: dict[UOp, None] = {}  # sizes that must not be negative
        self.failure: JitError | None = None  # what the function was told that it cannot do

    def _leave(self, is_complete: bool) -> None:
        end()
        if not is_complete:
            for entry in self.shown.values():
                entry.tensor._wanted = entry.wanted

    def run(self, function: Callable[[], Any]) -> Any:
        """What a function returns in this trace. An interrupt may come at any line: nothing is traced afterwards."""
        is_complete = False
        try:
            try:
                begin(self)
                result = function()
                is_complete = True
            finally:
                self._leave(is_complete)
        finally:
            self._leave(is_complete)
        return result

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
            node = slot_of("uop").__get__(tensor)
        except AttributeError:  # it is being made right now
            self.made[id(tensor)] = weakref.ref(tensor)
            return None
        return self._show(tensor, node)

    def knows(self, tensor: Any) -> bool:
        """Whether the trace has made the tensor, or seen it or a relative of it."""
        made = self.made.get(id(tensor))
        if id(tensor) in self.shown or (made is not None and made() is tensor):
            return True
        family = slot_of("_family").__get__(tensor)
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

    def alive(self) -> list[Any]:
        """The tensors that the trace has made and somebody still has."""
        return [tensor for made in list(self.made.values()) if (tensor := made()) is not None]

    def outside(self, family: Any) -> Any:
        """A tensor from before that a family of views shows; None if the trace has made what it shows."""
        entries = self.shown.values()
        return next((e.tensor for e in entries if family is not None and e.family is family), None)

    def raw_uop(self, tensor: Any) -> UOp:
        """What a tensor is to everybody else."""
        return slot_of("uop").__get__(tensor)  # type: ignore[no-any-return]

    def raw_family(self, tensor: Any) -> Any:
        """The family of a tensor to everybody else."""
        return slot_of("_family").__get__(tensor)

    def _show(self, tensor: Any, node: UOp) -> Shown:
        family = slot_of("_family").__get__(tensor)
        grad = slot_of("grad").__get__(tensor)
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

    def _standing(self, family: Any, tensor: Any) -> tuple[TracedPlaceholder | None, Any]:
        """The placeholder of a family's base, and the family that stands for it."""
        if id(family) not in self.families:
            place = self._place(family.uop, tensor, id(family))
            base = family.uop if place is None else place.placeholder
            self.families[id(family)] = (family, place, family.shown_on(base))
        return self.families[id(family)][1:]

    def _place(self, node: UOp, tensor: Any, owner: int) -> TracedPlaceholder | None:
        """The placeholder of a node; of a captured constant, None."""
        device = node.device or self.arguments.get(id(tensor))
        if not device:
            return None
        key = node if node.device is not None else (node, owner)  # equal numbers are no shared memory
        if key not in self.places:
            self.places[key] = TracedPlaceholder(new_placeholder(node.dtype, node.shape, device), node, [])
        return self.places[key]

    def fail(self, *parts: str, **fix: str) -> JitError:
        """An error to raise inside the function. It fails the whole capture, also if the function catches it: what it
        would do instead is not what it does with values."""
        self.failure = self.failure or JitError(*parts, **fix)
        return self.failure

    def check(self) -> None:
        """Raises for what a trace cannot stand for."""
        if self.failure is not None:
            raise self.failure
        for place in self.places.values():
            if str(place.node.device).startswith("DISK"):
                raise JitError(
                    f"{self.name}: the captured function reads a file", fix='Move it before: x = x.to("CPU").'
                )

    # ---- random numbers

    def draw(self, count: Size, device: str, dtype: Any) -> UOp:
        """A placeholder for a counter that nobody had before."""
        node = new_placeholder(dtype, (4,), device)
        self.draws.append(Drawn(node, self.seed, self.drawn, count))
        self.drawn = settled(self.drawn + count)
        return node

    def seed_with(self, seed: int) -> None:
        """From here on the numbers of this seed."""
        self.seed, self.drawn = seed, 0

    # ---- gradients

    def is_number(self, tensor: Any) -> bool:
        """Whether a tensor is a plain number outside, though here it has a placeholder."""
        return id(tensor) in self.arguments and slot_of("uop").__get__(tensor).op is ops.CONST

    def check_gradient(self, of: UOp, takes_gradient: Any, tensors: list[Any], is_asked: bool) -> None:
        """Raises where a gradient would go on through an input to what that was computed from outside."""
        self.asks_gradients = True
        below = set(flow((of,)))
        for place in self.places.values():
            if place.placeholder not in below:
                continue
            inside = set(flow((place.node,))) - {place.node}
            lost = cuts((place.node, *inside))
            for tensor in tensors if inside or lost else ():
                node = slot_of("uop").__get__(tensor)
                is_origin = node in inside or any(behind(cut, (node,)) for cut in lost)
                if is_origin and takes_gradient(tensor) and (tensor.requires_grad or not is_asked):
                    raise self.fail(
                        f"backward: {self.name} is captured, and the gradient flows to a tensor that one of its inputs "
                        "was computed from",
                        f"input {place.tensors[0]._made()}, computed from one {tensor._made()}",
                        "Compute the input inside, or pass its detach() if the gradient shall end there.",
                    )
