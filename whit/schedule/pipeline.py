"""From a tensor graph to a schedule: the passes, in order, each with why it stands there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Protocol

from whit.config import VERIFY
from whit.ir import ops
from whit.ir.check.verify import verify
from whit.ir.graph import OpsIn, has_complex
from whit.ir.op import SCHEDULE, Op
from whit.ir.rewrite import rewrite
from whit.ir.uop import UOp, make
from whit.records import dataclass, field
from whit.schedule.call_kernels import Calling, Places
from whit.schedule.groups.group import Group, group_kernels
from whit.schedule.groups.order_recompute import order_recompute
from whit.schedule.rewrites.roll_steps import roll_steps
from whit.schedule.rewrites.split_sort import SPLIT_SORT
from whit.schedule.stages.choose import StoredValue
from whit.schedule.stages.join import put_inside
from whit.schedule.values import is_join
from whit.schedule.writes.effects import Settled, part_targets, settle_writes
from whit.schedule.writes.homes import Homes, find_homes, find_memory, to_compute
from whit.schedule.writes.order import choose_writes
from whit.target import ANY_CPU, Target

if TYPE_CHECKING:
    from whit.schedule.calls import Cut


class Traced(Protocol):
    """Is told what a schedule computes, for the names of its calls."""

    values: list[tuple[UOp, UOp]]  # target and value, of what is stored in the end
    calls: list[tuple[UOp, ...]]  # the values that each call computes


Reasons = dict[UOp, dict[tuple[UOp, str], None]]  # FUNCTION -> the values that its calls store, and why each is stored


@dataclass(slots=True)
class Job:
    """What the passes know besides the graph, and what they have found out."""

    target: Target
    traced: Traced | None = None
    is_body: bool = False  # a function's, whose schedule becomes part of another
    cut: Cut | None = None  # the calls of functions that were cut out of the graph
    settled: Settled = field(default_factory=Settled)
    homes: Homes = field(default_factory=Homes)
    kernels: dict[UOp, StoredValue] = field(default_factory=dict)  # by the value that they compute
    earlier: Mapping[UOp, Collection[UOp]] = field(default_factory=dict)  # what runs before a kernel, although unread
    groups: list[Group] = field(default_factory=list)
    reasons: Reasons = field(default_factory=dict)


def _anywhere(_: Target) -> bool:
    return True


def _on_gpus(target: Target) -> bool:
    return target.is_gpu


def _on_cpus(target: Target) -> bool:
    return not target.is_gpu


def _with_wgmma(target: Target) -> bool:
    return target.has_wgmma


@dataclass(frozen=True, slots=True)
class Pass:
    """One step of the pipeline."""

    name: str
    why: str
    run: Callable[[UOp, Job], UOp]
    is_for: Callable[[Target], bool] = _anywhere
    about: frozenset[Op] = frozenset()  # left out where a graph has none of these ops; of no ops, it is for all graphs


def _for_gpus(name: str) -> Callable[[UOp, Job], UOp]:
    """A rewrite that is loaded with the first schedule for a GPU."""

    def run(graph: UOp, job: Job) -> UOp:
        from whit.schedule.rewrites.for_gpus import REWRITES  # lazy: a schedule for a CPU loads nothing of GPUs

        return REWRITES[name](graph)

    return run


def _split_complex(graph: UOp, job: Job) -> UOp:
    if not has_complex(graph):
        return graph
    from whit.schedule.rewrites.split_complex import split_complex  # lazy: few graphs have complex numbers

    return split_complex(graph)


def _split_reduce(graph: UOp, job: Job) -> UOp:
    from whit.schedule.rewrites.split_reduce import SPLIT_REDUCE  # lazy: the first graph that reduces

    return rewrite(graph, SPLIT_REDUCE, job.target, once=True)


def _narrow_reduce(graph: UOp, job: Job) -> UOp:
    from whit.schedule.rewrites.narrow_reduce import NARROW_REDUCE  # lazy: the first graph that reduces

    return rewrite(graph, NARROW_REDUCE, once=True)


def _reverse_scans(graph: UOp, job: Job) -> UOp:
    from whit.schedule.rewrites.reverse_scans import REVERSE_SCANS  # lazy: few graphs flip anything

    return rewrite(graph, REVERSE_SCANS)


def _pack_constants(graph: UOp, job: Job) -> UOp:
    from whit.schedule.rewrites.pack_constants import pack_constants  # lazy: few graphs have loops

    return pack_constants(graph, job.target)


def _cut_calls(graph: UOp, job: Job) -> UOp:
    if not any(node.op is ops.CALL or node.op is ops.LOOP for node in graph.topological()):
        return graph
    from whit.schedule.calls import cut_calls  # lazy: few graphs call functions

    graph, job.cut = cut_calls(graph)
    return graph


def _settle_writes(graph: UOp, job: Job) -> UOp:
    job.settled = settle_writes(graph)
    job.homes = find_homes(job.settled)
    if job.traced is not None:
        job.traced.values += job.settled.outputs
        for write, memory in job.settled.writes.items():
            job.traced.values += [(memory, effect.src[1]) for effect in write.src[1:] if effect.op is ops.STORE]
    return graph


def _choose_stages(graph: UOp, job: Job) -> UOp:
    roots = to_compute(job.settled, job.homes)
    job.kernels, job.earlier = choose_writes(roots, job.settled.writes, job.target)
    return graph


def _order_again(graph: UOp, job: Job) -> UOp:
    job.earlier = order_recompute(job.kernels, job.earlier)
    return graph


def _group_kernels(graph: UOp, job: Job) -> UOp:
    needs: Mapping[UOp, Collection[UOp]] = {}
    if job.cut is not None:
        from whit.schedule.calls import filled_before  # lazy: as above

        needs = filled_before(job.cut)
    filled = {result: [job.homes.last[memory] for memory in before] for result, before in needs.items()}
    job.groups = group_kernels(job.kernels, job.earlier, filled, job.target)
    return graph


def _call_kernels(_: UOp, job: Job) -> UOp:
    over, homes = job.settled.writes, job.homes
    memory = find_memory(job.kernels, homes, over)
    taken = {*homes.targets, *homes.copies, *over, *over.values()}
    inside = put_inside((root for root in job.kernels if is_join(root)), memory, taken)
    read = {node for group in job.groups for node in group.reads}
    calling = Calling(Places(homes.targets, memory, inside, {*homes.targets, *read, *over, *over.values()}), job.target)
    calls: list[UOp] = []
    for group in job.groups:
        found = list(calling.calls_of(group))
        calls += found
        stored = [(kernel.root, kernel.reason) for kernel in group.kernels if kernel.root in calling.places.wanted]
        for call in found:
            job.reasons.setdefault(call.src[0], {}).update(dict.fromkeys(stored))
        if job.traced is not None:
            job.traced.calls += [tuple(kernel.root for kernel in group.kernels)] * len(found)
    return make(ops.LINEAR, tuple(calls))


def _raise_permutes(graph: UOp, job: Job) -> UOp:
    from whit.schedule.rewrites.raise_permutes import raise_permutes  # lazy: only some convolutions need it

    return raise_permutes(graph)


def _put_calls_back(linear: UOp, job: Job) -> UOp:
    if job.cut is None:
        return linear
    from whit.schedule.calls import put_calls_back  # lazy: as above

    def of_body(graph: UOp) -> UOp:
        return run_passes(graph, Job(job.target, is_body=True, reasons=job.reasons))

    found = put_calls_back(linear, job.cut, of_body, job.target)
    if job.traced is not None:
        outer = job.traced.calls
        job.traced.calls = [outer[source] if isinstance(source, int) else (source,) for source in job.cut.sources]
    return found


PASSES = (
    Pass(
        "split_complex",
        "first: complex numbers are pairs of floats for all others",
        _split_complex,
    ),
    Pass(
        "roll_steps",
        "before what looks at values: equal steps of a long graph become calls, which the next pass cuts out",
        lambda graph, job: roll_steps(graph),
    ),
    Pass(
        "pack_constants",
        "before loops are cut out: what a step reads in another order becomes a value of the graph around it",
        _pack_constants,
        is_for=_on_cpus,
        about=frozenset({ops.LOOP}),
    ),
    Pass(
        "cut_calls",
        "a function that is called is scheduled once; all others see its results as memory",
        _cut_calls,
    ),
    Pass(
        "part_targets",
        "before values change: rewriting would tell what is written to from its views",
        lambda graph, job: part_targets(graph),
    ),
    Pass(
        "narrow_reduce",
        "before anything is decided about reductions: those that are the same along an axis are smaller ones",
        _narrow_reduce,
        about=frozenset({ops.REDUCE}),
    ),
    Pass(
        "raise_permutes",
        "the order in which values are stored, before anything asks how they lie",
        _raise_permutes,
        about=frozenset({ops.PERMUTE}),
    ),
    Pass(
        "scatter_at_once",
        "sums of floats as integers, which threads add in any order, are reductions for the passes that split these",
        _for_gpus("scatter_at_once"),
        is_for=_on_gpus,
    ),
    Pass(
        "split_columns",
        "few columns in parts, which are then too many results for the next pass",
        _for_gpus("split_columns"),
        is_for=_on_gpus,
    ),
    Pass(
        "split_reduce",
        "long reductions to few results in parts that are stored: before what is stored is chosen",
        _split_reduce,
        about=frozenset({ops.REDUCE}),
    ),
    Pass(
        "split_sort",
        "the same for long rows that are sorted",
        lambda graph, job: rewrite(graph, SPLIT_SORT, job.target, once=True),
        about=frozenset({ops.SORT}),
    ),
    Pass(
        "transpose_operands",
        "operands that tensor cores read along the depth: after products are split, which changes what that is",
        _for_gpus("transpose_operands"),
        is_for=_with_wgmma,
    ),
    Pass(
        "merge_depth",
        "operands that are no matrices in memory, of those that are not stored by now",
        _for_gpus("merge_depth"),
        is_for=_with_wgmma,
    ),
    Pass(
        "reverse_scans",
        "flips go in front of scans, so that nothing is moved after it was computed",
        _reverse_scans,
        about=frozenset({ops.FLIP}),
    ),
    Pass(
        "settle_writes",
        "values are what they will be: some stores are values like others, some change a memory that has a content",
        _settle_writes,
    ),
    Pass(
        "choose_stages",
        "which values get a buffer, and what each kernel reads; movement ops become index arithmetic on the way",
        _choose_stages,
    ),
    Pass(
        "order_recompute",
        "recomputations come late, which decides what can share a kernel with them",
        _order_again,
    ),
    Pass(
        "group_kernels",
        "kernels over the same ranges become one: each is known by now, with what it reads",
        _group_kernels,
    ),
    Pass(
        "call_kernels",
        "every value has a place now: kernels become functions over their own params, simplified last",
        _call_kernels,
    ),
    Pass(
        "put_calls_back",
        "the kernels of functions stand between those that need their results",
        _put_calls_back,
    ),
    Pass(
        "align_rows",
        "last: rows of memory between kernels, those of functions too, begin where vectors and tensor cores read them",
        lambda linear, job: linear if job.is_body else _for_gpus("align_rows")(linear, job),
        is_for=_on_gpus,
    ),
)

Observer = Callable[[Pass, UOp, Job], None]


def schedule(
    graph: UOp, target: Target | None = None, traced: Traced | None = None, observe: Observer | None = None
) -> UOp:
    """GROUP of STOREs of values into params, or into views of them -> LINEAR of kernel calls over params and temporary
    buffers. A read of a param that is also stored to sees what was there before. Without a target, what is right for
    any processor. `observe` sees the graph after every pass, with what the passes have found out."""
    return run_passes(graph, Job(target or ANY_CPU, traced), observe)


def run_passes(graph: UOp, job: Job, observe: Observer | None = None) -> UOp:
    """The schedule of a graph, or of a function's body."""
    ops_in = OpsIn()
    for step in PASSES:
        if not step.is_for(job.target):
            continue
        if not step.about or not step.about.isdisjoint(ops_in(graph)):
            graph = step.run(graph, job)
        if observe is not None:
            observe(step, graph, job)
    if VERIFY:
        verify(graph, SCHEDULE)
    return graph
