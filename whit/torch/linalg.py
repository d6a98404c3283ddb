"""`torch.linalg`: methods of Tensor, and what is made of them (docs/linalg.md)."""

from __future__ import annotations

from typing import Any, NamedTuple

from whit.errors import UserError
from whit.numpy import linalg as _numpy
from whit.tensor import Tensor
from whit.torch.rows import functions, into

LinAlgError = UserError

_ROWS = functions(
    """cholesky cross det diagonal inv matmul matrix_exp matrix_power matrix_rank pinv vander vecdot
    lstsq""".split(),
    "torch.linalg",
)
cholesky, cross, det, diagonal = (_ROWS[name] for name in ("cholesky", "cross", "det", "diagonal"))
inv, matmul, matrix_exp = (_ROWS[name] for name in ("inv", "matmul", "matrix_exp"))
matrix_power, matrix_rank, pinv = (_ROWS[name] for name in ("matrix_power", "matrix_rank", "pinv"))
vander, vecdot, lstsq = (_ROWS[name] for name in ("vander", "vecdot", "lstsq"))


class Eigen(NamedTuple):
    """Eigenvalues, and vectors in columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class SVD(NamedTuple):
    """A = U @ diag(S) @ Vh."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class QR(NamedTuple):
    """A = Q @ R."""

    Q: Tensor
    R: Tensor


class SignAndLogarithm(NamedTuple):
    """det A = sign * exp(logabsdet)."""

    sign: Tensor
    logabsdet: Tensor


class WithInfo(NamedTuple):
    """A result, and a number that is 0 where there is one."""

    result: Tensor
    info: Tensor


def eigh(A: Tensor, UPLO: str = "L") -> Eigen:  # noqa: N803  # PyTorch's names
    """Eigenvalues, the smallest first, and vectors of symmetric matrices. One triangle is read."""
    whole = A.tril() + A.tril(-1).mT if UPLO == "L" else A.triu() + A.triu(1).mT
    return Eigen(*whole.eigh())


def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:  # noqa: N803
    """The eigenvalues alone."""
    return eigh(A, UPLO).eigenvalues


def svd(A: Tensor, full_matrices: bool = True) -> SVD:  # noqa: N803
    """Singular values, the largest first, and vectors."""
    return SVD(*A.svd(full_matrices))


def svdvals(A: Tensor) -> Tensor:  # noqa: N803
    """The singular values alone."""
    return _numpy.svdvals(A)


def qr(A: Tensor, mode: str = "reduced") -> QR:  # noqa: N803
    """An orthogonal matrix and a triangle."""
    if mode == "r":
        return QR(Tensor.empty(0, dtype=A.dtype), A.qr("reduced")[1])
    return QR(*A.qr(mode))


def slogdet(A: Tensor) -> SignAndLogarithm:  # noqa: N803
    """The sign of the determinant, and the logarithm of its size."""
    return SignAndLogarithm(*A.slogdet())


def solve(A: Tensor, B: Tensor, *, left: bool = True, out: Any = None) -> Any:  # noqa: N803
    """X with A @ X = B; with left=False, X @ A = B."""
    return into(out, A.solve(B) if left else A.mT.solve(B.mT).mT)


def solve_triangular(
    A: Tensor,  # noqa: N803
    B: Tensor,  # noqa: N803
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> Tensor:
    """The same of a triangle; the rest of A is not read."""
    triangle = A.triu() if upper else A.tril()
    if unitriangular:
        eye = Tensor.eye(A.shape[-1], dtype=A.dtype, device=A.device)
        triangle = (A.triu(1) if upper else A.tril(-1)) + eye
    return solve(triangle, B, left=left)  # type: ignore[no-any-return]


def multi_dot(tensors: Any) -> Tensor:
    """The product of matrices, in the order that takes least work."""
    return _numpy.multi_dot(list(tensors))


# ---- sizes


def vector_norm(x: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The norm of the elements along axes."""
    given = x if dtype is None else x.cast(dtype)
    return _numpy.vector_norm(given, axis=dim, keepdims=keepdim, ord=ord)


def matrix_norm(
    A: Tensor,  # noqa: N803  # PyTorch's names
    ord: Any = "fro",
    dim: Any = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Tensor:
    """ "fro", "nuc", inf, -inf, 1, -1, 2 or -2 of matrices."""
    given = A if dtype is None else A.cast(dtype)
    axes = [axis % given.ndim for axis in dim]
    found = _numpy.matrix_norm(given.movedim(axes, (-2, -1)), ord=ord)
    for axis in sorted(axes) if keepdim else ():
        found = found.unsqueeze(axis)
    return found


def norm(A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:  # noqa: N803
    """Of vectors along one axis, of matrices along two; of all elements where nothing is said."""
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    axes = A.ndim if dim is None else len(dim) if isinstance(dim, list | tuple) else 1
    if axes == 2:
        return matrix_norm(A, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    return vector_norm(A, ord, dim, keepdim, dtype=dtype)


def cond(A: Tensor, p: Any = None) -> Tensor:  # noqa: N803
    """How much A makes of an error: the norm of A times that of its inverse."""
    if p in (None, 2, -2):
        found = _numpy.cond(A)
        return found if p != -2 else found.reciprocal()
    return matrix_norm(A, p) * matrix_norm(A.inv(), p)


# ---- with a number that says whether there is a result; and of more axes


def inv_ex(A: Tensor, *, check_errors: bool = False) -> WithInfo:  # noqa: N803
    """The inverse, and the first column without a pivot, or 0."""
    found = A.inv()
    return WithInfo(found, _bad(found))


def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> WithInfo:  # noqa: N803
    """The triangle, and 0 where the matrix is positive definite."""
    found = A.cholesky(upper)
    return WithInfo(found, _bad(found))


def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> WithInfo:  # noqa: N803
    """The solution, and 0 where there is one."""
    found = solve(A, B, left=left)
    return WithInfo(found, _bad(found))


def _bad(found: Tensor) -> Tensor:
    return found.isfinite().all((-2, -1)).logical_not().cast("int32")


def tensorinv(A: Tensor, ind: int = 2) -> Tensor:  # noqa: N803
    """The inverse of a tensor as a matrix whose rows are its first `ind` axes."""
    rows, columns = A.shape[:ind], A.shape[ind:]
    size = 1
    for each in rows:
        size *= each
    return A.reshape(size, -1).inv().reshape(*columns, *rows)


def tensorsolve(A: Tensor, B: Tensor, dims: Any = None) -> Tensor:  # noqa: N803
    """X with tensordot(A, X, X.ndim) = B."""
    if dims is not None:
        places = [axis % A.ndim for axis in dims]
        A = A.permute(*[axis for axis in range(A.ndim) if axis not in places], *places)
    return A.reshape(B.numel(), -1).solve(B.flatten()).reshape(A.shape[B.ndim :])
