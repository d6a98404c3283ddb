"""Gradients of complex numbers: dL/dx + i dL/dy, against finite differences of both parts; tangents, batches, JIT."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from whit import Tensor, TinyJit, checkpoint, function, grad, jvp, vjp, vmap
from whit.errors import DTypeError

pytestmark = pytest.mark.slow


def numbers(*shape: int, seed: int = 0) -> Any:
    random = np.random.default_rng(seed)
    return random.standard_normal(shape) + 1j * random.standard_normal(shape)


def loss(y: Tensor) -> Tensor:
    """A real number of a tensor, in which each part of each element counts differently."""
    weights = Tensor(numbers(*y.shape, seed=9))
    return ((y * weights).real if y.is_complex() else y * weights.real).sum()


def check(f: Callable[[Tensor], Tensor], z: Any, step: float = 1e-6, near: float = 1e-6) -> None:
    (found,) = loss(f(x := Tensor(z))).gradient(x)
    assert found.dtype.name == z.dtype.name
    expected = np.zeros_like(z)
    for place in np.ndindex(z.shape):
        for unit in (1, 1j):
            moved = np.array(z)
            moved[place] += step * unit
            back = np.array(z)
            back[place] -= step * unit
            slope = (loss(f(Tensor(moved))).item() - loss(f(Tensor(back))).item()) / (2 * step)
            expected[place] += slope * unit
    np.testing.assert_allclose(found.numpy(), expected, rtol=near, atol=near)


OF_POWERS = (
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "square",
    "sigmoid",
)
OF_ANGLES = tuple(f"{a}{name}{h}" for a in ("", "a") for name in ("sin", "cos", "tan") for h in ("", "h"))
OF_PARTS = ("abs", "angle", "sgn", "conj", "real", "imag", "view_as_real")


@pytest.mark.parametrize("name", OF_POWERS + OF_ANGLES + OF_PARTS)
def test_functions(name: str) -> None:
    def f(x: Tensor) -> Tensor:
        found = getattr(x, name)
        return found if isinstance(found, Tensor) else found()

    check(f, numbers(3))


Y = numbers(3, 4, seed=1)
CASES: dict[str, Callable[[Tensor], Tensor]] = {
    "product": lambda x: x * Tensor(Y),
    "quotient": lambda x: Tensor(Y) / x,
    "quotient by a real number": lambda x: x / Tensor(Y.real),
    "power": lambda x: x ** Tensor(Y),
    "exponent": lambda x: Tensor(Y) ** x,
    "small power": lambda x: x**3,
    "matrix product": lambda x: x @ Tensor(Y).T,
    "of itself": lambda x: (x @ x.mH).abs(),
    "sum": lambda x: x.sum(0),
    "product of all": lambda x: x.prod(1),
    "running product": lambda x: x.cumprod(1),
    "variance": lambda x: x.var(1),
    "norm": lambda x: x.norm(),
    "choice": lambda x: (x.real > 0).where(x, Tensor(Y)),
    "rows": lambda x: x[[0, 2, 0]],
    "windows": lambda x: x[1:, ::2].pad(((1, 0), (0, 1))) * 1j,
    "written": lambda x: x.index_add(0, Tensor([1, 1]), x[:2] * 2j),
    "cast": lambda x: x.real.cast("complex128") * (2 - 1j),
    "transform": lambda x: x.fft(),
    "checkpoint": lambda x: checkpoint(lambda y: (y * y).exp(), x),
}


@pytest.mark.parametrize("name", CASES)
def test_compositions(name: str) -> None:
    check(CASES[name], numbers(3, 4))


SQUARE = numbers(3, 3, seed=3)
OF_MATRICES: dict[str, Callable[[Tensor], Tensor]] = {
    "inv": lambda x: x.inv(),
    "solve": lambda x: x.solve(Tensor(Y)),
    "det": lambda x: x.det(),
    "sign of the determinant": lambda x: x.slogdet()[0],
    "logarithm of the determinant": lambda x: x.slogdet()[1],
    "cholesky": lambda x: (x @ x.mH).cholesky(),
    "eigenvalues": lambda x: (x + x.mH).eigh()[0],
    "eigenvectors": lambda x: (x + x.mH).eigh()[1].abs(),
    "singular values": lambda x: x.svd()[1],
    "r": lambda x: x.qr()[1].abs(),
}


@pytest.mark.parametrize("name", OF_MATRICES)
def test_matrices(name: str) -> None:
    check(OF_MATRICES[name], SQUARE, near=1e-5)


def test_at_zero_the_gradients_of_magnitude_and_direction_are_zero() -> None:
    for f in (Tensor.abs, Tensor.angle, Tensor.sgn):
        (found,) = loss(f(x := Tensor(np.zeros(2, complex)))).gradient(x)
        assert found.tolist() == [0, 0]


def test_tangents_are_those_of_finite_differences() -> None:
    z, dz = numbers(4), numbers(4, seed=1)
    for f in (Tensor.exp, Tensor.sqrt, Tensor.tanh, Tensor.abs, Tensor.conj, lambda x: x * x.conj() / (x + 1)):
        value, tangent = jvp(f, (Tensor(z),), (Tensor(dz),))
        ahead, back = f(Tensor(z + 1e-6 * dz)).numpy(), f(Tensor(z - 1e-6 * dz)).numpy()
        np.testing.assert_allclose(value.numpy(), f(Tensor(z)).numpy())
        np.testing.assert_allclose(tangent.numpy(), (ahead - back) / 2e-6, rtol=1e-6, atol=1e-6)


def test_transforms_nest() -> None:
    z, dz = numbers(3, 4), numbers(3, 4, seed=1)
    per_row = vmap(grad(lambda x: (x * x * x).real.sum()))(Tensor(z))
    np.testing.assert_allclose(per_row.numpy(), (3 * z * z).conj())
    _, tangent = jvp(grad(lambda x: (x * x * x).real.sum()), (Tensor(z),), (Tensor(dz),))
    np.testing.assert_allclose(tangent.numpy(), (6 * z * dz).conj())
    _, pull = vjp(lambda x: x * x, Tensor(z))
    np.testing.assert_allclose(pull(Tensor(dz))[0].numpy(), dz * (2 * z).conj())
    np.testing.assert_allclose(vmap(lambda x: x @ Tensor(dz).T)(Tensor(z)).numpy(), z @ dz.T)


def test_functions_and_captured_functions() -> None:
    @function
    def rotated(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x * y + 1j, x.abs()

    x = Tensor(numbers(3, 4), requires_grad=True)
    turned, length = rotated(x, Tensor(Y))
    (turned.abs().sum() + length.sum()).backward()
    (expected,) = ((x * Tensor(Y) + 1j).abs().sum() + x.abs().sum()).gradient(x)
    np.testing.assert_allclose(x.grad.numpy(), expected.numpy())

    @TinyJit
    def step(z: Tensor) -> Tensor:
        return (z * z.conj() + z.exp()).realize()

    for seed in range(4):
        z = numbers(2, 3, seed=seed)
        np.testing.assert_allclose(step(Tensor(z).realize()).numpy(), z * z.conj() + np.exp(z))


def test_a_complex_number_is_no_loss() -> None:
    x = Tensor([1j, 2], requires_grad=True)
    with pytest.raises(DTypeError, match="a complex number is not more or less"):
        (x * x).sum().backward()
    with pytest.raises(DTypeError, match=r"returns complex64, and only floats have gradients"):
        grad(lambda y: y.sum())(x)
    (found,) = (x * x).gradient(x, gradient=Tensor([1.0, 1j]))
    assert found.tolist() == [-2j, 4j]
