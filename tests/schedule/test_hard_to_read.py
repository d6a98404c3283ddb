"""What is cheap to store and dear to read again and again is stored: views that windows show, and gathers."""

from collections.abc import Callable

import numpy as np
import pytest

from whit import Context, Tensor

RNG = np.random.default_rng(3)
X, W = RNG.standard_normal((2, 16, 12, 12)), RNG.standard_normal((8, 16, 3, 3))
Conv = Callable[[Tensor, Tensor], Tensor]


def shuffled(x: Tensor) -> Tensor:
    """Depth to space, and back to 16 channels."""
    x = x.reshape(2, 4, 2, 2, 12, 12).permute(0, 1, 4, 2, 5, 3).reshape(2, 4, 24, 24)
    return x.repeat(1, 4, 1, 1)


def unshuffled(x: Tensor) -> Tensor:
    return x.reshape(2, 16, 6, 2, 6, 2).permute(0, 1, 3, 5, 2, 4).reshape(2, 64, 6, 6)[:, :16]


STORED: dict[str, Conv] = {
    "pixel shuffle": lambda x, w: shuffled(x).conv2d(w, padding=1),
    "enlarged": lambda x, w: x.interpolate((24, 24), mode="nearest").conv2d(w, padding=1),
    "repeated": lambda x, w: x.repeat_interleave(2, 2).repeat_interleave(2, 3).conv2d(w, padding=1),
    "reflected": lambda x, w: x.pad((1, 1, 1, 1), mode="reflect").conv2d(w),
    "turned round and enlarged": lambda x, w: x.transpose(2, 3).interpolate((20, 28), mode="nearest").conv2d(w),
}
READ: dict[str, Conv] = {
    "plain": lambda x, w: x.conv2d(w, padding=1),
    "strides": lambda x, w: x.conv2d(w, stride=2, padding=1),
    "dilated": lambda x, w: x.conv2d(w, dilation=2),
    "turned round": lambda x, w: x.transpose(2, 3).conv2d(w),
    "backwards": lambda x, w: x.flip(2, 3).conv2d(w),
    "part": lambda x, w: x[:, :, 2:, 1:-1].conv2d(w),
    "space to depth": lambda x, w: unshuffled(x).conv2d(w),
    "shuffled, but no windows": lambda x, w: shuffled(x).conv2d(w[:, :, :1, :1]),
    "patches": lambda x, w: (
        x.reshape(2, 16, 3, 4, 3, 4).permute(0, 2, 4, 1, 3, 5).reshape(18, 256) @ w.flatten()[:1024].reshape(256, 4)
    ),
}


def kernels(function: Conv) -> int:
    x, w = (Tensor(a.astype(np.float32)).realize() for a in (X, W))
    first = function(x, w).explain().splitlines()[0]
    return int(first.split(" kernel")[0].split()[-1])


@pytest.mark.cpu  # a GPU reads them as fast as it stores them
@pytest.mark.parametrize("name", STORED)
def test_images_that_are_looked_for_at_divided_positions_are_stored(name: str) -> None:
    assert kernels(STORED[name]) == 2


@pytest.mark.parametrize("name", READ)
def test_images_that_are_read_in_steps_are_not(name: str) -> None:
    assert kernels(READ[name]) == 1


@pytest.mark.parametrize("name", [*STORED, *READ])
def test_the_values_are_those_of_plain_loops(name: str) -> None:
    function = STORED.get(name) or READ[name]
    found = function(Tensor(X), Tensor(W)).numpy()
    with Context(NOOPT=1):
        right = function(Tensor(X), Tensor(W)).numpy()
    assert np.abs(found - right).max() <= 1e-12 * np.abs(right).max()


def test_two_kernels_share_what_is_picked_along_an_axis() -> None:
    rows = Tensor(np.array([3, 1, 7, 7, 0])).realize()
    x, w, v = (Tensor(RNG.standard_normal(shape).astype(np.float32)).realize() for shape in ((6, 8), (5, 4), (5, 3)))
    picked = x[:, rows]
    both = picked @ w, picked @ v, picked
    Tensor.realize(*both)
    right = x.numpy()[:, rows.numpy()]
    for found, expected in zip(both, (right @ w.numpy(), right @ v.numpy(), right), strict=True):
        assert np.abs(found.numpy() - expected).max() < 1e-5
