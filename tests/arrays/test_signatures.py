"""Names and signatures are those of the standard, and so is what the namespace says about itself."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

import whit
import whit.numpy as xp
from arrays.strict import ALL, COMPLEX, FLOATS, INTEGERS, strict
from whit import Tensor

LATER = {"broadcast_shapes", "isin"}  # of the next version of the standard; here anyway
OWN = {"get_array_api_strict_flags", "set_array_api_strict_flags", "reset_array_api_strict_flags"}
HELPERS = {"device_supports_dtype", "normalize_axis_tuple", "requires_api_version", "requires_extension"}
KEYWORD, EITHER = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD


def functions_of(namespace: Any) -> dict[str, Any]:
    """The functions that the standard has in a namespace, by name."""
    names = [name for name in dir(namespace) if not name.startswith("_") and name not in OWN | HELPERS]
    found = {name: getattr(namespace, name) for name in names}
    return {name: each for name, each in found.items() if inspect.isfunction(each)}


FUNCTIONS = {name: (xp, each) for name, each in functions_of(strict).items()}
FUNCTIONS |= {f"linalg.{name}": (xp.linalg, getattr(strict.linalg, name)) for name in strict.linalg.__all__}
FUNCTIONS |= {f"fft.{name}": (xp.fft, getattr(strict.fft, name)) for name in strict.fft.__all__}
FUNCTIONS = {name: each for name, each in FUNCTIONS.items() if name not in ("linalg.eig", "linalg.eigvals")}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_signature(name: str) -> None:
    namespace, other = FUNCTIONS[name]
    if name in LATER and not hasattr(namespace, name):
        return
    mine = inspect.signature(getattr(namespace, name.rpartition(".")[2]))
    parameters = list(mine.parameters.values())
    expected = list(inspect.signature(other).parameters.values())
    by_place = [each for each in expected if each.kind is not KEYWORD]
    for here, there in zip(parameters, by_place, strict=False):
        if there.kind is EITHER:
            assert here.name == there.name
        if there.kind in (EITHER, inspect.Parameter.VAR_POSITIONAL):
            assert here.kind is there.kind
        assert here.default == there.default or name in ("expand_dims", "squeeze", "linspace", "where")
    assert len(parameters) >= len(by_place)
    for there in expected[len(by_place) :]:
        assert mine.parameters[there.name].kind in (KEYWORD, EITHER)
        is_undefined = type(there.default).__name__ == "Undef"
        assert is_undefined or mine.parameters[there.name].default == there.default


def test_every_function_says_what_it_does() -> None:
    for name in xp.__all__:
        found = getattr(xp, name)
        if inspect.isfunction(found):
            assert found.__doc__, name
            assert found.__name__ in (name, "to_dtype", "namespace_info", "concat"), name


def test_arrays_have_the_attributes_of_the_standard() -> None:
    x = xp.ones((2, 3))
    for name in dir(strict.ones((2, 3))):
        if not name.startswith("_") or name.startswith("__"):
            assert hasattr(x, name) or name in ("__buffer__", "__dict__", "__weakref__"), name
    assert x.size == 6
    assert type(x.size + 1) is int
    assert x.size() == (2, 3)
    assert x.size(-1) == x.size(axis=1) == 3
    assert x.mT.shape == x.T.shape == (3, 2)
    assert x.ndim == 2
    assert x.to_device(x.device) is x
    assert x.__array_namespace__() is x.__array_namespace__(api_version="2024.12") is xp is whit.numpy
    assert xp.__array_api_version__ == "2024.12"


def test_a_size_that_depends_on_a_variable_is_no_number() -> None:
    n = whit.Variable("n", 1, 4)
    x = xp.ones((4, 2))[: n.bind(3)]
    assert x.size(1) == 2
    assert not isinstance(x.size, int)


def test_constants() -> None:
    for name in ("e", "inf", "pi"):
        assert getattr(xp, name) == getattr(strict, name)
    assert xp.nan != xp.nan
    assert xp.newaxis is None


def test_questions_about_the_namespace() -> None:
    info = xp.__array_namespace_info__()
    assert info.capabilities() == {
        "boolean indexing": True,
        "data-dependent shapes": True,
        "max dimensions": None,
    }
    assert info.default_device() in info.devices()
    defaults = info.default_dtypes()
    assert defaults["real floating"] is xp.asarray(1.0).dtype
    assert defaults["integral"] is xp.asarray(1).dtype
    assert defaults["indexing"] is xp.argmax(xp.ones(3)).dtype
    assert tuple(sorted(info.dtypes())) == tuple(sorted(ALL))
    theirs = strict.__array_namespace_info__()
    kinds = ("bool", "signed integer", "unsigned integer", "integral", "real floating", "numeric", ("bool", "integral"))
    for kind in kinds:
        expected = {name for name in theirs.dtypes(kind=kind) if name in ALL}
        assert set(info.dtypes(kind=kind)) == expected
    with pytest.raises(ValueError, match="no kind 'float'"):
        info.dtypes(kind="float")
    with pytest.raises(ValueError, match="no device"):
        info.dtypes(device="TPU")


@pytest.mark.parametrize("name", FLOATS + COMPLEX)
def test_limits_of_floats(name: str) -> None:
    mine, other = xp.finfo(getattr(xp, name)), strict.finfo(getattr(strict, name))
    for field in ("bits", "eps", "max", "min", "smallest_normal"):
        assert getattr(mine, field) == getattr(other, field), field
    assert mine == xp.finfo(xp.ones(1, dtype=getattr(xp, name)))
    assert mine.dtype.name == str(other.dtype).rpartition(".")[2]


@pytest.mark.parametrize("name", INTEGERS)
def test_limits_of_integers(name: str) -> None:
    mine, other = xp.iinfo(getattr(xp, name)), strict.iinfo(getattr(strict, name))
    assert (mine.bits, mine.max, mine.min) == (other.bits, other.max, other.min)
    assert xp.iinfo(xp.ones(1, dtype=mine.dtype)) == mine


def test_dtypes_are_asked() -> None:
    for first in ALL:
        for second in ALL:
            left, right = getattr(xp, first), getattr(xp, second)
            try:
                expected = strict.result_type(getattr(strict, first), getattr(strict, second))
            except TypeError:
                continue
            assert xp.result_type(left, right) is getattr(xp, str(expected).rpartition(".")[2])
            can = strict.can_cast(getattr(strict, first), getattr(strict, second))
            assert xp.can_cast(left, right) or not can
    assert xp.result_type(xp.float32, 1) is xp.result_type(1.5, xp.ones(1, dtype=xp.float32)) is xp.float32
    assert xp.can_cast(xp.ones(1, dtype=xp.int8), xp.int16)
    assert not xp.can_cast(xp.int64, xp.int8)
    assert not xp.can_cast(xp.float64, xp.float32)
    assert xp.isdtype(xp.float32, ("integral", xp.float32))
    assert not xp.isdtype(xp.bool, "numeric")


def test_wrong_questions_are_errors() -> None:
    x = xp.ones(2)
    with pytest.raises(ValueError, match="no version '2019"):
        x.__array_namespace__(api_version="2019.12")
    with pytest.raises(TypeError, match="no float dtype"):
        xp.finfo(xp.int8)
    with pytest.raises(TypeError, match="no integer dtype"):
        xp.iinfo(xp.float32)
    with pytest.raises(ValueError, match="nothing is given"):
        xp.result_type()
    with pytest.raises(ValueError, match="no kind 'real'"):
        xp.isdtype(xp.float32, "real")
    with pytest.raises(ValueError, match="stream"):
        x.to_device("CPU", stream=1)
    with pytest.raises(IndexError, match="no axis 3"):
        x.size(3)
    assert Tensor is xp.ndarray


def test_the_list_of_the_documentation_is_whole() -> None:
    lines = (Path(__file__).parents[2] / "docs" / "names" / "arrayapi.txt").read_text().splitlines()
    listed = {line.partition(":")[0] for line in lines if not line.startswith("#")}
    assert {name for name in FUNCTIONS if name not in LATER} <= listed
    for name in listed:
        owner, _, last = name.rpartition(".")
        has_it: Any = {"": xp, "dtype": xp, "array": xp.ones((1, 1))}.get(owner)
        assert hasattr(getattr(xp, owner) if has_it is None else has_it, last), name


def test_libraries_find_the_namespace() -> None:
    compat = pytest.importorskip("array_api_compat")
    x = xp.ones((2, 3))
    assert compat.is_array_api_obj(x)
    assert compat.array_namespace(x, xp.ones(1)) is xp
    assert compat.size(x) == 6
    assert compat.device(x) == x.device
    assert compat.to_device(x, x.device) is x
