"""`whit.scan` and `whit.map` are the loops in Python that they stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import whit
from tensor.loops import HIDDEN, agree, arguments, loss, lstm, results, written_out
from whit import Context, GlobalCounters, Tensor, TinyJit
from whit.errors import ArgumentError, DTypeError, NotSupportedError, ShapeError

both_ways = pytest.mark.parametrize("reverse", [False, True])
devices = pytest.mark.parametrize("device", ["CPU", "PYTHON"])


@both_ways
@devices
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_scan_is_the_loop(steps: int, reverse: bool, device: str) -> None:
    given = [tensor.to(device) for tensor in arguments(steps)]
    agree(results(whit.scan, reverse)(*given), results(written_out, reverse)(*given))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_scan_of_other_floats(dtype: str) -> None:
    given = arguments(4, dtype)
    off = {"float16": 1e-2, "float32": 1e-5, "float64": 1e-12}[dtype]
    agree(results(whit.scan)(*given), results(written_out)(*given), off)


def test_scan_without_optimisations() -> None:
    with Context(NOOPT=1):
        agree(results(whit.scan)(*arguments(3)), results(written_out)(*arguments(3)))


def test_states_that_change_places() -> None:
    (a, b), ys = whit.scan(lambda s, _: ((s[1], s[0] + s[1]), s[0]), (0, 1), length=10)
    assert ys.tolist() == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]
    assert (a.item(), b.item()) == (55, 89)


def test_a_state_that_stays_and_one_that_is_an_output_twice() -> None:
    (a, b), (y, z) = whit.scan(lambda s, x: ((s[0], s[1] + x), (s[1] + x, s[1] + x)), (7, 0), Tensor([1, 2, 3]))
    assert (a.item(), b.item(), y.tolist(), z.tolist()) == (7, 6, [1, 3, 6], [1, 3, 6])


@both_ways
def test_no_steps_at_all(reverse: bool) -> None:
    state, ys = whit.scan(lambda s, x: (s + x.sum(), x * 2), Tensor([1.0, 2.0]), Tensor.zeros(0, 3), reverse=reverse)
    assert state.tolist() == [1.0, 2.0]
    assert ys.shape == (0, 3)


def test_sizes_of_zero_and_one() -> None:
    state, ys = whit.scan(lambda s, x: (s + x, s), Tensor.zeros(0), Tensor.zeros(4, 0))
    assert (state.shape, ys.shape) == ((0,), (4, 0))
    state, ys = whit.scan(lambda s, x: (s + x, s), Tensor.zeros(1, 1), Tensor.ones(4, 1, 1))
    assert (state.tolist(), ys.reshape(-1).tolist()) == ([[4.0]], [0.0, 1.0, 2.0, 3.0])


def test_inputs_that_do_not_lie_in_order() -> None:
    x = Tensor(np.arange(24, dtype=np.float32).reshape(3, 4, 2))
    for view in (x.transpose(0, 1), x.flip(0), x[1:], x[:, 1], x[:, :1].expand(3, 4, 2), x.permute(2, 0, 1)[::1]):
        state = view[0] * 0
        agree(
            whit.scan(lambda s, p: (s * 2 + p, s), state, view), written_out(lambda s, p: (s * 2 + p, s), state, view)
        )


def test_infinities_and_nans_pass_through() -> None:
    x = Tensor([1.0, float("inf"), -float("inf"), 2.0])
    _, ys = whit.scan(lambda s, part: (s + part, s + part), 0.0, x)
    np.testing.assert_array_equal(ys.numpy(), np.cumsum(x.numpy()))


@dataclass
class Pair:
    one: Any
    other: Any


def test_containers() -> None:
    def step(state: dict[str, Any], x: tuple[Tensor, list[Tensor]]) -> Any:
        pair = state["p"]
        return {"p": Pair(pair.one + x[0], pair.other * 2), "n": state["n"] + 1}, [Pair(pair.one, None)]

    init = {"p": Pair(Tensor([1.0]), 1.0), "n": 0}
    state, ys = whit.scan(step, init, (Tensor([[1.0], [2.0]]), [Tensor([0.0, 0.0])]))
    assert state["p"].one.tolist() == [4.0]
    assert (state["p"].other.item(), state["n"].item()) == (4.0, 2)
    assert (ys[0].one.tolist(), ys[0].other) == ([[1.0], [2.0]], None)


@pytest.mark.cpu
def test_kernels_do_not_depend_on_the_length() -> None:
    counts = []
    for steps in (2, 10, 300):
        given = [tensor.realize() for tensor in arguments(steps, "float32")]
        GlobalCounters.reset()
        Tensor.realize(*results(whit.scan)(*given))
        counts.append(GlobalCounters.kernel_count)
    assert counts == [2, 2, 2]


@pytest.mark.cpu
def test_a_gradient_has_one_product_for_the_weights() -> None:
    counts = []
    for steps in (2, 60):
        given = [tensor.realize() for tensor in arguments(steps, "float32")]
        GlobalCounters.reset()
        Tensor.realize(*whit.grad(loss(whit.scan), argnums=(0, 1, 2, 3, 4))(*given))
        counts.append(GlobalCounters.kernel_count)
    assert counts[0] == counts[1]
    assert counts[0] <= 13


@both_ways
def test_gradients_of_every_argument(reverse: bool) -> None:
    given = arguments(2)
    every = tuple(range(5))
    found = whit.grad(loss(whit.scan, reverse), argnums=every)(*given)
    agree(found, whit.grad(loss(written_out, reverse), argnums=every)(*given))


@pytest.mark.slow
@both_ways
def test_gradients_of_gradients(reverse: bool) -> None:
    given, every = arguments(2), tuple(range(5))

    def slopes(scan: Any) -> Any:
        first = whit.grad(loss(scan, reverse), argnums=every)
        return whit.grad(lambda *args: sum((g * g).sum() for g in first(*args)), argnums=every)(*given)

    agree(slopes(whit.scan), slopes(written_out), 1e-6)


def test_gradients_by_finite_differences() -> None:
    x, weight, bias, h, c = arguments(3)
    slope = whit.grad(loss(whit.scan), argnums=1)(x, weight, bias, h, c).numpy()
    step = 1e-5
    for place in ((0, 0), (2, 7), (1, 11)):
        moved = np.zeros(weight.shape)
        moved[place] = step
        ends = [loss(whit.scan)(x, weight + sign * Tensor(moved), bias, h, c).item() for sign in (1, -1)]
        assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(slope[place], rel=1e-6)


def test_backward_fills_grad() -> None:
    x, weight, *rest = arguments(3)
    loss(whit.scan)(x, weight, *rest).backward()
    assert weight.grad is not None
    agree(weight.grad, whit.grad(loss(written_out), argnums=1)(x, weight, *rest))


@both_ways
def test_tangents(reverse: bool) -> None:
    given = arguments(4)
    moves = tuple(arguments(4)[::1])
    found = whit.jvp(results(whit.scan, reverse), given, moves)
    agree(found, whit.jvp(results(written_out, reverse), given, moves))


def test_tangents_of_some_arguments() -> None:
    x, weight, *rest = arguments(3)
    found = whit.jvp(lambda w: results(whit.scan)(x, w, *rest), (weight,), (weight * 2,))
    agree(found, whit.jvp(lambda w: results(written_out)(x, w, *rest), (weight,), (weight * 2,)))


@pytest.mark.parametrize("axes", [(0, None, None), (None, 0, None), (None, None, 0), (0, 0, 0), (1, None, 0)])
def test_batches(axes: tuple[int | None, ...]) -> None:
    x, weight, bias, h, c = arguments(3)
    pairs = zip((x, weight, h), axes, strict=True)
    given = [t if axis is None else t.stack(t * 0.5, t + 1, dim=axis) for t, axis in pairs]

    def found(scan: Any) -> Any:
        return whit.vmap(lambda a, w, b: results(scan, True)(a, w, bias, b, c), in_axes=axes)(*given)

    agree(found(whit.scan), found(written_out))


def test_nests_three_deep() -> None:
    x, weight, bias, h, c = arguments(2)
    many = x.stack(x * 0.5)

    def found(scan: Any) -> Any:
        def mean(w: Tensor) -> Tensor:
            values: Tensor = whit.vmap(lambda a: loss(scan)(a, w, bias, h, c))(many)
            return values.mean()

        return whit.hvp(mean, (weight,), (weight,)), whit.vmap(whit.grad(lambda a: loss(scan)(a, weight, bias, h, c)))(
            many
        )

    agree(found(whit.scan), found(written_out), 1e-6)


def test_a_loop_in_a_loop() -> None:
    x = arguments(3)[0]

    def found(scan: Any) -> Any:
        def outer(state: Tensor, part: Tensor) -> Any:
            inner, ys = scan(lambda s, p: (s * 0.5 + p * state.sum(), s), part, x, reverse=True)
            return state + inner.sum() * 0.01, (inner, ys[0])

        def total(begin: Tensor) -> Tensor:
            last, (inner, ys) = scan(outer, begin, x)
            return last.sum() + inner.sum() + ys.sum()

        begin = x[0] * 0.1
        return total(begin), whit.grad(total)(begin)

    agree(found(whit.scan), found(written_out), 1e-6)


def test_a_gradient_in_a_step() -> None:
    """Steps of gradient descent: the state goes through a gradient."""
    x = arguments(3)[0]

    def found(scan: Any) -> Any:
        def step(w: Tensor, part: Tensor) -> Any:
            return w - 0.1 * whit.grad(lambda v: ((v - part) ** 2).sum())(w), (w * w).sum()

        return scan(step, x[0] * 0, x)

    agree(found(whit.scan), found(written_out))


def test_steps_that_are_computed_again() -> None:
    x, weight, bias, h, c = arguments(4)
    wanted = whit.grad(lambda w: results(written_out)(x, w, bias, h, c)[2].sum())(weight)

    def each_step(w: Tensor) -> Tensor:
        step = lambda state, part: whit.checkpoint(lambda s, p: lstm(s, p, w, bias), state, part)  # noqa: E731
        ys: Tensor = whit.scan(step, (h, c), x)[1]
        return ys.sum()

    def pieces(w: Tensor) -> Tensor:
        inner = lambda state, part: whit.scan(lambda s, p: lstm(s, p, w, bias), state, part)  # noqa: E731
        outer = lambda state, part: whit.checkpoint(inner, state, part)  # noqa: E731
        ys: Tensor = whit.scan(outer, (h, c), x.reshape(2, 2, *x.shape[1:]))[1]
        return ys.sum()

    agree(whit.grad(each_step)(weight), wanted)
    agree(whit.grad(pieces)(weight), wanted)


def test_functions_in_steps() -> None:
    @whit.function
    def cell(h: Tensor, x: Tensor, w: Tensor) -> Tensor:
        return (h @ w + x).tanh()

    x, weight, _, h, _ = arguments(3)
    x, weight = x[:, :, :HIDDEN], weight[:, :HIDDEN]
    found = whit.grad(lambda w: whit.scan(lambda s, p: (cell(s, p, w), s), h, x)[1].sum())(weight)
    agree(found, whit.grad(lambda w: written_out(lambda s, p: ((s @ w + p).tanh(), s), h, x)[1].sum())(weight))


def test_layers_of_symbolic_lengths() -> None:
    n = whit.Variable("n", 1, 6)
    layer, x = whit.nn.LSTM(3, 4), arguments(6)[0][:, :, :3].cast("float32").realize()
    for length in (2, 5):
        agree(layer(x[: n.bind(length)])[1], layer(x[:length].realize())[1], 1e-6)


def test_one_program_for_all_lengths() -> None:
    n = whit.Variable("n", 0, 9)
    x = Tensor(np.arange(18, dtype=np.float32).reshape(9, 2)).realize()

    @TinyJit
    def run(part: Tensor) -> Any:
        state, ys = whit.scan(lambda s, p: (s * 0.5 + p, s * 2), Tensor.ones(2), part)
        return state.realize(), ys.sum().realize()

    for length in (4, 9, 1, 0, 3, 7):
        state, total = run(x[: n.bind(length)])
        last, sum_of_states = np.ones(2, np.float32), 0.0
        for part in x.numpy()[:length]:
            sum_of_states += float(2 * last.sum())
            last = last * 0.5 + part
        np.testing.assert_allclose(state.numpy(), last, rtol=1e-6)
        assert total.item() == pytest.approx(sum_of_states, rel=1e-6)


def test_gradients_of_symbolic_lengths() -> None:
    n = whit.Variable("n", 1, 6)
    x, weight, *rest = arguments(6)
    for length in (1, 4, 6):
        found = whit.grad(lambda w, k=length: loss(whit.scan, True)(x[: n.bind(k)], w, *rest))(weight)
        agree(found, whit.grad(lambda w, k=length: loss(written_out, True)(x[:k], w, *rest))(weight))


def test_replays() -> None:
    step = TinyJit(lambda *args: [t.realize() for t in whit.grad(loss(whit.scan), argnums=(1, 3))(*args)])
    for number in range(4):
        given = [tensor * (1 + 0.1 * number) for tensor in arguments(3)]
        agree(step(*given), whit.grad(loss(written_out), argnums=(1, 3))(*given))


def test_random_numbers_are_new_in_each_step() -> None:
    Tensor.manual_seed(3)
    _, ys = whit.scan(lambda s, x: (s, Tensor.rand(4)), 0.0, length=5)
    values = ys.numpy()
    assert len(np.unique(values)) == 20
    after = Tensor.rand(4).numpy()
    assert not np.isin(after, values).any()
    Tensor.manual_seed(3)
    np.testing.assert_array_equal(Tensor.rand(5, 4).numpy(), values)


def test_random_numbers_in_a_batch_of_loops() -> None:
    def run(x: Tensor) -> Tensor:
        ys: Tensor = whit.scan(lambda s, _: (s, Tensor.rand(2) + x), 0.0, length=3)[1]
        return ys

    xs = Tensor([0.0, 0.0])
    same = whit.vmap(run, randomness="same")(xs).numpy()
    np.testing.assert_array_equal(same[0], same[1])
    with pytest.raises(NotSupportedError, match="in a loop of each example"):
        whit.vmap(run, randomness="different")(xs)
    inside = whit.vmap(lambda _: Tensor.rand(2), randomness="different")
    _, ys = whit.scan(lambda s, _: (s, inside(xs)), 0.0, length=3)
    assert len(np.unique(ys.numpy())) == 12


def test_writes_in_a_step_are_its_own() -> None:
    def step(state: Tensor, x: Tensor) -> Any:
        state = state + 0
        state[0] = x
        return state * 2, state

    def to_state(state: Tensor, x: Tensor) -> Any:
        state[0] = x
        return state * 2, state

    init = Tensor([1.0, 1.0])
    assert whit.scan(to_state, init, Tensor([5.0, 6.0]))[1].tolist() == [[5.0, 1.0], [6.0, 2.0]]
    assert init.tolist() == [1.0, 1.0]
    state, ys = whit.scan(step, init, Tensor([5.0, 6.0]))
    assert ys.tolist() == [[5.0, 1.0], [6.0, 2.0]]
    assert state.tolist() == [12.0, 4.0]


def test_a_map_is_the_function_of_each_part() -> None:
    x = arguments(3)[0]
    agree(whit.map(lambda part: (part.sum(), part[0] * 2), x), (x.sum((1, 2)), x[:, 0] * 2))


def test_a_star_import_leaves_the_map_of_python() -> None:
    names: dict[str, Any] = {}
    exec("from whit import *", names)
    assert "map" not in names
    assert names["scan"] is whit.scan


def test_a_symbolic_size_inside_is_written_out() -> None:
    n = whit.Variable("n", 1, 6).bind(3)
    x = Tensor(np.arange(12, dtype=np.float32).reshape(2, 6))
    state, _ = whit.scan(lambda s, part: (s + part[:n].sum(), None), 0.0, x)
    assert state.item() == 0 + 1 + 2 + 6 + 7 + 8


def raises(kind: type[Exception], text: str, *args: Any, **kwargs: Any) -> None:
    with pytest.raises(kind, match=text):
        whit.scan(*args, **kwargs)


def test_wrong_calls() -> None:
    x = Tensor.zeros(3, 2)
    raises(ArgumentError, "is no function", 3, 0.0, x)
    raises(ArgumentError, "neither xs nor length", lambda s, p: (s, p), 0.0)
    raises(ShapeError, "different numbers of steps", lambda s, p: (s, None), 0.0, (x, Tensor.zeros(2)))
    raises(ShapeError, "different numbers of steps", lambda s, p: (s, None), 0.0, x, length=2)
    raises(ShapeError, "no axis of steps", lambda s, p: (s, None), 0.0, Tensor(1.0))
    raises(ArgumentError, "length='3'", lambda s, p: (s, None), 0.0, length="3")
    raises(ArgumentError, "length=-1", lambda s, p: (s, None), 0.0, length=-1)
    raises(ArgumentError, "a pair is wanted", lambda s, p: s, 0.0, x)
    raises(ArgumentError, "a step returns", lambda s, p: ((s, s), None), 0.0, x)
    raises(ShapeError, r"at \['a'\] has shape \(\)", lambda s, p: ({"a": p}, None), {"a": 0.0}, x)
    raises(DTypeError, "the state is int32, and float32", lambda s, p: (s * 0.5, None), 0, x)


def test_values_are_not_known_in_a_step() -> None:
    with pytest.raises((ArgumentError, RuntimeError), match="value of a tensor"):
        whit.scan(lambda s, x: (s + x.item(), None), 0.0, Tensor([1.0]))


def test_writes_outside_are_errors() -> None:
    total = Tensor([0.0]).realize()

    def step(state: Tensor, x: Tensor) -> Any:
        total.assign(total + x)
        return state, None

    with pytest.raises(ArgumentError, match="writes to a tensor from outside"):
        whit.scan(step, 0.0, Tensor([1.0]))


def test_decompositions_in_a_step_are_refused() -> None:
    with pytest.raises(NotSupportedError, match="computes at once"):
        whit.scan(lambda s, x: (s, x.svd()[1]), 0.0, Tensor.ones(2, 3, 3))


def test_loops_of_complex_numbers() -> None:
    z, x = Tensor([1 + 2j, 3 - 1j]), Tensor([[1j, 0.5], [0.25 - 1j, 2.0], [1.0, -1j]])

    def plain(z: Tensor, x: Tensor) -> Tensor:
        outputs = []
        for t in range(3):
            outputs.append((z + x[t]).exp())
            z = z * x[t]
        return z.abs().square().sum() + Tensor.stack(*outputs).abs().sum()

    def scanned(z: Tensor, x: Tensor) -> Tensor:
        last, outputs = whit.scan(lambda s, each: (s * each, (s + each).exp()), z, x)
        return last.abs().square().sum() + outputs.abs().sum()

    agree([scanned(z, x)], [plain(z, x)], 1e-5)
    agree(whit.grad(scanned, argnums=(0, 1))(z, x), whit.grad(plain, argnums=(0, 1))(z, x), 1e-5)
    agree([whit.cond(Tensor(True), lambda a: a * 2j, lambda a: a, z)], [z * 2j])
    assert whit.while_loop(lambda s: s.abs() < 100, lambda s: s * (1 + 1j), Tensor(1 + 0j)).item() == -128j
