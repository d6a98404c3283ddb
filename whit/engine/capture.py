"""A function as a program: made of a trace once, then replayed with the memory that tensors have at that time.

A replay finds the memory of every argument and of every tensor that the function read from elsewhere, gets new memory
for results, makes one native call, and gives tensors that were written their new values: in place where nobody else
can see the old ones, else in new memory. The trace noted what it depends on; if that is no longer so (a captured
tensor has another shape, two arguments share their memory and did not before), `replay` says so, and the function is
traced again.
"""

from __future__ import annotations

import itertools
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, is_
from sys import getrefcount
from typing import Any

from whit.engine.program import Program, State, build, plain
from whit.engine.realize import realize
from whit.engine.signature import replaced
from whit.engine.storage import attach, nbytes_of, new_buffer, storage
from whit.engine.trace import Shown, Trace, gradient_used_up, raw_set, tensor_type
from whit.errors import JitError
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp
from whit.runtime.buffer import Buffer

COUNTER = 64  # bytes between the counters of two draws
_uop = attrgetter("uop")
_shares = attrgetter("shares")
_family = attrgetter("_family")
_probe = [object()]
_MAPPED = next(map(getrefcount, _probe)) - 1  # what `map` adds to the references of an element of a list

MISSED = object()  # what a replay returns if the program does not fit


class NeedsViews(Exception):
    """An argument that is a view of another tensor is written to: trace again, and look at it as a view."""


@dataclass(slots=True)
class Seen:
    """A tensor that the function reads: an argument, a captured one, or the gradient of one."""

    tensor: Any
    argument: int  # its number, or -1
    owner: Any  # what it is the gradient of, or None
    start: UOp  # what it shows, over the placeholder
    site: int


@dataclass(slots=True)
class Site:
    """A placeholder, and where in the table its memory goes."""

    placeholder: UOp
    place: int  # -1: it is not read


@dataclass(slots=True)
class Change:
    """A tensor, or a family through one of its tensors, that has another value afterwards."""

    state: State
    seen: int  # the number of the `Seen` through which it is found; -1: a constant, which `tensor` is
    tensor: Any
    dtype: Any
    shape: tuple[Any, ...]


class Capture:
    """What one trace of a function has become."""

    def __init__(self, trace: Trace, arguments: Sequence[Any], result: Any, device: str) -> None:
        self.name = trace.name
        self.views = trace.views
        self._trace = trace
        self.seen: list[Seen] = []
        self.sites: list[Site] = []
        self.constants = [(tensor, node) for tensor, node in trace.constants.values()]
        number_of = {id(tensor): number for number, tensor in enumerate(arguments)}
        grads = {id(e.first_grad): e.tensor for e in trace.shown.values() if e.reads_grad and e.first_grad is not None}
        self._find_sites(number_of, grads)
        values, self._result = _holes(self, result, number_of)
        changes = self._find_changes()
        grad_values = self._find_gradients(changes)
        outputs = [*values, *grad_values]
        states = [(value, old) for value, old, _, _ in changes]
        self.program: Program = build([trace.value(t) for t in outputs], states, device)
        self.changes = [
            Change(state, seen, tensor, value.dtype, value.shape)
            for state, (value, _, seen, tensor) in zip(self.program.states, changes, strict=True)
        ]
        self._outputs = [
            (type(t), trace.value(t), t._wanted or device, (t._place, *self._cut(trace.value(t)))) for t in outputs
        ]
        self._results = len(values)
        for site in self.sites:
            site.place = self.program.inputs.get(site.placeholder, -1)
        self._prepare_replay()
        del self._trace

    # ---- from the trace

    def _find_sites(self, number_of: Mapping[int, int], grads: Mapping[int, Any]) -> None:
        trace = self._trace
        for place in trace.places.values():
            for tensor in place.tensors:
                entry = trace.shown[id(tensor)]
                owner = grads.get(id(tensor))
                argument = number_of.get(id(tensor), -1)
                self.seen.append(Seen(tensor, argument, owner, entry.start, len(self.sites)))
            self.sites.append(Site(place.placeholder, -1))

    def _find_changes(self) -> list[tuple[UOp, UOp | None, int, Any]]:
        """New values: the graph, the placeholder of the old one, the number of a `Seen`, the tensor."""
        trace = self._trace
        numbers = {id(seen.tensor): number for number, seen in enumerate(self.seen)}
        found: list[tuple[UOp, UOp | None, int, Any]] = []
        for entry in trace.shown.values():
            if entry.family is not entry.first_family and entry.first_family is not None or _left(entry):
                self._check_family(entry)
            if entry.first_family is not None and entry.family is entry.first_family:
                continue  # its family is looked at below
            new, old = plain([entry.uop, entry.start])
            if new is old:
                continue
            self._check_change(entry, new)
            number = numbers.get(id(entry.tensor), -1)
            found.append((new, entry.start if number >= 0 else None, number, entry.tensor))
        for family, standing in trace.families.values():
            (new,) = plain([standing.uop])
            start = trace.places.get(family.uop)
            if start is None or new is start.placeholder:
                if start is None and new is not family.uop:
                    raise _unsupported(self.name, "writes through a view of a constant", "Use contiguous() first.")
                continue
            number = numbers[id(start.tensors[0])]
            found.append((new, start.placeholder, number, start.tensors[0]))
        return found

    def _check_family(self, entry: Shown) -> None:
        if entry.family is not None and any(entry.family is standing for _, standing in self._trace.families.values()):
            raise _unsupported(self.name, "makes a tensor from outside a view of another one", "Do it before.")

    def _check_change(self, entry: Shown, new: UOp) -> None:
        tensor, trace = entry.tensor, self._trace
        if new.dtype is not entry.start.dtype or (entry.start.device and new.device not in (None, entry.start.device)):
            raise _unsupported(
                self.name,
                "changes the dtype or the device of a tensor from outside",
                "Return the new tensor.",
            )
        family = trace.raw_family(tensor)
        if family is None or trace.views or id(tensor) not in trace.arguments:
            return
        relatives = [e for e in trace.shown.values() if trace.raw_family(e.tensor) is family]
        if trace.raw_uop(tensor) is not family.uop or len(relatives) > 1:
            raise NeedsViews

    def _find_gradients(self, changes: list[Any]) -> list[Any]:
        """The tensors that gradients must be computed for; `self.gradients` says what `.grad` of tensors becomes."""
        self.gradients: list[tuple[Any, int, Any]] = []  # (tensor, its number in `seen`, int: result; else the value)
        written = {id(tensor) for _, _, _, tensor in changes}
        numbers = {id(seen.tensor): number for number, seen in enumerate(self.seen)}
        kept: list[Any] = []
        for entry in self._trace.shown.values():
            if not entry.writes_grad or entry.grad is entry.first_grad:
                continue
            grad, number = entry.grad, numbers.get(id(entry.tensor), -1)
            if grad is None or not self._trace.is_made(grad):
                self.gradients.append((entry.tensor, number, grad))
            elif entry.reads_grad or id(entry.tensor) not in written:
                self.gradients.append((entry.tensor, number, len(kept)))
                kept.append(grad)
            else:
                node = gradient_used_up(grad.dtype, trace_shape(self._trace, grad), grad.device)
                self.gradients.append((entry.tensor, number, type(grad)._of_buffer(node, grad._place)))
        self.reads_grad = [(e.tensor, e.first_grad is None) for e in self._trace.shown.values() if e.reads_grad]
        self.requires = (
            [(e.tensor, e.tensor.requires_grad) for e in self._trace.shown.values()]
            if self._trace.asks_gradients
            else []
        )
        return kept

    def _cut(self, value: UOp) -> tuple[str, bool]:
        """The name of the function, if a gradient would go on from a result into it, and whether tensors ask for it."""
        takes = {e.start: e.tensor for e in self._trace.shown.values() if e.tensor.requires_grad is not False}
        stack, seen, found = [value], {value}, []
        while stack:
            node = stack.pop()
            if node in takes:
                found.append(takes[node])
            if node.dtype.is_float and node.op is not ops.DETACH:
                new = [s for s in node.src if s not in seen]
                seen.update(new)
                stack += new
        floats = [tensor for tensor in found if tensor.dtype.is_float]
        return (self.name, any(tensor.requires_grad for tensor in floats)) if floats else ("", False)

    # ---- replay

    def _prepare_replay(self) -> None:
        trace, program = self._trace, self.program
        self._captured = [seen for seen in self.seen if seen.argument < 0]
        self._tensors = [seen.tensor for seen in self._captured]
        self._by_owner = [(n, seen.owner) for n, seen in enumerate(self._captured) if seen.owner is not None]
        self._ids: list[int] | None = None
        self._nodes: list[weakref.ref[UOp]] = []
        self._arguments = [seen for seen in self.seen if seen.argument >= 0]
        self._captured_sites = {seen.site for seen in self._captured}
        self._table: list[Any] = [program.fixed.get(place) for place in range(program.size)]
        self._draws = trace.draws
        self._seed, self._drawn = trace.seed, trace.drawn
        self._relative = sum(drawn.count for drawn in trace.draws if drawn.seed is None)
        if self._draws:
            self._counters: dict[str, Buffer] = {}
            for drawn in self._draws:
                self._counters.setdefault(str(drawn.placeholder.device), None)  # type: ignore[arg-type]
            for name in self._counters:
                self._counters[name] = Buffer(name, COUNTER * len(self._draws))
            for number, drawn in enumerate(self._draws):
                place = program.inputs.get(drawn.placeholder)
                if place is not None:
                    whole = self._counters[str(drawn.placeholder.device)]
                    self._table[place] = whole.view(COUNTER * number, 16)

    def _stale(self, _: Any) -> None:
        self._ids = None

    def _refresh(self) -> bool:
        """Finds the memory of captured tensors again. Whether they are still what was captured."""
        bases: dict[int, UOp] = {}
        wanted: list[UOp] = []
        for seen in self._captured:
            base = _base(seen.tensor, seen.start, self.sites[seen.site].placeholder, views=True)
            if base is None or bases.setdefault(seen.site, base) is not base:
                return False
        if len({id(base) for base in bases.values()}) != len(bases):
            return False
        wanted = list(bases.values())
        for site, buffer in zip(bases, realize(wanted), strict=True):
            place = self.sites[site].place
            if place >= 0:
                self._table[place] = storage(buffer)
        self._bases = {id(base) for base in wanted}
        self._nodes = [weakref.ref(seen.tensor.uop, self._stale) for seen in self._captured]
        self._ids = [id(seen.tensor.uop) for seen in self._captured]
        return True

    def replay(self, arguments: Sequence[Any], bindings: Mapping[str, int], draw: Callable[..., Any]) -> Any:
        """Runs the program; MISSED if it does not fit."""
        for tensor, is_none in self.reads_grad:
            if (tensor.grad is None) is not is_none:
                return MISSED
        for number, owner in self._by_owner:
            self._tensors[number] = self._captured[number].tensor = owner.grad
        for tensor, node in self.constants:
            if tensor.uop is not node:
                return MISSED
        for tensor, requires in self.requires:
            if tensor.requires_grad is not requires:
                return MISSED
        if self._ids is None or list(map(id, map(_uop, self._tensors))) != self._ids:
            if not self._refresh():
                return MISSED
        table = self._table.copy()
        bases = self._bind_arguments(arguments, table)
        if bases is None:
            return MISSED
        then: list[tuple[Any, ...]] = []
        for change in self.changes:
            self._place_state(change, arguments, table, then)
        nodes = []
        for place, (kind, value, device, _) in zip(self.program.outputs, self._outputs, strict=True):
            node = new_buffer(value.dtype, _rebound(value.shape, bindings), device)
            table[place] = storage(node)
            nodes.append(node)
        made = [kind._of_buffer(node, *where) for node, (kind, _, _, where) in zip(nodes, self._outputs, strict=True)]
        for tensor, number, value in self.gradients:
            target = tensor if number < 0 else self._current(number, arguments)
            grad = made[self._results + value] if type(value) is int else value
            then.append((raw_set("grad"), target, grad))
        if self._draws:
            self._fill_counters(draw)
        self.program.run(table, {**self.program.variables, **bindings}, then)
        del table, bases
        return self._result(made, arguments)

    def _current(self, number: int, arguments: Sequence[Any]) -> Any:
        seen = self.seen[number]
        return seen.tensor if seen.argument < 0 else arguments[seen.argument]

    def _bind_arguments(self, arguments: Sequence[Any], table: list[Any]) -> dict[int, UOp] | None:
        """Puts the memory of arguments into the table. None if they share it otherwise than they did."""
        bases: dict[int, UOp] = {}
        for seen in self._arguments:
            tensor = arguments[seen.argument]
            base = _base(tensor, seen.start, self.sites[seen.site].placeholder, self.views)
            if base is None or bases.setdefault(seen.site, base) is not base:
                return None
        by_device: dict[str | None, list[int]] = {}
        taken: set[int] = set()
        for site, base in bases.items():
            if base.device is not None:
                if id(base) in taken or (id(base) in self._bases) is not (site in self._captured_sites):
                    return None
                taken.add(id(base))
            place = self.sites[site].place
            if place < 0:
                continue
            if base.op is ops.BUFFER:
                table[place] = storage(base)
            else:
                by_device.setdefault(self.sites[site].placeholder.device, []).append(site)
        for device, sites in by_device.items():
            for site, buffer in zip(sites, realize([bases[site] for site in sites], device), strict=True):
                table[self.sites[site].place] = storage(buffer)
        return bases

    def _place_state(self, change: Change, arguments: Sequence[Any], table: list[Any], then: list[Any]) -> None:
        """Where a new value goes: to the old memory, or to a new one that the tensor gets afterwards."""
        state = change.state
        tensor = change.tensor if change.seen < 0 else self._current(change.seen, arguments)
        family = tensor._family
        if state.is_part or state.can_overwrite:
            if change.seen >= 0:
                old = _own_memory(tensor, family)
                if old is not None:
                    table[state.place] = old
                    return
        node = new_buffer(change.dtype, change.shape, str(state.value.device or tensor.device))
        table[state.place] = storage(node)
        if state.is_part:
            before = realize([tensor.uop if family is None else family.uop])[0]
            storage(node).copy_from(storage(before))
            del before
        then += _attached(tensor, family, node)

    def _fill_counters(self, draw: Callable[..., Any]) -> None:
        reserve, counter_bytes = draw
        seed, start = reserve(self._relative, self._seed, self._drawn)
        for number, drawn in enumerate(self._draws):
            data = (
                counter_bytes(seed, start + drawn.start)
                if drawn.seed is None
                else counter_bytes(drawn.seed, drawn.start)
            )
            for whole in self._counters.values():
                whole.memory()[COUNTER * number : COUNTER * number + 16] = data


def _left(entry: Shown) -> bool:
    return entry.family is not None and entry.first_family is None and entry.family.uop is not entry.uop


def trace_shape(trace: Trace, tensor: Any) -> tuple[Any, ...]:
    """The shape of a tensor of a trace."""
    return tuple(trace.value(tensor).shape)


def _unsupported(name: str, what: str, fix: str) -> JitError:
    return JitError(f"{name}: the captured function {what}", fix=fix)


def _base(tensor: Any, start: UOp, placeholder: UOp, views: bool) -> UOp | None:
    """What a placeholder stands for now, if the tensor shows it in the same way; else None."""
    node = tensor.uop
    family = tensor._family if views else None
    base: UOp = node if family is None else family.uop
    if base.dtype is not placeholder.dtype or len(base.shape) != len(placeholder.shape):
        return None
    if base.shape != placeholder.shape and not _fits(base.shape, placeholder.shape):
        return None
    if base.device is not None and base.device != placeholder.device:
        return None
    if base is node:
        return base if start is placeholder else None
    return base if tensor._family.shown_on(placeholder).same_view(node, base) is start else None


def _fits(shape: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether two shapes are the same but for the values of variables."""
    return all(
        a is b or a == b or (isinstance(a, UOp) and isinstance(b, UOp) and _unbound(a) is _unbound(b))
        for a, b in zip(shape, other, strict=True)
    )


def _unbound(size: UOp) -> UOp:
    known: dict[UOp, UOp] = {}
    for node in topological((size,)):
        src = tuple([known[s] for s in node.src])
        known[node] = src[0] if node.op is ops.BIND else node if src == node.src else node.replace(src=src)
    return known[size]


def _rebound(shape: tuple[Any, ...], bindings: Mapping[str, int]) -> tuple[Any, ...]:
    """A shape with the values that variables have in this call."""
    if all(type(size) is int for size in shape):
        return shape
    sizes = []
    for size in shape:
        known: dict[UOp, UOp] = {}
        for node in topological((size,)) if isinstance(size, UOp) else ():
            src = tuple([known[s] for s in node.src])
            known[node] = node if src == node.src else node.replace(src=src)
            if node.op is ops.BIND:
                name = node.src[0].arg.name
                known[node] = node.src[0].bind(bindings.get(name, node.src[1].arg))
        sizes.append(known[size] if isinstance(size, UOp) else size)
    return tuple(sizes)


def _own_memory(tensor: Any, family: Any) -> Buffer | None:
    """The memory of a tensor, if it may be written: nothing but the tensor and its views can see it."""
    node = [tensor.uop if family is None else family.uop]
    if node[0].op is not ops.BUFFER:
        return None
    buffer = storage(node[0])
    if not buffer.writable or buffer.is_shared:
        return None
    if family is None:
        return buffer if getrefcount(node[0]) <= 3 else None  # the tensor, the list, the argument
    return buffer if _family_is_alone(family, node) else None


def _family_is_alone(family: Any, base: list[UOp]) -> bool:
    """Whether only the members of a family refer to its base and to the views of it."""
    tensors = family.members()
    order: list[UOp] = [base[0]]
    listed = {id(base[0])}
    held: Counter[int] = Counter({id(base[0]): 3})  # the family, `base`, `order`
    for tensor in tensors:
        view = tensor.uop
        held[id(view)] += 1
        while id(view) not in listed:
            listed.add(id(view))
            order.append(view)
            held[id(view)] += 1
            view = view.src[0]
            held[id(view)] += 1
    tensor = view = None
    return all(getrefcount(order[i]) <= held[id(order[i])] + 1 for i in range(len(order)))


def _attached(tensor: Any, family: Any, node: UOp) -> list[tuple[Any, ...]]:
    """The calls that give a tensor and its family other memory."""
    if family is None:
        return [(raw_set("uop"), tensor, node)]
    fresh = family.shown_on(node)
    calls: list[tuple[Any, ...]] = [(setattr, family, "uop", node)]
    for member in family.members():
        calls.append((raw_set("uop"), member, fresh.same_view(member.uop, family.uop)))
    return calls


def _holes(capture: Capture, result: Any, number_of: Mapping[int, int]) -> tuple[list[Any], Callable[..., Any]]:
    """The tensors to compute for a result, and how the result is put together from them."""
    values: list[Any] = []
    places: dict[int, int] = {}

    def number(tensor: Any) -> Any:
        if id(tensor) in number_of:
            return _Argument(number_of[id(tensor)])
        if id(tensor) not in places:
            places[id(tensor)] = len(values)
            values.append(tensor)
        return _Value(places[id(tensor)])

    def refuse(value: Any, name: str) -> Any:
        raise JitError(
            f"{capture.name}: it returns a {type(value).__name__} ({name}), which a replay cannot make",
            fix="Return tensors, numbers, strings, and lists, tuples, dictionaries or dataclasses of them.",
        )

    kind = tensor_type()
    if isinstance(result, kind):
        hole = number(result)
        if isinstance(hole, _Value):
            return values, lambda made, arguments: made[0]
        return values, lambda made, arguments: arguments[hole.number]
    template = replaced(result, number, "result", refuse)
    return values, lambda made, arguments: _filled(template, made, arguments)


@dataclass(frozen=True, slots=True)
class _Value:
    number: int


@dataclass(frozen=True, slots=True)
class _Argument:
    number: int


def _filled(template: Any, made: Sequence[Any], arguments: Sequence[Any]) -> Any:
    if type(template) is _Value:
        return made[template.number]
    if type(template) is _Argument:
        return arguments[template.number]
    kind = type(template)
    if kind in (tuple, list):
        return kind([_filled(part, made, arguments) for part in template])
    return replaced_holes(template, made, arguments)


def replaced_holes(template: Any, made: Sequence[Any], arguments: Sequence[Any]) -> Any:
    """The same for other containers."""
    import dataclasses  # lazy: placeholder

    kind = type(template)
    if isinstance(template, tuple) and hasattr(template, "_fields"):
        return kind(*[_filled(part, made, arguments) for part in template])
    if isinstance(template, dict):
        return {key: _filled(part, made, arguments) for key, part in template.items()}
    if dataclasses.is_dataclass(template) and not isinstance(template, type):
        names = [field.name for field in dataclasses.fields(template) if field.init]
        return kind(**{name: _filled(getattr(template, name), made, arguments) for name in names})
    return template
