"""Winograd's algorithm: the matrices, where it is taken, values and gradients beside those of the sum as written."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tensor.interpreted import interpreted
from whit import Context, GlobalCounters, Tensor, TinyJit, Variable
from whit.kernel.convolution_cost import best_winograd_tile, fastest_winograd_tile
from whit.tensor.graphs.convolution.winograd import POINTS, matrices

pytestmark = pytest.mark.slow  # every case is compiled

RNG = np.random.default_rng(5)


def unfolded(rows: list[Fraction]) -> list[Fraction]:
    found = list(rows)
    for i in range(1, len(rows) - 1, 2):
        found[i], found[i + 1] = rows[i] + rows[i + 1], rows[i] - rows[i + 1]
    return found


def times(matrix: tuple[tuple[Fraction, ...], ...], column: list[Fraction]) -> list[Fraction]:
    return [sum((a * b for a, b in zip(row, column, strict=True)), Fraction(0)) for row in matrix]


@pytest.mark.parametrize("m", POINTS)
def test_the_matrices_make_exactly_a_convolution(m: int) -> None:
    back, weights, inputs = matrices(m)
    tile = [Fraction(int(n)) for n in RNG.integers(-9, 9, m + 2)]
    taps = [Fraction(int(n)) for n in RNG.integers(-9, 9, 3)]
    seen, weight = unfolded(times(inputs, tile)), unfolded(times(weights, taps))
    found = times(back, unfolded([a * b for a, b in zip(seen, weight, strict=True)]))
    assert found == [sum(tile[i + j] * taps[j] for j in range(3)) for i in range(m)]
    assert all(entry.denominator & (entry.denominator - 1) == 0 for row in (*back, *inputs) for entry in row)  # exact


CASES = {  # batch, in, out, h, w, groups, padding
    "odd sizes": (2, 2, 3, 7, 5, 1, 1),
    "groups and uneven padding": (1, 4, 2, 5, 4, 2, (2, 3, 0, 1)),
    "one result": (3, 1, 1, 3, 3, 1, 0),
    "no channels": (1, 0, 2, 4, 4, 1, 1),
    "no batch": (0, 2, 2, 4, 4, 1, 1),
}


def given(name: str, dtype: str = "float64") -> tuple[Tensor, Tensor, int, object]:
    batch, inputs, outputs, h, w, groups, padding = CASES[name]
    x = Tensor(RNG.standard_normal((batch, inputs, h, w)).astype(dtype))
    return x, Tensor(RNG.standard_normal((outputs, inputs // groups, 3, 3)).astype(dtype)), groups, padding


def both(name: str, dtype: str = "float64") -> list[list[np.ndarray]]:
    """The result and both gradients, as written and by Winograd."""
    x, w, groups, padding = given(name, dtype)
    found = []
    for wino in (0, 1):
        with Context(WINO=wino):
            y = x.conv2d(w, padding=padding, groups=groups)
        towards = Tensor(np.linspace(-1, 1, y.numel()).reshape(y.shape).astype(dtype))
        found.append([t.numpy() for t in (y, *y.gradient(x, w, gradient=towards))])
    return found


@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients_are_those_of_the_convolution(name: str) -> None:
    with interpreted():
        for wanted, found in zip(*both(name), strict=True):
            assert wanted.shape == found.shape and wanted.dtype == found.dtype
            np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-13)


def test_halves_are_added_up_in_float32() -> None:
    with interpreted():
        for wanted, found in zip(*both("odd sizes", "float16"), strict=True):
            assert found.dtype == np.float16
            np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-3)


def test_compiled_tiles_of_four() -> None:
    x, w = (Tensor(RNG.standard_normal(shape).astype(np.float32)).realize() for shape in ((1, 3, 70, 9), (2, 3, 3, 3)))
    with Context(WINO=0):
        wanted = x.conv2d(w, padding=1).numpy()
    assert fastest_winograd_tile(1, 3, 2, 1, (70, 9)) == 4
    with Context(WINO=1):
        y = x.conv2d(w, padding=1)
    GlobalCounters.reset()
    found = y.numpy()
    assert GlobalCounters.kernel_count == 6  # zeros around, two transforms, products, results, what lies over the edge
    assert np.abs(found - wanted).max() < 4e-6 * np.abs(wanted).max()


def test_any_batch_of_a_captured_function() -> None:
    values = RNG.standard_normal((4, 2, 6, 6)).astype(np.float32)
    weight = Tensor(RNG.standard_normal((2, 2, 3, 3)).astype(np.float32))
    with interpreted(), Context(WINO=1):
        x, w = Tensor(values), Tensor(weight.numpy())
        run = TinyJit(lambda x, w: x.conv2d(w, padding=1).realize())
        for n in (2, 3):
            found = run(x[: Variable("n", 1, 4).bind(n)], w)
            with Context(WINO=0):
                wanted = x[:n].conv2d(w, padding=1).numpy()
            np.testing.assert_allclose(found.numpy()[:n], wanted, rtol=0, atol=1e-5)


def nodes(*shape: int, out: int, groups: int = 1, **how: Any) -> int:
    """Nodes of the graph of a 3 x 3 convolution: it has many with Winograd."""
    return len(
        Tensor.empty(*shape).conv2d(Tensor.empty(out, shape[1] // groups, 3, 3), groups=groups, **how).uop.topological()
    )


@pytest.mark.parametrize("how", [{"stride": 2}, {"dilation": 2}])
def test_strides_and_dilations_have_no_such_form(how: dict[str, int]) -> None:
    with Context(WINO=1):
        assert nodes(1, 64, 56, 56, out=64, **how) < 50 < nodes(1, 64, 56, 56, out=64)
        assert Tensor.ones(1, 2, 5, 5).cast("int32").conv2d(Tensor.ones(2, 2, 3, 3).cast("int32")).shape == (1, 2, 3, 3)


@pytest.mark.cpu
def test_by_default_it_is_taken_where_it_was_measured_to_win() -> None:
    assert nodes(8, 64, 56, 56, out=64, padding=1) > 50
    with Context(WINO=0):
        assert nodes(8, 64, 56, 56, out=64, padding=1) < 50
    with interpreted():  # nothing was measured there
        assert nodes(8, 64, 56, 56, out=64, padding=1) < 50


CHOICES = {  # batch, in, out, size: m
    (1, 64, 64, 56): 4,
    (8, 128, 128, 28): 4,
    (1, 256, 256, 14): 2,
    (16, 512, 512, 4): 2,
    (1, 512, 512, 7): 0,  # more weights than results
    (8, 3, 64, 224): 0,  # too few products for each element
    (64, 1, 32, 28): 0,
    (1, 16, 16, 8): 0,  # over before five kernels have started
}


@pytest.mark.parametrize("sizes", CHOICES, ids=str)
def test_the_tile_that_is_estimated_to_be_fastest(sizes: tuple[int, int, int, int]) -> None:
    batch, inputs, outputs, size = sizes
    assert best_winograd_tile(batch, inputs, outputs, 1, (size, size)) == CHOICES[sizes]


def test_gradients_follow_the_setting_of_the_convolution() -> None:
    x, w = Tensor.empty(8, 64, 56, 56), Tensor.empty(64, 64, 3, 3)
    with Context(WINO=1):
        y = x.conv2d(w, padding=1)
    with Context(WINO=0):
        taken = y.gradient(x, gradient=Tensor.empty(8, 64, 56, 56))[0]
        never = x.conv2d(w, padding=1).gradient(x, gradient=Tensor.empty(8, 64, 56, 56))[0]
    assert len(taken.uop.topological()) > 50 > len(never.uop.topological())
