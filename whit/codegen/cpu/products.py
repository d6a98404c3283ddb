"""Strategies of CPUs for kernels that reduce: attention, and products of matrices through packed panels."""

from __future__ import annotations

from whit.codegen.cpu.attention.blocks import tile_attention
from whit.codegen.cpu.dot_words import as_dot
from whit.codegen.cpu.panel_sizes import choose_tiling
from whit.codegen.passes.simplify_lanes import simplify_lanes
from whit.codegen.passes.split_blocks import write_out_fills
from whit.codegen.strategy.panels import apply_panels
from whit.codegen.strategy.record import Build, Job, Tiled
from whit.codegen.strategy.tile_apart import tile_apart
from whit.ir.uop import UOp


def _attention(body: UOp, job: Job) -> Tiled | None:
    return _simplified(tile_attention(body, job.target))


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


def _simplified(found: tuple[UOp, list[str]] | None) -> Tiled | None:
    return None if found is None else Tiled(simplify_lanes(found[0]), tuple(found[1]))


PRODUCTS: dict[str, Build] = {
    "attention": _attention,
    "words": _words,
    "panels": _panels,
    "panels_apart": _panels_apart,
}
