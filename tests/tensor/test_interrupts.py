"""An interrupt at any instruction of a write: it has happened everywhere or nowhere, and everything goes on."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import whit
from whit import Context, Tensor, nn
from whit.engine.realize import changes

pytestmark = pytest.mark.slow

FOLDER = str(Path(whit.__file__).parent)
WRITING = (
    "tensor/family.py",
    "tensor/methods/data/assign.py",
    "tensor/core.py",
    "tensor/methods/indexing/subscript.py",
    "tensor/methods/indexing/entries.py",
)
REALISING = (
    "tensor/methods/data/values.py",
    "tensor/family.py",
    "engine/realize/realize.py",
    "engine/realize/changes.py",
    "engine/realize/known.py",
    "engine/programs/parts.py",
    "engine/devices/cpu.py",
    "engine/devices/python.py",
    "engine/memory/storage.py",
)
CHANGING = ("tensor/family.py", "tensor/methods/data/assign.py")


class Interrupt:
    """Counts the lines of some files, and the instructions of those that change tensors; raises at one of them."""

    def __init__(self, files: tuple[str, ...], at: int = -1) -> None:
        self.files = frozenset(f"{FOLDER}/{name}" for name in files)
        self.at, self.count = at, 0

    def __call__(self, frame: types.FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename not in self.files:
            return None
        frame.f_trace_opcodes = frame.f_code.co_filename.endswith(CHANGING)
        if event == ("opcode" if frame.f_trace_opcodes else "line"):
            self.count += 1
            if self.count - 1 == self.at:
                raise KeyboardInterrupt
        return self

    def run(self, function: Callable[[], Any]) -> bool:
        """Whether the function came to its end."""
        before = sys.gettrace()
        sys.settrace(self)
        try:
            function()
        except KeyboardInterrupt:
            return False
        finally:
            sys.settrace(before)
        return True


class Shared:
    """A tensor and views of it, as they are before and after a write."""

    def __init__(self, lazy: bool = False) -> None:
        self.x = Tensor([1.0, 2.0, 3.0, 4.0])
        self.x = self.x * 1 if lazy else self.x.realize()
        self.y, self.z = self.x[1:3], self.x.flip(0)

    def values(self) -> tuple[Any, ...]:
        return tuple(self.x.tolist()), tuple(self.y.tolist()), tuple(self.z.tolist())

    def add(self) -> None:
        self.x += 1

    def set_one(self) -> None:
        self.y[0] = 7

    def set_rows(self) -> None:
        self.z[Tensor([0, 3])] = Tensor([5.0, 6.0])

    def assign(self) -> None:
        self.y.assign(self.y * 2)

    def mask(self) -> None:
        self.x[self.x > 2] = 0

    def replace(self) -> None:
        self.y.replace(Tensor([8.0, 9.0]))

    def become(self) -> None:
        self.y._become_view(self.x[2:])


OPERATIONS = (
    Shared.add,
    Shared.set_one,
    Shared.set_rows,
    Shared.assign,
    Shared.mask,
    Shared.replace,
    Shared.become,
)


@pytest.mark.parametrize("lazy", (False, True), ids=("", "lazy"))
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda f: f.__name__)
def test_a_write_is_done_everywhere_or_nowhere(operation: Callable[[Shared], None], lazy: bool) -> None:
    counted, shared, first = Interrupt(WRITING), Shared(lazy), Shared(lazy)
    before = first.values()
    operation(first)  # what is made once
    assert counted.run(partial(operation, shared))
    after = shared.values()
    assert counted.count > 10 and before != after
    for at in range(counted.count):
        shared = Shared(lazy)
        assert not Interrupt(WRITING, at).run(partial(operation, shared))
        found = shared.values()
        assert found in (before, after), f"instruction {at} of {counted.count}"
        shared.x += 10  # and everything goes on
        assert shared.x.tolist() == [number + 10 for number in found[0]]
        assert shared.z.tolist() == [number + 10 for number in found[2]]
        moves = operation is not Shared.replace or found == before
        assert shared.y.tolist() == [number + 10 * moves for number in found[1]]


def _in_place() -> Tensor:
    x = (Tensor([1.0, 2.0, 3.0, 4.0]) * 1).realize()
    x[1:3] += 10
    return x


def _whole() -> Tensor:
    x = (Tensor([1.0, 2.0, 3.0, 4.0]) * 1).realize()
    x += 10
    return x


def _through_a_view() -> Tensor:
    x = (Tensor([1.0, 2.0, 3.0, 4.0]) * 1).realize()
    x.reshape(2, 2).transpose(0, 1)[0] += 10
    return x


def _of_a_shape() -> Tensor:
    x = (Tensor([1.0, 2.0, 3.0, 4.0]) * 1).realize()
    return x.reshape(2, 2).index_add(0, Tensor([1, 1]), Tensor([[1.0, 1.0], [2.0, 2.0]]))


@pytest.mark.parametrize("device", ["CPU", pytest.param("PYTHON", marks=pytest.mark.slow)])
@pytest.mark.parametrize("written", (_in_place, _whole, _through_a_view, _of_a_shape), ids=lambda f: f.__name__)
def test_what_is_written_in_place_is_written_once(
    written: Callable[[], Tensor], device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "LEAST_REUSED_BYTES", 1)
    with Context(DEV=device, CHECK_PLAN=0):
        wanted = written().tolist()
        counted, x = Interrupt(REALISING), written()
        assert counted.run(x.realize) and counted.count > 20
        for at in range(counted.count):
            x = written()
            Interrupt(REALISING, at).run(x.realize)
            assert x.tolist() == wanted, f"line {at} of {counted.count}"
            x += 1
            assert x.tolist() == (Tensor(wanted) + 1).tolist()


@pytest.mark.slow
def test_a_step_of_a_fused_optimiser_that_is_interrupted_leaves_models_that_can_be_trained() -> None:
    files = (*WRITING, "nn/optim/base.py", "nn/optim/flat.py", "nn/optim/momentum.py")

    def prepared() -> tuple[nn.Linear, nn.optim.SGD]:
        model = nn.Linear(2, 2)
        model.weight.assign(Tensor([[1.0, 2.0], [3.0, 4.0]])).realize()
        model.bias.assign(Tensor([0.0, 0.0])).realize()
        return model, nn.optim.SGD(nn.state.get_parameters(model), lr=0.5, fused=True)

    def step(model: nn.Linear, optimiser: nn.optim.SGD) -> None:
        optimiser.zero_grad()
        model(Tensor([[1.0, 1.0]])).sum().backward()
        optimiser.step()

    with Tensor.train():
        counted = Interrupt(files)
        first = prepared()
        assert counted.run(lambda: step(*first))
        once = first[0].weight.tolist()
        for at in range(0, counted.count, 7):
            model, optimiser = prepared()
            assert not Interrupt(files, at).run(partial(step, model, optimiser))
            assert model.weight.tolist() in ([[1.0, 2.0], [3.0, 4.0]], once)
            fresh = prepared()
            step(*fresh)
            assert fresh[0].weight.tolist() == once
            step(model, optimiser)
            assert model.weight.shape == (2, 2) and model.bias.shape == (2,)
