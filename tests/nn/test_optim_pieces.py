"""What goes around a step: limits of gradients, learning rates over time, averages; and whole curves like PyTorch's."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from whit import Tensor, nn
from whit.errors import WhitError
from whit.nn import optim

RNG = np.random.default_rng(0)


def with_gradients() -> tuple[list[Tensor], list[np.ndarray]]:
    arrays = [RNG.normal(size=shape).astype(np.float32) for shape in ((3, 4), (5,), ())]
    params = [Tensor(np.zeros_like(array)) for array in arrays]
    for param, array in zip(params, arrays, strict=True):
        param.grad = Tensor(array)
    return params, arrays


# ---- limits


@pytest.mark.parametrize("kind", [2.0, 1.0, 3.0, math.inf])
@pytest.mark.parametrize("limit", [0.5, 100.0])
def test_the_norm_of_all_gradients_is_limited(kind: float, limit: float) -> None:
    params, arrays = with_gradients()
    flat = np.concatenate([array.reshape(-1) for array in arrays])
    before = optim.clip_grad_norm(params, limit, kind)
    norm = np.linalg.norm(flat, kind)
    np.testing.assert_allclose(before.item(), norm, rtol=1e-5)
    for param, array in zip(params, arrays, strict=True):
        np.testing.assert_allclose(param.grad.numpy(), array * min(1.0, limit / norm), rtol=1e-4)


def test_each_element_of_a_gradient_is_limited() -> None:
    params, arrays = with_gradients()
    params.append(Tensor([1.0]))  # without a gradient: it is left alone
    optim.clip_grad_value(params, 0.25)
    for param, array in zip(params, arrays, strict=False):
        np.testing.assert_array_equal(param.grad.numpy(), np.clip(array, -0.25, 0.25))


def test_what_clipping_refuses() -> None:
    params, _ = with_gradients()
    with pytest.raises(WhitError, match="max_norm=-1"):
        optim.clip_grad_norm(params, -1)
    with pytest.raises(WhitError, match="norm_type=0"):
        optim.clip_grad_norm(params, 1, 0)
    with pytest.raises(WhitError, match="no parameter has a gradient"):
        optim.clip_grad_norm([Tensor([1.0])], 1)


# ---- learning rates


def rates(make: Callable[[optim.Optimizer], optim.Schedule], steps: int) -> list[float]:
    opt = optim.SGD([Tensor([1.0])], lr=0.4)
    schedule = make(opt)
    found = []
    for _ in range(steps):
        found.append(opt.lr.item())
        assert opt.lr.item() == pytest.approx(schedule.get_lr(), rel=1e-6)
        schedule.step()
    return found


def torch_rates(make: Callable[[Any, Any], Any], steps: int) -> list[float]:
    torch = pytest.importorskip("torch")
    opt = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.4)
    schedule = make(torch.optim.lr_scheduler, opt)
    found = []
    for _ in range(steps):
        found.append(opt.param_groups[0]["lr"])
        opt.step()
        schedule.step()
    return found


SCHEDULES: dict[str, tuple[Any, Any, int]] = {
    "cosine": (
        lambda opt: optim.CosineAnnealing(opt, 10, least=0.25),
        lambda s, opt: s.CosineAnnealingLR(opt, 10, eta_min=0.1),
        11,
    ),
    "multistep": (
        lambda opt: optim.MultiStep(opt, [3, 7], gamma=0.5),
        lambda s, opt: s.MultiStepLR(opt, [3, 7], gamma=0.5),
        10,
    ),
    "one-cycle": (lambda opt: optim.OneCycle(opt, 20), lambda s, opt: s.OneCycleLR(opt, 0.4, total_steps=20), 20),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_are_those_of_torch(name: str) -> None:
    make, make_torch, steps = SCHEDULES[name]
    np.testing.assert_allclose(rates(make, steps), torch_rates(make_torch, steps), rtol=1e-5)


def test_a_warm_up_rises_to_the_schedule_after_it() -> None:
    plain = rates(lambda opt: optim.WarmUp(3, opt), 6)
    np.testing.assert_allclose(plain, [0.1, 0.2, 0.3, 0.4, 0.4, 0.4], rtol=1e-6)
    cosine = rates(lambda opt: optim.WarmUp(3, optim.CosineAnnealing(opt, 4)), 9)
    np.testing.assert_allclose(cosine[:4], plain[:4], rtol=1e-6)
    np.testing.assert_allclose(cosine[3:], [*rates(lambda opt: optim.CosineAnnealing(opt, 4), 5), 0.0], atol=1e-7)


def test_a_schedule_reaches_all_optimisers_of_a_group() -> None:
    group = optim.OptimizerGroup(optim.SGD([Tensor([1.0])], lr=0.5), optim.Adam([Tensor([1.0])], lr=0.25))
    schedule = optim.Schedule(group, lambda at: 0.5**at)
    schedule.step()
    assert [part.lr.item() for part in group.optimizers] == [0.25, 0.125]


# ---- averages


def test_averages_follow_the_parameters_and_can_take_their_place() -> None:
    weight = Tensor([1.0, 2.0])
    ema = optim.EMA([weight], decay=0.75)
    weight.assign(Tensor([5.0, 6.0])).realize()
    ema.update()
    assert ema.average[0].tolist() == [2.0, 3.0]
    with ema.applied():
        assert weight.tolist() == [2.0, 3.0]
    assert weight.tolist() == [5.0, 6.0]
    with pytest.raises(WhitError, match=r"EMA: decay=1\.0"):
        optim.EMA([weight], decay=1.0)


@pytest.mark.slow
def test_gradients_of_several_batches_add_up() -> None:
    weight = Tensor([1.0, 2.0])
    opt = optim.SGD([weight], lr=0.5)
    for factor in (1.0, 2.0):
        (weight * factor).sum().backward()
    opt.step()
    assert weight.tolist() == [-0.5, 0.5]


# ---- whole curves


class Convolutional:
    def __init__(self) -> None:
        self.conv, self.norm, self.out = nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm(6), nn.Linear(6 * 16, 10)

    def __call__(self, x: Tensor) -> Tensor:
        return self.out(self.norm(self.conv(x)).relu().max_pool2d(2).flatten(1))


class Dense:
    def __init__(self) -> None:
        self.first, self.out = nn.Linear(64, 40), nn.Linear(40, 10)

    def __call__(self, x: Tensor) -> Tensor:
        return self.out(self.first(x.flatten(1)).relu())


def torch_model(torch: Any, model: Any) -> Any:
    """The same with PyTorch's layers, under the same names."""

    class Module(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            if isinstance(model, Dense):
                return self.out(torch.relu(self.first(x.flatten(1))))
            return self.out(torch.nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2).flatten(1))

    module = Module()
    if isinstance(model, Dense):
        module.first, module.out = torch.nn.Linear(64, 40), torch.nn.Linear(40, 10)
    else:
        module.conv, module.norm = torch.nn.Conv2d(1, 6, 3, padding=1), torch.nn.BatchNorm2d(6)
        module.out = torch.nn.Linear(6 * 16, 10)
    state = {name: torch.tensor(tensor.numpy()) for name, tensor in nn.state.get_state_dict(model).items()}
    module.load_state_dict(state)
    return module


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "tolerance"), [(Dense, 1e-3), (Convolutional, 5e-3)], ids=["dense", "convolutional"])
def test_fifty_steps_are_those_of_torch(kind: type, tolerance: float) -> None:
    torch = pytest.importorskip("torch")
    Tensor.manual_seed(0)
    model = kind()
    theirs = torch_model(torch, model)
    images, classes, _, _ = nn.datasets.digits()
    x, y = images.numpy().astype(np.float32) / 16, classes.numpy().astype(np.int32)
    opt = optim.AdamW(nn.state.get_parameters(model), lr=0.003)
    torch_opt = torch.optim.AdamW(theirs.parameters(), lr=0.003)
    found, wanted = [], []
    for step in range(50):
        rows = slice(step * 25 % 1400, step * 25 % 1400 + 32)
        with Tensor.train():
            opt.zero_grad()
            loss = model(Tensor(x[rows])).cross_entropy(Tensor(y[rows])).backward()
            opt.step()
        found.append(loss.item())
        torch_opt.zero_grad()
        torch_loss = torch.nn.functional.cross_entropy(theirs(torch.tensor(x[rows])), torch.tensor(y[rows]).long())
        torch_loss.backward()
        torch_opt.step()
        wanted.append(torch_loss.item())
    np.testing.assert_allclose(found, wanted, rtol=tolerance)
    assert found[-1] < 0.7 * found[0]
