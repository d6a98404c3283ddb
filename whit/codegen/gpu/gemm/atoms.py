"""The atoms of matrix products on NVIDIA GPUs: tiles, who has which element of them, and which one suits a product.

| atom  | where   | operands          | a thread block                                                            |
|-------|---------|-------------------|---------------------------------------------------------------------------|
| wgmma | sm_90a  | all but exact f32 | two groups of 128 threads compute, tiles arrive and leave by TMA          |
| mma   | sm_75   | halves            | warps compute 16 x 8 pieces from shared memory, filled by `cp.async`      |
| bytes | sm_75   | int8; fp8 later   | as mma                                                                    |
| fma   | sm_75   | float32, exactly  | each thread sums its own elements from shared memory, filled the same way |
| tf32  | sm_80   | float32, rounded  | as mma, for operands rounded to 10 bits of mantissa, under `TF32=1` only  |

Halves are float16 and bfloat16. Sums are float32, of int8 and uint8 int32. Tensor cores read all but halves along the
depth: wgmma takes operands that lie so in memory, others are turned as they are copied. It takes float32 as uint32 that
have been rounded before (`schedule.rewrites.stage_operands`), and cuts off the rest. Hopper adds products of fp8 in
about 14 bits, so that no more than 128 are added before a sum goes to float32 (`gemm.wgmma_tiles`).

sm_75 multiplies float16 and int8 alone, and has no `cp.async`: threads load what they store to shared memory after the
piece before it (`gemm.mma_tiles`). It takes bfloat16 as float32, and fp8 as float16.

Tensor cores give a thread of a warp two neighbouring columns in each eight, of two rows. Where threads store these
themselves, four exchange them, so that each has eight neighbours, 16 bytes of a half: rows `lane // 4` and 8 below,
columns `lane % 4 * 8` and the next seven.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from whit.config import TF32
from whit.dtype import DType, dtypes
from whit.ir.args import MatrixArg, Mode
from whit.kernel.tensor_cores import FP8S
from whit.target import GPU_LIMITS, Target

INTS = (dtypes.int8, dtypes.uint8)
EIGHTS = (Mode(2, row=8), Mode(8, column=1))  # the elements of a thread in 16 x 32 of a warp
QUADS = (Mode(8, row=1), Mode(4, column=8))  # the threads of a warp in these
PAIRS = (Mode(2, row=8), Mode(2, column=1))  # both before the exchange, in 16 x 8
PAIRS_OF_QUADS = (Mode(8, row=1), Mode(4, column=2))
SKINNY_TILES = (8, 16, 24, 32, 48, 64)  # columns
FEW_OF_128 = 16  # columns beside which stages of 128 rows are still many
FEWEST_PIECES = 4  # of the depth, for each block that shares it
MOST_SPLIT_K = GPU_LIMITS.cluster_blocks


@dataclass(frozen=True, slots=True)
class Atom:
    """How blocks compute tiles."""

    name: str
    tile: tuple[int, int, int]
    threads: tuple[Mode, ...]
    elements: tuple[Mode, ...]
    stages: int
    speed: float  # along the depth, beside the fastest
    extra: float = 2.0  # what storing a tile takes, in stages of the depth
    start: float = 0.0  # what takes time once, in the same
    persistent: int = 0  # blocks that stay on a multiprocessor, for tile after tile; 0: one block for each tile
    cluster: int = 1  # blocks that read their columns together
    split_k: int = 1  # blocks that share the depth of a tile

    def __str__(self) -> str:
        rows, columns, depth = self.tile
        threads = prod(mode.count for mode in self.threads)
        together = f", {self.cluster} blocks together" if self.cluster > 1 else ""
        together += f", {self.split_k} blocks share the depth" if self.split_k > 1 else ""
        return f"{self.name} tiles of {rows} x {columns}, {threads} threads, {self.stages} stages of {depth}{together}"


def wgmma(groups: int, rows: int, columns: int, stages: int, speed: float = 1.0, cluster: int = 1) -> Atom:
    """Groups of four warps, 64 rows of theirs at a time. One group alone leaves room for a second block, which computes
    while this one stores."""
    pieces = rows // 64 // groups
    threads = (Mode(groups, row=64 * pieces), Mode(4, row=16), *QUADS)
    elements = (Mode(pieces, row=64), Mode(columns // 32, column=32), *EIGHTS)
    extra, start = (1.0, 0.0) if groups == 1 else (2.9, 0.25) if columns == 256 else (3.5, 0.0)
    return Atom("wgmma", (rows, columns, 64), threads, elements, stages, speed, extra, start, 2 // groups, cluster)


def skinny(rows: int, columns: int, split_k: int) -> Atom:
    """Few columns beside the rows of a large matrix, many stages of which are on their way from memory. On a
    multiprocessor there is one block, and room for one of the next kernel. Threads store sums as tensor cores leave
    them: there are few."""
    threads = (Mode(1, row=rows), Mode(4, row=16), *PAIRS_OF_QUADS)
    elements = (Mode(rows // 64, row=64), Mode(columns // 8, column=8), *PAIRS)
    stages = GPU_LIMITS.paired_shared_bytes // ((rows + columns) * 128 + 16)
    return Atom("wgmma", (rows, columns, 64), threads, elements, stages, 1.0, 1.0, persistent=1, split_k=split_k)


def mma(down: int, across: int, rows: int, columns: int, stages: int, speed: float = 1.0, pairs: bool = False) -> Atom:
    """`down` times `across` warps, with `rows` and `columns` each. With `pairs` nothing is exchanged."""
    threads = (Mode(down, row=rows), Mode(across, column=columns), *(PAIRS_OF_QUADS if pairs else QUADS))
    many = (Mode(columns // 8, column=8), *PAIRS) if pairs else (Mode(columns // 32, column=32), *EIGHTS)
    elements = (Mode(rows // 16, row=16), *many)
    return Atom("mma", (down * rows, across * columns, 32), threads, elements, stages, speed)


def of_bytes(atom: Atom) -> Atom:
    """The same for operands of a byte: as many bytes of the depth."""
    rows, columns, depth = atom.tile
    return replace(atom, name="bytes" if atom.name == "mma" else atom.name, tile=(rows, columns, 2 * depth))


def of_floats(atom: Atom) -> Atom:
    """The same for operands of four bytes."""
    rows, columns, depth = atom.tile
    return replace(atom, tile=(rows, columns, depth // 2))


def tf32(down: int, across: int, rows: int, columns: int, stages: int, speed: float = 1.0, pairs: bool = False) -> Atom:
    """The same for float32."""
    return replace(
        mma(down, across, rows, columns, stages, speed, pairs), name="tf32", tile=(down * rows, across * columns, 16)
    )


def fma(down: int, across: int, rows: int, columns: int, stages: int, speed: float = 1.0) -> Atom:
    """The same, a warp's threads 8 down and 4 across with squares of 4 x 4."""
    threads = (Mode(down, row=rows), Mode(across, column=columns), Mode(8, row=4), Mode(4, column=4))
    elements = (Mode(rows // 32, row=32), Mode(4, row=1), Mode(columns // 16, column=16), Mode(4, column=1))
    return Atom("fma", (down * rows, across * columns, 16), threads, elements, stages, speed)


WGMMA = (
    wgmma(2, 128, 256, 4, cluster=2),
    wgmma(2, 128, 256, 4, 0.98),
    wgmma(2, 128, 192, 5, 0.95),
    wgmma(1, 128, 128, 3, 0.86),
    wgmma(2, 128, 128, 6, 0.86),
    wgmma(1, 64, 192, 3, 0.7),
    wgmma(2, 128, 64, 8, 0.6),
    wgmma(1, 64, 64, 6, 0.5),
)
MMA = (mma(2, 4, 64, 32, 4), mma(2, 2, 32, 32, 4, 0.6))
WGMMA_INT = tuple(map(of_bytes, WGMMA))
WGMMA_TF32 = tuple(map(of_floats, WGMMA))
WGMMA_FP8 = (  # with room for sums twice
    of_bytes(wgmma(2, 128, 192, 5, cluster=2)),
    of_bytes(wgmma(2, 128, 192, 5, 0.98)),
    of_bytes(wgmma(2, 128, 128, 6, 0.88)),
    of_bytes(wgmma(1, 64, 128, 4, 0.8)),
    of_bytes(wgmma(2, 128, 64, 8, 0.6)),
    of_bytes(wgmma(1, 64, 64, 6, 0.5)),
)
BYTES = tuple(map(of_bytes, MMA))
FMA = (fma(2, 4, 128, 32, 3), fma(2, 4, 64, 32, 4, 0.95), fma(2, 2, 32, 32, 4, 0.6))
STAGED_MMA = (mma(2, 4, 64, 32, 2, pairs=True), mma(2, 2, 32, 32, 2, 0.6, pairs=True))
ROUNDED = (tf32(2, 4, 64, 32, 4), tf32(2, 2, 32, 32, 4, 0.6))
STAGED_ROUNDED = (tf32(2, 4, 64, 32, 2, pairs=True), tf32(2, 2, 32, 32, 2, 0.6, pairs=True))
STAGED_FMA = (fma(2, 4, 64, 32, 2), fma(2, 2, 32, 32, 2, 0.6))


def multiplied(a: DType, b: DType, total: DType, target: Target) -> bool:
    """Whether tensor cores, or threads, multiply elements of these dtypes and add them in another."""
    if a in INTS and b in INTS:
        return total is dtypes.int32
    if total is not dtypes.float32:
        return False
    if a in FP8S and b in FP8S:
        return target.has_fp8
    return a is b and a in (*multiplied_halves(target), dtypes.float32, dtypes.uint32)


def multiplied_halves(target: Target) -> tuple[DType, ...]:
    """The halves that tensor cores multiply."""
    return dtypes.float16s if target.has_bfloat16 else (dtypes.float16,)


def choose_atom(
    dtype: DType, sizes: tuple[int, ...], batches: int, matrices: tuple[MatrixArg, MatrixArg], target: Target
) -> Atom | None:
    """The atom that is done first, by how many rounds of tiles a multiprocessor has to compute, if there is one."""
    is_along_depth = dtype in dtypes.float16s or all(matrix.is_depth_major for matrix in matrices)
    has_groups = target.has_wgmma and is_along_depth and all(matrix.copied == 16 for matrix in matrices)
    atoms = _atoms_of(dtype, has_groups, target)
    if not atoms:
        return None
    atom = min(atoms, key=lambda atom: _time(atom, sizes, batches, target.cores))
    return atom if target.has_async_copies else replace(atom, stages=2)  # what is on its way is in registers


def _atoms_of(dtype: DType, has_groups: bool, target: Target) -> tuple[Atom, ...]:
    """The atoms for operands of a dtype; `has_groups`: by groups of warps, which compute while TMA copies."""
    if dtype in FP8S:
        return WGMMA_FP8 if has_groups else BYTES
    if dtype in INTS:
        return WGMMA_INT if has_groups else BYTES
    if dtype in dtypes.float16s:
        return WGMMA if has_groups else MMA
    if dtype is dtypes.uint32:
        return WGMMA_TF32 if has_groups else ()
    return ROUNDED if TF32 and target.has_tf32 else FMA


def choose_skinny(sizes: tuple[int, ...], target: Target) -> Atom:
    """The atom for many rows and few columns: as many blocks share the depth as run at once."""
    columns = next(columns for columns in SKINNY_TILES if columns >= sizes[1])
    rows = 128 if columns <= FEW_OF_128 and sizes[0] > 64 * target.cores else 64
    split_k = min(target.cores // -(-sizes[0] // rows), -(-sizes[2] // 64) // FEWEST_PIECES, MOST_SPLIT_K)
    return skinny(rows, columns, max(split_k, 1))


def choose_staged(dtype: DType, sizes: tuple[int, ...], batches: int, target: Target) -> Atom:
    """The same for operands that are computed on their way to shared memory: two stages, without copies in flight."""
    rounds = TF32 and target.has_tf32
    atoms = STAGED_MMA if dtype in dtypes.float16s else STAGED_ROUNDED if rounds else STAGED_FMA
    return min(atoms, key=lambda atom: _time(atom, sizes, batches, target.cores))


def _time(atom: Atom, sizes: tuple[int, ...], batches: int, cores: int) -> float:
    """In multiply-adds of the fastest atom on one multiprocessor: for comparing atoms of one table, whose `speed`,
    `extra` and `start` are measured beside each other. No seconds, so it stands here and not in `whit.kernel`."""
    rows, columns, depth = atom.tile
    tiles = -(-sizes[0] // (rows * atom.cluster)) * atom.cluster * -(-sizes[1] // columns) * batches
    of_tile = -(-sizes[2] // depth) * depth / atom.speed + atom.extra * depth
    rounds = -(-tiles // (cores * max(atom.persistent, 1)))
    return (rounds * of_tile + atom.start * depth) * max(atom.persistent, 1) * rows * columns
