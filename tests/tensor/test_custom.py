"""Kernels that users write."""

import numpy as np
import pytest

from whit import Tensor, UOp
from whit.ir import ops


def add(c: UOp, a: UOp, b: UOp) -> UOp:
    i, j = UOp.range(c.shape[0], 0), UOp.range(c.shape[1], 1)
    return c.store(a.index(i, j) + b.index(i, j), i, j)


def matmul(c: UOp, a: UOp, b: UOp) -> UOp:
    i, j, k = UOp.range(c.shape[0], 0), UOp.range(c.shape[1], 1), UOp.range(a.shape[1], 2)
    return c.store((a.index(i, k) * b.index(k, j)).reduce(ops.ADD, ranges=(k,)), i, j)


def matmul_gradient(gradient: UOp, kernel: UOp) -> tuple[UOp | None, ...]:
    _, a, b = kernel.src
    dy = Tensor(gradient)
    return None, (dy @ Tensor(b).T).uop, (Tensor(a).T @ dy).uop


def test_a_kernel_stores_into_a_new_tensor() -> None:
    a, b, c = Tensor.ones(4, 5), Tensor(np.arange(20.0, dtype=np.float32).reshape(4, 5)), Tensor.zeros(4, 5)
    result, same, _ = Tensor.custom_kernel(c, a, b * 2, fxn=add)
    np.testing.assert_array_equal(result.numpy(), np.arange(20).reshape(4, 5) * 2 + 1)
    assert same is a
    assert c.tolist() == [[0.0] * 5] * 4


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_a_kernel_with_a_gradient(device: str) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((6, 7)).astype(np.float32), rng.standard_normal((7, 5)).astype(np.float32)
    a, b = Tensor(x, device=device), Tensor(y, device=device)
    c = Tensor.empty(6, 5, device=device).custom_kernel(a, b, fxn=matmul, grad_fxn=matmul_gradient)[0]
    np.testing.assert_allclose(c.numpy(), x @ y, rtol=1e-5)
    da, db = c.square().sum().gradient(a, b)
    np.testing.assert_allclose(da.numpy(), 2 * (x @ y) @ y.T, rtol=1e-4)
    np.testing.assert_allclose(db.numpy(), x.T @ (2 * (x @ y)), rtol=1e-4)


def unchanged(c: UOp) -> UOp:
    return c


def test_a_kernel_that_is_none_is_an_error() -> None:
    x = Tensor.ones(3)
    with pytest.raises(ValueError, match="custom_kernel: unchanged gives"):
        x.custom_kernel(fxn=unchanged)
    with pytest.raises(ValueError, match="is no tensor"):
        x.custom_kernel(3, fxn=add)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="the tensors are on CPU and PYTHON"):
        Tensor.ones(2, 2, device="CPU").realize().custom_kernel(
            Tensor.ones(2, 2, device="PYTHON").realize(), Tensor.ones(2, 2, device="CPU"), fxn=add
        )


def test_a_gradient_through_a_kernel_that_has_none_is_an_error() -> None:
    a = Tensor([[1.0]])
    c, _, _ = Tensor.zeros(1, 1).custom_kernel(a, a, fxn=add)
    with pytest.raises(NotImplementedError, match="custom kernel without grad_fxn"):
        c.sum().gradient(a)
