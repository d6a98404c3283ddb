"""Methods of torch.Tensor that Tensor has: each call of docs/names/pytorch.txt, in every dtype that PyTorch takes.

Values are compared, kinds of dtypes, gradients of floats; of methods that write, also the tensor that was written to.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensor.samples import FLOAT_ONLY, POSITIONS, SAMPLES
from whit import Tensor
from whit.dtype import dtypes

sys.path.append(str(Path(__file__).parents[2] / "docs"))
from names_of_others import MISSING, NOT_HERE, SAME, coverage, read  # a module of the documentation

NAMES = read("pytorch")
TRIED = [name for name in NAMES if name.kind == SAME]
DTYPES = ("float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8", "bool")
TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float64": 1e-9}
PROPERTIES = {"T", "H", "mH", "itemsize", "ndim", "is_cpu", "is_cuda"}
ABOUT_DEVICES = {"is_cpu", "is_cuda", "get_device"}  # PyTorch's tensors are on the CPU


def is_left_out(name: Any, dtype: str) -> bool:
    """Words that begin with dtypes say what is different in these."""
    dtypes_named, colon, _ = name.words.partition(": ")
    return bool(colon) and dtype in dtypes_named.split(", ")


def cast(name: str, value: Any, dtype: str) -> Any:
    """A sample in a dtype."""
    if name in POSITIONS:
        return value
    if dtype == "uint8":
        value = np.abs(value)
    return value


class Samples(dict[str, Any]):
    """The samples as tensors of one library; those that were used are kept."""

    def __init__(self, make: Any, dtype: str) -> None:
        super().__init__()
        self.make, self.dtype = make, dtype

    def __missing__(self, name: str) -> Any:
        if name in ("float64", "float32"):
            raise KeyError(name)
        if name not in SAMPLES:
            raise KeyError(name)
        if name in FLOAT_ONLY and not self.dtype.startswith(("float", "bfloat")):
            raise TypeError(name)
        self[name] = self.make(cast(name, SAMPLES[name], self.dtype), name)
        return self[name]


def torch_samples(torch: Any, dtype: str) -> Samples:
    def make(value: Any, name: str) -> Any:
        tensor = torch.tensor(value)
        return tensor if name in POSITIONS else tensor.to(getattr(torch, dtype))

    samples = Samples(make, dtype)
    samples["float64"] = torch.float64
    return samples


def whit_samples(dtype: str, device: str | None = None) -> Samples:
    def make(value: Any, name: str) -> Tensor:
        tensor = Tensor(value, device=device)
        return tensor if name in POSITIONS else tensor.cast(dtype)

    samples = Samples(make, dtype)
    samples["float64"] = dtypes.float64
    return samples


def called(name: str, arguments: str, samples: Samples) -> tuple[Any, Any]:
    """The result of a call, and the tensor that it was called on."""
    given, keywords = eval(f"(lambda *args, **keywords: (args, keywords))({arguments})", {}, samples)
    first, *rest = given
    if name.endswith("_"):
        first = first.clone()
    found = getattr(first, name)
    return (found if name in PROPERTIES or not callable(found) else found(*rest, **keywords)), first


def kind_of(array: Any) -> str:
    return "i" if array.dtype.kind == "u" else str(array.dtype.kind)


def array_of(value: Any) -> Any:
    if isinstance(value, Tensor):
        return (value.float() if value.dtype is dtypes.bfloat16 else value).numpy()
    if hasattr(value, "detach"):
        value = value.detach().resolve_neg()
        return (value.float() if "bfloat16" in str(value.dtype) else value).numpy(force=True)
    return np.asarray(value)


def assert_same(ours: Any, theirs: Any, dtype: str) -> None:
    if isinstance(theirs, tuple | list) and not all(isinstance(part, int | float) for part in theirs):
        assert isinstance(ours, tuple | list) and len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other, dtype)
        return
    found, expected = array_of(ours), array_of(theirs)
    assert found.shape == expected.shape
    if isinstance(ours, Tensor):
        assert kind_of(found) == kind_of(expected)
    if kind_of(expected) == "U":
        assert found == expected
        return
    tolerance = 4e-3 if expected.dtype == np.float16 else TOLERANCE.get(dtype, 2e-5)
    both = (array.astype(np.float64) for array in (found, expected))
    np.testing.assert_allclose(*both, rtol=tolerance, atol=tolerance)


def floats_in(value: Any) -> list[Any]:
    parts = value if isinstance(value, tuple | list) else [value]
    return [part for part in parts if hasattr(part, "is_floating_point") and part.is_floating_point()]


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.mark.parametrize("name", TRIED, ids=lambda name: name.name)
def test_values_are_those_of_pytorch(name: Any, torch: Any) -> None:
    tried = []
    for dtype in DTYPES:
        if is_left_out(name, dtype):
            continue
        try:
            theirs, their_self = called(name.name, name.arguments, torch_samples(torch, dtype))
        except (RuntimeError, TypeError, NotImplementedError, ValueError, IndexError):
            continue  # PyTorch does not take this dtype
        device = "CPU" if name.name in ABOUT_DEVICES else None
        ours, our_self = called(name.name, name.arguments, whit_samples(dtype, device))
        assert_same(ours, theirs, dtype)
        if name.name.endswith("_"):
            assert ours is our_self
            assert_same(our_self, their_self, dtype)
        tried.append(dtype)
    assert tried


@pytest.mark.parametrize("name", [name for name in TRIED if not name.name.endswith("_")], ids=lambda name: name.name)
def test_gradients_are_those_of_pytorch(name: Any, torch: Any) -> None:
    if "gradient" in name.words:
        pytest.skip(name.words)
    theirs, ours = torch_samples(torch, "float64"), whit_samples("float64")
    try:
        eval(f"(lambda *args, **keywords: None)({name.arguments})", {}, theirs)
        for tensor in theirs.values():
            if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
                tensor.requires_grad_()
        result, _ = called(name.name, name.arguments, theirs)
    except (RuntimeError, TypeError, NotImplementedError):
        pytest.skip("PyTorch takes no floats")
    parts = [part for part in floats_in(result) if part.requires_grad]
    if not parts:
        pytest.skip("PyTorch has no gradient")
    weights = [np.random.default_rng(i).uniform(0.5, 1.5, tuple(part.shape)) for i, part in enumerate(parts)]
    total: Any = sum((part * torch.tensor(weight)).sum() for part, weight in zip(parts, weights, strict=True))
    try:
        total.backward()
    except (RuntimeError, NotImplementedError):
        pytest.skip("PyTorch has no gradient")
    mine, _ = called(name.name, name.arguments, ours)
    loss = sum(
        (part * Tensor(weight, device=part.device)).sum()
        for part, weight in zip(floats_in(mine), weights, strict=False)
    )
    assert isinstance(loss, Tensor)
    for key, tensor in theirs.items():
        if isinstance(tensor, torch.Tensor) and tensor.grad is not None:
            (gradient,) = loss.gradient(ours[key])
            assert_same(gradient, tensor.grad, "float64")


def test_the_list_is_complete(torch: Any) -> None:
    if not torch.__version__.startswith("2.13"):
        pytest.skip("the list is of PyTorch 2.13")
    public = {name for name in dir(torch.Tensor) if not name.startswith("_")}
    assert public == {name.name for name in NAMES}


def test_the_list_says_what_is_here() -> None:
    for name in NAMES:
        if name.is_here:
            assert hasattr(Tensor, name.name), name.name
        if name.kind == MISSING:
            assert not hasattr(Tensor, name.name), name.name
    here, sensible = coverage(NAMES)
    assert here / sensible >= 0.97
    assert NOT_HERE in {name.kind for name in NAMES}
