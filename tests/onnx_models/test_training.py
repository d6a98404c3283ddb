"""Models from files are trained: weights are tensors, and what is computed of them is never out of date."""

from typing import Any

import numpy as np
import pytest

from onnx_models.write import graph, model, node, tensor, value
from whit import Tensor, TinyJit, nn, onnx
from whit.errors import ArgumentError, MissingError, NotSupportedError

pytestmark = pytest.mark.cpu

Arrays = dict[str, np.ndarray[Any, Any]]


def _random(seed: int, **shapes: tuple[int, ...]) -> Arrays:
    generator = np.random.default_rng(seed)
    return {
        name.replace("__", "."): (generator.standard_normal(shape) * 0.3).astype(np.float32)
        for name, shape in shapes.items()
    }


def _cnn() -> tuple[bytes, Arrays]:
    """A convolution, a norm, and a product with a matrix that is transposed in the file."""
    weights = _random(0, conv__weight=(4, 3, 3, 3), conv__bias=(4,), head__weight=(4, 5), head__bias=(5,))
    weights |= _random(1, norm__weight=(4,), norm__bias=(4,), norm__mean=(4,), norm__variance=(4,))
    weights["norm.variance"] = np.abs(weights["norm.variance"]) + 1
    nodes = [
        node("Conv", ["x", "conv.weight", "conv.bias"], ["c"], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c", "norm.weight", "norm.bias", "norm.mean", "norm.variance"], ["n"]),
        node("Relu", ["n"], ["r"]),
        node("GlobalAveragePool", ["r"], ["p"]),
        node("Flatten", ["p"], ["q"]),
        node("Transpose", ["head.weight"], ["t"], perm=[1, 0]),
        node("Gemm", ["q", "t", "head.bias"], ["y"], transB=1),
    ]
    stored = [tensor(name, array) for name, array in weights.items()]
    return model(nodes, [value("x", 1, ["n", 3, 6, 6])], [value("y", 1)], stored), weights


def _transformer() -> tuple[bytes, Arrays]:
    """One layer of attention with two heads, whose sizes are computed from the input's shape."""
    weights = _random(2, table=(11, 8), qkv=(8, 24), out=(8, 8), norm__weight=(8,), norm__bias=(8,), head=(8, 11))
    constants = {"0": np.array(0), "1": np.array(1), "heads": np.array([-1, 6, 3, 2, 4]), "flat": np.array([-1, 6, 8])}
    nodes = [
        node("Gather", ["table", "ids"], ["e"]),
        node("LayerNormalization", ["e", "norm.weight", "norm.bias"], ["n"]),
        node("MatMul", ["n", "qkv"], ["h"]),
        node("Reshape", ["h", "heads"], ["s"]),
        node("Transpose", ["s"], ["p"], perm=[2, 0, 3, 1, 4]),
        *(node("Gather", ["p", f"{i}"], [name], axis=0) for i, name in enumerate("qkv"[:2])),
        node("Gather", ["p", "2"], ["v"], axis=0),
        node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
        node("MatMul", ["q", "kt"], ["scores"]),
        node("Div", ["scores", "root"], ["scaled"]),
        node("Softmax", ["scaled"], ["shares"]),
        node("MatMul", ["shares", "v"], ["mixed"]),
        node("Transpose", ["mixed"], ["m"], perm=[0, 2, 1, 3]),
        node("Reshape", ["m", "flat"], ["together"]),
        node("MatMul", ["together", "out"], ["o"]),
        node("Add", ["o", "e"], ["residual"]),
        node("MatMul", ["residual", "head"], ["y"]),
    ]
    constants["2"] = np.array(2)
    stored = [tensor(name, array.astype(np.int64)) for name, array in constants.items()]
    stored += [tensor(name, array) for name, array in weights.items()]
    stored.append(tensor("root", np.array(2, np.float32)))
    return model(nodes, [value("ids", 7, ["n", 6])], [value("y", 1)], stored), weights


def _batches(kind: str) -> list[tuple[Any, Any]]:
    generator = np.random.default_rng(3)
    if kind == "cnn":
        return [(generator.standard_normal((6, 3, 6, 6)).astype("f"), generator.integers(0, 5, 6)) for _ in range(4)]
    return [(generator.integers(0, 11, (4, 6)), generator.integers(0, 11, (4, 6))) for _ in range(4)]


def _trained(data: bytes, kind: str, is_captured: bool) -> tuple[list[float], onnx.Model]:
    found = onnx.load(data)
    name = found.inputs[0].name
    batches = _batches(kind)
    found({name: batches[0][0]})  # captured before it is trained
    optimiser = nn.optim.SGD(found.parameters(), lr=0.1, momentum=0.9)

    def step(x: Tensor, y: Tensor) -> Tensor:
        with Tensor.train():
            optimiser.zero_grad()
            loss = found({name: x})["y"].reshape(-1, 5 if kind == "cnn" else 11).cross_entropy(y.reshape(-1))
            loss.backward()
            optimiser.step()
            return loss

    run: Any = TinyJit(step) if is_captured else step
    return [run(Tensor(x), Tensor(y)).item() for x, y in batches], found


@pytest.mark.parametrize("kind", ["cnn", "transformer"])
def test_captured_training_is_training_and_calls_see_the_new_weights(kind: str) -> None:
    data, before = _cnn() if kind == "cnn" else _transformer()
    losses, plain = _trained(data, kind, False)
    again, captured = _trained(data, kind, True)
    assert losses == pytest.approx(again, rel=1e-6)
    states = plain.state_dict(), captured.state_dict()
    assert states[0].keys() == states[1].keys() == before.keys()
    for name, old in before.items():
        np.testing.assert_allclose(states[0][name].numpy(), states[1][name].numpy(), 1e-5, 1e-7)
        assert name == "conv.bias" or np.abs(states[0][name].numpy() - old).max() > 1e-4  # a norm follows it
    x = {plain.inputs[0].name: _batches(kind)[0][0]}
    new = model_with(data, {name: each.numpy() for name, each in states[1].items()})
    expected = new(x)["y"].numpy()
    np.testing.assert_allclose(captured(x)["y"].numpy(), expected, 1e-5, 1e-6)
    np.testing.assert_allclose(captured.freeze()(x)["y"].numpy(), expected, 1e-5, 1e-6)


def model_with(data: bytes, weights: Arrays) -> onnx.Model:
    """A model from the same file, with other weights that it was given before anything ran."""
    found = onnx.load(data)
    found.load_state_dict({name: Tensor(array) for name, array in weights.items()})
    return found


def test_training_is_that_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    data, before = _cnn()
    losses, found = _trained(data, "cnn", True)
    w = {name: torch.tensor(array) for name, array in before.items()}
    trained = [each.requires_grad_() for name, each in w.items() if name not in ("norm.mean", "norm.variance")]
    optimiser = torch.optim.SGD(trained, lr=0.1, momentum=0.9)
    functions = torch.nn.functional
    for loss, (x, y) in zip(losses, _batches("cnn"), strict=True):
        optimiser.zero_grad()
        n = functions.conv2d(torch.tensor(x), w["conv.weight"], w["conv.bias"], padding=1)
        mean, variance = n.mean((0, 2, 3)), n.var((0, 2, 3), correction=0)
        w["norm.mean"] = w["norm.mean"] * 0.9 + mean.detach() * 0.1
        w["norm.variance"] = w["norm.variance"] * 0.9 + variance.detach() * 0.1
        shape = (1, -1, 1, 1)
        normal = (n - mean.reshape(shape)) / (variance.reshape(shape) + 1e-5).sqrt()
        r = (normal * w["norm.weight"].reshape(shape) + w["norm.bias"].reshape(shape)).relu()
        other = functions.cross_entropy(r.mean((2, 3)) @ w["head.weight"] + w["head.bias"], torch.tensor(y))
        other.backward()
        optimiser.step()
        assert loss == pytest.approx(other.item(), rel=1e-5)
    for name, each in found.state_dict().items():
        np.testing.assert_allclose(each.numpy(), w[name].detach().numpy(), 1e-4, 1e-5)


def test_parameters_are_what_operators_compute_with() -> None:
    found = onnx.load(_cnn()[0])
    assert {name for name, _ in found.named_buffers()} == {"norm.mean", "norm.variance"}
    assert len(list(found.parameters())) == 6
    assert set(nn.state.get_state_dict({"backbone": found})) == {f"backbone.{name}" for name in _cnn()[1]}


def test_what_says_how_to_compute_is_no_weight() -> None:
    """Scales of a Resize, and factors that sizes are computed with."""
    nodes = [
        node("Concat", ["ones", "twos"], ["scales"], axis=0),
        node("Resize", ["x", "", "scales"], ["larger"]),
        node("Shape", ["larger"], ["shape"]),
        node("Cast", ["shape"], ["sizes"], to=1),
        node("Mul", ["sizes", "factors"], ["half"]),
        node("Cast", ["half"], ["whole"], to=7),
        node("Reshape", ["larger", "whole"], ["r"]),
        node("Mul", ["r", "weight"], ["y"]),
    ]
    stored = {"ones": [1, 1], "twos": [2, 2], "factors": [1, 0.5, 2, 1], "weight": [3, 4]}
    tensors = [tensor(name, np.array(array, np.float32)) for name, array in stored.items()]
    found = onnx.load(model(nodes, [value("x", 1, [1, 2, 3, 1])], [value("y", 1)], tensors))
    x = {"x": np.arange(6, dtype=np.float32).reshape(1, 2, 3, 1)}
    before = found(x)["y"].numpy()
    assert list(found.weights) == ["weight"]
    np.testing.assert_array_equal(found(x)["y"].numpy(), before)
    found.weights["weight"].assign(Tensor([6.0, 8.0])).realize()
    np.testing.assert_array_equal(found(x)["y"].numpy(), before * 2)
    assert found.captures == 1


def test_gradients_by_name_and_by_the_input() -> None:
    data, weights = _cnn()
    found = onnx.load(data)
    x = Tensor(_batches("cnn")[0][0])
    loss, gradients = found.gradient(lambda out: out["y"].square().sum(), {"x": x})
    assert gradients.keys() == weights.keys() - {"norm.mean", "norm.variance"}
    y = found.traced({"x": x})["y"]
    np.testing.assert_allclose(gradients["head.bias"].numpy(), 2 * y.numpy().sum(0), 1e-4)
    assert loss.item() == pytest.approx((y.numpy() ** 2).sum(), rel=1e-5)
    (of_x,) = found.traced({"x": x})["y"].square().sum().gradient(x)
    assert np.abs(of_x.numpy()).max() > 0
    only = found.gradient(lambda out: out["y"].sum(), {"x": x}, ["head.weight"])[1]
    assert list(only) == ["head.weight"]


def test_wrong_calls_say_what_to_do() -> None:
    found = onnx.load(_cnn()[0])
    x = {"x": _batches("cnn")[0][0]}
    with pytest.raises(MissingError, match=r'no weight "head.wieght"') as error:
        found.gradient(lambda out: out["y"].sum(), x, ["head.wieght"])
    assert 'Did you mean "head.weight"' in str(error.value)
    with pytest.raises(ArgumentError, match="the loss is dict"):
        found.gradient(lambda out: out, x)  # type: ignore[arg-type, return-value]
    with pytest.raises(NotSupportedError, match="cannot be moved"):
        found.to("CPU")
    with pytest.raises(ValueError, match="gradient"):
        found(x)["y"].sum().gradient(found.weights["head.weight"])  # a captured call: no silent zeros


def test_weights_that_change_in_any_way_are_seen() -> None:
    data, _ = _cnn()
    found = onnx.load(data)
    x = {"x": _batches("cnn")[0][0]}
    first = found(x)["y"].numpy()
    weight, bias = found.weights["head.weight"], found.weights["head.bias"]
    weight.assign(weight * 2).realize()
    bias.assign(bias * 2)
    np.testing.assert_allclose(found(x)["y"].numpy(), first * 2, 1e-5, 1e-6)
    weight[:, :] = 0
    bias[1] = 7
    assert found(x)["y"].numpy()[0, 1] == 7
    change = TinyJit(lambda by: bias.assign(bias + by))
    for number in range(3):
        change(Tensor([1.0, 0, 0, 0, 0]))
        assert found(x)["y"].numpy()[0, 0] == pytest.approx(2 * _cnn()[1]["head.bias"][0] + number + 1, rel=1e-5)
    frozen = found.freeze()(x)["y"].numpy()
    bias.assign(bias * 0).realize()  # no weight of the model any more
    np.testing.assert_array_equal(found(x)["y"].numpy(), frozen)


def test_dropout_and_norms_follow_the_mode() -> None:
    nodes = [node("Dropout", ["x", "half"], ["y"])]
    found = onnx.load(
        model(nodes, [value("x", 1, [1000])], [value("y", 1)], [tensor("half", np.array(0.5, np.float32))])
    )
    ones = np.ones(1000, np.float32)
    assert (found(x=ones)["y"].numpy() == 1).all()
    found.train()
    once, twice = found(x=ones)["y"].numpy(), found(x=ones)["y"].numpy()
    assert {*once.tolist()} == {0, 2} and 350 < (once == 0).sum() < 650 and (once != twice).any()
    found.eval()
    with Tensor.train():  # what eval() said counts
        assert (found(x=ones)["y"].numpy() == 1).all()


def test_weights_in_branches_are_weights() -> None:
    then = graph(
        [node("Mul", ["x", "inside"], ["t"])], [], [value("t", 1)], [tensor("inside", np.full(3, 2, np.float32))]
    )
    other = graph([node("Mul", ["x", "around"], ["o"])], [], [value("o", 1)])
    nodes = [
        node("ReduceMax", ["x"], ["m"], keepdims=0),
        node("Greater", ["m", "zero"], ["c"]),
        node("If", ["c"], ["y"], then_branch=then, else_branch=other),
    ]
    stored = [tensor("zero", np.array(0, np.float32)), tensor("around", np.full(3, 5, np.float32))]
    found = onnx.load(model(nodes, [value("x", 1, [3])], [value("y", 1)], stored))
    assert set(found.weights) == {"inside", "around"}
    ones = np.ones(3, np.float32)
    assert (found(x=ones)["y"].tolist(), found(x=-ones)["y"].tolist()) == ([2.0] * 3, [-5.0] * 3)
    for each in found.weights.values():
        each.assign(each + 1).realize()
    assert (found(x=ones)["y"].tolist(), found(x=-ones)["y"].tolist()) == ([3.0] * 3, [-6.0] * 3)


def _choice() -> bytes:
    """An If whose condition depends on data, with another one in its branch."""
    deep = graph([node("Mul", ["x", "w"], ["d"])], [], [value("d", 1)])
    flat = graph([node("Neg", ["x"], ["f"])], [], [value("f", 1)])
    inner = node("If", ["large"], ["i"], then_branch=deep, else_branch=flat)
    then = graph([inner, node("Add", ["i", "w"], ["t"])], [], [value("t", 1)])
    other = graph([node("Exp", ["x"], ["o"])], [], [value("o", 1)])
    nodes = [
        node("ReduceMax", ["x"], ["m"], keepdims=0),
        node("Greater", ["m", "zero"], ["c"]),
        node("Greater", ["m", "two"], ["large"]),
        node("If", ["c"], ["y"], then_branch=then, else_branch=other),
    ]
    stored = [tensor("zero", np.array(0, np.float32)), tensor("two", np.array(2, np.float32))]
    stored.append(tensor("w", np.array([2, 3, 4], np.float32)))
    return model(nodes, [value("x", 1, [3])], [value("y", 1)], stored)


CHOICES = (
    (3, [8.0, 12.0, 16.0], [4.0, 4.0, 4.0]),
    (1, [1.0, 2.0, 3.0], [1.0, 1.0, 1.0]),
    (-1, [np.exp(-1)] * 3, [0.0] * 3),
)


def test_a_condition_on_data_becomes_a_choice_in_captured_training() -> None:
    found = onnx.load(_choice())
    weight = found.weights["w"]

    @TinyJit
    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        with Tensor.train():
            y = found({"x": x})["y"]
            return y, y.sum().gradient(weight)[0]

    for size, y, gradient in CHOICES * 2:
        results = [each.numpy() for each in step(Tensor.full((3,), float(size)).contiguous().realize())]
        np.testing.assert_allclose(results[0], y, 1e-6)
        np.testing.assert_allclose(results[1], gradient, 1e-6)


def test_a_condition_on_data_is_written_with_both_branches() -> None:
    first = onnx.load(_choice())
    again = onnx.load(onnx.export(first, {"x": Tensor([1.0, 1.0, 1.0])}))
    for size, y, _ in CHOICES:
        x = {"x": np.full(3, size, np.float32)}
        for each in (first, again):
            np.testing.assert_allclose(each(x)["y"].numpy(), y, 1e-6)


@pytest.mark.parametrize("kind", ["cnn", "transformer"])
def test_programs_see_each_weight_that_a_captured_function_changes_in_place(kind: str) -> None:
    """What programs compute of weights once (layouts, transforms of convolutions) is computed again."""
    data, before = _cnn() if kind == "cnn" else _transformer()
    found = onnx.load(data)
    x = {found.inputs[0].name: _batches(kind)[0][0]}
    weights = found.weights
    last = found(x)["y"].numpy()
    for name in before:
        change = TinyJit(lambda by, weight=weights[name]: weight.assign(weight * by + 0.1))
        for by in (1.2, 1.3, 1.4):
            change(Tensor([by]))
        wanted = model_with(data, {other: each.numpy() for other, each in weights.items()})(x)["y"].numpy()
        result = found(x)["y"].numpy()
        np.testing.assert_allclose(result, wanted, 1e-5, 1e-6)
        assert np.abs(result - last).max() > 1e-3
        last = result
    assert found.captures == 1
