"""Models from ONNX files in recordings and profiles: launches are called after nodes, nodes stand in their scopes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_models.write import field, graph, model, node, tensor, value

import whit
from whit import Context, Tensor, onnx
from whit.cache import clear_caches
from whit.engine.report.launch_names import watched
from whit.viz.load import load
from whit.viz.report.layers import layers_data, layers_text

pytestmark = pytest.mark.cpu

NAMES = [f"/encoder/layer.{i}/{name}" for i in range(2) for name in ("dense/MatMul", "Relu", "Softmax")]


def _named(name: str, *parts: Any, **attributes: Any) -> bytes:
    """A NodeProto with a name."""
    return node(*parts, **attributes) + field(3, name)


def _model() -> onnx.Model:
    """Two layers of a product, a relu and a softmax; and a reshape to a size that the host computes."""
    nodes, x = [], "x"
    for i in range(2):
        nodes.append(_named(f"/encoder/layer.{i}/dense/MatMul", "MatMul", [x, f"layer.{i}.weight"], [f"m{i}"]))
        nodes.append(_named(f"/encoder/layer.{i}/Relu", "Relu", [f"m{i}"], [f"r{i}"]))
        nodes.append(_named(f"/encoder/layer.{i}/Softmax", "Softmax", [f"r{i}"], [f"s{i}"]))
        x = f"s{i}"
    nodes += [node("Shape", ["x"], ["size"]), node("Reshape", [x, "size"], ["y"])]
    weights = [tensor(f"layer.{i}.weight", np.eye(48, dtype=np.float32) + i) for i in range(2)]
    return onnx.load(model(nodes, [value("x", 1, [5, 48])], [value("y", 1)], weights))


def _input() -> np.ndarray:
    return np.arange(240, dtype=np.float32).reshape(5, 48) / 100


@pytest.mark.parametrize("is_captured_before", [False, True])
def test_a_recording_has_nodes_as_layers_in_their_scopes(tmp_path: Path, is_captured_before: bool) -> None:
    loaded = _model()
    if is_captured_before:
        loaded({"x": _input()})
    with whit.trace(tmp_path / "run.trace", rewrites=False):
        loaded({"x": _input()})["y"].numpy()
    trace = load(tmp_path / "run.trace")
    found = {path: layer.kind for path, layer in trace.layers.items()}
    inside = {"dense.MatMul": "MatMul", "Relu": "Relu", "Softmax": "Softmax"}
    wanted = {f"encoder.layer.{i}.{name}": kind for i in range(2) for name, kind in inside.items()}
    assert wanted.items() <= found.items() and "size" not in found  # what the host computes is no layer
    assert trace.layers["encoder.layer.1.dense.MatMul"].parameters == [("weight", "float32", [48, 48], 9216)]
    flows = {("dense.MatMul", "Relu"), ("Relu", "Softmax")}
    assert {(f"encoder.layer.{i}.{a}", f"encoder.layer.{i}.{b}") for i in range(2) for a, b in flows} <= set(
        trace.flows
    )
    assert ("encoder.layer.0.Softmax", "encoder.layer.1.dense.MatMul") in trace.flows
    data = layers_data(trace)
    names = {row["name"] for layer in data["layers"] for row in layer["kernels"]}
    assert any(name.startswith("encoder.layer.1.dense.MatMul MatMul") for name in names)
    spent = sum(end - start for run in trace.runs for start, end in run.times)
    by_path = {layer["path"]: layer for layer in data["layers"]}
    assert by_path["encoder.layer"]["all_ns"]["forward"] + sum(data["rest"]["ns"].values()) == spent > 0
    assert "dense.MatMul  MatMul" in layers_text(data)


def test_a_profile_names_all_nodes_that_a_kernel_computes() -> None:
    loaded = _model()
    loaded({"x": _input()})
    with whit.profile() as profile:
        loaded({"x": _input()})
    fused = {text.rpartition(" ")[0] for launch in profile.launches for text in launch.fused}
    assert {name.strip("/").replace("/", ".") for name in NAMES} <= fused
    launch = next(launch for launch in profile.launches if launch.layer == "encoder.layer.0.dense.MatMul")
    assert launch.calls == 1 and launch.name.startswith("encoder.layer.0.dense.MatMul MatMul")


def test_nodes_in_branches_are_in_the_node_that_runs_them() -> None:
    then = graph([_named("Exp_1", "Exp", ["x"], ["t"])], [], [value("t", 1)])
    other = graph([node("Sin", ["x"], ["o"])], [], [value("o", 1)])
    nodes = [
        _named("Max", "ReduceMax", ["x"], ["m"]),
        _named("Greater", "Greater", ["m", "zero"], ["c"]),
        _named("/If_7", "If", ["c"], ["y"], then_branch=then, else_branch=other),
    ]
    loaded = onnx.load(model(nodes, [value("x", 1, [3])], [value("y", 1)], [tensor("zero", np.zeros((), np.float32))]))
    for sign, name in ((1, "If_7.Exp_1 Exp"), (-1, "If_7.o Sin")):
        with whit.profile() as profile:
            loaded({"x": np.full(3, sign, np.float32)})["y"].numpy()
        assert name in {launch.name for launch in profile.launches}


def test_after_a_call_and_after_an_error_tensors_are_those_of_the_user_again() -> None:
    loaded = _model()
    loaded({"x": _input()})
    bad = onnx.load(
        model(
            [_named("Sum", "Add", ["x", "w"], ["y"])],
            [value("x", 1)],
            [value("y", 1)],
            [tensor("w", np.ones((2, 3), np.float32))],
        )
    )
    with pytest.raises(ValueError, match="broadcast"):
        bad({"x": Tensor.ones(4, 5)})
    assert not watched
    with whit.profile() as profile:
        (Tensor([1.0, 2.0]) * 3).realize()
    assert [launch.name for launch in profile.launches] == ["mul"]


def _images() -> bytes:
    """A convolution, whose weights are laid out once, a pool and a product."""
    nodes = [
        _named("conv", "Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        _named("relu", "Relu", ["c"], ["r"]),
        _named("pool", "MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        _named("flat", "Flatten", ["p"], ["f"]),
        _named("head", "Gemm", ["f", "h"], ["y"]),
    ]
    random = np.random.default_rng(0)
    shapes = {"w": (8, 3, 3, 3), "b": (8,), "h": (128, 10)}
    weights = [tensor(name, random.standard_normal(shape).astype(np.float32)) for name, shape in shapes.items()]
    return model(nodes, [value("x", 1, [1, 3, 8, 8])], [value("y", 1)], weights)


def _names(loaded: onnx.Model) -> set[str]:
    with whit.profile() as profile:
        loaded({"x": np.ones((1, 3, 8, 8), np.float32)})["y"].numpy()
    return {text.rpartition(" ")[0] for launch in profile.launches for text in launch.fused}


def test_what_is_made_of_weights_once_takes_no_names_away() -> None:
    loaded = onnx.load(_images())
    assert {"conv", "pool", "head"} <= _names(loaded)


def test_programs_from_the_disk_are_captured_again_for_who_looks(tmp_path: Path) -> None:
    x = {"x": np.ones((1, 3, 8, 8), np.float32)}
    with Context(CACHE=1, CHECK_PLAN=False, CACHE_DIR=str(tmp_path)):
        onnx.load(_images())(x)["y"].numpy()
        clear_caches()
        again = onnx.load(_images())
        wanted = again(x)["y"].numpy()
        assert {"conv", "pool", "head"} <= _names(again)
        np.testing.assert_array_equal(again(x)["y"].numpy(), wanted)
