"""Quantised blocks of GGUF, dequantised by tensor operations: bytes in, float32 out, fused into what uses the result.

    Q4_0    | d: float16 | 16 bytes of two numbers each |    32 elements (q - 8) * d

A tensor is rows of blocks. Each function takes all blocks, shape (blocks, bytes of a block), and gives (blocks,
elements of a block). The layouts are those of ggml; `docs/files.md` lists them.
"""

from __future__ import annotations

from collections.abc import Callable

from whit.dtype import DType, dtypes
from whit.records import dataclass
from whit.tensor import Tensor

# The 16 values of IQ4_NL and IQ4_XS, and those of MXFP4 (e2m1), times 2.
NONLINEAR = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
E2M1 = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)


@dataclass(frozen=True)
class Kind:
    """How elements are packed: `elements` of them in a block of `nbytes`."""

    name: str
    elements: int
    nbytes: int
    dtype: DType  # of the result
    unpack: Callable[[Tensor], Tensor] | None = None  # None: the elements are of the dtype


def _half(blocks: Tensor, start: int) -> Tensor:
    """A float16 of each block, as float32 (blocks, 1)."""
    return blocks[:, start : start + 2].bitcast(dtypes.float16).cast(dtypes.float32)


def _bits(value: Tensor, width: int) -> Tensor:
    """(..., n) -> (..., 8 / width, n): the parts of each byte, the lowest bits first."""
    shifts = Tensor.arange(0, 8, width, dtype=dtypes.uint8).unsqueeze(1)
    return (value.unsqueeze(-2) >> shifts) & ((1 << width) - 1)


def _nibbles(value: Tensor) -> Tensor:
    """(blocks, n) -> (blocks, 2n): all lower halves of bytes, then all upper ones."""
    return _bits(value, 4).flatten(1)


def _float(value: Tensor, less: int = 0) -> Tensor:
    """Unsigned bytes as numbers, with the middle moved to 0."""
    return value.cast(dtypes.float32) - less if less else value.cast(dtypes.float32)


def _look_up(values: tuple[int, ...], places: Tensor) -> Tensor:
    """The value of each 4-bit number."""
    table = Tensor(list(values), places.device, dtypes.float32)
    return table.gather(0, places.flatten().cast(dtypes.int32)).reshape(places.shape)


# ---- blocks of 32


def q4_0(blocks: Tensor) -> Tensor:
    """(q - 8) * d"""
    return _float(_nibbles(blocks[:, 2:18]), 8) * _half(blocks, 0)


def q4_1(blocks: Tensor) -> Tensor:
    """q * d + m"""
    return _float(_nibbles(blocks[:, 4:20])) * _half(blocks, 0) + _half(blocks, 2)


def _fifth_bits(blocks: Tensor, start: int) -> Tensor:
    """Bit i of four bytes is bit 4 of element i."""
    shifts = Tensor.arange(8, dtype=dtypes.uint8)
    return ((blocks[:, start : start + 4].unsqueeze(2) >> shifts) & 1).flatten(1) << 4


def q5_0(blocks: Tensor) -> Tensor:
    """(q - 16) * d"""
    return _float(_nibbles(blocks[:, 6:22]) | _fifth_bits(blocks, 2), 16) * _half(blocks, 0)


def q5_1(blocks: Tensor) -> Tensor:
    """q * d + m"""
    value = _nibbles(blocks[:, 8:24]) | _fifth_bits(blocks, 4)
    return _float(value) * _half(blocks, 0) + _half(blocks, 2)


def q8_0(blocks: Tensor) -> Tensor:
    """q * d, with q signed"""
    return _float(blocks[:, 2:34].bitcast(dtypes.int8)) * _half(blocks, 0)


def iq4_nl(blocks: Tensor) -> Tensor:
    """value[q] * d"""
    return _look_up(NONLINEAR, _nibbles(blocks[:, 2:18])) * _half(blocks, 0)


def mxfp4(blocks: Tensor) -> Tensor:
    """value[q] * 2**(e - 128), the values being twice those of e2m1"""
    exponent = blocks[:, 0:1].cast(dtypes.uint32)
    shift = (exponent < 2).where(exponent, 0)
    small = Tensor.full(exponent.shape, 0x200000, dtypes.uint32, blocks.device) << shift
    scale = (exponent < 2).where(small, (exponent - 1) << 23).bitcast(dtypes.float32)
    return _look_up(E2M1, _nibbles(blocks[:, 1:17])) * scale


# ---- blocks of 256, with scales of their parts


def _scaled(values: Tensor, scales: Tensor, less: Tensor | None = None) -> Tensor:
    """Parts of blocks, each with its scale and what is taken off: -> (blocks, 256)."""
    parts = scales.shape[1]
    value = values.reshape(-1, parts, 256 // parts) * scales.unsqueeze(2)
    return (value if less is None else value - less.unsqueeze(2)).reshape(-1, 256)


def q2_k(blocks: Tensor) -> Tensor:
    """16 parts: d * scale * q - dmin * min"""
    scales = blocks[:, 0:16]
    value = _bits(blocks[:, 16:80].reshape(-1, 2, 32), 2)
    return _scaled(_float(value), _half(blocks, 80) * _float(scales & 15), _half(blocks, 82) * _float(scales >> 4))


def q3_k(blocks: Tensor) -> Tensor:
    """16 parts: d * (scale - 32) * (q - 4), the third bits of q in bytes of their own"""
    low = _bits(blocks[:, 32:96].reshape(-1, 2, 32), 2).reshape(-1, 8, 32)
    value = low | (_bits(blocks[:, 0:32], 1) << 2)
    packed = blocks[:, 96:108]
    scales = _nibbles(packed[:, :8]) | (_bits(packed[:, 8:], 2).flatten(1) << 4)
    return _scaled(_float(value, 4), _half(blocks, 108) * _float(scales, 32))


def _six_bit_scales(packed: Tensor) -> tuple[Tensor, Tensor]:
    """12 bytes -> 8 scales and 8 minima of six bits: the later four of each borrow two bits from the first ones."""
    scales, minima, both = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    return (
        Tensor.cat(scales & 63, (both & 15) | ((scales >> 6) << 4), dim=1),
        Tensor.cat(minima & 63, (both >> 4) | ((minima >> 6) << 4), dim=1),
    )


def _four_bits_of_64(blocks: Tensor, start: int) -> Tensor:
    """(blocks, 8, 32): each 32 bytes hold two parts"""
    return _bits(blocks[:, start : start + 128].reshape(-1, 4, 32), 4).reshape(-1, 8, 32)


def q4_k(blocks: Tensor) -> Tensor:
    """8 parts: d * scale * q - dmin * min"""
    scales, minima = _six_bit_scales(blocks[:, 4:16])
    value = _float(_four_bits_of_64(blocks, 16))
    return _scaled(value, _half(blocks, 0) * _float(scales), _half(blocks, 2) * _float(minima))


def q5_k(blocks: Tensor) -> Tensor:
    """The same with five bits, the fifth ones in bytes of their own"""
    scales, minima = _six_bit_scales(blocks[:, 4:16])
    value = _float(_four_bits_of_64(blocks, 48) | (_bits(blocks[:, 16:48], 1) << 4))
    return _scaled(value, _half(blocks, 0) * _float(scales), _half(blocks, 2) * _float(minima))


def q6_k(blocks: Tensor) -> Tensor:
    """16 parts: d * scale * (q - 32), scales signed"""
    low = _bits(blocks[:, 0:128].reshape(-1, 2, 64), 4).reshape(-1, 2, 4, 32)
    high = _bits(blocks[:, 128:192].reshape(-1, 2, 32), 2)
    scales = _float(blocks[:, 192:208].bitcast(dtypes.int8))
    return _scaled(_float(low | (high << 4), 32), _half(blocks, 208) * scales)


def q8_k(blocks: Tensor) -> Tensor:
    """q * d, with d a float32 and q signed; sums of parts follow, which nothing here needs"""
    return _float(blocks[:, 4:260].bitcast(dtypes.int8)) * blocks[:, 0:4].bitcast(dtypes.float32)


def iq4_xs(blocks: Tensor) -> Tensor:
    """8 parts: d * (scale - 32) * value[q]"""
    low = _bits(blocks[:, 4:8].reshape(-1, 4, 1), 4).reshape(-1, 8)
    high = _bits(blocks[:, 2:4].reshape(-1, 2, 1), 2).reshape(-1, 8)
    places = _bits(blocks[:, 8:136].reshape(-1, 8, 16), 4).reshape(-1, 8, 32)
    return _scaled(_look_up(NONLINEAR, places), _half(blocks, 0) * _float(low | (high << 4), 32))


KINDS: dict[int, Kind] = {
    0: Kind("F32", 1, 4, dtypes.float32),
    1: Kind("F16", 1, 2, dtypes.float16),
    2: Kind("Q4_0", 32, 18, dtypes.float32, q4_0),
    3: Kind("Q4_1", 32, 20, dtypes.float32, q4_1),
    6: Kind("Q5_0", 32, 22, dtypes.float32, q5_0),
    7: Kind("Q5_1", 32, 24, dtypes.float32, q5_1),
    8: Kind("Q8_0", 32, 34, dtypes.float32, q8_0),
    10: Kind("Q2_K", 256, 84, dtypes.float32, q2_k),
    11: Kind("Q3_K", 256, 110, dtypes.float32, q3_k),
    12: Kind("Q4_K", 256, 144, dtypes.float32, q4_k),
    13: Kind("Q5_K", 256, 176, dtypes.float32, q5_k),
    14: Kind("Q6_K", 256, 210, dtypes.float32, q6_k),
    15: Kind("Q8_K", 256, 292, dtypes.float32, q8_k),
    20: Kind("IQ4_NL", 32, 18, dtypes.float32, iq4_nl),
    23: Kind("IQ4_XS", 256, 136, dtypes.float32, iq4_xs),
    24: Kind("I8", 1, 1, dtypes.int8),
    25: Kind("I16", 1, 2, dtypes.int16),
    26: Kind("I32", 1, 4, dtypes.int32),
    27: Kind("I64", 1, 8, dtypes.int64),
    28: Kind("F64", 1, 8, dtypes.float64),
    30: Kind("BF16", 1, 2, dtypes.bfloat16),
    39: Kind("MXFP4", 32, 17, dtypes.float32, mxfp4),
}
