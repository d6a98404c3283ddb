"""The functions that a batch norm is made of have the gradients of what they compute, in fewer passes."""

import numpy as np
import pytest

from whit import Tensor
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.interpret import run
from whit.ir.uop import UOp, const
from whit.schedule import schedule
from whit.target import parse_target
from whit.tensor.graphs.batch_norm import scaled, squares_from_mean
from whit.tensor.methods.reduction.reduce import mean_of
from whit.transform import gradients

F32, F64, BF16 = dtypes.float32, dtypes.float64, dtypes.bfloat16
GPU = parse_target("CUDA:PTX:sm_90a")
AXES = (0, 2)


def value_of(graph: UOp, arrays: dict[int, np.ndarray]) -> np.ndarray:
    out = np.zeros(graph.shape)
    given = {UOp.param(slot, F64, array.shape): array for slot, array in {**arrays, 99: out}.items()}
    run(UOp.group(UOp.param(99, F64, graph.shape).store(graph)), given)
    return out


def slopes(value: UOp, slot: int, arrays: dict[int, np.ndarray], seed: np.ndarray) -> np.ndarray:
    """The gradient of sum(value * seed) by small steps."""
    found = np.zeros(arrays[slot].shape)
    for place in np.ndindex(*arrays[slot].shape):
        sides = []
        for step in (1e-4, -1e-4):
            moved = arrays[slot].copy()
            moved[place] += step
            sides.append((value_of(value, {**arrays, slot: moved}) * seed).sum())
        found[place] = (sides[0] - sides[1]) / 2e-4
    return found


def check(value: UOp, targets: list[UOp], arrays: dict[int, np.ndarray]) -> list[UOp]:
    seed = np.random.default_rng(7).standard_normal(value.shape)
    given = UOp.param(98, F64, value.shape)
    found = gradients(value, given, targets)
    for target, gradient in zip(targets, found, strict=True):
        assert gradient is not None
        expected = slopes(value, target.arg.slot, arrays, seed)
        np.testing.assert_allclose(value_of(gradient, {**arrays, 98: seed}), expected, rtol=1e-6, atol=1e-6)
    return [gradient for gradient in found if gradient is not None]


def test_squares_from_the_mean_and_the_gradient_of_their_gradient() -> None:
    x = UOp.param(0, F64, (2, 3, 2))
    arrays = {0: np.random.default_rng(0).standard_normal((2, 3, 2)) + 5}
    total = squares_from_mean(x, mean_of(x, AXES), AXES)
    np.testing.assert_allclose(value_of(total, arrays), arrays[0].var((0, 2)) * 4)
    (dx,) = check(total, [x], arrays)
    inner = dx.substitute({UOp.param(98, F64, (3,)): const(F64, 1.5).reshape((1,)).expand((3,))})
    check(inner * inner, [x], arrays)  # goes through the mean


def test_scaled_and_its_gradients() -> None:
    x, *numbers = (UOp.param(i, F64, (2, 3, 2) if not i else (3,)) for i in range(4))
    random = np.random.default_rng(1)
    arrays = {i: random.standard_normal((2, 3, 2) if not i else (3,)) for i in range(4)}
    value = scaled(x, AXES, *numbers)
    middle, scale, offset = (arrays[i].reshape(1, 3, 1) for i in (1, 2, 3))
    np.testing.assert_allclose(value_of(value, arrays), (arrays[0] - middle) * scale + offset)
    check(value, [x, *numbers], arrays)


def batch_norm(x: UOp, w: UOp, b: UOp) -> UOp:
    """Over all axes but the last, of halves."""
    axes, wide = (0, 1, 2), x.cast(F32)
    middle = mean_of(wide, axes)
    var = squares_from_mean(wide, middle, axes) / 1000.0
    return scaled(wide, axes, middle, (var + 1e-5).sqrt().reciprocal() * w, b).cast(BF16)


def test_gradients_of_a_batch_norm_on_a_gpu_read_the_images_twice() -> None:
    shape = (8, 16, 16, 64)
    x, dy = (UOp.param(i, BF16, shape) for i in (0, 1))
    w, b = (UOp.param(i, F32, (64,)) for i in (2, 3))
    found = gradients(batch_norm(x, w, b), dy, [x, w, b])
    stores = [UOp.param(10 + i, g.dtype, g.shape).store(g) for i, g in enumerate(found) if g is not None]
    calls = schedule(UOp.group(*stores), GPU).src
    reads = [sum(argument.shape == shape for argument in call.src[1:]) for call in calls]
    # the mean of x with the sum of dy, the squares with the product of both, and dx, which is written too
    assert reads == [2, 0, 2, 0, 3]
    assert not any(a.shape == shape and a.dtype is F32 for call in calls for a in call.src[1:])


@pytest.mark.parametrize("keepdim", [False, True])
def test_the_variance_of_a_gpu_is_that_of_others(monkeypatch: pytest.MonkeyPatch, keepdim: bool) -> None:
    x = Tensor(np.random.default_rng(2).standard_normal((4, 3, 5)).astype(np.float32))
    plain = [t.numpy() for t in x.var_mean(axis=(0, 2), keepdim=keepdim)]
    scale, bias = Tensor([1.0, 2.0, 3.0]), Tensor([0.5, 0.0, -1.0])
    normed = x.batchnorm(scale, bias, Tensor([0.0, 1.0, 2.0]), Tensor([1.0, 0.5, 2.0])).numpy()
    monkeypatch.setattr(type(x), "device", "CUDA")
    var, mean = x._variance("var", (0, 2), keepdim, 1)
    other = x._wrap(x.batchnorm(scale, bias, Tensor([0.0, 1.0, 2.0]), Tensor([1.0, 0.5, 2.0])).uop)
    monkeypatch.undo()
    assert any(node.op is ops.FORMULA for node in other.uop.topological())
    np.testing.assert_allclose(x._wrap(var).numpy(), plain[0], rtol=1e-6)
    np.testing.assert_allclose(x._wrap(mean).numpy(), plain[1], rtol=1e-6)
    np.testing.assert_allclose(other.numpy(), normed, rtol=1e-6)
