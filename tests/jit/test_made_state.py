"""State that a captured function makes when it is called first: caches, optimisers, layers, entries of containers."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from jit.test_programs import assert_same, seen_by
from whit import JitError, Tensor, TinyJit, nn

MAKES: list[Callable[[Any, Any], None]] = []


def makes(program: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    MAKES.append(program)
    return program


class Box:
    pass


def run(jit: Any, see: Any, f: Callable[[Tensor], Any], look: Callable[[], Any] = lambda: None) -> None:
    g = jit(f)
    for i in range(5):
        see(g(Tensor([1.0 + i, 2.0])), look())


@makes
def attribute_with_hasattr(jit: Any, see: Any) -> None:
    box: Any = Box()

    def f(x: Tensor) -> Tensor:
        if not hasattr(box, "sum"):
            box.sum = Tensor.zeros(2).contiguous()
        box.sum.assign(box.sum + x)
        return box.sum * 1

    run(jit, see, f, lambda: box.sum)


@makes
def attribute_that_was_none(jit: Any, see: Any) -> None:
    box: Any = Box()
    box.cache = None

    def f(x: Tensor) -> Tensor:
        if box.cache is None:
            box.cache = Tensor.zeros(3, 2).contiguous().realize()
        box.cache[1] = box.cache[0] + x
        box.cache[0] += 1
        return box.cache.sum(0)

    run(jit, see, f, lambda: box.cache)


@makes
def entry_of_a_dictionary(jit: Any, see: Any) -> None:
    made: dict[str, Tensor] = {}

    def f(x: Tensor) -> Tensor:
        total = made.setdefault("total", Tensor.zeros(2).contiguous())
        total += x
        return total.sum()

    run(jit, see, f, lambda: made["total"])


@makes
def elements_of_a_list(jit: Any, see: Any) -> None:
    made: list[Tensor] = []

    def f(x: Tensor) -> Tensor:
        if not made:
            made.extend(x * i for i in range(3))
        made[1].assign(made[1] + made[2])
        return made[0] + made[1]

    run(jit, see, f, lambda: list(made))


@makes
def kept_and_returned(jit: Any, see: Any) -> None:
    box: Any = Box()
    box.first = None
    g = jit(lambda x: _first(box, x))
    results = [g(Tensor([float(i)])) for i in range(3)]
    see(results[0] is box.first, results, box.first)
    box.first += 10
    see(results[0], g(Tensor([3.0])))


def _first(box: Any, x: Tensor) -> Tensor:
    if box.first is None:
        box.first = x + 1
    return box.first


@makes
def base_and_view(jit: Any, see: Any) -> None:
    box: Any = Box()
    box.base = None

    def f(x: Tensor) -> Tensor:
        if box.base is None:
            box.base = x * 2
            box.view = box.base[1:]
        box.view += 1
        return box.base.sum()

    run(jit, see, f, lambda: [box.base, box.view])


@makes
def layer(jit: Any, see: Any) -> None:
    Tensor.manual_seed(4)
    box: Any = Box()

    def f(x: Tensor) -> Tensor:
        if not hasattr(box, "layer"):
            box.layer = nn.Linear(2, 3)
        return box.layer(x)

    run(jit, see, f, lambda: box.layer.weight)
    see(Tensor.rand(2))


@makes
def optimiser(jit: Any, see: Any) -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    box: Any = Box()
    box.opt = None

    def f(x: Tensor) -> Tensor:
        if box.opt is None:
            box.opt = nn.optim.Adam([w], lr=0.1)
        box.opt.zero_grad()
        loss = ((w * x) ** 2).sum().backward()
        box.opt.step()
        return loss

    run(jit, see, f, lambda: [w, *box.opt.m])


@makes
def in_two_steps(jit: Any, see: Any) -> None:
    box: Any = Box()
    box.a = box.b = None

    def f(x: Tensor) -> Tensor:
        if box.a is None:
            box.a = x + 1
        elif box.b is None:
            box.b = box.a * x
        return x * box.a if box.b is None else x * box.a + box.b

    run(jit, see, f, lambda: [box.a, box.b])


@makes
def gradient_that_is_kept(jit: Any, see: Any) -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    box: Any = Box()
    box.first = None

    def f(x: Tensor) -> Tensor:
        loss = (w * w * x).sum().backward()
        if box.first is None:
            box.first = w.grad
        return loss

    run(jit, see, f, lambda: [box.first, w.grad])


@makes
def flag_and_counter_of_the_first_call(jit: Any, see: Any) -> None:
    state = SimpleNamespace(calls=0, is_ready=False)

    def f(x: Tensor) -> Tensor:
        if not state.is_ready:
            state.is_ready, state.calls = True, 7
        return x * state.calls

    run(jit, see, f, lambda: state.calls)


@makes
def cached_property_and_method(jit: Any, see: Any) -> None:
    import functools

    class Rotary:
        n = 2

        @functools.cached_property
        def table(self) -> Tensor:
            return (Tensor.arange(self.n) * 0.5).exp()

        @functools.lru_cache  # noqa: B019
        def scaled(self, k: int) -> Tensor:
            return self.table * k

    rotary = Rotary()
    run(jit, see, lambda x: x * rotary.table + rotary.scaled(3), lambda: [rotary.table, rotary.scaled(3)])


@makes
def seeded_noise(jit: Any, see: Any) -> None:
    Tensor.manual_seed(11)
    box: Any = Box()

    def f(x: Tensor) -> Tensor:
        if not hasattr(box, "noise"):
            box.noise = Tensor.randn(2)
        return x + box.noise + Tensor.rand(2)

    run(jit, see, f, lambda: box.noise)


@pytest.mark.parametrize("program", MAKES, ids=lambda program: program.__name__)
def test_state_that_the_first_call_makes_is_kept(program: Any) -> None:
    assert_same(seen_by(program, TinyJit), seen_by(program, lambda function: function))


def test_state_that_every_call_changes_is_an_error() -> None:
    calls = 0

    def f(x: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return x * calls

    g = TinyJit(f)
    assert [g(Tensor([1.0])).item(), g(Tensor([1.0])).item()] == [1.0, 2.0]
    with pytest.raises(JitError, match="the function changes calls in every call"):
        g(Tensor([1.0]))


def test_after_the_first_call_nothing_is_captured_again() -> None:
    made: dict[int, Tensor] = {}

    def f(x: Tensor) -> Tensor:
        if x.shape[0] not in made:
            made[x.shape[0]] = Tensor.zeros(x.shape[0]).contiguous()
        made[x.shape[0]].assign(made[x.shape[0]] + x)
        return made[x.shape[0]].sum()

    g = TinyJit(f)
    for size in (1, 2, 3):
        assert [g(Tensor.ones(size)).item() for _ in range(4)] == [1.0 * size, 2.0 * size, 3.0 * size, 4.0 * size]
    assert len(g.captured) == 3


def test_a_view_of_a_tensor_from_outside_cannot_be_kept() -> None:
    w, box = Tensor([1.0, 2.0]).realize(), Box()

    def f(x: Tensor) -> Tensor:
        if not hasattr(box, "view"):
            box.view = w[1:]  # type: ignore[attr-defined]
        return x + w

    with pytest.raises(JitError, match="keeps a view of a tensor from outside"):
        TinyJit(f)(Tensor([1.0, 1.0]))


OPTIMISERS = ["SGD", "AdamW", "LAMB", "LARS", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "Adafactor"]
OPTIMISERS += ["Rprop", "ASGD", "Muon"]


@pytest.mark.parametrize("name", OPTIMISERS)
def test_an_optimiser_may_be_made_by_the_first_call(name: str) -> None:
    def weights(jit: Any) -> list[list[list[float]]]:
        weight, made = Tensor([[1.0, 2.0], [3.0, 4.0]]).realize(), SimpleNamespace(optimizer=None)

        def step(x: Tensor) -> Tensor:
            if made.optimizer is None:
                settings = {"initial_accumulator_value": 0.5} if name == "Adagrad" else {}
                made.optimizer = getattr(nn.optim, name)([weight], lr=0.1, **settings)
            made.optimizer.zero_grad()
            (weight @ x).square().sum().backward()
            made.optimizer.step()
            return weight + 0

        run = jit(step)
        return [run(Tensor([[1.0], [2.0]]).realize()).tolist() for _ in range(3)]

    for ours, plain in zip(weights(TinyJit), weights(lambda f: f), strict=True):
        assert ours[0] == pytest.approx(plain[0], rel=1e-5) and ours[1] == pytest.approx(plain[1], rel=1e-5)
