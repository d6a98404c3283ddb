"""Files that are wrong, cut off or made to harm: an error that says what is the matter, in little time and memory."""

import random
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnx_models.write import attribute, field, fields, function, graph, model, node, tensor, value
from whit import onnx
from whit.errors import UserError

X, Y = value("x", 1, ["n"]), value("y")


def load(*nodes: bytes, **parts: Any) -> onnx.Model:
    return onnx.load(model(nodes, [X], [Y], **parts))


def huge(sizes: list[int]) -> bytes:
    return fields(1, sizes) + field(2, 1) + field(8, "w") + field(9, b"1234")


LOOP = [node("Add", ["x", "b"], ["a"]), node("Add", ["x", "a"], ["b"]), node("Neg", ["b"], ["y"])]
CASES = {
    "nothing": (lambda: onnx.load(b""), "the model has no graph"),
    "text": (lambda: onnx.load(b"this is no model at all, but a text"), "this is no protobuf"),
    "cut off": (lambda: onnx.load(model([node("Neg", ["x"], ["y"])], [X], [Y])[:-30]), "it ends at byte"),
    "a cycle": (lambda: load(*LOOP), "wait for each other"),
    "a value that nothing makes": (lambda: load(node("Neg", ["z"], ["y"])), 'reads "z", which nothing makes'),
    "an output that nothing makes": (lambda: load(node("Neg", ["x"], ["z"])), 'nothing makes the output "y"'),
    "a value made twice": (lambda: load(node("Neg", ["x"], ["y"]), node("Exp", ["x"], ["y"])), "is made twice"),
    "an unknown operator": (lambda: load(node("Rellu", ["x"], ["y"])), 'no operator Rellu .*\n.*Did you mean "Relu"'),
    "a size of 2^63": (
        lambda: load(node("Add", ["x", "w"], ["y"]), tensors=[huge([1 << 62, 1 << 62])]),
        "these are no sizes|is too large",
    ),
    "a size below zero": (lambda: load(node("Add", ["x", "w"], ["y"]), tensors=[huge([-1])]), "these are no sizes"),
    "more elements than bytes": (
        lambda: load(node("Add", ["x", "w"], ["y"]), tensors=[huge([1 << 40])])({"x": np.ones(1, np.float32)}),
        '"w" has 4 bytes',
    ),
    "an unknown type": (
        lambda: load(node("Add", ["x", "w"], ["y"]), tensors=[field(1, 1) + field(2, 99) + field(8, "w")]),
        "the unknown type 99",
    ),
    "a function that calls itself": (
        lambda: load(
            node("F", ["x"], ["y"], domain="own"),
            functions=[function("F", [node("F", ["a"], ["b"], domain="own")], ["a"], ["b"])],
        ),
        "calls itself",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_file_says_what_is_wrong(name: str) -> None:
    run, message = CASES[name]
    with pytest.raises(UserError, match=message):
        run()


@pytest.mark.parametrize("location", ["../secret", "/etc/passwd", "a/../../secret", "", "link", "\0"])
def test_data_outside_of_the_folder_is_not_read(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(b"1234")
    (folder / "link").symlink_to(tmp_path / "secret")
    outside = tensor("w", np.zeros(1, np.float32), external={"location": location})
    (folder / "m.onnx").write_bytes(model([node("Add", ["x", "w"], ["y"])], [X], [Y], [outside]))
    with pytest.raises(UserError, match="outside of the model's folder"):
        onnx.load(folder / "m.onnx")({"x": np.ones(1, np.float32)})


def test_data_beside_the_model_is_read(tmp_path: Path) -> None:
    weight = np.arange(40, dtype=np.float32)
    (tmp_path / "w.bin").write_bytes(b"\0" * 8 + weight.tobytes())
    beside = tensor("w", weight, external={"location": "w.bin", "offset": "8", "length": "160"})
    data = model([node("Add", ["x", "w"], ["y"])], [X], [Y], [beside])
    (tmp_path / "m.onnx").write_bytes(data)
    assert onnx.load(tmp_path / "m.onnx")(x=weight)["y"].tolist() == (2 * weight).tolist()
    with pytest.raises(UserError, match="the model was given as bytes"):
        onnx.load(data)(x=weight)


def test_functions_in_functions_stop_before_they_fill_memory() -> None:
    functions = [
        function(f"F{i}", [node(f"F{i + 1}", ["a"], [f"b{j}"], domain="own") for j in range(8)], ["a"], ["b0"])
        for i in range(20)
    ]
    functions.append(function("F20", [node("Neg", ["a"], ["b0"])], ["a"], ["b0"]))
    tracemalloc.start()
    with pytest.raises(UserError, match="too many nodes"):
        load(node("F0", ["x"], ["y"], domain="own"), functions=functions)
    assert tracemalloc.get_traced_memory()[1] < 200 << 20
    tracemalloc.stop()


def test_graphs_in_graphs_stop() -> None:
    inner = graph([node("Neg", ["x"], ["y"])], [], [Y])
    for _ in range(100):
        inner = graph([field(4, "If") + field(5, attribute("then_branch", inner))], [], [Y])
    with pytest.raises(UserError, match="nested too deeply"):
        onnx.load(field(1, 10) + field(7, inner))


def test_damaged_files_give_errors_of_ours() -> None:
    body = graph([node("Add", ["v", "x"], ["next"])], [value("i"), value("c"), value("v")], [value("c"), value("next")])
    good = model(
        [
            node("Loop", ["m", "", "x"], ["l"], body=body),
            node("Reshape", ["l", "shape"], ["r"]),
            node("Gemm", ["r", "w"], ["y"], transB=1, alpha=0.5),
        ],
        [X, value("m", 7, [])],
        [Y],
        [tensor("w", np.ones((2, 3), np.float32)), tensor("shape", np.array([-1, 3]), is_raw=False)],
    )
    generator = random.Random(0)
    for _ in range(400):
        data = bytearray(good)
        for _ in range(generator.choice([1, 1, 2, 5])):
            data[generator.randrange(len(data))] = generator.randrange(256)
        data = data[: generator.randrange(len(data))] if generator.random() < 0.3 else data
        try:
            found = onnx.load(bytes(data))
        except UserError:
            continue
        assert found.graph.outputs is not None


WRONG_INPUTS = {
    "another name": ({"z": np.ones(3, np.float32)}, 'no input "z".*\n.*x: float32\\[n\\]'),
    "nothing": ({}, 'the input "x" is not given'),
    "another dtype": ({"x": np.ones(3)}, 'the input "x" is float64\n.*the model wants float32'),
    "another rank": ({"x": np.ones((3, 1), np.float32)}, "has the shape \\(3, 1\\)"),
    "text": ({"x": np.array(["a"])}, 'the input "x" is text'),
    "no dictionary": ([1, 2], "inputs are a list"),
}


@pytest.mark.parametrize("name", WRONG_INPUTS)
def test_wrong_inputs_say_what_the_model_wants(name: str) -> None:
    given, message = WRONG_INPUTS[name]
    run = load(node("Neg", ["x"], ["y"]))
    with pytest.raises(UserError, match=message):
        run(given)  # type: ignore[arg-type]


def test_an_error_in_a_node_names_the_node() -> None:
    run = onnx.load(model([node("MatMul", ["x", "w"], ["y"])], [X], [Y], [tensor("w", np.ones((2, 9), np.float32))]))
    with pytest.raises(UserError) as caught:
        run(x=np.ones(3, np.float32))
    assert any("in the node MatMul" in note for note in caught.value.__notes__)
