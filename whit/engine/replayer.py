"""Runs a captured function again: with the memory that its tensors have now, in one native call.

A replay finds the memory of every argument and of every captured tensor, gets new memory for results, runs the program,
and gives tensors that were written their new values: in place where nobody else can see the old ones, else in new
memory. What the trace depended on is compared first; where it is no longer so (a captured tensor has another shape, two
arguments share their memory and did not before) the result is MISSED, and the function is traced again.

Nothing here grows with the number of kernels. Captured tensors are compared in rows, without a loop in Python.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from sys import getrefcount
from typing import Any

from whit.dtype import DType
from whit.engine.disk import allocate
from whit.engine.program import Program, State
from whit.engine.realize import realize
from whit.engine.signature import Result, rebound, unbound
from whit.engine.storage import attach, computed_entries, nbytes_of, new_buffer, storage
from whit.engine.trace import Drawn, generator, given_away, raw_set
from whit.ir import ops
from whit.ir.uop import UOp
from whit.runtime.buffer import Buffer

running = threading.RLock()  # who replays: programs write memory that others read, and share an arena
MISSED = object()  # what a replay returns if the program does not fit
COUNTER = 64  # bytes from the counter of a draw to the next

_uop = attrgetter("uop")
_shares = attrgetter("shares")
_never = weakref.ref(type("Gone", (), {})())  # a reference to nothing
_probe = [object()]
_MAPPED = next(map(getrefcount, _probe))  # of what is in one list and nowhere else


@dataclass(slots=True)
class Site:
    """A placeholder, and the place of its memory in the table."""

    placeholder: UOp
    place: int = -1  # -1: it is not read


@dataclass(slots=True)
class Seen:
    """A tensor that the function reads: an argument, a captured one, or the gradient of one."""

    tensor: Any
    argument: int  # its number, or -1
    owner: Any  # what it is the gradient of, or None
    owner_argument: int  # the number of that, if it is an argument, or -1
    start: UOp  # what it shows, over the placeholder
    site: int


@dataclass(slots=True)
class Change:
    """A tensor, or a family through one of its tensors, that has another value afterwards."""

    state: State
    seen: int  # the number of the `Seen` through which it is found; -1: `tensor`, which was a constant
    tensor: Any
    is_replaced: bool  # the tensor leaves its family
    writes_first: bool  # but was written to before that: it must have none
    dtype: DType
    shape: tuple[Any, ...]


@dataclass(slots=True)
class Grad:
    """What the gradient of a tensor becomes."""

    tensor: Any
    argument: int  # the number of the tensor, or -1
    value: Any  # a tensor from outside, or None
    output: int  # -1, or which of the gradients that are computed


@dataclass(slots=True)
class Output:
    """A tensor to be made."""

    kind: Any
    dtype: DType
    shape: tuple[Any, ...]
    device: str
    where: Any
    name: str  # of the function, if a gradient should go on into it
    asks: bool


@dataclass(slots=True)
class Guards:
    """What must be as it was."""

    same: list[tuple[int, Any]]  # arguments that are captured tensors, too
    constants: list[tuple[Any, UOp]]  # captured tensors without a device, which are in the code
    without_grad: list[Any]
    arguments_without_grad: list[int]
    requires_grad: list[tuple[Any, bool | None]]

    def hold(self, arguments: Sequence[Any]) -> bool:
        """Whether it is."""
        for number, tensor in self.same:
            if arguments[number] is not tensor:
                return False
        if not self.constants_hold():
            return False
        for tensor in self.without_grad:
            if tensor.grad is not None:
                return False
        for number in self.arguments_without_grad:
            if arguments[number].grad is not None:
                return False
        return all(tensor.requires_grad is value for tensor, value in self.requires_grad)

    def constants_hold(self) -> bool:
        """Whether captured tensors without a device are the same constants."""
        return all(tensor.uop is node for tensor, node in self.constants)


@dataclass(eq=False)
class Replay:
    """A captured function."""

    name: str
    program: Program
    views: bool  # arguments that are views were seen as views
    sites: list[Site]
    seen: list[Seen]
    changes: list[Change]
    gradients: list[Grad]
    outputs: list[Output]
    result: Result
    guards: Guards
    draws: list[Drawn]
    seed: int | None
    drawn: int

    def __post_init__(self) -> None:
        self._let_go_of_arguments()
        self._captured = [seen for seen in self.seen if seen.argument < 0]
        self._arguments = [seen for seen in self.seen if seen.argument >= 0]
        self._tensors = [seen.tensor for seen in self._captured]
        self._grads = [
            (number, seen)
            for number, seen in enumerate(self._captured)
            if seen.owner is not None or seen.owner_argument >= 0
        ]
        self._ids: list[int] | None = None  # of what captured tensors showed the last time
        self._watched: list[Any] = []
        self._gone: list[Any] = []  # those of the nodes that are gone: their ids may be used again
        self._bases: dict[int, int] = {}  # sites, and the ids of what stands behind them
        self._by_site: dict[int, list[Seen]] = {}
        for seen in self._captured:
            self._by_site.setdefault(seen.site, []).append(seen)
        numbers = {id(seen): number for number, seen in enumerate(self._captured)}
        self._number_of = {n: numbers[id(seen)] for n, seen in enumerate(self.seen) if id(seen) in numbers}
        changes = [change for change in self.changes if change.state.is_part or change.state.can_overwrite]
        self._writable = {self._number_of[c.seen] for c in changes if c.seen in self._number_of}
        self._shared = {seen.site for seen in self._captured} & {seen.site for seen in self._arguments}
        self._table: list[Any] = [self.program.fixed.get(place) for place in range(self.program.size)]
        self._own: list[int] = []  # numbers of captured tensors that are written in place
        self._own_memory: list[Buffer] = []
        self._own_references: list[int] = []
        self._other_changes = self.changes
        self._changing: list[int] = []  # places of the table that each call fills
        self._is_table_known = False  # the program has seen the rest of it
        self._kept: list[UOp] = []  # what captured tensors show, if something was computed from it once
        self._counters = self._place_counters()
        self._relative = sum(drawn.count for drawn in self.draws if drawn.seed is None)

    def _let_go_of_arguments(self) -> None:
        """Those of the first call need not live as long as the capture."""
        for seen in self.seen:
            if seen.argument >= 0:
                seen.tensor = None
            if seen.owner_argument >= 0:
                seen.owner = None
        for change in self.changes:
            if change.seen >= 0:
                change.tensor = None
        for grad in self.gradients:
            if grad.argument >= 0:
                grad.tensor = None

    def __call__(self, arguments: Sequence[Any], bindings: Mapping[str, int]) -> Any:
        """Runs the program; MISSED if it does not fit."""
        with running:
            return self._run(arguments, bindings)

    def _run(self, arguments: Sequence[Any], bindings: Mapping[str, int]) -> Any:
        if not self.guards.hold(arguments):
            return MISSED
        for number, seen in self._grads:
            owner = seen.owner if seen.owner_argument < 0 else arguments[seen.owner_argument]
            self._tensors[number] = seen.tensor = owner.grad
            if seen.tensor is None:
                return MISSED
        nodes: list[UOp] = list(map(_uop, self._tensors))
        is_as_before = not self._gone and list(map(id, nodes)) == self._ids
        if not is_as_before and not self._refresh(nodes):
            return MISSED
        owns = self._owns(nodes)
        del nodes
        table = self._table.copy()
        if not self._bind(arguments, table):
            return MISSED
        then: list[tuple[Any, ...]] = []
        for change in self._other_changes if owns else self.changes:
            if not self._place(change, arguments, table, then):
                return MISSED
        donations = self._take_donations(arguments, then) if self.program.donations else {}
        made = [self._make(output, bindings, donations.get(number)) for number, output in enumerate(self.outputs)]
        for place, tensor in zip(self.program.outputs, made, strict=True):
            table[place] = storage(tensor.uop)
        for grad in self.gradients:
            target = grad.tensor if grad.argument < 0 else arguments[grad.argument]
            value = grad.value if grad.output < 0 else made[grad.output + self.result.count]
            then.append((raw_set("grad"), target, value))
        if self.draws:
            self._fill_counters()
        if not owns:
            self._is_table_known = False
        # What goes away goes after the run: an interrupt that comes meanwhile would be lost in what Python does then.
        _before = [tensor.uop for tensor in (*self._tensors, *arguments)] if then else []
        changed = self._changing if self._is_table_known else None
        self._is_table_known = False  # until this run is over
        self.program.run(table, {**self.program.variables, **bindings}, then, changed)
        self._is_table_known = owns
        return self.result.fill(made, arguments, bindings)

    # ---- captured tensors

    def _refresh(self, nodes: list[UOp]) -> bool:
        """Finds the memory of captured tensors that show something else now. Whether they are what was captured."""
        is_first = self._ids is None  # or an interrupt came before the end of this function
        self._ids, self._is_table_known = None, False
        changed = [n for n, node in enumerate(nodes) if is_first or self._watched[n]() is not node]
        sites = {self._captured[number].site for number in changed}
        bases: dict[int, UOp] = {}
        for site in sites:
            for seen in self._by_site[site]:
                base = _base_of(seen, seen.tensor, self.sites[site].placeholder)
                if base is None or bases.setdefault(site, base) is not base:
                    return False
        after = self._bases | {site: id(base) for site, base in bases.items()}
        if len(set(after.values())) != len(after):
            return False
        for site, buffer in zip(bases, realize(list(bases.values())), strict=True):
            if self.sites[site].place >= 0:
                self._table[self.sites[site].place] = storage(buffer)
        self._bases = after
        if is_first:
            self._watched = [_never] * len(nodes)
        for (
            number
        ) in changed:  # a callback of C: an interrupt in one of Python would be lost together with what it does
            self._watched[number] = weakref.ref(nodes[number], self._gone.append)
        self._gone.clear()
        if is_first or not self._writable.isdisjoint(changed):
            self._find_own()
        if self.program.before is not None:
            self._compute_pruned(self.program.before)
        self._ids = list(map(id, nodes))
        return True

    def _compute_pruned(self, before: Program) -> None:
        """What depends on captured tensors alone. Their nodes are kept, so that nobody writes to their memory."""
        sites = [site for site in self._by_site if self.sites[site].placeholder in before.inputs]
        self._kept = [base_of(self._by_site[site][0].tensor) for site in sites]
        table: list[Any] = [before.fixed.get(place) for place in range(before.size)]
        for site, buffer in zip(sites, realize(self._kept), strict=True):
            table[before.inputs[self.sites[site].placeholder]] = storage(buffer)
        for place, placeholder in zip(before.outputs, self.program.pruned, strict=True):
            memory = allocate(str(placeholder.device), nbytes_of(placeholder.dtype, placeholder.shape))
            table[place] = memory
            if placeholder in self.program.inputs:
                self._table[self.program.inputs[placeholder]] = memory
        before.run(table, before.variables, ())

    def _find_own(self) -> None:
        """The captured tensors that can be written in place, if nobody begins to look at them."""
        own: dict[int, Change] = {}
        for change in self.changes:
            number = self._number_of.get(change.seen)
            is_there = change.state.is_part or change.state.can_overwrite
            if is_there and number in self._writable and _is_writable_alone(self._captured[number].tensor):
                own[number] = change
        self._own = list(own)
        self._own_memory = [storage(self._captured[number].tensor.uop) for number in own]
        self._own_references = [_MAPPED + 2] * len(own)  # the tensor refers to it, and two lists
        for change, memory in zip(own.values(), self._own_memory, strict=True):
            self._table[change.state.place] = memory
        in_place = {id(change) for change in own.values()}
        self._other_changes = [change for change in self.changes if id(change) not in in_place]
        places = [self.sites[seen.site].place for seen in self._arguments]
        places += [change.state.place for change in self._other_changes] + self.program.outputs
        self._changing = [place for place in dict.fromkeys(places) if place >= 0]

    def _owns(self, nodes: list[UOp]) -> bool:
        """Whether the memory of tensors that are written in place is theirs alone."""
        if list(map(getrefcount, list(map(nodes.__getitem__, self._own)))) != self._own_references:
            return False
        return not any(map(_shares, self._own_memory))

    # ---- arguments

    def _bind(self, arguments: Sequence[Any], table: list[Any]) -> bool:
        """Puts the memory of arguments into the table. False if they share it otherwise than they did."""
        bases: dict[int, UOp] = {}
        has_family = False
        for seen in self._arguments:
            tensor = arguments[seen.argument]
            placeholder = self.sites[seen.site].placeholder
            base = _base_of(seen, tensor, placeholder) if self.views else tensor.uop
            if base is None or bases.setdefault(seen.site, base) is not base:
                return False
            has_family = has_family or tensor._family is not None
        if has_family and self.changes and not self.views and not self._can_ignore_families(arguments):
            return False
        taken: set[int] = set()
        captured = self._bases.values()
        lazy: list[int] = []
        for site, base in bases.items():
            if base.device is not None:
                if id(base) in taken or (id(base) in captured) is not (site in self._shared):
                    return False
                taken.add(id(base))
            place = self.sites[site].place
            if base.op is not ops.BUFFER:
                lazy.append(site)
            elif place >= 0:
                table[place] = storage(base)
        if lazy:
            self._compute(lazy, bases, table)
        return True

    def _can_ignore_families(self, arguments: Sequence[Any]) -> bool:
        """Whether no write of the function goes through a view, or is seen through one that the function reads."""
        changed = [self.seen[c.seen] for c in self.changes if c.seen >= 0 and not c.is_replaced]
        written = {seen.argument for seen in changed}
        families: dict[int, int] = {}  # how many tensors of a family the function reads
        for tensor in (*[arguments[seen.argument] for seen in self._arguments], *self._tensors):
            if tensor._family is not None:
                families[id(tensor._family)] = families.get(id(tensor._family), 0) + 1
        for number in written - {-1}:
            family = arguments[number]._family
            if family is not None and (arguments[number].uop is not family.uop or families[id(family)] > 1):
                return False
        given = {id(arguments[seen.argument]._family) for seen in self._arguments} - {id(None)}
        return all(id(seen.tensor._family) not in given for seen in changed if seen.argument < 0)

    def _compute(self, lazy: list[int], bases: dict[int, UOp], table: list[Any]) -> None:
        """The memory of arguments that are not computed yet, or are constants."""
        by_device: dict[str | None, list[int]] = {}
        for site in lazy:
            if self.sites[site].place >= 0:
                by_device.setdefault(self.sites[site].placeholder.device, []).append(site)
        for device, sites in by_device.items():
            for site, buffer in zip(sites, realize([bases[site] for site in sites], device), strict=True):
                table[self.sites[site].place] = storage(buffer)

    # ---- results

    def _make(self, output: Output, bindings: Mapping[str, int], memory: Buffer | None) -> Any:
        shape = rebound(output.shape, bindings)
        if memory is None:
            node = new_buffer(output.dtype, shape, output.device)
        else:
            node = attach(memory, output.dtype, shape)
        return output.kind._of_buffer(node, output.where, output.name, output.asks)

    def _place(self, change: Change, arguments: Sequence[Any], table: list[Any], then: list[tuple[Any, ...]]) -> bool:
        """Where a new value goes: to the old memory, or to new memory that the tensor gets afterwards. False if others
        would see a write of it that the program does not do."""
        state, tensor = change.state, change.tensor
        if change.seen >= 0:
            seen = self.seen[change.seen]
            tensor = seen.tensor if seen.argument < 0 else arguments[seen.argument]
        family = tensor._family
        if change.writes_first and family is not None:
            return False
        is_open = family is None or not change.is_replaced
        if is_open and change.seen >= 0 and (state.is_part or state.can_overwrite):
            memory = _own_memory(tensor, family)
            if memory is not None:
                table[state.place] = memory
                return True
        node = new_buffer(change.dtype, change.shape, state.device or tensor.device)
        table[state.place] = storage(node)
        if state.is_part:
            (before,) = realize([tensor.uop if family is None else family.uop])
            storage(node).copy_from(storage(before))
        if change.is_replaced:
            then += [(raw_set("uop"), tensor, node), (raw_set("_family"), tensor, None)]
        else:
            then += _attachment(tensor, family, node)
        return True

    def _take_donations(self, arguments: Sequence[Any], then: list[tuple[Any, ...]]) -> dict[int, Buffer]:
        """The memory of arguments that results get; the arguments have no value afterwards."""
        found: dict[int, Buffer] = {}
        for number, placeholder in self.program.donations.items():
            seen = next(seen for seen in self._arguments if seen.start is placeholder)
            tensor = arguments[seen.argument]
            memory = _own_memory(tensor, None) if tensor._family is None else None
            if memory is not None:
                found[number] = memory
                then.append((raw_set("uop"), tensor, given_away(tensor.dtype, tensor.shape, tensor.device)))
        return found

    # ---- random numbers

    def _place_counters(self) -> dict[str, Buffer]:
        """Memory for the counters of draws, on each device that draws."""
        counters: dict[str, Buffer] = {}
        for number, drawn in enumerate(self.draws):
            device = str(drawn.placeholder.device)
            if device not in counters:
                counters[device] = allocate(device, COUNTER * len(self.draws))
            place = self.program.inputs.get(drawn.placeholder)
            if place is not None:
                self._table[place] = counters[device].view(COUNTER * number, 16)
        return counters

    def _fill_counters(self) -> None:
        """Draws numbers that nobody had before, as many as the function would."""
        source = generator()
        seed, start = source.reserve(self._relative, self.seed, self.drawn)
        for number, drawn in enumerate(self.draws):
            first = (seed, start + drawn.start) if drawn.seed is None else (drawn.seed, drawn.start)
            data = source.counter_bytes(*first)
            memory = self._counters[str(drawn.placeholder.device)]
            memory.write(memoryview(data), COUNTER * number)


def _base_of(seen: Seen, tensor: Any, placeholder: UOp) -> UOp | None:
    """What a placeholder stands for now, if the tensor shows it in the same way; else None."""
    node, family, base = tensor.uop, tensor._family, base_of(tensor)
    if base.dtype is not placeholder.dtype or not _is_same_shape(base.shape, placeholder.shape):
        return None
    if base.device is not None and base.device != placeholder.device:
        return None
    if base is node:
        return base if seen.start is placeholder else None
    return base if family.shown_on(placeholder).same_view(node, base) is seen.start else None


def base_of(tensor: Any) -> UOp:
    """The node of a tensor, or of what it is a view of."""
    node: UOp = tensor.uop if tensor._family is None else tensor._family.uop
    return node


def _is_same_shape(shape: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether two shapes are the same but for the values of variables."""
    return shape == other or (len(shape) == len(other) and tuple(map(unbound, shape)) == tuple(map(unbound, other)))


# ---- whose memory may be overwritten


def _is_writable(node: UOp) -> bool:
    if node.op is not ops.BUFFER:
        return False
    buffer = storage(node)
    return buffer.writable and not buffer.is_shared


def _is_writable_alone(tensor: Any) -> bool:
    return tensor._family is None and _is_writable(tensor.uop)


def _own_memory(tensor: Any, family: Any) -> Buffer | None:
    """The memory of a tensor, if it may be written: nothing but the tensor and its views can see it."""
    node: list[UOp] = [tensor.uop if family is None else family.uop]
    if not _is_writable(node[0]):
        return None
    if family is None:
        return storage(node[0]) if next(map(getrefcount, node)) == _MAPPED + 1 else None
    return storage(node[0]) if _is_family_alone(family, node) else None


def _is_family_alone(family: Any, base: list[UOp]) -> bool:
    """Whether only the members of a family refer to its base, and to the views of it."""
    order: list[UOp] = [base[0]]
    listed = {id(base[0])}
    held: Counter[int] = Counter({id(base[0]): 2})  # the family, and `base`
    for tensor in family.members():
        view = tensor.uop
        held[id(view)] += 1
        while id(view) not in listed:
            listed.add(id(view))
            order.append(view)
            view = view.src[0]
            held[id(view)] += 1
    view = None
    if list(map(getrefcount, order)) != [_MAPPED + held[key] for key in map(id, order)]:
        return False
    for key in map(id, order):  # what was computed of a view is the old value
        computed_entries.pop(key, None)
    return True


def _attachment(tensor: Any, family: Any, node: UOp) -> list[tuple[Any, ...]]:
    """The calls that give a tensor, and all that share its elements, other memory."""
    if family is None:
        return [(raw_set("uop"), tensor, node)]
    fresh = family.shown_on(node)
    members = [(raw_set("uop"), member, fresh.same_view(member.uop, family.uop)) for member in family.members()]
    return [(setattr, family, "uop", node), *members]


def _after_fork() -> None:
    global running
    running = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
