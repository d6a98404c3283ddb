"""`vmap`: axes, containers, sizes, what a function may do inside, kernels, and what it cannot do."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

from whit import (
    GlobalCounters,
    Tensor,
    TinyJit,
    Variable,
    checkpoint,
    dtypes,
    function,
    grad,
    hessian,
    hvp,
    jacfwd,
    jacobian,
    jacrev,
    jvp,
    linearize,
    map_tensors,
    nn,
    register_container,
    vmap,
)
from whit.errors import ArgumentError, OutOfRangeError, ShapeError
from whit.ir.uop import live_nodes

X = np.arange(24.0).reshape(2, 3, 4) / 7 - 1.5
Y = np.cos(X)


def kernels(*tensors: Tensor) -> int:
    GlobalCounters.reset()
    Tensor.realize(*tensors)
    return GlobalCounters.kernel_count


# ---- axes and containers


@pytest.mark.parametrize("axis", range(-3, 3))
@pytest.mark.parametrize("out", range(-3, 3))
def test_any_axis_goes_to_any_place(axis: int, out: int) -> None:
    found = vmap(lambda x: x.cumsum(0) * x.shape[0], axis, out)(Tensor(X))
    moved = np.moveaxis(X, axis, 0)
    wanted = np.stack([x.cumsum(0) * x.shape[0] for x in moved], out)
    np.testing.assert_allclose(found.numpy(), wanted)


class Point(NamedTuple):
    x: Tensor
    y: Tensor


@dataclass
class Layer:
    weight: Tensor
    name: str


class Box:
    def __init__(self, inside: Any) -> None:
        self.inside = inside


register_container(Box, lambda box: ((box.inside,), None), lambda rest, parts: Box(*parts))


def test_containers_of_all_kinds() -> None:
    def f(values: dict[str, Any], point: Point) -> dict[str, Any]:
        a, (b, scale) = values["a"], values["pair"]
        assert a.shape == b.shape == (3, 4) and point.y.shape == (2, 3, 4)
        return {"sum": a.sum() * scale, "layer": Layer(b + 1, "kept"), "box": Box([point.x, point.y])}

    values = {"a": Tensor(X), "pair": [Tensor(X).transpose(0, 1), 2]}
    axes: Any = ({"a": 0, "pair": 0}, Point(0, None))  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="the batch has size 2 in one argument and 3 in another"):
        vmap(f, axes)(values, Point(Tensor(X), Tensor(X)))
    axes = ({"a": 0, "pair": [1, None]}, Point(0, None))  # type: ignore[arg-type]
    found = vmap(f, axes, {"sum": 0, "layer": 1, "box": Box([0, None])})(values, Point(Tensor(X), Tensor(X)))
    np.testing.assert_allclose(found["sum"].numpy(), X.sum((1, 2)) * 2)
    assert found["layer"].name == "kept" and found["layer"].weight.shape == (3, 2, 4)
    assert isinstance(found["box"], Box)
    np.testing.assert_array_equal(found["box"].inside[1].numpy(), X)


def test_results_that_are_the_same_for_all() -> None:
    w = Tensor(X[0])
    one, many = vmap(lambda x: (w * 2, w * 2), out_axes=(None, 0))(Tensor(X))
    np.testing.assert_array_equal(one.numpy(), 2 * X[0])
    np.testing.assert_array_equal(many.numpy(), np.stack([2 * X[0]] * 2))


def test_arguments_by_name_are_shared() -> None:
    np.testing.assert_allclose(vmap(lambda x, w: x * w)(Tensor(X), w=Tensor(Y[0])).numpy(), X * Y[0])


def test_values_that_are_no_tensors_pass_through() -> None:
    found = vmap(lambda x, n, text: {"x": x**n, "text": text, "n": n})(Tensor(X), 2, "hello")
    assert found["text"] == "hello" and found["n"] == 2
    np.testing.assert_allclose(found["x"].numpy(), X**2)


@pytest.mark.parametrize("size", [0, 1])
def test_batches_of_no_and_of_one_example(size: int) -> None:
    x = Tensor(X[:size])

    def f(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x[0] = 3.0
        return x.softmax(-1), (x @ x.T).sort()[0], x[Tensor([0, 0])]

    for found, wanted in zip(vmap(f)(x), f(Tensor(X[0])), strict=True):
        assert found.shape == (size, *wanted.shape)
        if size:
            np.testing.assert_allclose(found.numpy()[0], wanted.numpy())
        else:
            assert found.numpy().size == 0


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64"])
def test_dtypes(dtype: str) -> None:
    data = np.random.default_rng(0).integers(0, 5, (3, 4, 5))
    x = Tensor(data).cast(dtype)

    def f(x: Tensor) -> tuple[Tensor, ...]:
        return x.max(0), x.sum(-1), x.cumsum(1), x.sort(0)[0], x.flip(1).T, x.where(x, 0 * x), x[1], x.cast("float32")

    for found, *rows in zip(vmap(f)(x), *(f(x[i]) for i in range(3)), strict=True):
        wanted = np.stack([row.float().numpy() for row in rows])
        assert found.dtype is rows[0].dtype
        np.testing.assert_array_equal(found.float().numpy(), wanted)


def test_batches_of_a_symbolic_size() -> None:
    n = Variable("n", 1, 4).bind(3)
    x = Tensor(np.arange(12.0).reshape(4, 3)).shrink(((0, n), None))

    @function
    def inner(x: Tensor) -> Tensor:
        return x.tanh() * 2

    def f(x: Tensor) -> Tensor:
        return inner(x) + x.sum()

    found = vmap(f)(x)
    data = np.arange(12.0).reshape(4, 3)[:3]
    assert found.shape[1:] == (3,)
    np.testing.assert_allclose(found.sum(0).numpy(), (np.tanh(data) * 2 + data.sum(1, keepdims=True)).sum(0))


def test_examples_of_a_symbolic_size() -> None:
    n = Variable("n", 1, 4).bind(3)
    x = Tensor(X).shrink((None, None, (0, n)))
    np.testing.assert_allclose(vmap(lambda x: (x * x).sum(-1))(x).numpy(), (X[..., :3] ** 2).sum(-1))


# ---- what a function does inside


def test_writes_into_arguments_and_into_what_was_made_inside() -> None:
    def f(x: Tensor, i: Tensor) -> Tensor:
        made = Tensor.zeros(4, 4, dtype="double")
        made[1:, 2] = x[:, 0]
        made[i] += 1.0
        x[0, ::2] = made[1, 2] * 10
        view = x[1]
        view -= 1
        x.assign(x * 2)
        return made[:3] + x

    x, places = Tensor(X), Tensor([[0, 1], [2, 2]])
    found = vmap(f)(x, places).numpy()
    wanted = np.stack([f(Tensor(X[i].copy()), places[i]).numpy() for i in range(2)])
    np.testing.assert_allclose(found, wanted)
    np.testing.assert_array_equal(x.numpy(), X)


def test_a_write_of_a_batch_into_what_has_none() -> None:
    w = Tensor(np.zeros((3, 4)))

    def f(x: Tensor, i: Tensor) -> Tensor:
        mine = w.clone()
        mine[i, 1:3] = x[0, :2]
        return mine.scatter_reduce(1, Tensor([[0], [0], [3]]), x[:, :1], "sum")

    found = vmap(f)(Tensor(X), Tensor([2, 0])).numpy()
    wanted = np.stack([f(Tensor(X[i]), Tensor([2, 0])[i]).numpy() for i in range(2)])
    np.testing.assert_allclose(found, wanted)
    assert not w.numpy().any()


@pytest.mark.parametrize("mapped", ["data", "places", "both"])
@pytest.mark.parametrize(
    "read",
    [
        lambda x, i: x[i],
        lambda x, i: x[:, i],
        lambda x, i: x.gather(1, i.reshape(3, 1)),
        lambda x, i: x[i, 1:],
        lambda x, i: x.gather(1, i.reshape(1, 3).expand(3, 3)),
        lambda x, i: x.scatter(0, i.reshape(3, 1), x[:, 3:]),
        lambda x, i: x.masked_fill(x > 0.1 * i.sum(), 0.0),
        lambda x, i: x[i[0]],
        lambda x, i: i.one_hot(4) + x,
    ],
)
def test_reading_at_positions(read: Callable[..., Tensor], mapped: str) -> None:
    places = np.array([[0, 2, 1], [2, 2, 0]])
    axes = (None if mapped == "places" else 0, None if mapped == "data" else 0)
    x = X[0] if axes[0] is None else X
    i = places[0] if axes[1] is None else places
    found = vmap(read, axes)(Tensor(x), Tensor(i)).numpy()
    wanted = [
        read(Tensor(x if axes[0] is None else x[k]), Tensor(i if axes[1] is None else i[k])).numpy() for k in range(2)
    ]
    np.testing.assert_allclose(found, np.stack(wanted))


@pytest.mark.parametrize("wrap", [TinyJit, function, lambda f: lambda *x: checkpoint(f, *x)])
def test_functions_that_are_wrapped(wrap: Any) -> None:
    plain = lambda x, w: (x @ w).softmax(-1).log().sum()  # noqa: E731
    x, w = Tensor(X), Tensor(Y[0].T.copy())
    for transform in (lambda f: f, grad, lambda f: lambda *x: jvp(f, x, x)[1]):
        found = vmap(transform(wrap(plain)), (0, None))(x, w)
        wanted = [transform(plain)(Tensor(X[i]), w).numpy() for i in range(2)]
        np.testing.assert_allclose(found.numpy(), np.stack(wanted), rtol=1e-10, atol=1e-14)


def test_functions_of_several_results_in_a_batch() -> None:
    @function
    def block(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        return x @ w, w.sum(0)

    def f(x: Tensor, w: Tensor) -> Tensor:
        for _ in range(3):
            x, total = block(x, w)
        return (x * total).sum()

    x, w = Tensor(X), Tensor(np.cos(np.arange(16.0)).reshape(4, 4))
    for argument in (0, 1):
        found = vmap(grad(f, argument), (0, None))(x, w).numpy()
        wanted = [grad(f, argument)(Tensor(X[i]), w).numpy() for i in range(2)]
        np.testing.assert_allclose(found, np.stack(wanted))
        together = grad(lambda x, w: vmap(f, (0, None))(x, w).sum(), argument)(x, w).numpy()
        np.testing.assert_allclose(together, np.stack(wanted).sum(0) if argument else np.stack(wanted))


def test_custom_functions_keep_their_gradient() -> None:
    f = Tensor.custom_function(lambda x, w: (x @ w, x.sum()), lambda dy, y, x, w: (dy[0] @ w.T * 2, x.T @ dy[0] * 3))
    x, w = Tensor(X), Tensor(Y[0].T.copy())
    one = lambda x, w: (f(x, w)[0] ** 2).sum()  # noqa: E731
    for argument in (0, 1):
        wanted = np.stack([grad(one, argument)(Tensor(X[i]), w).numpy() for i in range(2)])
        np.testing.assert_allclose(vmap(grad(one, argument), (0, None))(x, w).numpy(), wanted)
        found = grad(lambda x, w: vmap(one, (0, None))(x, w).sum(), argument)(x, w).numpy()
        np.testing.assert_allclose(found, wanted.sum(0) if argument else wanted)
    _, tangent = jvp(vmap(one, (0, None)), (x, w), (x, w))
    np.testing.assert_allclose(tangent.numpy(), [jvp(one, (x[i], w), (x[i], w))[1].item() for i in range(2)])


def test_a_captured_function_with_a_batch_inside() -> None:
    step = TinyJit(lambda x, w: vmap(grad(lambda x, w: (x @ w).sin().sum()), (0, None))(x, w))
    for i in range(4):
        x, w = Tensor(X + i), Tensor(Y[0].T * (i + 1))
        wanted = (np.cos((X + i) @ (Y[0].T * (i + 1)))) @ (Y[0] * (i + 1))
        np.testing.assert_allclose(step(x, w).numpy(), wanted)


def test_a_batch_inside_of_a_function_of_the_graph() -> None:
    @function
    def f(x: Tensor) -> Tensor:
        return vmap(lambda x: x * x.sum())(x)

    np.testing.assert_allclose(f(Tensor(X)).numpy(), X * X.sum((1, 2), keepdims=True))


def test_values_of_tensors_from_outside_can_be_read() -> None:
    w = Tensor([2.0])
    assert vmap(lambda x: x * w.item() if w.item() > 1 else x)(Tensor([1.0, 3.0])).tolist() == [2.0, 6.0]
    w = w * 2
    assert vmap(lambda x: x * w.realize().item())(Tensor([1.0])).tolist() == [4.0]


SCALE = {"by": 2.0}


def scaled(x: Tensor) -> Tensor:
    return (x * x * SCALE["by"]).sum()


@pytest.mark.parametrize(
    "transformed",
    [
        vmap(scaled),
        grad(scaled),
        vmap(grad(scaled)),
        jacobian(scaled),
        hessian(scaled),
        lambda x: jvp(scaled, (x,), (x,))[1],
        lambda x: linearize(scaled, x)[1](x),
        lambda x: hvp(scaled, (x,), (x,))[0],
    ],
)
def test_a_captured_transform_sees_what_its_function_reads(transformed: Any) -> None:
    step, x = TinyJit(transformed), Tensor(X[0])
    try:
        for by in (2.0, 2.0, 3.0, 3.0, 2.0):
            SCALE["by"] = by
            np.testing.assert_allclose(step(x).numpy(), transformed(x).numpy())
    finally:
        SCALE["by"] = 2.0


def test_layers_and_methods_are_functions() -> None:
    layer, x = nn.Linear(4, 2), Tensor(X[0]).float()
    np.testing.assert_allclose(vmap(layer)(x).numpy(), layer(x).numpy(), rtol=1e-6)
    assert not hasattr(vmap(layer), "weight")
    np.testing.assert_allclose(vmap(Tensor.softmax)(x).numpy(), x.softmax(-1).numpy(), rtol=1e-6)
    found = vmap(nn.LayerNorm(4))(x).numpy()
    np.testing.assert_allclose(found, nn.LayerNorm(4)(x).numpy(), rtol=1e-5, atol=1e-6)


# ---- random numbers


def test_random_numbers_of_each_example_are_one_draw_for_all() -> None:
    def f(x: Tensor) -> Tensor:
        return x + Tensor.randn(3) * 2 + vmap(lambda y: y * Tensor.rand(2), randomness="different")(x).sum(-1)

    x = Tensor.ones(4, 3)
    Tensor.manual_seed(1)
    found = vmap(f, randomness="different")(x).numpy()
    Tensor.manual_seed(1)
    wanted = 1 + Tensor.randn(4, 3).numpy() * 2 + Tensor.rand(4, 3, 2).numpy().sum(-1)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_the_same_random_numbers_for_all_examples() -> None:
    Tensor.manual_seed(1)
    found = vmap(lambda x: x + Tensor.rand(3), randomness="same")(Tensor.zeros(4, 3)).numpy()
    Tensor.manual_seed(1)
    np.testing.assert_array_equal(found, np.stack([Tensor.rand(3).numpy()] * 4))


def test_dropout_differs_between_examples() -> None:
    with Tensor.train():
        found = vmap(lambda x: x.dropout(0.5), randomness="different")(Tensor.ones(8, 64)).numpy()
    assert len({tuple(row) for row in found}) == 8


def test_random_numbers_in_a_captured_batch_differ_from_call_to_call() -> None:
    f = TinyJit(lambda x: vmap(lambda x: x + Tensor.rand(2), randomness="different")(x))
    found = [f(Tensor.zeros(3)).numpy() for _ in range(4)]
    assert len({row.tobytes() for row in found}) == 4


# ---- nesting


def mlp(p: list[Tensor], x: Tensor) -> Tensor:
    return ((x @ p[0] + p[1]).tanh() @ p[2]).sum()


def parameters() -> list[Tensor]:
    generator = np.random.default_rng(0)
    return [Tensor(generator.normal(size=shape)) for shape in ((4, 5), (5,), (5, 2))]


def test_gradients_of_each_example_are_those_of_a_loop() -> None:
    p, x = parameters(), Tensor(X.reshape(6, 4))
    found = vmap(grad(mlp), (None, 0))(p, x)
    for place, name in enumerate(p):
        wanted = [grad(mlp)(p, x[i])[place].numpy() for i in range(6)]
        assert found[place].shape == (6, *name.shape)
        np.testing.assert_allclose(found[place].numpy(), np.stack(wanted), rtol=1e-10)


def test_three_transforms_in_any_order() -> None:
    x = Tensor(X[0])
    f = lambda x: (x.sin() * x.sum()).sum()  # noqa: E731
    wanted = np.stack([hessian(f)(x[i]).numpy() @ X[0, i] for i in range(3)])
    one = vmap(lambda x: jvp(grad(f), (x,), (x,))[1])(x)
    two = jvp(vmap(grad(f)), (x,), (x,))[1]
    three = grad(lambda x, v: (grad(lambda x: vmap(f)(x).sum())(x) * v).sum())(x, x)
    four = vmap(lambda x: hvp(f, (x,), (x,))[0])(x)
    five = vmap(lambda x: linearize(grad(f), x)[1](x))(x)
    six = linearize(vmap(grad(f)), x)[1](x)
    seven = vmap(vmap(grad(lambda x: x.sin())))(x)
    for found in (one, two, three, four, five, six):
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-10)
    np.testing.assert_allclose(seven.numpy(), np.cos(X[0]))
    (last,) = vmap(f)(x).sum().gradient(x)
    np.testing.assert_allclose(vmap(lambda x: f(x).gradient(x)[0])(x).numpy(), last.numpy())


def test_the_hessian_of_a_network_is_that_of_small_steps() -> None:
    p, x = parameters(), Tensor(X[0, 0])
    found = hessian(mlp)(p, x)
    step = 1e-5
    for i, one in enumerate(p):
        data = one.numpy()
        for at in [(0,) * data.ndim, tuple(n - 1 for n in data.shape)]:
            ends = []
            for sign in (1, -1):
                moved = data.copy()
                moved[at] += sign * step
                ends.append(grad(mlp)([Tensor(moved) if k == i else other for k, other in enumerate(p)], x))
            for j in range(3):
                wanted = (ends[0][j].numpy() - ends[1][j].numpy()) / (2 * step)
                np.testing.assert_allclose(found[j][i].numpy()[(..., *at)], wanted, rtol=1e-6, atol=1e-8)
                np.testing.assert_allclose(found[i][j].numpy()[at], wanted, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("transform", [jacobian, jacrev, jacfwd])
def test_jacobians(transform: Any) -> None:
    x, w = Tensor(X[0]), Tensor(Y[0])

    def f(x: Tensor, p: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"product": x @ p["w"].T, "sum": (x * x).sum()}

    found = transform(f)(x, {"w": w})
    assert found["product"].shape == (3, 3, 3, 4) and found["sum"].shape == (3, 4)
    np.testing.assert_allclose(found["sum"].numpy(), 2 * X[0])
    np.testing.assert_allclose(found["product"].numpy(), np.einsum("ik,jl->ijkl", np.eye(3), Y[0]))
    both = transform(f, argnums=(0, 1))(x, {"w": w})
    np.testing.assert_allclose(both["product"][1]["w"].numpy(), np.einsum("jk,il->ijkl", np.eye(3), X[0]))
    inside, aux = transform(lambda x: (x.sin(), x), has_aux=True)(x[0])
    np.testing.assert_allclose(inside.numpy(), np.diag(np.cos(X[0, 0])))
    np.testing.assert_array_equal(aux.numpy(), X[0, 0])
    assert transform(lambda x: x * 2)(Tensor.ones(0, 3)).shape == (0, 3, 0, 3)


def test_jacobians_of_what_is_computed_at_once() -> None:
    generator = np.random.default_rng(0)
    a, b = Tensor(generator.normal(size=(3, 3)) + 4 * np.eye(3)), Tensor(generator.normal(size=(3, 2)))
    inverse, solution = np.linalg.inv(a.numpy()), np.linalg.solve(a.numpy(), b.numpy())
    wanted = -np.einsum("ik,jl->ijkl", inverse, solution.T)
    for transform in (jacrev, jacfwd, jacobian):
        np.testing.assert_allclose(transform(lambda a: a.solve(b))(a).numpy(), wanted, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(
            transform(lambda b: a.solve(b))(b).numpy(), np.einsum("ik,jl->ijkl", inverse, np.eye(2)), atol=1e-12
        )
    batch = Tensor(np.stack([a.numpy(), a.numpy() * 2]))
    found = vmap(jacfwd(lambda a: a.solve(b)))(batch).numpy()
    np.testing.assert_allclose(found, np.stack([wanted, wanted / 4]), rtol=1e-9, atol=1e-12)
    _, push = linearize(lambda a: a.solve(b), a)
    np.testing.assert_allclose(push(a).numpy(), -solution, rtol=1e-9)


# ---- kernels and operations


def test_a_product_of_each_example_is_one_kernel() -> None:
    x, w, ws = (
        Tensor(np.random.default_rng(i).normal(size=s)) for i, s in enumerate([(8, 4, 16), (16, 5), (8, 16, 5)])
    )
    Tensor.realize(x, w, ws)
    assert kernels(vmap(lambda x: x @ w)(x)) == 1
    assert kernels(vmap(lambda x, w: x @ w)(x, ws)) == 1
    assert kernels(vmap(lambda w: x[0] @ w)(ws)) == 1
    assert kernels(vmap(vmap(lambda x, w: x @ w, (0, None)))(x, ws)) == 1
    assert kernels(vmap(lambda x: (x @ w + 1).relu())(x)) == 1


def test_a_convolution_of_each_example_is_one_kernel() -> None:
    x, w = Tensor(np.ones((4, 1, 3, 8, 8), np.float32)), Tensor(np.ones((5, 3, 3, 3), np.float32))
    assert kernels(vmap(lambda x: x.conv2d(w))(x)) == 1
    assert kernels(vmap(lambda x: x.softmax(-1))(x)) == 1


def test_operations_of_gradients_of_each_example_and_of_second_derivatives() -> None:
    generator = np.random.default_rng(0)
    p = [Tensor(generator.normal(size=s).astype(np.float32)).realize() for s in ((64, 128), (128, 10))]
    x = Tensor(generator.normal(size=(32, 64)).astype(np.float32)).realize()

    def loss(p: list[Tensor], x: Tensor) -> Tensor:
        return (x @ p[0]).tanh().matmul(p[1]).logsumexp(-1).sum()

    def counted(tensors: list[Tensor]) -> tuple[int, int]:
        return kernels(*tensors), GlobalCounters.global_ops

    batch_kernels, batch = counted(grad(loss)(p, x))
    each_kernels, each = counted(vmap(grad(loss), (None, 0))(p, x))
    second_kernels, second = counted(list(hvp(lambda p: loss(p, x), (p,), (p,))[0]))
    assert each <= 1.1 * batch and each_kernels <= batch_kernels
    assert second <= 3 * batch and second_kernels <= 2 * batch_kernels


# ---- what cannot be


OUTSIDE = Tensor(np.zeros(4)).realize()


def add_outside(x: Tensor) -> Tensor:
    OUTSIDE[0] += x[0, 0]
    return x


def backward_inside(x: Tensor) -> Tensor:
    w = WEIGHT
    (x * w).sum().backward()
    return x


WEIGHT = Tensor(np.ones((3, 4)), requires_grad=True)


def chosen_by_value(x: Tensor) -> Tensor:
    return x if x.sum() > 0 else -x


def random(x: Tensor) -> Tensor:
    return x + Tensor.rand(4)


WRONG = [
    (lambda x: vmap(add_outside)(x), ArgumentError, "vmap: add_outside writes to a tensor from outside"),
    (lambda x: vmap(lambda x: OUTSIDE.assign(x[0]))(x), ArgumentError, "vmap: <lambda> writes to"),
    (lambda x: vmap(lambda x: OUTSIDE[1:].assign(x[0, 1:]))(x), ArgumentError, "vmap: <lambda> writes to a"),
    (lambda x: vmap(backward_inside)(x), ArgumentError, "vmap: backward_inside gives a gradient to a tensor"),
    (lambda x: vmap(chosen_by_value)(x), ArgumentError, "the value of a tensor is asked for"),
    (lambda x: vmap(lambda x: (x * 2).realize())(x), ArgumentError, "the value of a tensor is asked for"),
    (lambda x: vmap(lambda x: Tensor(x.numpy()))(x), ArgumentError, "the value of a tensor is asked for"),
    (lambda x: vmap(random)(x), ArgumentError, "vmap: random numbers (rand) in a function that is mapped"),
    (lambda x: vmap(random, randomness="often")(x), ArgumentError, "vmap: randomness='often'"),
    (lambda x: vmap(lambda x, y: x)(x, x[0, 0]), ShapeError, "vmap: the batch has size 2 in one argument"),
    (lambda x: vmap(lambda x: x)(x[0, 0, 0]), OutOfRangeError, "vmap: in_axes names axis 0 of argument 0, of shape ()"),
    (lambda x: vmap(lambda x: x, 3)(x), OutOfRangeError, "vmap: in_axes names axis 3 of argument 0"),
    (lambda x: vmap(lambda x: x, 0, 3)(x), OutOfRangeError, "vmap: out_axes names axis 3 of result, of shape (3, 4)"),
    (lambda x: vmap(lambda x: x, None)(x), ArgumentError, "vmap: no argument has a batch"),
    (lambda x: vmap(lambda: 1)(), ArgumentError, "vmap: no argument has a batch"),
    (lambda x: vmap(lambda x: x, (0, 0))(x), ArgumentError, "vmap: in_axes=(0, 0) has 2 entries for 1"),
    (lambda x: vmap(lambda x: x, ([0],))(x), ArgumentError, "vmap: in_axes has list of [0]"),
    (lambda x: vmap(lambda x: x, ("0",))(x), ArgumentError, "vmap: in_axes has '0'"),
    (lambda x: vmap(lambda x: [x], 0, [None])(x), ArgumentError, "vmap: out_axes is None for result[0]"),
    (lambda x: vmap(lambda x: [x], 0, {"a": 0})(x), ArgumentError, "vmap: out_axes has dict of ['a']"),
    (lambda x: jacrev(lambda x: x > 0)(x), Exception, "jacrev: only floats have derivatives"),
]  # fmt: skip


@pytest.mark.parametrize(("program", "kind", "message"), WRONG, ids=[message[:40] for _, _, message in WRONG])
def test_wrong_programs_say_what_is_wrong(program: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        program(Tensor(X))
    lines = str(caught.value).splitlines()
    assert lines[0].startswith(message), lines
    assert len(lines) >= 2
    assert not OUTSIDE.numpy().any() and WEIGHT.grad is None


def test_a_value_that_stays_behind_says_what_it_is() -> None:
    kept: list[Tensor] = []
    vmap(lambda x: kept.append(x) or x)(Tensor(X))  # type: ignore[func-returns-value]
    with pytest.raises(ArgumentError, match="stands for each example of a batch"):
        kept[0].numpy()


def test_a_function_that_raises_leaves_nothing_behind() -> None:
    def f(x: Tensor) -> Tensor:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        vmap(f)(Tensor(X))
    assert TinyJit(lambda x: x + 1)(Tensor([1.0])).tolist() == [2.0]
    assert Tensor.rand(2).shape == (2,)
    OUTSIDE.assign(OUTSIDE + 0.0)


def test_training_with_gradients_of_functions() -> None:
    p, x = parameters(), Tensor(X.reshape(6, 4))
    loss = lambda p: (vmap(mlp, (None, 0))(p, x) ** 2).mean()  # noqa: E731
    first = loss(p).item()
    for _ in range(20):
        p = map_tensors(lambda a, b: (a - 0.02 * b).realize(), p, grad(loss)(p))
    assert loss(p).item() < first / 2
    assert dtypes.float64 is p[0].dtype


def test_numbers_of_python_are_no_examples() -> None:
    assert vmap(lambda x, factor: x * factor)(Tensor([1.0, 2.0]), 2.5).tolist() == [2.5, 5.0]
    np.testing.assert_array_equal(vmap(lambda x: x * 2)(X).numpy(), X * 2)


@pytest.mark.slow
def test_convolutions_of_batches_of_batches() -> None:
    generator = np.random.default_rng(0)
    x, w = Tensor(generator.normal(size=(2, 3, 1, 2, 5, 5))), Tensor(generator.normal(size=(3, 2, 3, 3)))

    def one(x: Tensor, w: Tensor) -> Tensor:
        return (x.conv2d(w).max_pool2d((2, 2)) ** 2).sum()

    each = vmap(vmap(grad(one, 1), (0, None)), (0, None))(x, w)
    both = vmap(vmap(grad(one), (0, None)), (0, None))(x, w)
    for i in range(2):
        for j in range(3):
            np.testing.assert_allclose(each[i, j].numpy(), grad(one, 1)(x[i, j], w).numpy(), rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(both[i, j].numpy(), grad(one)(x[i, j], w).numpy(), rtol=1e-9, atol=1e-12)
    outer = grad(lambda w: vmap(vmap(one, (0, None)), (0, None))(x, w).sum())(w)
    np.testing.assert_allclose(outer.numpy(), each.sum((0, 1)).numpy(), rtol=1e-9)


def test_containers_of_the_user_in_captured_functions() -> None:
    step = TinyJit(lambda box, n: Box({"y": box.inside[0] * n, "x": box.inside[1]}))
    for i in range(4):
        found = step(Box([Tensor([1.0 + i]), Tensor([2.0])]), 3)
        assert isinstance(found, Box)
        assert found.inside["y"].tolist() == [3.0 + 3 * i] and found.inside["x"].tolist() == [2.0]
    assert len(step.captured) == 1
    assert step(Box((Tensor([1.0]), Tensor([2.0]))), 2).inside["y"].tolist() == [2.0]
    assert len(step.captured) == 2


@pytest.mark.slow
def test_nothing_is_left_behind() -> None:
    def run() -> None:
        p, x = parameters(), Tensor(X.reshape(6, 4))
        Tensor.realize(*vmap(grad(mlp), (None, 0))(p, x), *hvp(mlp, (p, x[0]), (p, x[0]))[0])
        jacobian(lambda x: (x @ x.T).inv())(Tensor(Y[0, :3, :3])).realize()

    for _ in range(3):
        run()
    gc.collect()
    before = live_nodes()
    for _ in range(3):
        run()
    gc.collect()
    assert live_nodes() <= before + 20
