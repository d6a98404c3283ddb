"""`python -m whit onnx`: the facts of a model, a run, a comparison."""

import json
from pathlib import Path

import numpy as np
import pytest
from onnx_models.write import model, node, tensor, value

from cli.schemas import SCHEMAS, differences
from whit import onnx
from whit.cli.main import main
from whit.cli.onnx import with_outputs


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
