"""float16, bfloat16 and fp8 in terms of float32 and integers, for targets that cannot compute with them.

Goes in: a LINEAR. Comes out: a LINEAR in which small floats are only moved (loaded, stored, chosen, bitcast), so that a
renderer may treat them as integers of their size.

    add(x, y) of bfloat16
    ->  cast(add(cast(x, float32), cast(y, float32)), bfloat16)
    cast(x, float32) of bfloat16
    ->  bitcast(cast(bitcast(x, uint16), uint32) << 16, float32)

Results are those of `whit.dtype.convert`, bit by bit but for which NaN it is. Computing in float32 rounds twice, which
is as good as once: a result of + - * / sqrt rounded to 24 bits and then to p <= 11 is the correctly rounded one, since
24 >= 2 p + 2 (Figueroa 1995). Where more is asked (float64 and wide integers as sources, fused multiply-add), the wider
value is first rounded to odd: if inexact, to the neighbour whose last bit is 1, which is never a tie.

Casts and ops that the target has itself stay (`native`, the context of the rules).
"""

from __future__ import annotations

import math

from whit.dtype import DType, dtypes, encode
from whit.ir import ops
from whit.ir.op import Op
from whit.ir.rewrite import rewrite_all
from whit.ir.rules import Rules, function_rule
from whit.ir.uop import UOp, const, make
from whit.records import dataclass
from whit.render.program import relist

F32, F64 = dtypes.float32, dtypes.float64
I32, U32, I64, U64 = dtypes.int32, dtypes.uint32, dtypes.int64, dtypes.uint64
SMALL = frozenset({dtypes.float16, dtypes.bfloat16, *dtypes.fp8s})
_BITS = {1: dtypes.uint8, 2: dtypes.uint16, 4: U32}
_ALL = frozenset(dtypes.all)
_HALF_CASTS = frozenset({(dtypes.float16, F32), (F32, dtypes.float16)})
_BFLOAT_CASTS = frozenset({(F32, dtypes.bfloat16)})
_OCP_FP8S = (dtypes.fp8e4m3, dtypes.fp8e5m2)
# The instructions for fp8e5m2 give no infinities, so only reading it is left to them.
_FP8_CASTS = frozenset({*((fp8, dtypes.float16) for fp8 in _OCP_FP8S), (F32, dtypes.fp8e4m3)})
_MOVES = (ops.WHERE,)
_ARITHMETIC = tuple(op for op in ops.ELEMENTWISE if op not in (*_MOVES, ops.FMA))


# ---- bits


def bits_of(x: UOp) -> UOp:
    """The bits of a float of at most 32 bits as a uint32."""
    return x.bitcast(_BITS[x.dtype.itemsize]).cast(U32)


def from_bits(bits: UOp, dtype: DType) -> UOp:
    """The float of at most 32 bits that has these low bits."""
    return bits.cast(_BITS[dtype.itemsize]).bitcast(dtype)


def _float_code(value: float) -> int:
    return encode(F32, value)


def decoded(x: UOp) -> UOp:
    """A small float as float32, exactly."""
    dtype = x.dtype
    bits = bits_of(x)
    if dtype is dtypes.bfloat16:
        return from_bits(bits << 16, F32)
    shift = 23 - dtype.mantissa_bits
    sign_bit = 1 << (dtype.bitsize - 1)
    magnitude = bits & (sign_bit - 1)
    normal = (magnitude << shift) + ((127 - dtype.bias) << 23)
    # A subnormal is its mantissa times the smallest step. It is converted, because float32 subnormals are slow.
    step = math.ldexp(1.0, 1 - dtype.bias - dtype.mantissa_bits)
    subnormal = bits_of(magnitude.bitcast(I32).cast(F32) * step)
    value = (magnitude < 1 << dtype.mantissa_bits).where(subnormal, normal)
    if dtype.flavour == "ieee":
        infinity = ((1 << dtype.exponent_bits) - 1) << dtype.mantissa_bits
        value = (magnitude >= infinity).where(value | 0x7F800000, value)
    elif dtype.flavour == "fn":
        value = magnitude.eq(sign_bit - 1).where(const(U32, 0x7FC00000), value)
    value = value | ((bits & sign_bit) << (32 - dtype.bitsize))
    if dtype.flavour == "fnuz":
        value = bits.eq(sign_bit).where(const(U32, 0x7FC00000), value)
    return from_bits(value, F32)


def encoded(x: UOp, dtype: DType) -> UOp:
    """A float32 rounded to a small float: to nearest, ties to even."""
    bits = bits_of(x)
    sign = bits >> 31
    magnitude = bits & 0x7FFFFFFF
    is_nan = magnitude > 0x7F800000
    if dtype is dtypes.bfloat16:
        rounded = (bits + ((bits >> 16) & 1) + 0x7FFF) >> 16
        return from_bits(is_nan.where((bits >> 16) | 0x40, rounded), dtype)
    shift = 23 - dtype.mantissa_bits
    if dtype.saturates:
        magnitude = magnitude.minimum(_float_code(dtype.largest))
    normal = (magnitude + ((magnitude >> shift) & 1) + ((1 << (shift - 1)) - 1)) >> shift
    normal = normal - ((127 - dtype.bias) << dtype.mantissa_bits)
    # Adding this power of two pushes what is below the smallest step out of the mantissa, correctly rounded.
    anchor = math.ldexp(1.0, 23 + 1 - dtype.bias - dtype.mantissa_bits)
    subnormal = bits_of(from_bits(magnitude, F32) + anchor) - _float_code(anchor)
    is_subnormal = magnitude < _float_code(math.ldexp(1.0, 1 - dtype.bias))
    result = is_subnormal.where(subnormal, normal)
    if not dtype.saturates:
        result = result.minimum(((1 << dtype.exponent_bits) - 1) << dtype.mantissa_bits)
    nan = const(U32, encode(dtype, math.nan))
    if dtype.flavour == "fnuz":
        signed = result.eq(0).where(result, result | (sign << (dtype.bitsize - 1)))
        return from_bits(is_nan.where(nan, signed), dtype)
    return from_bits(is_nan.where(nan, result) | (sign << (dtype.bitsize - 1)), dtype)


def rounded_to_odd(x: UOp) -> UOp:
    """A float64 as float32: if inexact, the neighbour whose last bit is 1."""
    nearest = x.cast(F32)
    back = nearest.cast(F64)
    is_inexact = (back < x) | (x < back)  # not for NaN
    bits = bits_of(nearest)
    outward = const(U32, 1)
    neighbour = bits + (abs(back) < abs(x)).where(outward, const(U32, 0xFFFFFFFF))
    return from_bits((is_inexact & (bits & 1).eq(0)).where(neighbour, bits), F32)


def exact_double(x: UOp) -> UOp:
    """An integer as float64, close enough to be rounded to a small float: what does not fit in 53 bits is rounded to
    the middle between two multiples of 4096, on the right side of every tie."""
    if x.dtype.bitsize < 64:
        return x.cast(F64)
    is_wide = abs(x) >= 1 << 53 if x.dtype is U64 else (x >= 1 << 53) | (x <= -(1 << 53))
    low = x & 0xFFF
    sticky = (x - low) + low.ne(0).where(x.constant(0x800), x.constant(0))
    return is_wide.where(sticky, x).cast(F64)


def multiplied_and_added(x: UOp, y: UOp, z: UOp) -> UOp:
    """x * y + z of float64 that hold small floats: the product is exact, the sum rounded to odd."""
    product = x * y
    total = product + z
    back = total - product
    error = (product - (total - back)) + (z - back)  # exact: Knuth's TwoSum
    bits = total.bitcast(I64)
    grows = (error < 0.0).eq(total < 0.0)
    neighbour = bits + grows.where(const(I64, 1), const(I64, -1))
    is_inexact = (error < 0.0) | (error > 0.0)
    return (is_inexact & (bits & 1).eq(0)).where(neighbour, bits).bitcast(F64)


# ---- rules


@dataclass(frozen=True, slots=True)
class Native:
    """What the target does with small floats."""

    casts: frozenset[tuple[DType, DType]]
    computed: frozenset[tuple[Op, DType]]  # with the correctly rounded result


@function_rule(ops.CAST, on=_ALL)
def cast_through_float32(node: UOp, native: Native) -> UOp | None:
    """cast of or to a small float -> integer arithmetic on bits, by way of float32"""
    (x,) = node.src
    source, dtype = x.dtype, node.dtype
    if source not in SMALL and dtype not in SMALL:
        return None
    if (source, dtype) in native.casts:
        return None
    if source in dtypes.fp8s and (source, dtypes.float16) in native.casts:
        return x.cast(dtypes.float16).cast(dtype)
    if source in SMALL:
        return decoded(x) if dtype is F32 else x.cast(F32).cast(dtype)
    if source is F32:
        return encoded(x, dtype)
    if source is F64:
        return rounded_to_odd(x).cast(dtype)
    if source.bitsize <= 16:  # exact in float32
        return x.cast(F32).cast(dtype)
    return exact_double(x).cast(dtype)


@function_rule(*_ARITHMETIC, on=SMALL)
def compute_in_float32(node: UOp, native: Native) -> UOp | None:
    """op(x, y) -> cast(op(cast(x, float32), cast(y, float32)))"""
    dtype = node.src[0].dtype
    if (node.op, dtype) in native.computed:
        return None
    if node.op in (ops.NEG, ops.ABS) and not dtype.saturates:
        (x,) = node.src
        bits = x.bitcast(_BITS[dtype.itemsize])
        sign_bit = 1 << (dtype.bitsize - 1)
        return (bits ^ sign_bit if node.op is ops.NEG else bits & (sign_bit - 1)).bitcast(dtype)
    result = make(node.op, tuple(s.cast(F32) for s in node.src), node.arg)
    return result.cast(dtype) if node.dtype is dtype else result


@function_rule(ops.FMA, on=SMALL)
def fuse_in_float64(node: UOp, native: Native) -> UOp | None:
    """fma(x, y, z) -> the exact product and a sum rounded to odd, in float64"""
    if (node.op, node.dtype) in native.computed:
        return None
    x, y, z = (s.cast(F32).cast(F64) for s in node.src)
    return multiplied_and_added(x, y, z).cast(node.dtype)


@function_rule(ops.REDUCE, on=SMALL)
def reduce_in_float32(node: UOp) -> UOp:
    """reduce(vector) -> cast(reduce(cast(vector, float32)))"""
    (x,) = node.src
    return x.cast(F32).reduce(node.arg.op, node.arg.axes).cast(node.dtype)


@function_rule(ops.STORE, on=SMALL)
def combine_before_storing(node: UOp) -> UOp | None:
    """store(old combine value) -> load, combine, store; lane after lane where positions could be equal"""
    if node.arg.combine is None:
        return None
    buffer, value, position, *gate = node.src
    # The group makes this load another instruction than every load before it.
    now = buffer.after(UOp.group(*node.src[1:]))
    if not position.shape:
        width = value.shape[0] if value.shape else 1
        old = now.load(position, width, *gate)
        return buffer.store(make(node.arg.combine, (old, value)), position, gate=gate[0] if gate else None)
    for lane in range(position.shape[0]):
        where, element, *allowed = (s.index(lane) if s.shape else s for s in (position, value, *gate))
        old = now.load(where, 1, *allowed)
        new = make(node.arg.combine, (old, element))
        store = buffer.store(new, where, gate=allowed[0] if allowed else None)
        now = buffer.after(store)
    return store


EMULATE_SMALL_FLOATS = Rules(
    "emulate small floats",
    (cast_through_float32, compute_in_float32, fuse_in_float64, reduce_in_float32, combine_before_storing),
)


def emulate_small_floats(
    linear: UOp,
    *,
    has_half: bool,
    has_bfloat: bool = False,
    has_fp8: bool = False,
    computed: frozenset[tuple[Op, DType]] = frozenset(),
) -> UOp:
    """The program with small floats moved but never computed with, except by ops on dtypes that are `computed`; with
    `has_half`, float16 <-> float32 stay; with `has_bfloat`, float32 -> bfloat16 too; with `has_fp8`, fp8e4m3 and
    fp8e5m2 -> float16, and float32 -> fp8e4m3."""
    if not any(s.dtype in SMALL for node in linear.src for s in (node, *node.src)):
        return linear
    casts = ((has_half, _HALF_CASTS), (has_bfloat, _BFLOAT_CASTS), (has_fp8, _FP8_CASTS))
    native = frozenset().union(*(pairs for has, pairs in casts if has))
    return relist(linear, rewrite_all(linear.src, EMULATE_SMALL_FLOATS, Native(native, computed)))
