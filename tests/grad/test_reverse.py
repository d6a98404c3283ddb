"""Gradients of ops and of Tensor methods, against central differences in float64."""

from collections.abc import Callable

import numpy as np
import pytest

from whit import Tensor
from whit.ir import ops
from whit.transform import gradients

STEP = 1e-6


def differences(f: Callable[..., np.ndarray], arrays: list[np.ndarray], weights: np.ndarray) -> list[np.ndarray]:
    """The gradient of sum(f(*arrays) * weights), element by element."""
    found = []
    for array in arrays:
        slope = np.zeros_like(array)
        for place in np.ndindex(array.shape):
            kept = array[place]
            array[place] = kept + STEP
            above = float((f(*arrays) * weights).sum())
            array[place] = kept - STEP
            below = float((f(*arrays) * weights).sum())
            array[place] = kept
            slope[place] = (above - below) / (2 * STEP)
        found.append(slope)
    return found


def check(f: Callable[..., Tensor], *arrays: np.ndarray, device: str = "PYTHON", tolerance: float = 1e-5) -> None:
    """f's gradients are those of small steps."""

    def run(*values: np.ndarray) -> np.ndarray:
        return f(*(Tensor(v.copy(), device="PYTHON") for v in values)).numpy()

    tensors = [Tensor(a.copy(), device=device) for a in arrays]
    result = f(*tensors)
    weights = np.random.default_rng(1).uniform(0.5, 1.5, result.shape)
    wanted = differences(run, [a.copy() for a in arrays], weights)
    found = result.gradient(*tensors, gradient=Tensor(weights, device=device))
    for slope, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(slope.numpy(), want, rtol=tolerance, atol=tolerance)


def data(*shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    return np.random.default_rng(sum(shape) + 7).uniform(low, high, shape)


UNARY = [
    ("neg", lambda x: -x, -2, 2),
    ("abs", abs, -2, 2),
    ("sqrt", Tensor.sqrt, 0.5, 2),
    ("reciprocal", Tensor.reciprocal, 0.5, 2),
    ("exp2", Tensor.exp2, -2, 2),
    ("log2", Tensor.log2, 0.5, 2),
    ("sin", Tensor.sin, -4, 4),
    ("floor", Tensor.floor, 0.1, 0.9),
    ("cube", lambda x: x**3, -2, 2),
    ("power", lambda x: x**2.7, 0.5, 2),
    ("relu", Tensor.relu, -2, 2),
    ("cast", lambda x: x.cast("float64").double(), -2, 2),
]


@pytest.mark.parametrize(("f", "low", "high"), [row[1:] for row in UNARY], ids=[row[0] for row in UNARY])
def test_gradient_of_functions_of_one_operand(f: Callable[[Tensor], Tensor], low: float, high: float) -> None:
    check(f, data(2, 3, low=low, high=high))


BINARY = [
    ("add", lambda x, y: x + y),
    ("sub", lambda x, y: x - y),
    ("mul", lambda x, y: x * y),
    ("div", lambda x, y: x / y),
    ("pow", lambda x, y: abs(x) ** y),
    ("logaddexp", lambda x, y: Tensor._make((x + y * 0).uop.alu(ops.LOGADDEXP, (y + x * 0).uop))),
    ("max", Tensor.maximum),
    ("min", Tensor.minimum),
    ("where", lambda x, y: (x > 1.0).where(x * 2, y)),
]


@pytest.mark.parametrize("f", [row[1] for row in BINARY], ids=[row[0] for row in BINARY])
def test_gradient_of_functions_of_two_operands_that_broadcast(f: Callable[..., Tensor]) -> None:
    check(f, data(2, 3, low=0.5), data(2, 3, low=0.6, high=1.9))
    check(f, data(2, 3, low=0.5), data(1, low=0.6, high=1.9))
    check(f, data(3, low=0.5), data(2, 1, low=0.6, high=1.9))


MOVEMENT = [
    ("reshape", lambda x: x.reshape(4, 3) * 2),
    ("permute", lambda x: x.permute(2, 0, 1)),
    ("expand", lambda x: x.reshape(1, 2, 3, 2).expand(4, 2, 3, 2)),
    ("pad", lambda x: x.pad(((1, 0), (0, 2), (1, 1)))),
    ("shrink", lambda x: x[1:, :2]),
    ("strided", lambda x: x[:, ::2, ::-1]),
    ("flip", lambda x: x.flip((0, 2))),
    ("cat", lambda x: x.cat(x * 2, dim=1)),
    ("stack", lambda x: x.stack(x * x, x)),
    ("contiguous", lambda x: x.contiguous() * x),
    ("twice", lambda x: x * x.sum(1, keepdim=True)),
]


@pytest.mark.parametrize("f", [row[1] for row in MOVEMENT], ids=[row[0] for row in MOVEMENT])
def test_gradient_of_movement(f: Callable[[Tensor], Tensor]) -> None:
    check(f, data(2, 3, 2))


REDUCTIONS = [
    ("sum", lambda x: x.sum(1)),
    ("sum of all", lambda x: x.sum()),
    ("mean", lambda x: x.mean((0, 2))),
    ("max", lambda x: x.max(1)),
    ("min", lambda x: x.min()),
    ("prod", lambda x: x.prod(1)),
    ("prod of two axes", lambda x: x.prod((0, 2))),
    ("var", lambda x: x.var(1)),
    ("cumsum", lambda x: x.cumsum(1)),
    ("cumsum from the end", lambda x: Tensor._make(x.uop.scan(ops.ADD, 1, reverse=True))),
    ("logcumsumexp", lambda x: x.logcumsumexp(1)),
    ("sort", lambda x: x.sort(1)[0]),
    ("sort, descending", lambda x: x.sort(0, descending=True)[0] * x),
    ("topk", lambda x: x.topk(2, 1)[0]),
    ("median", lambda x: x.median(1)[0]),
    ("softmax", lambda x: x.softmax(1)),
    ("matmul", lambda x: x @ x.transpose(1, 2)),
]


@pytest.mark.parametrize("f", [row[1] for row in REDUCTIONS], ids=[row[0] for row in REDUCTIONS])
def test_gradient_of_reductions(f: Callable[[Tensor], Tensor]) -> None:
    check(f, data(2, 4, 2))


def test_gradient_of_a_product_with_zeros() -> None:
    for zeros in ([1], [1, 3], []):
        x = data(5, low=0.5)
        x[zeros] = 0.0
        check(lambda x: x.prod(), x)
        check(lambda x: Tensor._make(x.uop.scan(ops.MUL, 0)), x)


def test_ties_of_a_maximum_share_the_gradient() -> None:
    x = Tensor([2.0, 1.0, 2.0])
    assert x.max().gradient(x)[0].tolist() == [0.5, 0.0, 0.5]
    assert x.maximum(2.0).sum().gradient(x)[0].tolist() == [0.5, 0.0, 0.5]


def test_gradients_of_gradients() -> None:
    x = Tensor(data(4, low=0.5))
    (first,) = (x**4).sum().gradient(x)
    (second,) = first.sum().gradient(x)
    (third,) = second.sum().gradient(x)
    np.testing.assert_allclose(second.numpy(), 12 * data(4, low=0.5) ** 2)
    np.testing.assert_allclose(third.numpy(), 24 * data(4, low=0.5))


@pytest.mark.slow
def test_a_value_used_a_thousand_times_gets_the_sum() -> None:
    x = Tensor([1.0])
    total = x * 0.0
    for i in range(1000):
        total = total + x * i
    assert total.sum().gradient(x)[0].item() == sum(range(1000))


def test_detached_and_unrelated_targets_get_zeros() -> None:
    x, y = Tensor([1.0, 2.0]), Tensor([[3.0]])
    dx, dy = (x.detach() * x).sum().gradient(x, y)
    assert dx.tolist() == [1.0, 2.0]
    assert dy.tolist() == [[0.0]]


def test_equal_constants_are_different_targets() -> None:
    w, b = Tensor.zeros(3), Tensor.zeros(3)
    dw, db = (w * Tensor([1.0, 2.0, 3.0]) + b).sum().gradient(w, b)
    assert dw.tolist() == [1.0, 2.0, 3.0]
    assert db.tolist() == [1.0, 1.0, 1.0]


def test_backward_adds_to_grad() -> None:
    x, frozen = Tensor([1.0, 2.0]), Tensor([5.0, 6.0], requires_grad=False)
    assert (x.grad, frozen.grad) == (None, None)
    loss = (x * frozen).sum()
    assert loss.backward() is loss
    (x * 2).sum().backward()
    assert x.grad.tolist() == [7.0, 8.0]
    assert frozen.grad is None


def test_a_node_without_the_root_is_none() -> None:
    x = Tensor([1.0]).uop
    assert gradients(x, x.constant(1.0), [Tensor([2.0]).uop]) == [None]


def test_what_has_no_gradient_is_an_error() -> None:
    x = Tensor([1.0, 2.0])
    with pytest.raises(ValueError, match=r"backward: a tensor of shape \(2,\) has no gradient, a number has"):
        x.backward()
    with pytest.raises(TypeError, match="gradient: only floats have gradients, and this is int32"):
        Tensor([1, 2]).sum().gradient(x)
    with pytest.raises(TypeError, match="a target is int32"):
        x.sum().gradient(Tensor([1, 2]))
    with pytest.raises(ValueError, match=r"gradient= has shape \(3,\), the tensor \(2,\)"):
        x.gradient(x, gradient=Tensor([1.0, 1.0, 1.0]))
    with pytest.raises(ValueError, match=r"a target is the plain number 2\.0"):
        x.sum().gradient(Tensor(2.0, requires_grad=False))


def test_contiguous_backward_keeps_the_gradient_in_memory() -> None:
    x = Tensor([1.0, 2.0, 3.0])
    (dx,) = (x.exp().contiguous_backward() * x).sum().gradient(x)
    want = (np.array([1.0, 2.0, 3.0]) + 1) * np.exp([1.0, 2.0, 3.0])
    np.testing.assert_allclose(dx.numpy(), want, rtol=1e-6)
    assert any(node.op is ops.STAGE for node in dx.uop.topological())


def test_equal_constants_realised_together_stay_different_tensors() -> None:
    a, b = Tensor.ones(4), Tensor.ones(4)
    large, larger = Tensor.ones(3000), Tensor.ones(3000)
    Tensor.realize(a, b, large, larger, a)
    ((a * 3 + b * 5).sum() + (large * 7 + larger * 2).sum()).backward()
    assert [a.grad[0].item(), b.grad[0].item(), large.grad[0].item(), larger.grad[0].item()] == [3, 5, 7, 2]
    a += 1
    assert (a.tolist(), b.tolist()) == ([2.0] * 4, [1.0] * 4)


def test_backward_gives_gradients_to_what_asks_for_them_if_anything_does() -> None:
    x, w = Tensor([1.0, 2.0]), Tensor([3.0, 4.0], requires_grad=True)
    (x * w).sum().backward()
    assert (x.grad, w.grad.tolist()) == (None, [1.0, 2.0])
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
