"""`jax.scipy.linalg`: methods of Tensor, with SciPy's arguments."""

from __future__ import annotations

from typing import Any

from whit.numpy.operands import tensor_of
from whit.tensor import Tensor


def cholesky(a: Any, lower: bool = False, **options: Any) -> Tensor:
    """The triangle whose square a is: the upper one, unless asked."""
    return tensor_of(a).cholesky(upper=not lower)


def cho_factor(a: Any, lower: bool = False, **options: Any) -> tuple[Tensor, bool]:
    """The same for `cho_solve`."""
    return cholesky(a, lower), lower


def cho_solve(c_and_lower: tuple[Tensor, bool], b: Any, **options: Any) -> Tensor:
    """x with a @ x = b, of the triangle of a."""
    factor, lower = c_and_lower
    given = tensor_of(b)
    found = (given.unsqueeze(-1) if given.ndim == 1 else given).cholesky_solve(factor, upper=not lower)
    return found.squeeze(-1) if given.ndim == 1 else found


def solve(a: Any, b: Any, **options: Any) -> Tensor:
    """x with a @ x = b."""
    return tensor_of(a).solve(tensor_of(b))


def solve_triangular(a: Any, b: Any, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False) -> Tensor:
    """The same of a triangle; the rest of a is not read."""
    given = tensor_of(a)
    triangle = given.tril() if lower else given.triu()
    if unit_diagonal:
        eye = Tensor.eye(given.shape[-1], dtype=given.dtype)
        triangle = (given.tril(-1) if lower else given.triu(1)) + eye
    return (triangle if trans in (0, "N") else triangle.mT).solve(tensor_of(b))


def inv(a: Any, **options: Any) -> Tensor:
    """The inverse."""
    return tensor_of(a).inv()


def det(a: Any, **options: Any) -> Tensor:
    """The determinant."""
    return tensor_of(a).det()


def expm(A: Any, **options: Any) -> Tensor:  # noqa: N803  # SciPy's name
    """The exponential of a matrix."""
    return tensor_of(A).matrix_exp()


def block_diag(*arrs: Any) -> Tensor:
    """Matrices on the diagonal of one."""
    first, *rest = (tensor_of(each) for each in arrs)
    return first.block_diag(*rest)
