"""Registers that were loaded as one and used in parts: what is put together again is there already.

    ld.global.u16 two          a = two & 255, b = two >> 8        bytes that a program loads as neighbours
    a | b << 8                 two
    (two >> 16) << 16          two & 0xffff0000                   the upper of two bfloat16 as float32

What is not used in the end the assembler leaves out; such shifts and masks it would keep.
"""

from __future__ import annotations

from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.op import Op
from whit.render.ptx_values import Part, Writer


def bytes_of(w: Writer, word: str, count: int) -> list[str]:
    """Each byte of a register of so many."""
    found = []
    for i in range(count):
        byte = word if i == 0 else w.value("b32", "byte", "shr.u32", word, str(8 * i))
        if i < count - 1:
            byte = w.value("b32", "byte", "and.b32", byte, "255")
        w.parts[byte] = Part(word, 8 * count, 8 * i, 8)
        found.append(byte)
    return found


def upper_half(w: Writer, word: str) -> str:
    """The upper 16 bits of a register."""
    half = w.value("b32", "high", "shr.u32", word, "16")
    w.parts[half] = Part(word, 32, 16, 16)
    return half


def put_together(w: Writer, op: Op, dtype: DType, x: list[str]) -> str | None:
    """What an op makes of parts, if that is there."""
    part = w.parts.get(x[0])
    if op is ops.SHL and x[1] == "16" and dtype.bitsize == 32 and part is not None and part.bits == 16:
        return w.value("b32", "high", "and.b32", part.whole, "0xffff0000")
    if op is not ops.OR:
        return None
    for low, high in (x, x[::-1]):
        first, second = w.parts.get(low), w.parts.get(w.shifted.get(high, ""))
        if first is None or second is None or first.is_signed or first.bits != 8:
            continue
        if first.whole != second.whole or first.start % 16 or second.start != first.start + 8:
            continue
        if first.size == 16:
            return first.whole
        if first.start:
            return w.value("b32", "two", "shr.u32", first.whole, "16")
        return w.value("b32", "two", "and.b32", first.whole, "0xffff")
    return None


def is_shifted_byte(w: Writer, op: Op, dtype: DType, x: list[str]) -> bool:
    """Whether this is a byte of a register, times 256, in a dtype that has such a number."""
    part, has_room = w.parts.get(x[0]), dtype.bitsize == 32 or dtype is dtypes.uint16
    return op is ops.SHL and x[1] == "8" and has_room and part is not None and part.bits == 8 and not part.is_signed


def is_last_byte(w: Writer, x: str) -> bool:
    """Whether a register has the last byte of two, signed."""
    return x in w.parts and w.parts[x].size == 16 and w.parts[x].start == 8 and w.parts[x].is_signed


def last_byte_as_float(w: Writer, x: str) -> str:
    """A signed byte as float32 by its bits: 2**23 + 128 + x is a float whose last bits are those of 128 + x.

    The instruction for it runs at a quarter of the speed of others: every second number is made in the other way.
    """
    byte = w.value("b32", "byte", "shr.u32", w.parts[x].whole, "8")
    bits = w.value("b32", "bits", "xor.b32", byte, "0x4b000080")
    return w.value("f32", "cast", "sub.rn.f32", w.value("f32", "bits", "mov.b32", bits), "0f4b000080")
