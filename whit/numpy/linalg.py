"""`whit.numpy.linalg`: the standard's extension for matrices, which are the last two axes.

Decompositions compute at once (docs/linalg.md). What gives several arrays gives a named tuple.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from whit.dtype import DTypeLike, to_dtype
from whit.errors import ArgumentError, ShapeError
from whit.ir.op import spell_shape
from whit.numpy.data_types import finfo, result_type
from whit.numpy.operands import function, listed, tensor_of, tensors, unary
from whit.tensor import Tensor

__all__ = [
    "EighResult",
    "QRResult",
    "SVDResult",
    "SlogdetResult",
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


class EighResult(NamedTuple):
    """What `eigh` gives."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    """What `qr` gives."""

    Q: Tensor
    R: Tensor


class SlogdetResult(NamedTuple):
    """What `slogdet` gives."""

    sign: Tensor
    logabsdet: Tensor


class SVDResult(NamedTuple):
    """What `svd` gives."""

    U: Tensor
    S: Tensor
    Vh: Tensor


det = unary("det")
inv = unary("inv")
matrix_transpose = unary("matrix_transpose")
lstsq = function("lstsq")


# ---- products


def matmul(x1: Any, x2: Any, /) -> Tensor:
    """The product of matrices, or of a vector and a matrix; axes before the last two broadcast."""
    left, right = tensors(x1, x2)
    return left.matmul(right).cast(result_type(left, right))


def outer(x1: Any, x2: Any, /) -> Tensor:
    """Every element of one times every element of the other."""
    left, right = tensors(x1, x2)
    return left.outer(right)


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """The vector at right angles to two, along an axis of size 3; the other axes broadcast."""
    left, right = tensors(x1, x2)
    return left.cross(right, dim=axis)


def tensordot(x1: Any, x2: Any, /, axes: Any = 2) -> Tensor:
    """The sum of products over pairs of axes: the last n of one and the first n of the other, or two lists of axes."""
    left, right = tensors(x1, x2)
    return left.tensordot(right, axes).cast(result_type(left, right))


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """The sum of products along an axis, which both have with one size; of complex numbers the first is conjugated."""
    left, right = tensors(x1, x2)
    places = [each.ndim + axis if axis < 0 else axis for each in (left, right)]
    sizes = [each.shape[each._axis("vecdot", axis, scalars=False)] for each in (left, right)]
    if sizes[0] != sizes[1] or (axis >= 0 and left.ndim != right.ndim):
        raise ShapeError(
            f"vecdot: axis {axis} of {spell_shape(left.shape)} and {spell_shape(right.shape)}, places {places}",
            f"left {left._made()}, right {right._made()}",
            "It has one size in both, and is counted from the end where their numbers of axes differ.",
        )
    return left.vecdot(right, dim=axis)


def multi_dot(arrays: Any, /) -> Tensor:
    """The product of several matrices, in the order that takes the fewest multiplications (NumPy)."""
    first, *rest = listed(arrays)
    return first.chain_matmul(*rest)


# ---- parts


def diagonal(x: Any, /, *, offset: int = 0) -> Tensor:
    """The elements (i, i + offset) of the last two axes."""
    return tensor_of(x).diagonal(offset, -2, -1)


def trace(x: Any, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Tensor:
    """The sum of a diagonal of the last two axes."""
    return diagonal(x, offset=offset).sum(-1, dtype=None if dtype is None else to_dtype(dtype))


# ---- equations


def solve(x1: Any, x2: Any, /) -> Tensor:
    """x of x1 @ x = x2, where x2 is a vector if it has one axis, and matrices otherwise."""
    left, right = tensors(x1, x2)
    dtype = result_type(left, right)
    left, right = left.cast(dtype), right.cast(dtype)
    if 1 < right.ndim < left.ndim:  # matrices, which the method may take for vectors
        right = right.reshape((*(1,) * (left.ndim - right.ndim), *right.shape))
    return left.solve(right)


def matrix_power(x: Any, n: int, /) -> Tensor:
    """The product of n times the matrix; of a negative n, of its inverse."""
    return tensor_of(x).matrix_power(n)


# ---- decompositions


def cholesky(x: Any, /, *, upper: bool = False) -> Tensor:
    """The triangular L with L @ L.mT = x, L being lower; or the upper U with U.mT @ U = x."""
    return tensor_of(x).cholesky(upper)


def eigh(x: Any, /) -> EighResult:
    """The eigenvalues of symmetric matrices, ascending, and orthonormal eigenvectors as columns."""
    return EighResult(*tensor_of(x).eigh())


def eigvalsh(x: Any, /) -> Tensor:
    """The eigenvalues of symmetric matrices, ascending."""
    return tensor_of(x).eigh()[0]


def qr(x: Any, /, *, mode: str = "reduced") -> QRResult:
    """Orthonormal columns Q and an upper triangular R with Q @ R = x."""
    return QRResult(*tensor_of(x).qr(mode))


def slogdet(x: Any, /) -> SlogdetResult:
    """The sign of the determinant, and the logarithm of its magnitude."""
    return SlogdetResult(*tensor_of(x).slogdet())


def svd(x: Any, /, *, full_matrices: bool = True) -> SVDResult:
    """U, S and Vh with U @ diag(S) @ Vh = x; S descends."""
    return SVDResult(*tensor_of(x).svd(full_matrices))


def svdvals(x: Any, /) -> Tensor:
    """The singular values, descending."""
    return tensor_of(x).svd(False)[1]


def _relative(x: Tensor, rtol: Any) -> Any:
    """Below what part of the largest singular value another one counts as 0: a number, or one a matrix."""
    if rtol is None:
        return max(x.shape[-2:]) * finfo(x.dtype).eps
    return rtol if isinstance(rtol, int | float) else tensor_of(rtol).unsqueeze(-1)


def matrix_rank(x: Any, /, *, rtol: Any = None) -> Tensor:
    """How many singular values are above rtol times the largest."""
    given = tensor_of(x)
    values = svdvals(given)
    if not values.shape[-1]:
        return values.count_nonzero(-1)
    limit: Tensor = values.max(-1, keepdims=True) * _relative(given, rtol)
    return (values > limit).count_nonzero(-1)


def pinv(x: Any, /, *, rtol: Any = None) -> Tensor:
    """The pseudo-inverse; singular values up to rtol times the largest count as 0."""
    given = tensor_of(x)
    relative = _relative(given, rtol)
    if not isinstance(relative, Tensor):
        return given.pinv(relative)
    left, values, right = given.svd(False)
    is_large = values > values.max(-1, keepdims=True) * relative
    inverse = is_large.where(is_large.where(values, 1.0).reciprocal(), 0.0)
    return (right.mT * inverse.unsqueeze(-2)) @ left.mT


# ---- norms


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: float = 2) -> Tensor:
    """The root of order `ord` of the sum of powers of magnitudes; inf and -inf: the largest and smallest, 0: how many
    are not 0."""
    given = tensor_of(x)
    sizes = given.abs() if given.dtype.is_complex else given
    return sizes.norm(float(ord), axis, keepdims).cast(sizes.dtype)


_NORMS = ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """The norm of matrices: "fro" of all elements, "nuc", 2 and -2 of singular values, 1, -1, inf and -inf of sums."""
    given = tensor_of(x)
    if ord not in _NORMS:
        raise ArgumentError(f"matrix_norm: there is no norm {ord!r}", fix=f"Use one of {_NORMS}.")
    if given.ndim < 2:
        raise ShapeError(f"matrix_norm: {spell_shape(given.shape)} is no matrix", given._made(), "Use 2 axes or more.")
    if ord == "fro":
        return vector_norm(given, axis=(-2, -1), keepdims=keepdims)
    if ord in ("nuc", 2, -2):
        values = svdvals(given)
        method = {"nuc": "sum", 2: "max", -2: "min"}[ord]
    else:
        values = given.abs().sum(-2 if abs(ord) == 1 else -1)
        method = "max" if ord > 0 else "min"
    is_empty = not values.shape[-1] and method == "max"  # of no magnitudes, the largest is 0
    found: Tensor = values.sum(-1) if is_empty else getattr(values, method)(-1)
    return found.unsqueeze(-1).unsqueeze(-1) if keepdims else found


def norm(x: Any, /, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    """`matrix_norm` over two axes, `vector_norm` over one or all; without `ord`, of all elements (NumPy)."""
    given = tensor_of(x)
    axes = tuple(range(given.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if ord is None or len(axes) == 1:
        return vector_norm(given, axis=axis, keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) != 2:
        raise ArgumentError(f"norm: {len(axes)} axes have no norm {ord!r}", given._made(), "Name one axis or two.")
    found = matrix_norm(given.moveaxis(axes, (-2, -1)), ord=ord)
    if keepdims:
        for place in sorted(given._axis("norm", each) for each in axes):
            found = found.unsqueeze(place)
    return found


def cond(x: Any, /) -> Tensor:
    """The largest singular value divided by the smallest (NumPy)."""
    values = svdvals(x)
    return values.max(-1) / values.min(-1)
