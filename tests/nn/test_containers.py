"""Containers of tensors where single tensors are wanted: gradients, realize, optimisers, files."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from whit import Tensor, nn, register_container
from whit.nn.state import get_state_dict, load_state_dict, safe_load, safe_save


@dataclasses.dataclass
class Affine:
    weight: Tensor
    bias: Tensor
    name: str = "affine"


class Pair(NamedTuple):
    left: Any
    right: Any


class Slotted:
    __slots__ = ("content",)

    def __init__(self, content: Tensor) -> None:
        self.content = content


register_container(Slotted, lambda value: ((value.content,), None), lambda rest, parts: Slotted(*parts))


def make() -> dict[str, Any]:
    """Every kind of container, with a tensor that has no gradient."""
    return {
        "affine": Affine(Tensor([1.0, 2.0]), Tensor([0.5])),
        "pair": Pair(Tensor([3.0]), [Tensor([4.0]), Tensor([5])]),
        "own": Slotted(Tensor([6.0])),
    }


def loss_of(tree: dict[str, Any]) -> Tensor:
    affine, pair = tree["affine"], tree["pair"]
    value: Tensor = (affine.weight * affine.weight + affine.bias).sum() + (pair.left * pair.right[0]).sum()
    return value + (tree["own"].content * pair.right[1]).sum()


def test_gradient_of_a_container_has_its_places() -> None:
    tree = make()
    x = Tensor([1.0])
    found, dx = (loss_of(tree) + x.sum()).gradient(tree, x)
    assert isinstance(found["affine"], Affine)
    assert found["affine"].weight.tolist() == [2.0, 4.0]
    assert found["affine"].bias.tolist() == [2.0]
    assert found["affine"].name == "affine"
    assert found["pair"].left.tolist() == [4.0]
    assert found["pair"].right[0].tolist() == [3.0]
    assert found["pair"].right[1] is None, "integers have no gradient"
    assert found["own"].content.tolist() == [5.0]
    assert dx.tolist() == [1.0]


def test_gradient_of_nothing_to_differentiate_by_is_an_error() -> None:
    with pytest.raises(ValueError, match="containers of them"):
        Tensor([1.0]).sum().gradient({"a": 1})


def test_realize_takes_containers() -> None:
    tree = {"a": Tensor([1.0]) + 1, "b": [Tensor([2.0]) * 2, None]}
    b: Any = tree["b"]
    Tensor.realize(Tensor([1.0]), tree)
    assert repr(tree["a"]).startswith("Tensor([2.]"), "in memory, and so shown"
    assert repr(b[0]).startswith("Tensor([4.]")
    Tensor([1.0]).realize({})


def test_optimisers_take_containers() -> None:
    tree = {"a": Tensor([1.0]), "b": {"c": Tensor([2.0])}}
    optimiser = nn.optim.SGD(tree, lr=1.0)
    assert [tensor.tolist() for tensor in optimiser.params] == [[1.0], [2.0]]
    affine = Affine(Tensor([1.0]), Tensor([2.0]))
    assert len(nn.optim.SGD(affine, lr=1.0).params) == 2
    groups = nn.optim.SGD([{"params": {"a": Tensor([1.0])}}, {"params": affine, "lr": 0.5}], lr=1.0).param_groups
    assert [len(group["params"]) for group in groups] == [1, 2]
    with pytest.raises(ValueError, match="SGD"):
        nn.optim.SGD({"a": 3})


def test_files_take_containers_and_give_them_back(tmp_path: Path) -> None:
    tree = make()
    path = tmp_path / "tree.safetensors"
    with pytest.raises(ValueError, match=r'"affine\.name" is a str'):
        safe_save(tree, path)
    del tree["affine"]
    safe_save(tree, path)
    assert sorted(safe_load(path)) == ["own.0", "pair.left", "pair.right.0", "pair.right.1"]
    assert sorted(get_state_dict(tree)) == sorted(safe_load(path))
    other = make()
    del other["affine"]
    other["pair"].left.assign(Tensor([0.0])).realize()
    load_state_dict(other, safe_load(path), verbose=False)
    assert other["pair"].left.tolist() == [3.0]


def test_files_refuse_what_would_be_lost(tmp_path: Path) -> None:
    path = tmp_path / "tree.safetensors"
    with pytest.raises(ValueError, match=r'two tensors are called "a\.b"'):
        safe_save({"a.b": Tensor([1.0]), "a": {"b": Tensor([2.0])}}, path)
    with pytest.raises(ValueError, match="a Linear is no container of tensors"):
        safe_save(nn.Linear(2, 2), path)
    assert not path.exists()
