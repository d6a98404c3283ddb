"""What codegen does for CPUs alone: its strategies in the order in which they are tried, and its own passes."""

from __future__ import annotations

from whit.codegen.cpu.loops import choose_strategy
from whit.codegen.cpu.prefetch import prefetch
from whit.codegen.cpu.streaming_stores import stream_stores
from whit.codegen.passes.merge_ranges import runs_apart
from whit.codegen.passes.simplify_lanes import simplify_lanes
from whit.codegen.passes.split_blocks import split_blocks, write_out_blocks
from whit.codegen.passes.widen_bits import widen_bits
from whit.codegen.strategy.apply import apply_strategy
from whit.codegen.strategy.record import Backend, Build, Job, Strategy, Tiled
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp
from whit.target import Target


def _as_it_is(body: UOp, job: Job) -> Tiled | None:
    return Tiled(body, ("loops one after the other",)) if runs_apart(body) else None


def _tuned(body: UOp, job: Job) -> Tiled | None:
    if job.choice is None:
        return None
    from whit.codegen.strategy.choice import apply_choice  # lazy: few kernels are tuned

    tiled, reasons = apply_choice(job.choice, body, job.target)
    return Tiled(simplify_lanes(tiled), ("tuned", *reasons))


def _product(name: str) -> Build:
    """A strategy of `cpu.products`, which is loaded with the first kernel that reduces."""

    def build(body: UOp, job: Job) -> Tiled | None:
        if all(node.op is not ops.REDUCE for node in topological((body,))):
            return None
        from whit.codegen.cpu.products import PRODUCTS  # lazy: a third of this package

        return PRODUCTS[name](body, job)

    return build


def _loops(body: UOp, job: Job) -> Tiled:
    written_out = write_out_blocks(body)
    strategy = choose_strategy(written_out, job.target)
    return Tiled(simplify_lanes(apply_strategy(written_out, strategy)), tuple(strategy.reasons))


def _write_sort(body: UOp, target: Target) -> Tiled:
    from whit.codegen.cpu.sort import write_sort  # lazy: few kernels sort

    return Tiled(write_sort(body, target))


def _hint(linear: UOp, job: Job) -> UOp:
    return stream_stores(prefetch(linear, job.target), job.target)


STRATEGIES = (
    Strategy("as_it_is", "loops that nothing connects have no tiling in common", _as_it_is),
    Strategy("attention", "two products with a softmax between: else scores are stored", _product("attention")),
    Strategy("tuned", "what was measured is better than what is estimated below", _tuned),
    Strategy("words", "a product of bytes, for an instruction that multiplies four at once", _product("words")),
    Strategy("panels", "any other product of matrices: GEMM", _product("panels")),
    Strategy(
        "panels_apart",
        "several products with tiles of their own that share blocks of rows",
        _product("panels_apart"),
    ),
    Strategy("loops", "takes every kernel: lanes, copies side by side, loops and cores", _loops),
)

BACKEND = Backend(STRATEGIES, _write_sort, prepare=split_blocks, widen_bits=widen_bits, hint=_hint)
