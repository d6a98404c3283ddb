"""The extension for linear algebra: values against `array_api_strict`, decompositions by what they are defined by."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import whit.numpy as xp
from arrays import draws
from arrays.strict import COMPLEX, FLOATS, check, same, strict
from whit import Tensor

pytestmark = pytest.mark.slow

FEW = settings(max_examples=max(settings.default.max_examples // 25, 2))
ONE = {
    "det": draws.well,
    "inv": draws.well,
    "slogdet": draws.well,
    "cholesky": draws.definite,
    "eigvalsh": draws.definite,
    "svdvals": lambda draw: draws.some(draw, FLOATS + COMPLEX, draws.TALL),
    "pinv": lambda draw: draws.well(draw, draws.TALL),
    "matrix_rank": lambda draw: draws.some(draw, FLOATS + COMPLEX, draws.TALL),
}


@pytest.mark.parametrize("name", ONE)
@FEW
@given(data=st.data())
def test_function_of_a_matrix(name: str, data: Any) -> None:
    check(f"linalg.{name}", ONE[name](data.draw), scale=100.0)


@pytest.mark.parametrize("name", ["matrix_norm", "matrix_power", "solve"])
@FEW
@given(data=st.data())
def test_function_of_more(name: str, data: Any) -> None:
    draw = {"matrix_norm": draws.matrix_norms, "matrix_power": draws.powering, "solve": draws.solving}[name]
    args, keywords = draw(data.draw)
    check(f"linalg.{name}", *args, scale=100.0, **keywords)


def adjoint(x: Any) -> Any:
    return np.conj(np.swapaxes(x, -1, -2))


def close(mine: Any, other: Any) -> None:
    np.testing.assert_allclose(
        mine, other, atol=1e-4 if mine.dtype.itemsize < 8 or mine.dtype.name == "complex64" else 1e-10
    )


def same_kind(mine: Any, name: str, x: Any, **given: Any) -> list[Any]:
    """The parts of a decomposition as NumPy arrays: names, shapes and dtypes are those of the standard."""
    other = getattr(strict.linalg, name)(strict.asarray(x), **given)
    assert mine._fields == other._fields
    for left, right in zip(mine, other, strict=True):
        assert left.shape == right.shape
        assert left.dtype.name == str(right.dtype).rpartition(".")[2]
    return [part.numpy() for part in mine]


@pytest.mark.parametrize("mode", ["reduced", "complete"])
@FEW
@given(data=st.data())
def test_qr(mode: str, data: Any) -> None:
    x = draws.some(data.draw, FLOATS + COMPLEX, draws.TALL)
    q, r = same_kind(xp.linalg.qr(Tensor(x), mode=mode), "qr", x, mode=mode)
    close(q @ r, x)
    close(
        adjoint(q) @ q, np.broadcast_to(np.eye(q.shape[-1], dtype=q.dtype), (*q.shape[:-2], q.shape[-1], q.shape[-1]))
    )
    close(r, np.triu(r))


@pytest.mark.parametrize("full", [True, False])
@FEW
@given(data=st.data())
def test_svd(full: bool, data: Any) -> None:
    x = draws.some(data.draw, FLOATS + COMPLEX, draws.TALL)
    u, s, vh = same_kind(xp.linalg.svd(Tensor(x), full_matrices=full), "svd", x, full_matrices=full)
    size = s.shape[-1]
    close((u[..., :size] * s[..., None, :]) @ vh[..., :size, :], x)


@FEW
@given(data=st.data())
def test_eigh(data: Any) -> None:
    x = draws.definite(data.draw)
    values, vectors = same_kind(xp.linalg.eigh(Tensor(x)), "eigh", x)
    close((vectors * values[..., None, :]) @ adjoint(vectors), x)


def test_tolerances_are_one_for_all_or_one_for_each() -> None:
    x = np.array([[[1.0, 0.0], [0.0, 0.1]], [[1.0, 0.0], [0.0, 0.1]]])
    tolerances = np.array([0.05, 0.2])
    check("linalg.matrix_rank", x, rtol=tolerances)
    check("linalg.pinv", x, rtol=tolerances)
    check("linalg.matrix_rank", x, rtol=0.2)
    check("linalg.pinv", x, rtol=0.2)


def test_a_right_side_of_one_axis_is_a_vector_and_of_more_are_matrices() -> None:
    matrices = np.stack([np.eye(3), 2 * np.eye(3), 4 * np.eye(3)])
    check("linalg.solve", matrices, np.arange(9.0).reshape(3, 3))
    check("linalg.solve", matrices, np.arange(3.0))


def test_products_of_the_extension_are_those_of_the_namespace() -> None:
    for name in ("matmul", "matrix_transpose", "tensordot", "vecdot"):
        assert getattr(xp.linalg, name) is getattr(xp, name)


def test_wrong_calls_are_errors() -> None:
    same(xp.linalg.trace(xp.ones((2, 2))), strict.linalg.trace(strict.ones((2, 2))), set())
    with pytest.raises(ValueError, match="no norm 'max'"):
        xp.linalg.matrix_norm(xp.ones((2, 2)), ord="max")
    with pytest.raises(ValueError, match="no matrix"):
        xp.linalg.matrix_norm(xp.ones(2))
    with pytest.raises(ValueError, match="one size in both"):
        xp.linalg.vecdot(xp.ones((2, 3)), xp.ones((2, 1)))
    with pytest.raises(ValueError, match="no square matrix"):
        xp.linalg.inv(xp.ones((2, 3)))


@pytest.mark.parametrize("order", ["fro", "nuc", 1, 2, float("inf")])
def test_norms_of_matrices_without_elements_are_zero(order: Any) -> None:
    for shape in ((0, 0), (2, 0, 3), (3, 0)):
        found = xp.linalg.matrix_norm(xp.zeros(shape), ord=order)
        assert found.shape == shape[:-2]
        assert found.tolist() == np.zeros(shape[:-2]).tolist()
