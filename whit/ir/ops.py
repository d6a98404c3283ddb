"""The op table: every operation of the IR, one record each.

Reading order is the order of the pipeline: leaves, movement, elementwise, conversion, reductions, memory and staging,
functions and schedules, the control flow of linear programs. A new op is one record here; see docs/adding-an-op.md.
Meanings are written against an array namespace `xp`: NumPy in the interpreter, `whit.ir.scalar` for constants.
"""

from __future__ import annotations

from math import erf, inf
from typing import Any

from whit.dtype import DType
from whit.ir import batching, interval, shapes
from whit.ir.args import (
    AcrossArg,
    ArangeArg,
    BlockMmaArg,
    BlockStoreArg,
    BufferArg,
    DotArg,
    FormulaArg,
    FunctionArg,
    LaunchArg,
    LeafArg,
    LoopArg,
    MmaArg,
    ParamArg,
    PrefetchArg,
    RangeArg,
    ReduceArg,
    RepeatArg,
    ScanArg,
    SortArg,
    StageArg,
    StoreArg,
    VariableArg,
)
from whit.ir.gradients import effects as gradient_effects
from whit.ir.gradients import rules as gradients
from whit.ir.gradients import tangents
from whit.ir.op import (
    EVERYWHERE,
    KERNEL,
    OPS,
    PROGRAM,
    SCHEDULE,
    TENSOR,
    Op,
    broadcast_scalars,
    choice,
    comparison,
    counted,
    define,
    equality,
    index_typed,
    nothing,
    of_all,
    of_argument,
    of_first,
    of_parts,
    part_of,
    same,
    same_bits,
    same_field,
    same_float,
    same_int,
    same_number,
    scalar,
    shape_of_first,
)
from whit.ir.scalar import fma

__all__ = ["OPS", "Op"]

# ---- leaves

CONST = define(
    "const",
    arity=0,
    dtype=of_argument,
    shape=scalar,
    stages=EVERYWHERE,
    arg_type=object,
    doc="A number. Interned by its bits: 0.0 and -0.0 differ, and so do NaNs with different payloads.",
)
VARIABLE = define(
    "variable",
    arity=0,
    dtype=of_argument,
    shape=scalar,
    stages=EVERYWHERE,
    arg_type=VariableArg,
    doc="A named integer between two bounds, given its value when the program runs.",
)
BIND = define(
    "bind",
    arity=2,
    dtype=index_typed,
    shape=scalar,
    check=shapes.check_bind,
    stages=TENSOR | SCHEDULE,
    spelling="{0}={1}",
    bounds=lambda variable, value: variable,
    doc="A variable together with the value it has now.",
)
RANGE = define(
    "range",
    arity=1,
    dtype=same_int,
    shape=scalar,
    stages=KERNEL | PROGRAM,
    arg_type=RangeArg,
    check=shapes.check_range,
    # A range that may be empty is never taken for the number 0: what is inside of it may not run.
    bounds=lambda size: (0, max(size[1] - 1, int(size[0] < 1))),
    doc="The integers from 0 below the source. In a linear program it opens the loop that END closes.",
)
PARAM = define(
    "param",
    arity=(0, None),
    dtype=of_argument,
    shape=shapes.of_argument,
    stages=EVERYWHERE,
    arg_type=ParamArg,
    doc="A parameter of a function, or a buffer handed to a kernel.",
)
BUFFER = define(
    "buffer",
    arity=(0, None),
    dtype=of_argument,
    shape=shapes.of_argument,
    stages=EVERYWHERE,
    arg_type=BufferArg,
    doc="A piece of memory, read as an array.",
)
ARANGE = define(
    "arange",
    arity=(0, 1),
    dtype=shapes.arange_dtype,
    shape=shapes.arange,
    stages=TENSOR,
    arg_type=ArangeArg,
    doc="The integers from 0 on, one at each position of an axis: the position itself, once axes are ranges.",
)

# ---- movement: the same elements in other places

RESHAPE = define(
    "reshape",
    arity=(1, None),
    dtype=of_first,
    shape=shapes.reshape,
    stages=TENSOR | SCHEDULE,
    arg_type=tuple,
    python=lambda xp, x, shape: xp.reshape(x, shape),
    grad=gradients.reshape,
    tangent=tangents.linear,
    batch=batching.reshape,
    doc="The same elements in row-major order under another shape.",
)
PERMUTE = define(
    "permute",
    arity=1,
    dtype=of_first,
    shape=shapes.permute,
    stages=TENSOR,
    arg_type=tuple,
    python=lambda xp, x, order: xp.transpose(x, order),
    grad=gradients.permute,
    tangent=tangents.linear,
    batch=batching.permute,
    doc="The axes in another order.",
)
EXPAND = define(
    "expand",
    arity=(1, None),
    dtype=of_first,
    shape=shapes.expand,
    stages=TENSOR,
    arg_type=tuple,
    python=lambda xp, x, shape: xp.broadcast_to(x, shape),
    grad=gradients.expand,
    tangent=tangents.linear,
    batch=batching.expand,
    doc="Axes of size 1 repeated.",
)
PAD = define(
    "pad",
    arity=(1, None),
    dtype=of_first,
    shape=shapes.pad,
    stages=TENSOR,
    arg_type=tuple,
    python=lambda xp, x, pads: xp.pad(x, pads) if pads else x,  # NumPy cannot pad no axes
    grad=gradients.pad,
    tangent=tangents.linear,
    batch=batching.pad,
    doc="Zeros before and after each axis.",
)
SHRINK = define(
    "shrink",
    arity=(1, None),
    dtype=of_first,
    shape=shapes.shrink,
    stages=TENSOR | SCHEDULE,
    arg_type=tuple,
    python=lambda xp, x, parts: x[tuple(slice(start, start + size) for start, size in parts)],
    grad=gradients.shrink,
    tangent=tangents.linear,
    batch=batching.shrink,
    doc="A window of each axis: (start, size).",
)
FLIP = define(
    "flip",
    arity=1,
    dtype=of_first,
    shape=shapes.flip,
    stages=TENSOR,
    arg_type=tuple,
    python=lambda xp, x, axes: xp.flip(x, axes),
    grad=gradients.flip,
    tangent=tangents.linear,
    batch=batching.flip,
    doc="These axes back to front.",
)
MOVEMENT = (RESHAPE, PERMUTE, EXPAND, PAD, SHRINK, FLIP)

# ---- elementwise, one operand

NEG = define(
    "neg",
    arity=1,
    dtype=same_number,
    stages=EVERYWHERE,
    spelling="-{0}",
    python=lambda xp, x: -x,
    bounds=interval.negate,
    grad=gradients.negate,
    doc="Minus x. Integers wrap.",
)
ABS = define(
    "abs",
    arity=1,
    dtype=same,
    stages=EVERYWHERE,
    python=lambda xp, x: xp.absolute(x),
    bounds=interval.absolute,
    grad=gradients.magnitude,
    doc="The magnitude of x. The smallest signed integer stays itself.",
)
NOT = define(
    "not",
    arity=1,
    dtype=same_bits,
    stages=EVERYWHERE,
    spelling="~{0}",
    python=lambda xp, x: xp.invert(x),
    bounds=lambda a: (-a[1] - 1, -a[0] - 1),
    doc="Every bit flipped; for bool, the other truth value.",
)
RECIPROCAL = define(
    "reciprocal",
    arity=1,
    dtype=same_field,
    stages=EVERYWHERE,
    spelling="1/{0}",
    python=lambda xp, x: xp.divide(1, x),
    expand=lambda node: node.src[0].constant(1.0) / node.src[0],
    grad=gradients.reciprocal,
    doc="1 / x, correctly rounded.",
)
SQRT = define(
    "sqrt",
    arity=1,
    dtype=same_float,
    stages=EVERYWHERE,
    python=lambda xp, x: xp.sqrt(x),
    grad=gradients.square_root,
    doc="Square root, correctly rounded; NaN below zero.",
)
EXP2 = define(
    "exp2",
    arity=1,
    dtype=same_float,
    stages=EVERYWHERE,
    python=lambda xp, x: xp.exp2(x),
    grad=gradients.exp2,
    doc="Two to the power x.",
)
LOG2 = define(
    "log2",
    arity=1,
    dtype=same_float,
    stages=EVERYWHERE,
    python=lambda xp, x: xp.log2(x),
    grad=gradients.log2,
    doc="Logarithm to base 2: -inf at zero, NaN below.",
)
EXP = define(
    "exp",
    arity=1,
    dtype=same_float,
    stages=EVERYWHERE,
    python=lambda xp, x: xp.exp(x),
    grad=gradients.exp,
    stable={
        "log(y)": lambda f, x: x,
        "log(1 + y)": lambda f, x: f.softplus(x),
        "y - 1": lambda f, x: f.expm1(x),
    },
    operations=12,
    doc="e to the power x.",
)
LOG = define(
    "log",
    arity=1,
    dtype=same_float,
    stages=EVERYWHERE,
    python=lambda xp, x: xp.log(x),
    grad=gradients.natural_log,
    operations=3,
    doc="Natural logarithm: -inf at zero, NaN below.",
)
SIGMOID = define(
    "sigmoid",
    arity=1,
    dtype=same_float,
    stages=EVERYWHERE,
    python=lambda xp, x: sigmoid(xp, x),
    grad=gradients.sigmoid,
    stable={
        "log(y)": lambda f, x: -f.softplus(-x),
        "log(1 - y)": lambda f, x: -f.softplus(x),
        "x * y": lambda f, x: f.silu(x),
    },
    operations=14,
    doc="1 / (1 + e**-x), without overflow.",
)
TANH = define(
    "tanh",
    arity=1,
    dtype=same_float,
    stages=EVERYWHERE,
    python=lambda xp, x: xp.tanh(x),
    grad=gradients.tanh,
    operations=30,
    doc="Hyperbolic tangent.",
)
ERF = define(
    "erf",
    arity=1,
    dtype=same_float,
    stages=EVERYWHERE,
    python=lambda xp, x: error_function(xp, x),
    grad=gradients.erf,
    operations=23,
    doc="Error function: the probability that a normal number of variance 1/2 lies between -x and x.",
)
SIN = define(
    "sin",
    arity=1,
    dtype=same_float,
    stages=EVERYWHERE,
    python=lambda xp, x: xp.sin(x),
    grad=gradients.sine,
    doc="Sine of x in radians, right for arguments of any size; NaN at infinity.",
)
COS = define(
    "cos",
    arity=1,
    dtype=same_float,
    stages=EVERYWHERE,
    python=lambda xp, x: xp.cos(x),
    grad=gradients.cosine,
    doc="Cosine of x in radians, right for arguments of any size; NaN at infinity.",
)
TRUNC = define(
    "trunc",
    arity=1,
    dtype=same_float,
    stages=EVERYWHERE,
    python=lambda xp, x: xp.trunc(x),
    grad=gradients.flat,
    tangent=tangents.none,
    doc="Rounded toward zero.",
)
FLOOR = define(
    "floor",
    arity=1,
    dtype=same_float,
    stages=EVERYWHERE,
    python=lambda xp, x: xp.floor(x),
    grad=gradients.flat,
    tangent=tangents.none,
    doc="Rounded toward -infinity.",
)
CEIL = define(
    "ceil",
    arity=1,
    dtype=same_float,
    stages=EVERYWHERE,
    python=lambda xp, x: xp.ceil(x),
    expand=lambda node: -(-node.src[0]).floor(),
    grad=gradients.flat,
    tangent=tangents.none,
    doc="Rounded toward +infinity.",
)
ROUND = define(
    "round",
    arity=1,
    dtype=same_float,
    stages=EVERYWHERE,
    python=lambda xp, x: xp.rint(x),
    grad=gradients.flat,
    tangent=tangents.none,
    doc="Rounded to the nearest integer, halves to even.",
)


def sigmoid(xp: Any, x: Any) -> Any:
    """1 / (1 + e**-x) by the exponential that does not overflow."""
    power = xp.exp(-xp.absolute(x))
    return xp.divide(xp.where(x < 0, power, 1.0), 1.0 + power)


def error_function(xp: Any, x: Any) -> Any:
    """Element by element, because NumPy has no such function."""
    return erf(x) if isinstance(x, float) else xp.frompyfunc(erf, 1, 1)(x)


# ---- complex numbers: of tensor graphs alone, where schedules begin they are two floats (split_complex)


def join_parts(xp: Any, x: Any, y: Any) -> Any:
    """Not x + 1j * y, which is NaN where y is infinite."""
    if isinstance(x, float):
        return complex(x, y)
    joined = xp.empty(xp.broadcast_shapes(x.shape, y.shape), xp.complex128)
    joined.real, joined.imag = x, y
    return joined


COMPLEX = define(
    "complex",
    arity=2,
    dtype=of_parts,
    stages=TENSOR,
    spelling="({0} + {1}j)",
    python=join_parts,
    grad=gradients.complex_of_parts,
    tangent=tangents.complex_of_parts,
    doc="The complex number of a real and an imaginary part.",
)
REAL = define(
    "real",
    arity=1,
    dtype=part_of,
    stages=TENSOR,
    python=lambda xp, x: x.real,
    grad=gradients.real_part,
    tangent=tangents.real_part,
    doc="The real part of a complex number.",
)
IMAG = define(
    "imag",
    arity=1,
    dtype=part_of,
    stages=TENSOR,
    python=lambda xp, x: x.imag,
    grad=gradients.imaginary_part,
    tangent=tangents.imaginary_part,
    doc="The imaginary part of a complex number.",
)


# ---- elementwise, two operands


def floor_divide(xp: Any, x: Any, y: Any) -> Any:
    """x // y rounded down; 0 where y is 0."""
    return xp.where(y == 0, 0, x // xp.where(y == 0, 1, y))


def floor_modulo(xp: Any, x: Any, y: Any) -> Any:
    """x - (x // y) * y: the sign of y; x where y is 0."""
    return xp.where(y == 0, x, x % xp.where(y == 0, 1, y))


def truncating_divide(xp: Any, x: Any, y: Any) -> Any:
    """x / y rounded toward zero; 0 where y is 0."""
    down = floor_divide(xp, x, y)
    inexact = (x != down * y) & (y != 0)
    return down + (inexact & ((x < 0) != (y < 0)))


def truncating_modulo(xp: Any, x: Any, y: Any) -> Any:
    """x - cdiv(x, y) * y: the sign of x; x where y is 0."""
    return x - truncating_divide(xp, x, y) * y


def multiply_add(xp: Any, x: Any, y: Any, z: Any) -> Any:
    """x * y + z rounded once; element by element, because NumPy has no such function."""
    if isinstance(x, int | float):
        return fma(x, y, z)
    return xp.frompyfunc(fma, 3, 1)(x, y, z)


def shift_left(xp: Any, x: Any, y: Any) -> Any:
    """x * 2**y; 0 where y is no valid bit number."""
    return xp.where(_is_bit(x, y), x << xp.where(_is_bit(x, y), y, 0), 0)


def shift_right(xp: Any, x: Any, y: Any) -> Any:
    """x // 2**y; only the sign is left where y is no valid bit number."""
    shifted = x >> xp.where(_is_bit(x, y), y, _width(x) - 1)
    return xp.where(_is_bit(x, y), shifted, shifted >> 1)


def _is_bit(x: Any, y: Any) -> Any:
    return (y >= 0) & (y < _width(x))


def _width(x: Any) -> int:
    """Bits of x. Python's integers get more than any dtype has, but not enough for a shift to fill the memory."""
    return 8 * x.dtype.itemsize if hasattr(x, "dtype") and x.dtype != object else 1 << 16


ADD = define(
    "add",
    arity=2,
    dtype=same_number,
    stages=EVERYWHERE,
    spelling="({0} + {1})",
    python=lambda xp, x, y: x + y,
    bounds=interval.add,
    commutative=True,
    associative=True,
    identity=lambda dtype: 0,
    grad=gradients.add,
    doc="x + y. Integers wrap.",
)
SUB = define(
    "sub",
    arity=2,
    dtype=same_number,
    stages=EVERYWHERE,
    spelling="({0} - {1})",
    python=lambda xp, x, y: x - y,
    bounds=interval.subtract,
    expand=lambda node: node.src[0] + (-node.src[1]),
    grad=gradients.subtract,
    doc="x - y. Integers wrap.",
)
MUL = define(
    "mul",
    arity=2,
    dtype=same_number,
    stages=EVERYWHERE,
    spelling="{0}*{1}",
    python=lambda xp, x, y: x * y,
    bounds=interval.multiply,
    commutative=True,
    associative=True,
    identity=lambda dtype: 1,
    grad=gradients.multiply,
    doc="x * y. Integers wrap.",
)
FDIV = define(
    "fdiv",
    arity=2,
    dtype=same_field,
    stages=EVERYWHERE,
    spelling="({0} / {1})",
    python=lambda xp, x, y: xp.divide(x, y),
    grad=gradients.divide,
    doc="x / y of floats, correctly rounded.",
)
NORMAL_DIV = define(
    "normal_div",
    arity=2,
    dtype=same_float,
    stages=KERNEL | PROGRAM,
    python=lambda xp, x, y: xp.divide(x, y),
    expand=lambda node: node.src[0] / node.src[1],
    doc="x / y, correctly rounded where y is between 1 and 2**100 and x at most as large: an instruction less careful "
    "than FDIV, which asks for special cases, does it.",
)
FLOORDIV = define(
    "floordiv",
    arity=2,
    dtype=same_int,
    stages=EVERYWHERE,
    spelling="{0}//{1}",
    python=floor_divide,
    bounds=interval.floor_divide,
    expand=lambda node: floor_divide_by_truncation(*node.src),
    doc="Integer division rounded down; 0 where y is 0.",
)
FLOORMOD = define(
    "floormod",
    arity=2,
    dtype=same_int,
    stages=EVERYWHERE,
    spelling="{0}%{1}",
    python=floor_modulo,
    bounds=interval.floor_modulo,
    expand=lambda node: node.src[0] - (node.src[0] // node.src[1]) * node.src[1],
    doc="x - (x // y) * y, with the sign of y; x where y is 0.",
)
CDIV = define(
    "cdiv",
    arity=2,
    dtype=same_int,
    stages=EVERYWHERE,
    python=truncating_divide,
    bounds=interval.truncating_divide,
    doc="Integer division rounded toward zero, as in C; 0 where y is 0.",
)
CMOD = define(
    "cmod",
    arity=2,
    dtype=same_int,
    stages=EVERYWHERE,
    python=truncating_modulo,
    bounds=interval.truncating_modulo,
    expand=lambda node: node.src[0] - node.src[0].cdiv(node.src[1]) * node.src[1],
    doc="x - cdiv(x, y) * y, with the sign of x; x where y is 0.",
)
POW = define(
    "pow",
    arity=2,
    dtype=same_float,
    stages=EVERYWHERE,
    spelling="{0}**{1}",
    python=lambda xp, x, y: xp.power(x, y),
    grad=gradients.power,
    doc="x to the power y, as C's pow.",
)
MAX = define(
    "max",
    arity=2,
    dtype=same,
    stages=EVERYWHERE,
    python=lambda xp, x, y: xp.maximum(x, y),
    bounds=interval.maximum,
    commutative=True,
    associative=True,
    identity=lambda dtype: dtype.min,
    grad=gradients.maximum,
    doc="The larger; NaN if either is NaN.",
)
MIN = define(
    "min",
    arity=2,
    dtype=same,
    stages=EVERYWHERE,
    python=lambda xp, x, y: xp.minimum(x, y),
    bounds=interval.minimum,
    commutative=True,
    associative=True,
    identity=lambda dtype: dtype.max,
    grad=gradients.minimum,
    doc="The smaller; NaN if either is NaN.",
)
LOGADDEXP = define(
    "logaddexp",
    arity=2,
    dtype=same_float,
    stages=EVERYWHERE,
    python=lambda xp, x, y: xp.logaddexp(x, y),
    commutative=True,
    identity=lambda dtype: -inf,
    grad=gradients.logaddexp,
    doc="log(e**x + e**y) without overflow: a sum of numbers that are given by their logarithms.",
)
AND = define(
    "and",
    arity=2,
    dtype=same_bits,
    stages=EVERYWHERE,
    spelling="({0} & {1})",
    python=lambda xp, x, y: x & y,
    bounds=interval.bit_and,
    commutative=True,
    associative=True,
    identity=lambda dtype: True if dtype.is_bool else -1 if not dtype.is_unsigned else dtype.max,
    doc="Bitwise and; for bool, both.",
)
OR = define(
    "or",
    arity=2,
    dtype=same_bits,
    stages=EVERYWHERE,
    spelling="({0} | {1})",
    python=lambda xp, x, y: x | y,
    bounds=interval.bit_or,
    commutative=True,
    associative=True,
    identity=lambda dtype: False if dtype.is_bool else 0,
    doc="Bitwise or; for bool, either.",
)
XOR = define(
    "xor",
    arity=2,
    dtype=same_bits,
    stages=EVERYWHERE,
    spelling="({0} ^ {1})",
    python=lambda xp, x, y: x ^ y,
    bounds=interval.bit_xor,
    commutative=True,
    associative=True,
    doc="Bitwise exclusive or; for bool, one but not both.",
)
SHL = define(
    "shl",
    arity=2,
    dtype=same_int,
    stages=EVERYWHERE,
    spelling="({0} << {1})",
    python=shift_left,
    bounds=interval.shift_left,
    doc="x * 2**y modulo the width; 0 where y is negative or at least the width.",
)
SHR = define(
    "shr",
    arity=2,
    dtype=same_int,
    stages=EVERYWHERE,
    spelling="({0} >> {1})",
    python=shift_right,
    bounds=interval.shift_right,
    doc="x // 2**y; 0 or -1, the sign of x, where y is negative or at least the width.",
)
LT = define(
    "lt",
    arity=2,
    dtype=comparison,
    stages=EVERYWHERE,
    spelling="({0} < {1})",
    python=lambda xp, x, y: x < y,
    bounds=interval.less,
    doc="x < y; false if either is NaN.",
)
LE = define(
    "le",
    arity=2,
    dtype=comparison,
    stages=EVERYWHERE,
    spelling="({0} <= {1})",
    python=lambda xp, x, y: x <= y,
    bounds=interval.less_equal,
    expand=lambda node: (node.src[0] < node.src[1]) | node.src[0].eq(node.src[1]),
    doc="x <= y; false if either is NaN.",
)
EQ = define(
    "eq",
    arity=2,
    dtype=equality,
    stages=EVERYWHERE,
    spelling="({0} == {1})",
    python=lambda xp, x, y: x == y,
    bounds=interval.equal,
    commutative=True,
    doc="x == y; false if either is NaN; 0.0 equals -0.0. Of complex numbers, both parts.",
)
NE = define(
    "ne",
    arity=2,
    dtype=equality,
    stages=EVERYWHERE,
    spelling="({0} != {1})",
    python=lambda xp, x, y: x != y,
    bounds=interval.unequal,
    expand=lambda node: ~node.src[0].eq(node.src[1]),
    commutative=True,
    doc="not x == y: true if either is NaN.",
)


def floor_divide_by_truncation(x: Any, y: Any) -> Any:
    """x // y from the division that hardware has: one less where the remainder and y have different signs."""
    remainder = x.cmod(y)
    too_high = remainder.ne(0) & ((remainder < 0) ^ (y < 0)) & y.ne(0)
    return x.cdiv(y) - too_high.where(x.constant(1), x.constant(0))


# ---- elementwise, three operands

WHERE = define(
    "where",
    arity=3,
    dtype=choice,
    stages=EVERYWHERE,
    python=lambda xp, condition, yes, no: xp.where(condition, yes, no),
    bounds=interval.choose,
    grad=gradients.where,
    tangent=tangents.where,
    doc="yes where the condition holds, no elsewhere.",
)
FMA = define(
    "fma",
    arity=3,
    dtype=same,
    stages=EVERYWHERE,
    python=multiply_add,
    bounds=interval.multiply_add,
    grad=gradients.multiply_add,
    doc="x * y + z, rounded once. Integers wrap.",
)

# ---- conversion

CAST = define(
    "cast",
    arity=1,
    dtype=of_argument,
    shape=shape_of_first,
    stages=EVERYWHERE,
    arg_type=DType,
    check=shapes.check_cast,
    grad=gradients.cast,
    tangent=tangents.cast,
    batch=batching.first,
    doc="The nearest value of another dtype: a rounding point. Float to integer: toward zero, saturating, NaN is 0. "
    "Of a complex number, all but bool and complex dtypes take the real part.",
)
BITCAST = define(
    "bitcast",
    arity=1,
    dtype=of_argument,
    shape=shape_of_first,
    stages=EVERYWHERE,
    arg_type=DType,
    check=shapes.check_bitcast,
    grad=gradients.flat,
    tangent=tangents.none,
    batch=batching.first,
    doc="The same bits read as another dtype of the same size.",
)
DETACH = define(
    "detach",
    arity=1,
    dtype=of_first,
    shape=shape_of_first,
    stages=TENSOR,
    python=lambda xp, x: x,
    grad=gradients.flat,
    tangent=tangents.none,
    batch=batching.first,
    doc="x itself, where no gradient flows.",
)

FORMULA = define(
    "formula",
    arity=(2, None),
    dtype=of_first,
    shape=shape_of_first,
    stages=TENSOR,
    arg_type=FormulaArg,
    doc="The first source, known to be the function of that name of the others, which gives it its gradient.",
)
RECOMPUTE = define(
    "recompute",
    arity=(1, None),
    dtype=of_first,
    shape=shape_of_first,
    stages=TENSOR,
    grad=gradients.through,
    tangent=tangents.through,
    batch=batching.first,
    doc="x itself, told apart from x: what is made of it is computed again, if possible after the other sources.",
)
LEAF = define(
    "leaf",
    arity=1,
    dtype=of_first,
    shape=shape_of_first,
    stages=TENSOR,
    arg_type=LeafArg,
    grad=gradients.through,
    tangent=tangents.through,
    batch=batching.first,
    doc="x itself, told apart from equal values by a number: something to take a gradient with respect to.",
)
STAGE_GRADIENT = define(
    "stage_gradient",
    arity=1,
    dtype=of_first,
    shape=shape_of_first,
    stages=TENSOR,
    grad=lambda node, dy: (dy.stage(),),
    tangent=tangents.through,
    batch=batching.first,
    doc="x itself, whose gradient is kept in memory.",
)

SAME_VALUE = (DETACH, LEAF, FORMULA, STAGE_GRADIENT)  # the first source, with other gradients

# ---- reductions and scans

REDUCE = define(
    "reduce",
    arity=(1, None),
    dtype=of_first,
    shape=shapes.reduce,
    stages=TENSOR | KERNEL | PROGRAM,
    arg_type=ReduceArg,
    check=shapes.check_reduce,
    grad=gradients.reduce,
    tangent=tangents.reduce,
    batch=batching.reduce,
    doc="All elements along the axes, or over the ranges in the sources, combined by an op.",
)
SCAN = define(
    "scan",
    arity=(1, 2),
    dtype=of_first,
    shape=shape_of_first,
    stages=TENSOR | KERNEL,
    arg_type=ScanArg,
    check=shapes.check_scan,
    grad=gradients.scan,
    tangent=tangents.scan,
    batch=batching.scan,
    doc="The running combination along an axis, or over the range in the sources: position i combines 0..i.",
)
SORT = define(
    "sort",
    arity=(2, None),
    dtype=shapes.sort_dtype,
    shape=shapes.sort,
    stages=TENSOR | KERNEL,
    arg_type=SortArg,
    check=shapes.check_sort,
    grad=gradients.sort,
    tangent=tangents.sort,
    batch=batching.sort,
    doc="The second source in the order of the first, stable, NaN as the largest: all of an axis, or its first few.",
)

# ---- memory, staging, ordering

INDEX = define(
    "index",
    arity=(2, None),
    dtype=of_first,
    shape=shapes.index,
    stages=TENSOR | KERNEL | PROGRAM,
    arg_type=bool,
    check=shapes.check_index,
    grad=gradient_effects.index,
    tangent=tangents.linear,
    batch=batching.index,
    doc="The elements of x at these positions of its first axes. Gated (argument True): 0 where the last source fails.",
)
LOAD = define(
    "load",
    arity=(2, 3),
    dtype=of_first,
    shape=shapes.load,
    stages=PROGRAM,
    arg_type=int,
    check=shapes.check_load,
    doc="As many elements of a buffer as the argument says, from a flat position on; 0 where the gate is false.",
)
STORE = define(
    "store",
    arity=(2, None),
    dtype=nothing,
    shape=scalar,
    stages=TENSOR | KERNEL | PROGRAM,
    arg_type=StoreArg,
    check=shapes.check_store,
    grad=gradient_effects.store,
    tangent=tangents.store,
    batch=batching.store,
    doc="Effect: the value (second source) goes into the target (first) at the positions that follow.",
)
EACH = define(
    "each",
    arity=1,
    dtype=counted,
    shape=shape_of_first,
    stages=KERNEL,
    doc="True. In the gate of a store: it is carried out for each value of x, also where nothing else depends on it.",
)
STAGE = define(
    "stage",
    arity=(1, None),
    dtype=of_first,
    shape=shapes.stage,
    stages=TENSOR | KERNEL,
    arg_type=StageArg,
    check=shapes.check_ranges,
    grad=gradients.through,
    tangent=tangents.linear,
    batch=batching.first,
    doc="The value computed over the ranges in the sources and kept in memory, to be indexed later.",
)
AFTER = define(
    "after",
    arity=(1, None),
    dtype=of_first,
    shape=shape_of_first,
    stages=TENSOR | KERNEL | PROGRAM,
    grad=gradient_effects.after,
    tangent=tangents.after,
    batch=batching.after,
    doc="The first source, once the effects in the others have happened.",
)
BARRIER = define(
    "barrier",
    arity=(0, None),
    dtype=nothing,
    shape=scalar,
    stages=KERNEL | PROGRAM,
    doc="Effect: all threads that share memory wait here for one another; of registers (AFTER), each for its part of "
    "products that go on (BLOCK_MMA).",
)
PREFETCH = define(
    "prefetch",
    arity=(2, 3),
    dtype=nothing,
    shape=scalar,
    stages=KERNEL | PROGRAM,
    arg_type=PrefetchArg,
    doc="Effect that changes nothing: bytes that will soon be read. Sources: memory, position, and where this holds.",
)
LAUNCH = define(
    "launch",
    arity=0,
    dtype=nothing,
    shape=scalar,
    stages=PROGRAM,
    arg_type=LaunchArg,
    doc="Effect that changes nothing: what the assembler of a GPU has to know of the program as a whole.",
)
MMA = define(
    "mma",
    arity=3,
    dtype=shapes.mma_dtype,
    shape=shapes.mma,
    stages=KERNEL | PROGRAM,
    arg_type=MmaArg,
    doc="a @ b + c of one tile: a is (m, k), b is (k, n), c is (m, n) and gives the dtype.",
)
BLOCK_MMA = define(
    "block_mma",
    arity=8,
    dtype=nothing,
    shape=scalar,
    stages=KERNEL | PROGRAM,
    arg_type=BlockMmaArg,
    doc="Effect: a tile of a @ b.T goes to the registers of a block's threads, to each its part. "
    "Sources: registers, a, b, the thread, the tile's first row and column, the batches of a and b. An operand a that "
    "threads have in registers is rounded to the dtype of b.",
)
BLOCK_STORE = define(
    "block_store",
    arity=(6, None),
    dtype=nothing,
    shape=scalar,
    stages=KERNEL | PROGRAM,
    arg_type=BlockStoreArg,
    doc="Effect: what a block's threads have of a part of a tile goes to memory, where it is inside of the result. "
    "Sources: memory, the thread, the part's first row and column, the batch, then the thread's elements, in vectors.",
)
ACROSS = define(
    "across",
    arity=2,
    dtype=of_first,
    shape=shape_of_first,
    stages=KERNEL | PROGRAM,
    arg_type=AcrossArg,
    doc="The value combined with those of neighbouring threads, all of which have the result; or the value of a thread "
    "some before. Sources: value, thread.",
)
DOT = define(
    "dot",
    arity=3,
    dtype=shapes.dot_dtype,
    shape=broadcast_scalars,
    stages=KERNEL | PROGRAM,
    arg_type=DotArg,
    doc="z + the products of the parts of x and of y, int32 each: of four bytes, where z is int32 and wraps, or of two "
    "bfloat16, where z is float32: the upper two first, each product added exactly and rounded once, subnormals as 0.",
)
STACK = define(
    "stack",
    arity=(1, None),
    dtype=of_all,
    shape=shapes.stack,
    stages=TENSOR | KERNEL | PROGRAM,
    grad=gradients.stack,
    tangent=tangents.stack,
    batch=batching.stack,
    doc="The sources along a new first axis; in a program, a vector built from its lanes.",
)
SHUFFLE = define(
    "shuffle",
    arity=(1, 2),
    dtype=of_all,
    shape=shapes.shuffle,
    stages=KERNEL | PROGRAM,
    arg_type=tuple,
    check=shapes.check_shuffle,
    doc="The lanes of one or two vectors, counted through both, in the order of the argument.",
)
COPY = define(
    "copy",
    arity=1,
    dtype=of_first,
    shape=shape_of_first,
    stages=TENSOR | SCHEDULE,
    arg_type=str,
    grad=gradient_effects.copy,
    tangent=tangents.linear,
    batch=batching.first,
    doc="The value on another device.",
)

# ---- functions, groups, schedules

GROUP = define(
    "group",
    arity=(0, None),
    dtype=nothing,
    shape=scalar,
    stages=EVERYWHERE,
    batch=batching.together,
    doc="Several values or effects as one node.",
)
ITEM = define(
    "item",
    arity=1,
    dtype=shapes.item_dtype,
    shape=shapes.item,
    stages=TENSOR | SCHEDULE,
    arg_type=int,
    doc="One member of a group, or of what a call returns.",
)
FUNCTION = define(
    "function",
    arity=1,
    dtype=of_first,
    shape=shape_of_first,
    stages=EVERYWHERE,
    arg_type=FunctionArg,
    opaque=True,
    doc="A named graph over params. Rewrites do not enter it unless they ask to.",
)
CALL = define(
    "call",
    arity=(1, None),
    dtype=of_first,
    shape=shape_of_first,
    stages=TENSOR | SCHEDULE,
    check=shapes.check_call,
    doc="A function (first source) applied to its arguments.",
)
LOOP = define(
    "loop",
    arity=(2, None),
    dtype=nothing,
    shape=scalar,
    stages=TENSOR,
    arg_type=LoopArg,
    check=shapes.check_loop,
    doc="Functions that follow one another, or of which one is taken, on the operands after them: scan, while, cond.",
)
REPEAT = define(
    "repeat",
    arity=(1, None),
    dtype=nothing,
    shape=scalar,
    stages=SCHEDULE,
    arg_type=RepeatArg,
    doc="Effect: the schedules of a LOOP run again and again, their params moving over the operands after them.",
)
LINEAR = define(
    "linear",
    arity=(0, None),
    dtype=nothing,
    shape=scalar,
    stages=PROGRAM | SCHEDULE,
    doc="An ordered list: the instructions of a program, or the calls of a schedule.",
)

# ---- control flow of linear programs

IF = define(
    "if",
    arity=1,
    dtype=shapes.if_dtype,
    shape=scalar,
    stages=PROGRAM,
    doc="Runs what follows, up to its END, where the condition holds.",
)
END = define(
    "end",
    arity=1,
    dtype=nothing,
    shape=scalar,
    stages=PROGRAM,
    check=shapes.check_end,
    doc="Closes the RANGE or IF that is its source.",
)

ELEMENTWISE = tuple(op for op in OPS.values() if op.elementwise and KERNEL in op.stages)  # of numbers that kernels have
OF_COMPLEX = (COMPLEX, REAL, IMAG)
REDUCERS = (ADD, MUL, MAX, MIN, AND, OR)
OPS.close()
