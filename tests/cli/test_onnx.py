"""`python -m whit onnx`: the facts of a model, a run, a comparison."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from onnx_models.write import field, graph, model, node, tensor, value

from cli.schemas import SCHEMAS, differences
from whit import onnx
from whit.cli import onnx_compare
from whit.cli.main import main
from whit.cli.onnx_compare import Runtime, difference, first_difference, with_outputs
from whit.cli.onnx_inputs import given_inputs
from whit.cli.onnx_inside import standalone


@pytest.fixture
def file(tmp_path: Path) -> str:
    weight = tensor("w", np.ones((3, 20), np.float32))
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("Relu", ["m"], ["y"])]
    path = tmp_path / "small.onnx"
    path.write_bytes(model(nodes, [value("x", 1, ["rows", 3])], [value("y", 1, ["rows", 20])], [weight]))
    return str(path)


def test_a_summary_has_inputs_outputs_and_operators(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["onnx", file]) == 0
    shown = capsys.readouterr().out
    assert "input       x: float32[rows, 3]" in shown
    assert "nodes       2: MatMul 1, Relu 1" in shown
    assert "parameters  60, 240 B" in shown


def test_a_run_uses_the_sizes_that_are_given(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["onnx", file, "--run", "--size", "rows=4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert differences({k: v for k, v in found.items() if k in SCHEMAS["onnx"]}, SCHEMAS["onnx"]) == []
    assert found["run"]["programs"] == 1


def test_wrong_words_say_what_is_expected(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["onnx", file, "--run", "--size", "rows"]) == 2
    assert "expected NAME=N" in capsys.readouterr().err


def test_a_comparison_names_the_worst_output(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    assert main(["onnx", file, "--compare"]) == 0
    assert "compare     y: differs by" in capsys.readouterr().out


def test_a_model_with_more_outputs_is_the_model_with_more_bytes(file: str) -> None:
    data = Path(file).read_bytes()
    found = onnx.load(with_outputs(data, ["m"]))
    assert [port.name for port in found.outputs] == ["y", "m"]


# ---- inputs


def _told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["onnx", *arguments]) != 0
    said = capsys.readouterr()
    assert "Traceback" not in said.err and not said.out
    return said.err


@pytest.mark.parametrize("kind", ["npy", "npz", "npz of all", "text", "json"])
def test_inputs_are_given_as_files_and_as_numbers(kind: str, file: str, tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(tmp_path / "x.npy", array)
    np.savez(tmp_path / "all.npz", x=array)
    np.savetxt(tmp_path / "x.txt", array)
    spelled = {"npy": f"x={tmp_path}/x.npy", "npz": f"x={tmp_path}/all.npz", "npz of all": f"{tmp_path}/all.npz"}
    spelled |= {"text": f"x={tmp_path}/x.txt", "json": "x=[[0, 1, 2], [3, 4, 5]]"}
    found = given_inputs(onnx.load(file), [spelled[kind]], [], 0)
    assert found["x"].dtype == np.float32 and (found["x"] == array).all()


def test_what_is_not_given_is_random_and_sizes_are_named_by_axis_too(file: str) -> None:
    model = onnx.load(file)
    assert (
        given_inputs(model, [], ["rows=4"], 0)["x"].shape == given_inputs(model, [], ["x:0=4"], 0)["x"].shape == (4, 3)
    )
    assert given_inputs(model, [], [], 0)["x"].shape == (1, 3)


def test_wrong_inputs_and_files_say_what_is_wanted(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", np.ones((2, 4), np.float32))
    (tmp_path / "no.npy").write_bytes(b"nothing")
    (tmp_path / "no.onnx").write_bytes(b"nothing")
    assert "cannot be opened" in _told(capsys, str(tmp_path / "none.onnx"))
    assert "no protobuf" in _told(capsys, str(tmp_path / "no.onnx"))
    assert 'there is no device "FOO"' in _told(capsys, file, "--device", "FOO")
    assert 'has no input "y"' in _told(capsys, file, "--input", "y=[1]", "--run")
    assert 'has no size "row"' in _told(capsys, file, "--size", "row=3", "--run")
    assert "has the shape (2, 4)" in _told(capsys, file, "--run", "--input", f"x={tmp_path}/x.npy")
    assert "there is no file" in _told(capsys, file, "--run", "--input", "x=none.npy")
    assert "no arrays of NumPy" in _told(capsys, file, "--run", "--input", f"x={tmp_path}/no.npy")
    assert "expected numbers" in _told(capsys, file, "--run", "--input", "x=many")
    assert "expected NAME=FILE" in _told(capsys, file, "--run", "--input", "many")
    assert 'has no input "y"' in _told(capsys, file, "--input", "y=[1]")


def test_an_error_inside_names_the_node_and_what_the_model_was_called_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [node("Add", ["x", "w"], ["y"]) + field(3, "sum")]
    weight = tensor("w", np.ones((2, 3), np.float32))
    (tmp_path / "a.onnx").write_bytes(model(nodes, [value("x", 1, ["n"])], [value("y", 1)], [weight]))
    said = _told(capsys, str(tmp_path / "a.onnx"), "--run", "--size", "n=5")
    assert "in the node Add 'sum'" in said and "called with x [5]" in said


# ---- where the time goes


def test_a_profile_has_a_row_for_each_node_with_those_in_its_kernel(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["onnx", file, "--profile", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert differences({k: v for k, v in found.items() if k in SCHEMAS["onnx"]}, SCHEMAS["onnx"]) == []
    (row,) = found["profile"]["nodes"]
    assert (row["node"], row["operator"], row["fused"], row["kernels"]) == ("m", "MatMul", ["y"], 1)
    assert row["floor_seconds"] > 0 and found["profile"]["operators"].keys() == {"MatMul"}
    assert main(["onnx", file, "--profile"]) == 0
    assert "operator  node  with" in capsys.readouterr().out


# ---- comparison


class _Broken(Runtime):
    """An onnxruntime that agrees up to one node, and is asked for few values at a time."""

    def __init__(self, model: onnx.Model, inputs: dict[str, np.ndarray], names: list[str]) -> None:
        self.model, self.inputs, self.names, self.asked = model, inputs, names, 0

    def values(self, names: Sequence[str]) -> dict[str, np.ndarray]:
        self.asked = max(self.asked, len(names))
        found = self.model.values(self.inputs, names)
        return {name: value.numpy() + (name in self.names) for name, value in found.items()}


@pytest.mark.parametrize("wrong", [0, 1, 7, 40, 59])
def test_the_search_finds_the_first_node_that_differs(wrong: int) -> None:
    nodes, tip = [], "x"
    for number in range(60):
        nodes += [node("Sin", [tip], [f"s{number}"]), node("Neg", [tip], [f"n{number}"])]
        nodes.append(node("Add", [f"s{number}", f"n{number}"], [f"a{number}"]))
        tip = f"a{number}"
    loaded = onnx.load(model(nodes, [value("x", 1, [4])], [value(tip, 1)]))
    later = [f"n{wrong}", f"a{wrong}", *(f"{kind}{number}" for number in range(wrong + 1, 60) for kind in "sna")]
    runtime = _Broken(loaded, {"x": np.ones(4, np.float32)}, later)
    found, why = first_difference(loaded, runtime, runtime.inputs, [tip])
    assert found is not None and f"which makes n{wrong}" in found and not why
    assert runtime.asked <= 13


def test_differences_are_parts_of_the_largest_value() -> None:
    ones = np.ones(3, np.float32)
    assert difference(ones, ones * 1.5) == pytest.approx(1 / 3)
    assert difference(ones, ones[:2]) == float("inf") and difference([ones], [ones]) == 0
    nan = np.array([np.nan, 1])
    assert difference(nan, nan) == 0 and difference(nan, np.ones(2)) == float("inf")


def test_a_comparison_of_a_model_with_data_in_other_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    weight = np.ones((3, 20), np.float32)
    (tmp_path / "w.bin").write_bytes(weight.tobytes())
    stored = tensor("w", weight, external={"location": "w.bin"})
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("Relu", ["m"], ["y"])]
    path = tmp_path / "a.onnx"
    path.write_bytes(model(nodes, [value("x", 1, [2, 3])], [value("y", 1)], [stored]))
    assert main(["onnx", str(path), "--compare"]) == 0
    assert "compare     y: differs by" in capsys.readouterr().out
    assert Runtime(str(path), {"x": np.ones((2, 3), np.float32)}).values(["m"]) is not None


def _with_graphs() -> bytes:
    """An If, one branch of which has another If, and a Loop; they read values and weights from around them."""
    weight, zero = tensor("w", np.full(3, 2, np.float32)), tensor("rounds", np.array(3, np.int64))
    deep = graph([node("Mul", ["s", "w"], ["d"])], [], [value("d", 1)])
    flat = graph([node("Neg", ["s"], ["f"])], [], [value("f", 1)])
    then = graph(
        [
            node("Add", ["s", "here"], ["t"]),
            node("If", ["c"], ["u"], then_branch=deep, else_branch=flat),
            node("Add", ["t", "u"], ["v"]),
        ],
        [],
        [value("v", 1)],
        [tensor("here", np.ones(3, np.float32))],
    )
    other = graph([node("Neg", ["s"], ["o"])], [], [value("o", 1)])
    body = graph(
        [node("Add", ["carried", "w"], ["next"]), node("Identity", ["goes"], ["still"])],
        [value("i", 7, []), value("goes", 9, []), value("carried", 1, [3])],
        [value("still", 9, []), value("next", 1, [3])],
    )
    nodes = [
        node("Sin", ["x"], ["s"]),
        node("If", ["c"], ["y"], then_branch=then, else_branch=other),
        node("Loop", ["rounds", "", "s"], ["z"], body=body),
    ]
    return model(nodes, [value("x", 1, [3]), value("c", 9, [])], [value("y", 1), value("z", 1)], [weight, zero])


@pytest.mark.parametrize("condition", [True, False])
def test_a_graph_inside_of_a_node_becomes_a_model_of_its_own(condition: bool) -> None:
    data = _with_graphs()
    loaded = onnx.load(data)
    inputs = {"x": np.array([1, 2, 3], np.float32), "c": np.array(condition)}
    sine = np.sin(inputs["x"])

    def ask(names: Sequence[str]) -> dict[str, np.ndarray]:
        return {name: each.numpy() for name, each in loaded.values(inputs, names).items()}

    found = {}
    for step in loaded.graph.steps[1:]:
        made = standalone(data, loaded, inputs, step, ask)
        assert made is not None
        inner, given = made
        found[step.node.op_type] = {name: each.numpy() for name, each in onnx.load(inner)(given).items()}
    np.testing.assert_allclose(next(iter(found["If"].values())), sine + 1 + sine * 2 if condition else -sine, 1e-6)
    np.testing.assert_allclose(found["Loop"]["next"], sine + 2, 1e-6)
    assert standalone(data, loaded, inputs, loaded.graph.steps[0], ask) is None


def test_the_search_goes_on_inside_of_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    (tmp_path / "a.onnx").write_bytes(_with_graphs())
    inputs = {"x": np.ones(3, np.float32), "c": np.array(True)}
    runtime = Runtime(str(tmp_path / "a.onnx"), inputs)
    real = onnx_compare.difference
    monkeypatch.setattr(onnx_compare, "difference", lambda a, b: 1.0 if np.allclose(a, _SUM) else real(a, b))
    found, _ = first_difference(onnx.load(tmp_path / "a.onnx"), runtime, inputs, ["y"])
    assert found is not None and "If, which makes y; inside of it Add, which makes v" in found


_SUM = np.float32(np.sin(np.float32(1))) * 2 + (np.float32(np.sin(np.float32(1))) + 1)
