"""What codegen does for CPUs alone: its strategies in the order in which they are tried, and its own passes."""

from __future__ import annotations

from whit.codegen.cpu.attention.blocks import tile_chain
from whit.codegen.cpu.dot_words import as_dot
from whit.codegen.cpu.loops import choose_strategy
from whit.codegen.cpu.panel_sizes import choose_tiling
from whit.codegen.passes.merge_ranges import runs_apart
from whit.codegen.passes.simplify_lanes import simplify_lanes
from whit.codegen.passes.split_blocks import split_blocks, write_out_blocks, write_out_fills
from whit.codegen.passes.widen_bits import widen_bits
from whit.codegen.strategy.apply import apply_strategy
from whit.codegen.strategy.choice import apply_choice
from whit.codegen.strategy.panels import apply_panels
from whit.codegen.strategy.record import Backend, Job, Strategy, Tiled
from whit.codegen.strategy.tile_apart import tile_apart
from whit.ir.uop import UOp
from whit.target import Target


def _as_it_is(body: UOp, job: Job) -> Tiled | None:
    return Tiled(body, ("loops one after the other",)) if runs_apart(body) else None


def _attention(body: UOp, job: Job) -> Tiled | None:
    return _simplified(tile_chain(body, job.target))


def _tuned(body: UOp, job: Job) -> Tiled | None:
    if job.choice is None:
        return None
    tiled, reasons = apply_choice(job.choice, body, job.target)
    return Tiled(simplify_lanes(tiled), ("tuned", *reasons))


def _words(body: UOp, job: Job) -> Tiled | None:
    by_words = as_dot(body, job.target)
    plan = choose_tiling(by_words, job.target) if by_words is not None else None
    if by_words is None or plan is None:
        return None
    tiled = simplify_lanes(apply_panels(by_words, plan.found, plan.tiling))
    return Tiled(tiled, (f"{plan}; four bytes at once",))


def _panels(body: UOp, job: Job) -> Tiled | None:
    plan = choose_tiling(body, job.target)
    if plan is None:
        return None
    tiled = simplify_lanes(apply_panels(body, plan.found, plan.tiling))
    written = write_out_fills(tiled)
    return Tiled(tiled if written is tiled else simplify_lanes(written), (str(plan),))


def _panels_apart(body: UOp, job: Job) -> Tiled | None:
    return _simplified(tile_apart(body, job.target))


def _loops(body: UOp, job: Job) -> Tiled:
    written_out = write_out_blocks(body)
    strategy = choose_strategy(written_out, job.target)
    return Tiled(simplify_lanes(apply_strategy(written_out, strategy)), tuple(strategy.reasons))


def _simplified(found: tuple[UOp, list[str]] | None) -> Tiled | None:
    return None if found is None else Tiled(simplify_lanes(found[0]), tuple(found[1]))


def _write_sort(body: UOp, target: Target) -> Tiled:
    from whit.codegen.cpu.sort import write_sort  # lazy: few kernels sort

    return Tiled(write_sort(body, target))


STRATEGIES = (
    Strategy("as_it_is", "loops that nothing connects have no tiling in common", _as_it_is),
    Strategy("attention", "two products with a softmax between them: else the scores are stored", _attention),
    Strategy("tuned", "what was measured is better than what is estimated below", _tuned),
    Strategy("words", "a product of bytes, for an instruction that multiplies four at once", _words),
    Strategy("panels", "any other product of matrices: GEMM", _panels),
    Strategy("panels_apart", "several products, each with a tile of its own, that share blocks of rows", _panels_apart),
    Strategy("loops", "takes every kernel: lanes, copies side by side, loops and cores", _loops),
)

BACKEND = Backend(STRATEGIES, _write_sort, prepare=split_blocks, widen_bits=widen_bits)
