"""Optimisers beside PyTorch's: the same expression, steps, groups and states. What PyTorch gives is in a file, too."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whit import GlobalCounters, Tensor, TinyJit
from whit.errors import WhitError
from whit.nn import optim

FILE = Path(__file__).parent / "expected" / "optimisers.json"
SHAPES = ((3, 4), (5,), (2, 3, 2))
STEPS = 7
GROUPS = "[{'params': p[:1], 'lr': 0.03}, {'params': p[1:], 'weight_decay': 0.3}]"

CASES = [
    "SGD(p, 0.1)",
    "SGD(p, lr=0.1, momentum=0.9, dampening=0.5, weight_decay=0.1)",
    "SGD(p, lr=0.1, momentum=0.9, nesterov=True, maximize=True)",
    f"SGD({GROUPS}, lr=0.1, momentum=0.5)",
    "Adam(p)",
    "Adam(p, 0.1, (0.8, 0.95), weight_decay=0.1, amsgrad=True)",
    "Adam(p, lr=0.1, maximize=True, foreach=False)",
    f"Adam({GROUPS}, lr=0.1)",
    "Adam([{'params': p[:1], 'betas': (0.5, 0.7)}, {'params': p[1:]}], lr=0.1)",
    "AdamW(p, 0.1, betas=(0.8, 0.95), amsgrad=True)",
    f"AdamW({GROUPS}, lr=0.1)",
    "RMSprop(p)",
    "RMSprop(p, 0.05, 0.9, 1e-6, 0.1, 0.8, True)",
    f"RMSprop({GROUPS}, lr=0.1)",
    "Adagrad(p)",
    "Adagrad(p, lr=0.1, lr_decay=0.3, weight_decay=0.1, initial_accumulator_value=0.2)",
    "Adadelta(p)",
    "Adadelta(p, lr=0.5, rho=0.8, weight_decay=0.1)",
    f"Adadelta({GROUPS}, lr=0.1)",
    "Adamax(p)",
    "Adamax(p, lr=0.1, betas=(0.8, 0.95), weight_decay=0.1)",
    "NAdam(p)",
    "NAdam(p, lr=0.1, weight_decay=0.1, momentum_decay=0.1, decoupled_weight_decay=True)",
    f"NAdam({GROUPS}, lr=0.1)",
    "RAdam(p, lr=0.1)",
    "RAdam(p, lr=0.1, betas=(0.8, 0.6), weight_decay=0.1, decoupled_weight_decay=True)",
    f"RAdam({GROUPS}, lr=0.1, betas=(0.8, 0.9))",
    "Adafactor(p)",
    "Adafactor(p, lr=0.1, beta2_decay=-0.6, d=1.5, weight_decay=0.1)",
    "Rprop(p)",
    "Rprop(p, lr=0.1, etas=(0.4, 1.3), step_sizes=(1e-3, 0.2))",
    "ASGD(p)",
    "ASGD(p, lr=0.1, lambd=0.1, alpha=0.6, t0=3, weight_decay=0.1)",
]
NO_FUSED = ("Adafactor",)


def numbers(step: int) -> list[np.ndarray]:
    """Parameters for step 0, gradients for the others; the gradients of one element are 0 once."""
    random = np.random.RandomState(step)
    found = [random.randn(*shape).astype(np.float32) for shape in SHAPES]
    if step == 3:
        found[1][0] = 0
    return found


def run(
    module: Any, call: str, make: Callable[[np.ndarray], Any], steps: range, params: list[Any] | None = None
) -> tuple[Any, list[Any]]:
    p = [make(array) for array in numbers(0)] if params is None else params
    for tensor in p:
        tensor.requires_grad = True
    opt = eval(f"module.{call}", {"module": module, "p": p})
    go_on(opt, p, make, steps)
    return opt, p


def go_on(opt: Any, p: list[Any], make: Callable[[np.ndarray], Any], steps: range) -> None:
    for step in steps:
        for tensor, gradient in zip(p, numbers(step), strict=True):
            tensor.grad = make(gradient)
        opt.step()


def by_torch(call: str) -> list[np.ndarray]:
    import torch

    return [tensor.detach().numpy() for tensor in run(torch.optim, call, torch.tensor, range(1, STEPS + 1))[1]]


def expected(call: str) -> list[np.ndarray]:
    found = json.loads(FILE.read_text("utf-8"))[call]
    return [np.array(values, np.float32).reshape(shape) for values, shape in zip(found, SHAPES, strict=True)]


def agree(found: list[Any], wanted: list[Any], tolerance: float = 2e-5) -> None:
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-4, atol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("call", CASES)
def test_steps_are_those_of_torch(call: str, fused: bool) -> None:
    if fused and call.startswith(NO_FUSED):
        pytest.skip("needs each parameter alone")
    _, params = run(optim, f"{call[:-1]}, fused={fused})", Tensor, range(1, STEPS + 1))
    agree(params, expected(call))


@pytest.mark.parametrize("call", CASES)
def test_the_file_is_what_torch_gives(call: str) -> None:
    pytest.importorskip("torch")
    for found, wanted in zip(by_torch(call), expected(call), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("call", CASES)
def test_a_run_goes_on_from_a_state_dict(call: str, fused: bool) -> None:
    if fused and call.startswith(NO_FUSED):
        pytest.skip("needs each parameter alone")
    opt, params = run(optim, call, Tensor, range(1, 4))
    kept = opt.state_dict()
    copies = [tensor.detach().clone().realize() for tensor in params]
    other, _ = run(optim, f"{call[:-1]}, fused={fused})", Tensor, range(0), copies)
    other.load_state_dict(kept)
    go_on(other, copies, Tensor, range(4, STEPS + 1))
    agree(copies, expected(call))


@pytest.mark.slow
@pytest.mark.parametrize("call", CASES)
def test_state_dicts_go_both_ways(call: str) -> None:
    torch = pytest.importorskip("torch")
    opt, _ = run(optim, call, Tensor, range(1, 4))
    theirs, their_params = run(torch.optim, call, torch.tensor, range(1, 4))
    ours, wanted = opt.state_dict(), theirs.state_dict()
    assert [group["params"] for group in ours["param_groups"]] == [group["params"] for group in wanted["param_groups"]]
    assert list(ours["state"]) == list(wanted["state"])
    for place, state in wanted["state"].items():
        for name, value in state.items():
            if value is None or name in ("eta", "mu", "step") or (name == "momentum_buffer" and call == "SGD(p, 0.1)"):
                continue
            np.testing.assert_allclose(ours["state"][place][name].numpy(), value.numpy(), rtol=1e-4, atol=1e-5)
    copies = [Tensor(tensor.detach().numpy()) for tensor in their_params]
    other, _ = run(optim, call, Tensor, range(0), copies)
    other.load_state_dict(wanted)
    go_on(other, copies, Tensor, range(4, STEPS + 1))
    agree(copies, expected(call))


def test_groups_have_settings_that_can_be_written() -> None:
    params = [Tensor.ones(3).contiguous() for _ in range(3)]
    opt = optim.AdamW([{"params": params[:2], "lr": 0.5}, {"params": params[2], "weight_decay": 0.0}], lr=0.1)
    first, second = opt.param_groups
    assert (first["lr"].item(), second["lr"].item()) == pytest.approx((0.5, 0.1))
    assert (first["weight_decay"], second["weight_decay"], second["betas"]) == (0.01, 0.0, (0.9, 0.999))
    second["lr"] = 0.25
    assert second["lr"].item() == 0.25 and opt.lr.item() == 0.5
    opt.lr = 0.125
    assert [group["lr"].item() for group in opt.param_groups] == [0.125, 0.125]
    first["weight_decay"] = 0.5
    assert sorted(first) == sorted(["params", "lr", "betas", "eps", "weight_decay", "amsgrad", "maximize"])
    with pytest.raises(WhitError, match=r"param_groups: there is no setting 'learning'"):
        first["learning"] = 1
    with pytest.raises(WhitError, match=r'AdamW: group 1 is .*(.|\n)*dictionary with "params"'):
        optim.AdamW([{"params": params[:2]}, params[2]])
    with pytest.raises(WhitError, match=r"SGD: group 0 has a setting 'betas'"):
        optim.SGD([{"params": params, "betas": (0.1, 0.2)}])
    with pytest.raises(WhitError, match=r"AdamW: lr=-1"):
        optim.AdamW([{"params": params, "lr": -1}])
    with pytest.raises(WhitError, match="are the same tensor"):
        optim.AdamW([{"params": params[:2]}, {"params": params[1:]}])
    named = optim.SGD(zip("abc", params, strict=True), lr=0.1)
    assert named.params == params or len(named.params) == 3


def test_a_captured_step_follows_rates_and_settings_of_groups() -> None:
    params = [Tensor.zeros(2).contiguous().realize() for _ in range(2)]
    opt = optim.SGD([{"params": params[0]}, {"params": params[1], "lr": 1.0}], lr=0.5)

    @TinyJit
    def step(x: Tensor) -> None:
        for tensor in params:
            tensor.grad = x
        opt.step()

    x = Tensor.ones(2).contiguous().realize()
    for _ in range(4):
        step(x)
    assert [tensor[0].item() for tensor in params] == [-2.0, -4.0]
    opt.param_groups[1]["lr"] = 2.0
    step(x)
    assert [tensor[0].item() for tensor in params] == [-2.5, -6.0]
    assert len(step.captured) == 1, "a new rate is no new program"
    opt.param_groups[0]["weight_decay"] = 1.0
    step(x)
    assert [tensor[0].item() for tensor in params] == [-1.75, -8.0]
    assert len(step.captured) == 2


@pytest.mark.slow
@pytest.mark.parametrize("call", CASES)
def test_captured_steps_are_those_of_torch(call: str) -> None:
    params = [Tensor(array).realize() for array in numbers(0)]
    opt, _ = run(optim, call, Tensor, range(0), params)

    @TinyJit
    def step(*gradients: Tensor) -> None:
        for tensor, gradient in zip(params, gradients, strict=True):
            tensor.grad = gradient
        opt.step()

    for number in range(1, STEPS + 1):
        step(*[Tensor(array).contiguous().realize() for array in numbers(number)])
    agree(params, expected(call))
    assert len(step.captured) == 1


@pytest.mark.parametrize(
    ("kind", "of_one", "of_four"), [("SGD", 2, 7), ("AdamW", 3, 8), ("RMSprop", 3, 8), ("NAdam", 4, 9)]
)
def test_a_fused_step_of_groups_is_few_kernels(kind: str, of_one: int, of_four: int) -> None:
    for count, kernels in ((1, of_one), (4, of_four)):
        params = [Tensor.ones(2 + i % 3, 3).contiguous().realize() for i in range(40)]
        groups = [{"params": params[i::count], "lr": 0.1 * (i + 1)} for i in range(count)]
        opt = getattr(optim, kind)(groups, fused=True)
        for tensor in params:
            tensor.grad = Tensor([[1.0] * 3] * tensor.shape[0]).realize()
        GlobalCounters.reset()
        opt.step()
        assert GlobalCounters.kernel_count == kernels


VALLEY = (-1.2, 1.0)


def valley(x: Any) -> Any:
    """Rosenbrock's, lowest at (1, 1)."""
    return 100 * (x[1] - x[0] * x[0]) ** 2 + (1 - x[0]) ** 2


def descend(module: Any, x: Any, steps: int, **given: Any) -> list[float]:
    x.requires_grad = True
    opt, seen = module.LBFGS([x], **given), []

    def closure() -> Any:
        opt.zero_grad()
        loss = valley(x)
        loss.backward()
        return loss

    for _ in range(steps):
        seen.append(float(opt.step(closure).item()))
    return seen


def test_lbfgs_without_a_search_is_that_of_torch() -> None:
    torch = pytest.importorskip("torch")
    given: dict[str, Any] = {"lr": 0.1, "max_iter": 4, "history_size": 3}
    x, theirs = Tensor(list(VALLEY)), torch.tensor(VALLEY)
    found, wanted = descend(optim, x, 5, **given), descend(torch.optim, theirs, 5, **given)
    np.testing.assert_allclose(found, wanted, rtol=1e-3)
    np.testing.assert_allclose(x.numpy(), theirs.detach().numpy(), rtol=1e-3)


def test_lbfgs_finds_the_end_of_a_valley() -> None:
    x = Tensor(list(VALLEY))
    seen = descend(optim, x, 8, line_search_fn="strong_wolfe")
    assert seen == sorted(seen, reverse=True) and seen[0] == pytest.approx(24.2, rel=1e-4)
    np.testing.assert_allclose(x.numpy(), 1, atol=1e-2)
    with pytest.raises(WhitError, match=r"LBFGS: step\(\) without a closure"):
        optim.LBFGS([x]).step()
    with pytest.raises(WhitError, match="LBFGS: 2 groups"):
        optim.LBFGS([{"params": [Tensor([1.0])]}, {"params": [x]}])


def test_a_closure_is_called_before_the_step() -> None:
    weight = Tensor([1.0]).realize()
    opt = optim.SGD([weight], lr=0.5)

    def closure() -> float:
        opt.zero_grad()
        return (weight * weight).sum().backward().item()

    assert opt.step(closure) == 1.0
    assert weight.item() == 0.0


if __name__ == "__main__":
    lines = [
        f"{json.dumps(c)}: {json.dumps([[float(f'{v:.7g}') for v in a.reshape(-1)] for a in by_torch(c)])}"
        for c in CASES
    ]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
    sys.exit()
