"""Products of 16 x 8 by the tensor cores of a warp, 32 bytes of the depth: one instruction, or several smaller ones.

    mma.sync.aligned.m16n8k16  {4 sums}, {4 of a}, {2 of b}, {4 sums}                                from sm_80 on
    ->  mma.sync.aligned.m16n8k8   half of the depth at a time: the first two of a, the first of b;  float16 on sm_75
        mma.sync.aligned.m8n8k16   and half of the rows: two sums, one of a                          int8 on sm_75

Registers are the same in both: a has rows, rows 8 below, then both further along the depth; b has the depth twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from whit.render.ptx.values import PtxWriter

DEPTHS = {"f16": 16, "bf16": 16, "tf32": 8}  # elements; of bytes 32


def multiply_square(w: PtxWriter, kinds: Sequence[str], sums: list[str], left: list[str], right: list[str]) -> None:
    """sums += left * right, of kinds of sums, of the left and of the right."""
    depth = DEPTHS.get(kinds[1], 32)
    if w.target.has_wide_mma:
        _multiply(w, f"m16n8k{depth}", kinds, sums, left, right)
        return
    for k in (0, 1):
        rows, columns = left[2 * k : 2 * k + 2], right[k : k + 1]
        if depth == 16:
            _multiply(w, "m16n8k8", kinds, sums, rows, columns)
            continue
        _multiply(w, "m8n8k16", kinds, sums[:2], rows[:1], columns)
        _multiply(w, "m8n8k16", kinds, sums[2:], rows[1:], columns)


def _multiply(
    w: PtxWriter, shape: str, kinds: Sequence[str], sums: list[str], left: list[str], right: list[str]
) -> None:
    total, of_left, of_right = kinds
    added, a, b = (f"{{{', '.join(registers)}}}" for registers in (sums, left, right))
    w.line(f"mma.sync.aligned.{shape}.row.col.{total}.{of_left}.{of_right}.{total} {added}, {a}, {b}, {added};")
