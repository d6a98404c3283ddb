"""From a kernel and a target to a linear program: the passes, in order, each with why it stands there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from whit.codegen.cpu.attention.blocks import tile_chain
from whit.codegen.cpu.dot_words import as_dot
from whit.codegen.cpu.loops import choose_strategy
from whit.codegen.cpu.panel_sizes import choose_tiling
from whit.codegen.cpu.sort import has_sort, write_sort
from whit.codegen.gpu.attention.kernel import write_chain
from whit.codegen.gpu.gemm.matmul import tile_matmul
from whit.codegen.gpu.gemv.columns import tile_vecmat
from whit.codegen.gpu.gemv.packed import tile_packed
from whit.codegen.gpu.gemv.rows import tile_matvec
from whit.codegen.gpu.grid_stride import stride_blocks
from whit.codegen.gpu.pair_bytes import pair_bytes
from whit.codegen.gpu.register_prefetch import load_ahead
from whit.codegen.gpu.scatter.blocks import write_scatter
from whit.codegen.gpu.scatter.threads import read_once
from whit.codegen.gpu.sort.bitonic import write_gpu_sort
from whit.codegen.gpu.threads import tile_gpu
from whit.codegen.math.expand import EXPAND_MATH, EXPAND_MATH_BUT_EXP2
from whit.codegen.passes.block_sums import block_sums
from whit.codegen.passes.flatten import FLATTEN, read_scalar_params
from whit.codegen.passes.index_dtype import fits_in_32_bits, fix_index_dtype
from whit.codegen.passes.interleave import interleave
from whit.codegen.passes.linearise import linearise
from whit.codegen.passes.look_up import has_tables, look_up
from whit.codegen.passes.merge_ranges import merge_ranges
from whit.codegen.passes.simplify_lanes import simplify_lanes
from whit.codegen.passes.split_blocks import split_blocks, write_out_blocks, write_out_fills
from whit.codegen.passes.transpose_loads import transpose_loads
from whit.codegen.passes.vector_access import VECTOR_ACCESS
from whit.codegen.passes.widen_bits import widen_bits
from whit.codegen.strategy.apply import apply_strategy
from whit.codegen.strategy.choice import Choice, apply_choice
from whit.codegen.strategy.panels import apply_panels
from whit.codegen.strategy.tile_apart import tile_apart
from whit.config import CHECK_OOB, NOOPT, VERIFY
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.args import RangeKind
from whit.ir.op import KERNEL, PROGRAM
from whit.ir.rewrite import rewrite
from whit.ir.uop import UOp
from whit.ir.verify import verify, verify_order
from whit.kernel.estimate import estimate
from whit.kernel.ranges import free_ranges
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


@dataclass(slots=True)
class Job:
    """What the passes know besides the graph."""

    target: Target
    reasons: list[str] = field(default_factory=list)  # why the kernel was tiled as it was
    choice: Choice | None = None  # how it is to be tiled; None: as is estimated to be best


@dataclass(frozen=True, slots=True)
class Pass:
    """One step of the pipeline."""

    name: str
    why: str
    run: Callable[[UOp, Job], UOp]
    is_optimisation: bool = False  # left out under NOOPT


def runs_apart(body: UOp) -> bool:
    """Whether a kernel has loops that nothing connects, one after the other: they are left as they are."""
    free = free_ranges(body)
    first, *others = sorted({free[store] for store in body.src}, key=len, reverse=True)
    return any(first.isdisjoint(other) for other in others)


def _tile(body: UOp, job: Job) -> UOp:
    if job.target.is_gpu:
        body = read_once(body)
        program = write_chain(body, job.target) or write_scatter(body, job.target)
        if program is not None:
            job.reasons.append(program[1])
            return program[0]
        matmul = tile_matmul(body, job.target) or tile_packed(body, job.target)
        matmul = matmul or tile_matvec(body, job.target) or tile_vecmat(body, job.target)
        if matmul is not None:
            job.reasons.append(matmul[1])
            return simplify_lanes(matmul[0])
        tiled, reasons = tile_gpu(body, job.target)
        job.reasons.extend(reasons)
        return simplify_lanes(stride_blocks(tiled, job.target))
    if runs_apart(body):
        job.reasons.append("loops one after the other")
        return body
    chain = tile_chain(body, job.target)
    if chain is not None:
        job.reasons.extend(chain[1])
        return simplify_lanes(chain[0])
    if job.choice is not None:
        tiled, reasons = apply_choice(job.choice, body, job.target)
        job.reasons.extend(("tuned", *reasons))
        return simplify_lanes(tiled)
    by_words = as_dot(body, job.target)
    plan = choose_tiling(by_words, job.target) if by_words is not None else None
    if by_words is not None and plan is not None:
        job.reasons.append(f"{plan}; four bytes at once")
        return simplify_lanes(apply_panels(by_words, plan.found, plan.tiling))
    plan = choose_tiling(body, job.target)
    if plan is not None:
        job.reasons.append(str(plan))
        tiled = simplify_lanes(apply_panels(body, plan.found, plan.tiling))
        written = write_out_fills(tiled)
        return tiled if written is tiled else simplify_lanes(written)
    apart = tile_apart(body, job.target)
    if apart is not None:
        job.reasons.extend(apart[1])
        return simplify_lanes(apart[0])
    written_out = write_out_blocks(body)
    strategy = choose_strategy(written_out, job.target)
    job.reasons.extend(strategy.reasons)
    return simplify_lanes(apply_strategy(written_out, strategy))


def _with_vector_access(body: UOp, job: Job) -> UOp:
    body = rewrite(body, VECTOR_ACCESS, once=True)
    return pair_bytes(body) if job.target.is_gpu else body


def _fix_index_dtype(body: UOp, job: Job) -> UOp:
    body = simplify_lanes(body)
    return fix_index_dtype(body, dtypes.int32 if job.target.is_gpu and fits_in_32_bits(body) else dtypes.int64)


def _sorted(body: UOp, job: Job) -> UOp:
    if not has_sort(body):
        return body
    if not job.target.is_gpu:
        return write_sort(body, job.target)
    program, reason = write_gpu_sort(body, job.target)
    job.reasons.append(reason)
    return program


def _in_order(body: UOp, job: Job) -> UOp:
    linear = block_sums(linearise(body, job.target.has_fma), job.target.is_gpu)
    return load_ahead(linear) if job.target.is_gpu else linear


PASSES = (
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
        lambda body, job: body if runs_apart(body) else merge_ranges(body),
        is_optimisation=True,
    ),
    Pass(
        "split_blocks",
        "ranges that had to stay divided, because elements are packed in blocks, are split where they are divided",
        lambda body, job: body if job.target.is_gpu else split_blocks(body),
        is_optimisation=True,
    ),
    Pass("tile", "ranges become cores, loops, unrolled copies and lanes, in one step", _tile, is_optimisation=True),
    Pass(
        "vector_access",
        "lanes that are neighbours in memory are one access: known once lanes exist",
        _with_vector_access,
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
        lambda body, job: body if job.target.is_gpu else widen_bits(body),
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
        lambda body, job: rewrite(body, EXPAND_MATH_BUT_EXP2 if job.target.is_gpu else EXPAND_MATH),
    ),
    Pass(
        "linearise",
        "last: nothing but order is left to decide",
        _in_order,
    ),
)

Observer = Callable[[Pass, UOp], None]


def before_tiling(body: UOp, target: Target) -> UOp | None:
    """The kernel as the pass `tile` sees it; None if there is nothing to choose: it sorts, is a chain of products that
    is swept by blocks, or is for a GPU."""
    job = Job(target)
    for step in PASSES:
        if step.name == "tile":
            break
        body = step.run(body, job)
    if body.op is ops.LINEAR or target.is_gpu or runs_apart(body):
        return None
    return None if tile_chain(body, target) is not None else body


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
    work, read, written = estimate(body)
    job = Job(target, ["optimisation is off"] if NOOPT else [], choice)
    for step in PASSES:
        if step.is_optimisation and NOOPT:
            continue
        body = step.run(body, job)
        if observe is not None:
            observe(step, body)
        if body.op is ops.LINEAR:
            break
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
    return Program(name, body, total, threads, ordered, work, read, written, "\n".join(job.reasons))


def _size_of(linear: UOp, kind: RangeKind) -> int:
    """The iterations of the range of a kind; 1 if there is none."""
    return next((int(node.src[0].arg) for node in linear.src if node.op is ops.RANGE and node.arg.kind is kind), 1)
