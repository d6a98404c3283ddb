"""Names of other libraries that are not ours: whoever looks for them is told what to write."""

from __future__ import annotations

import re
from typing import Any

import pytest

import whit
from whit import Tensor, names, nn
from whit.errors import ArgumentError

OWNERS: tuple[tuple[Any, str, dict[str, tuple[str, str]]], ...] = (
    (Tensor, "Tensor", names.TENSOR),
    (Tensor([1.0]), "Tensor", names.TENSOR),
    (nn, "nn", names.NN),
    (nn.optim, "nn.optim", names.OPTIM),
    (whit, "whit", names.WHIT),
)
LIBRARIES = {"PyTorch", "NumPy", "JAX", "tinygrad"}


@pytest.mark.parametrize("owner, label, table", OWNERS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_name_of_another_library_says_what_to_write(
    owner: Any, label: str, table: dict[str, tuple[str, str]]
) -> None:
    for name, (libraries, instead) in table.items():
        assert set(libraries.split(", ")) <= LIBRARIES
        assert not hasattr(owner, name)
        assert getattr(owner, name, None) is None
        with pytest.raises(AttributeError, match=re.escape(f"{label} has no `{name}`; instead: {instead}")):
            getattr(owner, name)


def test_what_is_told_to_be_written_exists() -> None:
    """Every method, function and layer that the table mentions is there."""
    texts = [text for table in (names.TENSOR, names.NN, names.OPTIM, names.WHIT) for _, text in table.values()]
    texts += [text for _, text in names.ARGUMENTS.values()]
    found = 0
    for text in texts:
        for owner, name in re.findall(
            r"\b(x|loss|layer|Tensor|nn|nn\.state|nn\.optim|whit|dtypes|logits)\.(\w+)", text
        ):
            place: Any = Tensor if owner in ("x", "loss", "logits") else nn.Linear(1, 1) if owner == "layer" else None
            place = place or eval(owner, {"Tensor": Tensor, "nn": nn, "whit": whit, "dtypes": whit.dtypes})
            assert hasattr(place, name), text
            found += 1
    assert found > 50


def test_names_that_are_not_there_are_not_offered() -> None:
    x = Tensor([1.0])
    assert "gpu" not in dir(x)
    assert "sum" in dir(x) and "shape" in dir(x)
    with pytest.raises(AttributeError, match="'Tensor' object has no attribute 'summ'"):
        _ = x.summ  # type: ignore[attr-defined]
    for name in ("_repr_png_", "__cuda_array_interface__"):
        assert not hasattr(x, name)


def test_functions_of_a_module_are_found_at_the_tensor() -> None:
    with pytest.raises(AttributeError, match=r"whit has no `zeros`; instead: Tensor\.zeros"):
        _ = whit.zeros  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"whit has no `float32`; instead: dtypes\.float32"):
        _ = whit.float32  # type: ignore[attr-defined]
    for module in (whit, nn, nn.optim):
        with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no attribute 'nonsense'"):
            _ = module.nonsense
    with pytest.raises(ImportError, match="nonsense"):
        from whit import nonsense  # type: ignore[attr-defined]  # noqa: F401


def test_keywords_of_other_libraries_say_what_to_write() -> None:
    x = Tensor([[1.0, 2.0]])
    with pytest.raises(ArgumentError) as caught:
        x.norm(ord=1)  # type: ignore[call-arg]
    assert str(caught.value).splitlines()[:2] == [
        "norm: there is no argument `ord`",
        "  It takes p, axis, keepdim, dim, keepdims.",
    ]
    assert str(caught.value).endswith("  Instead: `p=`")
    with pytest.raises(TypeError, match=r"sum: there is no argument `keepdimz`(.|\n)*Did you mean \"keepdims?\""):
        x.sum(1, keepdimz=True)  # type: ignore[call-arg]
    assert Tensor.linspace(0, 1, num=3).shape == (3,)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"rand: there is no argument `generator`(.|\n)*manual_seed"):
        Tensor.rand(2, generator=None)
    assert x.gather(axis=1, index=Tensor([[1]])).tolist() == [[2.0]]  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"gather: there is no argument `axis`"):
        x.gather(dim=1, axis=1, index=Tensor([[0]]))  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"zeros: there is no argument `size`(.|\n)*the sizes first"):
        Tensor.zeros(size=(2, 3))


def test_methods_keep_their_names_and_signatures() -> None:
    import inspect

    assert Tensor.sum.__name__ == "sum" and Tensor.sum.__qualname__ == "Tensor.sum"
    assert list(inspect.signature(Tensor.sum).parameters)[:3] == ["self", "axis", "keepdim"]
    assert list(inspect.signature(Tensor.linspace).parameters)[:2] == ["start", "stop"]
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        Tensor.linspace(0, 1)  # type: ignore[call-arg]
