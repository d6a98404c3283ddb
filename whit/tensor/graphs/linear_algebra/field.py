"""Arithmetic of matrices whose elements are floats or complex numbers: what the algorithms of this folder are made of.

    size(x)             |x|, a float                conjugate(x)            x itself, if it is real
    subtracted(x, y, z)     z - x * y, of floats rounded once

Goes in: nodes of one dtype. Comes out: nodes of that dtype, or of its parts'.
"""

from __future__ import annotations

from whit.dtype import complex_dtype
from whit.ir import ops
from whit.ir.gradients.rules import conjugate
from whit.ir.uop import UOp
from whit.tensor.graphs import complex_functions, formulas

__all__ = ["conjugate", "direction", "real_part", "size", "subtracted", "widened_to"]


def size(x: UOp) -> UOp:
    """The magnitude."""
    return complex_functions.absolute(x) if x.dtype.is_complex else abs(x)


def real_part(x: UOp) -> UOp:
    """The real part."""
    return x.alu(ops.REAL) if x.dtype.is_complex else x


def subtracted(factor: UOp, x: UOp, rest: UOp) -> UOp:
    """rest - factor * x."""
    return rest - factor * x if x.dtype.is_complex else (-factor).fma(x, rest)


def direction(x: UOp) -> UOp:
    """x / |x|, and 0 of 0."""
    return complex_functions.sign(x) if x.dtype.is_complex else formulas.sign(x)


def widened_to(x: UOp, like: UOp) -> UOp:
    """Floats, in the dtype of a node that may be complex."""
    return x.cast(complex_dtype(x.dtype)) if like.dtype.is_complex else x
