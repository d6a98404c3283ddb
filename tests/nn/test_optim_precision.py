"""Small floats: states in other dtypes and on other devices, exact copies of weights, and scaled losses."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from whit import Device, Tensor, dtypes, nn
from whit.errors import WhitError
from whit.nn import optim

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)
SHAPES = [(4, 3), (3,), ()]
START = [np.asarray(RNG.normal(size=shape), np.float32) for shape in SHAPES]
GRADIENTS = [[np.asarray(RNG.normal(size=shape), np.float32) for shape in SHAPES] for _ in range(5)]
FUSED = pytest.mark.parametrize("fused", [False, True], ids=["one by one", "fused"])


def exact(tensor: Tensor) -> np.ndarray:
    return tensor.cast(dtypes.float32).numpy()


# ---- states


@FUSED
@pytest.mark.parametrize("kind", [optim.SGD, optim.AdamW, optim.LAMB])
def test_states_on_another_device_change_nothing(kind: Any, fused: bool) -> None:
    settings = {"momentum": 0.9} if kind is optim.SGD else {}
    results = []
    for device in (None, "CPU:1"):
        params = [Tensor(array) for array in START]
        opt = kind(params, lr=0.1, fused=fused, state_device=device, **settings)
        for gradients in GRADIENTS[:2]:
            for param, gradient in zip(params, gradients, strict=True):
                param.grad = Tensor(gradient)
            opt.step()
        states = opt.b if kind is optim.SGD else [*opt.m, *opt.v]
        assert {tensor.device for tensor in (*states, opt.lr)} == {device or Device.DEFAULT}
        assert {param.device for param in params} == {Device.DEFAULT}
        results.append([param.numpy() for param in params])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-6)


@FUSED
def test_states_have_the_dtype_that_was_asked_for(fused: bool) -> None:
    params = [Tensor(array) for array in START]
    opt = optim.Adam(params, lr=0.1, fused=fused, state_dtype=dtypes.bfloat16)
    mean, square = [0.0] * 3, [0.0] * 3
    weights = [array.copy() for array in START]
    for step, gradients in enumerate(GRADIENTS, 1):
        for i, gradient in enumerate(gradients):
            params[i].grad = Tensor(gradient)
            mean[i] = rounded(0.9 * mean[i] + 0.1 * gradient)  # what is kept is what is used
            square[i] = rounded(0.999 * square[i] + 0.001 * gradient * gradient)
            change = mean[i] / (1 - 0.9**step) / (np.sqrt(square[i] / (1 - 0.999**step)) + 1e-8)
            weights[i] = weights[i] - 0.1 * change
        opt.step()
    assert {tensor.dtype for tensor in (*opt.m, *opt.v)} == {dtypes.bfloat16}
    for param, weight in zip(params, weights, strict=True):
        np.testing.assert_allclose(param.numpy(), weight, rtol=2e-2, atol=2e-2)


def rounded(x: Any) -> Any:
    """To bfloat16 and back."""
    return Tensor(np.asarray(x, np.float32)).cast(dtypes.bfloat16).cast(dtypes.float32).numpy()


# ---- exact copies of weights


@FUSED
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_masters_are_the_weights_of_torch_in_float32(dtype: str, fused: bool) -> None:
    torch = pytest.importorskip("torch")
    small, theirs = getattr(dtypes, dtype), getattr(torch, dtype)
    params = [Tensor(array).cast(small).realize() for array in START]
    opt = optim.AdamW(params, lr=0.01, fused=fused, masters=True)
    masters = [torch.nn.Parameter(torch.tensor(exact(param))) for param in params]
    torch_opt = torch.optim.AdamW(masters, lr=0.01)
    for gradients in GRADIENTS:
        for param, master, gradient in zip(params, masters, gradients, strict=True):
            param.grad = Tensor(gradient).cast(small)
            master.grad = torch.tensor(gradient).to(theirs).float()
        opt.step()
        torch_opt.step()
        for param, master in zip(params, masters, strict=True):
            assert param.dtype is small
            np.testing.assert_allclose(exact(param), master.detach().to(theirs).float().numpy(), rtol=1e-2)
    wanted = np.concatenate([master.detach().numpy().reshape(-1) for master in masters])
    found = np.concatenate([master.numpy().reshape(-1) for master in opt.masters])
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-7)
    assert {master.dtype for master in opt.masters} == {dtypes.float32}


def test_masters_add_up_what_a_small_float_forgets() -> None:
    for masters, wanted in ((False, 1.0), (True, 0.9921875)):
        weight = Tensor([1.0], dtype=dtypes.bfloat16)
        opt = optim.SGD([weight], lr=1.0, masters=masters)
        for _ in range(8):
            weight.grad = Tensor([0.001], dtype=dtypes.bfloat16)
            opt.step()
        assert weight.item() == wanted


def test_weights_of_float32_are_their_own_masters() -> None:
    params = [Tensor([1.0]), Tensor([1.0], dtype=dtypes.float16)]
    opt = optim.SGD(params, masters=True)
    assert opt.masters[0] is params[0]
    assert opt.masters[1].dtype is dtypes.float32


# ---- scaled losses


@FUSED
def test_steps_and_factors_are_those_of_torch(fused: bool) -> None:
    """With an infinity in the gradients of one step and a NaN in those of another."""
    torch = pytest.importorskip("torch")
    params = [Tensor(array) for array in START]
    theirs = [torch.nn.Parameter(torch.tensor(array)) for array in START]
    opt = optim.AdamW(params, lr=0.1, fused=fused)
    torch_opt = torch.optim.AdamW(theirs, lr=0.1)
    scaler = optim.LossScaler(1024.0, interval=2)
    torch_scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    for step, gradients in enumerate([*GRADIENTS, *GRADIENTS]):
        bad = {3: np.inf, 4: np.nan}.get(step, 0.0)
        factor = torch_scaler.get_scale()
        torch_scaler.scale(torch.zeros(1))  # it asks for this first
        for i, gradient in enumerate(gradients):
            scaled = gradient * factor + (bad if i == 1 else 0.0)
            params[i].grad, theirs[i].grad = Tensor(scaled), torch.tensor(scaled)
        scaler.step(opt)
        torch_scaler.step(torch_opt)
        torch_scaler.update()
        assert scaler.factor.item() == torch_scaler.get_scale()
        for param, other in zip(params, theirs, strict=True):
            np.testing.assert_allclose(param.numpy(), other.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_a_skipped_step_changes_nothing_but_the_factor() -> None:
    weight = Tensor([1.0, 2.0])
    opt = optim.Adam([weight], lr=0.1, masters=True)
    scaler = optim.LossScaler(8.0)
    kept = [weight, *opt.m, *opt.v, opt.correction]
    weight.grad = Tensor([1.0, 1.0])
    scaler.step(opt)
    before = [tensor.tolist() for tensor in kept]
    weight.grad = Tensor([1.0, float("nan")])
    scaler.step(opt)
    assert [tensor.tolist() for tensor in kept] == before
    assert (scaler.factor.item(), scaler.good.item()) == (4.0, 0)


def test_small_gradients_survive_in_float16_and_large_ones_make_the_factor_smaller() -> None:
    def trained(factor: float) -> tuple[float, float]:
        weight = Tensor([1.0], dtype=dtypes.float16)
        opt = optim.SGD([weight], lr=1e6, masters=True)
        scaler = optim.LossScaler(factor)
        loss = scaler.backward((weight * 1e-4).cast(dtypes.float32).mean() * 1e-4)
        scaler.step(opt)
        assert "lazy" not in repr(loss)
        return weight.item(), scaler.factor.item()

    assert trained(1.0)[0] == 1.0  # 1e-8 is 0 in float16
    weight, factor = trained(65536.0)
    assert weight == pytest.approx(1.0 - 0.01, rel=2e-3)
    assert factor == 65536.0
    assert trained(2.0**40) == (1.0, 2.0**39)


def test_gradients_are_divided_before_they_are_clipped() -> None:
    weight = Tensor([3.0, 4.0])
    opt = optim.SGD([weight], lr=1.0)
    scaler = optim.LossScaler(1024.0)
    scaler.backward((weight * weight).sum() / 2)
    scaler.unscale(opt)
    norm = optim.clip_grad_norm([weight], 1.0)
    with pytest.raises(WhitError, match="divided by the factor already"):
        scaler.unscale(opt)
    scaler.step(opt)
    assert norm.item() == pytest.approx(5.0)
    np.testing.assert_allclose(weight.numpy(), [2.4, 3.2], rtol=1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: optim.LossScaler(0.0), "LossScaler: factor=0"),
        (lambda: optim.LossScaler(-1.0), "LossScaler: factor=-1"),
        (lambda: optim.LossScaler(growth=0.5), "LossScaler: growth=0.5"),
        (lambda: optim.LossScaler(backoff=1.0), "LossScaler: backoff=1.0"),
        (lambda: optim.LossScaler(backoff=0), "LossScaler: backoff=0"),
        (lambda: optim.LossScaler(interval=0), "LossScaler: interval=0"),
        (lambda: optim.LossScaler().backward(Tensor([1.0, 2.0])), "is no loss"),
        (lambda: optim.LossScaler().step(optim.SGD([Tensor([1.0])])), "no parameter has a gradient"),
        (lambda: optim.SGD([Tensor([1.0])]).step(skip=Tensor([1.0])), "SGD: skip="),
        (lambda: optim.SGD([Tensor([1.0])]).step(skip=True), "SGD: skip=True"),  # type: ignore[arg-type]
    ],
    ids=range(10),
)
def test_what_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(WhitError, match=re.escape(message)):
        make()


# ---- pieces together


class Small:
    def __init__(self) -> None:
        self.first, self.out = nn.Linear(4, 6), nn.Linear(6, 3)

    def __call__(self, x: Tensor) -> Tensor:
        return self.out(self.first(x).tanh())


@FUSED
def test_parts_of_a_batch_give_the_step_of_the_whole(fused: bool) -> None:
    x, y = RNG.normal(size=(8, 4)).astype(np.float32), np.arange(8, dtype=np.int32) % 3
    results = []
    for parts in (1, 4):
        Tensor.manual_seed(1)
        model = Small()
        params = nn.state.get_parameters(model)
        opt = optim.AdamW(params, lr=0.1, fused=fused)
        for _ in range(2):
            opt.zero_grad()
            for rows in np.split(np.arange(8), parts):
                loss = model(Tensor(x[rows])).cross_entropy(Tensor(y[rows])) / parts
                loss.backward()
                Tensor.realize(loss, *(param.grad for param in params))
            optim.clip_grad_norm(params, 0.5)
            opt.step()
        results.append([param.numpy() for param in params])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5)


def test_all_pieces_go_together_and_a_step_reads_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    Tensor.manual_seed(1)
    model = Small()
    params = nn.state.get_parameters(model)
    for param in params:
        param.replace(param.cast(dtypes.bfloat16).realize())
    opt = optim.AdamW(params, lr=0.05, fused=True, masters=True)
    scaler = optim.LossScaler(1024.0)
    x, y = (
        Tensor(RNG.normal(size=(8, 4)).astype(np.float32)).cast(dtypes.bfloat16).realize(),
        Tensor([0, 1, 2, 0, 1, 2, 0, 1]),
    )
    losses = []

    def refuse(self: Tensor, *_: Any) -> Any:
        raise AssertionError("a value was read")

    with monkeypatch.context() as patch:
        for name in ("item", "numpy", "tolist", "data", "__bool__"):
            patch.setattr(Tensor, name, refuse)
        for _ in range(12):
            opt.zero_grad()
            loss = scaler.backward(model(x).cast(dtypes.float32).cross_entropy(y))
            scaler.unscale(opt)
            optim.clip_grad_norm(params, 1.0)
            optim.clip_grad_value(params, 0.5)
            loss.realize(*scaler.schedule_step(opt))
            losses.append(loss)
    assert losses[-1].item() < 0.5 * losses[0].item()
    assert {param.dtype for param in params} == {dtypes.bfloat16}
