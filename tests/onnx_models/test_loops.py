"""Loops in models: those that the host can count are one node of the graph, the others run round by round."""

from typing import Any

import numpy as np
import pytest

from onnx_models.write import graph, model, node, tensor, value
from whit import GlobalCounters, Tensor, onnx

FLOAT, INT32, INT64, STRING, BOOL = 1, 6, 7, 8, 9
RANDOM = np.random.default_rng(0)
WEIGHT = (RANDOM.standard_normal((4, 4)) * 0.5).astype(np.float32)
ONE = tensor("one", np.array(1, np.int32))


def of(*nodes: bytes, inputs: Any, outputs: Any, tensors: Any = (), jit: bool = True) -> onnx.Model:
    return onnx.load(model(nodes, inputs, outputs, tensors, version=20), jit=jit)


def arrays(found: dict[str, Any]) -> dict[str, Any]:
    return {name: np.asarray(each) for name, each in found.items()}


def kernels_of(run: onnx.Model, **inputs: Any) -> int:
    run(**inputs)
    GlobalCounters.reset()
    run(**inputs)
    return GlobalCounters.kernel_count


def counted(*, step: int = 1, start: int = 0) -> Any:
    """As exporters write a loop over time: the count, the size and the weights are states, the bool is computed."""
    body = graph(
        [
            node("Gather", ["xs", "t"], ["x"]),
            node("MatMul", ["x", "w"], ["p"]),
            node("MatMul", ["h", "w"], ["q"]),
            node("Add", ["p", "q"], ["sum"]),
            node("Tanh", ["sum"], ["h1"]),
            node("Add", ["t", "by"], ["t1"]),
            node("Less", ["t1", "n"], ["goes_on"]),
            node("GreaterOrEqual", ["t1", "zero"], ["inside"]),
            node("And", ["goes_on", "inside"], ["both"]),
            node("Identity", ["w"], ["w1"]),
            node("Neg", ["h1"], ["y"]),
        ],
        [
            *(value("i", INT64, []), value("go", BOOL, []), value("t", INT32, []), value("n", INT32, [])),
            *(value("h", FLOAT, ["b", 4]), value("w", FLOAT, [4, 4])),
        ],
        [value("both", BOOL), value("t1"), value("n"), value("h1"), value("w1"), value("y"), value("t")],
    )
    nodes = [
        node("Shape", ["xs"], ["shape"]),
        node("Gather", ["shape", "at"], ["length"]),
        node("Cast", ["length"], ["n0"], to=INT32),
        node(
            "Loop",
            ["", "", "first", "n0", "h0", "weight"],
            ["t_end", "n_end", "h_end", "w_end", "ys", "ts"],
            body=body,
        ),
    ]
    tensors = [
        *(tensor("weight", WEIGHT), tensor("at", np.array(0)), tensor("zero", np.array(0, np.int32))),
        *(tensor("first", np.array(start, np.int32)), tensor("by", np.array(step, np.int32))),
    ]
    inputs = [value("xs", FLOAT, ["time", "b", 4]), value("h0", FLOAT, ["b", 4])]
    outputs = [value(name) for name in ("t_end", "n_end", "h_end", "w_end", "ys", "ts")]
    return {"nodes": nodes, "inputs": inputs, "outputs": outputs, "tensors": tensors}


def expected(xs: Any, h: Any, times: Any) -> tuple[Any, Any]:
    rows = []
    for t in times:
        h = np.tanh(xs[t] @ WEIGHT + h @ WEIGHT)
        rows.append(-h)
    return h, np.stack(rows)


@pytest.mark.parametrize(("step", "start"), [(1, 0), (2, 1), (-1, 8)])
@pytest.mark.parametrize("rows", [1, 9])
def test_a_loop_that_counts_itself_is_one_program(step: int, start: int, rows: int) -> None:
    made = counted(step=step, start=start)
    run = of(*made.pop("nodes"), **made)
    xs = RANDOM.standard_normal((9, rows, 4)).astype(np.float32)
    h0 = np.zeros((rows, 4), np.float32)
    times = list(range(start, 9 if step > 0 else -1, step))
    last, ys = expected(xs, h0, times)
    for _ in range(2):
        found = arrays(run(xs=xs, h0=h0))
        np.testing.assert_allclose(found["h_end"], last, 1e-4, 1e-5)
        np.testing.assert_allclose(found["ys"], ys, 1e-4, 1e-5)
        np.testing.assert_allclose(found["w_end"], WEIGHT)
        assert found["ts"].tolist() == times
        assert (found["t_end"].tolist(), found["n_end"].tolist()) == (times[-1] + step, 9)
    assert run.captures == 1
    again = of(*counted(step=step, start=start)["nodes"], **made, jit=False)
    np.testing.assert_allclose(arrays(again(xs=xs, h0=h0))["ys"], ys, 1e-4, 1e-5)


def test_kernels_do_not_depend_on_the_rounds() -> None:
    made = counted()
    run = of(*made.pop("nodes"), **made)
    h0 = np.ones((1, 4), np.float32)
    few, many = (kernels_of(run, xs=np.ones((count, 1, 4), np.float32), h0=h0) for count in (5, 50))
    assert few == many <= 6  # a loop counts the kernels of a round


def test_rounds_of_other_lengths_are_other_programs() -> None:
    made = counted()
    run = of(*made.pop("nodes"), **made)
    h0 = np.zeros((1, 4), np.float32)
    for length in (1, 2, 3, 12, 1, 12):
        xs = RANDOM.standard_normal((length, 1, 4)).astype(np.float32)
        last, ys = expected(xs, h0, range(length))
        found = arrays(run(xs=xs, h0=h0))
        np.testing.assert_allclose(found["h_end"], last, 1e-4, 1e-5)
        assert found["ys"].shape == ys.shape
    assert run.captures <= 8  # each length its own at most, and those for many lengths that were tried


def doubling(*extra: bytes, states: Any, results: Any, count: int = 12) -> onnx.Model:
    """x is doubled in each round, and more is done."""
    body = graph(
        [node("Add", ["v", "v"], ["v1"]), *extra],
        [value("i", INT64, []), value("go", BOOL, []), value("v", FLOAT, ["n"]), *states],
        [value("go", BOOL), value("v1"), *results],
    )
    names = [f"s{place}" for place in range(len(states))]
    outs = [f"o{place}" for place in range(len(results))]
    return of(
        node("Loop", ["m", "", "x", *names], ["y", *outs], body=body),
        inputs=[value("x", FLOAT, ["n"]), *(value(name) for name in names)],
        outputs=[value("y"), *(value(name) for name in outs)],
        tensors=[tensor("m", np.array(count)), ONE, tensor("two", np.array(2))],
    )


def test_numbers_of_the_host_are_known_in_each_round() -> None:
    extra = [
        node("Mul", ["i", "two"], ["j"]),
        node("Cast", ["j"], ["f"], to=FLOAT),
        node("Add", ["v1", "f"], ["seen"]),
        node("Mod", ["i", "two"], ["bit"]),
    ]
    run = doubling(*extra, states=[], results=[value("seen"), value("j"), value("bit")])
    found = arrays(run(x=np.ones(3, np.float32)))
    assert found["y"].tolist() == [4096.0] * 3
    assert found["o0"][:, 0].tolist() == [2.0 ** (i + 1) + 2 * i for i in range(12)]
    assert found["o1"].tolist() == [2 * i for i in range(12)]
    assert found["o2"].tolist() == [i % 2 for i in range(12)]
    assert run.captures == 1


def test_a_state_that_grows_is_carried_round_by_round() -> None:
    run = doubling(node("Concat", ["s", "v"], ["s1"], axis=0), states=[value("s", FLOAT, ["k"])], results=[value("s1")])
    found = arrays(run(x=np.ones(1, np.float32), s0=np.zeros(1, np.float32)))
    assert found["o0"].tolist() == [0.0, *(2.0**i for i in range(12))]


def test_sequences_and_text_are_carried_round_by_round() -> None:
    extra = [node("SequenceInsert", ["s", "v1"], ["s1"])]
    body = graph(
        [node("Add", ["v", "v"], ["v1"]), *extra, node("StringConcat", ["text", "text"], ["more"])],
        [value("i", INT64, []), value("go", BOOL, []), value("v"), value("s"), value("text", STRING)],
        [value("go", BOOL), value("v1"), value("s1"), value("more")],
    )
    nodes = [
        node("SequenceEmpty", [], ["none"]),
        node("Loop", ["m", "", "x", "none", "word"], ["y", "all", "words"], body=body),
        node("ConcatFromSequence", ["all"], ["joined"], axis=0),
    ]
    inputs = [value("x", FLOAT, ["n"]), value("word", STRING, [])]
    run = of(
        *nodes,
        inputs=inputs,
        outputs=[value("y"), value("joined"), value("words", STRING)],
        tensors=[tensor("m", np.array(3))],
    )
    found = run(x=np.ones(1, np.float32), word=np.array("ab", object))
    assert np.asarray(found["joined"]).tolist() == [2.0, 4.0, 8.0]
    assert np.asarray(found["words"]).tolist() == "ab" * 8


@pytest.mark.parametrize("limit", [0.5, 30.0, 1e9])
def test_a_loop_that_data_ends(limit: float) -> None:
    body = graph(
        [node("Add", ["v", "v"], ["v1"]), node("Less", ["v1", "limit"], ["more"]), node("Neg", ["v1"], ["seen"])],
        [value("i", INT64, []), value("go", BOOL, []), value("v", FLOAT, [])],
        [value("more", BOOL), value("v1"), value("seen", FLOAT, [])],
    )
    nodes = [node("Less", ["x", "limit"], ["begins"]), node("Loop", ["", "begins", "x"], ["y", "all"], body=body)]
    run = of(
        *nodes,
        inputs=[value("x", FLOAT, []), value("limit", FLOAT, [])],
        outputs=[value("y"), value("all")],
    )
    for start in (1.0, 3.0, 1.0):
        current, seen = start, []
        goes_on = start < limit
        while goes_on:
            current *= 2
            seen.append(-current)
            goes_on = current < limit
        found = arrays(run(x=np.array(start, np.float32), limit=np.array(limit, np.float32)))
        assert found["y"].tolist() == current
        assert found["all"].tolist() == seen


def test_a_loop_in_a_loop_and_a_choice_in_it() -> None:
    inner = graph(
        [node("Add", ["a", "v"], ["a1"])],
        [value("k", INT64, []), value("go2", BOOL, []), value("a", FLOAT, ["n"])],
        [value("go2", BOOL), value("a1")],
    )
    yes, no = (graph([node(kind, ["a2"], [kind])], [], [value(kind)]) for kind in ("Neg", "Identity"))
    extra = [
        node("Loop", ["four", "", "v"], ["a2"], body=inner),
        node("Cast", ["bit"], ["odd"], to=BOOL),
        node("If", ["odd"], ["chosen"], then_branch=yes, else_branch=no),
    ]
    body = graph(
        extra,
        [value("i", INT64, []), value("go", BOOL, []), value("v", FLOAT, ["n"])],
        [value("go", BOOL), value("chosen"), value("a2")],
    )
    run = of(
        node("Loop", ["m", "", "x"], ["y", "all"], body=body),
        inputs=[value("x", FLOAT, ["n"])],
        outputs=[value("y"), value("all")],
        tensors=[tensor("m", np.array(5)), tensor("four", np.array(4)), tensor("bit", np.array(1))],
    )
    found = arrays(run(x=np.ones(2, np.float32)))
    assert found["y"].tolist() == [(-5.0) ** 5] * 2
    assert found["all"][:, 0].tolist() == [5.0 * (-5.0) ** i for i in range(5)]
    assert run.captures == 1


def test_an_index_that_is_outside_is_an_error_of_its_node() -> None:
    body = graph(
        [node("Gather", ["xs", "i"], ["x"]), node("Add", ["v", "x"], ["v1"])],
        [value("i", INT64, []), value("go", BOOL, []), value("v", FLOAT, [2])],
        [value("go", BOOL), value("v1")],
    )
    run = of(
        node("Loop", ["m", "", "v0"], ["y"], body=body),
        inputs=[value("xs", FLOAT, ["t", 2])],
        outputs=[value("y")],
        tensors=[tensor("m", np.array(4)), tensor("v0", np.zeros(2, np.float32))],
    )
    assert np.asarray(run(xs=np.ones((4, 2), np.float32))["y"]).tolist() == [4.0, 4.0]


def test_scan_is_a_loop_of_the_graph() -> None:
    body = graph(
        [node("Mul", ["s", "a"], ["m"]), node("Add", ["m", "b"], ["next"]), node("Neg", ["next"], ["seen"])],
        [value("s"), value("a"), value("b")],
        [value("next"), value("seen")],
    )
    scan = node(
        *("Scan", ["start", "a", "b"], ["last", "y"]),
        body=body,
        num_scan_inputs=2,
        scan_input_axes=[1, 0],
        scan_input_directions=[0, 1],
        scan_output_axes=[1],
        scan_output_directions=[1],
    )
    inputs = [value("start", FLOAT, [3]), value("a", FLOAT, [3, "t"]), value("b", FLOAT, ["t", 3])]
    run = of(scan, inputs=inputs, outputs=[value("last"), value("y")])
    state = start = RANDOM.standard_normal(3).astype(np.float32)
    a, b = (RANDOM.standard_normal(shape).astype(np.float32) for shape in ((3, 7), (7, 3)))
    rows = []
    for t in range(7):
        state = state * a[:, t] + b[6 - t]
        rows.append(-state)
    found = arrays(run(start=start, a=a, b=b))
    np.testing.assert_allclose(found["last"], state, 1e-4, 1e-5)
    np.testing.assert_allclose(found["y"], np.stack(rows[::-1], axis=1), 1e-4, 1e-5)
    assert run.captures == 1


def test_gradients_go_through_loops_of_models_that_are_not_captured() -> None:
    made = counted()
    run = of(*made.pop("nodes"), **made, jit=False)
    h0 = Tensor([[0.1, 0.2, 0.3, 0.4]], requires_grad=True)
    (gradient,) = run(xs=Tensor.ones(4, 1, 4), h0=h0)["h_end"].sum().gradient(h0)
    moved = np.array([[0.1, 0.2, 0.301, 0.4]], np.float32)
    ones = np.ones((4, 1, 4), np.float32)
    slope = (expected(ones, moved, range(4))[0] - expected(ones, h0.numpy(), range(4))[0]).sum() / 0.001
    np.testing.assert_allclose(gradient.numpy()[0, 2], slope, 0.05, 1e-3)


def branch(kind: str) -> bytes:
    return graph([node(kind, ["x"], ["out"])], [], [value("out")])


@pytest.mark.parametrize("as_tensor", [False, True])
def test_conditions_of_small_inputs_choose_the_program(as_tensor: bool) -> None:
    nodes = [
        node("Equal", ["rate", "wanted"], ["fast"]),
        node("If", ["fast"], ["z"], then_branch=branch("Neg"), else_branch=branch("Exp")),
        node("Cast", ["rate"], ["r"], to=FLOAT),
        node("Mul", ["z", "r"], ["y"]),
    ]
    inputs = [value("x", FLOAT, ["n"]), value("rate", INT64, [])]
    run = of(*nodes, inputs=inputs, outputs=[value("y")], tensors=[tensor("wanted", np.array(16))])
    x = np.zeros(2, np.float32)
    for rate in (16, 8, 4, 16, 8):
        given = Tensor(np.array([rate]))[0].realize() if as_tensor else np.array(rate)
        found = run({"x": x, "rate": given})["y"].tolist()
        assert found == ([-0.0] * 2 if rate == 16 else [float(rate)] * 2)
    assert run.captures == 2  # one for each branch, whatever the rates are


def test_a_choice_by_data_is_captured_with_what_follows() -> None:
    nodes = [
        node("ReduceSum", ["x"], ["sum"], keepdims=0),
        node("Greater", ["sum", "zero"], ["c"]),
        node("If", ["c"], ["z"], then_branch=branch("Neg"), else_branch=branch("Exp")),
        node("Add", ["z", "z"], ["y"]),
    ]
    zero = tensor("zero", np.array(0, np.float32))
    run = of(*nodes, inputs=[value("x", FLOAT, ["n"])], outputs=[value("y")], tensors=[zero])
    for x in (1.0, 0.0, 2.0, 0.0):
        found = run(x=np.full(2, x, np.float32))["y"].tolist()
        assert found == ([-2 * x] * 2 if x else [2.0] * 2)
    assert run.captures == 3  # up to the condition, and what follows for each of its values


def test_rounds_that_a_tensor_counts_are_captured_when_they_come_again() -> None:
    body = graph(
        [node("Add", ["v", "v"], ["v1"])],
        [value("i", INT64, []), value("go", BOOL, []), value("v", FLOAT, ["n"])],
        [value("go", BOOL), value("v1"), value("v1", FLOAT, [1])],
    )
    nodes = [
        node("ReduceSum", ["x"], ["sum"], keepdims=0),
        node("Cast", ["sum"], ["m"], to=INT64),
        node("Loop", ["m", "", "x"], ["y", "all"], body=body),
    ]
    run = of(*nodes, inputs=[value("x", FLOAT, ["n"])], outputs=[value("y"), value("all")])
    made = []
    for rounds in (20, 20, 20, 0, 12, 1, 0):
        found = arrays(run(x=np.array([rounds], np.float32)))
        assert found["y"].tolist() == [rounds * 2.0**rounds]
        assert found["all"].shape == (rounds, 1)
        made.append(run.captures)
    assert made == [1, 2, 2, 2, 2, 2, 3]
    x = np.array([20], np.float32)
    assert kernels_of(run, x=x) == 2  # the number, and a round
