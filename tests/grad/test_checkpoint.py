"""Blocks that are computed again for their gradient: the same numbers, in less memory."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import whit
from grad.test_reverse import check, data
from whit import Tensor, checkpoint, nn
from whit.engine.plan.plan import make_plan
from whit.engine.realize.parametrise import below, parametrise
from whit.errors import ArgumentError
from whit.ir import ops
from whit.ir.uop import UOp
from whit.schedule.pipeline import schedule

pytestmark = pytest.mark.slow

ROWS, WIDTH, HIDDEN, LAYERS = 64, 16, 64, 6
STREAM, INSIDE = ROWS * WIDTH * 4, ROWS * HIDDEN * 4  # bytes of what goes from block to block, and of what is inside

Block = Callable[..., Any]


def floats(*shape: int, seed: int = 0) -> Tensor:
    values = np.random.default_rng([seed, *shape]).standard_normal(shape) / np.sqrt(shape[0])
    return Tensor(values.astype(np.float32))


def small(*shape: int, seed: int = 0) -> Tensor:
    return Tensor(np.random.default_rng([seed, *shape]).standard_normal(shape), device="PYTHON")


def planned(tensors: Sequence[Tensor]) -> tuple[int, int]:
    """Kernels, and bytes of the temporaries at their peak."""
    roots = [tensor.uop for tensor in tensors]
    graph = parametrise(roots, below(roots)[0])
    plan = make_plan(schedule(graph.graph), graph.outputs + len(graph.slots))
    return len(plan.steps), plan.arena_bytes


def layers() -> list[tuple[Tensor, Tensor]]:
    return [(floats(WIDTH, HIDDEN, seed=i), floats(HIDDEN, WIDTH, seed=i)) for i in range(LAYERS)]


def perceptron(h: Tensor, w: Tensor, v: Tensor) -> Tensor:
    return h + (h @ w).tanh() @ v


def stack(weights: list[tuple[Tensor, Tensor]], x: Tensor, again: bool) -> list[Tensor]:
    """The loss and all gradients of a residual network."""
    h = x
    for w, v in weights:
        h = checkpoint(lambda h, w=w, v=v: perceptron(h, w, v), h) if again else perceptron(h, w, v)
    loss = h.square().mean()
    return [loss, *loss.gradient(x, *(part for pair in weights for part in pair))]


def test_peak_memory_of_a_deep_network() -> None:
    """Without: what is inside of each block, the gradient of that of one, the stream before each block but the first,
    and its gradient, which is changed in place. With: the inside of one block instead of six, and one gradient more.
    There is one kernel more a block, but it shares the loops of that of the gradient."""
    weights, x = layers(), floats(ROWS, WIDTH)
    assert planned(stack(weights, x, False)) == (37, (LAYERS + 1) * INSIDE + LAYERS * STREAM)
    assert planned(stack(weights, x, True)) == (37, 2 * INSIDE + (LAYERS + 1) * STREAM)


@pytest.mark.slow
def test_gradients_are_the_same_and_so_are_the_values() -> None:
    weights, x = layers()[:3], floats(ROWS, WIDTH)
    for plain, again in zip(stack(weights, x, False), stack(weights, x, True), strict=True):
        np.testing.assert_allclose(again.numpy(), plain.numpy(), rtol=1e-5, atol=1e-7)


def test_nested_blocks_keep_less() -> None:
    """A block of two blocks: two streams of the outer ones, one of the inner ones, the last result, the gradient before
    and after."""
    weights, x = layers(), floats(ROWS, WIDTH)

    def pair(h: Tensor, i: int) -> Tensor:
        for w, v in weights[i : i + 2]:
            h = checkpoint(perceptron, h, w, v)
        return h

    h = x
    for i in range(0, LAYERS, 2):
        h = checkpoint(pair, h, i)
    loss = h.square().mean()
    nested = [loss, *loss.gradient(x, *(part for both in weights for part in both))]
    assert planned(nested) == (42, 2 * INSIDE + 6 * STREAM)


@pytest.mark.slow
def test_peak_memory_of_a_transformer() -> None:
    blocks = [nn.TransformerBlock(16, 2, 32) for _ in range(2)]
    Tensor.realize(*(p for block in blocks for p in nn.state.get_parameters(block)))
    x = floats(2, 24, 16)
    peaks = []
    for again in (False, True):
        h = x
        for block in blocks:
            h = checkpoint(block, h) if again else block(h)
        loss = h.square().mean()
        peaks.append(planned([loss, *loss.gradient(*(p for block in blocks for p in nn.state.get_parameters(block)))]))
    assert peaks == [(69, 102_720), (86, 52_992)]


@pytest.mark.slow
def test_small_blocks_against_finite_differences() -> None:
    def block(x: Tensor, w: Tensor) -> Tensor:
        return (x @ w).sin() * x.sum(1, keepdim=True)

    check(lambda x, w: checkpoint(block, x, w), data(3, 4), data(4, 2))
    check(lambda x, w: checkpoint(lambda x: block(x, w), x * 2) * w.sum(), data(3, 4), data(4, 2))
    check(lambda x, w: checkpoint(block, checkpoint(block, x, w), w.T), data(3, 4), data(4, 2))
    check(lambda x: checkpoint(lambda x: checkpoint(Tensor.exp, x * x) * x, x), data(5))
    check(lambda x: checkpoint(lambda x: x, x), data(3))
    check(lambda x: checkpoint(lambda parts: parts["a"] * parts["b"][0], {"a": x, "b": [x.exp()]}), data(3))


def test_second_derivatives() -> None:
    def slope(x: Tensor) -> Tensor:
        y = checkpoint(lambda x: (x * x).sin(), x)
        return (y * y).sum().gradient(x)[0]

    check(slope, data(4))

    def curvature(x: Tensor) -> Tensor:
        return slope(x).sum().gradient(x)[0]

    check(curvature, data(4), tolerance=1e-4)


def test_several_results() -> None:
    def block(x: Tensor) -> dict[str, Any]:
        return {"y": x.sin(), "pair": (x * x, x.argmax()), "seven": 7, "other": None}

    def both(x: Tensor) -> Tensor:
        found = checkpoint(block, x)
        assert (found["seven"], found["other"], found["pair"][1].dtype.name) == (7, None, "int32")
        return found["y"] * found["pair"][0]

    check(both, data(2, 3))
    check(lambda x: checkpoint(block, x)["pair"][0], data(2, 3))


def test_tensors_of_a_closure_get_gradients() -> None:
    w, x = small(3, 3), small(2, 3, seed=1)
    h = w * 2  # made outside, used inside
    found = checkpoint(lambda x: (x @ h).tanh() @ w, x).sum().gradient(x, w, h)
    plain = ((x @ h).tanh() @ w).sum().gradient(x, w, h)
    for one, other in zip(found, plain, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12)


def test_weights_that_are_not_computed_yet_get_gradients() -> None:
    layer = nn.Linear(3, 2)
    checkpoint(layer, floats(4, 3)).sum().backward()
    np.testing.assert_allclose(layer.bias.grad.numpy(), [4.0, 4.0])  # type: ignore[arg-type]
    assert layer.weight.grad is not None


def test_a_target_inside_of_a_block_gets_its_gradient() -> None:
    inside: list[Tensor] = []

    def block(x: Tensor) -> Tensor:
        inside.append(x * 3)
        return inside[0].sin()

    x = small(4)
    y = checkpoint(block, x)
    (found,) = y.sum().gradient(inside[0])
    np.testing.assert_allclose(found.numpy(), np.cos(3 * x.numpy()))


@pytest.mark.slow
@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_random_numbers_are_the_same_both_times(device: str) -> None:
    x = Tensor(np.ones((64,)), device=device)
    with Tensor.train():
        y = checkpoint(lambda x: (x * 2).dropout(0.5) * x, x)
    value, (dx,) = y.numpy(), y.sum().gradient(x)
    assert 0 < np.count_nonzero(value) < 64
    np.testing.assert_array_equal(dx.numpy(), 2 * value)


def test_recomputed_values_are_not_those_of_the_forward_pass() -> None:
    x = small(3)
    y = checkpoint(lambda x: x.sin().exp(), x)
    (dx,) = (y * y).sum().gradient(x)
    powers = [node for node in dx.uop.topological() if node.op is ops.EXP]
    assert len(powers) == 2
    assert any(node.op is ops.RECOMPUTE for node in powers[1].topological())


def test_writes_inside_of_a_block() -> None:
    def block(x: Tensor, v: Tensor) -> Tensor:
        y = x * 1
        y[1:3] = v
        return y * y * x

    check(lambda x, v: checkpoint(block, x, v), data(4), data(2))
    x, v = floats(4), floats(2)
    y = checkpoint(block, x, v)
    for one, other in zip(y.sum().gradient(x, v), block(x, v).sum().gradient(x, v), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-6)


def test_the_memory_of_an_input_that_is_written_over() -> None:
    x = floats(300, 100)
    before = x.numpy().copy()
    y = checkpoint(lambda x: x.exp(), x)
    (dx,) = (y * y).sum().gradient(x)
    x.assign(x - dx)
    np.testing.assert_allclose(x.numpy(), before - 2 * np.exp(2 * before), rtol=1e-4)


@pytest.mark.slow
def test_running_statistics_change_once() -> None:
    norm = nn.BatchNorm(3)
    x = floats(5, 3)
    with Tensor.train():
        checkpoint(norm, x).sum().backward()
    np.testing.assert_allclose(norm.running_mean.numpy(), 0.1 * x.numpy().mean(0), rtol=1e-5)
    assert norm.num_batches_tracked.item() == 1


def test_a_block_without_tensors_is_an_error() -> None:
    x = floats(2)
    with pytest.raises(ArgumentError, match="checkpoint: there is no tensor among the arguments"):
        checkpoint(lambda: x * 2)


def test_again_is_the_value_itself() -> None:
    x = small(3).uop
    node = x.recompute(x * 2)
    assert (node.dtype, node.shape, node.device) == (x.dtype, x.shape, x.device)
    np.testing.assert_array_equal(Tensor(node).numpy(), Tensor(x).numpy())
    assert UOp.group(x, x * 2).item(1).member is x * 2


def test_it_is_where_people_look() -> None:
    assert whit.checkpoint is nn.checkpoint is checkpoint


def test_a_function_in_a_block() -> None:
    @whit.function
    def product(x: Tensor) -> Tensor:
        return (x @ x).tanh()

    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    found = whit.grad(lambda x: checkpoint(lambda x: product(x) * 2, x).sum())(x)
    assert found.tolist() == whit.grad(lambda x: (product(x) * 2).sum())(x).tolist()
