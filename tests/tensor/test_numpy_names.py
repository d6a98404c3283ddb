"""Functions of NumPy that are methods of Tensor: each call of docs/names/numpy.txt, in every dtype that NumPy takes."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensor.samples import FLOAT_ONLY, POSITIONS, SAMPLES
from tensor.test_pytorch_names import Samples, assert_same, cast, is_left_out
from whit import Tensor
from whit.dtype import dtypes

sys.path.append(str(Path(__file__).parents[2] / "docs"))
from names_of_others import MISSING, SAME, Name, coverage, read  # a module of the documentation

pytestmark = pytest.mark.slow

NAMES = read("numpy")
TRIED = [name for name in NAMES if name.kind == SAME]
DTYPES = ("float32", "float64", "float16", "int32", "int64", "uint8", "bool")
# Functions whose first argument is not the array that the method is called on.
TURNED = {"extract": (1, 0), "compress": (1, 0)}
CONSTRUCTORS = {"geomspace", "identity", "indices", "linspace", "logspace", "ones", "zeros", "tri"}
CONSTRUCTORS |= {"bartlett", "blackman", "hamming", "hanning", "kaiser", "tril_indices", "triu_indices"}


def numpy_samples(dtype: str) -> Samples:
    def make(value: Any, name: str) -> Any:
        array = np.asarray(cast(name, value, dtype))
        return array if name in POSITIONS else array.astype(np.bool_ if dtype == "bool" else dtype)

    samples = Samples(make, dtype)
    samples["float64"] = np.float64
    return samples


def whit_samples(dtype: str) -> Samples:
    def make(value: Any, name: str) -> Tensor:
        array = np.asarray(cast(name, value, dtype))
        return Tensor(array if name in POSITIONS else array.astype(np.bool_ if dtype == "bool" else dtype))

    samples = Samples(make, dtype)
    samples["float64"] = dtypes.float64
    return samples


def given_to(name: Name, samples: Samples) -> tuple[list[Any], dict[str, Any]]:
    given, keywords = eval(f"(lambda *args, **keywords: (args, keywords))({name.arguments})", {}, samples)
    return list(given), keywords


def theirs_of(name: Name, dtype: str) -> Any:
    given, keywords = given_to(name, numpy_samples(dtype))
    function = getattr(np, name.name, None)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return function(*given, **keywords) if function else getattr(given[0], name.name)(*given[1:], **keywords)


def ours_of(name: Name, dtype: str) -> Any:
    given, keywords = given_to(name, whit_samples(dtype))
    if name.name in ("tril_indices", "triu_indices"):  # NumPy's second argument is the diagonal
        given = [given[0], given[2], given[1]]
    if name.name in TURNED:
        first, second = TURNED[name.name]
        given[:2] = [given[first], given[second]]
    function = getattr(Tensor, name.name)
    found = function(*given, **keywords)
    return tuple(found) if name.name.startswith(("tril_ind", "triu_ind")) else found


@pytest.mark.parametrize("name", TRIED, ids=lambda name: name.name)
def test_values_are_those_of_numpy(name: Name) -> None:
    tried = []
    for dtype in DTYPES[:1] if name.name in CONSTRUCTORS else DTYPES:
        if is_left_out(name, dtype):
            continue
        try:
            theirs = theirs_of(name, dtype)
        except (TypeError, ValueError, IndexError, OverflowError):
            continue  # NumPy does not take this dtype
        assert_same(ours_of(name, dtype), theirs, dtype)
        tried.append(dtype)
    assert tried


def test_the_list_says_what_is_here() -> None:
    for name in NAMES:
        if name.is_here:
            assert hasattr(Tensor, name.name), name.name
        if name.kind == MISSING:
            assert not hasattr(Tensor, name.name), name.name
    here, sensible = coverage(NAMES)
    assert here / sensible >= 0.97
    assert set(FLOAT_ONLY) <= set(SAMPLES)
