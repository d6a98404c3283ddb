"""Max pooling with windows at random places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from whit import Tensor, nn
from whit.errors import ArgumentError, ShapeError
from whit.nn import functional as F

SEED = np.random.default_rng(5)


def windows(x: np.ndarray, samples: np.ndarray, kernel: tuple[int, ...], sizes: tuple[int, ...]) -> np.ndarray:
    """By hand: the largest of each window."""
    axes = len(kernel)
    out = np.empty((*x.shape[:2], *sizes), x.dtype)
    for n, c in np.ndindex(*x.shape[:2]):
        begins = []
        for axis in range(axes):
            u = samples[n, c, axes - 1 - axis if axes == 2 else axis]
            step = np.float32((x.shape[2 + axis] - kernel[axis]) / max(sizes[axis] - 1, 1))
            begin = [int((i + u) * step) - int(u * step) for i in range(sizes[axis] - 1)]
            begins.append([*begin, x.shape[2 + axis] - kernel[axis]])
        for place in np.ndindex(*sizes):
            spans = [slice(b[i], b[i] + k) for b, i, k in zip(begins, place, kernel, strict=True)]
            out[(n, c, *place)] = x[(n, c, *spans)].max()
    return out


@pytest.mark.parametrize(
    ("space", "kernel", "sizes"),
    [((9, 11), (2, 3), (5, 4)), ((5, 5), (5, 2), (1, 4)), ((5, 6, 7), (2, 2, 3), (3, 4, 2))],
)
def test_values_and_places_are_those_of_windows(
    space: tuple[int, ...], kernel: tuple[int, ...], sizes: tuple[int, ...]
) -> None:
    x = SEED.standard_normal((2, 3, *space)).astype(np.float32)
    samples = SEED.random((2, 3, len(space))).astype(np.float32)
    pool: Any = F.fractional_max_pool2d if len(space) == 2 else F.fractional_max_pool3d
    best, where = pool(Tensor(x), kernel, sizes, return_indices=True, _random_samples=Tensor(samples))
    expected = windows(x, samples, kernel, sizes)
    np.testing.assert_array_equal(best.numpy(), expected)
    np.testing.assert_array_equal(
        np.take_along_axis(x.reshape(2, 3, -1), where.numpy().reshape(2, 3, -1), -1), expected.reshape(2, 3, -1)
    )
    plain = pool(Tensor(x[0]), kernel, sizes, _random_samples=Tensor(samples[:1]))
    np.testing.assert_array_equal(plain.numpy(), expected[0])


def test_values_and_gradients_are_those_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    for layer, space in (("FractionalMaxPool2d", (9, 11)), ("FractionalMaxPool3d", (6, 7, 8))):
        x = SEED.standard_normal((2, 3, *space)).astype(np.float32)
        samples = SEED.random((2, 3, len(space))).astype(np.float32)
        arguments = {"output_ratio": 0.5, "return_indices": True}
        ours = getattr(nn, layer)(2, **arguments, _random_samples=Tensor(samples))
        theirs = getattr(torch.nn, layer)(2, **arguments, _random_samples=torch.tensor(samples))
        a, b = Tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
        (y, i), (z, j) = ours(a), theirs(b)
        np.testing.assert_array_equal(y.numpy(), z.detach().numpy())
        np.testing.assert_array_equal(i.numpy(), j.numpy())
        y.square().sum().backward()
        z.square().sum().backward()
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-6)


def test_windows_are_drawn_for_each_channel() -> None:
    x = Tensor.arange(64).float().reshape(1, 1, 1, 64).expand(1, 8, 2, 64).contiguous()
    found = nn.FractionalMaxPool2d((1, 2), output_size=(2, 40))(x).numpy()
    assert found.shape == (1, 8, 2, 40) and (np.diff(found, axis=-1) >= 1).all() and (found[..., -1] == 63).all()
    assert len({channel.tobytes() for channel in found[0]}) > 1


def test_wrong_calls_are_refused() -> None:
    x = Tensor.ones(1, 1, 4, 4)
    with pytest.raises(ArgumentError, match="fractional_max_pool2d: output_size=None, output_ratio=None"):
        F.fractional_max_pool2d(x, 2)
    with pytest.raises(ArgumentError, match=r"output_ratio=1\.5"):
        F.fractional_max_pool2d(x, 2, output_ratio=1.5)
    with pytest.raises(ShapeError, match="On each axis"):
        F.fractional_max_pool2d(x, 2, 4)
    with pytest.raises(ShapeError, match=r"Give \(batch, channels\) and 3 axes"):
        F.fractional_max_pool3d(x[0], 2, 2)
    with pytest.raises(ShapeError, match="random_samples"):
        F.fractional_max_pool2d(x, 2, 2, _random_samples=Tensor.ones(1, 2))
