"""Sums of floats as integers, which may be added in any order.

A float is an integer times a power of two. By levels: powers are cut into levels, so narrow that all integers of a
level, shifted by what is left of their power, can be added in 64 bits. Sums are exact.

    v (n,) at rows            ->   words = after(zeros, store(place, word of v, level of v, rows, combine=add))
                                   sum over levels of words[level] * 2**(level * bits of a level)

By the largest: where levels would take much memory beside the values there is one word for each place. It counts what
suits the largest value that goes there, of which the others are rounded to the last bit that can be added.

    v (n,) at rows            ->   largest = after(zeros, store(place, exponent of v, rows, combine=max))
                                   words = after(zeros, store(place, v / 2**(largest[rows] - bits), rows, combine=add))
                                   words * 2**(largest - bits)

What is not finite is counted in a level of its own, or in a word to which no number is added any more.
"""

from __future__ import annotations

from math import inf, prod

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.uop import UOp, const
from whit.records import dataclass, replace
from whit.schedule.rewrites.scattered import Scatter, zeros

ROOM = 2  # words of levels for each value: 2**24 in 10**6 places 0.26 ms (by the largest 0.47), 2**20 0.09 (0.06)
I32, I64, F32, F64 = dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64
BIAS = 1023  # of exponents of float64
SPECIAL = 255  # the exponent of what is not finite, as float32
NEGATIVE = 1 << 32  # counts one negative infinity; a positive one counts 1, NaN both


@dataclass(frozen=True, slots=True)
class Format:
    """How floats of a dtype are read, once they are float32."""

    bits: int  # of a significand
    first: int  # the smallest exponent
    exponents: int  # how many there are

    @property
    def least(self) -> int:
        """All numbers are multiples of two to this power."""
        return self.first - 126 - self.bits


FORMATS = {
    dtypes.float32: Format(24, 1, 254),
    dtypes.bfloat16: Format(8, 1, 254),
    dtypes.float16: Format(11, 103, 40),
}


def sums_of(scatter: Scatter) -> UOp:
    """What is added at each place, as float64."""
    form = FORMATS[scatter.value.dtype]
    is_there = scatter.value.ne(0.0)
    scatter = replace(scatter, gate=is_there if scatter.gate is None else scatter.gate & is_there)
    count = max(scatter.ordered - 1, 1).bit_length()  # bits that a sum of all has more than one of them
    step = 64 - form.bits - count
    levels = -(-form.exponents // step)
    if (levels + 1) * prod(scatter.shape) <= ROOM * prod(scatter.value.shape):
        return _by_levels(scatter, form, step, levels)
    return _by_largest(scatter, 63 - count)


def _by_levels(scatter: Scatter, form: Format, step: int, levels: int) -> UOp:
    exponent, significand, special = _parts(scatter.value)
    height = exponent.maximum(form.first) - form.first
    number = (significand >> (24 - form.bits)) << (height % step).cast(I64)
    is_special = exponent.eq(SPECIAL)
    level = is_special.where(height.constant(levels), height // step)
    word = is_special.where(special, _signed(number, scatter.value))
    words = scatter.combined(zeros(word, (levels + 1, *scatter.shape)), word, ops.ADD, level)
    rest = [(0, size) for size in scatter.shape]
    *finite, counts = (words.shrink([(i, 1), *rest]).reshape(scatter.shape) for i in range(levels + 1))
    total = _infinities(counts)
    for i, part in enumerate(finite):
        total = total + part.cast(F64) * 2.0 ** (form.least + i * step)
    return total


def _by_largest(scatter: Scatter, bits: int) -> UOp:
    exponent, significand, special = _parts(scatter.value)
    exponent = exponent.maximum(1)
    largest = scatter.combined(zeros(exponent, scatter.shape), exponent, ops.MAX)
    here = largest.index(*scatter.positions, gate=scatter.gate)
    shift = (here - exponent).maximum(0).minimum(62).cast(I64)
    half = (const(I64, 1) << shift) >> 1
    number = ((significand << (bits - 24)) + half) >> shift
    finite = here.eq(SPECIAL).where(number.constant(0), _signed(number, scatter.value))
    word = exponent.eq(SPECIAL).where(special, finite)
    words = scatter.combined(zeros(word, scatter.shape), word, ops.ADD)
    power = (largest.cast(I64) + (BIAS - 126 - bits)) << 52
    return largest.eq(SPECIAL).where(_infinities(words), words.cast(F64) * power.bitcast(F64))


def _parts(value: UOp) -> tuple[UOp, UOp, UOp]:
    """Exponent (int32) and significand (int64) of numbers, and what is counted of those that are none."""
    word = value.cast(F32).bitcast(I32)
    exponent, fraction = (word >> 23) & 255, word & 0x7FFFFF
    significand = exponent.eq(0).where(fraction, fraction | 0x800000).cast(I64)
    infinity = (word < 0).where(significand.constant(NEGATIVE), 1)
    return exponent, significand, fraction.eq(0).where(infinity, NEGATIVE + 1)


def _signed(number: UOp, value: UOp) -> UOp:
    return (value < 0.0).where(-number, number)


def _infinities(counts: UOp) -> UOp:
    """The sum of what was counted: 0, infinite, or NaN."""
    plus = (counts & (NEGATIVE - 1)).ne(0).where(const(F64, inf), 0.0)
    return plus + (counts >> 32).ne(0).where(const(F64, -inf), 0.0)
