"""Names that programs for tinygrad use, and what they mean here."""

from __future__ import annotations

import hashlib
import importlib
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whit
from whit import Context, Device, Tensor, Variable
from whit.config import DEBUG, ContextVar
from whit.dtype import dtypes
from whit.errors import ArgumentError, ShapeError
from whit.helpers import diskcache, profile_marker
from whit.uop.ops import UOp, resolve, sint

sys.path.append(str(Path(__file__).parents[2] / "docs"))
from names_of_others import NOT_HERE, coverage, read  # a module of the documentation

NAMES = read("tinygrad")


def found(path: str) -> Any:
    """What a path of names leads to."""
    first, *rest = path.replace('["CPU"]', ".CPU").split(".")
    place: Any = {"Tensor": Tensor, "dtypes": dtypes, "Device": Device, "GlobalCounters": whit.GlobalCounters}.get(
        first
    )
    if place is None:
        modules = [".".join([first, *rest[:end]]) for end in range(len(rest), -1, -1)]
        for end, module in zip(range(len(rest), -1, -1), modules, strict=True):
            try:
                place, rest = importlib.import_module(module), rest[end:]
                break
            except ImportError:
                continue
    for name in rest:
        place = place[name] if name == "CPU" else getattr(place, name)
    return place


@pytest.mark.parametrize("name", NAMES, ids=lambda name: name.name)
def test_the_list_says_what_is_here(name: Any) -> None:
    if name.is_here:
        found(name.name)
    else:
        with pytest.raises((AttributeError, ImportError)):
            found(name.name)


def test_nearly_all_are_here() -> None:
    here, sensible = coverage(NAMES)
    assert here / sensible >= 0.97
    assert NOT_HERE in {name.kind for name in NAMES}


def test_every_name_of_the_api_is_in_the_reference() -> None:
    reference = (Path(__file__).parents[2] / "docs" / "reference" / "tensor.md").read_text()
    assert all(f"### `{name}`" in reference for name in ("shrink_to", "keccak", "const", "is_param_"))


def test_windows_from_the_start() -> None:
    x = Tensor(np.arange(6.0).reshape(2, 3))
    assert x.shrink_to(1, None).tolist() == [[0.0, 1.0, 2.0]]
    assert x.shrink_to((2, 2)).pad_to(None, 4).tolist() == [[0.0, 1.0, 0.0, 0.0], [3.0, 4.0, 0.0, 0.0]]
    with pytest.raises(ShapeError, match=r"pad_to: \(2, 3\) does not grow to \(2, 2\)"):
        x.pad_to(2, 2)
    n = Variable("n", 1, 5).bind(3)
    assert Tensor(np.zeros(5))[:n].max_shape == (5,)


def test_digests() -> None:
    rows = np.arange(20, dtype=np.uint8).reshape(2, 10)
    for kind in ("sha3_224", "sha3_256", "sha3_512"):
        wanted = [list(hashlib.new(kind, row.tobytes()).digest()) for row in rows]
        assert Tensor(rows).keccak(kind).tolist() == wanted
    assert Tensor(b"abc").keccak((136, 6)).tolist() == list(hashlib.sha3_256(b"abc").digest())
    assert Tensor(b"abc").hash().tolist() == list(hashlib.shake_128(b"abc").digest(16))
    with pytest.raises(ArgumentError, match="keccak: there is no 'md5'"):
        Tensor(b"abc").keccak("md5")


def test_parameters_say_so() -> None:
    x = Tensor([1.0])
    assert not x.is_param and x.is_param_() is x and x.is_param and x.requires_grad


def test_a_schedule_is_a_list_of_calls() -> None:
    x = Tensor([1.0, 2.0])
    assert len((x * 2).schedule_linear().src) == 1
    assert len((x * 2).schedule_linear(x.sum()).src) == 2
    assert (x * 2).schedule_linear().op.name == "linear"


def test_settings() -> None:
    with Context(DEFAULT_FLOAT=dtypes.float16):  # type: ignore[arg-type]
        assert Tensor([1.5]).dtype is dtypes.float16
    with pytest.warns(UserWarning, match='there is no setting "DEBGU". Did you mean "DEBUG"'):
        context = Context(DEBGU=1)
    with context:
        assert DEBUG.value == 0
    with Context(DEBUG=1):
        DEBUG.value = 0
        assert ContextVar("DEBUG", 0).value == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Context(DEBUG=1)


def test_dtypes_are_ordered() -> None:
    assert dtypes.bool < dtypes.int8 < dtypes.uint8 < dtypes.int64 < dtypes.float16 < dtypes.float32
    assert sorted([dtypes.float32, dtypes.int8]) == [dtypes.int8, dtypes.float32]
    assert dtypes.int8 <= dtypes.int8 and dtypes.float32 > dtypes.float16
    assert dtypes.fp8_fnuz + dtypes.fp8_ocp != dtypes.fp8s and set(dtypes.fp8_fnuz + dtypes.fp8_ocp) == set(dtypes.fp8s)


def test_devices() -> None:
    assert Device.default is Device[Device.DEFAULT]
    assert {"CPU", "PYTHON", "NULL"} <= set(Device.get_available_devices())
    assert dtypes.bfloat16 in Device["CPU"].renderer.supported_dtypes()


def test_sizes() -> None:
    n = Variable("n", 1, 5)
    assert resolve(n < 9) and not resolve(n > 9) and resolve(n < 3) and not resolve(n < 3, False)
    assert resolve(True) and isinstance(n, sint) and isinstance(n, UOp)
    for node in (n, n.bind(2), n + 1):
        assert not [name for name in ("size", "sizes", "member", "numpy", "nonsense") if hasattr(node, name)]


def test_a_disk_cache_keeps_results(tmp_path: Path) -> None:
    calls = []

    def square(x: int, add: int = 0) -> int:
        calls.append(x)
        return x * x + add

    with Context(CACHE_DIR=str(tmp_path), CACHE=1):
        cached = diskcache(square)
        assert [cached(3), cached(3), cached(3, add=1)] == [9, 9, 10]
        assert calls == [3, 3]
    profile_marker("nobody records")


def test_bytes_are_a_tensor() -> None:
    assert Tensor(b"abc").tolist() == [97, 98, 99]
