"""What tensor cores leave in the registers of four neighbouring threads, exchanged so that each has neighbours.

Of every 32 columns of a row a thread has two in each eight; afterwards it has eight in a row:

    thread 0:  0 1   8 9  16 17  24 25        ->      0  1  2  3  4  5  6  7
    thread 1:  2 3 10 11  18 19  26 27        ->      8  9 10 11 12 13 14 15
    ...

Twice each thread gives half of its pairs to another: first to its neighbour, then to the one after that.
"""

from __future__ import annotations

from whit.dtype import DType
from whit.ir.args import Mode, place_of
from whit.ir.uop import UOp
from whit.render.ptx.ops import spell
from whit.render.ptx.values import PtxWriter, register_type


def in_order_of_mma(registers: list[str]) -> list[str]:
    """Registers as matrix instructions want them: of each eight columns two of a row, two of the row 8 below."""
    found: list[str] = []
    for start in range(0, len(registers), 16):
        for eight in range(4):
            for row in (0, 8):
                at = start + row + 2 * eight
                found += registers[at : at + 2]
    return found


def in_order_of(registers: list[str], elements: tuple[Mode, ...]) -> list[str]:
    """The same for registers whose places are these."""
    places = {place_of(i, elements): register for i, register in enumerate(registers)}
    rows, columns = (sorted({place[axis] for place in places}) for axis in (0, 1))
    corners = [(row, column) for row in rows if row % 16 == 0 for column in columns if column % 8 == 0]
    return [places[row + down, column + right] for row, column in corners for down in (0, 8) for right in (0, 1)]


def exchange(w: PtxWriter, registers: list[str]) -> None:
    """Every eight registers: item i of thread t becomes item t of thread i; an item is a pair."""
    w.note("four threads exchange their sums: each gets eight neighbours")
    lane = w.value("b32", "lane", "mov.u32", "%laneid")
    for step in (1, 2):
        bit = w.value("b32", "bit", "and.b32", lane, str(step))
        upper = w.value("pred", "upper", "setp.ne.u32", bit, "0")
        for start in range(0, len(registers), 8):
            for low in (0, 1 if step == 2 else 2):
                for part in (0, 1):
                    one, other = (registers[start + 2 * item + part] for item in (low, low + step))
                    given = w.value("f32", "give", "selp.f32", one, other, upper)
                    taken = w.value("b32", "take", "shfl.sync.bfly.b32", given, str(step), "31", "0xffffffff")
                    w.line(f"@{upper} mov.b32 {one}, {taken};")
                    w.line(f"@!{upper} mov.b32 {other}, {taken};")


def two_by_two(w: PtxWriter, dtype: DType, values: list[str]) -> list[str]:
    """Numbers rounded to halves, two in a register."""
    kind = "bf16x2" if dtype.name == "bfloat16" else "f16x2"
    if not w.target.has_paired_conversions:
        halves = [w.value("b16", "half", "cvt.rn.f16.f32", value) for value in values]
        pairs = zip(halves[::2], halves[1::2], strict=True)
        return [w.value("b32", "two", "mov.b32", f"{{{low}, {high}}}") for low, high in pairs]
    pairs = zip(values[::2], values[1::2], strict=True)
    return [w.value("b32", "two", f"cvt.rn.{kind}.f32", high, low) for low, high in pairs]


def across(w: PtxWriter, node: UOp, lane: int) -> str:
    """What neighbouring threads have in a lane, combined: first of two, then of those with one between. Or what one has
    that is some before, of 32."""
    x, step = w.operand(node.src[0], lane), 1
    if node.arg.op is None:
        return _taken(w, register_type(node.dtype), x, "up", node.arg.before)
    while step < node.arg.threads:
        x = spell(w, node.arg.op, node.dtype, [x, _taken(w, register_type(node.dtype), x, "bfly", step)])
        step *= 2
    return x


def _taken(w: PtxWriter, kind: str, x: str, how: str, step: int) -> str:
    """What the thread has that is so far away, in registers of a kind: 32 bits at a time."""
    if kind == "pred":
        bit = w.value("b32", "bit", "selp.b32", "1", "0", x)
        return w.value("pred", "take", "setp.ne.u32", _taken(w, "b32", bit, how, step), "0")
    if kind in ("b64", "f64"):
        low, high = w.register("b32", "low"), w.register("b32", "high")
        w.line(f"mov.b64 {{{low}, {high}}}, {x};")
        halves = ", ".join(_taken(w, "b32", half, how, step) for half in (low, high))
        return w.value(kind, "take", "mov.b64", f"{{{halves}}}")
    last = "0" if how == "up" else "31"
    return w.value("b32", "take", f"shfl.sync.{how}.b32", w.in_register("b32", x), str(step), last, "0xffffffff")
