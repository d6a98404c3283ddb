"""Calls of functions in tensor graphs: each body is scheduled once, and its kernels stand in the list for every call.

    a = block(x, w1)        group(store(arg, x * 2), ...)     [x * 2 -> t0; block's kernels(t0, w1 -> t1);
    b = block(a, w2)   ->   values read t1, t2            ->   block's kernels(t1, w2 -> t2); ...]

A call is cut out of the graph: what it returns becomes a buffer that the rest reads, what it is given becomes one more
value to store (unless it is memory already). The rest is scheduled as if there were no call; `needs` tells which values
have to be stored before somebody may read a result. Then the kernels of the bodies are put in between.

Calls with the same arguments whose bodies share something are one call: a gradient needs values from inside of a
function, so it calls one that returns more, and the function itself is then not called a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from whit.cache import register_cache
from whit.config import settings_key
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp, fresh_buffer, make
from whit.target import Target

FIRST_BUFFER = 1 << 24  # ids of the buffers between calls; those of kernels start at 0

# (FUNCTION of values, target, settings) -> the LINEAR that stores them into its first params
_schedules: dict[tuple[UOp, Target | None, tuple[int | float | str, ...]], UOp] = {}
register_cache(_schedules.clear, "schedule.bodies")

Scheduler = Callable[[UOp], UOp]
WithoutCalls = Callable[[UOp, Mapping[UOp, Collection[UOp]]], UOp]


@dataclass(slots=True)
class _Call:
    """A call that was cut out."""

    function: UOp
    arguments: tuple[UOp, ...]  # memories
    results: tuple[UOp, ...]  # the buffers of the members


@dataclass(slots=True)
class _Cut:
    """The state of cutting the calls out of one graph."""

    written: set[UOp]  # params that the graph stores to
    done: dict[UOp, UOp] = field(default_factory=dict)
    calls: dict[UOp, _Call] = field(default_factory=dict)  # by the CALL
    kept: dict[UOp, UOp] = field(default_factory=dict)  # argument -> the buffer it is stored to
    buffers: int = 0

    def new_buffer(self, value: UOp) -> UOp:
        """A buffer for a value."""
        self.buffers += 1
        return _new_buffer(FIRST_BUFFER + self.buffers, value)

    def cut(self, node: UOp) -> None:
        """The call without its place in the graph."""
        function, *arguments = node.src
        members = members_of(function)
        given = tuple([self.argument(self.done[argument]) for argument in arguments])
        self.calls[node] = _Call(function, given, tuple([self.new_buffer(member) for member in members]))

    def argument(self, value: UOp) -> UOp:
        """The memory in which a call finds a value."""
        memory = value
        while memory.op is ops.RESHAPE:
            memory = memory.src[0]
        if memory.op in (ops.PARAM, ops.BUFFER) and memory not in self.written:
            return value
        if value not in self.kept:
            self.kept[value] = self.new_buffer(value)
        return self.kept[value]


def schedule_with_calls(graph: UOp, schedule: Scheduler, without_calls: WithoutCalls, target: Target | None) -> UOp:
    """A GROUP of STOREs whose values contain calls -> LINEAR. `schedule` does it for bodies, `without_calls` for what
    is left of this graph."""
    graph = merge_calls(graph)
    state = _Cut({_memory(store.src[0]) for store in graph.src})
    for node in topological((graph,)):
        if node.op is ops.CALL:
            state.cut(node)
            state.done[node] = state.calls[node].results[0]  # where it stands for itself, it returns one value
        elif node.op is ops.ITEM and node.src[0].op is ops.CALL:
            state.done[node] = state.calls[node.src[0]].results[node.arg]
        elif not node.op.opaque:
            state.done[node] = _with_sources(node, [state.done.get(s, s) for s in node.src])
    stores = [*state.done[graph].src, *(buffer.store(value) for value, buffer in state.kept.items())]
    homes, stores = _homes(stores, state.calls.values())
    linear = without_calls(UOp.group(*stores), _needs(state))
    settings = settings_key()

    def of_body(function: UOp) -> UOp:
        key = (function, target, settings)
        if key not in _schedules:
            _schedules[key] = _body_schedule(function, schedule)
        return _schedules[key]

    return _with_bodies(linear, list(state.calls.values()), homes, of_body)


def merge_calls(graph: UOp) -> UOp:
    """The graph with one call in place of several with the same arguments whose bodies return something in common."""
    by_arguments: dict[tuple[UOp, ...], list[UOp]] = {}
    order = topological((graph,))
    for node in order:
        if node.op is ops.CALL and node.src[0].src[0].op is ops.GROUP:
            by_arguments.setdefault(node.src[1:], []).append(node)
    union: dict[UOp, UOp] = {}  # CALL -> the FUNCTION that returns everything that is wanted
    for calls in by_arguments.values():
        for alike in _sharing(calls):
            members = dict.fromkeys(member for call in alike for member in members_of(call.src[0]))
            longest = max((call.src[0] for call in alike), key=lambda function: len(members_of(function)))
            whole = len(members_of(longest)) == len(members)
            function = longest if whole else UOp.group(*members).function(longest.arg.name)
            union.update((call, function) for call in alike)
    if not union:
        return graph
    done: dict[UOp, UOp] = {}  # what is another node now
    for node in order:
        if node.op.opaque:
            continue
        src = [done.get(s, s) for s in node.src]
        if node in union:
            done[node] = union[node].call(*src[1:])
        elif node.op is ops.ITEM and node.src[0] in union:
            member = members_of(node.src[0].src[0])[node.arg]
            done[node] = make(ops.ITEM, (src[0],), members_of(union[node.src[0]]).index(member))
        elif tuple(src) != node.src:
            done[node] = make(node.op, tuple(src), node.arg)
    return done.get(graph, graph)


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


def _with_sources(node: UOp, src: list[UOp]) -> UOp:
    return node if tuple(src) == node.src else make(node.op, tuple(src), node.arg)


def _memory(target: UOp) -> UOp:
    while target.op not in (ops.PARAM, ops.BUFFER):
        target = target.src[0]
    return target


def _homes(stores: list[UOp], calls: Iterable[_Call]) -> tuple[dict[UOp, UOp], list[UOp]]:
    """Results that are stored to a param as they are: the call writes them there. The other stores."""
    results = {result for call in calls for result in call.results}
    homes: dict[UOp, UOp] = {}
    others: list[UOp] = []
    for store in stores:
        target, value, *positions = store.src
        if value in results and value not in homes and target.op is ops.PARAM and not positions:
            homes[value] = target
        else:
            others.append(store)
    return homes, others


def _needs(state: _Cut) -> dict[UOp, frozenset[UOp]]:
    """For each result of a call the buffers that are filled before it is known."""
    found: dict[UOp, frozenset[UOp]] = {}
    filled = set(state.kept.values())
    for call in state.calls.values():
        needed: set[UOp] = set()
        for argument in call.arguments:
            memory = _memory(argument)
            needed |= found.get(memory, frozenset())
            if memory in filled:
                needed.add(memory)
        for result in call.results:
            found[result] = frozenset(needed)
    return found


def _with_bodies(linear: UOp, calls: list[_Call], homes: dict[UOp, UOp], of_body: Scheduler) -> UOp:
    """The kernels of each call before the first that reads its results, and those that nobody reads at the end."""
    owner = {result: call for call in calls for result in call.results}
    listed: list[UOp] = []
    emitted: set[int] = set()
    scratch = _Scratch(FIRST_BUFFER << 1)

    def emit(call: _Call) -> None:
        waiting = [call]
        while waiting:
            call = waiting[-1]
            missing = [owner[m] for m in map(_memory, call.arguments) if m in owner and id(owner[m]) not in emitted]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            if id(call) not in emitted:
                emitted.add(id(call))
                listed.extend(_inlined(call, homes, of_body, scratch))

    for kernel in linear.src:
        for argument in kernel.src[1:]:
            if argument in owner:
                emit(owner[argument])
        listed.append(_with_sources(kernel, [homes.get(s, s) for s in kernel.src]))
    for call in calls:
        emit(call)
    return make(ops.LINEAR, tuple(listed))


@dataclass(slots=True)
class _Scratch:
    """Numbers for buffers that live inside of one call."""

    next: int


def _inlined(call: _Call, homes: Mapping[UOp, UOp], of_body: Scheduler, scratch: _Scratch) -> list[UOp]:
    """The kernels of a call on its memories."""
    linear = of_body(call.function)
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
                places[memory] = _new_buffer(scratch.next, memory)
                scratch.next += 1
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


def _body_schedule(function: UOp, schedule: Scheduler) -> UOp:
    """The schedule of a function: the first params get what it returns, its own params come after them."""
    members = members_of(function)
    (body,) = function.src
    params = [node for node in body.topological() if node.op is ops.PARAM]
    moved = {node: make(ops.PARAM, node.src, replace(node.arg, slot=node.arg.slot + len(members))) for node in params}
    values = _plain(UOp.group(*members).substitute(moved)).src
    stores = [UOp.param(slot, value.dtype, value.shape).store(value) for slot, value in enumerate(values)]
    return schedule(UOp.group(*stores))


def _plain(body: UOp) -> UOp:
    """The body without ops that matter to gradients only."""
    done: dict[UOp, UOp] = {}
    for node in body.topological():
        if node.op in ops.SAME_VALUE:
            done[node] = done[node.src[0]]
        else:
            done[node] = node if node.op.opaque else _with_sources(node, [done[s] for s in node.src])
    return done[body]
