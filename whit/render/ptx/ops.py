"""The elementwise ops of the op table as PTX, with the meanings of docs/semantics.md, one lane at a time.

Every rounding is spelled out (`.rn`), so that the assembler never fuses a product and a sum, and nothing is flushed to
zero. What PTX leaves open (division by zero, conversions of NaN) is written so that it cannot matter.
"""

from __future__ import annotations

from whit.dtype import DType, can_lossless_cast, dtypes
from whit.ir import ops
from whit.ir.op import Op
from whit.ir.uop import UOp
from whit.records import replace
from whit.render.program import unsupported
from whit.render.ptx.packed_f16x2 import is_f16x2, rounded, spell_f16x2
from whit.render.ptx.parts import as_float, is_shifted_byte, less, of_part, put_together
from whit.render.ptx.values import PtxWriter, arithmetic_type, lane_count, number, register_type
from whit.simplify.bounds import bounds

_STAYS = (ops.AND, ops.OR, ops.XOR, ops.MAX, ops.MIN, ops.SHR)  # of numbers of few bits, what has few bits
_ROUND = {ops.TRUNC: "cvt.rzi", ops.FLOOR: "cvt.rmi", ops.CEIL: "cvt.rpi", ops.ROUND: "cvt.rni"}
_ARITHMETIC = {ops.ADD: "add", ops.SUB: "sub", ops.MUL: "mul", ops.FDIV: "div", ops.NORMAL_DIV: "div"}
_BITS = {ops.AND: "and", ops.OR: "or", ops.XOR: "xor"}
_INTEGERS = {  # of a register b32 or b64, by the kind of its numbers: u32, s32, u64, s64
    ops.ADD: "add.{kind}",
    ops.SUB: "sub.{kind}",
    ops.MUL: "mul.lo.{kind}",
    ops.FMA: "mad.lo.{kind}",
    **{op: f"{name}.{{register}}" for op, name in _BITS.items()},
    ops.NOT: "not.{register}",
    ops.NEG: "neg.s{bits}",
    ops.ABS: "abs.{kind}",
    ops.MAX: "max.{kind}",
    ops.MIN: "min.{kind}",
    ops.SHL: "shl.{register}",
    ops.SHR: "shr.{kind}",
}
_COMPARE = {ops.LT: "lt", ops.LE: "le", ops.EQ: "eq", ops.NE: "ne"}
_DIVISIONS = (ops.FLOORDIV, ops.FLOORMOD, ops.CDIV, ops.CMOD)
_FP8S = {dtypes.fp8e4m3: "e4m3x2", dtypes.fp8e5m2: "e5m2x2"}
_MINUS_ONE = ("-1", "4294967295")
U32_END = 1 << 32


def elementwise(w: PtxWriter, node: UOp) -> list[str]:
    """The lanes of an elementwise op; their registers."""
    if is_f16x2(w, node):
        return spell_f16x2(w, node)
    return [_lane(w, node, lane) for lane in range(lane_count(node))]


def _lane(w: PtxWriter, node: UOp, lane: int) -> str:
    x = [w.operand(source, lane) for source in node.src]
    if node.op in _DIVISIONS:
        return _divide(w, node, x)
    if node.op in (ops.ADD, ops.SUB) and node.src[-1].op is ops.CONST and x[0] in w.offsets:
        short = less(w, x[0], node.src[-1].arg if node.op is ops.SUB else -node.src[-1].arg)
        if short is not None:
            return short
    dtype = node.dtype if node.op is ops.WHERE else node.src[0].dtype
    return spell(w, node.op, dtype, x)


def _normal_quotient(w: PtxWriter, x: str, y: str) -> str:
    """What `div.rn` does of ordinary numbers, without asking first."""
    minus = w.value("f32", "minus", "neg.f32", y)
    rough = w.value("f32", "rcp", "rcp.approx.ftz.f32", y)
    error = w.value("f32", "error", "fma.rn.f32", minus, rough, number(dtypes.float32, 1.0))
    inverse = w.value("f32", "rcp", "fma.rn.f32", rough, error, rough)
    product = w.value("f32", "fdiv", "mul.rn.f32", x, inverse)
    left = w.value("f32", "left", "fma.rn.f32", minus, product, x)
    return w.value("f32", "fdiv", "fma.rn.f32", left, inverse, product)


def spell(w: PtxWriter, op: Op, dtype: DType, x: list[str]) -> str:
    """One application of an op; `dtype` is that of the operands (of the values, where the op chooses)."""
    if op is ops.WHERE:
        return _choose(w, dtype, *x)
    if op in _COMPARE:
        return _compare(w, op, dtype, x)
    if dtype.is_bool:
        return _of_bools(w, op, x)
    if dtype.is_float:
        return _of_floats(w, op, dtype, x)
    whole = put_together(w, op, dtype, x) or of_part(w, op, dtype, x)
    if whole is not None:
        return whole
    result = _of_integers(w, op, dtype, x)
    if is_shifted_byte(w, op, dtype, x):
        w.shifted[result] = x[0]
        return result
    if op is ops.OR:
        w.joined[result] = x[0], x[1]
    return result if op in _STAYS else narrowed(w, dtype, result)


def combined(w: PtxWriter, op: Op, dtype: DType, lanes: list[str]) -> str:
    """Halves of a vector with each other, until one lane is left; a float sum starts from 0."""
    while len(lanes) > 1:
        half = (len(lanes) + 1) // 2
        pairs = zip(lanes, lanes[half:], strict=False)
        lanes = [spell(w, op, dtype, list(pair)) for pair in pairs] + lanes[len(lanes) - half : half]
    if op is ops.ADD and dtype.is_float:  # so that a sum of -0.0 is 0.0
        return spell(w, op, dtype, [lanes[0], number(dtype, 0.0)])
    return lanes[0]


def narrowed(w: PtxWriter, dtype: DType, x: str) -> str:
    """The low bits of a register that belong to a dtype of fewer than 32, extended again."""
    if dtype.is_bool or dtype.bitsize >= 32:
        return x
    if dtype.is_float or dtype.is_unsigned:
        return w.value("b32", "low", "and.b32", x, str((1 << dtype.bitsize) - 1))
    part = w.parts.get(x)
    if part is None or part.bits != dtype.bitsize:
        return w.value("b32", "low", f"cvt.s32.s{dtype.bitsize}", w.in_register("b32", x))
    result = w.value("b32", "low", f"cvt.s32.s{dtype.bitsize}", x if part.start else part.whole)
    w.parts[result] = replace(part, is_signed=True)
    return result


def _choose(w: PtxWriter, dtype: DType, test: str, yes: str, no: str) -> str:
    kind = register_type(dtype)
    if kind != "pred":
        return w.value(kind, "where", f"selp.{kind}", yes, no, test)
    one = w.value("pred", "yes", "and.pred", test, yes)
    other = w.value("pred", "else", "not.pred", test)
    two = w.value("pred", "no", "and.pred", other, no)
    return w.value("pred", "where", "or.pred", one, two)


def _compare(w: PtxWriter, op: Op, dtype: DType, x: list[str]) -> str:
    name = _COMPARE[op]
    if dtype.is_bool:
        if op is ops.NE:
            return w.value("pred", name, "xor.pred", *x)
        if op is ops.EQ:
            return w.value("pred", name, "not.pred", w.value("pred", "ne", "xor.pred", *x))
        inverted = w.value("pred", "not", "not.pred", x[0])  # false < true
        return w.value("pred", name, f"{'and' if op is ops.LT else 'or'}.pred", inverted, x[1])
    kind = arithmetic_type(dtype)
    if dtype.is_float and op is ops.NE:
        name = "neu"  # also where one is NaN
    return w.value("pred", name, f"setp.{name}.{kind}", *x)


def _of_bools(w: PtxWriter, op: Op, x: list[str]) -> str:
    if op is ops.NOT:
        return w.value("pred", "not", "not.pred", x[0])
    names = {**_BITS, ops.MAX: "or", ops.MIN: "and", ops.ADD: "or", ops.MUL: "and"}
    if op not in names:
        raise unsupported(op, "PTX", "has no spelling for bool", "Expand it before rendering.")
    return w.value("pred", op.name, f"{names[op]}.pred", *x)


def _of_floats(w: PtxWriter, op: Op, dtype: DType, x: list[str]) -> str:
    kind = register_type(dtype)
    if op is ops.NORMAL_DIV and dtype is dtypes.float32:
        return _normal_quotient(w, *x)
    if op in _ARITHMETIC:
        return w.value(kind, op.name, f"{_ARITHMETIC[op]}.rn.{kind}", *x)
    if op is ops.FMA:
        return w.value(kind, "fma", f"fma.rn.{kind}", *x)
    if op in _ROUND:
        return w.value(kind, op.name, f"{_ROUND[op]}.{kind}.{kind}", *x)
    if op is ops.NEG or op is ops.ABS:
        return w.value(kind, op.name, f"{op.name}.{kind}", *x)
    if op is ops.SQRT:
        return w.value(kind, "sqrt", f"sqrt.rn.{kind}", *x)
    if op is ops.EXP2 and dtype is dtypes.float32:
        return w.value(kind, "exp2", w.exp2, *x)
    if op is ops.RECIPROCAL:
        return w.value(kind, "rcp", w.reciprocal if kind == "f32" else f"rcp.rn.{kind}", *x)
    if op in (ops.MAX, ops.MIN):
        return _extreme_float(w, op, dtype, *x)
    raise unsupported(op, "PTX", "has no spelling", "Expand it before rendering.")


def _extreme_float(w: PtxWriter, op: Op, dtype: DType, x: str, y: str) -> str:
    """The larger or smaller; NaN if either is."""
    kind = register_type(dtype)
    if dtype is dtypes.float32 and w.target.has_extremes_of_nan:
        return w.value(kind, op.name, f"{op.name}.NaN.f32", x, y)
    wins = w.value("pred", "wins", f"setp.{'gt' if op is ops.MAX else 'lt'}.{kind}", x, y)
    result = w.value(kind, op.name, f"selp.{kind}", x, y, wins)  # a NaN on the right stays
    is_nan = w.value("pred", "nan", f"setp.nan.{kind}", x, x)
    return w.value(kind, op.name, f"selp.{kind}", x, result, is_nan)


def _of_integers(w: PtxWriter, op: Op, dtype: DType, x: list[str]) -> str:
    register, kind = register_type(dtype), arithmetic_type(dtype)
    negated = _negated(op, x) if register == "b32" else ""
    if negated:
        return w.value("b32", "neg", "add.s32", w.value("b32", "not", "not.b32", negated), "1")
    if op is ops.ABS and dtype.is_unsigned:
        return x[0]
    if op is ops.MAX and kind == "s32":
        return _flipped(w, w.value("b32", "max", "max.u32", *(_flipped(w, each) for each in x)))
    if op in (ops.SHL, ops.SHR) and register == "b64":  # amounts are 32 bits wide, and all above 64 act as 64
        x = [x[0], w.value("b32", "amount", "cvt.u32.u64", w.value("b64", "most", "min.u64", x[1], "64"))]
    if op not in _INTEGERS:
        raise unsupported(op, "PTX", "has no spelling", "Expand it before rendering.")
    instruction = _INTEGERS[op].format(register=register, kind=kind, bits=register[1:])
    return w.value(register, instruction.partition(".")[0], instruction, *x)


def _flipped(w: PtxWriter, x: str) -> str:
    """A signed number as an unsigned one of the same order, and back.

    Of max(min(a, b), 0) == a and the like the assembler of CUDA 13.0, which drivers 580 have inside, makes the flag of
    one instruction, which only says whether a <= b; it does so if it sees a signed maximum with 0.
    """
    if not x.startswith("%"):
        return str((int(x) ^ 0x80000000) & 0xFFFFFFFF)
    return w.value("b32", "flip", "xor.b32", x, "0x80000000")


def _negated(op: Op, x: list[str]) -> str:
    """The operand whose negation this is, if it is one, which is spelled ~x + 1.

    Of max(max(a, -x), b) the assembler of CUDA 13.0, which drivers 580 have inside, makes an instruction without minus.
    """
    if op is ops.NEG:
        return x[0]
    if op is ops.SUB:
        return x[1] if x[0] == "0" else ""
    return x[0] if op is ops.MUL and x[1] in _MINUS_ONE else ""


# ---- integer division


def _divide(w: PtxWriter, node: UOp, texts: list[str]) -> str:
    """All four divisions. A divisor of 0 is replaced by 1 first, and so is the -1 whose quotient would wrap."""
    x, y = node.src
    dtype = node.dtype
    register, kind = register_type(dtype), arithmetic_type(dtype)
    (first, last), (low, high) = _limits(x), _limits(y)
    left, right = texts
    is_modulo = node.op in (ops.FLOORMOD, ops.CMOD)
    if 0 < low <= high < U32_END and 0 <= first <= last < U32_END:
        return _divide_short(w, register, is_modulo, left, right, last)
    is_zero = ""
    divisor = right
    if low <= 0 <= high:
        is_zero = w.value("pred", "zero", f"setp.eq.{kind}", right, "0")
        divisor = w.value(register, "divisor", f"selp.{register}", "1", right, is_zero)
    is_unsigned = dtype.is_unsigned or (first >= 0 and low >= 0)
    if not is_unsigned and _may_wrap(dtype, first, low, high):
        wraps = _wraps(w, dtype, left, right)
        divisor = w.value(register, "divisor", f"selp.{register}", "1", divisor, wraps)
    spelled = f"u{register[1:]}" if is_unsigned else kind
    quotient = w.value(register, "div", f"div.{spelled}", left, divisor)
    product = w.value(register, "product", f"mul.lo.{kind}", quotient, divisor)
    remainder = w.value(register, "rem", f"sub.{kind}", left, product)
    result = remainder if is_modulo else quotient
    if not is_unsigned and node.op in (ops.FLOORDIV, ops.FLOORMOD):
        step = (f"add.{kind}", remainder, right) if is_modulo else (f"sub.{kind}", quotient, "1")
        result = _floored(w, dtype, result, remainder, right, step)
    if is_zero:
        result = w.value(register, "div", f"selp.{register}", left if is_modulo else "0", result, is_zero)
    return narrowed(w, dtype, result)


def _limits(x: UOp) -> tuple[int, int]:
    """The least and the largest value that an integer may have."""
    low, high = bounds(x) or (x.dtype.min, x.dtype.max)
    return int(low), int(high)


def _may_wrap(dtype: DType, first: int, low: int, high: int) -> bool:
    """Whether the least number, from which a dividend goes on, may be divided by -1 in a register of its own size."""
    return dtype.bitsize >= 32 and first <= dtype.min and low <= -1 <= high


def _wraps(w: PtxWriter, dtype: DType, left: str, right: str) -> str:
    """Whether a quotient is that of the least number and -1, which the dtype does not have."""
    minus = w.value("pred", "minus", f"setp.eq.{arithmetic_type(dtype)}", right, "-1")
    least = w.value("pred", "least", f"setp.eq.{arithmetic_type(dtype)}", left, str(dtype.min))
    return w.value("pred", "wraps", "and.pred", minus, least)


def _floored(w: PtxWriter, dtype: DType, result: str, remainder: str, divisor: str, step: tuple[str, str, str]) -> str:
    """A quotient or remainder rounded toward zero, as one rounded down: a step further where signs differ."""
    register, kind = register_type(dtype), arithmetic_type(dtype)
    signs = w.value(register, "signs", f"xor.{register}", remainder, divisor)
    differs = w.value("pred", "differs", f"setp.lt.{kind}", signs, "0")
    inexact = w.value("pred", "inexact", f"setp.ne.{kind}", remainder, "0")
    adjust = w.value("pred", "adjust", "and.pred", differs, inexact)
    moved = w.value(register, "moved", *step)
    return w.value(register, "floor", f"selp.{register}", moved, result, adjust)


def _divide_short(w: PtxWriter, register: str, is_modulo: bool, x: str, y: str, last: int) -> str:
    """Of numbers that fit in 32 bits without a sign: 64 bits take five times as many instructions."""
    if register == "b64":
        short = [part if not part.startswith("%") else w.value("b32", "short", "cvt.u32.u64", part) for part in (x, y)]
        return w.value("b64", "wide", "cvt.u64.u32", _divide_short(w, "b32", is_modulo, short[0], short[1], last))
    if y.startswith("%") or not x.startswith("%"):
        return w.value("b32", "div", "rem.u32" if is_modulo else "div.u32", x, y)
    return _divide_by_number(w, is_modulo, x, int(y), last)


def _divide_by_number(w: PtxWriter, is_modulo: bool, x: str, y: int, last: int) -> str:
    """x / y for 0 <= x <= last: bits of x, or the upper half of a product and bits of that. The assembler would divide
    floats instead."""
    bits = (y - 1).bit_length()
    if y == 1 << bits:
        instruction, number = ("and.b32", y - 1) if is_modulo else ("shr.u32", bits)
        return w.value("b32", "div", instruction, x, str(number))
    if last >= 1 << 31:
        return w.value("b32", "div", "rem.u32" if is_modulo else "div.u32", x, str(y))
    # 2**(bits - 1) < y < 2**bits: the factor exceeds 2**(31 + bits) / y by less than 1, which x < 2**31 makes no whole.
    factor = (1 << 31 + bits) // y + 1
    quotient = w.value("b32", "div", "shr.u32", w.value("b32", "high", "mul.hi.u32", x, str(factor)), str(bits - 1))
    if not is_modulo:
        return quotient
    return w.value("b32", "rem", "sub.s32", x, w.value("b32", "product", "mul.lo.s32", quotient, str(y)))


# ---- casts


def casts(w: PtxWriter, node: UOp) -> list[str]:
    """The lanes of a conversion."""
    (x,) = node.src
    if x.dtype is dtypes.float32 and (ops.CAST, node.dtype) in w.halves:
        return rounded(w, node)
    return [cast(w, x.dtype, node.dtype, w.operand(x, lane)) for lane in range(lane_count(node))]


def cast(w: PtxWriter, source: DType, target: DType, x: str) -> str:
    """A conversion: floats to integers saturate, NaN is 0."""
    if target.is_bool:
        return x if source.is_bool else _is_nonzero(w, source, x)
    if source.is_bool:
        new = register_type(target)
        one, none = (number(target, n) for n in ((1.0, 0.0) if target.is_float else (1, 0)))
        return w.value(new, "cast", f"selp.{new}", one, none, x)
    if source in _FP8S or target in _FP8S:
        return _cast_byte(w, source, target, x)
    if (source is dtypes.float16) != (target is dtypes.float16):
        return _cast_half(w, source, x)
    return _cast_float(w, source, target, x) if source.is_float else _cast_integer(w, source, target, x)


def _is_nonzero(w: PtxWriter, source: DType, x: str) -> str:
    """A number as a bool; NaN is true."""
    test = f"setp.neu.{register_type(source)}" if source.is_float else f"setp.ne.{arithmetic_type(source)}"
    return w.value("pred", "bool", test, x, number(source, 0.0 if source.is_float else 0))


def _cast_float(w: PtxWriter, source: DType, target: DType, x: str) -> str:
    """float32 or float64 as another float or as an integer."""
    if not target.is_float:
        return _saturated(w, source, target, x)
    old, new = register_type(source), register_type(target)
    rounding = ".rn" if source.bitsize > target.bitsize else ""
    return x if old == new else w.value(new, "cast", f"cvt{rounding}.{new}.{old}", x)


def _cast_integer(w: PtxWriter, source: DType, target: DType, x: str) -> str:
    """An integer as a float, or as another integer: its lower bits, or more of its sign."""
    old, new = register_type(source), register_type(target)
    if target is dtypes.float32 and 0 < source.bitsize <= 16:
        return as_float(w, source, w.in_register(old, x))
    if target.is_float:
        return w.value(new, "cast", f"cvt.rn.{new}.{arithmetic_type(source)}", w.in_register(old, x))
    if old == new:
        return x if can_lossless_cast(source, target) else narrowed(w, target, x)
    if new == "b64":
        sign = arithmetic_type(source)[0]
        return w.value("b64", "cast", f"cvt.{sign}64.{sign}32", w.in_register(old, x))
    return narrowed(w, target, w.value("b32", "cast", "cvt.u32.u64", w.in_register(old, x)))


def _cast_byte(w: PtxWriter, source: DType, target: DType, x: str) -> str:
    """fp8 -> float16, float32 -> fp8e4m3: two at once, of which one is 0; all others were taken apart."""
    if source in _FP8S:
        byte = w.value("b16", "byte", "cvt.u16.u32", w.in_register("b32", x))
        return w.value("b32", "cast", f"cvt.rn.f16x2.{_FP8S[source]}", byte)
    pair = [w.in_register("f32", value) for value in (number(source, 0.0), x)]
    return w.value("b32", "cast", "cvt.u32.u16", w.value("b16", "byte", f"cvt.rn.satfinite.{_FP8S[target]}.f32", *pair))


def _cast_half(w: PtxWriter, source: DType, x: str) -> str:
    """float16 <-> float32; all others were taken apart."""
    if source is dtypes.float16:
        half = w.value("b16", "half", "cvt.u16.u32", w.in_register("b32", x))
        return w.value("f32", "cast", "cvt.f32.f16", half)
    half = w.value("b16", "half", "cvt.rn.f16.f32", w.in_register("f32", x))
    return w.value("b32", "cast", "cvt.u32.u16", half)


def _saturated(w: PtxWriter, source: DType, target: DType, x: str) -> str:
    """The nearest integer toward zero that the dtype has. PTX clamps; for NaN it has several answers."""
    old, new = register_type(source), register_type(target)
    kind = ("u32" if target.is_unsigned else "s32") if target.bitsize < 32 else arithmetic_type(target)
    result = w.value(new, "cast", f"cvt.rzi.{kind}.{old}", w.in_register(old, x))
    if target.bitsize < 32:
        result = w.value(new, "most", f"min.{kind}", result, str(target.max))
        if kind == "s32":
            result = w.value(new, "least", "max.s32", result, str(target.min))
    is_nan = w.value("pred", "nan", f"setp.nan.{old}", x, x)
    return w.value(new, "cast", f"selp.{new}", "0", result, is_nan)


def bitcast(w: PtxWriter, source: DType, target: DType, x: str) -> str:
    """The bits of one dtype as another of the same size."""
    if source.is_bool or target.is_bool:
        return cast(w, source, target, x)
    old, new = register_type(source), register_type(target)
    if old != new:
        return w.value(new, "bits", f"mov.b{target.bitsize}", x)
    are_extended = [dtype.is_float or dtype.is_unsigned for dtype in (source, target)]  # by zeros
    return x if all(are_extended) else narrowed(w, target, x)
