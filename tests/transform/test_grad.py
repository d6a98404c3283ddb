"""`grad`, `value_and_grad`, `vjp`, `jvp`, `linearize`: containers, arguments, nesting, and what they cannot do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

from whit import Tensor, TinyJit, checkpoint, function, grad, hvp, jvp, linearize, map_tensors, value_and_grad, vjp
from whit.errors import ArgumentError, DTypeError, ShapeError
from whit.tensor.nested import flatten_tensors


class Pair(NamedTuple):
    w: Tensor
    b: Tensor


@dataclass(frozen=True)
class Layer:
    pair: Pair
    name: str


X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])


def layer() -> Layer:
    return Layer(Pair(Tensor([[0.5], [1.0], [-2.0]], dtype="double"), Tensor([0.1], dtype="double")), "first")


def loss(model: Layer, x: Tensor) -> Tensor:
    return ((x @ model.pair.w + model.pair.b) ** 2).sum()


def test_gradients_have_the_containers_of_their_argument() -> None:
    model, x = layer(), Tensor(X)
    value, found = value_and_grad(loss)(model, x)
    y = X @ model.pair.w.numpy() + 0.1
    assert isinstance(found, Layer) and isinstance(found.pair, Pair) and found.name == "first"
    assert value.item() == pytest.approx((y**2).sum())
    np.testing.assert_allclose(found.pair.w.numpy(), 2 * X.T @ y)
    np.testing.assert_allclose(found.pair.b.numpy(), [2 * y.sum()])


def test_argnums_names_one_argument_or_several() -> None:
    model, x = layer(), Tensor(X)
    (of_model, of_x) = grad(loss, argnums=(0, -1))(model, x)
    np.testing.assert_array_equal(of_x.numpy(), grad(loss, argnums=1)(model, x).numpy())
    np.testing.assert_array_equal(of_model.pair.w.numpy(), grad(loss)(model, x).pair.w.numpy())
    assert isinstance(grad(loss, argnums=(0,))(model, x), tuple)


def test_aux_comes_along() -> None:
    def f(x: Tensor) -> tuple[Tensor, dict[str, Any]]:
        y = x.sin()
        return y.sum(), {"y": y, "note": "kept"}

    x = Tensor(X)
    found, aux = grad(f, has_aux=True)(x)
    np.testing.assert_allclose(found.numpy(), np.cos(X))
    np.testing.assert_allclose(aux["y"].numpy(), np.sin(X))
    (value, again), same = value_and_grad(f, has_aux=True)(x)
    assert again["note"] == "kept" and value.item() == pytest.approx(np.sin(X).sum())
    np.testing.assert_array_equal(same.numpy(), found.numpy())
    with pytest.raises(ArgumentError, match="has_aux=True, and <lambda> returns Tensor"):
        grad(lambda x: x.sum(), has_aux=True)(x)


def test_keyword_arguments_are_passed_along() -> None:
    assert grad(lambda x, power: (x**power).sum())(Tensor([2.0]), power=3).tolist() == [12.0]


def test_gradients_nest() -> None:
    f = grad(grad(grad(lambda x: x**5)))
    assert f(2.0).item() == 240.0


def test_arrays_and_numbers_are_arguments() -> None:
    np.testing.assert_array_equal(grad(lambda x: (x * x).sum())(X).numpy(), 2 * X)


def test_writes_into_an_argument_are_seen_inside_alone() -> None:
    def f(x: Tensor) -> Tensor:
        x[0] = x[1] * 3
        x += 1
        return (x * x).sum()

    x = Tensor([1.0, 2.0])
    assert grad(f)(x).tolist() == [0.0, 2 * 7 * 3 + 2 * 3]
    assert x.tolist() == [1.0, 2.0]


def test_backward_inside_a_function() -> None:
    def f(x: Tensor) -> Tensor:
        w = Tensor([3.0, 4.0], requires_grad=True)
        (w * w * x).sum().backward()
        return w.grad.sum()

    assert grad(f)(Tensor([1.0, 1.0])).tolist() == [6.0, 8.0]


def test_gradient_of_what_grad_gives() -> None:
    x = Tensor([1.0, 2.0])
    (found,) = grad(lambda x: (x**3).sum())(x).sum().gradient(x)
    assert found.tolist() == [6.0, 12.0]


@pytest.mark.parametrize("wrap", [TinyJit, function, lambda f: lambda *x: checkpoint(f, *x)])
def test_gradients_of_functions_that_are_wrapped(wrap: Any) -> None:
    plain = lambda x, w: ((x @ w).tanh() ** 2).sum()  # noqa: E731
    x, w = Tensor(X), Tensor(X.T.copy())
    wanted = grad(plain)(x, w).numpy()
    np.testing.assert_allclose(grad(wrap(plain))(x, w).numpy(), wanted)
    np.testing.assert_allclose(jvp(wrap(plain), (x, w), (x, w))[1].item(), jvp(plain, (x, w), (x, w))[1].item())
    np.testing.assert_allclose(grad(grad_norm(wrap(plain)))(x, w).numpy(), grad(grad_norm(plain))(x, w).numpy())


def grad_norm(f: Any) -> Any:
    return lambda *x: (grad(f)(*x) ** 2).sum()


def test_gradients_in_a_captured_function() -> None:
    step = TinyJit(lambda p, x: map_tensors(lambda p, g: p - 0.1 * g, p, grad(lambda p: ((x * p["w"]) ** 2).sum())(p)))
    for i in range(4):
        p, x = {"w": Tensor([1.0, 2.0 + i])}, Tensor([1.0, 3.0])
        found = step(p, x)["w"].numpy()
        np.testing.assert_allclose(found, np.array([1.0, 2.0 + i]) * (1 - 0.2 * np.array([1.0, 9.0])), rtol=1e-6)


def test_gradient_of_a_result_of_a_captured_function_called_outside() -> None:
    f = TinyJit(lambda x: (x * x).sum())
    x = Tensor([1.0, 2.0])
    for _ in range(3):
        f(x)
    assert grad(f)(x).tolist() == [2.0, 4.0]  # it is the plain function there


def test_pullback_gives_a_cotangent_for_each_primal() -> None:
    x, n = Tensor(X), Tensor([1, 2, 3])
    (product, total), pullback = vjp(lambda x, n: (x * n, x.sum()), x, n)
    product.realize()  # the pullback knows the graph that it had
    dx, dn = pullback((Tensor.ones(2, 3, dtype="double"), 2.0 * Tensor.ones(dtype="double")))
    assert dn is None and total.item() == pytest.approx(X.sum())
    np.testing.assert_array_equal(dx.numpy(), np.broadcast_to([3.0, 4.0, 5.0], (2, 3)))


def test_linearize_runs_the_function_once() -> None:
    calls = []

    def f(x: Tensor, n: Tensor) -> dict[str, Any]:
        calls.append(x)
        return {"y": x.sin() * n, "shape": n}

    x, n = Tensor(X), Tensor([1, 2, 3])
    value, push = linearize(f, x, n)
    for scale in (1.0, 2.0):
        found = push(Tensor(X * scale), None)
        np.testing.assert_allclose(found["y"].numpy(), np.cos(X) * np.array([1, 2, 3]) * X * scale)
        assert found["shape"] is None
    assert len(calls) == 1
    np.testing.assert_allclose(value["y"].numpy(), np.sin(X) * [1, 2, 3])


def test_second_derivatives_along_a_direction() -> None:
    x, w = Tensor(X), Tensor(X[::-1].copy())
    found = hvp(lambda x, w: (x * x * w).sum(), (x, w), (w, x))
    np.testing.assert_allclose(found[0].numpy(), 2 * X[::-1] * X[::-1] + 2 * X * X)
    np.testing.assert_allclose(found[1].numpy(), 2 * X * X[::-1])


def test_custom_functions_have_tangents_by_the_transpose_of_their_gradients() -> None:
    """The gradient here is not that of the ops of the function, so that one knows which of them it is."""
    f = Tensor.custom_function(lambda x, w: ((x @ w).detach(), x.sum()), lambda dy, y, x, w: (dy[0] @ w.T, x.T @ dy[0]))
    x, w = Tensor(X), Tensor(X.T.copy())
    (y, total), (dy, none) = jvp(f, (x, w), (w.T, x.T))
    np.testing.assert_allclose(y.numpy(), X @ X.T)
    np.testing.assert_allclose(dy.numpy(), 2 * X @ X.T)
    assert total.item() == pytest.approx(X.sum()) and none.item() == 0
    assert not none.shape


def test_a_value_that_does_not_depend_on_the_argument_has_zeros() -> None:
    x = Tensor(X)
    assert not grad(lambda x: Tensor.ones(3).sum())(x).numpy().any()
    assert not jvp(lambda x: x.round(), (x,), (x,))[1].numpy().any()


def test_sizes_of_zero() -> None:
    x = Tensor.ones(0, 3)
    assert grad(lambda x: (x * x).sum())(x).shape == (0, 3)
    assert jvp(lambda x: x * x, (x,), (x,))[1].shape == (0, 3)


WRONG = [
    (lambda x: grad(lambda x: x * 2)(x), ShapeError, "grad: <lambda> returns shape (2, 3), and a number"),
    (lambda x: grad(lambda x: 3.0)(x), ArgumentError, "grad: <lambda> returns 3.0, which is no tensor"),
    (lambda x: grad(lambda x: (x > 0).sum())(x), DTypeError, "grad: <lambda> returns int32"),
    (lambda x: grad(lambda x: x.sum())(x.int()), DTypeError, "grad: argument 0 is int32"),
    (lambda x: grad(lambda p: p["a"].sum())({"a": x, "n": x.int()}), DTypeError, "grad: argument 0['n'] is int32"),
    (lambda x: grad(lambda x: x.sum(), argnums=1)(x), ArgumentError, "grad: argnums=1 of 1 argument"),
    (lambda x: grad(lambda x, y: x.sum(), argnums=(0, 0))(x, x), ArgumentError, "grad: argnums=(0, 0)"),
    (lambda x: grad(lambda x, y: x.sum(), argnums=1)(x, 3), ArgumentError, "grad: there is no tensor in argument 1"),
    (lambda x: grad(x.ndim), ArgumentError, "grad: 2 is no function"),
    (lambda x: vjp(lambda x: x), ArgumentError, "vjp: there are no primals"),
    (lambda x: vjp(lambda x: x, x)[1]((x, x)), ArgumentError, "vjp: the cotangent is tuple([0]: *, [1]: *), and * is"),
    (lambda x: vjp(lambda x: x, x)[1](x[0]), ShapeError, "vjp: the cotangent is of shape (3,)"),
    (lambda x: vjp(lambda x: x, x)[1](x.float()), DTypeError, "vjp: the cotangent is float32, and float64 is wanted"),
    (lambda x: vjp(lambda x: None, x), ArgumentError, "vjp: the function returns None, and no tensor"),
    (lambda x: jvp(lambda x: x, x, x), ArgumentError, "jvp: primals="),
    (lambda x: jvp(lambda x: x, (x,), (x, x)), ArgumentError, "jvp: 2 tangents of 1 primals"),
    (lambda x: jvp(lambda x: x["a"], ({"a": x},), ({"a": x[0]},)), ShapeError, "jvp: the tangent of primal 0 is of"),
    (lambda x: grad(lambda x: (x * x).realize().sum())(x), ArgumentError, "grad: the gradient ends at a tensor"),
    (lambda x: jvp(lambda x: (x * x).realize(), (x,), (x,)), ArgumentError, "jvp: the gradient ends at a tensor"),
    (lambda x: map_tensors(lambda a, b: a, [x], {"a": x}), ArgumentError, "map_tensors: the structures differ: list"),
]  # fmt: skip


@pytest.mark.parametrize(("program", "kind", "message"), WRONG, ids=[message for _, _, message in WRONG])
def test_wrong_calls_say_what_is_wrong(program: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        program(Tensor(X))
    lines = str(caught.value).splitlines()
    assert lines[0].startswith(message)
    assert len(lines) >= 2


def test_flattened_values_are_put_together_again() -> None:
    model: Any = {"layers": [layer(), layer()], "n": 3, "none": None}
    tensors, structure = flatten_tensors(model)
    assert structure.leaf_places()[:2] == ["['layers'][0].pair.w", "['layers'][0].pair.b"]
    again = structure.unflatten(tensors)
    assert again["n"] == 3 and again["none"] is None and again["layers"][1].pair == model["layers"][1].pair
