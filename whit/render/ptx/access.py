"""Accesses of neighbours in PTX: how many one instruction takes, and halves two by two in registers.

8 halves at a multiple of 16 bytes       ->      ld.global.v4.b32, then each half in a register of its own
"""

from __future__ import annotations

from math import gcd

from whit.dtype import DType
from whit.ir import ops
from whit.ir.op import Op
from whit.ir.uop import UOp
from whit.kernel.alignment import ALIGNMENT_BYTES, alignment_of
from whit.render.ptx.ops import narrowed
from whit.render.ptx.parts import lanes_of_f16x2
from whit.render.ptx.values import PtxWriter, arithmetic_type


def pieces(itemsize: int, position: UOp, width: int, known: dict[UOp, int]) -> int:
    """How many neighbours one access takes."""
    aligned = gcd(alignment_of(position, known) * itemsize, ALIGNMENT_BYTES)
    count = 8 if itemsize == 2 else 4
    while count > 1 and (count * itemsize > aligned or width % count):
        count //= 2
    return count


Spread = tuple[list[UOp], list[int]]


def spread_of(position: UOp) -> Spread | None:
    """Positions as numbers whose sum all lanes have in common, and how far each lane is from there:

    add(add(x, stack(0, 1, 8, 9) * 2), y)  ->   [x, y], [0, 2, 16, 18]
    """
    if position.op is ops.STACK and all(source.op is ops.CONST for source in position.src):
        return [], [int(source.arg) for source in position.src]
    if position.op is ops.MUL and position.src[1].op is ops.CONST:
        found = spread_of(position.src[0])
        return ([], [offset * int(position.src[1].arg) for offset in found[1]]) if found and not found[0] else None
    return _spread_of_sum(*position.src) if position.op is ops.ADD else None


def _spread_of_sum(left: UOp, right: UOp) -> Spread | None:
    """Offsets are added lane by lane; a scalar is common to all lanes."""
    if left.shape and right.shape:
        one, other = spread_of(left), spread_of(right)
        if one is None or other is None:
            return None
        return one[0] + other[0], [sum(pair) for pair in zip(one[1], other[1], strict=True)]
    vector, scalar = (left, right) if left.shape else (right, left)
    found = spread_of(vector) if vector.shape else None
    return None if found is None else ([*found[0], scalar], found[1])


def runs_of(itemsize: int, common: list[UOp], offsets: list[int], known: dict[UOp, int]) -> list[tuple[int, int]]:
    """How far accesses are from a common place, and how many lanes each takes: one, or two that are neighbours."""
    aligned = gcd(*(alignment_of(node, known) for node in common), ALIGNMENT_BYTES)
    found: list[tuple[int, int]] = []
    lane = 0
    while lane < len(offsets):
        first = offsets[lane]
        is_pair = itemsize >= 2 and offsets[lane : lane + 2] == [first, first + 1] and gcd(aligned, first) % 2 == 0
        found.append((first, 2 if is_pair else 1))
        lane += found[-1][1]
    return found


def load_packed(w: PtxWriter, dtype: DType, space: str, at: str, count: int, test: str) -> list[str]:
    """Two, four or eight halves with one instruction; zeros where the condition does not hold."""
    twos = [w.value("b32", "two", "mov.b32", "0") if test else w.register("b32", "two") for _ in range(count // 2)]
    guard = f"@{test} " if test else ""
    w.line(f"{guard}ld.{space}{vector(len(twos))}.b32 {listed(twos)}, [{at}];")
    halves = [half for two in twos for half in lanes_of_f16x2(w, two)]
    return halves if dtype.is_float or dtype.is_unsigned else [narrowed(w, dtype, half) for half in halves]


def vector(count: int) -> str:
    """The part of an instruction's name that says how many registers it takes."""
    return "" if count == 1 else f".v{count}"


def listed(registers: list[str]) -> str:
    """Several registers as one operand: `{r0, r1}`; one as it is."""
    return registers[0] if len(registers) == 1 else f"{{{', '.join(registers)}}}"


def reduce_in_memory(w: PtxWriter, op: Op, dtype: DType, at: str, values: list[str], test: str) -> None:
    """Neighbours combined with what is there, each in one step."""
    kind = f"b{dtype.bitsize}" if op in (ops.AND, ops.OR) else arithmetic_type(dtype)
    if op is ops.ADD:
        kind = f"u{dtype.bitsize}"  # the same bits; there is none of s64
    guard = f"@{test} " if test else ""
    for i, value in enumerate(values):
        place = f"{at}+{i * dtype.itemsize}" if i else at
        w.line(f"{guard}red.global.{op.name}.{kind} [{place}], {value};")
