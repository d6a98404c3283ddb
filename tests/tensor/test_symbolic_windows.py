"""Windows that begin or end at variables are checked against the values that these have now."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from whit import Context, Tensor, Variable, checkpoint, function
from whit.engine.plan import find_plan as plans_module
from whit.errors import OutOfRangeError, ShapeError

pytestmark = pytest.mark.slow  # compiles much

SIZE = 128
X = np.random.default_rng(0).standard_normal((4, SIZE)).astype(np.float32)
DEVICES = ["PYTHON", pytest.param("CPU", marks=pytest.mark.cpu), pytest.param("CPU:C", marks=pytest.mark.cpu)]

Program = Callable[[Tensor, Any, Any], Tensor]


def written(x: Tensor, s: Any, t: Any) -> Tensor:
    result = x.clone()
    result[:, s : s + t] = result[:, :t] + 1
    return result


def assigned(x: Tensor, s: Any, t: Any) -> Tensor:
    result = (x * 1).realize()
    result[:, s : s + t].assign(x[:, :t] * 2).realize()
    return result


def gradient(x: Tensor, s: Any, t: Any) -> Tensor:
    x = Tensor(X, device=x.device, requires_grad=True)
    (x[:, s : s + t] ** 3).sum().backward()
    return x.grad


PROGRAMS: dict[str, Program] = {
    "slice": lambda x, s, t: x[:, s : s + t] * 2,
    "up to": lambda x, s, t: x[:, : s + t] * 2,
    "from": lambda x, s, t: x[:, s + t :] + 1,
    "last": lambda x, s, t: x[:, -(s + t) :] + 1,
    "index": lambda x, s, t: x[1:, s + t - 1] + x[0, s],
    "shrink": lambda x, s, t: x.shrink(((0, 2), (s, s + t))) * 2,
    "backwards": lambda x, s, t: x[:, : s + t][:, ::-1] * 2,
    "steps": lambda x, s, t: x[:, s : s + t : 2] * 2,
    "split": lambda x, s, t: Tensor.cat(*x.split([s, t, SIZE - s - t], 1)[::-1], dim=1),
    "padded": lambda x, s, t: x[:, : s + t].pad(((0, 0), (0, SIZE - s - t))) + x,
    "padded with a number": lambda x, s, t: x[:, s : s + t].pad(((0, 0), (s, SIZE - s - t)), value=2.0) + x,
    "sum": lambda x, s, t: x[:, : s + t].sum(1),
    "softmax": lambda x, s, t: x[:, : s + t].softmax(),
    "product": lambda x, s, t: x[:, s : s + t] @ x[:, s : s + t].T,
    "between": lambda x, s, t: (x[:, s : s + t] * 2).realize()[:, :t] + 1,
    "written": written,
    "assigned": assigned,
    "gradient": gradient,
}


def plans() -> int:
    return len(plans_module._plans)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_program_serves_all_values_that_fit(name: str, device: str) -> None:
    """Of the position alone: bounds that are narrowed. No kernel is made after the first value."""
    start, program, x = Variable("start", 0, SIZE), PROGRAMS[name], Tensor(X, device=device).realize()
    counts = []
    for value in (5, 0, 125):
        wanted = program(Tensor(X, device="PYTHON"), value, 3).numpy()
        before = plans()
        found = program(x, start.bind(value), 3).numpy()
        counts.append(plans() - before)
        assert found.shape == wanted.shape
        assert np.allclose(found, wanted, rtol=1e-4, atol=1e-4)
    assert counts[1:] == [0, 0]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_two_variables_fit_together(name: str, device: str) -> None:
    """start + length <= size says nothing about either alone: kernels are inside for all values, fitting or not."""
    start, length = Variable("start", 0, SIZE), Variable("length", 1, 8)
    program, x = PROGRAMS[name], Tensor(X, device=device).realize()
    counts = []
    for at, count in ((5, 3), (0, 1), (120, 8), (127, 1)):
        wanted = program(Tensor(X, device="PYTHON"), at, count).numpy()
        before = plans()
        found = program(x, start.bind(at), length.bind(count)).numpy()
        counts.append(plans() - before)
        assert found.shape == wanted.shape
        assert np.allclose(found, wanted, rtol=1e-4, atol=1e-4)
    assert counts[1:] == [0, 0, 0]


def test_kernels_without_optimisation_agree() -> None:
    start, length, x = Variable("start", 0, SIZE), Variable("length", 1, 8), Tensor(X).realize()
    with Context(NOOPT=1):
        for name, program in PROGRAMS.items():
            wanted = program(Tensor(X, device="PYTHON"), 120, 8).numpy()
            assert np.allclose(program(x, start.bind(120), length.bind(8)).numpy(), wanted, rtol=1e-4, atol=1e-4), name


def test_sizes_are_plain_expressions() -> None:
    start, x = Variable("start", 0, SIZE).bind(5), Tensor(X)
    assert x[:, start : start + 2].shape == (4, 2)
    assert x[:, : start + 2].shape[1] is (start + 2)
    assert (x[:, : start + 2].pad(((0, 0), (0, SIZE - 2 - start))) + x).shape == (4, SIZE)
    assert x[:, :start][:, :4].shape[1].expression() == "min(start=5, 4)"  # numbers are clamped, by Python's rule


@pytest.mark.parametrize("end", [126, 127])
def test_a_window_that_does_not_fit_now_raises(end: int) -> None:
    start, x = Variable("start", 0, SIZE).bind(end), Tensor(X)
    if end == 126:
        assert x[:, start : start + 2].numpy().shape == (4, 2)
        return
    text = r"getitem: start=127 to start=127 \+ 2 is not inside axis 1 of \(4, 128\)\n  now it is 127 to 129 of 128; "
    with pytest.raises(OutOfRangeError, match=text):
        x[:, start : start + 2]
    with pytest.raises(OutOfRangeError, match=r"setitem: .* is not inside axis 1"):
        x[:, start : start + 2] = 0.0
    with pytest.raises(ShapeError, match=r"shrink: \(start=127, start=127 \+ 2\) is not inside axis 1 of \(4, 128\)"):
        x.shrink((None, (start, start + 2)))


def test_other_ends_that_do_not_fit_now_raise() -> None:
    start, end, x = Variable("start", 0, 200), Variable("end", 0, 200), Tensor(X)
    with pytest.raises(OutOfRangeError, match=r"start=128 is outside axis 1 of \(4, 128\)\n.*\n  It is 128 of 128 now"):
        x[:, start.bind(128)]
    with pytest.raises(OutOfRangeError, match="0 to start=129 is not inside axis 1"):
        x[:, : start.bind(129)]
    with pytest.raises(OutOfRangeError, match="start=129 to 128 is not inside axis 1"):
        x[:, start.bind(129) :]
    with pytest.raises(OutOfRangeError, match="start=9 to end=3 is not inside axis 1"):
        x[:, start.bind(9) : end.bind(3)]
    with pytest.raises(OutOfRangeError, match=r"start=2 - 3 on axis 1 .* may count from the start or from the end"):
        x[:, start.bind(2) - 3]
    with pytest.raises(ShapeError, match=r"expand: a size is 4 - start=9, which is -5 now"):
        Tensor.zeros(1).expand(4 - start.bind(9))
    with pytest.raises(ShapeError, match="split: sizes"):
        x.split([start.bind(200), 128 - start.bind(200)], 1)


def test_what_is_written_may_depend_on_several_variables() -> None:
    """Its size, too: nothing is written past the end of the memory, for whatever values."""
    start, end, length = Variable("start", 0, SIZE), Variable("end", 0, 2 * SIZE), Variable("length", 1, 8)
    counts = []
    for at, stop, count in ((3, 9, 2), (120, 128, 8), (0, 1, 1)):
        before, x, wanted = plans(), Tensor(X).clone(), X.copy()
        x[:, : start.bind(at) + length.bind(count)] = 0.0
        x[:, start.bind(at) : end.bind(stop)] = Tensor(X[:, :1])
        wanted[:, : at + count] = 0
        wanted[:, at:stop] = X[:, :1]
        assert np.array_equal(x.numpy(), wanted)
        counts.append(plans() - before)
    assert counts[1:] == [0, 0]


def test_bounds_are_those_of_all_windows() -> None:
    """Each window narrows the bounds, and what is computed elsewhere with the same variable has its own."""
    start, x = Variable("start", 0, SIZE), Tensor(X)
    for value in (4, 60):
        both = x[:, start.bind(value) : start.bind(value) + 4] + x[:, start.bind(value) * 2 : start.bind(value) * 2 + 4]
        wanted = X[:, value : value + 4] + X[:, value * 2 : value * 2 + 4]
        assert np.allclose(both.numpy(), wanted)
    assert np.allclose((x * start.bind(128)).numpy(), X * 128)


def test_windows_at_quotients_and_maxima() -> None:
    start, x = Variable("start", 0, 999), Tensor(X)
    for value in (0, 7, 500):
        at = start.bind(value)
        assert np.allclose((x[:, at // 4 : at // 4 + 3] * 2).numpy(), X[:, value // 4 : value // 4 + 3] * 2)
    for value in (1, 100):
        at = start.bind(value).maximum(64)
        assert np.allclose((x[:, :at] * 2).numpy(), X[:, : max(value, 64)] * 2)


# ---- several values of one variable


def test_a_variable_may_have_several_values_in_one_graph() -> None:
    n, x = Variable("n", 0, SIZE), Tensor(X).realize()
    counts = []
    for one, other in ((3, 4), (9, 2), (128, 1)):
        before = plans()
        sums = x[:, : n.bind(one)].sum(1) + x[:, : n.bind(other)].sum(1)
        assert np.allclose(sums.numpy(), X[:, :one].sum(1) + X[:, :other].sum(1), rtol=1e-4, atol=1e-4)
        counts.append(plans() - before)
    assert counts[1:] == [0, 0]
    outer = x[0, : n.bind(5)].reshape(-1, 1) * x[1, : n.bind(7)]
    assert np.allclose(outer.numpy(), X[0, :5, None] * X[1, :7])
    for values in ((2, 3, 4, 3), (4, 2, 3, 4), (5, 4, 3, 2)):  # the order of sizes is that of names, not of values
        parts = [x[:, : n.bind(value)] for value in values]
        assert np.allclose(Tensor.cat(*parts, dim=1).numpy(), np.concatenate([X[:, :i] for i in values], 1))


def test_sizes_of_several_values_are_equal_whatever_their_order() -> None:
    n = Variable("n", 0, SIZE)
    three, four = n.bind(3), n.bind(4)
    assert Tensor.zeros(three * four).shape == Tensor.zeros(four * three).shape
    assert (Tensor.zeros(three, four).reshape(four, three) + 1).shape == (four, three)
    with pytest.raises(ShapeError, match="axis 0 is n=3 on the left and n=4 on the right"):
        Tensor.zeros(three) + Tensor.zeros(four)
    other = Variable("n (2)", 0, SIZE).bind(5)
    total = Tensor.ones(three).sum() + Tensor.ones(four).sum() + Tensor.ones(other).sum()
    assert total.item() == 12


def test_functions_and_checkpoints_take_windows_at_variables() -> None:
    start, length, x = Variable("start", 0, SIZE), Variable("length", 1, 8), Tensor(X, requires_grad=True)

    @function
    def part(x: Tensor, at: Any) -> Tensor:
        return x[:, at : at + 2] * at

    for value in (5, 126):
        assert np.allclose(part(x, start.bind(value)).numpy(), X[:, value : value + 2] * value, rtol=1e-5)
    with pytest.raises(OutOfRangeError, match="is not inside axis 1"):
        part(x, start.bind(127))
    at, count = start.bind(120), length.bind(8)
    checkpoint(lambda each: (each[:, at : at + count] ** 2).sum(), x).backward()
    wanted = np.zeros_like(X)
    wanted[:, 120:] = 2 * X[:, 120:]
    assert np.allclose(x.grad.numpy(), wanted)
