"""Names of tensors in models, what optimisers get, and loading values into a model."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whit import Device, Tensor, dtypes
from whit.nn.state import StateError, get_parameters, get_state_dict, load_state_dict, safe_load, safe_save

Pair = namedtuple("Pair", ["left", "right"])


@dataclasses.dataclass
class Block:
    weight: Tensor
    scale: float = 1.0


@dataclasses.dataclass(slots=True)
class Slotted:
    weight: Tensor


class Layer:
    def __init__(self, size: int = 2) -> None:
        self.weight = Tensor(np.zeros((size, 3), np.float32))
        self.bias: Tensor | None = None
        self.size = size


class Model:
    def __init__(self) -> None:
        self.layers = [Layer(), Layer()]
        self.by_name = {"a": Layer(), 3: Tensor([1.0])}
        self.pair = Pair(Tensor([1]), (Tensor([2.0]),))
        self.block = Block(Tensor([3.0]))
        self.slotted = Slotted(Tensor([4.0]))
        self.ordered = OrderedDict(z=Tensor([5.0]), y=Tensor([6.0]))
        self.mean = Tensor([0.0], requires_grad=False)
        self.name = "model"


def test_names_are_the_way_to_a_tensor() -> None:
    assert list(get_state_dict(Model())) == [
        "layers.0.weight",
        "layers.1.weight",
        "by_name.a.weight",
        "by_name.3",
        "pair.left",
        "pair.right.0",
        "block.weight",
        "slotted.weight",
        "ordered.z",
        "ordered.y",
        "mean",
    ]


def test_prefix_and_other_types() -> None:
    assert list(get_state_dict([Tensor([1.0])], "model.")) == ["model.0"]
    assert get_state_dict({"a": 1, "b": [2.5, "x"]}, tensor_type=int) == {"a": 1}
    assert list(get_state_dict(Tensor([1.0]))) == [""]


def test_cycles_are_walked_once_and_shared_tensors_have_two_names() -> None:
    model = Layer()
    model.itself = model  # type: ignore[attr-defined]
    model.tied = model.weight  # type: ignore[attr-defined]
    assert list(get_state_dict(model)) == ["weight", "tied"]
    (only,) = get_parameters(model)
    assert only is model.weight


def test_models_may_be_nested_deeply() -> None:
    nested: Any = Tensor([1.0])
    for _ in range(3000):
        nested = [nested]
    (name,) = get_state_dict(nested)
    assert name.count(".") == 2999


def test_parameters_are_floats_that_may_be_trained() -> None:
    model = Model()
    names = {id(tensor): name for name, tensor in get_state_dict(model).items()}
    found = [names[id(tensor)] for tensor in get_parameters(model)]
    assert "pair.left" not in found and "mean" not in found and "layers.0.weight" in found and len(found) == 9


# ---- loading


def test_values_are_loaded_by_name() -> None:
    model = Layer()
    values = {"weight": Tensor(np.arange(6, dtype=np.float32).reshape(2, 3))}
    weight = model.weight
    assert [t is weight for t in load_state_dict(model, values)] == [True]
    assert model.weight is weight and weight.tolist() == [[0, 1, 2], [3, 4, 5]] and len(values) == 1


def test_the_model_keeps_its_dtype_and_device() -> None:
    model = {"w": Tensor([0.0, 0.0], "PYTHON", dtypes.float16)}
    load_state_dict(model, {"w": Tensor(np.array([1.5, 2.5]), "CPU")})
    assert model["w"].dtype is dtypes.float16 and model["w"].device == "PYTHON" and model["w"].tolist() == [1.5, 2.5]


def test_values_may_be_arrays_and_one_element_has_two_shapes() -> None:
    model = {"w": Tensor([0.0, 0.0]), "count": Tensor([0])}
    load_state_dict(model, {"w": np.array([1, 2], np.float32), "count": Tensor(7)})  # type: ignore[dict-item]
    assert model["w"].tolist() == [1, 2] and model["count"].tolist() == [7]


def test_consumed_values_leave_the_dictionary() -> None:
    values = {"w": Tensor([1.0]), "other": Tensor([2.0])}
    load_state_dict({"w": Tensor([0.0])}, values, strict=False, verbose=False, consume=True)
    assert list(values) == ["other"]


def test_values_can_stay_lazy() -> None:
    model = {"w": Tensor([0.0])}
    load_state_dict(model, {"w": Tensor([1.0]) + 1}, realize=False)
    assert "lazy" in repr(model["w"])


def test_a_tied_weight_needs_one_of_its_names() -> None:
    tied = Tensor([0.0])
    load_state_dict({"head": tied, "embed": tied}, {"embed": Tensor([2.0])})
    assert tied.tolist() == [2]


def test_views_of_a_weight_see_what_is_loaded() -> None:
    weight = Tensor([0.0, 0.0, 0.0]).realize()
    view = weight[1:]
    load_state_dict({"w": weight}, {"w": Tensor([1.0, 2.0, 3.0])})
    assert view.tolist() == [2, 3]


def test_a_model_in_a_file_gets_other_values_and_the_file_stays(tmp_path: Path) -> None:
    safe_save({"w": Tensor([1.0, 2.0])}, tmp_path / "x")
    before = (tmp_path / "x").read_bytes()
    model = dict(safe_load(tmp_path / "x"))
    load_state_dict(model, safe_load(tmp_path / "x"))
    assert model["w"].tolist() == [1, 2] and model["w"].device == Device.DEFAULT
    load_state_dict(model, {"w": Tensor([3, 4])})
    assert model["w"].tolist() == [3, 4] and model["w"].dtype is dtypes.float32 and model["w"].device == Device.DEFAULT
    assert (tmp_path / "x").read_bytes() == before


def test_all_problems_are_in_one_error_and_nothing_is_changed() -> None:
    model = {"weight": Tensor([1.0]), "bias": Tensor([2.0]), "scale": Tensor([3.0, 3.0])}
    values = {"weigth": Tensor([0.0]), "scale": Tensor([0.0]), "bias": Tensor([0.0]), "extra": Tensor([0.0])}
    with pytest.raises(StateError) as caught:
        load_state_dict(model, values)
    assert str(caught.value) == (
        "load_state_dict: 4 of 3 tensors of the model and 4 given ones do not fit\n"
        "  shapes differ:\n"
        "    scale: the model has (2,), given (1,)\n"
        "  missing:\n"
        '    weight Did you mean "weigth"?\n'
        "  unexpected:\n"
        '    weigth Did you mean "weight"?\n'
        "    extra\n"
        f"  called at {caught.value.line}\n"
        "  Make the model with the sizes that the values have."
    )
    assert model["bias"].tolist() == [2] and isinstance(caught.value, KeyError | ValueError)


@pytest.mark.parametrize(
    "own, given, fix",
    [
        ("weight", "module.weight", 'Remove the prefix "module." of the given names.'),
        ("model.weight", "weight", 'Add the prefix "model." of the given names.'),
        ("a", "zzz", "Rename them, or use strict=False to leave them alone."),
    ],
)
def test_errors_say_what_to_do(own: str, given: str, fix: str) -> None:
    with pytest.raises(StateError) as caught:
        load_state_dict({own: Tensor([1.0])}, {given: Tensor([1.0])})
    assert caught.value.fix == fix


def test_long_lists_are_cut() -> None:
    with pytest.raises(StateError, match=r"\.\.\. and 30 more"):
        load_state_dict({str(i): Tensor([1.0]) for i in range(50)}, {})


def test_without_strict_names_are_told_and_shapes_still_matter(capsys: pytest.CaptureFixture[str]) -> None:
    model = {"w": Tensor([1.0]), "b": Tensor([1.0])}
    load_state_dict(model, {"w": Tensor([5.0]), "c": Tensor([1.0])}, strict=False)
    told = capsys.readouterr().err
    assert "missing:\n  b" in told and "unexpected:\n  c" in told and model["w"].tolist() == [5]
    load_state_dict(model, {"w": Tensor([5.0])}, strict=False, verbose=False)
    assert capsys.readouterr().err == ""
    with pytest.raises(StateError, match="shapes differ"):
        load_state_dict(model, {"w": Tensor([5.0, 6.0])}, strict=False)
