"""Calls of functions in tensor graphs: each body is scheduled once, and its kernels stand in the list for every call.

    a = block(x, w1)        group(store(arg, x * 2), ...)     [x * 2 -> t0; block's kernels(t0, w1 -> t1);
    b = block(a, w2)   ->   values read t1, t2            ->   block's kernels(t1, w2 -> t2); ...]

A call is cut out of the graph: what it returns becomes a buffer that the rest reads, what it is given becomes one more
value to store (unless it is memory already). The rest is scheduled as if there were no call; `filled_before`
tells which values have to be stored before somebody may read a result. Then the kernels of the bodies are put in
between.

A contiguous part of a memory is passed as it is. Of a value whose parts are passed to many calls, as a step of a
recurrent layer gets its input, all is stored once. Results that are stacked are written where they are wanted.

Calls with the same arguments whose bodies share something are one call: a gradient needs values from inside of a
function, so it calls one that returns more, and the function itself is then not called a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from math import prod
from typing import Any

from whit.cache import RecentlyUsed
from whit.config import settings_key
from whit.ir import ops
from whit.ir.contiguous import start_of_view
from whit.ir.graph import topological
from whit.ir.map_graph import map_graph, rebuilt
from whit.ir.op import Sources
from whit.ir.uop import UOp, fresh_buffer, make
from whit.records import dataclass, field, replace
from whit.schedule.loops import Placed, StepSchedule, unrolled
from whit.target import Target

PARTS = (ops.RESHAPE, ops.SHRINK)
FIRST_BUFFER = 1 << 24  # ids of the buffers between calls; those of kernels start at 0

# (FUNCTION of values, slots, target, settings) -> the LINEAR that stores them into its first params
_schedules: RecentlyUsed[tuple[Any, ...], UOp] = RecentlyUsed("schedule.bodies", 1024)

Scheduler = Callable[[UOp], UOp]


@dataclass(slots=True)
class _Call:
    """A call that was cut out."""

    function: UOp
    arguments: tuple[UOp, ...]  # memories
    results: tuple[UOp, ...]  # the buffers of the members
    loop: UOp | None = None  # the LOOP, if it is one


@dataclass(slots=True)
class Cut:
    """The state of cutting the calls out of one graph."""

    written: set[UOp]  # params that the graph stores to
    shared: set[UOp]  # values of which calls get parts
    done: dict[UOp, UOp] = field(default_factory=dict)
    calls: dict[UOp, _Call] = field(default_factory=dict)  # by the CALL
    owners: dict[UOp, list[_Call]] = field(default_factory=dict)  # memory -> the calls that write to it
    stored: dict[UOp, UOp] = field(default_factory=dict)  # argument -> the buffer it is stored to
    inside: dict[UOp, UOp] = field(default_factory=dict)  # result -> the part of another memory that it is written to
    homes: dict[UOp, UOp] = field(default_factory=dict)  # result -> where it is written in the end, if elsewhere
    sources: list[int | UOp] = field(default_factory=list)  # of each kernel: its number among the others, or its call
    buffers: int = 0

    def new_buffer(self, value: UOp) -> UOp:
        """A buffer for a value."""
        self.buffers += 1
        return _new_buffer(FIRST_BUFFER + self.buffers, value)

    def cut(self, node: UOp) -> None:
        """The call without its place in the graph."""
        function, *arguments = node.src
        members = members_of(function)
        given = tuple([self.argument(argument) for argument in arguments])
        call = self.calls[node] = _Call(function, given, tuple([self.new_buffer(member) for member in members]))
        self.owners.update((result, [call]) for result in call.results)

    def cut_loop(self, node: UOp) -> None:
        """The same of a loop."""
        operands = node.src[node.arg.functions : -1 if node.arg.length is None else None]
        given = tuple([self.argument(operand) for operand in operands])
        items = [make(ops.ITEM, (node,), place) for place in range(len(members_of(node.src[0])))]
        results = tuple([self.new_buffer(item) for item in items])
        call = self.calls[node] = _Call(node.src[0], given, results, node)
        self.owners.update((result, [call]) for result in results)

    def argument(self, node: UOp) -> UOp:
        """The memory in which a call finds a value."""
        views, base = views_of_part(node)
        value = self.done[base]
        memory = value
        while memory.op is ops.RESHAPE:
            memory = memory.src[0]
        if memory.op not in (ops.PARAM, ops.BUFFER) or memory in self.written:
            if views and base not in self.shared:
                views, value = [], self.done[node]
            if value not in self.stored:
                self.stored[value] = self.new_buffer(value)
            value = self.stored[value]
        for view in views:
            value = make(view.op, (value,), view.arg)
        return value

    def stack(self, results: list[UOp], node: UOp) -> UOp | None:
        """The memory that results of calls are written to one after the other, if they are not elsewhere already."""
        if len(set(results)) < len(results):
            return None
        if not all(result in self.owners and result not in self.inside for result in results):
            return None
        memory = self.new_buffer(node)
        rest = [(0, size) for size in node.shape[1:]]
        for place, result in enumerate(results):
            self.inside[result] = memory.shrink([(place, 1), *rest]).reshape(result.shape)
        self.owners[memory] = [call for result in results for call in self.owners[result]]
        return memory


def views_of_part(node: UOp) -> tuple[list[UOp], UOp]:
    """The views that show a part of a value in which elements lie together, the first one first, and that value; none
    if it is all of a value."""
    views: list[UOp] = []
    is_part = False
    base = node
    while base.op in PARTS and len(base.src) == 1 and start_of_view(base) is not None:
        is_part = is_part or base.op is ops.SHRINK
        views.append(base)
        base = base.src[0]
    return (views[::-1], base) if is_part else ([], node)


def _shared(order: Iterable[UOp]) -> set[UOp]:
    """The values of which calls together get at least half, in parts."""
    parts: dict[UOp, dict[UOp, None]] = {}
    for node in order:
        for argument in node.src[1:] if node.op is ops.CALL else ():
            views, base = views_of_part(argument)
            if views:
                parts.setdefault(base, {})[argument] = None
    return {base for base, found in parts.items() if 2 * sum(prod(part.shape) for part in found) >= prod(base.shape)}


def cut_calls(graph: UOp) -> tuple[UOp, Cut]:
    """A GROUP of STOREs whose values contain calls -> the same without them, and what was cut out."""
    graph = merge_loops(merge_calls(graph))
    order = topological((graph,))
    state = Cut({_memory(store.src[0]) for store in graph.src}, _shared(order))
    for node in order:
        if node.op is ops.CALL:
            state.cut(node)
            state.done[node] = state.calls[node].results[0]  # where it stands for itself, it returns one value
        elif node.op is ops.LOOP:
            state.cut_loop(node)
        elif node.op is ops.ITEM and node.src[0].op in (ops.CALL, ops.LOOP):
            state.done[node] = state.calls[node.src[0]].results[node.arg]
        elif not node.op.opaque:
            src = [state.done.get(s, s) for s in node.src]
            memory = state.stack(src, node) if node.op is ops.STACK else None
            state.done[node] = rebuilt(node, tuple(src)) if memory is None else memory
    stores = [*state.done[graph].src, *(buffer.store(value) for value, buffer in state.stored.items())]
    state.homes, stores = _homes(stores, state)
    return UOp.group(*stores), state


def put_calls_back(linear: UOp, cut: Cut, schedule: Scheduler, target: Target) -> UOp:
    """The LINEAR of what was left of a graph -> with the kernels of the calls. `schedule` is for bodies."""
    settings = settings_key()

    def of_body(function: UOp, results: int, params: int, states: int = 0) -> UOp:
        key = (function, results, params, states, target, settings)
        found = _schedules.get(key)
        if found is None:
            found = _schedules[key] = _body_schedule(function, schedule, results, params, states)
        return found

    return _with_bodies(linear, cut, of_body, target.is_gpu)


def merge_calls(graph: UOp) -> UOp:
    """The graph with one call in place of several with the same arguments whose bodies return something in common."""
    union = _shared_functions(graph)
    if not union:
        return graph

    def merged(node: UOp, src: Sources) -> UOp | None:
        if node in union:
            return union[node].call(*src[1:])
        if node.op is ops.ITEM and node.src[0] in union:
            member = members_of(node.src[0].src[0])[node.arg]
            return make(ops.ITEM, src, members_of(union[node.src[0]]).index(member))
        return None

    return map_graph(graph, merged)


def merge_loops(graph: UOp) -> UOp:
    """The graph with one loop in place of several with the same operands and states that return other outputs."""
    alike: dict[tuple[Any, ...], list[UOp]] = {}
    for node in topological((graph,)):
        if node.op is ops.LOOP and node.arg.kind == "scan":
            members = members_of(node.src[0])
            alike.setdefault((node.src[1:], node.arg, members[: node.arg.carries]), []).append(node)
    union: dict[UOp, UOp] = {}
    for loops in alike.values():
        if len(loops) > 1:
            every = [members_of(loop.src[0]) for loop in loops]
            carries = loops[0].arg.carries
            outputs = dict.fromkeys(member for members in every for member in members[carries:])
            name = loops[0].src[0].arg.name
            union.update((loop, UOp.group(*every[0][:carries], *outputs).function(name)) for loop in loops)

    def merged(node: UOp, src: Sources) -> UOp | None:
        if node in union:
            return make(ops.LOOP, (union[node], *src[1:]), node.arg)
        if node.op is ops.ITEM and node.src[0] in union:
            loop, carries = node.src[0], node.src[0].arg.carries
            if node.arg < carries:
                return None
            outputs = members_of(union[loop])[carries:]
            return make(ops.ITEM, src, carries + outputs.index(members_of(loop.src[0])[node.arg]))
        return None

    return map_graph(graph, merged) if union else graph


def _shared_functions(graph: UOp) -> dict[UOp, UOp]:
    """For each call of several with the same arguments that share members the function that returns all of these."""
    by_arguments: dict[tuple[UOp, ...], list[UOp]] = {}
    for node in topological((graph,)):
        if node.op is ops.CALL and node.src[0].src[0].op is ops.GROUP:
            by_arguments.setdefault(node.src[1:], []).append(node)
    union: dict[UOp, UOp] = {}
    for alike in chain.from_iterable(map(_sharing, by_arguments.values())):
        members = dict.fromkeys(member for call in alike for member in members_of(call.src[0]))
        longest = max((call.src[0] for call in alike), key=lambda function: len(members_of(function)))
        whole = len(members_of(longest)) == len(members)
        function = longest if whole else UOp.group(*members).function(longest.arg.name)
        union.update((call, function) for call in alike)
    return union


def _sharing(calls: list[UOp]) -> list[list[UOp]]:
    """Calls with the same arguments, parted into those that have members in common; single ones are left out."""
    parts: list[tuple[set[UOp], list[UOp]]] = []
    for call in calls:
        members, alike = set(members_of(call.src[0])), [call]
        apart = []
        for others, found in parts:
            if members.isdisjoint(others):
                apart.append((others, found))
            else:
                members |= others
                alike = found + alike
        parts = [*apart, (members, alike)]
    return [alike for _, alike in parts if len(alike) > 1]


def members_of(function: UOp) -> tuple[UOp, ...]:
    """What a function of the tensor stage returns: several values, or one."""
    (body,) = function.src
    return body.src if body.op is ops.GROUP else (body,)


def _memory(target: UOp) -> UOp:
    while target.op not in (ops.PARAM, ops.BUFFER):
        target = target.src[0]
    return target


def _homes(stores: list[UOp], state: Cut) -> tuple[dict[UOp, UOp], list[UOp]]:
    """Where results are written: to the param that they are stored to as they are, or inside of another memory. The
    other stores."""
    homes: dict[UOp, UOp] = {}
    others: list[UOp] = []
    for store in stores:
        target, value, *positions = store.src
        is_free = value in state.owners and value not in homes and value not in state.inside
        if is_free and target.op is ops.PARAM and not positions:
            homes[value] = target
        else:
            others.append(store)
    for result, part in reversed(state.inside.items()):  # what holds a memory has a place before the memory
        homes[result] = _on(homes, part)
    return homes, others


def filled_before(state: Cut) -> dict[UOp, frozenset[UOp]]:
    """For each memory that calls write the buffers that are filled before it is known."""
    found: dict[UOp, frozenset[UOp]] = {}
    filled = set(state.stored.values())
    none: frozenset[UOp] = frozenset()
    for memory, calls in state.owners.items():  # results before what they are inside of, and that before its users
        if len(calls) > 1 or memory not in calls[0].results:
            found[memory] = none.union(*[found[call.results[0]] for call in calls])
            continue
        (call,) = calls
        before = [_memory(argument) for argument in call.arguments]
        found[memory] = none.union(*[found.get(each, none) for each in before], [m for m in before if m in filled])
    return found


def _with_bodies(linear: UOp, state: Cut, of_body: StepSchedule, is_gpu: bool) -> UOp:
    """The kernels of each call before the first that reads its results, and those that nobody reads at the end."""
    owners, homes = state.owners, state.homes
    listed: list[UOp] = []
    nodes = {id(call): node for node, call in state.calls.items()}
    emitted: set[int] = set()
    scratch = _Scratch(FIRST_BUFFER << 1)

    def emit(calls: Iterable[_Call]) -> None:
        waiting = [call for call in calls if id(call) not in emitted][::-1]
        while waiting:
            call = waiting[-1]
            missing = [c for m in map(_memory, call.arguments) for c in owners.get(m, ()) if id(c) not in emitted]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            if id(call) not in emitted:
                emitted.add(id(call))
                is_loop = call.loop is not None
                listed.extend((_looped if is_loop else _inlined)(call, homes, of_body, scratch, is_gpu))
                state.sources += [nodes[id(call)]] * (len(listed) - len(state.sources))

    for number, kernel in enumerate(linear.src):
        for argument in kernel.src[1:]:
            if argument.op is not ops.BIND:
                emit(owners.get(_memory(argument), ()))
        listed.append(rebuilt(kernel, (kernel.src[0], *[_on(homes, s) for s in kernel.src[1:]])))
        state.sources.append(number)
    emit(state.calls.values())
    return make(ops.LINEAR, tuple(listed))


@dataclass(slots=True)
class _Scratch:
    """Numbers for buffers that live inside of one call."""

    next: int

    def buffer(self, like: UOp) -> UOp:
        """One more."""
        self.next += 1
        return _new_buffer(self.next - 1, like)


def _looped(call: _Call, homes: Mapping[UOp, UOp], of_body: StepSchedule, scratch: _Scratch, is_gpu: bool) -> list[UOp]:
    """A loop on its memories: one call, or on GPUs the kernels of all steps."""
    assert call.loop is not None, "a call of a loop has one"
    loop, arg = call.loop, call.loop.arg
    results, operands = (tuple([_on(homes, memory) for memory in each]) for each in (call.results, call.arguments))
    length = loop.src[-1] if arg.length is None else None
    is_list = is_gpu and arg.kind == "scan" and arg.length is not None
    placed = Placed(arg, loop.src[: arg.functions], results, operands, length, scratch.buffer, follows=not is_list)
    found = placed.as_call(of_body)
    if is_list:
        return [*unrolled(found, scratch.buffer)]
    return [found]


def _inlined(
    call: _Call, homes: Mapping[UOp, UOp], of_body: StepSchedule, scratch: _Scratch, is_gpu: bool
) -> list[UOp]:
    """The kernels of a call on its memories."""
    linear = of_body(call.function, 0, len(members_of(call.function)))
    memories = [_on(homes, memory) for memory in (*call.results, *call.arguments)]
    places: dict[UOp, UOp] = {}  # param or buffer of the body -> memory
    kernels = []
    for kernel in linear.src:
        function, *arguments = kernel.src
        for argument in arguments:
            memory = argument if argument.op is ops.BIND else _memory(argument)
            if memory.op is ops.PARAM:
                places[memory] = memories[memory.arg.slot]
            elif memory.op is ops.BUFFER and memory not in places:
                places[memory] = scratch.buffer(memory)
        kernels.append(make(ops.CALL, (function, *[_on(places, argument) for argument in arguments])))
    return kernels


def _on(places: Mapping[UOp, UOp], argument: UOp) -> UOp:
    """An argument with the memory that it shows, all of it or a part, replaced."""
    if argument in places:
        return places[argument]
    if not argument.src or argument.op is ops.BIND:
        return argument
    memory = _memory(argument)
    return argument.substitute({memory: places[memory]}) if memory in places else argument


def _new_buffer(number: int, like: UOp) -> UOp:
    """A buffer for a value."""
    if all(type(size) is int for size in like.shape):
        return fresh_buffer(number, like.dtype, like.shape, None)
    return UOp.buffer(number, like.dtype, like.shape)


def _body_schedule(function: UOp, schedule: Scheduler, results: int, first: int, states: int) -> UOp:
    """The schedule of a function: params from `results` on get what it returns, its own begin at `first`. Of so many
    states those are left out that it returns as an output, too."""
    members = members_of(function)
    outputs = set(members[states:]) if states else ()
    (body,) = function.src
    params = [node for node in body.topological() if node.op is ops.PARAM]
    moved = {node: make(ops.PARAM, node.src, replace(node.arg, slot=node.arg.slot + first)) for node in params}
    values = _plain(UOp.group(*members).substitute(moved)).src
    wanted = [place for place, member in enumerate(members) if place >= states or member not in outputs]
    slots = [(UOp.param(results + place, values[place].dtype, values[place].shape), values[place]) for place in wanted]
    return schedule(UOp.group(*[param.store(value) for param, value in slots]))


def _plain(body: UOp) -> UOp:
    """The body without ops that matter to gradients only, and without groups inside."""

    def change(node: UOp, src: Sources) -> UOp | None:
        if node.op in ops.SAME_VALUE:
            return src[0]
        return src[0].src[node.arg] if node.op is ops.ITEM and src[0].op is ops.GROUP else None

    return map_graph(body, change)
