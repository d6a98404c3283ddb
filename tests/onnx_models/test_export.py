"""Functions and models become ONNX files, which give the same numbers: here, and where they are installed in
onnxruntime and under the checker of `onnx`."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whit
from whit import Tensor, dtypes, nn, onnx
from whit.errors import ArgumentError, NotSupportedError, ShapeError
from whit.onnx.proto import read_model
from whit.onnx.wire import Wire
from whit.tensor.source import open_source

pytestmark = pytest.mark.slow

HAS_RUNTIME = importlib.util.find_spec("onnxruntime") is not None and importlib.util.find_spec("onnx") is not None


def normal(*shape: int) -> Tensor:
    return Tensor(np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32))


def kinds(data: bytes) -> list[str]:
    """The operators of a file, in order."""
    graph = read_model(Wire(open_source("onnx", data))).graph
    return [node.op_type for node in graph.nodes]


def stored(data: bytes) -> set[str]:
    """The names of the tensors in a file."""
    return {tensor.name for tensor in read_model(Wire(open_source("onnx", data))).graph.initializers}


def results(value: Any) -> list[Any]:
    values = value if isinstance(value, tuple) else (value,)
    return [each.numpy() for each in values]


def check(function: Callable[..., Any], *inputs: Tensor, others: Any = (), **options: Any) -> bytes:
    """The file of a function gives what the function gives, of these inputs and of others."""
    data = onnx.export(function, inputs, **options)
    model = onnx.load(data)
    for given in (inputs, *others):
        named = {port.name: tensor.numpy() for port, tensor in zip(model.inputs, given, strict=True)}
        wanted = results(function(*given))
        same(wanted, [value.numpy() for value in model(named).values()])
        if HAS_RUNTIME:
            same(wanted, in_runtime(data, named))
    return data


def same(wanted: list[Any], found: list[Any]) -> None:
    for one, other in zip(wanted, found, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5)


def in_runtime(data: bytes | Path, named: dict[str, Any]) -> list[Any]:
    checker = pytest.importorskip("onnx.checker")
    runtime = pytest.importorskip("onnxruntime")
    checker.check_model(data if isinstance(data, bytes) else str(data), full_check=True)
    found: list[Any] = runtime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, named)
    return found


class Network:
    """A small convolutional network."""

    def __init__(self) -> None:
        self.conv = nn.Conv2d(3, 4, 3, padding=1, stride=2)
        self.norm = nn.BatchNorm(4)
        self.linear = nn.Linear(16, 5)

    def __call__(self, image: Tensor) -> Tensor:
        x = self.norm(self.conv(image)).relu()
        return self.linear(x.max_pool2d(3, 2, padding=1).flatten(1)).softmax(-1)


def test_elementwise_functions_and_questions() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = (x > 0).where(x.exp(), x.log2().trunc())
        return y.isnan(), x % 0.3, x.softplus(), x.sign(), x.exp2() // 1, ((x > 0) ^ (x < 1)).any(1), x.copysign(-x)

    check(function, normal(4, 3))


def test_whole_numbers_divide_towards_minus_infinity() -> None:
    check(lambda x: (x // 3, x % 3, x & 5, x | 2, x ^ 1, ~x, x.cast(dtypes.float64) / 2), Tensor([-7, -3, 0, 2, 7]))


def test_movement_is_few_nodes() -> None:
    data = check(lambda x: x.permute(1, 0, 2).reshape(6, 4).reshape(3, 2, 4).permute(1, 0, 2), normal(2, 3, 4))
    assert kinds(data) == ["Identity"]
    check(lambda x: (x.flip(0).pad(((0, 0), (1, 2), (0, 0))), x[:, 1:, ::2], Tensor.cat(x, x, dim=1)), normal(2, 3, 4))


def test_products_are_products_of_matrices() -> None:
    assert kinds(check(lambda x, y: x @ y, normal(2, 3, 4), normal(4, 5))) == ["MatMul"]
    assert kinds(check(lambda x, y: x @ y, normal(2, 3, 4), normal(2, 4, 5))) == ["MatMul"]
    assert "MatMul" in kinds(check(lambda x, y: Tensor.einsum("bij,kjl->bkil", x, y), normal(2, 3, 4), normal(3, 4, 2)))
    check(lambda x, y: (x @ y, y.dot(y)), normal(3, 4), normal(4))


def test_a_network_has_the_operators_that_people_expect() -> None:
    model = Network()
    data = check(model, normal(2, 3, 8, 8))
    found = kinds(data)
    assert {"Conv", "Relu", "MaxPool", "MatMul", "Softmax"} <= set(found)
    assert len(found) <= 18
    assert {"conv.weight", "conv.bias", "norm.running_mean", "linear.weight"} <= stored(data)


def test_windows_side_by_side_are_a_pool() -> None:
    assert kinds(check(lambda x: x.max_pool2d(2), normal(2, 3, 4, 6))) == ["MaxPool"]
    check(lambda x: x.max_pool2d((3, 2)), normal(1, 2, 7, 5))
    axes = {"x": {0: "batch"}}
    check(lambda x: x.max_pool2d(2), normal(2, 3, 4, 6), others=[(normal(1, 3, 4, 6),)], dynamic_axes=axes)


def test_files_have_two_gibibytes_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[onnx.export.__module__], "MOST_BYTES", 100)
    with pytest.raises(NotSupportedError, match="messages of protobuf at most 100"):
        onnx.export(lambda x: x + 1, normal(3))


def test_load_export_load_is_the_same() -> None:
    x = normal(2, 3, 8, 8)
    first = onnx.load(onnx.export(Network(), x, dynamic_axes={"image": {0: "batch"}}))
    assert [str(port.type) for port in first.inputs] == ["float32[batch, 3, 8, 8]"]
    data = onnx.export(first, {"image": x})
    second = onnx.load(data)
    assert "Conv" in kinds(data)
    assert "conv.weight" in second.graph.constants
    np.testing.assert_allclose(second(image=x)["output"].numpy(), first(image=x)["output"].numpy(), 1e-6, 1e-7)


def test_axes_of_any_size() -> None:
    axes = {"x": {0: "rows"}}
    others = [(normal(1, 4),), (normal(7, 4),)]
    for function in (
        lambda x: x.mean(0),
        lambda x: (x @ x.T).reshape(-1),
        lambda x: x.scaled_dot_product_attention(x, x, is_causal=True),
        lambda x: Tensor.cat(x, x) + Tensor.arange(x.shape[0] * 2).reshape(-1, 1),
        lambda x: (x[-1], x.cumsum(0)),
    ):
        check(function, normal(3, 4), others=others, dynamic_axes=axes)


def test_positions_and_order() -> None:
    x, places = normal(4, 3), Tensor([[2, 0, 1], [1, -1, 2]])
    check(lambda x, places: (x[places], x.gather(1, places.maximum(0))), x, places)
    check(lambda x: (*x.topk(2), *x.sort(0, descending=True), x.argmax(1)), x)
    check(nn.Embedding(5, 2), Tensor([[1, 4], [0, 2]]))
    check(lambda x, i: x.scatter_reduce(0, i, x, "sum"), x, Tensor([[0, 0, 1], [2, 2, 2], [3, 0, 0], [1, 1, 1]]))


def test_what_is_written_into_a_tensor() -> None:
    def function(x: Tensor) -> Tensor:
        x = x + 1
        x[Tensor([2])] = 3
        return x

    def window(x: Tensor) -> Tensor:
        x = x + 1
        x[1:3] = x[2:4]
        x[:, 1] = 5
        x[::2] = -x[1::2].flip(1)
        x.T[2, 3] = 7
        return x

    check(function, normal(4, 3))
    check(window, normal(4, 3))


def test_loops_and_choices() -> None:
    def step(state: Tensor, part: Tensor) -> tuple[Tensor, Tensor]:
        return state + part, state * part

    state, parts = normal(3), normal(4, 3)
    assert "Scan" in kinds(check(lambda s, p: whit.scan(step, s, p), state, parts))
    check(lambda s, p: whit.scan(step, s, p, reverse=True), state, parts)
    check(lambda s: whit.fori_loop(0, 4, lambda i, c: c * 1.5 + i, s), state)
    assert "Loop" in kinds(check(lambda s: whit.while_loop(lambda c: c.sum() < 99, lambda c: c * c + 1, s), state))
    data = check(lambda s: whit.cond(s.sum() > 0, lambda c: c * 2, lambda c: c - 1, s), state, others=[(-state,)])
    assert "If" in kinds(data)
    lstm = nn.LSTM(3, 2)
    check(lambda x: lstm(x)[0], normal(4, 1, 3), others=[(normal(6, 1, 3),)], dynamic_axes={"x": {0: "steps"}})


def test_functions_and_jits_are_looked_into() -> None:
    @whit.function
    def twice(x: Tensor) -> Tensor:
        return x * 2

    assert kinds(check(lambda x: twice(twice(x)), normal(3))) == ["Mul", "Mul"]
    assert kinds(check(whit.TinyJit(lambda x: x + 1), normal(3))) == ["Add"]


def test_names_and_files(tmp_path: Path) -> None:
    path = tmp_path / "sum.onnx"
    data = onnx.export(lambda a, b: {"sum": a + b, "a": a}, (normal(2), normal(2)), path, output_names=["s", "same"])
    assert path.read_bytes() == data
    model = onnx.load(path)
    assert ([port.name for port in model.inputs], [port.name for port in model.outputs]) == (["a", "b"], ["s", "same"])
    assert model.opsets == {"ai.onnx": 18}
    assert onnx.load(onnx.export(lambda x: x, np.zeros(3, np.float32), opset=21)).opsets == {"ai.onnx": 21}
    assert [port.name for port in onnx.load(onnx.export(lambda **given: given["q"] + 1, {"q": normal(2)})).inputs] == [
        "q"
    ]


def test_a_long_chain_is_written() -> None:
    def chain(x: Tensor) -> Tensor:
        for _ in range(3000):
            x = x.sin() + 1
        return x

    assert len(kinds(onnx.export(chain, normal(2)))) == 6000


def test_values_do_not_depend_on_what_is_changed_later() -> None:
    weight = Tensor([1.0, 2.0]).realize()
    data = onnx.export(lambda x: x * weight, normal(2))
    weight.assign(weight + 1).realize()
    assert onnx.load(data)(x=np.ones(2, np.float32))["output"].tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("function", "options", "error", "words"),
    [
        (lambda x: x.bitcast(dtypes.int32), {}, NotSupportedError, "bitcast has no form in ONNX"),
        (lambda x: x.cummax(0), {}, NotSupportedError, "ONNX has the sum, not max"),
        (lambda x: x + Tensor.rand(3), {}, NotSupportedError, "draws random numbers"),
        (lambda x: x + x.numpy(), {}, ArgumentError, "the value of a tensor is asked for"),
        (nn.BatchNorm(3).train(), {}, NotSupportedError, "a file has no state"),
        (lambda x: [], {}, ArgumentError, "returns no tensor"),
        (3, {}, ArgumentError, "cannot be called"),
        (onnx.load(onnx.export(abs, normal(2, 3))), {"dynamic_axes": {"x": {0: "n"}}}, ArgumentError, "of a model"),
        (lambda x: x, {"opset": 9}, ArgumentError, "Use one of 18 to 25"),
        (lambda x: x, {"dynamic_axes": {"y": {0: "n"}}}, ArgumentError, "which is no input"),
        (lambda x: x, {"dynamic_axes": {"x": {4: "n"}}}, ShapeError, "axis 4 of x"),
        (lambda x: x, {"input_names": ["a", "b"]}, ArgumentError, "the inputs are 1, their names a, b"),
        (lambda x: x, {"output_names": ["x"]}, ArgumentError, "which no input has"),
    ],
)
def test_what_cannot_be_a_file_is_an_error(function: Any, options: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=r"onnx\.export|asked for") as caught:
        onnx.export(function, normal(2, 3), **options)
    assert words in str(caught.value)
