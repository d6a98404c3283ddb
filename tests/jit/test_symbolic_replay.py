"""Captured functions with windows at variables: one program, checked against the values of each call."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whit import Context, Tensor, TinyJit, Variable
from whit.engine.compile import compile as compile_module
from whit.engine.plan import find_plan as plans_module
from whit.errors import JitError, OutOfRangeError

pytestmark = pytest.mark.slow  # compiles much

SIZE = 128
X = np.random.default_rng(0).standard_normal((4, SIZE)).astype(np.float32)
DEVICES = ["PYTHON", pytest.param("CPU", marks=pytest.mark.cpu), pytest.param("CPU:C", marks=pytest.mark.cpu)]


def counts() -> tuple[int, int]:
    return len(plans_module._plans), len(compile_module._kernels)


@pytest.mark.parametrize("device", DEVICES)
def test_a_replay_takes_every_value_that_fits_and_no_other(device: str) -> None:
    x, start = Tensor(X, device=device).realize(), Variable("start", 0, SIZE)

    @TinyJit
    def step(at: Any) -> Tensor:
        return x[:, at : at + 2] * 2

    step(start.bind(5))
    before = counts()
    for value in (0, 64, 126):
        assert np.allclose(step(start.bind(value)).numpy(), X[:, value : value + 2] * 2)
    with pytest.raises(
        OutOfRangeError, match=r"getitem: start=127 to start=127 \+ 2 is not inside axis 1 of \(4, 128\)"
    ):
        step(start.bind(127))
    assert np.allclose(step(start.bind(3)).numpy(), X[:, 3:5] * 2)
    assert counts() == before
    assert len(step.captured) == 1


@pytest.mark.parametrize("device", DEVICES)
def test_a_replay_that_does_not_fit_writes_nothing(device: str) -> None:
    cache = Tensor.zeros(4, SIZE, device=device).contiguous().realize()
    start, length = Variable("start", 0, SIZE), Variable("length", 1, 4)

    @TinyJit
    def step(at: Any, count: Any, value: Tensor) -> Tensor:
        cache[:, at : at + count].assign(value.expand(4, count)).realize()
        return cache[:, : at + count].sum()

    wanted = np.zeros((4, SIZE), np.float32)
    number = Tensor([[3.0]], device=device).realize()
    for at, count in ((3, 2), (0, 1), (124, 4), (127, 1)):
        wanted[:, at : at + count] = 3
        found = step(start.bind(at), length.bind(count), number)
        assert found.item() == wanted[:, : at + count].sum()
    assert len(step.captured) == 1
    with pytest.raises(OutOfRangeError, match="is not inside axis 1"):
        step(start.bind(125), length.bind(4), number)
    assert (cache.numpy() == wanted).all()


@pytest.mark.parametrize("device", DEVICES)
def test_a_function_from_a_file_keeps_what_it_takes_for_granted(device: str, tmp_path: Path) -> None:
    x, start, length = Tensor(X, device=device).realize(), Variable("start", 0, SIZE), Variable("length", 1, 4)

    @TinyJit
    def step(at: Any, count: Any) -> Tensor:
        return x[:, at : at + count] * 2

    step(start.bind(5), length.bind(2))
    step.save(tmp_path / "step.whit")
    loaded = TinyJit.load(tmp_path / "step.whit")
    for at, count in ((0, 1), (126, 2), (124, 4)):
        assert np.allclose(loaded(start.bind(at), length.bind(count)).numpy(), X[:, at : at + count] * 2)
    text = r"step: 125 to 129 is not inside axis 1 of \(4, 128\)\n  with length = 4, start = 125\n"
    with pytest.raises(OutOfRangeError, match=text):
        loaded(start.bind(125), length.bind(4))
    assert np.allclose(loaded(start.bind(3), length.bind(1)).numpy(), X[:, 3:4] * 2)


def test_what_the_function_asks_is_checked_also_where_no_kernel_needs_it() -> None:
    """Ends in the wrong order, and a window that nothing is computed of."""
    x, start, end = Tensor(X).realize(), Variable("start", 0, SIZE), Variable("end", 0, SIZE)

    @TinyJit
    def between(first: Any, last: Any) -> Tensor:
        return x[:, first:last] * 2

    @TinyJit
    def unused(first: Any) -> Tensor:
        x[:, first + 1]
        return x * first

    assert np.allclose(between(start.bind(3), end.bind(9)).numpy(), X[:, 3:9] * 2)
    assert between(start.bind(9), end.bind(9)).shape[0] == 4
    with pytest.raises(OutOfRangeError, match="start=9 to end=3 is not inside"):
        between(start.bind(9), end.bind(3))
    assert len(between.captured) == 1
    unused(start.bind(3))
    with pytest.raises(OutOfRangeError, match=r"start=127 \+ 1 is outside axis 1"):
        unused(start.bind(127))


def test_another_meaning_is_another_capture() -> None:
    """Padding by less than nothing cuts off: what was captured for padding is not what that is."""
    x, n = Tensor(X[0]).realize(), Variable("n", 0, SIZE)

    @TinyJit
    def step(count: Any) -> Tensor:
        return x[:8].pad(((0, count - 4),)) * 2

    for value in (6, 4, 2, 7):
        wanted = np.pad(X[0, :8], (0, value - 4)) if value >= 4 else X[0, : 4 + value]
        assert np.allclose(step(n.bind(value)).numpy(), wanted * 2)


def test_a_variable_may_have_several_values_as_arguments(tmp_path: Path) -> None:
    x, n = Tensor(X).realize(), Variable("n", 0, SIZE)

    @TinyJit
    def both(one: Any, other: Any, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x[:, :other].sum(1) - x[:, :one].sum(1), x[:, other : other + one] * 2, y + 1

    def check(function: Callable[..., Any], one: int, other: int, third: int) -> None:
        sums, window, rows = function(n.bind(one), n.bind(other), Tensor(X)[0, : n.bind(third)])
        assert np.allclose(sums.numpy(), X[:, :other].sum(1) - X[:, :one].sum(1), rtol=1e-4, atol=1e-4)
        assert window.shape == (4, n.bind(one))
        assert rows.shape == (n.bind(third),)
        assert np.allclose(window.numpy(), X[:, other : other + one] * 2)
        assert np.allclose(rows.numpy(), X[0, :third] + 1)

    for values in ((3, 4, 5), (9, 2, 1), (5, 4, 3), (128, 0, 7)):
        check(both, *values)
    assert len(both.captured) == 1
    for values in ((3, 3, 5), (9, 9, 1), (3, 4, 3), (4, 9, 4), (4, 4, 4), (7, 7, 7)):
        check(both, *values)
    assert len(both.captured) == 4  # all different, the first two equal, the outer two, all of them
    with pytest.raises(OutOfRangeError, match=r"n=120 to n=9 \+ n=120 is not inside axis 1"):
        both(n.bind(9), n.bind(120), x)
    both.save(tmp_path / "both.whit")
    loaded = TinyJit.load(tmp_path / "both.whit")
    for values in ((8, 4, 5), (9, 2, 1), (3, 3, 5), (6, 6, 6)):
        check(loaded, *values)
    with pytest.raises(OutOfRangeError, match="both: 120 to 129 is not inside axis 1"):
        loaded(n.bind(9), n.bind(120), Tensor(X)[0, : n.bind(1)])


def test_a_variable_that_is_an_argument_has_no_values_of_the_function() -> None:
    """Where it happens to have that value, nobody could tell the two apart."""
    x, n = Tensor(X).realize(), Variable("n", 0, SIZE)

    @TinyJit
    def both(count: Any) -> Tensor:
        return x[:, :count].sum(1) + x[:, : n.bind(4)].sum(1)

    with pytest.raises(JitError, match="n has several values, not all of them arguments"):
        both(n.bind(3))

    @TinyJit
    def other(count: Any) -> Tensor:
        return x[:, : n.bind(4)].sum(1)

    with pytest.raises(JitError, match="n has several values, not all of them arguments"):
        other(n.bind(3))

    @TinyJit
    def fixed() -> Tensor:
        return x[:, : n.bind(3)].sum(1) + x[:, : n.bind(4)].sum(1)

    for _ in range(3):
        assert np.allclose(fixed().numpy(), X[:, :3].sum(1) + X[:, :4].sum(1), rtol=1e-4)


# ---- random numbers


def drawn(count: Any) -> tuple[Tensor, ...]:
    x = Tensor.ones(50, 3)
    return Tensor.rand(count, 3), x[:count].dropout(0.5) * 1, Tensor.randint(count, 2, low=0, high=9), Tensor.randn(4)


def sequence(function: Callable[[Any], tuple[Tensor, ...]], value_of: Callable[[int], Any]) -> list[Any]:
    Tensor.manual_seed(5)
    return [each.numpy() for size in (3, 7, 1, 50) for each in (*function(value_of(size)), Tensor.rand(2))]


def test_replays_draw_as_many_numbers_as_their_values_say(tmp_path: Path) -> None:
    """So no two draws have numbers in common, and those of the next call are those of the program in numbers."""
    n, captured = Variable("n", 1, 50), TinyJit(drawn)
    with Context(TRAINING=1):
        wanted = sequence(drawn, int)
        found = sequence(captured, n.bind)
        assert all(map(np.array_equal, found, wanted))
        assert len(captured.captured) == 1
        captured.save(tmp_path / "drawn.whit")
        loaded = sequence(TinyJit.load(tmp_path / "drawn.whit"), n.bind)
        assert all(map(np.array_equal, loaded, wanted))


def test_replays_that_set_the_seed_leave_it_where_the_program_does() -> None:
    def seeded(count: Any) -> tuple[Tensor, ...]:
        Tensor.manual_seed(3)
        return Tensor.rand(count, 2), Tensor.rand(3)

    n, captured = Variable("n", 1, 50), TinyJit(seeded)
    assert all(map(np.array_equal, sequence(captured, n.bind), sequence(seeded, int)))
