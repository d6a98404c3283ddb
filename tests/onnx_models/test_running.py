"""Models run: in captured parts, with the arithmetic of shapes on the host, with graphs in graphs."""

from typing import Any

import numpy as np
import pytest

from onnx_models.write import function, graph, model, node, tensor, value
from whit import GlobalCounters, Tensor, onnx
from whit.nn.onnx import OnnxRunner

FLOAT, INT64, BOOL = 1, 7, 9
ONE = tensor("one", np.array(1, np.int64))


def of(*nodes: bytes, inputs: Any = None, outputs: Any = None, tensors: Any = (), functions: Any = ()) -> onnx.Model:
    given = [value("x", FLOAT, ["rows", 3])] if inputs is None else inputs
    return onnx.load(model(nodes, given, [value("y")] if outputs is None else outputs, tensors, functions))


def arrays(found: dict[str, Any]) -> dict[str, Any]:
    return {name: each.numpy() for name, each in found.items()}


def test_a_model_is_captured_once_for_each_kind_of_inputs() -> None:
    weight = np.arange(6, dtype=np.float32).reshape(3, 2)
    run = of(node("MatMul", ["x", "w"], ["m"]), node("Relu", ["m"], ["y"]), tensors=[tensor("w", weight)])
    for rows in (2, 2, 5, 5, 2, 7):
        x = np.random.default_rng(rows).standard_normal((rows, 3)).astype(np.float32)
        np.testing.assert_allclose(run({"x": x})["y"].numpy(), np.maximum(x @ weight, 0), 1e-5, 1e-6)
    assert run.captures == 2
    assert [(port.name, str(port.type)) for port in run.inputs] == [("x", "float32[rows, 3]")]


def test_results_are_fresh() -> None:
    run = of(node("Neg", ["x"], ["y"]))
    first = run(x=np.ones((1, 3), np.float32))["y"]
    second = run(x=np.zeros((1, 3), np.float32))["y"]
    assert first.tolist() == [[-1.0] * 3]
    assert second.tolist() == [[0.0] * 3]


def test_arithmetic_of_shapes_launches_no_kernel() -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "one"], ["columns"]),
        node("Mul", ["columns", "one"], ["same"]),
        node("Unsqueeze", ["same", "axes"], ["list"]),
        node("Concat", ["minus", "list"], ["shape"], axis=0),
        node("Reshape", ["x", "shape"], ["r"]),
        node("Add", ["r", "r"], ["y"]),
    ]
    lists = [tensor("axes", np.array([0], np.int64)), tensor("minus", np.array([-1], np.int64))]
    run = of(*nodes, tensors=[ONE, *lists])
    run(x=np.ones((4, 3), np.float32))
    GlobalCounters.reset()
    assert run(x=np.ones((4, 3), np.float32))["y"].tolist() == [[2.0] * 3] * 4
    assert GlobalCounters.kernel_count == 1
    assert run.captures == 1


def test_sizes_that_depend_on_data_stand_between_captured_parts() -> None:
    nodes = [node("Neg", ["x"], ["n"]), node("NonZero", ["n"], ["at"]), node("Mul", ["at", "one"], ["y"])]
    run = of(*nodes, outputs=[value("y", INT64)], tensors=[ONE])
    for x in ([[0, 1, 0]], [[1, 1, 0]], [[0, 0, 2]]):
        array = np.array(x, np.float32)
        np.testing.assert_array_equal(run(x=array)["y"].numpy(), np.array(np.nonzero(array)))
    assert run.captures == 3  # before it, and after it for one and for two places


def branch(kind: str) -> bytes:
    return graph([node(kind, ["x"], ["out"])], [], [value("out")])


def test_if_takes_one_branch() -> None:
    given = [value("x", FLOAT, ["rows", 3]), value("c", BOOL, [])]
    run = of(node("If", ["c"], ["y"], then_branch=branch("Neg"), else_branch=branch("Exp")), inputs=given)
    x = np.zeros((1, 3), np.float32)
    assert run(x=x, c=np.array(True))["y"].tolist() == [[0.0] * 3]
    assert run(x=x, c=np.array(False))["y"].tolist() == [[1.0] * 3]


def test_a_condition_that_is_known_vanishes() -> None:
    nodes = [
        node("Size", ["x"], ["n"]),
        node("Greater", ["n", "one"], ["c"]),
        node("If", ["c"], ["y"], then_branch=branch("Neg"), else_branch=branch("NoSuchOperator")),
    ]
    run = of(*nodes, tensors=[ONE])
    assert run(x=np.ones((1, 3), np.float32))["y"].tolist() == [[-1.0] * 3]
    assert run.captures == 1


@pytest.mark.parametrize("rounds", [0, 3, 20])
def test_loop_carries_and_collects(rounds: int) -> None:
    body = graph(
        [node("Add", ["v", "x"], ["next"]), node("Identity", ["go"], ["still"]), node("Neg", ["next"], ["seen"])],
        [value("i", INT64, []), value("go", BOOL, []), value("v", FLOAT, [1, 3])],
        [value("still", BOOL), value("next"), value("seen", FLOAT, [1, 3])],
    )
    given = [value("x", FLOAT, [1, 3]), value("m", INT64, [])]
    outputs = [value("y"), value("all")]
    run = of(node("Loop", ["m", "", "x"], ["y", "all"], body=body), inputs=given, outputs=outputs)
    found = arrays(run(x=np.ones((1, 3), np.float32), m=np.array(rounds)))
    assert found["y"].tolist() == [[rounds + 1.0] * 3]
    assert found["all"].shape == (rounds, 1, 3)
    assert found["all"].reshape(-1)[::3].tolist() == [-(i + 2.0) for i in range(rounds)]


def test_scan_goes_over_slices_backwards_too() -> None:
    body = graph(
        [node("Add", ["s", "e"], ["next"]), node("Identity", ["next"], ["seen"])],
        [value("s"), value("e")],
        [value("next"), value("seen")],
    )
    nodes = node("Scan", ["start", "x"], ["last", "y"], body=body, num_scan_inputs=1, scan_input_directions=[1])
    run = of(nodes, tensors=[tensor("start", np.zeros(3, np.float32))], outputs=[value("y"), value("last")])
    x = np.arange(30, dtype=np.float32).reshape(10, 3)
    found = arrays(run(x=x))
    np.testing.assert_allclose(found["y"], np.cumsum(x[::-1], 0))
    np.testing.assert_allclose(found["last"], x.sum(0))


def test_sequences_go_through_nodes() -> None:
    nodes = [
        node("SplitToSequence", ["x"], ["s"], axis=0),
        node("SequenceInsert", ["s", "x"], ["t"]),
        node("SequenceLength", ["t"], ["n"]),
        node("ConcatFromSequence", ["t"], ["y"], axis=0),
    ]
    run = of(*nodes, outputs=[value("y"), value("n", INT64)])
    found = arrays(run(x=np.arange(6, dtype=np.float32).reshape(2, 3)))
    assert found["n"].tolist() == 3
    assert found["y"].tolist() == [[0, 1, 2], [3, 4, 5], [0, 1, 2], [3, 4, 5]]


def test_functions_of_the_model_get_the_attributes_of_the_call() -> None:
    body = [node("ReduceSum", ["a", "b"], ["c"], keepdims="@keep"), node("Inner", ["c"], ["d"], domain="own")]
    inner = function("Inner", [node("Neg", ["a"], ["b"])], ["a"], ["b"])
    outer = function("Outer", body, ["a", "b"], ["d"], ["keep"])
    axes = tensor("axes", np.array([1], np.int64))
    calls = [node("Outer", ["x", "axes"], ["y"], domain="own", keep=1)]
    calls += [node("Outer", ["x", "axes"], ["z"], domain="own", keep=0)]
    run = of(*calls, tensors=[axes], functions=[outer, inner], outputs=[value("y"), value("z")])
    found = arrays(run(x=np.ones((2, 3), np.float32)))
    assert found["y"].tolist() == [[-3.0], [-3.0]]
    assert found["z"].tolist() == [-3.0, -3.0]


def test_nodes_may_stand_in_any_order_and_dead_ones_are_gone() -> None:
    run = of(node("Neg", ["a"], ["y"]), node("Exp", ["x"], ["a"]), node("NoSuchOperator", ["x"], ["unused"]))
    assert run(x=np.zeros((1, 3), np.float32))["y"].tolist() == [[-1.0] * 3]


def test_what_depends_on_constants_alone_is_computed_once() -> None:
    weight = tensor("w", np.ones((3, 40), np.float32))
    nodes = [node("Exp", ["w"], ["e"]), node("MatMul", ["x", "e"], ["y"])]
    run = of(*nodes, tensors=[weight])
    run(x=np.ones((1, 3), np.float32))
    GlobalCounters.reset()
    run(x=np.ones((1, 3), np.float32))["y"].realize()
    assert GlobalCounters.kernel_count == 1
    assert len(run.graph.steps) == 1


def test_gradients_go_through_a_model_that_is_not_captured() -> None:
    weight = np.arange(60, dtype=np.float32).reshape(3, 20)
    data = model(
        [node("MatMul", ["x", "w"], ["y"])], [value("x", FLOAT, ["n", 3])], [value("y")], [tensor("w", weight)]
    )
    run = onnx.load(data, jit=False)
    (gradient,) = run(x=np.ones((2, 3), np.float32))["y"].sum().gradient(run.weights["w"])
    assert gradient.tolist() == [[2.0] * 20] * 3


def test_inputs_may_be_tensors_arrays_and_lists() -> None:
    run = of(node("Neg", ["x"], ["y"]))
    for x in (Tensor([[1.0, 2.0, 3.0]]), np.array([[1, 2, 3]], np.float32), [[1, 2, 3]]):
        assert run({"x": x})["y"].tolist() == [[-1.0, -2.0, -3.0]]


def test_many_shapes_keep_few_programs_and_give_no_hints(recwarn: pytest.WarningsRecorder) -> None:
    run = of(node("Neg", ["x"], ["y"]), inputs=[value("x", FLOAT, ["n"])])
    for size in range(1, 40):
        assert run(x=np.ones(size, np.float32))["y"].shape == (size,)
    assert run.captures < 10
    assert [str(warning.message) for warning in recwarn] == []


def test_text_stays_on_the_host() -> None:
    run = of(node("Identity", ["x"], ["y"]), inputs=[value("x", 8, ["n"])], outputs=[value("y", 8)])
    assert run(x=np.array(["a", "b"]))["y"].tolist() == ["a", "b"]


def test_the_runner_has_the_convention_of_the_family(tmp_path: Any) -> None:
    data = model([node("Neg", ["x"], ["y"])], [value("x", FLOAT, ["n", 3])], [value("y", FLOAT, ["n", 3])])
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    run = OnnxRunner(path)
    assert run.graph_outputs == ("y",)
    assert run.graph_inputs["x"].shape == ("n", 3)
    assert run({"x": np.ones((1, 3), np.float32)})["y"].tolist() == [[-1.0] * 3]


def test_weights_of_graphs_in_graphs_are_read_while_those_are_captured(tmp_path: Any) -> None:
    inner = graph([node("MatMul", ["x", "w"], ["m"])], [], [value("m")], [tensor("w", np.ones((3, 40), np.float32))])
    outer = graph([node("If", ["yes"], ["o"], then_branch=inner, else_branch=branch("Neg"))], [], [value("o")])
    nodes = [
        node("Size", ["x"], ["n"]),
        node("Greater", ["n", "one"], ["yes"]),
        node("If", ["yes"], ["y"], then_branch=outer, else_branch=branch("Neg")),
    ]
    path = tmp_path / "model.onnx"
    path.write_bytes(model(nodes, [value("x", FLOAT, ["rows", 3])], [value("y")], [ONE]))
    run = onnx.load(path)
    assert run(x=np.ones((1, 3), np.float32))["y"].tolist() == [[3.0] * 40]
    assert run.captures == 1
    GlobalCounters.reset()
    run(x=np.ones((1, 3), np.float32))
    assert GlobalCounters.kernel_count == 1
