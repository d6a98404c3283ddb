"""Files that are wrong, cut off or made to harm: an error that says what is the matter, in little time and memory."""

import random
import signal
import time
import tracemalloc
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz import onnx as fuzzer

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


def test_damaged_and_wrong_files_give_errors_of_ours() -> None:
    for seed in range(700):
        problem = fuzzer.problem_of(fuzzer.file_of(seed))
        assert not problem, f"seed {seed}: {problem}"


@pytest.mark.parametrize("number", range(len(fuzzer.good_files())))
def test_files_that_are_cut_off_anywhere_give_errors(number: int) -> None:
    good = fuzzer.good_files()[number]
    given = {"x": np.ones(3, np.float32), "m": np.array(3)}
    whole = onnx.load(good, jit=False)
    assert whole({port.name: given[port.name] for port in whole.inputs})
    for end in range(len(good)):
        assert not fuzzer.problem_of(good[:end]), f"{end} bytes"  # a file without its last parts may be one


def one(*names: str, **attributes: Any) -> onnx.Model:
    """A model of one node, whose further inputs are constants: name=array."""
    kind, *inputs = names
    arrays = {name: value for name, value in attributes.items() if isinstance(value, np.ndarray)}
    given = {name: value for name, value in attributes.items() if name not in arrays}
    version = given.pop("version", 20)
    made = node(kind, ["x", *inputs, *arrays], ["y"], **given)
    return load(made, tensors=[tensor(name, value) for name, value in arrays.items()], version=version)


SCALE = "Scales are above 0"
WRONG_NODES = {
    "too few inputs": (lambda: one("Add"), "Add has 1 inputs\n.*the operator takes 2"),
    "too many inputs": (lambda: one("Neg", "x", "x"), "Neg has 3 inputs\n.*the operator takes 1"),
    "no branches": (lambda: load(node("If", ["x"], ["y"])), "If has no graph then_branch"),
    "no body": (lambda: load(node("Loop", ["", "", "x"], ["y"], body=3)), "Loop has no graph body"),
    "a body of other inputs": (
        lambda: load(node("Loop", ["", "", "x"], ["y"], body=graph([], [], [value("x")]))),
        "Loop and its graph do not fit together",
    ),
    "no number of slices": (
        lambda: load(node("Scan", ["x"], ["y"], body=graph([], [value("a")], [value("a")]))),
        "Scan and its graph do not fit together",
    ),
    "an output that is not made": (
        lambda: onnx.load(model([node("Neg", ["x"], ["z", "y"])], [X], [Y])),
        'Neg gives 1 outputs\n.*the model reads another, "y"',
    ),
    "the same of constants": (
        lambda: load(node("Neg", ["w"], ["z", "v"]), node("Add", ["x", "v"], ["y"]), tensors=[tensor("w", np.ones(3))]),
        'nothing makes "v"',
    ),
    "an input that is left out": (
        lambda: load(
            node("DequantizeLinear", ["", "s"], ["w"]),
            node("Add", ["x", "w"], ["y"]),
            tensors=[tensor("s", np.ones((), np.float32))],
        ),
        "DequantizeLinear cannot be computed\n *of nothing, ",
    ),
    "an attribute of another kind": (
        lambda: one("Softmax", axis=[1, 2]),
        "Softmax cannot be computed\n *of float32\\(3,\\): .*\n.*The model is wrong",
    ),
    "no output at all": (
        lambda: onnx.load(model([node("Neg", ["x"], [""])], [X], [value("")])),
        'nothing makes the output ""',
    ),
    "a scale of NaN": (lambda: one("Resize", "", s=np.array([np.nan], np.float32)), "Resize"),
    "a scale below 0": (lambda: one("Resize", "", s=np.array([-1], np.float32)), SCALE),
    "a scale of infinity": (lambda: one("Resize", "", s=np.array([np.inf], np.float32)), "Resize"),
    "a large scale": (lambda: one("Resize", "", s=np.array([1e20], np.float32)), SCALE),
    "a large size": (lambda: one("Resize", "", "", s=np.array([(1 << 63) - 1])), SCALE),
    "a padding below nothing": (lambda: one("Pad", p=np.array([-4, -4])), "pad|Pad"),
    "a group of none": (lambda: one("Conv", w=np.ones((1, 1, 1), np.float32), group=0), "Conv|conv"),
    "a shape below 0": (lambda: one("Expand", s=np.array([-3])), "Expand|expand"),
    "texts that grow": (
        lambda: load(
            *[node("StringConcat", [f"s{i}"] * 2, [f"s{i + 1}"]) for i in range(50)],
            node("Cast", ["s50"], ["f"], to=1),
            node("Add", ["x", "f"], ["y"]),
            tensors=[tensor("s0", np.array(["long"] * 1000, object))],
            version=20,
        ),
        "the texts together have",
    ),
}


@pytest.mark.parametrize("name", WRONG_NODES)
def test_a_wrong_node_says_what_is_wrong(name: str) -> None:
    run, message = WRONG_NODES[name]
    with pytest.raises(UserError, match=message) as caught:
        run()(x=np.ones(3, np.float32))
    assert len(str(caught.value).splitlines()) >= 2, "what failed, with what, what to do"


CHAIN = ["x", *(f"v{i}" for i in range(50)), "y"]
HUGE = {
    "ConstantOfShape": lambda: load(node("ConstantOfShape", ["s"], ["y"]), tensors=[tensor("s", np.array([1 << 62]))]),
    "Tile": lambda: one("Tile", s=np.array([1 << 40])),
    "Pad": lambda: one("Pad", s=np.array([0, 1 << 40])),
    "Range": lambda: load(
        node("Range", ["a", "b", "c"], ["r"]),
        node("Cast", ["r"], ["y"], to=1),
        tensors=[tensor(name, np.array(each)) for name, each in (("a", 0), ("b", 1 << 40), ("c", 1))],
    ),
    "Concat": lambda: load(*[node("Concat", [a, a], [b], axis=0) for a, b in pairwise(CHAIN)]),
}


@pytest.mark.parametrize("name", HUGE)
def test_huge_results_are_asked_for_by_nobody_and_refused(name: str) -> None:
    tracemalloc.start()
    try:
        run = HUGE[name]()
        assert tracemalloc.get_traced_memory()[1] < 8 << 20, "nothing is made at load"
        with pytest.raises((UserError, MemoryError)):
            run(x=np.ones(3, np.float32))
        assert tracemalloc.get_traced_memory()[1] < 256 << 20, "graphs, but no data"
    finally:
        tracemalloc.stop()


def test_a_sparse_tensor_takes_memory_when_it_is_read() -> None:
    sparse = field(1, tensor("w", np.ones(1, np.float32))) + field(2, tensor("i", np.array([5])))
    inner = graph([node("Add", ["x", "w"], ["y"])], [X], [Y])
    data = field(1, 10) + field(8, fields(1, [""]) + field(2, 18))
    tracemalloc.start()
    with pytest.raises(UserError, match="too large"):
        onnx.load(data + field(7, inner + field(15, sparse + fields(3, [1 << 40]))))
    onnx.load(data + field(7, inner + b"".join(field(15, sparse + fields(3, [1 << 27])) for _ in range(64))))
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


def test_long_chains_of_constants_are_computed_without_recursion() -> None:
    chain = ["w", *(f"v{i}" for i in range(600))]
    nodes = [node("Neg", [a], [b]) for a, b in pairwise(chain)]
    run = load(*nodes, node("Add", ["x", chain[-1]], ["y"]), tensors=[tensor("w", np.ones(3, np.float32))])
    assert run(x=np.ones(3, np.float32))["y"].tolist() == [2, 2, 2]


def test_many_nodes_in_any_order_take_little_time_and_memory() -> None:
    """A million takes half a minute and 700 MB."""
    chain = ["x", *(f"v{i}" for i in range(4_000)), "y"]
    nodes = [node("Neg", [a], [b]) for a, b in pairwise(chain)]
    random.Random(0).shuffle(nodes)
    data = model(nodes, [X], [Y])
    start = time.process_time()
    assert len(onnx.load(data).graph.steps) == 4_001
    assert time.process_time() - start < 10


def test_an_endless_loop_can_be_interrupted() -> None:
    body = graph([node("Add", ["v", "v"], ["o"])], [value("i"), value("c"), value("v")], [value("c"), value("o")])
    run = load(node("Loop", ["m", "", "x"], ["y"], body=body), tensors=[tensor("m", np.array((1 << 63) - 1))])
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 1, 3)  # and again: one that comes inside of a callback is lost
    try:
        with pytest.raises(KeyboardInterrupt):
            run(x=np.ones(3, np.float32))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


EXTERNAL = {
    "past the end": ({"offset": "8"}, "which has 4"),
    "too long": ({"length": "400"}, "which has 4"),
    "too short": ({"length": "2"}, "has 2 bytes"),
    "below 0": ({"offset": "-4"}, "is no number"),
    "no number": ({"offset": "one"}, "is no number"),
    "a huge number": ({"offset": "9" * 30}, "is no number"),
    "another file": ({"location": "none.bin"}, "cannot be opened"),
    "a folder": ({"location": "inner"}, "inner"),
}


@pytest.mark.parametrize("name", EXTERNAL)
def test_data_beside_the_model_is_checked(tmp_path: Path, name: str) -> None:
    place, message = EXTERNAL[name]
    (tmp_path / "w.bin").write_bytes(b"1234")
    (tmp_path / "inner").mkdir()
    beside = tensor("w", np.zeros(1, np.float32), external={"location": "w.bin", **place})
    (tmp_path / "m.onnx").write_bytes(model([node("Add", ["x", "w"], ["y"])], [X], [Y], [beside]))
    with pytest.raises(UserError, match=message):
        onnx.load(tmp_path / "m.onnx")(x=np.ones(1, np.float32))


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
