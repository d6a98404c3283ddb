"""Equations and decompositions against NumPy: shapes, orthogonality, bad conditions, kernels, mistakes."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from whit import Device, Tensor
from whit.dtype import dtypes
from whit.engine.plan.find_plan import _plans
from whit.engine.realize.repeat import repeat
from whit.engine.report.counters import GlobalCounters
from whit.errors import ArgumentError, DTypeError, ShapeError
from whit.tensor.graphs.linear_algebra import rotate

pytestmark = pytest.mark.slow  # compiles much

DTYPES = ("float32", "float64")
SQUARES = ((1, 1), (2, 2), (3, 3), (2, 5, 5), (2, 1, 4, 4), (0, 0), (0, 3, 3), (2, 0, 0))
RECTANGLES = (*SQUARES, (7, 4), (4, 7), (1, 5), (5, 1), (3, 0), (0, 3), (2, 3, 2), (2, 2, 5))
UNITS = {"float32": 2.0**-23, "float64": 2.0**-52}


def _random(shape: tuple[int, ...], dtype: str = "float64", seed: int = 0) -> Any:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def _turned(x: Any) -> Any:
    return np.swapaxes(x, -1, -2)


def _near(found: Any, expected: Any, limit: float) -> None:
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    scale = max(abs(expected).max(initial=0), 1e-300)
    assert abs(found.astype(np.float64) - expected.astype(np.float64)).max(initial=0) <= limit * scale


def _orthogonal(x: Any, units: float = 20) -> None:
    wide = x.astype(np.float64)
    rest = _turned(wide) @ wide - np.eye(x.shape[-1])
    assert abs(rest).max(initial=0) <= units * UNITS[str(x.dtype)]


def _kernels(call: Callable[[], Any]) -> int:
    GlobalCounters.reset()
    call()
    return GlobalCounters.kernel_count


# ---- equations


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SQUARES, ids=str)
def test_solve_and_inverse(shape: tuple[int, ...], dtype: str) -> None:
    a = _random(shape, dtype)
    for columns in (1, 3):
        b = _random((*shape[:-1], columns), dtype, 1)
        _near(Tensor(a).solve(Tensor(b)).numpy(), np.linalg.solve(a, b), 1e4 * 2.0**-52 + UNITS[dtype])
    _near(Tensor(a).inv().numpy(), np.linalg.inv(a), 1e4 * 2.0**-52 + UNITS[dtype])


def test_right_sides() -> None:
    a, b = _random((2, 4, 4)), _random((4,))
    _near(Tensor(a).solve(Tensor(b)).numpy(), np.linalg.solve(a, b[:, None])[..., 0], 1e-12)
    b = _random((2, 4))
    _near(Tensor(a).solve(b).numpy(), np.linalg.solve(a, b[..., None])[..., 0], 1e-12)
    b = _random((3, 1, 4, 2))
    _near(Tensor(a).solve(b).numpy(), np.linalg.solve(a, b), 1e-12)
    b = _random((4, 2))
    _near(Tensor(a).solve(b).numpy(), np.linalg.solve(a, b), 1e-12)
    assert Tensor(a).solve(Tensor.zeros(4, 0, dtype="double")).shape == (2, 4, 0)


def test_solve_takes_the_largest_pivot() -> None:
    # Without pivots 1e-20 swallows everything: x would be [0, 1].
    x = Tensor([[1e-20, 1.0], [1.0, 1.0]], dtype="double").solve([1.0, 2.0])
    np.testing.assert_allclose(x.numpy(), [1, 1], rtol=1e-15)
    x = Tensor([[0.0, 1.0], [1.0, 0.0]]).solve([2.0, 3.0])
    assert x.tolist() == [3, 2]


@pytest.mark.slow
def test_larger_systems() -> None:
    for dtype, limit in (("float32", 2.0**-23), ("float64", 1e-13)):
        a, b = _random((64, 64), dtype), _random((64, 3), dtype, 1)
        x = Tensor(a).solve(Tensor(b)).numpy()
        _near(x, np.linalg.solve(a, b), 1e-12 + 2.0**-23 * (dtype == "float32"))
        rest = a.astype(np.float64) @ x.astype(np.float64) - b
        assert abs(rest).max() < 64 * limit * abs(a).max() * abs(x).max()


def test_singular_matrices_give_no_numbers() -> None:
    a = Tensor([[[1.0, 2.0], [2.0, 4.0]], [[1.0, 2.0], [3.0, 4.0]]])
    found = a.solve([1.0, 1.0]).numpy()
    assert not np.isfinite(found[0]).any() and np.isfinite(found[1]).all()
    assert not np.isfinite(a.inv()[0].numpy()).any()
    assert a.det().numpy().tolist() == pytest.approx([0, -2])
    sign, log = a.slogdet()
    assert sign.tolist() == [0, -1] and log[0].item() == -np.inf
    assert np.isnan(Tensor([[np.nan, 1.0], [1.0, 1.0]]).solve([1.0, 1.0]).numpy()).any()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SQUARES, ids=str)
def test_determinants(shape: tuple[int, ...], dtype: str) -> None:
    a = _random(shape, dtype)
    _near(Tensor(a).det().numpy(), np.asarray(np.linalg.det(a)), 1e-12 + UNITS[dtype])
    sign, log = Tensor(a).slogdet()
    expected = np.linalg.slogdet(a)
    np.testing.assert_array_equal(sign.numpy(), expected[0])
    np.testing.assert_allclose(log.numpy(), expected[1], rtol=4 * UNITS[dtype], atol=1e-6)
    assert sign.shape == log.shape == shape[:-2]


def test_large_determinants_have_a_logarithm() -> None:
    a = np.eye(200) * 1e3
    sign, log = Tensor(a).slogdet()
    assert (sign.item(), log.item()) == pytest.approx((1, 200 * np.log(1e3)))
    assert Tensor(a).det().item() == np.inf
    permutation = np.eye(7)[[1, 0, 2, 4, 5, 3, 6]]
    assert Tensor(permutation).det().item() == -1


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", (*SQUARES, (40, 40)), ids=str)
def test_cholesky(shape: tuple[int, ...], dtype: str) -> None:
    a = _random(shape, dtype)
    a = a @ _turned(a) + np.eye(shape[-1], dtype=dtype)
    found = Tensor(a).cholesky().numpy()
    _near(found, np.linalg.cholesky(a), 1e-12 + UNITS[dtype])
    assert (np.triu(found, 1) == 0).all()
    np.testing.assert_array_equal(Tensor(a).cholesky(upper=True).numpy(), _turned(found))
    np.testing.assert_array_equal(Tensor(np.tril(a)).cholesky().numpy(), found)  # the rest is not read


def test_cholesky_of_what_is_not_positive_definite() -> None:
    a = Tensor([[[4.0, 2.0], [2.0, 0.5]], [[4.0, 2.0], [2.0, 5.0]]]).cholesky().numpy()
    np.testing.assert_array_equal(a[0], [[2, 0], [1, np.nan]])
    np.testing.assert_array_equal(a[1], [[2, 0], [1, 2]])


def test_powers() -> None:
    a = _random((2, 3, 3))
    for n in (-2, -1, 0, 1, 2, 5, 8):
        _near(Tensor(a).matrix_power(n).numpy(), np.linalg.matrix_power(a, n), 1e-11)
    assert Tensor([[1, 1], [1, 0]]).matrix_power(10).tolist() == [[89, 55], [55, 34]]


# ---- decompositions


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", RECTANGLES, ids=str)
def test_qr(shape: tuple[int, ...], dtype: str) -> None:
    a = _random(shape, dtype)
    for mode in ("reduced", "complete"):
        q, r = (part.numpy() for part in Tensor(a).qr(mode))
        expected = np.linalg.qr(a, mode)
        assert (q.shape, r.shape) == (expected[0].shape, expected[1].shape)
        assert q.dtype == r.dtype == a.dtype
        _orthogonal(q)
        assert (np.tril(r, -1) == 0).all()
        _near((q.astype(np.float64) @ r).astype(dtype), a, 20 * UNITS[dtype])


def test_qr_of_what_has_no_full_rank() -> None:
    a = np.outer(np.arange(5.0), np.arange(4.0))
    a[:, 2] = 0
    for scale in (1.0, 1e-200, 1e200):
        q, r = (part.numpy() for part in Tensor(a * scale).qr("complete"))
        _orthogonal(q)
        _near(q @ r, a * scale, 1e-14)
    q, r = (part.numpy() for part in Tensor.zeros(3, 3).qr())
    np.testing.assert_array_equal(q, np.eye(3))
    np.testing.assert_array_equal(r, np.zeros((3, 3)))


def _check_svd(a: Any, units: float = 20) -> None:
    dtype = str(a.dtype)
    for full in (True, False):
        u, s, vh = (part.numpy() for part in Tensor(a).svd(full_matrices=full))
        expected = np.linalg.svd(a, full_matrices=full)
        assert [x.shape for x in (u, s, vh)] == [x.shape for x in expected]
        assert u.dtype == s.dtype == vh.dtype == a.dtype
        _near(s, expected[1], units * UNITS[dtype])
        assert (s[..., :-1] >= s[..., 1:]).all() and (s >= 0).all()
        _orthogonal(u, units)
        _orthogonal(_turned(vh), units)
        k = s.shape[-1]
        whole = (u[..., :k].astype(np.float64) * s[..., None, :]) @ vh[..., :k, :]
        _near(whole.astype(dtype), a, units * UNITS[dtype])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", RECTANGLES, ids=str)
def test_svd(shape: tuple[int, ...], dtype: str) -> None:
    _check_svd(_random(shape, dtype))


def _with_values(values: Any, seed: int = 0) -> Any:
    """A matrix with these singular values (or, symmetric, eigenvalues)."""
    n = len(values)
    q = np.linalg.qr(_random((n, n), seed=seed))[0]
    return q, np.asarray(values, np.float64)


SPECTRA = {
    "rank 3": [5.0, 3.0, 1.0] + [0.0] * 6,
    "badly conditioned": [10.0**-i for i in range(12)],
    "all equal": [2.0] * 7,
    "clusters": [1.0, 1.0, 1.0 + 1e-12, 1e-8, 1e-8, 3.0],
    "tiny": [1e-200, 2e-200, 3e-200],
    "huge": [1e200, 2e200, 3e200, 1e150],
    "zero": [0.0] * 5,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SPECTRA)
def test_svd_of_difficult_matrices(name: str) -> None:
    u, values = _with_values(SPECTRA[name])
    v, _ = _with_values(SPECTRA[name], 1)
    _check_svd((u * values) @ v.T, 40)


@pytest.mark.slow
@pytest.mark.parametrize("name", SPECTRA)
def test_eigenvalues_of_difficult_matrices(name: str) -> None:
    q, values = _with_values(SPECTRA[name])
    values = values * np.where(np.arange(len(values)) % 2, -1, 1)
    _check_eigh((q * values) @ q.T, 40)


def _check_eigh(a: Any, units: float = 20) -> None:
    dtype = str(a.dtype)
    a = (np.tril(a) + _turned(np.tril(a, -1))).astype(dtype)
    values, vectors = (part.numpy() for part in Tensor(a).eigh())
    expected = np.linalg.eigvalsh(a)
    assert values.shape == expected.shape and vectors.shape == a.shape
    assert values.dtype == vectors.dtype == a.dtype
    _near(values, expected, units * UNITS[dtype])
    assert (values[..., :-1] <= values[..., 1:]).all()
    _orthogonal(vectors, units)
    whole = (vectors.astype(np.float64) * values[..., None, :]) @ _turned(vectors)
    _near(whole.astype(dtype), a, units * UNITS[dtype])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SQUARES, ids=str)
def test_eigh(shape: tuple[int, ...], dtype: str) -> None:
    _check_eigh(_random(shape, dtype))


def test_eigh_reads_the_lower_triangle() -> None:
    a = _random((4, 4))
    _near(Tensor(a).eigh()[0].numpy(), np.linalg.eigvalsh(a), 1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("n", (33, 64, 100))
def test_larger_decompositions(n: int) -> None:
    a = _random((n, n))
    _check_svd(a, 10 + n)
    _check_svd(a[:, : n // 2].copy(), 10 + n)
    _check_eigh(a, 10 + n)
    q, r = (part.numpy() for part in Tensor(a).qr())
    _orthogonal(q)
    _near(q @ r, a, n * 1e-15)


@pytest.mark.slow
def test_rotations_end_without_numbers_too() -> None:
    a = _random((3, 3))
    a[1, 1] = np.nan
    assert np.isnan(Tensor(a).svd()[1].numpy()).all()
    assert np.isnan(Tensor(a).eigh()[0].numpy()).any()
    a[1, 1] = np.inf
    assert not np.isfinite(Tensor(a).svd()[1].numpy()).all()


# ---- by singular values


@pytest.mark.slow
@pytest.mark.parametrize("shape", ((4, 4), (6, 3), (3, 6), (2, 5, 3), (3, 0), (1, 1)), ids=str)
def test_pseudo_inverse_and_rank(shape: tuple[int, ...]) -> None:
    a = _random(shape)
    _near(Tensor(a).pinv().numpy(), np.linalg.pinv(a), 1e-12)
    rank = Tensor(a).matrix_rank()
    assert rank.dtype is dtypes.int32
    np.testing.assert_array_equal(rank.numpy(), np.linalg.matrix_rank(a))


@pytest.mark.slow
def test_rank_of_what_has_less() -> None:
    q, values = _with_values(SPECTRA["rank 3"])
    a = (q * values) @ q.T
    assert Tensor(a).matrix_rank().item() == 3
    assert Tensor(a.astype(np.float32)).matrix_rank().item() == 3
    assert Tensor(a).matrix_rank(tol=2.0).item() == 2
    _near(Tensor(a).pinv().numpy(), np.linalg.pinv(a, rcond=1e-12), 1e-12)
    _near(Tensor(a).pinv(rcond=0.5).numpy(), np.linalg.pinv(a, rcond=0.5), 1e-12)
    assert Tensor.zeros(3, 2).pinv().tolist() == [[0, 0, 0], [0, 0, 0]]
    assert Tensor.zeros(3, 2).matrix_rank().item() == 0


@pytest.mark.slow
@pytest.mark.parametrize("shape", ((6, 3), (3, 6), (4, 4)), ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_least_squares(shape: tuple[int, ...], dtype: str) -> None:
    a = _random(shape, dtype)
    for b in (_random(shape[:1], dtype, 2), _random((shape[0], 2), dtype, 2)):
        found = Tensor(a).lstsq(Tensor(b))
        x, residuals, rank, values = np.linalg.lstsq(a, b)
        _near(found.solution.numpy(), x, 1e-13 + 8 * UNITS[dtype])
        assert found.rank.item() == rank
        _near(found.singular_values.numpy(), values, 8 * UNITS[dtype])
        assert found.residuals.shape == b.shape[1:]
        if shape[0] > shape[1]:
            np.testing.assert_allclose(found.residuals.numpy().reshape(-1), residuals, rtol=64 * UNITS[dtype])


@pytest.mark.slow
def test_least_squares_of_a_batch_and_of_less_rank() -> None:
    a, b = _random((2, 5, 3)), _random((2, 5))
    found = Tensor(a).lstsq(b).solution.numpy()
    for i in range(2):
        _near(found[i], np.linalg.lstsq(a[i], b[i])[0], 1e-13)
    a[0, :, 2] = a[0, :, 1]
    _near(Tensor(a[0]).lstsq(b[0]).solution.numpy(), np.linalg.lstsq(a[0], b[0])[0], 1e-13)


# ---- dtypes, views, devices, kernels


@pytest.mark.slow
def test_dtypes_of_results() -> None:
    a = [[4, 1], [1, 3]]
    for dtype, result in (("int32", "float32"), ("uint8", "float32"), ("float16", "float16"), ("bfloat16", "bfloat16")):
        x = Tensor(a, dtype=dtype)
        parts = (x.inv(), x.det(), x.solve([1, 2]), x.cholesky(), *x.qr(), *x.svd(), *x.eigh(), x.pinv())
        assert {part.dtype.name for part in parts} == {result}
        assert x.det().item() == 11


def test_views_and_lazy_values() -> None:
    a = _random((4, 6))
    x = Tensor(a)[::-1, 1:5].T
    _near(x.inv().numpy(), np.linalg.inv(a[::-1, 1:5].T), 1e-12)
    _near((x * 2 + 1).det().numpy(), np.asarray(np.linalg.det(a[::-1, 1:5].T * 2 + 1)), 1e-12)


@pytest.mark.slow
def test_the_interpreter_agrees() -> None:
    a = _random((3, 3))
    b = a @ a.T
    here, there = Tensor(b), Tensor(b, device="PYTHON")
    for name in ("inv", "det", "cholesky", "qr", "svd", "eigh", "pinv"):
        found, expected = getattr(here, name)(), getattr(there, name)()
        for x, y in zip(*((p if isinstance(p, tuple) else (p,)) for p in (found, expected)), strict=True):
            assert y.device == "PYTHON"
            np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-12, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("name, kernels", [("det", 2), ("inv", 3), ("cholesky", 1), ("qr", 4)])
def test_kernels_grow_with_the_rows_and_are_compiled_once(name: str, kernels: int) -> None:
    a = [Tensor(_random((n, n)) + np.eye(n) * 9).realize() for n in (10, 20)]
    few, many = (_kernels(getattr(x, name)) for x in a)
    assert many - few == 10 * kernels
    before = len(_plans)
    getattr(a[0] + 0, name)()
    assert len(_plans) - before <= 1  # the addition


def test_one_round_of_rotations_is_two_kernels() -> None:
    for step in (partial(rotate._orthogonalise, 4), rotate._diagonalise):
        state = [Tensor(_random((1, 8, 4))).uop]
        assert _kernels(lambda step=step, state=state: repeat(step, state, 5, Device.DEFAULT)) == 10  # type: ignore[misc]


# ---- mistakes


MISTAKES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a vector": (lambda: Tensor.ones(3).inv(), ShapeError, "inv: (3,) is no square matrix"),
    "not square": (lambda: Tensor.ones(3, 2).det(), ShapeError, "det: (3, 2) is no square matrix"),
    "no matrix": (lambda: Tensor.ones(3).svd(), ShapeError, "svd: (3,) is no matrix"),
    "bools": (lambda: Tensor([[True]]).qr(), DTypeError, "qr: bools are not numbers here"),
    "rows": (lambda: Tensor.ones(3, 3).solve(Tensor.ones(2)), ShapeError, "a right side (2,)"),
    "batch": (lambda: Tensor.ones(2, 3, 3).solve(Tensor.ones(4, 3, 1)), ShapeError, "a right side (4, 3, 1)"),
    "a number": (lambda: Tensor.ones(2, 2).solve(Tensor(1.0)), ShapeError, "a right side ()"),
    "lstsq rows": (lambda: Tensor.ones(3, 2).lstsq(Tensor.ones(2)), ShapeError, "lstsq: a matrix (3, 2)"),
    "no such mode": (lambda: Tensor.ones(3, 3).qr("full"), ArgumentError, "qr: there is no mode 'full'"),
    "half a power": (lambda: Tensor.ones(3, 3).matrix_power(0.5), ArgumentError, "matrix_power: 0.5"),  # type: ignore[arg-type]
    "power of a row": (lambda: Tensor.ones(1, 3).matrix_power(2), ShapeError, "matrix_power: (1, 3)"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_told(name: str) -> None:
    call, kind, message = MISTAKES[name]
    with pytest.raises(kind) as caught:
        call()
    assert message in str(caught.value)
