"""copy, deepcopy and pickle give tensors of their own: what is written to one is not seen in the other."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensor.check import same
from whit import Tensor, dtypes
from whit.errors import NotSupportedError

COPIES: list[Callable[[Any], Any]] = [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
IDS = ["copy", "deepcopy", "pickle"]


@pytest.mark.parametrize("make", COPIES, ids=IDS)
@pytest.mark.parametrize("kind", ["realised", "lazy", "view", "written", "constant"])
def test_writes_to_a_copy_and_its_original_are_apart(make: Callable[[Any], Any], kind: str) -> None:
    base = Tensor([1.0, 2.0, 3.0, 4.0])
    made = {"realised": base, "lazy": base * 2, "view": base[1:], "written": base, "constant": Tensor.ones(3)}
    x = made[kind]
    if kind == "written":
        view = base[:2]
        base[0] = 5.0
        assert view.tolist() == [5.0, 2.0]
    before = x.tolist()
    y = make(x)
    assert type(y) is Tensor
    x[1] = 70.0
    assert y.tolist() == before
    y[0] = 90.0
    assert y.tolist() == [90.0, *before[1:]]
    assert x.tolist() == [before[0], 70.0, *before[2:]]


@pytest.mark.parametrize("make", COPIES, ids=IDS)
@pytest.mark.parametrize("dtype", [d.name for d in (dtypes.bool, dtypes.int8, dtypes.uint64, dtypes.float16)])
@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (2, 3)], ids=str)
def test_copies_have_the_elements(make: Callable[[Any], Any], dtype: str, shape: tuple[int, ...]) -> None:
    x = Tensor.arange(int(np.prod(shape))).reshape(shape).cast(dtype)
    y = make(x)
    assert (y.shape, y.dtype, y.device) == (x.shape, x.dtype, x.device)
    same(y, x.numpy())


@pytest.mark.slow
@pytest.mark.parametrize("make", COPIES, ids=IDS)
@pytest.mark.parametrize("dtype", [d.name for d in (dtypes.bfloat16, dtypes.fp8e4m3, dtypes.fp8e5m2fnuz)])
def test_copies_of_formats_that_numpy_does_not_know(make: Callable[[Any], Any], dtype: str) -> None:
    y = make(Tensor([1.5, -2.0]).cast(dtype))
    assert (y.dtype.name, y.float().tolist()) == (dtype, [1.5, -2.0])


@pytest.mark.parametrize("make", COPIES, ids=IDS)
def test_a_copy_stays_on_its_device(make: Callable[[Any], Any]) -> None:
    assert make(Tensor([1], device="PYTHON")).device == "PYTHON"


@pytest.mark.parametrize("make", COPIES, ids=IDS)
def test_gradients_end_at_a_copy(make: Callable[[Any], Any]) -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    y = make(x * 3)
    assert y.requires_grad is None
    (y * y).sum().backward()
    assert y.grad.tolist() == [6.0, 12.0]
    assert x.grad is None
    assert make(x).requires_grad is True
    assert make(Tensor([1.0], requires_grad=False)).requires_grad is False


def test_a_deep_copy_has_a_copy_of_the_gradient() -> None:
    x = Tensor([1.0, 2.0])
    (x * x).sum().backward()
    y = copy.deepcopy(x)
    y.grad[0] = 9.0
    assert x.grad.tolist() == [2.0, 4.0]
    assert y.grad.tolist() == [9.0, 4.0]


def test_what_is_shared_in_a_structure_is_shared_in_its_deep_copy() -> None:
    x = Tensor([1.0])
    found: Any = copy.deepcopy([x, (x,)])
    first, (second,) = found
    assert first is second is not x


def test_tensors_in_files(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    x = Tensor(path)
    assert copy.deepcopy(x)[1:].tolist() == [98, 99]
    assert copy.copy(x).device == x.device
    with pytest.raises(NotSupportedError, match=r"pickle: a tensor of DISK:(.|\n)*to\(\"CPU\"\)"):
        pickle.dumps(x)
