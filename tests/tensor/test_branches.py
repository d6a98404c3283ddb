"""`whit.while_loop`, `whit.fori_loop` and `whit.cond` are the statements that they stand for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import whit
from tensor.loops import agree
from whit import GlobalCounters, Tensor, TinyJit
from whit.errors import ArgumentError, DTypeError, NotSupportedError, ShapeError

devices = pytest.mark.parametrize("device", ["CPU", "PYTHON"])


def grown(x: Tensor, limit: Any = 50.0) -> Any:
    """x * 1.5 + 1 until its sum is large, and how often."""
    return whit.while_loop(lambda s: s[0].sum() < limit, lambda s: (s[0] * 1.5 + 1, s[1] + 1), (x, 0))


def grown_in_python(x: Any, limit: float = 50.0) -> Any:
    count = 0
    while x.sum() < limit:
        x, count = x * 1.5 + 1, count + 1
    return x, count


@devices
@pytest.mark.parametrize("start", [0.0, 3.0, 10.0, 100.0])
def test_a_while_loop_is_the_loop(start: float, device: str) -> None:
    x, count = grown(Tensor([start, 1.0], device=device))
    wanted, times = grown_in_python(np.array([start, 1.0], np.float32))
    np.testing.assert_allclose(x.numpy(), wanted, rtol=1e-6)
    assert count.item() == times


def test_a_while_loop_has_as_many_kernels_as_its_parts() -> None:
    counts = []
    for start in (1.0, 100.0, 30.0):
        x = Tensor([start, 1.0]).realize()
        GlobalCounters.reset()
        Tensor.realize(*grown(x))
        counts.append(GlobalCounters.kernel_count)
    assert len(set(counts)) == 1


def test_a_while_loop_in_a_replay() -> None:
    run = TinyJit(lambda x, limit: [t.realize() for t in grown(x, limit)])
    for start, limit in ((1.0, 50.0), (5.0, 10.0), (0.0, 500.0), (99.0, 5.0)):
        x, count = run(Tensor([start, 0.0]).realize(), Tensor(limit).realize())
        wanted, times = grown_in_python(np.array([start, 0.0], np.float32), limit)
        np.testing.assert_allclose(x.numpy(), wanted, rtol=1e-6)
        assert count.item() == times


def test_a_batch_of_while_loops() -> None:
    xs = Tensor(np.random.default_rng(0).uniform(0, 20, (5, 3)))
    found, counts = whit.vmap(grown)(xs)
    for row, value, count in zip(xs.numpy(), found.numpy(), counts.tolist(), strict=True):
        wanted, times = grown_in_python(row)
        np.testing.assert_allclose(value, wanted)
        assert count == times


def test_a_batch_with_one_end_for_all() -> None:
    found = whit.vmap(lambda x: whit.while_loop(lambda s: s[1] < 3, lambda s: (s[0] * 2, s[1] + 1), (x, 0))[0])
    assert found(Tensor([1.0, 2.0])).tolist() == [8.0, 16.0]


def test_tangents_of_a_while_loop() -> None:
    x, dx = Tensor([1.0, 2.0], dtype="float64"), Tensor([0.5, -1.0], dtype="float64")
    _, tangent = whit.jvp(lambda x: grown(x)[0], (x,), (dx,))
    step = 1e-6
    ends = [grown(x + sign * step * dx)[0].numpy() for sign in (1, -1)]
    np.testing.assert_allclose(tangent.numpy(), (ends[0] - ends[1]) / (2 * step), rtol=1e-6)


def test_a_while_loop_has_no_gradient() -> None:
    with pytest.raises(NotSupportedError, match="a while loop has none in reverse"):
        whit.grad(lambda x: grown(x)[0].sum())(Tensor([1.0]))


def test_loops_in_loops() -> None:
    """The Collatz numbers: how many steps each takes."""

    def steps(n: Tensor) -> Tensor:
        half = whit.while_loop(
            lambda s: s[0] != 1,
            lambda s: (whit.cond(s[0] % 2 == 0, lambda v: v // 2, lambda v: 3 * v + 1, s[0]), s[1] + 1),
            (n, 0),
        )
        count: Tensor = half[1]
        return count

    assert whit.map(steps, Tensor([1, 2, 3, 6, 7, 27])).tolist() == [0, 1, 7, 8, 16, 111]
    assert whit.vmap(steps)(Tensor([1, 2, 3, 6, 7])).tolist() == [0, 1, 7, 8, 16]


def test_fori_loop_counts() -> None:
    assert whit.fori_loop(2, 6, lambda i, s: s * 10 + i, 0).item() == 2345
    assert whit.fori_loop(6, 2, lambda i, s: s + i, 7).item() == 7
    assert whit.fori_loop(Tensor(2), Tensor(6), lambda i, s: s * 10 + i, 0).item() == 2345
    assert whit.fori_loop(0, Tensor(3), lambda i, s: s + i, 0).item() == 3


def test_fori_loop_has_a_gradient_if_its_bounds_are_known() -> None:
    slope = whit.grad(lambda x: whit.fori_loop(0, 3, lambda i, s: s * x, x))(Tensor(2.0))
    assert slope.item() == pytest.approx(4 * 2.0**3)


def chosen(p: Any, x: Tensor, y: Tensor) -> Any:
    return whit.cond(p, lambda a, b: {"r": (a * b).sin()}, lambda a, b: {"r": a + b * b * x}, x, y)["r"]


def chosen_in_python(p: bool, x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sin() if p else x + y * y * x


@devices
@pytest.mark.parametrize("truth", [True, False])
def test_cond_is_the_choice(truth: bool, device: str) -> None:
    x, y = (Tensor(np.random.default_rng(i).normal(size=(2, 3)), device=device) for i in range(2))
    agree(chosen(Tensor(truth, device=device), x, y), chosen_in_python(truth, x, y))


@pytest.mark.parametrize("truth", [True, False])
def test_derivatives_of_a_choice(truth: bool) -> None:
    x, y = (Tensor(np.random.default_rng(i).normal(size=(2, 3))) for i in range(2))
    found = whit.grad(lambda a, b: chosen(Tensor(truth), a, b).sum(), argnums=(0, 1))(x, y)
    agree(found, whit.grad(lambda a, b: chosen_in_python(truth, a, b).sum(), argnums=(0, 1))(x, y))
    found = whit.hvp(lambda a: chosen(Tensor(truth), a, y).sum(), (x,), (y,))
    agree(found, whit.hvp(lambda a: chosen_in_python(truth, a, y).sum(), (x,), (y,)))
    found = whit.jvp(lambda a, b: chosen(Tensor(truth), a, b), (x, y), (y, x))
    agree(found, whit.jvp(lambda a, b: chosen_in_python(truth, a, b), (x, y), (y, x)))


def test_batches_of_choices() -> None:
    x, y = (Tensor(np.random.default_rng(i).normal(size=(3, 2))) for i in range(2))
    both = whit.vmap(chosen)(Tensor([True, False, True]), x, y)
    agree(both, chosen_in_python(True, x, y).stack(chosen_in_python(False, x, y))[Tensor([0, 1, 0]), Tensor([0, 1, 2])])
    agree(whit.vmap(lambda a, b: chosen(Tensor(False), a, b))(x, y), chosen_in_python(False, x, y))


def test_a_choice_in_a_replay() -> None:
    run = TinyJit(lambda p, x: chosen(p > 0, x, x).realize())
    for number in (1.0, -1.0, 2.0, -2.0):
        x = Tensor([1.0, number]).realize()
        agree(run(Tensor(number).realize(), x), chosen_in_python(number > 0, x, x), 1e-6)


def test_only_what_is_chosen_runs() -> None:
    """The other function would not come to an end."""
    forever = lambda x: whit.while_loop(lambda s: s.sum() < 1, lambda s: s * 0.5, x)  # noqa: E731
    assert whit.cond(Tensor(1.0) > 2, forever, lambda x: x + 1, Tensor([0.5])).tolist() == [1.5]


def test_random_numbers_in_a_choice() -> None:
    found = whit.cond(Tensor(True), lambda: Tensor.rand(3), lambda: Tensor.zeros(3))
    assert 0 < found.min().item() < found.max().item() < 1


def test_wrong_calls() -> None:
    x = Tensor([1.0, 2.0])
    with pytest.raises(ArgumentError, match="one bool is wanted"):
        whit.cond(x > 0, lambda: x, lambda: x)
    with pytest.raises(ArgumentError, match="one function returns"):
        whit.cond(True, lambda: x, lambda: (x, x))
    with pytest.raises(ShapeError, match="have shapes"):
        whit.cond(True, lambda: x, lambda: x[:1])
    with pytest.raises(DTypeError, match="float32 and int32"):
        whit.cond(True, lambda: x, lambda: x.cast("int32"))
    with pytest.raises(ArgumentError, match="Return one bool"):
        whit.while_loop(lambda s: s, lambda s: s + 1, x)
    with pytest.raises(ShapeError, match="the state has shape"):
        whit.while_loop(lambda s: s.sum() < 3, lambda s: s[:1], x)
    with pytest.raises(NotSupportedError, match="random numbers"):
        whit.while_loop(lambda s: s < 3, lambda s: s + Tensor.rand(), 0.0)
