"""Registers that were loaded as one and used in parts: what is put together again is there already.

    ld.global.u16 two          a = two & 255, b = two >> 8        bytes that a program loads as neighbours
    a | b << 8                 two
    (two >> 16) << 16          two & 0xffff0000                   the upper of two bfloat16 as float32
    pair(low, high)            two                                halves that were computed with, or only moved
    float32(two >> 4 & 15)     as_float(two & 0xf0)               four bits of a word, where they are

What is not used in the end the assembler leaves out; such shifts and masks it would keep.
"""

from __future__ import annotations

import re
from collections import Counter

from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.op import Op
from whit.records import replace
from whit.render.ptx.values import PtxWriter, RegisterPart, number

MANTISSA_BITS = 23  # bits of a float32
MOST_LESS = 128.0  # all numbers on the way are integers of at most 24 bits: exact


def bytes_of(w: PtxWriter, word: str, count: int) -> list[str]:
    """Each byte of a register that has `count` of them."""
    found = []
    for i in range(count):
        byte = word if i == 0 else w.value("b32", "byte", "shr.u32", word, str(8 * i))
        if i < count - 1:
            byte = w.value("b32", "byte", "and.b32", byte, "255")
        w.parts[byte] = RegisterPart(word, 8 * count, 8 * i, 8)
        found.append(byte)
    return found


def lanes_of_f16x2(w: PtxWriter, word: str) -> list[str]:
    """The lower and the upper 16 bits of a register."""
    halves = []
    for start, instruction, operand in ((0, "and.b32", "65535"), (16, "shr.u32", "16")):
        half = w.value("b32", "half", instruction, word, operand)
        w.parts[half] = RegisterPart(word, 32, start, 16)
        w.lane_lines[half] = len(w.lines) - 1
        halves.append(half)
    return halves


def leave_out_unused_lanes(w: PtxWriter) -> None:
    """Without the lines that write lanes which nobody reads: others used two at once."""
    if not w.lane_lines:
        return
    found = Counter(re.findall(r"%\w+", "\n".join(w.lines)))
    used = {line for name, line in w.lane_lines.items() if found[name] > 1}
    unused = {name: line for name, line in w.lane_lines.items() if line not in used}
    gone = {*unused.values()}
    w.lines = [text for line, text in enumerate(w.lines) if line not in gone]
    for kind, names in w.registers.items():
        w.registers[kind] = [name for name in names if name not in unused]


def pair(w: PtxWriter, low: str, high: str) -> str:
    """Two halves in a register, or as a number if they are: from the registers that have them."""
    if not (low.startswith("%") or high.startswith("%")):
        return f"0x{(int(high) & 0xFFFF) << 16 | int(low) & 0xFFFF:08x}"
    one, first = _place(w, low)
    other, second = _place(w, high)
    if one == other and (first, second) == (0, 1):
        return one
    return w.value("b32", "two", "prmt.b32", one, other, f"0x{('54', '76')[second]}{('10', '32')[first]}")


def _place(w: PtxWriter, half: str) -> tuple[str, int]:
    """The register that has a half, and whether that is the upper one of it."""
    if not half.startswith("%"):
        return w.in_register("b32", half), 0
    part = w.parts.get(half)
    return (part.whole, part.start // 16) if part is not None and part.is_half else (half, 0)


def put_together(w: PtxWriter, op: Op, dtype: DType, x: list[str]) -> str | None:
    """What an op makes of parts, if that is there."""
    if op is ops.SHL and x[1] == "16" and dtype.bitsize == 32:
        return _as_upper_half(w, w.parts.get(x[0]))
    if op is not ops.OR:
        return None
    for low, high in (x, x[::-1]):
        first, second = w.parts.get(low), w.parts.get(w.shifted.get(high, ""))
        if first is not None and second is not None and _are_bytes_of_half(first, second):
            return _half_from(w, first)
    return None


def _as_upper_half(w: PtxWriter, part: RegisterPart | None) -> str | None:
    """A half of a register times 65536, made of that register."""
    if part is None or not part.is_half:
        return None
    up = ("and.b32", "0xffff0000") if part.start else ("shl.b32", "16")
    return w.value("b32", "high", up[0], part.whole, up[1])


def _are_bytes_of_half(first: RegisterPart, second: RegisterPart) -> bool:
    """Whether two parts are the lower and the upper byte of one half of a register."""
    if first.is_signed or first.bits != 8 or first.start % 16:
        return False
    return first.whole == second.whole and second.start == first.start + 8


def _half_from(w: PtxWriter, first: RegisterPart) -> str:
    """The 16 bits of a register that begin where a part does."""
    if first.size == 16:
        return first.whole
    if first.start:
        return w.value("b32", "two", "shr.u32", first.whole, "16")
    return w.value("b32", "two", "and.b32", first.whole, "0xffff")


def is_shifted_byte(w: PtxWriter, op: Op, dtype: DType, x: list[str]) -> bool:
    """Whether this is a byte of a register, times 256, in a dtype that has such a number."""
    part, has_room = w.parts.get(x[0]), dtype.bitsize == 32 or dtype is dtypes.uint16
    return op is ops.SHL and x[1] == "8" and has_room and part is not None and part.bits == 8 and not part.is_signed


def of_part(w: PtxWriter, op: Op, dtype: DType, x: list[str]) -> str | None:
    """Some bits of some bits of a register, or these moved up, taken out of that register."""
    part = w.parts.get(x[0])
    if len(x) < 2 or part is None or part.is_signed or not x[1].isdecimal():
        return None
    given = int(x[1])
    if op is ops.SHL and part.bits < 8 and part.bits + given <= dtype.bitsize <= 32:
        return _taken(w, part, given)
    if op is ops.SHR and given < part.bits:
        part = replace(part, start=part.start + given, bits=part.bits - given)
    elif op is ops.AND and given and not given & (given + 1):
        part = replace(part, bits=min(part.bits, given.bit_length()))
    else:
        return None
    result = _taken(w, part, 0)
    w.parts[result] = part
    return result


def _taken(w: PtxWriter, part: RegisterPart, up: int) -> str:
    """Some bits of a register, at a place of their own."""
    word, down = part.whole, part.start - up
    if down:
        word = w.value("b32", "moved", "shr.u32" if down > 0 else "shl.b32", word, str(abs(down)))
    if part.start + part.bits == part.size and down == part.start:
        return word
    return w.value("b32", "part", "and.b32", word, str(((1 << part.bits) - 1) << up))


def as_float(w: PtxWriter, dtype: DType, x: str) -> str:
    """An integer of at most 16 bits as float32, by its bits. Those from bit s of a word on are a number q beside the
    exponent of 2**(23 - s): one instruction takes them out and puts the exponent there, one subtracts it.

        (two >> 4) & 15        (two & 0xf0) ^ 0x49000000, which is 2**19 + q as a float, minus 2**19

    The instructions for it run at a quarter of the speed of others, and need numbers that are taken out.
    """
    part, rest = w.parts.get(x), ""
    if x in w.joined and dtype.is_unsigned:
        x, rest = w.joined[x]
        part = RegisterPart(x, 32, 0, dtype.bitsize)
    if part is None:
        part = RegisterPart(x, dtype.bitsize if dtype.is_unsigned else 32, 0, dtype.bitsize, not dtype.is_unsigned)
    word, start = part.whole, part.start
    if start + part.bits > MANTISSA_BITS:
        word, start = w.value("b32", "high", "shr.u32", word, "16"), start - 16
    middle = 1 << part.bits - 1 if part.is_signed else 0
    exponent = f"0x{(MANTISSA_BITS - start + 127) << MANTISSA_BITS | middle << start:08x}"
    if part.bits < part.size:
        if not rest:
            word = w.value("b32", "taken", "and.b32", word, str(((1 << part.bits) - 1) << start))
        exponent = w.kept(exponent)
    bits = w.value("b32", "bits", "xor.b32", word, exponent)
    if rest:
        bits = w.value("b32", "bits", "or.b32", bits, rest)
    given, offset = w.value("f32", "bits", "mov.b32", bits), float((1 << MANTISSA_BITS - start) + middle)
    result = w.value("f32", "cast", "sub.rn.f32", given, number(dtypes.float32, offset))
    w.offsets[result] = given, offset
    return result


def less(w: PtxWriter, x: str, amount: float) -> str | None:
    """x minus a small integer, where x is a float that was made of bits: one subtraction for both."""
    if x not in w.offsets or not 0 < abs(amount) <= MOST_LESS or amount != int(amount):
        return None
    given, offset = w.offsets[x]
    return w.value("f32", "sub", "sub.rn.f32", given, number(dtypes.float32, offset + amount))
