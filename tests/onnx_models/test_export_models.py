"""Whole models and all layers as ONNX files: the same numbers from the file, here and in onnxruntime."""

from typing import Any

import numpy as np
import pytest
from models.table import CASES, Case
from models.training import prepared
from nn.pytorch import compare

from onnx_models.test_export import HAS_RUNTIME, in_runtime
from whit import Tensor, nn, onnx
from whit.tensor.control.body import as_tensors
from whit.tensor.nested import flatten_tensors

pytestmark = pytest.mark.cpu
QUICK = ("mlp", "super_resolution", "gru", "vit")  # in `make quick`; the others take a second each
ATTENTION = 23  # the opset from which on it is one node
WITHOUT_FORM = ("max_norm",)  # writes to its weights


def _arrays(value: Any) -> list[np.ndarray[Any, Any]]:
    return [tensor.numpy() for tensor in flatten_tensors(as_tensors(value))[0]]


def _same_from_the_file(function: Any, inputs: dict[str, Tensor], opset: int) -> None:
    wanted = _arrays(function(*inputs.values()))
    data = onnx.export(function, tuple(inputs.values()), input_names=list(inputs), opset=opset)
    named = {name: tensor.numpy() for name, tensor in inputs.items()}
    found = [list(onnx.load(data)(named).values())]
    if HAS_RUNTIME:
        found.append(in_runtime(data, named))
    for each in found:
        for one, other in zip(wanted, _arrays(each), strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(other, one, 1e-3, 1e-5)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=[pytest.mark.slow] * (case.name not in QUICK))
        for case in CASES
        if not case.is_large
    ],
)
def test_a_model_and_its_loss_are_the_same_from_a_file(case: Case) -> None:
    made = prepared(case, "float32")
    inputs = {f"i{place}": tensor for place, tensor in enumerate(made.inputs)}
    _same_from_the_file(lambda *given: made.step(*given), inputs, 18)


def _layers() -> dict[str, compare.Case]:
    tables = [compare.load_table(name) for name in ("layers", "attention", "recurrent")]
    return {key: each for table in tables for key, each in table.items() if each.layer and not each.train}


@pytest.mark.slow
@pytest.mark.parametrize("key", [key for key in _layers() if not any(word in key for word in WITHOUT_FORM)])
def test_a_layer_is_the_same_from_a_file(key: str) -> None:
    case = _layers()[key]
    layer = eval(case.layer, {"nn": nn, "F": nn.functional}).eval()
    shapes = {name: tuple(tensor.shape) for name, tensor in nn.state.get_state_dict(layer).items()}
    state = {name: Tensor(array) for name, array in compare._state(key, shapes).items()}
    nn.state.load_state_dict(layer, state, strict=False, verbose=False)
    inputs = {name: Tensor(compare._array(key + name, spec)) for name, spec in case.inputs.items()}
    fixed = {name: tensor for name, tensor in inputs.items() if name.startswith("_") and name != "_i"}
    given = {name: tensor for name, tensor in inputs.items() if name not in fixed}

    def call(*values: Tensor) -> list[Tensor]:
        names = {"m": layer, "nn": nn, "F": nn.functional, **fixed, **dict(zip(given, values, strict=True))}
        return list(compare._tensors_in(eval(case.call, names), Tensor))

    _same_from_the_file(call, given, ATTENTION if "Attention" in key or "Transformer" in key else 18)
