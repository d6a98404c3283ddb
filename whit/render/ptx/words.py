"""Bytes four at a time in PTX: what is put together of bits of bytes, for vectors of bytes.

(a >> 4 & 15) | (b & 3) << 4        of bytes 0 .. 3:        ((a >> 4) & 0x0f0f0f0f) | (b & 0x03030303) << 4

a and b being words of four bytes, as they were loaded. Bits that a shift moves into another byte are masked, unless
the next mask does it or there are none.
"""

from __future__ import annotations

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.uop import UOp
from whit.render.ptx.parts import bytes_of
from whit.render.ptx.values import PtxWriter, RegisterPart, Words, lane_count

EVERY = 0x01010101
BOTH = {ops.OR: "or.b32", ops.XOR: "xor.b32"}
SHIFTS = {ops.SHR: "shr.u32", ops.SHL: "shl.b32"}


def bytewise(w: PtxWriter, node: UOp) -> list[str] | None:
    """The lanes of what is put together of two vectors of bytes, if words have them."""
    if node.op not in BOTH or node.dtype is not dtypes.uint8 or not node.shape or lane_count(node) % 4:
        return None
    words = _words(w, node)
    if words is None:
        return None
    words = _clean(w, words)
    lanes = []
    for word in words.names:
        for i, byte in enumerate(bytes_of(w, word, 4)):
            w.parts[byte] = RegisterPart(word, 32, 8 * i, max(words.mask.bit_length(), 1))
            lanes.append(byte)
    return lanes


def _words(w: PtxWriter, node: UOp) -> Words | None:
    """A vector of bytes in words."""
    if node not in w.words:
        w.words[node] = _found(w, node)
    return w.words[node]


def _found(w: PtxWriter, node: UOp) -> Words | None:
    if node.op is ops.LOAD:
        return _loaded(w, w.names.get(node, []))
    if node.op not in (ops.AND, *BOTH, *SHIFTS) or lane_count(node.src[0]) != lane_count(node):
        return None
    x = _words(w, node.src[0])
    if x is None:
        return None
    given = node.src[1]
    if node.op in BOTH:
        y = _words(w, given)
        return None if y is None else _both(w, BOTH[node.op], _clean(w, x), _clean(w, y))
    if given.op is not ops.CONST or not 0 <= given.arg < (256 if node.op is ops.AND else 8):
        return None
    if node.op is ops.AND:
        return _masked(w, x, x.mask & given.arg)
    return _shifted(w, x, SHIFTS[node.op], given.arg)


def _loaded(w: PtxWriter, lanes: list[str]) -> Words | None:
    """Registers of four loaded bytes, or of two and two."""
    names = []
    for i in range(0, len(lanes), 4):
        parts = [w.parts.get(lane) for lane in lanes[i : i + 4]]
        known = [part for part in parts if part is not None and part.bits == 8 and not part.is_signed]
        if len(known) < 4:
            return None
        wholes, starts = [part.whole for part in known], [part.start for part in known]
        if len(set(wholes)) == 1 and starts == [0, 8, 16, 24]:
            names.append(wholes[0])
        elif starts == [0, 8, 0, 8] and wholes[::2] == wholes[1::2]:
            names.append(w.value("b32", "word", "prmt.b32", wholes[0], wholes[2], "0x5410"))
        else:
            return None
    return Words(names) if names else None


def _both(w: PtxWriter, instruction: str, x: Words, y: Words) -> Words:
    pairs = zip(x.names, y.names, strict=True)
    return Words([w.value("b32", "both", instruction, *pair) for pair in pairs], x.mask | y.mask)


def _masked(w: PtxWriter, x: Words, mask: int) -> Words:
    return Words([w.value("b32", "masked", "and.b32", name, str(mask * EVERY)) for name in x.names], mask)


def _clean(w: PtxWriter, x: Words) -> Words:
    return x if x.is_clean else _masked(w, x, x.mask)


def _shifted(w: PtxWriter, x: Words, instruction: str, by: int) -> Words:
    x = _clean(w, x)
    is_down = instruction == SHIFTS[ops.SHR]
    mask = x.mask >> by if is_down else x.mask << by
    stays = x.mask % (1 << by) == 0 if is_down else mask < 256
    return Words([w.value("b32", "moved", instruction, name, str(by)) for name in x.names], mask & 255, stays)
