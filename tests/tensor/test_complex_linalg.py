"""Equations and decompositions of complex matrices against NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from whit import Tensor, dtypes
from whit.dtype import DType

pytestmark = pytest.mark.slow

DTYPES = pytest.mark.parametrize("dtype", dtypes.complexes, ids=lambda dtype: dtype.name)
NEAR = {dtypes.complex64: 3e-5, dtypes.complex128: 1e-11}


def numbers(shape: tuple[int, ...], dtype: DType = dtypes.complex128, seed: int = 0) -> Any:
    random = np.random.default_rng(seed)
    return (random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(dtype.name)


def adjoint(x: Any) -> Any:
    return x.swapaxes(-1, -2).conj()


def near(found: Any, expected: Any, dtype: DType = dtypes.complex128) -> None:
    array, wanted = np.asarray(found), np.asarray(expected)
    assert array.dtype == wanted.dtype and array.shape == wanted.shape
    np.testing.assert_allclose(array, wanted, rtol=NEAR[dtype], atol=NEAR[dtype])


@DTYPES
def test_equations(dtype: DType) -> None:
    a, b = numbers((2, 4, 4), dtype), numbers((2, 4, 3), dtype, 1)
    x = Tensor(a)
    near(x.solve(Tensor(b)), np.linalg.solve(a, b), dtype)
    near(x.inv(), np.linalg.inv(a), dtype)
    near(x.det(), np.linalg.det(a), dtype)
    near(x.logdet().exp(), np.linalg.det(a), dtype)
    for found, expected in zip(x.slogdet(), np.linalg.slogdet(a), strict=True):
        near(found, expected, dtype)
    near(x.matrix_power(3), np.linalg.matrix_power(a, 3), dtype)
    near(x.matrix_power(-1), np.linalg.inv(a), dtype)
    near(x.pinv(), np.linalg.pinv(a), dtype)
    near(x.solve(Tensor(b.real)), np.linalg.solve(a, b.real.astype(a.dtype)), dtype)
    near(Tensor(a.real).solve(Tensor(b)), np.linalg.solve(a.real.astype(a.dtype), b), dtype)


@DTYPES
def test_positive_definite_and_hermitian_matrices(dtype: DType) -> None:
    a = numbers((5, 5), dtype)
    positive, hermitian = a @ adjoint(a) + np.eye(5, dtype=a.dtype), a + adjoint(a)
    near(Tensor(positive).cholesky(), np.linalg.cholesky(positive), dtype)
    near(Tensor(positive).cholesky(upper=True), adjoint(np.linalg.cholesky(positive)), dtype)
    values, vectors = (part.numpy() for part in Tensor(hermitian).eigh())
    near(values, np.linalg.eigh(hermitian)[0], dtype)
    near(hermitian @ vectors, vectors * values, dtype)
    near(adjoint(vectors) @ vectors, np.eye(5, dtype=a.dtype), dtype)


def test_equal_eigenvalues() -> None:
    turn = np.linalg.qr(numbers((5, 5)))[0]
    matrix = turn @ np.diag([1, 1, 1, -2, -2]) @ adjoint(turn)
    values, vectors = (part.numpy() for part in Tensor(matrix).eigh())
    near(values, np.array([-2.0, -2, 1, 1, 1]))
    near(adjoint(vectors) @ vectors, np.eye(5, dtype=complex))
    near(matrix @ vectors, vectors * values)


@DTYPES
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 4)])
def test_orthogonal_factors(shape: tuple[int, ...], dtype: DType) -> None:
    a = numbers(shape, dtype)
    k = min(shape[-2:])
    u, s, vh = (part.numpy() for part in Tensor(a).svd(full_matrices=False))
    near(s, np.linalg.svd(a, compute_uv=False), dtype)
    near((u * s[..., None, :]) @ vh, a, dtype)
    near(adjoint(u) @ u, np.broadcast_to(np.eye(k, dtype=a.dtype), (*shape[:-2], k, k)), dtype)
    near(vh @ adjoint(vh), np.broadcast_to(np.eye(k, dtype=a.dtype), (*shape[:-2], k, k)), dtype)
    q, r = (part.numpy() for part in Tensor(a).qr())
    near(q @ r, a, dtype)
    near(adjoint(q) @ q, np.broadcast_to(np.eye(k, dtype=a.dtype), (*shape[:-2], k, k)), dtype)
    assert not np.tril(r, -1).any() and not np.diagonal(r, 0, -2, -1).imag.any()


def test_least_squares_and_rank() -> None:
    a, b = numbers((6, 3)), numbers((6, 2), seed=1)
    solution, residuals, rank, values = Tensor(a).lstsq(Tensor(b))
    expected = np.linalg.lstsq(a, b, rcond=None)
    for found, wanted in ((solution, expected[0]), (residuals, expected[1]), (values, expected[3])):
        near(found, wanted)
    assert rank.item() == 3
    assert Tensor(np.outer(a[:, 0], b[:, 0])).matrix_rank().item() == 1


def test_zeros_and_no_elements() -> None:
    zeros = Tensor(np.zeros((3, 3), complex))
    assert zeros.det().item() == 0 and zeros.svd()[1].tolist() == [0, 0, 0] and zeros.eigh()[0].tolist() == [0, 0, 0]
    assert Tensor(np.zeros((0, 0), complex)).det().item() == 1
