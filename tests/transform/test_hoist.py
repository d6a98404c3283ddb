"""Products of a scan that do not need its states are computed before the loop, where a step has few rows."""

import numpy as np
import pytest

import whit
from whit import Tensor
from whit.ir import ops
from whit.ir.uop import UOp


def tensors(rows: int) -> tuple[Tensor, ...]:
    random = np.random.default_rng(rows)
    shapes = (7, rows, 5), (5, 12), (12, 12)
    return tuple(Tensor(random.standard_normal(shape).astype(np.float32) * 0.3) for shape in shapes)


def scanned(xs: Tensor, w: Tensor, u: Tensor, *, reverse: bool = False) -> tuple[Tensor, Tensor]:
    def step(h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        new = (x @ w + h @ u + x.sum()).tanh()
        return new, new * x.max()

    return whit.scan(step, Tensor.zeros(xs.shape[1], 12), xs, reverse=reverse)


def loop_of(tensor: Tensor) -> UOp:
    (loop,) = (node for node in tensor.uop.topological() if node.op is ops.LOOP)
    return loop


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("rows", [1, 16])
def test_a_scan_means_the_same(rows: int, reverse: bool) -> None:
    xs, w, u = tensors(rows)
    last, ys = scanned(xs, w, u, reverse=reverse)
    state, found = np.zeros((rows, 12), np.float32), [np.zeros(0)] * 7
    for t in reversed(range(7)) if reverse else range(7):
        x = xs.numpy()[t]
        state = np.tanh(x @ w.numpy() + state @ u.numpy() + x.sum())
        found[t] = state * x.max()
    np.testing.assert_allclose(last.numpy(), state, 1e-4, 1e-5)
    np.testing.assert_allclose(ys.numpy(), np.stack(found), 1e-4, 1e-5)


@pytest.mark.parametrize(("rows", "inputs"), [(1, 2), (16, 1)])
def test_products_of_few_rows_become_inputs(rows: int, inputs: int) -> None:
    last, _ = scanned(*tensors(rows))
    assert loop_of(last).arg.inputs == inputs


def test_gradients_go_through() -> None:
    xs, w, u = tensors(1)
    found = whit.grad(lambda w: scanned(xs, w, u)[0].sum())(w)

    def total(weight: np.ndarray) -> float:
        state = np.zeros((1, 12))
        for x in xs.numpy():
            state = np.tanh(x @ weight + state @ u.numpy() + x.sum())
        return float(state.sum())

    moved = np.zeros((5, 12))
    moved[2, 3] = 1e-4
    slope = (total(w.numpy() + moved) - total(w.numpy() - moved)) / 2e-4
    np.testing.assert_allclose(found.numpy()[2, 3], slope, 1e-3, 1e-4)


def test_a_loop_in_the_step_keeps_its_own_params() -> None:
    xs, w, u = tensors(1)

    def step(h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        inner, _ = whit.scan(lambda a, b: (a * 0.5 + b, None), Tensor.zeros(12), x.reshape(5, 1).expand(5, 12))
        new = (x @ w + h @ u + inner).tanh()
        return new, new

    last, _ = whit.scan(step, Tensor.zeros(1, 12), xs)
    state = np.zeros((1, 12), np.float32)
    for x in xs.numpy():
        inner = np.zeros(12)
        for each in x.reshape(5):
            inner = inner * 0.5 + each
        state = np.tanh(x @ w.numpy() + state @ u.numpy() + inner)
    np.testing.assert_allclose(last.numpy(), state, 1e-4, 1e-5)
