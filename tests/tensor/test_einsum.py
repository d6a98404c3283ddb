"""Sums of products: formulas against NumPy, the order of contraction by what it costs."""

from typing import Any

import numpy as np
import pytest

from tensor.check import FLOATS, INTS, same, some, value, wide
from whit import Tensor
from whit.dtype import DType, dtypes
from whit.engine.report.counters import GlobalCounters
from whit.errors import ArgumentError, ShapeError
from whit.tensor.graphs.linear_algebra.contract import path

pytestmark = pytest.mark.slow  # many

SIZES = {"a": 2, "b": 3, "c": 4, "d": 5, "i": 2, "j": 3, "k": 4, "l": 2, "z": 1}

FORMULAS = [
    "ij->ij",
    "ij->ji",
    "ij->i",
    "ij->",
    "ii->i",
    "ii->",
    "iij->j",
    "iji->ij",
    "iii->i",
    "ij",
    "ji",
    "ii",
    "ij,jk->ik",
    "ij,jk",
    "ij,kj->ki",
    "i,i->",
    "i,j->ij",
    "i,i->i",
    "ij,ij->",
    "ij,ij->ij",
    "bij,bjk->bik",
    "ijk,jk->i",
    "abc,cd->abd",
    "ij,j->i",
    "ij,k->i",
    "ii,ij->j",
    "ij,ji->",
    ",ij->ij",
    "ij,->j",
    "az,zb->ab",
    "iz,ij->ij",
    "ij,jk,kl->il",
    "ij,jk,kl",
    "i,ij,j->",
    "a,b,c,d->dcba",
    "ab,bc,cd,da->",
    "abc,bd,cd,ad->a",
    "i,i,i,i->",
]
DOTS = [
    ("...ij,...jk->...ik", (2, 3, 4), (2, 4, 5)),
    ("...ij,jk->...ik", (2, 1, 3, 4), (4, 5)),
    ("...i->...", (2, 3), None),
    ("i...->...i", (2, 3, 4), None),
    ("...,...->...", (2, 1), (3,)),
    ("...i,...i", (4, 3), (3,)),
    ("...", (2, 3), None),
    ("a...b,b...->a...", (2, 3, 4), (4, 3)),
    ("...ii->...i", (2, 3, 3), None),
    ("...->", (2, 3), None),
    ("...j->j", (2, 3), None),
]


@pytest.mark.parametrize("formula", FORMULAS)
def test_formulas(formula: str) -> None:
    terms = formula.replace(" ", "").split("->")[0].split(",")
    arrays = [some(dtypes.int32, tuple(SIZES[letter] for letter in term), i) for i, term in enumerate(terms)]
    same(Tensor.einsum(formula, *map(Tensor, arrays)), np.einsum(formula, *arrays))
    floats = [array.astype(np.float64) for array in arrays]
    same(Tensor.einsum(formula, *map(Tensor, floats)), np.einsum(formula, *floats), dtypes.float64)


@pytest.mark.parametrize("formula, left, right", DOTS, ids=lambda v: v if isinstance(v, str) else "")
def test_dots_stand_for_axes_that_broadcast(formula: str, left: Any, right: Any) -> None:
    arrays = [some(dtypes.int64, shape, i) for i, shape in enumerate((left, right)) if shape is not None]
    if formula in ("...->", "...j->j"):  # NumPy wants the dots on the right too
        same(Tensor.einsum(formula, Tensor(arrays[0])), arrays[0].sum(None if formula == "...->" else 0))
        return
    same(Tensor.einsum(formula, *map(Tensor, arrays)), np.einsum(formula, *arrays))


@pytest.mark.parametrize("dtype", (*FLOATS, *INTS, dtypes.bool), ids=str)
def test_dtypes_are_those_of_dot(dtype: DType) -> None:
    x, y = some(dtype, (3, 4), 1), some(dtype, (4, 2), 2)
    found, expected = Tensor.einsum("ij,jk->ik", Tensor(x), Tensor(y)), Tensor(x) @ Tensor(y)
    assert found.dtype is expected.dtype
    np.testing.assert_array_equal(value(found), value(expected))
    assert Tensor.einsum("ij,jk->ik", Tensor(x), Tensor(y), dtype="float64").dtype is dtypes.float64


def test_sizes_of_zero_and_mixed_dtypes() -> None:
    x, y = Tensor.zeros(2, 0), Tensor.ones(0, 3, dtype="int32")
    same(Tensor.einsum("ij,jk->ik", x, y), np.zeros((2, 3)), dtypes.float32)
    same(Tensor.einsum("ii->i", Tensor.zeros(0, 0)), np.zeros(0))
    same(Tensor.einsum("ij,jk->ik", [Tensor([[1]]), Tensor([[2]])]), [[2]])


def test_the_cheapest_order_is_chosen() -> None:
    sizes = {"a": 100, "b": 2, "c": 100, "d": 2}
    chain = [frozenset("ab"), frozenset("bc"), frozenset("cd")]
    assert path(chain, frozenset("ad"), sizes) == [(1, 2), (0, 1)]  # b c d first: 400 and 400, not 20,000
    sizes = {"a": 2, "b": 100, "c": 2, "d": 100}
    assert path(chain, frozenset("ad"), sizes) == [(0, 1), (0, 1)]
    many = [frozenset((f"x{i}", f"x{i + 1}")) for i in range(12)]  # too many for the search of all orders
    assert len(path(many, frozenset(("x0", "x12")), {f"x{i}": i % 4 + 2 for i in range(13)})) == 11


def test_many_operands() -> None:
    arrays = [some(dtypes.float64, (2 + i % 2, 2 + (i + 1) % 2), i) for i in range(12)]
    letters = "abcdefghijklm"
    formula = ",".join(letters[i : i + 2] for i in range(12)) + "->am"
    found = Tensor.einsum(formula, *map(Tensor, arrays))
    same(found, np.linalg.multi_dot(arrays), ulps=200, scale=1e6)


def test_a_product_of_two_is_one_kernel() -> None:
    x, y = Tensor.ones(4, 5).contiguous().realize(), Tensor.ones(5, 6).contiguous().realize()
    GlobalCounters.reset()
    Tensor.einsum("ij,jk->ki", x, y).relu().realize()
    assert GlobalCounters.kernel_count == 1


@pytest.mark.parametrize(
    "formula, shapes, words",
    [
        ("ij,jk->ik", [(2, 3)], "has 2 terms for 1 operands"),
        ("ij->ik", [(2, 3)], "'k' stands only on the right"),
        ("ij->ii", [(2, 3)], "a letter stands twice on the right"),
        ("ij,jk->ik", [(2, 3), (4, 5)], "'j' is 3 and 4"),
        ("ii->i", [(2, 3)], "'i' is 2 and 3 in one term"),
        ("ijk->i", [(2, 3)], "is for 3 axes, not (2, 3)"),
        ("i->i", [(2, 3)], "is for 1 axes, not (2, 3)"),
        ("i1->i", [(2, 3)], "'i1' in 'i1->i' is no term"),
        ("i......->i", [(2, 3)], "is no term"),
        ("...i,...i", [(2, 3), (4, 3)], "'...' is 2 and 4"),
    ],
)
def test_wrong_formulas(formula: str, shapes: Any, words: str) -> None:
    with pytest.raises(ValueError, match="einsum: ") as caught:
        Tensor.einsum(formula, *(Tensor.ones(*shape) for shape in shapes))
    assert words in str(caught.value)


def test_einsum_needs_a_formula() -> None:
    with pytest.raises(ArgumentError, match="needs a formula and tensors"):
        Tensor.einsum(Tensor([1]), "i->i")  # type: ignore[arg-type]


@pytest.mark.parametrize("dims", [0, 1, 2, ([0, 1], [1, 0]), ([-1], [0]), (1, 1)], ids=str)
def test_tensordot(dims: Any) -> None:
    x, y = some(dtypes.int32, (3, 3), 1), some(dtypes.int32, (3, 3, 2), 2)
    same(Tensor(x).tensordot(Tensor(y), dims), np.tensordot(x, y, dims))


def test_products_of_vectors_and_matrices() -> None:
    x, y = some(dtypes.float64, (2, 3), 1), some(dtypes.float64, (4, 3), 2)
    t, u = Tensor(x), Tensor(y)
    same(t.inner(u), np.inner(x, y), ulps=8)
    same(t.inner(Tensor(2.0)), x * 2)
    same(t.vdot(u[:2]), np.vdot(x, y[:2]), ulps=8, scale=10)
    same(t.outer(u), np.outer(x, y))
    same(t.kron(u), np.kron(x, y))
    same(t[0].kron(u), np.kron(x[0], y))
    same(t.trace(), np.trace(x))
    same(t.trace(1), np.trace(x, 1))
    same(t.cross(u[1:3]), np.cross(x, y[1:3]), ulps=8, scale=10)
    same(t.T.cross(u[1:3].T, dim=0), np.cross(x.T, y[1:3].T, axis=0), ulps=8, scale=10)
    same(t.cross(u[0]), np.cross(x, y[0]), ulps=8, scale=10)
    with pytest.raises(ShapeError, match="is not 3"):
        t.cross(u, dim=0)
    with pytest.raises(ShapeError, match="tensordot: axes"):
        t.tensordot(u, 1)


NORMS = [2.0, "fro", 1, 0, np.inf, -np.inf, 3, -1, 0.5]


@pytest.mark.parametrize("p", NORMS, ids=str)
@pytest.mark.parametrize("axis", (None, 0, -1, (0, 2)), ids=str)
def test_norms(p: Any, axis: Any) -> None:
    x = some(dtypes.float64, (2, 3, 4), 1)
    power = 2.0 if p == "fro" else p
    if np.isinf(power):
        expected = (np.max if power > 0 else np.min)(np.abs(x), axis=axis)
    else:
        expected = np.sum(x != 0, axis) if power == 0 else np.sum(np.abs(x) ** power, axis=axis) ** (1 / power)
    same(Tensor(x).norm(p, axis), expected, ulps=16)
    kept = np.asarray(expected).reshape(np.sum(x, axis=axis, keepdims=True).shape)
    same(Tensor(x).norm(p, axis, keepdim=True), kept, ulps=16)


def test_norms_that_are_none() -> None:
    with pytest.raises(ArgumentError, match="there is no norm 'nuc'"):
        Tensor([[1.0]]).norm("nuc")
    with pytest.raises(ShapeError, match="norm: no elements"):
        Tensor.zeros(0).norm(np.inf)
    same(Tensor([3, 4]).norm(), 5.0, dtypes.float32)


@pytest.mark.parametrize("shape", [(4, 6), (6, 4), (2, 3, 3)], ids=str)
def test_newton_schulz_finds_the_nearest_orthogonal_matrix(shape: Any) -> None:
    x = np.random.default_rng(0).normal(size=shape)
    found = value(Tensor(x).newton_schulz(25, (1.5, -0.5)))
    u, _, v = np.linalg.svd(x, full_matrices=False)
    np.testing.assert_allclose(found, u @ v, atol=1e-6)
    one = x / (np.sqrt((x**2).sum((-2, -1), keepdims=True)) + 1e-7)
    square = one @ one.swapaxes(-1, -2)
    expected = 3.4 * one - 4.7 * square @ one + 2.0 * square @ square @ one
    np.testing.assert_allclose(value(Tensor(x).newton_schulz(1, (3.4, -4.7, 2.0))), expected, rtol=1e-9, atol=1e-12)
    with pytest.raises(ShapeError, match="newton_schulz"):
        Tensor([1.0]).newton_schulz(1, (1.0,))


def test_half_is_summed_in_float() -> None:
    x = some(dtypes.float16, (1, 500), 1)
    same(Tensor.einsum("ij,kj->ik", Tensor(x), Tensor(x)), wide(x) @ wide(x).T, dtypes.float16, ulps=0.51)
