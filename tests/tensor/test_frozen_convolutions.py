"""Convolutions whose weights do not change (`FROZEN`): channels last on a CPU, the same numbers everywhere."""

from collections.abc import Callable

import numpy as np
import pytest

from whit import Tensor, TinyJit
from whit.config import Context
from whit.ir import ops
from whit.ir.uop import UOp
from whit.kernel.convolution_cost import best_tile_of_kept_weights
from whit.kernel.forms import forms_of
from whit.schedule import schedule
from whit.target import parse_target
from whit.tensor.graphs.convolution.convolve import Sliding, convolve, gradient_of_input

RNG = np.random.default_rng(0)
CPU = parse_target("CPU")
Work = Callable[..., Tensor]


def whole(*shape: int) -> np.ndarray:
    return RNG.integers(-3, 4, shape).astype(np.float32)


def both(work: Work, *arrays: np.ndarray, **settings: int) -> tuple[np.ndarray, np.ndarray]:
    """What the CPU makes of it with frozen weights, and the interpreter as it is written."""
    with Context(FROZEN=1, **settings):
        found = work(*(Tensor(a, device="CPU") for a in arrays)).numpy()
    return found, work(*(Tensor(a, device="PYTHON") for a in arrays)).numpy()


WORKS: dict[str, tuple[Work, tuple[tuple[int, ...], ...]]] = {
    "1 x 1": (lambda x, w: x.conv2d(w), ((1, 5, 6, 7), (9, 5, 1, 1))),
    "1 x 1 of steps": (lambda x, w: x.conv2d(w, stride=2), ((2, 4, 6, 7), (8, 4, 1, 1))),
    "3 x 3": (lambda x, w: x.conv2d(w, padding=1).relu(), ((1, 3, 6, 5), (20, 3, 3, 3))),
    "steps and gaps": (lambda x, w: x.conv2d(w, stride=(2, 1), dilation=2, padding=2), ((2, 8, 9, 8), (4, 8, 3, 2))),
    "uneven padding": (lambda x, w: x.conv2d(w, padding=((0, 2), (1, 0))), ((1, 4, 5, 5), (4, 4, 3, 3))),
    "each channel": (lambda x, w: x.conv2d(w, padding=2, groups=18), ((1, 18, 7, 14), (18, 1, 5, 5))),
    "each channel, steps": (lambda x, w: x.conv2d(w, padding=1, stride=2, groups=40), ((2, 40, 9, 7), (40, 1, 3, 3))),
    "groups": (lambda x, w: x.conv2d(w, padding=1, groups=2), ((1, 4, 5, 5), (6, 2, 3, 3))),
    "two for each channel": (lambda x, w: x.conv2d(w, groups=3), ((1, 3, 5, 5), (6, 1, 3, 3))),
    "one channel": (lambda x, w: x.conv2d(w, padding=1), ((1, 1, 4, 4), (1, 1, 3, 3))),
    "one axis": (lambda x, w: x.conv2d(w, padding=1), ((2, 3, 8), (4, 3, 3))),
    "largest": (lambda x, w: x.conv2d(w).max_pool2d(3, 2, padding=1).relu(), ((1, 3, 8, 9), (8, 3, 1, 1))),
    "sums of all": (lambda x, w: x.conv2d(w).mean((2, 3)), ((1, 8, 4, 4), (8, 8, 1, 1))),
    "side by side": (lambda x, w: x.conv_transpose2d(w, stride=2).relu(), ((1, 6, 4, 5), (6, 10, 2, 2))),
    "overlapping": (lambda x, w: x.conv_transpose2d(w, stride=2, padding=1), ((1, 6, 4, 5), (6, 10, 4, 4))),
    "more at the end": (
        lambda x, w: x.conv_transpose2d(w, stride=3, output_padding=2, padding=1),
        ((1, 4, 3, 3), (4, 2, 3, 2)),
    ),
}


@pytest.mark.cpu
@pytest.mark.parametrize("name", WORKS)
def test_frozen_weights_give_the_same_sums(name: str) -> None:
    work, shapes = WORKS[name]
    found, expected = both(work, *(whole(*shape) for shape in shapes))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.cpu
def test_between_convolutions_nothing_is_turned() -> None:
    x, w, v, u = whole(1, 4, 6, 6), whole(8, 4, 3, 3), whole(8, 1, 3, 3), whole(8, 8, 1, 1)

    def work(x: Tensor, w: Tensor, v: Tensor, u: Tensor) -> Tensor:
        first = x.conv2d(w, padding=1).relu()
        second = first.conv2d(v, padding=1, groups=8) * 2 + first
        return second.conv2d(u).cat(first, dim=1).max_pool2d(2)

    np.testing.assert_array_equal(*both(work, x, w, v, u))


@pytest.mark.cpu
@pytest.mark.parametrize("size", [(8, 8), (7, 9)], ids=str)
def test_winograd_of_frozen_weights(size: tuple[int, int]) -> None:
    x, w = RNG.standard_normal((2, 5, *size), np.float32), RNG.standard_normal((6, 5, 3, 3), np.float32)
    found, expected = both(lambda x, w: x.conv2d(w, padding=1).relu(), x, w, WINO=1)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.cpu
def test_gradients_go_through_frozen_convolutions() -> None:
    x, w = whole(1, 4, 5, 5), whole(6, 4, 3, 3)
    for which in (0, 1):
        np.testing.assert_array_equal(
            *both(lambda x, w, i=which: x.conv2d(w, padding=1).square().sum().gradient(x, w)[i], x, w)
        )


def test_tiles_are_chosen_by_work_and_memory() -> None:
    assert best_tile_of_kept_weights(1, 64, 64, (56, 56)) == 4
    assert best_tile_of_kept_weights(1, 512, 512, (7, 7)) == 0  # four times the weights, read once
    assert best_tile_of_kept_weights(1, 3, 32, (112, 112)) == 0  # the results take longer than the products


@pytest.mark.cpu
def test_what_weights_become_is_computed_once() -> None:
    w = Tensor(whole(8, 4, 3, 3)).realize()

    def work(x: Tensor) -> Tensor:
        with Context(FROZEN=1):
            return x.conv2d(w, padding=1, stride=2)

    pruned, plain = (TinyJit(work, prune=is_pruned) for is_pruned in (True, False))
    for _ in range(3):
        x = Tensor(whole(1, 4, 6, 6)).realize()
        np.testing.assert_array_equal(pruned(x).numpy(), plain(x).numpy())


# ---- kernels


def names(*values: UOp) -> list[str]:
    effect = UOp.group(*(UOp.param(100 + i, v.dtype, v.shape).store(v) for i, v in enumerate(values)))
    return [call.src[0].arg.name for call in schedule(effect, CPU).src]


def conv(x: UOp, w: UOp, *, groups: int = 1) -> UOp:
    kernel = tuple(w.shape[2:])
    pads = tuple((k // 2, k // 2) for k in kernel)
    forms = forms_of(CPU, is_frozen=True)
    return convolve(x, w, Sliding((1, 1), (1, 1), groups, tuple(x.shape[2:]), kernel, pads, forms=forms))


def param(slot: int, *shape: int) -> UOp:
    return UOp.param(slot, CPU_FLOAT, shape)


CPU_FLOAT = Tensor(0.5).dtype


def test_a_block_of_each_channel_and_1_x_1_is_a_kernel_each() -> None:
    x = param(0, 1, 16, 16, 32).permute((0, 3, 1, 2))
    y = conv(x, param(1, 32, 1, 3, 3), groups=32).maximum(x.constant(0.0))
    y = conv(y, param(2, 64, 32, 1, 1)) + param(3, 64).reshape((1, 64, 1, 1)).expand((1, 64, 16, 16))
    assert names(y.permute((0, 2, 3, 1))) == ["stage_3x3x32x1", "add_reduce_1x16x16x32", "add_reduce_1x16x16x64"]


def test_large_products_that_are_added_up_have_kernels_of_their_own() -> None:
    x, y = param(0, 1, 32, 32, 32), param(1, 1, 32, 32, 64)
    total = conv(x.permute((0, 3, 1, 2)), param(2, 64, 32, 1, 1)) + conv(
        y.permute((0, 3, 1, 2)), param(3, 64, 64, 1, 1)
    )
    assert names(total.permute((0, 2, 3, 1))) == ["add_reduce_1x32x32x64"] * 2


def test_transposed_convolutions_side_by_side_are_a_product_and_a_copy() -> None:
    forms = forms_of(CPU, is_frozen=True)
    slide = Sliding((2, 2), (1, 1), 1, (32, 32), (2, 2), ((0, 0), (0, 0)), forms=forms)
    x = param(0, 1, 16, 16, 32).permute((0, 3, 1, 2))
    y = gradient_of_input(x, param(1, 32, 24, 2, 2), slide).maximum(x.constant(0.0))
    assert names(y.permute((0, 2, 3, 1))) == ["stage_32x2x2x24", "add_reduce_1x16x16x2x2x24", "max_1x32x32x24"]
    assert slide.is_side_by_side and all(node.op is not ops.PAD for node in y.topological())
