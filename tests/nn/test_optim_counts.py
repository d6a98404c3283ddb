"""Kernels of fused steps: how many there are does not depend on the number of parameters."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from whit import GlobalCounters, Tensor, dtypes
from whit.nn import optim

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)
Make = Callable[[list[Tensor]], Any]

KINDS: dict[str, tuple[Make, int]] = {
    "sgd": (lambda params: optim.SGD(params, momentum=0.9, fused=True), 1),
    "adamw": (lambda params: optim.AdamW(params, fused=True), 2),
    "lars": (lambda params: optim.LARS(params, fused=True), 3),
    "lamb": (lambda params: optim.LAMB(params, fused=True), 5),
}


def parameters(count: int, device: str = "NULL") -> list[Tensor]:
    """Matrices, rows and numbers of many shapes."""
    shapes = [((3 + i % 5, 4 + i % 3), (5 + i % 4,), ())[min(i % 4, 2)] for i in range(count)]
    return [Tensor(RNG.normal(size=shape).astype(np.float32), device=device) for shape in shapes]


def lazy_gradients(params: list[Tensor]) -> list[Tensor]:
    """A gradient of some loss for each."""
    x = Tensor(RNG.normal(size=(6, 8)).astype(np.float32), device="NULL")
    found = []
    for param in params:
        rows = param.shape[0] if param.ndim else 1
        product = x[:, :rows] @ param if param.ndim == 2 else x[:, :rows] * param
        found += product.square().sum().gradient(param)
    return found


def kernels_of(make: Make | None, count: int, is_lazy: bool, clip: bool = False) -> int:
    """Kernels of a step, or without an optimiser of the gradients alone."""
    params = parameters(count)
    opt = make(params) if make is not None else None
    gradients = (
        lazy_gradients(params) if is_lazy else [Tensor(np.ones(p.shape, np.float32), device="NULL") for p in params]
    )
    for param, gradient in zip(params, gradients, strict=True):
        param.grad = gradient
    GlobalCounters.reset()
    if clip:
        optim.clip_grad_norm(params, 1.0)
    if opt is None:
        Tensor.realize(*gradients)
    else:
        opt.step()
    return int(GlobalCounters.kernel_count)


@pytest.mark.parametrize("name", KINDS)
def test_a_fused_step_has_as_many_kernels_for_any_number_of_parameters(name: str) -> None:
    make, kernels = KINDS[name]
    for count in (2, 17, 64):
        assert kernels_of(make, count, is_lazy=False) == kernels + 1, "gradients in memory are brought together"


def test_lazy_gradients_are_computed_where_the_update_reads_them() -> None:
    alone = kernels_of(None, 40, is_lazy=True)
    for make, kernels in KINDS.values():
        assert kernels_of(make, 40, is_lazy=True) - alone == kernels


def test_five_hundred_parameters_are_no_more_kernels_than_two() -> None:
    make, kernels = KINDS["adamw"]
    assert kernels_of(make, 500, is_lazy=False) == kernels + 1


def test_clipping_adds_two_kernels_at_most() -> None:
    alone = kernels_of(None, 40, is_lazy=True)
    for make, kernels in KINDS.values():
        assert kernels_of(make, 40, is_lazy=True, clip=True) - alone <= kernels + 2


@pytest.mark.parametrize("fused", [False, True], ids=["one by one", "fused"])
def test_an_average_is_two_kernels(fused: bool) -> None:
    for count in (3, 40):
        params = parameters(count)
        opt = optim.SGD(params, fused=fused)
        ema = optim.EMA(params)
        GlobalCounters.reset()
        ema.update()
        assert GlobalCounters.kernel_count == 2
        for param in params:
            param.grad = Tensor(np.ones(param.shape, np.float32), device="NULL")
        GlobalCounters.reset()
        Tensor.realize(*opt.schedule_step())
        alone = GlobalCounters.kernel_count
        for param in params:
            param.grad = Tensor(np.ones(param.shape, np.float32), device="NULL")
        GlobalCounters.reset()
        Tensor.realize(*opt.schedule_step(), *ema.schedule_update())
        assert GlobalCounters.kernel_count == alone + 2


def test_matrices_of_one_shape_are_made_straight_together() -> None:
    found = []
    for count in (1, 5):
        params = [Tensor(RNG.normal(size=(6, 4)).astype(np.float32), device="NULL") for _ in range(count)]
        opt = optim.Muon(params, fused=True)
        for param in params:
            param.grad = Tensor(RNG.normal(size=(6, 4)).astype(np.float32), device="NULL")
        GlobalCounters.reset()
        opt.step()
        found.append(GlobalCounters.kernel_count)
    assert found[1] == found[0] + 1  # the gradients are brought together


def test_parameters_of_several_dtypes_and_devices_are_changed_as_one_for_each() -> None:
    def fresh() -> list[Tensor]:
        kinds = [(dtypes.float32, "CPU"), (dtypes.float64, "CPU"), (dtypes.float32, "CPU:1"), (dtypes.float32, "CPU")]
        return [Tensor([1.0, -2.0, 3.0 + i], dtype=kind, device=device) for i, (kind, device) in enumerate(kinds)]

    results = []
    for fused in (False, True):
        params = fresh()
        opt = optim.AdamW(params, lr=0.1, fused=fused)
        for _ in range(2):
            for param in params:
                param.grad = param.detach() * 2
            opt.step()
        results.append([param.tolist() for param in params])
        assert [(param.dtype, param.device) for param in params] == [(p.dtype, p.device) for p in fresh()]
    for one, fused_one in zip(*results, strict=True):
        np.testing.assert_allclose(fused_one, one, rtol=1e-6)
    assert len(opt.m) == 3


def test_parameters_without_elements_and_of_one_are_joined() -> None:
    params = [
        Tensor.zeros(0, 3).contiguous(),
        Tensor([1.0, 2.0]),
        Tensor(3.0).contiguous(),
        Tensor.zeros(2, 0).contiguous(),
    ]
    opt = optim.SGD(params, lr=0.5, fused=True)
    for param in params:
        param.grad = Tensor.ones(*param.shape)
    opt.step()
    assert [param.tolist() for param in params] == [[], [0.5, 1.5], 2.5, [[], []]]
