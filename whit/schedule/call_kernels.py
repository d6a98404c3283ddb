"""Groups of kernels as calls: what each stores, over params of its own, and which memory these stand for.

    group of t0 = a @ b, t1 = relu(t0)        ->      call f(t0, t1, a, b)

Equal kernels are one function: it has its own params, numbered as they appear, and which part of a memory it accesses
is an argument (`windows`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from whit.ir import ops
from whit.ir.uop import UOp, as_index
from whit.records import dataclass, field
from whit.schedule.groups.group import Group
from whit.schedule.groups.share_loops import share_loops
from whit.schedule.movement import view_position
from whit.schedule.rewrites.split_sort import scratch_of, with_scratch
from whit.schedule.stages.choose import StoredValue
from whit.schedule.stages.join import stores_of
from whit.schedule.values import is_join
from whit.schedule.windows import pass_windows
from whit.simplify import simplify
from whit.target import Target

MEMORIES = frozenset({ops.PARAM, ops.BUFFER, ops.FUNCTION})
PARTS_A_KERNEL = 36  # sources of a long STACK that one kernel writes


@dataclass(slots=True)
class Places:
    """Where the values of kernels lie."""

    targets: Mapping[UOp, list[UOp]]  # value -> the params that get it
    memory: dict[UOp, UOp]  # value -> its memory
    inside: Mapping[UOp, UOp]  # memory -> the part of another that it is
    wanted: set[UOp]  # values that are stored: others are used only at hand


@dataclass(frozen=True, slots=True)
class _Made:
    """A finished kernel."""

    function: UOp
    slots: tuple[int, ...]  # which of the memories that its stores were made of is which argument
    bindings: tuple[UOp, ...]  # further arguments


@dataclass(slots=True)
class Calling:
    """The state of making the calls of one schedule."""

    places: Places
    target: Target
    known: dict[tuple[UOp, str], _Made] = field(default_factory=dict)  # equal layers have equal kernels

    def calls_of(self, group: Group) -> Iterator[UOp]:
        """The calls that compute a group; none if it is stored for something that has no elements."""
        stores = _stores(group, self.places)
        most = PARTS_A_KERNEL if group.kernels[0].parts else max(len(stores), 1)
        name = name_of(group)
        for start in range(0, len(stores), most):
            yield self.call(stores[start : start + most], name)

    def call(self, stores: list[UOp], name: str) -> UOp:
        """Stores as the call of a function over its own params."""
        memory = self.places.memory
        # Own params first: simplifying orders sums and products by what is in them, and equal kernels must come out
        # equal.
        body, arguments = _over_params(UOp.group(*stores), memory)
        body, arguments = pass_windows(body, arguments, self.target.is_gpu)
        made = self.known.get((body, name))
        if made is None:
            simplified = simplify(share_loops(body))
            scratch = scratch_of(simplified, len(memory), self.target)
            memory.update(zip(scratch, scratch, strict=True))
            arguments += scratch
            made = _made(with_scratch(simplified, scratch) if scratch else simplified, name, arguments)
            if not scratch:
                self.known[body, name] = made
        places = [_inside(arguments[slot], self.places.inside) for slot in made.slots]
        return made.function.call(*places, *made.bindings)


def _stores(group: Group, places: Places) -> list[UOp]:
    """What a group of kernels writes."""
    stores: list[UOp] = []
    for kernel in group.kernels:
        if kernel.root not in places.wanted:
            continue
        value = group.values[kernel.root]
        if kernel.is_write:
            stores.extend(value.src)
        elif is_join(kernel.root):
            stores.extend(stores_of(kernel.root, value, places.memory, places.inside))
        else:
            for target in places.targets.get(kernel.root, [places.memory[kernel.root]]):
                stores.extend(_stored(kernel, value, target))
    return stores


def _stored(kernel: StoredValue, value: UOp, target: UOp) -> Iterator[UOp]:
    """The stores of a value into a memory: of a long STACK one for each source."""
    if not kernel.parts:
        yield target.store(value, *kernel.position) if kernel.root.shape else target.store(value)
        return
    for number, part in enumerate(value.src):
        yield target.store(part, *place_of_part(kernel, number))


def place_of_part(kernel: StoredValue, part: int) -> tuple[UOp, ...]:
    """Where an element of a source of a STACK is in the value, which may show the STACK in another order."""
    views, node = [], kernel.root
    while node.op is not ops.STACK:
        if node.op is not ops.STAGE:
            views.append(node)
        node = node.src[0]
    place: tuple[UOp, ...] = (as_index(part), *kernel.position)
    for view in reversed(views):
        place, _ = view_position(view, place)
    return place


def _inside(argument: UOp, inside: Mapping[UOp, UOp]) -> UOp:
    """An argument whose memory may be a part of another."""
    memory = argument.src[0] if argument.op is ops.SHRINK else argument
    if memory not in inside:
        return argument
    return inside[memory] if argument is memory else argument.substitute({memory: inside[memory]})


def _made(body: UOp, name: str, arguments: list[UOp]) -> _Made:
    """A kernel whose params are numbered anew: simplifying may have changed in which order they appear."""
    body, left = _over_params(body, {})
    slots = [place.arg.slot if place.op is ops.PARAM else arguments.index(place) for place in left]
    body = _shaped(body, [arguments[slot] for slot in slots])
    return _Made(body.function(name), tuple(slots), tuple(_bindings(body)))


def _over_params(body: UOp, memory: Mapping[UOp, UOp]) -> tuple[UOp, list[UOp]]:
    """Stores over params that are numbered as they appear, what is written to first; and what they stand for. Kept
    values stand for their memory."""
    params: dict[UOp, UOp] = {}  # memory -> its param
    replacements: dict[UOp, UOp] = {}
    for node in [*[store.src[0] for store in body.src], *body.topological()]:
        if node.op not in MEMORIES or node in replacements:
            continue
        place = memory[node.src[0]] if node.op is ops.FUNCTION else node
        if place not in params:
            params[place] = UOp.param(len(params), place.dtype, place.shape)
        replacements[node] = params[place]
    return body.substitute(replacements), list(params)


def _shaped(body: UOp, arguments: list[UOp]) -> UOp:
    """The body with symbolic sizes of params as those of the arguments: simplifying may have found that one is 1."""
    params = [node for node in body.topological() if node.op is ops.PARAM]
    wrong = [node for node in params if node.shape != arguments[node.arg.slot].shape]
    if not wrong:
        return body
    return body.substitute({p: UOp.param(p.arg.slot, p.dtype, arguments[p.arg.slot].shape) for p in wrong})


def _bindings(body: UOp) -> list[UOp]:
    return [node for node in body.topological() if node.op is ops.BIND]


def name_of(group: Group) -> str:
    """What the kernel does, for people: its last op and the shape of its result."""
    root = group.kernels[-1].root
    reduces = [node for node in group.kernels[-1].value.topological() if node.op is ops.REDUCE]
    what = root.op.name if not reduces else f"{reduces[-1].arg.op.name}_reduce"
    sizes = "x".join(str(size) if isinstance(size, int) else "n" for size in root.shape) or "scalar"
    return f"{what}_{sizes}"
