"""Axes and what stays of them by the keywords of every library, in every method that has them."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from whit import Tensor

X = Tensor([[1.0, 2.0], [3.0, 5.0]])


def methods_with(*names: str) -> list[str]:
    """The methods that have a parameter of one of these names."""
    found = []
    for name in dir(Tensor):
        method = inspect.getattr_static(Tensor, name)
        if name.startswith("_") or isinstance(method, property) or not callable(getattr(method, "__func__", method)):
            continue
        if set(names) & set(inspect.signature(getattr(Tensor, name)).parameters):
            found.append(name)
    return found


SEVERAL_AXES = {"flip", "permute", "permute_dims"}  # `dims=` and `axes=`


@pytest.mark.parametrize("name", [name for name in methods_with("dim", "axis", "dims") if name not in SEVERAL_AXES])
def test_every_axis_is_dim_and_axis(name: str) -> None:
    """An axis that there is not is refused, or another argument is missed: never is the keyword unknown."""
    for keyword in ("dim", "axis"):
        said = ""
        try:
            getattr(X.clone(), name)(**{keyword: 7})
        except (TypeError, IndexError, ValueError, RuntimeError) as error:
            said = str(error)
        assert "there is no argument" not in said and "unexpected keyword" not in said


@pytest.mark.parametrize("name", [name for name in methods_with("keepdim") if name not in ("average", "quantile")])
def test_every_keepdim_is_keepdims(name: str) -> None:
    more: dict[str, Any] = {"kthvalue": {"k": 1}, "percentile": {"q": 5}, "nanpercentile": {"q": 5}}.get(name, {})
    more |= {"q": 0.5} if name == "nanquantile" else {}
    found = [getattr(X, name)(axis=1, **{keyword: True}, **more) for keyword in ("keepdim", "keepdims")]
    shapes = [[part.shape for part in (x if isinstance(x, tuple) else (x,))] for x in found]
    assert shapes[0] == shapes[1]


def test_other_spellings() -> None:
    assert X.var(ddof=0).item() == X.var(correction=0).item() == X.var(unbiased=False).item()
    assert X.std_mean(ddof=0)[0].item() == X.std(unbiased=False).item()  # type: ignore[call-arg]
    assert X.tril(k=-1).tolist() == X.tril(-1).tolist()  # type: ignore[call-arg]
    assert Tensor.linspace(0, 1, num=3).tolist() == [0.0, 0.5, 1.0]  # type: ignore[call-arg]
    assert X.permute(axes=(1, 0)).tolist() == X.T.tolist() == X.permute(dims=(1, 0)).tolist()
    assert X.unflatten(axis=1, sizes=(2, 1)).shape == (2, 2, 1)
