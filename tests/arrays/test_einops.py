"""einops on tensors, by the standard's functions and by its own registration of frameworks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from whit import Tensor

einops = pytest.importorskip("einops")
array_api = pytest.importorskip("einops.array_api")
pytest.importorskip("whit.numpy.einops")

X = np.arange(24.0, dtype="float32").reshape(2, 3, 4)
CALLS: list[tuple[str, tuple[Any, ...], dict[str, int]]] = [
    ("rearrange", (X, "a b c -> (a c) b"), {}),
    ("rearrange", (X, "a b (c d) -> d (b a) c"), {"d": 2}),
    ("reduce", (X, "a b c -> b", "sum"), {}),
    ("reduce", (X, "a b c -> b 1", "mean"), {}),
    ("reduce", (X, "a b (c d) -> a c", "max"), {"d": 2}),
    ("reduce", (X, "a b c -> () b ()", "prod"), {}),
    ("reduce", (X > 3, "a b c -> a", "any"), {}),
    ("repeat", (X, "a b c -> a r b (c s)"), {"r": 2, "s": 3}),
    ("pack", ([X, X[:, 0]], "a * c"), {}),
    ("unpack", (X, [(1,), (2,)], "a * c"), {}),
]


def same(mine: Any, other: Any) -> None:
    if isinstance(other, tuple | list):
        assert len(mine) == len(other)
        for left, right in zip(mine, other, strict=True):
            same(left, right)
    elif isinstance(other, np.ndarray):
        assert isinstance(mine, Tensor)
        assert mine.shape == other.shape
        np.testing.assert_array_equal(mine.numpy(), other)
    else:
        assert mine == other


@pytest.mark.parametrize(("name", "given", "sizes"), CALLS)
def test_functions(name: str, given: Any, sizes: dict[str, int]) -> None:
    first, *rest = given
    tensors = [Tensor(each) for each in first] if isinstance(first, list) else Tensor(first)
    expected = getattr(einops, name)(first, *rest, **sizes)
    same(getattr(einops, name)(tensors, *rest, **sizes), expected)
    same(getattr(array_api, name)(tensors, *rest, **sizes), expected)


def test_what_only_einops_itself_has() -> None:
    x = Tensor(X)
    same(einops.einsum(x, x, "a b c, a d c -> a b d"), einops.einsum(X, X, "a b c, a d c -> a b d"))
    same(einops.rearrange([x, x], "k a b c -> k b a c"), einops.rearrange([X, X], "k a b c -> k b a c"))
    assert isinstance(einops.asnumpy(x), np.ndarray)
    assert einops.parse_shape(x, "a b _") == {"a": 2, "b": 3}


def test_a_pattern_that_does_not_fit_is_an_error_of_einops() -> None:
    with pytest.raises(einops.EinopsError, match="Wrong shape"):
        einops.rearrange(Tensor(X), "a b -> b a")
    with pytest.raises(NotImplementedError, match="non-floating"):
        einops.reduce(Tensor([1, 2, 3]), "a -> 1", "mean")


def test_gradients_go_through() -> None:
    x = Tensor(X)
    (found,) = einops.reduce(einops.rearrange(x * x, "a b c -> b (a c)"), "b k -> b", "sum").sum().gradient(x)
    np.testing.assert_allclose(found.numpy(), 2 * X)
