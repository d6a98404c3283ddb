"""A kernel over rows stores what each row has once, beside the rows: in whole vectors, and with a rest."""

import numpy as np
import pytest

from whit import GlobalCounters, Tensor


@pytest.mark.parametrize("shape", [(64, 16), (70, 13), (3, 40, 100), (128, 3)], ids=str)
def test_statistics_of_rows_are_stored_with_the_rows(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    variance, mean = Tensor(x).var_mean(axis=-1, correction=0, keepdim=True)
    scale = (variance + 1e-5).rsqrt()
    normal = (Tensor(x) - mean) * scale
    GlobalCounters.reset()
    Tensor.realize(mean, scale, normal)
    assert GlobalCounters.kernel_count == 1
    expected = 1 / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(mean.numpy(), x.mean(-1, keepdims=True), atol=1e-5)
    np.testing.assert_allclose(scale.numpy(), expected, rtol=1e-4)
    np.testing.assert_allclose(normal.numpy(), (x - x.mean(-1, keepdims=True)) * expected, atol=1e-4)


def test_operands_are_computed_while_they_are_copied() -> None:
    """y is made of a, which is kept for its sum: both products compute it from there, in one kernel."""
    rng = np.random.default_rng(1)
    x, w, v = rng.standard_normal((96, 64), np.float32), *(rng.standard_normal((64, 64), np.float32) for _ in range(2))
    a = Tensor(x) @ Tensor(x[:64])
    y = (a + 1.0) * (a * 0.25 - 2.0)
    results = [a.sum(1), y @ Tensor(w), y @ Tensor(v)]
    GlobalCounters.reset()
    Tensor.realize(*results)
    assert GlobalCounters.kernel_count == 3
    product = x @ x[:64]
    inner = (product + 1) * (product * 0.25 - 2)
    for found, expected in zip(results, (product.sum(1), inner @ w, inner @ v), strict=True):
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=2e-2)
