"""NumPy's functions as functions: each call of docs/names/numpy.txt, and those whose methods mean something else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tensor.test_numpy_names import CONSTRUCTORS, DTYPES, TRIED, given_to, numpy_samples, theirs_of, whit_samples
from tensor.test_pytorch_names import assert_same, is_left_out

import whit.numpy as xp

pytestmark = pytest.mark.slow

FUNCTIONS = [name for name in TRIED if hasattr(np, name.name) and name.name != "unstack"]


@pytest.mark.parametrize("name", FUNCTIONS, ids=lambda name: name.name)
def test_function_gives_what_numpy_gives(name: Any) -> None:
    function = getattr(xp, name.name)
    tried = []
    for dtype in DTYPES[:1] if name.name in CONSTRUCTORS else ("float32", "int32"):
        if is_left_out(name, dtype):
            continue
        try:
            theirs = theirs_of(name, dtype)
        except (TypeError, ValueError, IndexError, OverflowError):
            continue  # NumPy does not take this dtype
        given, keywords = given_to(name, whit_samples(dtype))
        mine = function(*given, **keywords)
        assert_same(tuple(mine) if isinstance(theirs, tuple) else mine, theirs, dtype)
        given, keywords = given_to(name, numpy_samples(dtype))
        keywords = {key: "float64" if value is np.float64 else value for key, value in keywords.items()}
        assert_same(function(*given, **keywords), theirs, dtype)  # arrays of NumPy are taken, too
        tried.append(dtype)
        break  # dtypes are a matter of the methods
    assert tried


X = np.array([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]], "float32")
HOLED = np.array([[3.0, np.nan, 2.0, 7.0], [np.nan, 5.0, 4.0, 1.0]], "float32")


@pytest.mark.parametrize(
    ("name", "args", "keywords"),
    [
        ("argsort", (X,), {"axis": None}),
        ("array", ([[1.0, 2.0]],), {}),
        ("atleast_2d", (X[0],), {}),
        ("block", ([[X, X], [X, X]],), {}),
        ("broadcast_shapes", ((2, 1), (3,)), {}),
        ("compress", ([True, False, True], X, 1), {}),
        ("cumsum", (X,), {}),
        ("cumprod", (X, 1), {}),
        ("equal", (X, X), {}),
        ("extract", (X > 1, X), {}),
        ("fromiter", ([1.0, 2.0], "float32"), {}),
        ("linalg.cond", (np.eye(2, dtype="float32"),), {}),
        ("linalg.norm", (X,), {}),
        ("linalg.norm", (X, 1), {"axis": (0, 1), "keepdims": True}),
        ("linalg.norm", (X, 1, 0), {}),
        ("linalg.multi_dot", ([X, X.T, X],), {}),
        ("median", (X,), {}),
        ("median", (X, 1), {"keepdims": True}),
        ("meshgrid", (X[0], X[1]), {}),
        ("nanmedian", (HOLED, 1), {}),
        ("ndim", (X,), {}),
        ("nonzero", (X,), {}),
        ("repeat", (X, 2), {}),
        ("repeat", (X, [1, 0, 2], 1), {}),
        ("shape", (X,), {}),
        ("size", (X,), {}),
        ("size", (X, 1), {}),
        ("sort", (X,), {"axis": None}),
        ("sort", (X, 0), {}),
        ("split", (X, 3, 1), {}),
        ("split", (X, [1, 2], 1), {}),
        ("squeeze", (X[:1],), {}),
        ("std", (X, 0), {}),
        ("std", (X,), {"ddof": 1}),
        ("take_along_axis", (X, np.array([1, 0, 3]), None), {}),
        ("transpose", (X,), {}),
        ("transpose", (X[None], (1, 0, 2)), {}),
        ("unique", (X.astype("int32"),), {"return_index": True, "return_counts": True}),
        ("var", (X, 1), {}),
        ("where", (X > 1,), {}),
    ],
)
def test_functions_whose_methods_mean_something_else(name: str, args: Any, keywords: dict[str, Any]) -> None:
    mine: Any = xp
    theirs: Any = np
    for part in name.split("."):
        mine, theirs = getattr(mine, part), getattr(theirs, part)
    expected = theirs(*args, **keywords)
    assert_same(mine(*args, **keywords), list(expected) if isinstance(expected, list) else expected, "float32")


def test_the_largest_of_two_rows_can_be_unpacked() -> None:
    first, second = xp.max(xp.asarray([[1.0, 2.0], [4.0, 3.0]]), axis=1)
    assert (first.item(), second.item()) == (2.0, 4.0)


def test_indices_of_triangles_are_rows_as_in_numpy() -> None:
    for name in ("tril_indices", "triu_indices"):
        for mine, theirs in zip(getattr(xp, name)(3, 1, 4), getattr(np, name)(3, 1, 4), strict=True):
            assert mine.tolist() == theirs.tolist()


def test_joining_takes_lists_of_lists() -> None:
    assert xp.concat([[1, 2], [3]]).tolist() == [1, 2, 3]
    assert xp.vstack(([1, 2], [3, 4])).tolist() == [[1, 2], [3, 4]]
    assert xp.add([1, 2], 3).tolist() == [4, 5]
    assert xp.sin(0.0).item() == 0.0
    assert xp.dtype("float32") is xp.float32
