"""From a kernel and a target to a linear program: the passes, in order, each with why it stands there."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile

from whit.codegen.passes.block_sums import block_sums
from whit.codegen.passes.flatten import FLATTEN, read_scalar_params
from whit.codegen.passes.index_dtype import fits_in_32_bits, fix_index_dtype
from whit.codegen.passes.interleave import interleave
from whit.codegen.passes.linearise import linearise
from whit.codegen.passes.look_up import has_tables, look_up
from whit.codegen.passes.merge_ranges import merge_ranges
from whit.codegen.passes.simplify_lanes import simplify_lanes
from whit.codegen.passes.transpose_loads import transpose_loads
from whit.codegen.passes.vector_access import VECTOR_ACCESS
from whit.codegen.strategy.record import Backend, Choice, Job, Tiled
from whit.config import CHECK_OOB, NOOPT, VERIFY
from whit.dtype import dtypes
from whit.errors import InternalError
from whit.ir import ops
from whit.ir.args import RangeKind
from whit.ir.check.verify import verify, verify_order
from whit.ir.graph import OpsIn, topological
from whit.ir.op import KERNEL, PROGRAM, Op
from whit.ir.rewrite import rewrite
from whit.ir.uop import UOp
from whit.kernel.estimate import estimate
from whit.records import dataclass
from whit.simplify import simplify
from whit.target import Target


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel ready to be rendered, and what is known about it."""

    name: str
    linear: UOp
    total: int  # iterations of the range that runs on the cores, or blocks of a GPU; 1 if there is none
    threads: int  # of a block; 1 on a CPU
    variables: tuple[UOp, ...]
    ops: int  # element operations of one run
    bytes_read: int
    bytes_written: int
    explanation: str


@dataclass(frozen=True, slots=True)
class Pass:
    """One step of the pipeline."""

    name: str
    why: str
    run: Callable[[UOp, Job], UOp]
    is_optimisation: bool = False  # left out under NOOPT
    about: frozenset[Op] = frozenset()  # left out where a kernel has none of these; of none, it is for all
    of_programs: bool = False  # of what is a LINEAR already: so are those that a strategy writes


def backend_of(target: Target) -> Backend:
    """What codegen does for this kind of machine alone."""
    if target.is_gpu:
        from whit.codegen.gpu.backend import BACKEND  # lazy: a kernel for a CPU loads nothing of GPUs

        return BACKEND
    from whit.codegen.cpu.backend import BACKEND as CPU_BACKEND  # lazy: and the other way round

    return CPU_BACKEND


# What is computed by polynomials (`codegen.math`), which are loaded with the first kernel that has one of these.
MATH = frozenset(
    {
        *(ops.EXP, ops.LOG, ops.SIGMOID, ops.TANH, ops.ERF),
        *(ops.EXP2, ops.LOG2, ops.SIN, ops.COS, ops.POW, ops.LOGADDEXP),
    }
)


def _widen_functions(body: UOp, job: Job) -> UOp:
    from whit.codegen.math.expand import WIDEN_FUNCTIONS  # lazy: as said at MATH

    return rewrite(body, WIDEN_FUNCTIONS, once=True)


def _expand_math(body: UOp, job: Job) -> UOp:
    from whit.codegen.math.expand import EXPAND_MATH, EXPAND_MATH_ON_GPU  # lazy: as said at MATH

    return rewrite(body, EXPAND_MATH_ON_GPU if job.target.is_gpu else EXPAND_MATH)


def _explained(tiled: Tiled, job: Job) -> UOp:
    job.reasons.extend(tiled.reasons)
    return tiled.body


def _tile(body: UOp, job: Job) -> UOp:
    for strategy in backend_of(job.target).strategies:
        tiled = strategy.build(body, job)
        if tiled is not None:
            job.strategy = strategy.name
            return _explained(tiled, job)
    raise InternalError("tile: no strategy takes this kernel", fix="The last one of a backend takes every kernel.")


def _fix_index_dtype(body: UOp, job: Job) -> UOp:
    body = simplify_lanes(body)
    return fix_index_dtype(body, dtypes.int32 if job.target.is_gpu and fits_in_32_bits(body) else dtypes.int64)


def _sorted(body: UOp, job: Job) -> UOp:
    if all(node.op is not ops.SORT for node in topological((body,))):
        return body
    return _explained(backend_of(job.target).write_sort(body, job.target), job)


def _in_order(body: UOp, job: Job) -> UOp:
    linear = block_sums(linearise(body, job.target.has_fma), job.target.is_gpu)
    return backend_of(job.target).prefetch(linear)


PASSES = (
    Pass(
        "widen_functions",
        "exp of a half is one of a float, rounded: whoever looks for functions finds those of floats",
        _widen_functions,
        about=MATH,
    ),
    Pass(
        "flatten",
        "positions become sums, so that the passes after it can read strides off them",
        lambda body, job: simplify(rewrite(read_scalar_params(body), FLATTEN, once=True)),
    ),
    Pass(
        "write_sort",
        "a kernel that sorts is an algorithm, not a nest of loops: its program is complete here",
        _sorted,
    ),
    Pass(
        "merge_ranges",
        "fewer, longer loops, before anything is split",
        lambda body, job: merge_ranges(body),
        is_optimisation=True,
    ),
    Pass(
        "prepare",
        "what would hide from the strategies what a kernel is: divisions by blocks on CPUs, second reads on GPUs",
        lambda body, job: backend_of(job.target).prepare(body),
        is_optimisation=True,
    ),
    Pass("tile", "ranges become cores, loops, unrolled copies and lanes, in one step", _tile, is_optimisation=True),
    Pass(
        "vector_access",
        "lanes that are neighbours in memory are one access: known once lanes exist",
        lambda body, job: backend_of(job.target).join_loads(rewrite(body, VECTOR_ACCESS, once=True)),
    ),
    Pass(
        "transpose_loads",
        "columns that are read side by side are loaded as rows",
        lambda body, job: interleave(transpose_loads(body), job.target),
        is_optimisation=True,
    ),
    Pass(
        "widen_bits",
        "what vectors are made of bits is known once they are loaded, and simplified after it",
        lambda body, job: backend_of(job.target).widen_bits(body),
        is_optimisation=True,
    ),
    Pass(
        "look_up",
        "after bits are numbers of the size of floats",
        lambda body, job: look_up(body) if has_tables(job.target) else body,
        is_optimisation=True,
    ),
    Pass(
        "fix_index_dtype",
        "after everything that reasons about unbounded integers",
        _fix_index_dtype,
    ),
    Pass(
        "expand_math",
        "transcendental functions as polynomials, on whole vectors",
        _expand_math,
        about=MATH,
    ),
    Pass(
        "linearise",
        "last of those of a graph: nothing but order is left to decide",
        _in_order,
    ),
    Pass(
        "add_hints",
        "what programs tell the hardware is about instructions in their order",
        lambda linear, job: backend_of(job.target).hint(linear, job),
        is_optimisation=True,
        of_programs=True,
    ),
)

Observer = Callable[[Pass, UOp], None]


def before_tiling(body: UOp, target: Target) -> UOp | None:
    """The kernel as the pass `tile` sees it; None if there is nothing to choose: it is for a GPU, sorts, or is taken by
    a strategy that stands before `tuned`."""
    if target.is_gpu:
        return None
    job = Job(target)
    for step in PASSES:
        if step.name == "tile":
            break
        body = step.run(body, job)
    if body.op is ops.LINEAR:
        return None
    untuned = takewhile(lambda strategy: strategy.name != "tuned", backend_of(target).strategies)
    return body if all(strategy.build(body, job) is None for strategy in untuned) else None


def generate(
    body: UOp,
    target: Target,
    name: str = "kernel",
    observe: Observer | None = None,
    choice: Choice | None = None,
) -> Program:
    """The program of a kernel: a GROUP of stores over params. `observe` sees the graph after every pass; `choice` says
    how it is to be tiled."""
    kernel = body
    if VERIFY:
        verify(kernel, KERNEL)
    cost, ops_in = estimate(body), OpsIn()
    job = Job(target, ["optimisation is off"] if NOOPT else [], choice)
    for step in PASSES:
        if (step.is_optimisation and NOOPT) or step.of_programs is not (body.op is ops.LINEAR):
            continue
        if not step.about or not step.about.isdisjoint(ops_in(body)):
            body = step.run(body, job)
        if observe is not None:
            observe(step, body)
    verify_order(body)
    if VERIFY:
        from whit.codegen.passes.check_writes import check_writes  # lazy: loads NumPy

        verify(body, PROGRAM)
        check_writes(kernel, body, name, target.is_gpu)
    if CHECK_OOB:
        from whit.codegen.passes.check_bounds import check_bounds  # lazy: loads NumPy

        check_bounds(body, name)
    total = _size_of(body, RangeKind.BLOCK if target.is_gpu else RangeKind.CORE)
    threads = _size_of(body, RangeKind.THREAD)
    variables = tuple(node for node in body.src if node.op is ops.VARIABLE)
    ordered = tuple(sorted(variables, key=lambda node: str(node.arg.name)))
    amounts = cost.operations, cost.bytes_read, cost.bytes_written
    return Program(name, body, total, threads, ordered, *amounts, "\n".join(job.reasons))


def _size_of(linear: UOp, kind: RangeKind) -> int:
    """The iterations of the range of a kind; 1 if there is none."""
    return next((int(node.src[0].arg) for node in linear.src if node.op is ops.RANGE and node.arg.kind is kind), 1)
