"""From the tensor graph to a schedule: the passes, in order.

roll_steps       before all others: equal steps of a long graph are calls
calls            around all others: functions that are called are scheduled once each
part_targets     first: rewriting would tell what is written to from its views
raise_permutes   for GPUs: the order in which values are kept, before anything asks how they lie
scatter_at_once  for GPUs: float sums by integers, which threads may add in any order
split_columns    for GPUs: changes the graph, as the next three do
split_reduce     changes the graph, as the next two do
split_sort       the same for long rows that are sorted
merge_depth      for Hopper: operands that are no matrices in memory
turn_scans       flips go in front of scans
turn_operands    products of bytes read both operands along the depth, where tensor cores want that
settle_writes    which stores are values like others, and which are written into memory that has a content
choose_stages    which values get a buffer; movement ops become index arithmetic on the way
choose_writes    around it, again until every read comes before the write that it must not see
order_again      recomputations come late
group_kernels    values over the same ranges share a kernel
share_loops      reductions in one kernel share loops
pass_windows     which part of a memory a kernel accesses is an argument: equal steps are one kernel
simplify         last: index arithmetic and gates, with all ranges known
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Protocol

from whit.config import ATTENTION_BLOCKS, VERIFY, Context
from whit.ir import ops
from whit.ir.op import SCHEDULE
from whit.ir.rewrite import rewrite
from whit.ir.uop import UOp, as_index, make
from whit.ir.verify import verify
from whit.kernel.attention_form import find_chain
from whit.records import dataclass
from whit.schedule.calls import schedule_with_calls
from whit.schedule.groups.group import Group, group_kernels
from whit.schedule.groups.order_recompute import order_again
from whit.schedule.groups.share_loops import share_loops
from whit.schedule.lower import is_join, prod_of
from whit.schedule.movement import view_position
from whit.schedule.rewrites.merge_depth import MERGE_DEPTH
from whit.schedule.rewrites.raise_permutes import raise_permutes
from whit.schedule.rewrites.reverse_scans import TURN_SCANS
from whit.schedule.rewrites.roll_steps import roll_steps
from whit.schedule.rewrites.scatter_at_once import SCATTER_AT_ONCE
from whit.schedule.rewrites.split_columns import SPLIT_COLUMNS
from whit.schedule.rewrites.split_reduce import SPLIT_REDUCE
from whit.schedule.rewrites.split_sort import SPLIT_SORT, scratch_of, with_scratch
from whit.schedule.rewrites.stage_operands import TURN_OPERANDS, reads_memory
from whit.schedule.stages.attention import is_computed
from whit.schedule.stages.choose import Kernel
from whit.schedule.stages.join import put_inside, stores_of
from whit.schedule.windows import pass_windows
from whit.schedule.writes.effects import part_targets, settle_writes, value_order
from whit.schedule.writes.order import choose_writes
from whit.simplify import simplify
from whit.target import Target

MEMORIES = frozenset({ops.PARAM, ops.BUFFER, ops.FUNCTION})
PARTS_A_KERNEL = 36  # sources of a long STACK that one kernel writes


class Traced(Protocol):
    """Is told what a schedule computes, for the names of its calls."""

    values: list[tuple[UOp, UOp]]  # target and value, of what is stored in the end
    calls: list[tuple[UOp, ...]]  # the values that each call computes


def schedule(graph: UOp, target: Target | None = None, traced: Traced | None = None) -> UOp:
    """GROUP of STOREs of values into params, or into views of them -> LINEAR of kernel calls over params and temporary
    buffers. A read of a param that is also stored to sees what was there before. A target may have wishes. Of graphs
    with calls of functions nothing is `traced`: their kernels compute something for each call."""
    graph = roll_steps(graph)
    if any(node.op is ops.CALL for node in graph.topological()):
        inner, plain = partial(schedule, target=target), partial(_schedule, machine=target)
        linear = schedule_with_calls(graph, inner, plain, target)
    else:
        linear = _schedule(graph, {}, target, traced)
    if VERIFY:
        verify(linear, SCHEDULE)
    return linear


def _schedule(
    graph: UOp, needs: Mapping[UOp, Collection[UOp]], machine: Target | None, traced: Traced | None = None
) -> UOp:
    """The same without calls. `needs` has, for buffers that a call fills, those that are filled before."""
    given, graph = graph, part_targets(graph)
    if machine is not None and machine.is_gpu:
        graph = rewrite(rewrite(raise_permutes(graph), SCATTER_AT_ONCE, once=True), SPLIT_COLUMNS, once=True)
    graph = rewrite(rewrite(graph, SPLIT_REDUCE, machine, once=True), SPLIT_SORT, machine, once=True)
    if reads_memory(machine):
        graph = rewrite(rewrite(graph, TURN_OPERANDS, once=True), MERGE_DEPTH, once=True)
    settled = settle_writes(rewrite(graph, TURN_SCANS))
    targets: dict[UOp, list[UOp]] = {}  # value -> the params that get it
    homes: dict[UOp, UOp] = {}  # copy that is written over -> the param that gets it in the end
    root_of: dict[UOp, UOp] = {}  # memory -> the last value that is put there
    for target, value in settled.outputs:
        root_of[target] = value
        if value in settled.writes and settled.take_home(value, homes, target):
            continue
        if value.op in (ops.PARAM, ops.BUFFER) or value in settled.writes:
            root_of[target] = value = value.stage()  # a copy: something other than the memory that it reads
        if is_join(value) and value in targets:
            root_of[target] = value = value.stage()  # its parts lie in one place
        if prod_of(target.shape):
            targets.setdefault(value, []).append(target)
    nodes = value_order([*targets, *settled.writes])
    forced = [node for node in nodes if node.op is ops.STAGE and prod_of(node.shape)]
    kernels, earlier = choose_writes([*targets, *forced], settled.writes, machine)
    memory = _places(kernels, targets, homes, settled.writes)
    taken = {*targets, *homes, *settled.writes, *settled.writes.values()}
    inside = put_inside((root for root in kernels if is_join(root)), memory, taken)
    calls: list[UOp] = []
    known: dict[tuple[UOp, str], _Made] = {}
    filled = {result: [root_of[memory] for memory in before] for result, before in needs.items()}
    groups = group_kernels(kernels, order_again(kernels, earlier), filled, machine)
    chains = [list(group.values.values()) for group in groups if group.is_chained and ATTENTION_BLOCKS >= 2]
    if not all(is_computed(find_chain(values)) for values in chains):
        with Context(ATTENTION_BLOCKS=0):  # tensor cores would not compute all that a matrix is needed for
            return _schedule(given, needs, machine, traced)
    wanted = {*targets, *(node for group in groups for node in group.reads)}  # others are used only at hand
    wanted.update(settled.writes, settled.writes.values())
    if traced is not None:
        traced.values += settled.outputs
    for group in groups:
        stores = _stores(group, memory, targets, wanted, inside)
        if not stores:  # kept for something that has no elements
            continue
        most = PARTS_A_KERNEL if group.kernels[0].parts else len(stores)
        name = name_of(group)
        for start in range(0, len(stores), most):
            calls.append(_call(stores[start : start + most], memory, inside, name, known, machine))
            if traced is not None:
                traced.calls.append(tuple(kernel.root for kernel in group.kernels))
    return make(ops.LINEAR, tuple(calls))


def _places(
    kernels: dict[UOp, Kernel], targets: dict[UOp, list[UOp]], homes: dict[UOp, UOp], over: dict[UOp, UOp]
) -> dict[UOp, UOp]:
    """The memory of every kernel's value: a param, a new buffer, or that of the value it writes over."""
    memory = {root: found[0] for root, found in targets.items()} | homes
    buffers = 0
    for root in kernels:
        if root not in memory and root not in over:
            memory[root] = UOp.buffer(len(targets) + buffers, root.dtype, root.shape)
            buffers += 1
    for write, old in over.items():  # in the order in which they happen
        memory[write] = memory.get(old, old)
    return memory


def _stores(
    group: Group, memory: dict[UOp, UOp], targets: dict[UOp, list[UOp]], wanted: set[UOp], inside: dict[UOp, UOp]
) -> list[UOp]:
    """What a group of kernels writes."""
    stores: list[UOp] = []
    for kernel in group.kernels:
        if kernel.root not in wanted:
            continue
        value = group.values[kernel.root]
        if kernel.is_write:
            stores.extend(value.src)
            continue
        if is_join(kernel.root):
            stores.extend(stores_of(kernel.root, value, memory, inside))
            continue
        for target in targets.get(kernel.root, [memory[kernel.root]]):
            if kernel.parts:
                places = (place_of_part(kernel, i) for i in range(kernel.parts))
                stores.extend(target.store(part, *place) for part, place in zip(value.src, places, strict=True))
            else:
                stores.append(target.store(value, *kernel.position) if kernel.root.shape else target.store(value))
    return stores


def place_of_part(kernel: Kernel, part: int) -> tuple[UOp, ...]:
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


@dataclass(frozen=True, slots=True)
class _Made:
    """A finished kernel."""

    function: UOp
    slots: tuple[int, ...]  # which of the memories that its stores were made of is which argument
    bindings: tuple[UOp, ...]  # further arguments


def _call(
    stores: list[UOp],
    memory: dict[UOp, UOp],
    inside: dict[UOp, UOp],
    name: str,
    known: dict[tuple[UOp, str], _Made],
    machine: Target | None,
) -> UOp:
    """Stores as the call of a function over its own params. `known` has what was made so far: equal layers have equal
    kernels."""
    # Own params first: simplifying orders sums and products by what is in them, and equal kernels must come out equal.
    body, arguments = _over_params(UOp.group(*stores), memory)
    body, arguments = pass_windows(body, arguments, machine is not None and machine.is_gpu)
    made = known.get((body, name))
    if made is None:
        simplified = simplify(share_loops(body))
        scratch = scratch_of(simplified, len(memory), machine)
        memory.update(zip(scratch, scratch, strict=True))
        arguments += scratch
        made = _made(with_scratch(simplified, scratch) if scratch else simplified, name, arguments)
        if not scratch:
            known[body, name] = made
    places = [_inside(arguments[slot], inside) for slot in made.slots]
    return made.function.call(*places, *made.bindings)


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
