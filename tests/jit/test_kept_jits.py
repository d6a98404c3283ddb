"""Where people keep a TinyJit, in its own object or in others, and what changes around it: it captures once."""

from __future__ import annotations

import argparse
import functools
import logging
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from whit import JitError, Tensor, TinyJit, nn


class Model:
    def __init__(self) -> None:
        self.w, self.k = Tensor([2.0]), 3

    def forward(self, x: Tensor) -> Tensor:
        return x * self.w * self.k

    def __call__(self, x: Tensor) -> Tensor:
        return self.jit(x)  # type: ignore[attr-defined]


class Jitted(Model):
    @TinyJit
    def run(self, x: Tensor) -> Tensor:
        return self.forward(x)


KEPT: dict[str, Callable[[], tuple[Any, list[Any]]]] = {}  # name -> a function to call, and its jits


def keeps(make: Callable[[], tuple[Any, list[Any]]]) -> Callable[[], tuple[Any, list[Any]]]:
    KEPT[make.__name__] = make
    return make


@keeps
def in_its_object() -> tuple[Any, list[Any]]:
    model: Any = Model()
    model.jit = TinyJit(model.forward)
    return model, [model.jit]


@keeps
def of_the_call_itself() -> tuple[Any, list[Any]]:
    class Called(Model):
        def __init__(self) -> None:
            super().__init__()
            self.jit = TinyJit(self.forward)
            self.again = TinyJit(self.__call__)

    model = Called()
    return model.again, [model.again]


@keeps
def of_a_partial() -> tuple[Any, list[Any]]:
    model: Any = Model()
    model.jit = TinyJit(functools.partial(Model.forward, model))
    return model, [model.jit]


@keeps
def of_a_lambda() -> tuple[Any, list[Any]]:
    model: Any = Model()
    model.jit = TinyJit(lambda x: model.forward(x))
    return model, [model.jit]


@keeps
def decorated_method() -> tuple[Any, list[Any]]:
    model = Jitted()
    return model.run, [model.run]


@keeps
def decorated_method_that_another_calls() -> tuple[Any, list[Any]]:
    class Outer(Jitted):
        @TinyJit
        def outer(self, x: Tensor) -> Tensor:
            return self.run(x)

    model = Outer()
    model.run(Tensor([1.0]))
    return lambda x: model.outer(model.run(x) / model.w / model.k), [model.outer, model.run]


@keeps
def a_list_of_them_in_the_object() -> tuple[Any, list[Any]]:
    model: Any = Model()
    model.jits = [TinyJit(model.forward), TinyJit(lambda x: model.jits[0](x))]
    return lambda x: model.jits[1](model.jits[0](x) / 6), model.jits


@keeps
def a_dictionary_that_the_function_reads() -> tuple[Any, list[Any]]:
    model: Any = Model()
    jits: dict[str, Any] = {"inner": TinyJit(model.forward)}

    def outer(x: Tensor) -> Tensor:
        return jits["inner"](x)

    jits["outer"] = TinyJit(outer)
    return lambda x: jits["outer"](jits["inner"](x) / 6), list(jits.values())


@keeps
def each_in_the_other() -> tuple[Any, list[Any]]:
    model: Any = Model()

    def even(x: Tensor, n: int = 0) -> Tensor:
        return model.forward(x) if n == 0 else odd(x, n - 1)

    def odd(x: Tensor, n: int = 1) -> Tensor:
        return even(x, n - 1)

    even = TinyJit(even)
    odd = TinyJit(odd)
    return lambda x: even(odd(x) / 6), [even, odd]


@keeps
def under_a_wrapper() -> tuple[Any, list[Any]]:
    model: Any = Model()
    jit = TinyJit(model.forward)

    @functools.wraps(jit)
    def wrapper(x: Tensor) -> Tensor:
        return jit(x)

    model.jit = TinyJit(wrapper)
    return lambda x: model.jit(jit(x) / 6), [jit, model.jit]


@pytest.mark.parametrize("name", KEPT)
def test_a_kept_jit_captures_once(name: str) -> None:
    call, jits = KEPT[name]()
    for value in (1.0, 2.0, 3.0, 4.0):
        assert call(Tensor([value])).item() == 6 * value
    assert [len(jit.captured) for jit in jits] == [1] * len(jits)


def test_what_the_object_of_a_kept_jit_has_is_still_watched() -> None:
    model, _ = in_its_object()
    assert model(Tensor([1.0])).item() == 6
    model.k = 5
    assert model(Tensor([1.0])).item() == 10
    model.w = Tensor([1.0])
    assert model(Tensor([1.0])).item() == 5


def test_a_capture_that_was_refused_once_fails_though_the_function_catches_that() -> None:
    def f(x: Tensor) -> Tensor:
        try:
            return x * x.sum().item()
        except Exception:
            return x * 0

    g = TinyJit(f)
    for _ in range(2):
        with pytest.raises(JitError, match="item: "):
            g(Tensor([2.0]))


def test_a_detached_input_takes_no_gradient_out() -> None:
    w, v = Tensor([1.0, 2.0], requires_grad=True), Tensor([1.0, 1.0], requires_grad=True)
    step = TinyJit(lambda x: (x * v).sum().backward())
    for count in (1, 2, 3):
        assert step((w * 2).detach()).item() == 6.0
        assert v.grad.tolist() == [2.0 * count, 4.0 * count] and w.grad is None
    seen = TinyJit(lambda x: (x.detach() * v).sum().backward())
    assert seen(w * 2).item() == 6.0 and w.grad is None
    with pytest.raises(JitError, match="the gradient flows"):
        TinyJit(lambda x: (x * v).sum().backward())(w * 2)


# ---- what changes around a function that does not read it


class Layers:
    def __init__(self) -> None:
        self.layer0, self.layer1, self.calls = nn.Linear(2, 2), nn.Linear(2, 2), 0

    def __call__(self, x: Tensor) -> Tensor:
        for i in range(2):
            x = getattr(self, f"layer{i}")(x)
        return x


class Trainer:
    """Counts, gathers and measures, as trainers do; `step` is also the name of a method of its optimiser."""

    def __init__(self) -> None:
        self.net, self.step, self.losses, self.best = Layers(), 0, list[float](), None
        self.opt = nn.optim.SGD(nn.state.get_parameters(self.net), lr=0.1)
        self.train_step = TinyJit(self._train_step)
        self.batches, self.log = iter(range(100)), logging.getLogger(__name__)

    def _train_step(self, x: Tensor) -> Tensor:
        self.opt.zero_grad()
        loss = (self.net(x) ** 2).mean().backward()
        self.opt.step()
        self.log.debug("a step")
        return loss


def test_what_a_trainer_counts_is_not_read_by_its_step() -> None:
    trainer: Any = Trainer()
    with Tensor.train():
        for _ in range(4):
            loss = trainer.train_step(Tensor([[1.0, next(trainer.batches)]]))
            trainer.step += 1
            trainer.net.calls += 1
            trainer.losses.append(loss.item())
            trainer.best, trainer.last = min(trainer.losses), loss
        assert len(trainer.train_step.captured) == 1
        trainer.opt = nn.optim.SGD(nn.state.get_parameters(trainer.net), lr=0.5)
        trainer.train_step(Tensor([[1.0, 2.0]]))
    assert len(trainer.train_step.captured) == 2


def test_globals_and_settings_that_a_function_does_not_read() -> None:
    settings = argparse.Namespace(k=2, verbose=True)
    scope: dict[str, Any] = {"settings": settings, "Tensor": Tensor}
    exec("def f(x):\n    return x * settings.k", scope)
    f = TinyJit(scope["f"])
    for i in range(5):
        assert f(Tensor([1.0])).item() == 2
        scope["i"], settings.verbose = i, not settings.verbose
        setattr(settings, f"other{i}", i)
    assert len(f.captured) == 1


def test_who_captures_again_and_again_is_told_why() -> None:
    settings = {"k": 0}
    f = TinyJit(lambda x: x * settings["k"])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for i in range(12):
            settings["k"] = i
            assert f(Tensor([1.0])).item() == i
    (warning,) = told
    message = str(warning.message)
    assert "was captured 8 times" in message and "settings['k'] has changed from 7 to 8" in message
    assert warning.filename == __file__
