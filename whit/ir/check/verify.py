"""Checks that a graph is what its stage promises, so that a wrong pass is found where it is wrong.

A graph and a stage go in; nothing comes out, or a `VerifyError` that names the broken invariant, the node and its
surroundings. Which op may appear where is in the op table (`Op.stages`); what an op needs of its neighbours is one
`Invariant` each:

    verify(kernel, Stage.KERNEL)
    verify(LINEAR(...), Stage.PROGRAM)

A FUNCTION is checked with its body: at the same stage, and under a SCHEDULE at the stage that the body's root shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

from whit.dtype import dtypes
from whit.errors import VerifyError
from whit.ir import ops
from whit.ir.args import RangeKind
from whit.ir.free import NO_RANGES, Free, free_ranges
from whit.ir.graph import topological
from whit.ir.op import EVERYWHERE, KERNEL, PROGRAM, SCHEDULE, TENSOR, Stage
from whit.ir.text.write import excerpt
from whit.ir.uop import UOp
from whit.records import dataclass

Nodes = list[UOp]
Problem = tuple[UOp, str]  # the node, and what is wrong with it
Check = Callable[[UOp, Nodes, Stage], Iterator[Problem]]


@dataclass(frozen=True, slots=True)
class Invariant:
    """What holds for every graph of the stages: `problems(root, nodes, stage)` says where it does not."""

    name: str
    stages: Stage
    problems: Check

    @property
    def doc(self) -> str:
        """One line that says what must hold."""
        return (self.problems.__doc__ or "").strip()


def verify(root: UOp, stage: Stage) -> None:
    """Raises a VerifyError unless the graph below root is one of the stage."""
    seen: set[tuple[UOp, Stage]] = set()
    stack = [(root, stage, "")]
    while stack:
        body, at, function = stack.pop()
        if (body, at) in seen:
            continue
        seen.add((body, at))
        nodes = topological((body,))
        for invariant in INVARIANTS:
            if at in invariant.stages:
                for node, what in invariant.problems(body, nodes, at):
                    raise _broken(invariant, node, what, at, function)
        for node in nodes:
            if node.op is ops.FUNCTION:
                inner = node.src[0]
                stack.append((inner, _stage_of_body(inner) if at is SCHEDULE else at, node.arg.name))


def verify_order(program: UOp) -> None:
    """Raises a VerifyError unless the instructions of a LINEAR can run in their order, and no value leaves its loop.

    Always on: 0.2 us an instruction and source, against milliseconds to compile a kernel.
    """
    for invariant in ORDER:
        for node, what in invariant.problems(program, [], PROGRAM):
            raise _broken(invariant, node, what, PROGRAM, "")


def _stage_of_body(body: UOp) -> Stage:
    """The stage of what a schedule calls: a program, another schedule, or a kernel that is not ordered yet."""
    if body.op is ops.REPEAT:
        return SCHEDULE
    if body.op is not ops.LINEAR:
        return KERNEL
    return SCHEDULE if all(node.op in _LAUNCHES for node in body.src) else PROGRAM


def _broken(invariant: Invariant, node: UOp, what: str, stage: Stage, function: str) -> VerifyError:
    place = f" in function {function!r}" if function else ""
    return VerifyError(
        f"verify: {invariant.name} is broken at stage {stage.name}{place}: {node.short()} {what}",
        excerpt(node),
        f"The invariant: {invariant.doc}",
    )


# ---- every stage


def _ops_of_the_stage(root: UOp, nodes: Nodes, stage: Stage) -> Iterator[Problem]:
    """Only ops that the op table allows at this stage appear."""
    for node in nodes:
        if stage not in node.op.stages:
            yield node, f"may not appear, only at {node.op.stages.name}"


def _params_of_functions(root: UOp, nodes: Nodes, stage: Stage) -> Iterator[Problem]:
    """A function lists the params that its body uses, by slot, and each slot is one param."""
    for node in nodes:
        if node.op is ops.FUNCTION:
            used = {inner.arg for inner in topological(node.src) if inner.op is ops.PARAM}
            listed = node.arg.params
            if len({param.slot for param in listed}) != len(listed):
                yield node, "has two different params in one slot"
            elif set(listed) != used:
                yield node, f"lists {len(listed)} params where its body uses {len(used)}, or others"
            elif any(a.slot > b.slot for a, b in pairwise(listed)):
                yield node, "lists its params out of order"


def _range_ids(root: UOp, nodes: Nodes, stage: Stage) -> Iterator[Problem]:
    """Owner and id name one range: no two ranges of different sizes or kinds share them."""
    first: dict[str, UOp] = {}
    for node in nodes:
        if node.op is ops.RANGE and first.setdefault(node.arg.name, node) is not node:
            yield node, f"has the id of {first[node.arg.name].short()}"


_MEMORY = frozenset({ops.PARAM, ops.BUFFER})
_VIEWS = frozenset({*ops.MOVEMENT, ops.INDEX, ops.AFTER, ops.DETACH, ops.BITCAST})


def _targets_are_memory(root: UOp, nodes: Nodes, stage: Stage) -> Iterator[Problem]:
    """LOAD reads and STORE writes a PARAM or BUFFER, or one AFTER effects; in a tensor graph also through a view."""
    through = _VIEWS if stage is TENSOR else {ops.AFTER}
    for node in nodes:
        if node.op is ops.STORE or node.op is ops.LOAD:
            target = node.src[0]
            while target.op in through:
                target = target.src[0]
            if target.op not in _MEMORY:
                yield node, f"goes to {target.short()}"


# ---- kernels


def _kernel_roots(root: UOp, nodes: Nodes, stage: Stage) -> Iterator[Problem]:
    """A kernel is a STORE, a GROUP of such, or a FUNCTION of such."""
    stack = [root]
    while stack:
        node = stack.pop()
        if node.op is ops.GROUP:
            stack += node.src
        elif node.op is not ops.STORE and not (node.op is ops.FUNCTION and node is root):
            yield node, "is no effect that a kernel can have"


def _stored_once(root: UOp, nodes: Nodes, stage: Stage) -> Iterator[Problem]:
    """A STORE's value varies only with ranges that its positions or gate name or that run in order, or it combines."""
    free: Free = {}
    for node in nodes:
        free_ranges(node, free)
    for node in nodes:
        if node.op is ops.STORE and node.arg.combine is None:
            _, value, *places = node.src
            chosen = NO_RANGES.union(*(free[place] for place in places))
            left = [r for r in free[value] - chosen if r.arg.kind is not RangeKind.ORDERED]
            for leftover in sorted(left, key=lambda r: r.arg.order):
                yield node, f"writes one place for all values of {leftover.arg.name}"


# ---- programs


def _program_root(root: UOp, nodes: Nodes, stage: Stage) -> Iterator[Problem]:
    """A program is one LINEAR, or a FUNCTION of one."""
    if root.op is not ops.LINEAR and root.op is not ops.FUNCTION:
        yield root, "is no list of instructions"
    for node in nodes:
        if node.op is ops.LINEAR and node is not root:
            yield node, "is a list inside the list"


def _sources_first(root: UOp, nodes: Nodes, stage: Stage) -> Iterator[Problem]:
    """An instruction is listed once, and its sources before it; constants are not listed."""
    if root.op is not ops.LINEAR:
        return
    listed: set[UOp] = set()
    for node in root.src:
        if node in listed:
            yield node, "is listed twice"
        if node.op is ops.CONST:
            yield node, "is listed, and constants are written in place"
        for source in node.src:
            if source.op is not ops.CONST and source not in listed:
                yield node, f"stands before its source {source.short()}"
        listed.add(node)


def _blocks_nest(root: UOp, nodes: Nodes, stage: Stage) -> Iterator[Problem]:
    """END closes the RANGE or IF that was opened last, and every one is closed."""
    if root.op is not ops.LINEAR:
        return
    open_blocks: list[UOp] = []
    for node in root.src:
        if node.op is ops.RANGE or node.op is ops.IF:
            open_blocks.append(node)
        elif node.op is ops.END:
            (opened,) = node.src
            if not open_blocks or open_blocks.pop() is not opened:
                yield node, f"does not close the innermost open block, but {opened.short()}"
                return
    for node in open_blocks:
        yield node, "is never closed"


def _values_stay_in_their_block(root: UOp, nodes: Nodes, stage: Stage) -> Iterator[Problem]:
    """A value made inside a loop or IF is not used after its END; memory, also AFTER effects, carries it out."""
    if root.op is not ops.LINEAR:
        return
    made_in: dict[UOp, UOp] = {}  # the innermost block, for what is made in one
    open_blocks: dict[UOp, None] = {}
    for node in root.src:
        if node.op is ops.END:
            open_blocks.pop(node.src[0], None)
        else:
            for source in node.src:
                is_value = source.dtype is not dtypes.void and source.op is not ops.AFTER
                if is_value and source in made_in and made_in[source] not in open_blocks:
                    yield node, f"uses {source.short()}, which belongs to the closed block of {made_in[source].short()}"
        if node.op is ops.RANGE or node.op is ops.IF:
            open_blocks[node] = None
        if open_blocks:
            made_in[node] = next(reversed(open_blocks))


def _flat_positions(root: UOp, nodes: Nodes, stage: Stage) -> Iterator[Problem]:
    """A STORE of a program has one flat position, as a LOAD has."""
    for node in nodes:
        if node.op is ops.STORE:
            count = len(node.src) - 2 - node.arg.gated
            if count != 1:
                yield node, f"has {count} positions"


# ---- schedules

_LAUNCHES = frozenset({ops.CALL, ops.COPY})


def _schedule_root(root: UOp, nodes: Nodes, stage: Stage) -> Iterator[Problem]:
    """A schedule is one LINEAR of CALLs and COPYs, a REPEAT of such, or a FUNCTION of one."""
    if root.op not in (ops.LINEAR, ops.FUNCTION, ops.REPEAT):
        yield root, "is no list of calls"
    for node in nodes:
        if node.op is ops.LINEAR:
            if node is not root:
                yield node, "is a list inside the list"
            for launch in node.src:
                if launch.op not in _LAUNCHES:
                    yield launch, "is no call and no copy"


def _launches_in_order(root: UOp, nodes: Nodes, stage: Stage) -> Iterator[Problem]:
    """Every CALL and COPY is listed after those whose results it uses; an effect that happens twice is listed twice."""
    if root.op is not ops.LINEAR:
        return
    place: dict[UOp, int] = {}
    for i, node in enumerate(root.src):
        place.setdefault(node, i)
    latest: dict[UOp, int] = {}  # the place of the last launch that a value needs, itself included
    for node in nodes[:-1]:
        needed = max((latest.get(s, -1) for s in node.src), default=-1)  # bodies of functions are not among them
        if node.op in _LAUNCHES:
            if node not in place:
                yield node, "is used and never listed"
            elif place[node] <= needed:
                yield node, "is listed before a call whose result it uses"
            needed = max(needed, place.get(node, -1))
        latest[node] = needed


ORDER = (
    Invariant("sources first", PROGRAM, _sources_first),
    Invariant("blocks nest", PROGRAM, _blocks_nest),
    Invariant("values stay in their block", PROGRAM, _values_stay_in_their_block),
)

INVARIANTS = (
    Invariant("ops of the stage", EVERYWHERE, _ops_of_the_stage),
    Invariant("params of functions", EVERYWHERE, _params_of_functions),
    Invariant("targets are memory", TENSOR | KERNEL | PROGRAM, _targets_are_memory),
    Invariant("range ids", KERNEL | PROGRAM, _range_ids),
    Invariant("kernel root", KERNEL, _kernel_roots),
    Invariant("stored once", KERNEL, _stored_once),
    Invariant("program root", PROGRAM, _program_root),
    *ORDER,
    Invariant("flat positions", PROGRAM, _flat_positions),
    Invariant("schedule root", SCHEDULE, _schedule_root),
    Invariant("launches in order", SCHEDULE, _launches_in_order),
)
