"""What the assembler is told of a program: for how many blocks it must find registers, and how exact functions are.

    a product by warp groups, one of them        ->   launch blocks=2
    rows that 256 threads add up                 ->   launch blocks=1        registers for 256 threads
    attention of halves                          ->   launch blocks=2, approximates=true, flushes=true

Goes in: a LINEAR, and the job that says which strategy made it. Comes out: the same with a LAUNCH in front, if there is
something to tell. The fewer threads have registers, the more loads each has in flight; the more, the more warps hide
each other's latency.
"""

from __future__ import annotations

from math import prod

from whit.codegen.gpu.gemv.packed import FEW_HELD, FEW_RESIDENT_THREADS, MOST_RESIDENT_THREADS
from whit.codegen.strategy.record import Job
from whit.ir import ops
from whit.ir.args import LaunchArg, RangeKind
from whit.ir.graph import memory_of
from whit.ir.uop import UOp, make

FEW_SUMS = 64  # accumulators of a thread with which two blocks fit on a multiprocessor

# Threads of a multiprocessor that must have registers at once.
FEW_THREADS = 256  # of programs that exchange values between threads
MANY_THREADS = 1024  # of scans, where a thread gets at most FEW_SCANNED_BYTES from others; half of them above that
FEW_SCANNED_BYTES = 192
FEW_HALVES = 32  # that a thread reads, up to which rows have MANY_THREADS as well: log softmax of 16384 x 8192 takes
# 0.131 instead of 0.140 ms, with 64 registers instead of 72


def add_launch(linear: UOp, job: Job) -> UOp:
    """The program with what its assembler is told."""
    tile = next((node for node in linear.src if node.op is ops.BLOCK_MMA), None)
    is_attention = job.strategy == "attention"
    if tile is None:
        arg = LaunchArg(_blocks_without_tile(linear, job))
    else:
        blocks = _blocks_of_attention(linear, tile) if is_attention else _blocks_of_tile(tile)
        arg = LaunchArg(blocks, _stores_halves(linear), is_attention)
    return linear if arg == LaunchArg() else make(ops.LINEAR, (make(ops.LAUNCH, (), arg), *linear.src))


def _stores_halves(linear: UOp) -> bool:
    """Whether all results are rounded to 16 bits: an ulp of a float32 is not seen in them."""
    stored = [memory_of(node.src[0]) for node in linear.src if node.op in (ops.STORE, ops.BLOCK_STORE)]
    results = [memory.dtype for memory in stored if memory.op is ops.PARAM]
    return all(dtype.is_float and dtype.bitsize <= 16 for dtype in results)


def _blocks_of_attention(linear: UOp, tile: UOp) -> int:
    products = {memory_of(each.src[0]) for each in linear.src if each.op is ops.BLOCK_MMA}
    sums = sum(int(memory.shape[0]) for memory in products)
    return 2 if prod(mode.count for mode in tile.arg.threads) <= 128 or sums <= FEW_SUMS else 1


def _blocks_of_tile(tile: UOp) -> int:
    """By warp groups two groups; else two blocks if a thread has few sums."""
    if tile.arg.atom == "wgmma":
        return int(2 // tile.arg.threads[0].count)
    return 2 if prod(mode.count for mode in tile.arg.elements) <= FEW_SUMS else 1


def _blocks_without_tile(linear: UOp, job: Job) -> int:
    """Only of programs whose threads exchange values."""
    exchanges = [node for node in linear.src if node.op is ops.ACROSS]
    if not exchanges:
        return 0
    threads = max(
        int(node.src[0].arg) for node in linear.src if node.op is ops.RANGE and node.arg.kind is RangeKind.THREAD
    )
    return max(_resident_threads(linear, exchanges, job) // threads, 1)


def _resident_threads(linear: UOp, exchanges: list[UOp], job: Job) -> int:
    """How many threads of a multiprocessor must have registers at once."""
    if job.strategy == "gemv_packed":
        return MOST_RESIDENT_THREADS if _held(linear) <= FEW_HELD else FEW_RESIDENT_THREADS
    scanned_bytes = sum(node.dtype.itemsize for node in exchanges if node.arg.op is None)
    if scanned_bytes:
        return MANY_THREADS if scanned_bytes <= FEW_SCANNED_BYTES else MANY_THREADS // 2
    return MANY_THREADS if _reads_few_halves(linear) else FEW_THREADS


def _loads(linear: UOp) -> list[UOp]:
    return [node for node in linear.src if node.op is ops.LOAD and memory_of(node.src[0]).op is ops.PARAM]


def _held(linear: UOp) -> int:
    """Floats that a thread loads of memory."""
    return sum(prod(load.shape) for load in _loads(linear) if load.dtype.is_float)


def _reads_few_halves(linear: UOp) -> bool:
    """Whether vectors of halves are all that is read, and no more of them than registers of many threads hold."""
    rows = [load for load in _loads(linear) if prod(load.shape) > 1]
    few = sum(prod(load.shape) for load in rows) <= FEW_HALVES
    return bool(rows) and few and all(node.dtype.itemsize <= 2 for node in rows)
