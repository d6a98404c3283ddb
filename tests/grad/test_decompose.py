"""Gradients of equations and decompositions against finite differences."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from whit import Tensor
from whit.errors import NotSupportedError

Function = Callable[..., Tensor]


def _random(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def _weights(shape: tuple[int, ...]) -> Tensor:
    return Tensor(_random(*shape, seed=7)) if shape else Tensor(0.7, dtype="double")


def _loss(function: Function, *arrays: Any) -> tuple[Tensor, list[Tensor]]:
    operands = [Tensor(array) for array in arrays]
    y = function(*operands)
    return (y * _weights(y.shape)).sum(), operands


def _check(function: Function, *arrays: Any, symmetric: bool = False) -> None:
    """Along a random direction of all operands together, which is symmetric where the matrix is."""
    loss, operands = _loss(function, *arrays)
    found = [dx.numpy() for dx in loss.gradient(*operands)]
    directions = [_random(*array.shape, seed=9) for array in arrays]
    if symmetric:
        directions = [d + np.swapaxes(d, -1, -2) for d in directions]
    step = 1e-6
    ends = []
    for sign in (1, -1):
        moved = [array + sign * step * d for array, d in zip(arrays, directions, strict=True)]
        ends.append(_loss(function, *moved)[0].item())
    expected = (ends[0] - ends[1]) / (2 * step)
    total = sum(float((dx * d).sum()) for dx, d in zip(found, directions, strict=True))
    assert total == pytest.approx(expected, rel=1e-6, abs=1e-7)


A = _random(4, 4) + 3 * np.eye(4)
BATCH = _random(2, 3, 3) + 3 * np.eye(3)
POSITIVE = A @ A.T
SPREAD = np.diag([1.0, 2.5, 4.0, 7.0]) + (A + A.T) * 0.1

CASES: dict[str, tuple[Function, tuple[Any, ...], bool]] = {
    "inv": (Tensor.inv, (A,), False),
    "inv of a batch": (Tensor.inv, (BATCH,), False),
    "inv of what a minimum fills": (
        lambda x: (x.min().reshape(1).repeat(4).reshape(2, 2).tanh() + Tensor.eye(2) * 4).inv().sum(),
        (_random(2, 3),),
        False,
    ),
    "inv of a product": (lambda x: (x @ x.T + Tensor.eye(4)).inv(), (_random(4, 4),), False),
    "det": (Tensor.det, (A,), False),
    "det of a batch": (Tensor.det, (BATCH,), False),
    "slogdet": (lambda a: a.slogdet()[1], (BATCH,), False),
    "solve": (lambda a, b: a.solve(b), (A, _random(4, 2)), False),
    "solve a vector": (lambda a, b: a.solve(b), (A, _random(4)), False),
    "solve a batch": (lambda a, b: a.solve(b), (BATCH, _random(3, 2)), False),
    "one matrix, many right sides": (lambda a, b: a.solve(b), (A, _random(3, 4, 2)), False),
    "cholesky": (Tensor.cholesky, (POSITIVE,), True),
    "cholesky, upper": (lambda a: a.cholesky(upper=True), (POSITIVE,), True),
    "eigenvalues": (lambda a: a.eigh()[0], (SPREAD,), True),
    "squares of eigenvectors": (lambda a: a.eigh()[1].square(), (SPREAD,), True),
    "singular values": (lambda a: a.svd()[1], (_random(5, 3),), False),
    "singular values of a wide matrix": (lambda a: a.svd(full_matrices=False)[1], (_random(3, 5),), False),
    "q": (lambda a: a.qr()[0], (_random(5, 3),), False),
    "r": (lambda a: a.qr()[1], (A,), False),
    "powers": (lambda a: a.matrix_power(-2), (A,), False),
    "rfft": (lambda x: x.rfft().view_as_real(), (_random(2, 12),), False),
    "fft of a prime": (lambda x: x.view_as_complex().fft().view_as_real(), (_random(131, 2),), False),
    "irfft": (lambda x: x.view_as_complex().irfft(n=7), (_random(4, 2),), False),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_gradients_against_finite_differences(name: str) -> None:
    function, arrays, symmetric = CASES[name]
    _check(function, *arrays, symmetric=symmetric)


def test_second_derivatives() -> None:
    # y = 1 / x, y' = -1 / x**2, y'' = 2 / x**3
    x = Tensor([[2.0]], dtype="double")
    (first,) = x.inv().sum().gradient(x)
    (second,) = first.sum().gradient(x)
    assert first.item() == pytest.approx(-0.25) and second.item() == pytest.approx(0.25)


@pytest.mark.slow
@pytest.mark.parametrize("name", ("inv", "solve", "slogdet", "cholesky", "eigenvalues", "q", "r"))
def test_second_derivatives_against_finite_differences(name: str) -> None:
    function, arrays, symmetric = CASES[name]

    def slope(*operands: Tensor) -> Tensor:
        y = function(*operands)
        (dx, *_) = (y * _weights(y.shape)).sum().gradient(*operands)
        return dx

    _check(slope, *arrays, symmetric=symmetric)


def test_backward_through_a_solution() -> None:
    a, b = Tensor(A), Tensor(_random(4))
    a.solve(b).sum().backward()
    np.testing.assert_allclose(b.grad.numpy(), np.linalg.inv(A).sum(0), rtol=1e-10)


def test_random_numbers_are_constants_to_a_gradient() -> None:
    x = Tensor([1.0, 2.0, 3.0])
    with Tensor.train():
        y = x.dropout(0.5)
        (dx,) = y.sum().gradient(x)
        np.testing.assert_array_equal(dx.numpy(), y.numpy() / x.numpy())


@pytest.mark.slow
@pytest.mark.parametrize("name", ("svd", "pinv", "lstsq", "qr"))
def test_what_has_no_gradient_says_so(name: str) -> None:
    x = Tensor(_random(3, 5))
    y = {
        "svd": lambda: x.svd()[0],
        "pinv": lambda: x.pinv(),
        "lstsq": lambda: x.lstsq(Tensor(_random(3))).solution,
        "qr": lambda: x.qr()[1],
    }[name]()
    with pytest.raises(NotSupportedError, match=f"gradient: {name}"):
        y.sum().gradient(x)
