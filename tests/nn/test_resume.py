"""What was saved goes on as if it had never stopped: weights, optimiser, schedule and random numbers."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from whit import Tensor, TinyJit, nn
from whit.errors import ArgumentError, JitError

PROGRAM = """
import sys
from whit import Tensor, nn
from whit.nn.state import get_state_dict, load_state_dict, safe_load, safe_save

def main(start, stop, path):
    Tensor.manual_seed(3)
    first, second = nn.Linear(4, 16), nn.Linear(16, 1)
    opt = nn.optim.Adam([first.weight, first.bias, second.weight, second.bias], lr=0.05)
    schedule = nn.optim.WarmUp(3, nn.optim.CosineAnnealing(opt, steps=10))
    whole = {"first": first, "second": second, "opt": opt}
    if start:
        saved = safe_load(path)
        Tensor.set_rng_state(saved.pop("random"))
        schedule_state = {name: saved.pop(f"schedule.{name}") for name in ("count", "rates")}
        load_state_dict(whole, saved)
        schedule.load_state_dict(schedule_state)
    with Tensor.train():
        for _ in range(start, stop):
            x = Tensor.rand(8, 4)
            loss = (second(first(x).relu().dropout(0.5)) - x.sum(1, keepdim=True)).square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            schedule.step()
            print(loss.item().hex())
    extra = {f"schedule.{name}": value for name, value in schedule.state_dict().items()}
    safe_save({**get_state_dict(whole), **extra, "random": Tensor.get_rng_state()}, path)

main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
"""


@pytest.mark.slow
def test_five_steps_and_five_more_in_another_process_are_ten(tmp_path: Path) -> None:
    def run(start: int, stop: int, name: str) -> list[str]:
        command = [sys.executable, "-c", PROGRAM, str(start), str(stop), str(tmp_path / name)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    whole = run(0, 10, "whole.safetensors")
    halves = run(0, 5, "half.safetensors") + run(5, 10, "half.safetensors")
    assert len(whole) == 10 and len(set(whole)) == 10
    assert halves == whole


def test_random_numbers_go_on() -> None:
    Tensor.manual_seed(7)
    Tensor.rand(5)
    state = Tensor.get_rng_state()
    expected = Tensor.rand(4).tolist()
    Tensor.manual_seed(1)
    for saved in (state, state.numpy(), state.tolist()):
        Tensor.set_rng_state(saved)
        assert Tensor.rand(4).tolist() == expected
    for wrong in (3, [1], [1, -1], [1.0, 2.0], "ab"):
        with pytest.raises(ArgumentError, match=r"set_rng_state: .* is no state"):
            Tensor.set_rng_state(wrong)
    for function in (Tensor.get_rng_state, lambda: Tensor.set_rng_state([1, 2])):
        with pytest.raises(JitError, match="rng_state: the random numbers are saved or set while"):
            TinyJit(function)()


def test_random_numbers_of_captured_functions_are_counted() -> None:
    draw = TinyJit(lambda: Tensor.rand(3) + 1)
    Tensor.manual_seed(7)
    draw()
    state, expected = Tensor.get_rng_state(), draw().tolist()
    Tensor.set_rng_state(state)
    assert draw().tolist() == expected


def test_schedules_go_on() -> None:
    def make() -> tuple[nn.optim.Optimizer, nn.optim.Schedule]:
        opt = nn.optim.SGD([Tensor([1.0])], lr=0.5)
        return opt, nn.optim.CosineAnnealing(opt, steps=8)

    (opt, one), rates = make(), []
    for _ in range(8):
        rates.append(opt.lr.item())
        one.step()
    (opt, one) = make()
    for _ in range(3):
        one.step()
    state = one.state_dict()
    (opt, other) = make()
    opt.lr = 0.001  # as after loading the optimiser
    other = nn.optim.CosineAnnealing(opt, steps=8)
    other.load_state_dict(state)
    for rate in rates[3:]:
        assert opt.lr.item() == rate
        other.step()
    with pytest.raises(ArgumentError, match="this is no state of a schedule: x"):
        other.load_state_dict({"x": Tensor([1])})
    with pytest.raises(ArgumentError, match="a state of 2 groups for a schedule of 1"):
        other.load_state_dict({"count": Tensor([1]), "rates": Tensor([1.0, 2.0])})


def test_the_learning_rate_can_be_set() -> None:
    w = Tensor([1.0])
    opt = nn.optim.SGD([w], lr=1.0)
    rate = opt.lr
    step = TinyJit(lambda: [opt.zero_grad(), (w * 2).sum().backward(), opt.step()][0])  # type: ignore[func-returns-value]
    for value, expected in ((0.5, 0.0), (Tensor(0.25), -0.5), (np.float32(1.0), -2.5), (Tensor([2]), -6.5), (0, -6.5)):
        opt.lr = value
        step()
        assert opt.lr is rate and w.tolist() == [expected]
    for wrong in ("a", -1, None, Tensor([1.0, 2.0]), True):
        with pytest.raises(ArgumentError, match="SGD: lr="):
            opt.lr = wrong
    group = nn.optim.OptimizerGroup(opt, nn.optim.SGD([Tensor([1.0])]))
    group.lr = 0.125
    assert [part.lr.item() for part in group.optimizers] == [0.125, 0.125]
    assert "lr" in nn.state.get_state_dict(opt)


SAME = {
    "contiguous": lambda x: x.contiguous(),
    "clone": lambda x: x.clone(),
    "to": lambda x: x.to("CPU:1"),
    "half": lambda x: x.half(),
    "cast": lambda x: x.cast("float64"),
    "bitcast": lambda x: x.bitcast("int32").bitcast("float32"),
    "reshape": lambda x: x.reshape(2, 1),
    "a part": lambda x: x[:1],
    "detach": lambda x: x.detach(),
    "expand": lambda x: x.reshape(1, 2).expand(3, 2),
    "transposed": lambda x: x.reshape(1, 2).T,
    "contiguous_backward": lambda x: x.contiguous_backward(),
    "realize": lambda x: x.realize(),
    "a tensor of it": lambda x: Tensor(x),
    "several": lambda x: x.half().to("CPU:1").contiguous().reshape(1, 2).realize(),
}


@pytest.mark.parametrize("name", SAME)
def test_what_takes_no_gradient_stays_so(name: str) -> None:
    for make in (lambda flag: Tensor([1.0, 2.0], requires_grad=flag), lambda flag: Tensor.zeros(2, requires_grad=flag)):
        assert SAME[name](make(False)).requires_grad is False
        assert SAME[name](make(None)).requires_grad is None
        assert SAME[name](make(True)).requires_grad is (True if name == "realize" else None)
        assert nn.state.get_parameters([SAME[name](make(False))]) == []
