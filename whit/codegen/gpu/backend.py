"""What codegen does for GPUs alone: its strategies in the order in which they are tried, and its own passes."""

from __future__ import annotations

from collections.abc import Callable

from whit.codegen.gpu.async_copies import settle_copies
from whit.codegen.gpu.attention.kernel import write_attention
from whit.codegen.gpu.gemm.matmul import tile_matmul
from whit.codegen.gpu.gemv.columns import tile_gemv_columns
from whit.codegen.gpu.gemv.packed import tile_gemv_packed
from whit.codegen.gpu.gemv.rows import tile_gemv_rows
from whit.codegen.gpu.grid_stride import stride_blocks
from whit.codegen.gpu.launch import add_launch
from whit.codegen.gpu.pair_bytes import pair_bytes
from whit.codegen.gpu.register_prefetch import register_prefetch
from whit.codegen.gpu.scatter.blocks import write_scatter
from whit.codegen.gpu.scatter.threads import read_once
from whit.codegen.gpu.threads import tile_gpu
from whit.codegen.passes.simplify_lanes import simplify_lanes
from whit.codegen.strategy.record import Backend, Build, Job, Strategy, Tiled
from whit.ir.uop import UOp
from whit.target import Target

Tiler = Callable[[UOp, Target], tuple[UOp, str] | None]


def _program(write: Tiler) -> Build:
    """A strategy that writes the whole program."""

    def build(body: UOp, job: Job) -> Tiled | None:
        found = write(body, job.target)
        return None if found is None else Tiled(found[0], (found[1],))

    return build


def _tiles(tile: Tiler) -> Build:
    """A strategy that leaves a kernel over blocks and threads, for the passes after it."""

    def build(body: UOp, job: Job) -> Tiled | None:
        found = tile(body, job.target)
        return None if found is None else Tiled(simplify_lanes(found[0]), (found[1],))

    return build


def _threads(body: UOp, job: Job) -> Tiled:
    tiled, reasons = tile_gpu(body, job.target)
    return Tiled(simplify_lanes(stride_blocks(tiled, job.target)), tuple(reasons))


def _write_sort(body: UOp, target: Target) -> Tiled:
    from whit.codegen.gpu.sort.bitonic import write_gpu_sort  # lazy: few kernels sort

    program, reason = write_gpu_sort(body, target)
    return Tiled(program, (reason,))


def _hint(linear: UOp, job: Job) -> UOp:
    return add_launch(settle_copies(linear, job.target), job)


STRATEGIES = (
    Strategy("attention", "two products with a softmax between: else scores are stored", _program(write_attention)),
    Strategy("scatter", "additions in order into a long list of rows: a block for each row", _program(write_scatter)),
    Strategy("gemm", "a product of matrices that tensor cores compute", _tiles(tile_matmul)),
    Strategy(
        "gemv_packed", "few rows times packed weights, copied while others are multiplied", _tiles(tile_gemv_packed)
    ),
    Strategy("gemv_rows", "few rows times a matrix that is summed along its rows", _tiles(tile_gemv_rows)),
    Strategy("gemv_columns", "few rows times a matrix that is summed along its columns", _tiles(tile_gemv_columns)),
    Strategy("threads", "takes every kernel: reductions, scans, transposes, elements", _threads),
)

BACKEND = Backend(
    STRATEGIES, _write_sort, prepare=read_once, join_loads=pair_bytes, prefetch=register_prefetch, hint=_hint
)
