"""Sums and values over windows that need no panels, against the interpreter: depthwise convolutions, pooling."""

from collections.abc import Callable

import numpy as np
import pytest

from whit import Tensor

RNG = np.random.default_rng(0)


def depthwise(x: Tensor, w: Tensor) -> list[Tensor]:
    y = x.conv2d(w, padding=1, groups=x.shape[1])
    return y.square().sum().gradient(x, w)


def pooled(x: Tensor, w: Tensor) -> list[Tensor]:
    return [*(x.max_pool2d(2) * 3).square().sum().gradient(x), x.avg_pool2d(2).square().sum().gradient(x)[0] * w.sum()]


@pytest.mark.parametrize("size", [(18, 21), (9, 40)], ids=str)
@pytest.mark.parametrize("work", [depthwise, pooled])
def test_windows_without_panels(work: Callable[[Tensor, Tensor], list[Tensor]], size: tuple[int, int]) -> None:
    x = RNG.integers(-4, 5, (2, 3, *size)).astype(np.float32)
    w = RNG.integers(-4, 5, (3, 1, 3, 3)).astype(np.float32)
    found, expected = ([r.numpy() for r in work(*(Tensor(a, device=d) for a in (x, w)))] for d in ("CPU", "PYTHON"))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
