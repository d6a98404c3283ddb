"""What a sort moves: bits that are ordered like the numbers, and records of bits and a position.

    key(bits)      an unsigned integer with the order that sorting wants: NaN last, zeros equal; inverted if descending
    Record         the words in which bits and positions lie in memory

Records keep the bits as they came, not the key, because the key does not tell -0.0 from 0.0 and one NaN from another.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from whit.dtype import DType, dtypes, encode
from whit.ir.uop import UOp, const

_UNSIGNED = {1: dtypes.uint8, 2: dtypes.uint16, 4: dtypes.uint32, 8: dtypes.uint64}


def bits_dtype(dtype: DType) -> DType:
    """The unsigned integers that hold the bits of a dtype."""
    return _UNSIGNED[dtype.itemsize]


def to_bits(value: UOp) -> UOp:
    """A number as its bits."""
    return value.cast(dtypes.uint8) if value.dtype.is_bool else value.bitcast(bits_dtype(value.dtype))


def from_bits(bits: UOp, dtype: DType) -> UOp:
    """The number with these bits."""
    return bits.ne(0) if dtype.is_bool else bits.bitcast(dtype)


def key_of(bits: UOp, dtype: DType, descending: bool) -> UOp:
    """The unsigned integer that is ordered as the number is."""
    key = _ascending(bits, dtype)
    return ~key if descending else key


def _ascending(bits: UOp, dtype: DType) -> UOp:
    if dtype.is_bool or dtype.is_unsigned:
        return bits
    sign = const(bits.dtype, 1 << (bits.dtype.bitsize - 1))
    if not dtype.is_float:
        return bits ^ sign
    # Positive numbers stand above all negative ones; those count down from the same zero.
    key = (bits < sign).where(bits + sign, -bits)
    largest = const(bits.dtype, bits.dtype.max)
    if dtype.flavour == "fnuz":  # the one NaN is where -0.0 would be, and the largest number has all ones
        return bits.eq(sign).where(largest, key - 1)
    has_infinity = dtype is not dtypes.fp8e4m3
    top = encode(dtype, inf if has_infinity else dtype.max)
    is_nan = const(bits.dtype, top) < (bits & const(bits.dtype, bits.dtype.max >> 1))
    return is_nan.where(largest, key)


@dataclass(frozen=True, slots=True)
class Record:
    """How bits and a position lie in one or two words."""

    bits: DType
    words: tuple[DType, ...]
    position_bits: int  # in the same word, below the bits; 0 if positions have a word of their own or are not wanted

    def pack(self, bits: UOp, position: UOp) -> tuple[UOp, ...]:
        """The words of a record."""
        first, *rest = self.words
        if rest:
            return bits.cast(first), position.cast(rest[0])
        if not self.position_bits:
            return (bits.cast(first),)
        return ((bits.cast(first) << self.position_bits) | position.cast(first),)

    def bits_of(self, words: tuple[UOp, ...]) -> UOp:
        """The bits of a record."""
        first = words[0]
        return (first >> self.position_bits if self.position_bits else first).cast(self.bits)

    def position_of(self, words: tuple[UOp, ...]) -> UOp:
        """The position of a record."""
        first, *rest = words
        if rest:
            return rest[0].cast(dtypes.int64)
        return (first & const(first.dtype, (1 << self.position_bits) - 1)).cast(dtypes.int64)
