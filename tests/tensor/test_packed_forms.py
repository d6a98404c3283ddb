"""LAPACK's packed forms: LU with pivots, triangles, QR as reflections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from whit import Tensor
from whit.errors import ArgumentError, NotSupportedError, ShapeError

SHAPES = [(3, 3), (2, 4, 4), (5, 3), (3, 5), (1, 1), (0, 0), (2, 3, 0)]
numbers = np.random.default_rng(7)


def random(*shape: int) -> np.ndarray:
    return numbers.standard_normal(shape)


def near(found: Any, wanted: Any, error: float = 1e-9) -> None:
    found = found.numpy() if isinstance(found, Tensor) else found
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=error, atol=error)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_parts_of_lu_give_the_matrix(shape: tuple[int, ...]) -> None:
    a = random(*shape)
    packed, pivots = Tensor(a).lu()
    turn, lower, upper = Tensor.lu_unpack(packed, pivots)
    near(turn.numpy() @ lower.numpy() @ upper.numpy(), a)
    assert pivots.dtype.name == "int32" and pivots.shape == (*shape[:-2], min(shape[-2:]))
    assert np.abs(np.tril(lower.numpy(), -1)).max(initial=0) <= 1  # the largest of each column is the pivot


def test_lu_says_where_a_pivot_is_zero() -> None:
    singular = Tensor([[[1.0, 2.0], [2.0, 4.0]], [[1.0, 2.0], [3.0, 4.0]]])
    *_, infos = singular.lu(get_infos=True)
    assert infos.tolist() == [2, 0]
    assert singular.lu().pivots.tolist() == singular.lu_factor()[1].tolist() == [[2, 2], [2, 2]]


def test_equations_are_solved_by_decompositions() -> None:
    a, b = random(2, 4, 4), random(2, 4, 3)
    near(Tensor(b).lu_solve(*Tensor(a).lu()), np.linalg.solve(a, b))
    near(Tensor(b[0]).lu_solve(*Tensor(a).lu()), np.linalg.solve(a, b[0]))


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
@pytest.mark.parametrize("ones", [True, False])
def test_triangles_are_solved_and_nothing_beyond_them_is_read(upper: bool, transpose: bool, ones: bool) -> None:
    a, b = random(4, 4) + np.eye(4) * 4, random(4, 2)
    triangle = np.triu(a) if upper else np.tril(a)
    triangle = triangle - np.diag(np.diag(a)) + np.eye(4) if ones else triangle
    odd = np.where(np.tril(np.ones((4, 4)), -1) > 0, np.nan, a) if upper else np.where(np.triu(a, 1) != 0, np.nan, a)
    found, matrix = Tensor(b).triangular_solve(Tensor(odd), upper, transpose, ones)
    near(found, np.linalg.solve(triangle.T if transpose else triangle, b))
    assert matrix.shape == (4, 4)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_reflections_give_q_and_r(shape: tuple[int, ...]) -> None:
    a = random(*shape)
    packed, tau = Tensor(a).geqrf()
    m, n = shape[-2:]
    assert tau.shape == (*shape[:-2], min(m, n))
    q, r = np.linalg.qr(a, mode="complete")
    near(packed.triu(), np.triu(r))
    eye = np.broadcast_to(np.eye(m), (*shape[:-2], m, m)).copy()
    near(packed.ormqr(tau, Tensor(eye)), q)
    if n <= m:
        near(packed.orgqr(tau), q[..., :n])
    other, beside = random(*shape[:-2], m, 2), random(*shape[:-2], 2, m)
    near(packed.ormqr(tau, Tensor(other), transpose=True), np.swapaxes(q, -1, -2) @ other)
    near(packed.ormqr(tau, Tensor(beside), left=False), beside @ q)


def test_a_column_that_is_zero_below_is_left() -> None:
    a = np.array([[-3.0, 1.0, 2.0], [0.0, 4.0, 5.0], [0.0, 0.0, -6.0]])
    packed, tau = Tensor(a).geqrf()
    near(packed, a)
    assert tau.tolist() == [0, 0, 0]
    near(packed.orgqr(tau), np.eye(3))
    q, r = Tensor(a).qr()
    near(q, np.eye(3))
    near(r, a)


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 3, 3)], ids=str)
def test_qr_has_the_signs_of_lapack(shape: tuple[int, ...]) -> None:
    a = random(*shape)
    for found, wanted in zip(Tensor(a).qr(), np.linalg.qr(a), strict=True):
        near(found, wanted)


GRADIENTS: dict[str, tuple[Callable[..., Tensor], tuple[tuple[int, ...], ...]]] = {
    "lu": (lambda a: a.lu().LU, ((3, 3),)),
    "lu_solve": (lambda a, b: b.lu_solve(*a.lu()), ((3, 3), (3, 2))),
    "triangular_solve": (lambda a, b: b.triangular_solve(a).solution, ((3, 3), (3, 2))),
    "orgqr": (lambda a, tau: a.orgqr(tau), ((4, 2), (2,))),
    "ormqr": (lambda a, tau, c: a.ormqr(tau, c, left=False), ((3, 2), (2,), (2, 3))),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    function, shapes = GRADIENTS[name]
    given = [random(*shape) + 2 * np.eye(*shape) if len(shape) > 1 else random(*shape) for shape in shapes]
    weights = random(*function(*map(Tensor, given)).shape)

    def loss(arrays: list[np.ndarray]) -> Any:
        return (function(*map(Tensor, arrays)) * Tensor(weights)).sum()

    tensors = [Tensor(array) for array in given]
    found = (function(*tensors) * Tensor(weights)).sum().gradient(*tensors)
    for place, array in enumerate(given):
        step = np.zeros_like(array)
        position = tuple(size // 2 for size in array.shape)
        step[position] = 1e-6
        above, below = ([*given[:place], array + s, *given[place + 1 :]] for s in (step, -step))
        slope = (loss(above).item() - loss(below).item()) / 2e-6
        assert found[place].numpy()[position] == pytest.approx(slope, rel=1e-5, abs=1e-6)


def test_wrong_shapes_are_told() -> None:
    a, wide = Tensor(random(3, 3)), Tensor(random(2, 3))
    with pytest.raises(NotSupportedError, match="geqrf has no gradient"):
        a.geqrf().a.sum().gradient(a)
    with pytest.raises(ArgumentError, match="pivot=False"):
        a.lu(pivot=False)
    with pytest.raises(ShapeError, match="lu_solve:"):
        Tensor(random(2, 2)).lu_solve(*a.lu())
    with pytest.raises(ShapeError, match="triangular_solve: "):
        a.triangular_solve(Tensor(random(3, 2)))
    with pytest.raises(ShapeError, match="orgqr: "):
        Tensor(random(2, 3)).orgqr(Tensor(random(2)))
    with pytest.raises(ShapeError, match="ormqr: "):
        a.ormqr(Tensor(random(4)), a)
    with pytest.raises(NotSupportedError, match="gradient: lu of a matrix"):
        wide.lu().LU.sum().gradient(wide)
