"""Operators of elements: arithmetic, comparison, logic, bits; all with NumPy's broadcasting.

Before version 7 the second operand was aligned by the attributes `broadcast` and `axis`; `aligned` says it in today's
way.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy

from whit.dtype import dtypes
from whit.onnx.operators.registry import ALL, Node, Value, as_tensor, operator, unary
from whit.tensor import Tensor

BROADCASTING: Final = 7  # the version since which all operators do


def aligned(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """The second operand with axes added at its end, where old versions name the first axis that it meets."""
    axis = node.get("axis")
    if node.version >= BROADCASTING or axis is None or not node.get("broadcast", 0):
        return b
    return b.reshape((*b.shape, *(1,) * (a.ndim - int(axis) % a.ndim - b.ndim)))


def binary(op_type: str, function: Callable[[Tensor, Tensor], Any], since: tuple[int, ...]) -> None:
    """One row of a table: an operator of two tensors."""
    operator(op_type, since)(lambda node, a, b: function(a, aligned(node, a, b)))


def variadic(op_type: str, function: Callable[[Tensor, Tensor], Any], since: tuple[int, ...]) -> None:
    """One row of a table: an operator of two tensors that takes any number of them, from the left."""
    operator(op_type, since)(lambda node, *inputs: functools.reduce(function, inputs))


def divide(a: Tensor, b: Tensor) -> Tensor:
    """Integers are cut off towards zero."""
    return a.div(b) if a.dtype.is_float else a.div(b, rounding_mode="trunc")


def power(a: Tensor, b: Tensor) -> Tensor:
    """In the wider of the two types; the result has that of the base."""
    if a.dtype.is_float == b.dtype.is_float:
        return a.pow(b).cast(a.dtype)
    wide = dtypes.float64 if dtypes.float64 in (a.dtype, b.dtype) or a.dtype.is_int else dtypes.float32
    return a.cast(wide).pow(b.cast(wide)).cast(a.dtype)


binary("Add", lambda a, b: a + b, (1, 6, 7, 13, 14))
binary("Sub", lambda a, b: a - b, (1, 6, 7, 13, 14))
binary("Mul", lambda a, b: a * b, (1, 6, 7, 13, 14))
binary("Div", divide, (1, 6, 7, 13, 14))
binary("Pow", power, (1, 7, 12, 13, 15))
binary("And", lambda a, b: a & b, (1, 7))
binary("Or", lambda a, b: a | b, (1, 7))
binary("Xor", lambda a, b: a ^ b, (1, 7))
binary("Less", lambda a, b: a < b, (1, 7, 9, 13))
binary("LessOrEqual", lambda a, b: a <= b, (12, 16))
binary("Greater", lambda a, b: a > b, (1, 7, 9, 13))
binary("GreaterOrEqual", lambda a, b: a >= b, (12, 16))
binary("BitwiseAnd", lambda a, b: a & b, (18,))
binary("BitwiseOr", lambda a, b: a | b, (18,))
binary("BitwiseXor", lambda a, b: a ^ b, (18,))
unary("Not", Tensor.logical_not, (1,))
unary("BitwiseNot", Tensor.bitwise_not, (18,))
variadic("Sum", lambda a, b: a + b, (1, 6, 8, 13))
variadic("Max", Tensor.maximum, (1, 6, 8, 12, 13))
variadic("Min", Tensor.minimum, (1, 6, 8, 12, 13))


@operator("Mean", since=(1, 6, 8, 13))
def mean(node: Node, *inputs: Tensor) -> Tensor:
    """Of tensors, not of elements."""
    return functools.reduce(lambda a, b: a + b, inputs) / len(inputs)


@operator("Equal", since=(1, 7, 11, 13, 19), host=ALL)
def equal(node: Node, a: Value, b: Value) -> Value:
    """Also of strings, on the host."""
    if isinstance(a, numpy.ndarray) and a.dtype.kind in "OUS":
        return numpy.asarray(a == b)
    left, right = as_tensor(a), as_tensor(b)
    return left == aligned(node, left, right)


@operator("Mod", since=(10, 13))
def mod(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """The sign of the divisor, or with `fmod` that of the dividend."""
    return a.fmod(b) if node.get("fmod", 0) else a % b


@operator("BitShift", since=(11,))
def bit_shift(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """By any number of bits, also more than there are."""
    return a << b if node.get("direction") == "LEFT" else a >> b


for _name, _function, _since in (
    ("Abs", Tensor.abs, (1, 6, 13)),
    ("Acos", Tensor.acos, (7, 22)),
    ("Acosh", Tensor.acosh, (9, 22)),
    ("Asin", Tensor.asin, (7, 22)),
    ("Asinh", Tensor.asinh, (9, 22)),
    ("Atan", Tensor.atan, (7, 22)),
    ("Atanh", Tensor.atanh, (9, 22)),
    ("Ceil", Tensor.ceil, (1, 6, 13)),
    ("Cos", Tensor.cos, (7, 22)),
    ("Cosh", Tensor.cosh, (9, 22)),
    ("Erf", Tensor.erf, (9, 13)),
    ("Exp", Tensor.exp, (1, 6, 13)),
    ("Floor", Tensor.floor, (1, 6, 13)),
    ("IsNaN", Tensor.isnan, (9, 13, 20)),
    ("Log", Tensor.log, (1, 6, 13)),
    ("Neg", Tensor.neg, (1, 6, 13)),
    ("Reciprocal", Tensor.reciprocal, (1, 6, 13)),
    ("Round", Tensor.round, (11, 22)),
    ("Sign", Tensor.sign, (9, 13)),
    ("Sin", Tensor.sin, (7, 22)),
    ("Sinh", Tensor.sinh, (9, 22)),
    ("Sqrt", Tensor.sqrt, (1, 6, 13)),
    ("Tan", Tensor.tan, (7, 22)),
    ("Tanh", Tensor.tanh, (1, 6, 13)),
):
    unary(_name, _function, _since)


@operator("IsInf", since=(10, 20))
def is_infinite(node: Node, x: Tensor) -> Tensor:
    """Of the signs that the node asks for."""
    return x.isinf(bool(node.get("detect_positive", 1)), bool(node.get("detect_negative", 1)))


@operator("Clip", since=(1, 6, 11, 12, 13))
def clip(node: Node, x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    """min(high, max(low, x)): where the limits cross, it is the upper one."""
    for limit, name, apply in ((low, "min", Tensor.maximum), (high, "max", Tensor.minimum)):
        bound = node.get(name) if limit is None else limit.reshape(()).cast(x.dtype)
        if bound is not None:
            x = apply(x, bound)
    return x


@operator("Where", since=(9, 16), host=ALL)
def where(node: Node, condition: Value, yes: Value, no: Value) -> Value:
    """Also of strings, on the host."""
    if isinstance(yes, numpy.ndarray) and yes.dtype.kind in "OUS":
        chosen = condition.numpy() if isinstance(condition, Tensor) else condition
        return numpy.where(chosen, yes, no)
    return as_tensor(condition).where(as_tensor(yes), as_tensor(no))
