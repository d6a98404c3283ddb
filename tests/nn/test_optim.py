"""Optimisers: step by step against PyTorch's, kernel counts, states, and what is refused."""

import gc
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from whit import GlobalCounters, Tensor, dtypes, nn
from whit.errors import WhitError
from whit.nn import optim

RNG = np.random.default_rng(0)
SHAPES = [(5, 7), (7,), (3, 2, 4), ()]
START = [RNG.normal(size=shape).astype(np.float32) for shape in SHAPES]
TARGET = [RNG.normal(size=shape).astype(np.float32) for shape in SHAPES]
STEPS = 6

Make = Callable[[list[Any]], Any]


def gradient_of(weights: list[np.ndarray], step: int) -> list[np.ndarray]:
    """Some function of the weights and the step, with zeros in it."""
    found = [np.asarray((w - t) * (1 + step % 3)) for w, t in zip(weights, TARGET, strict=True)]
    return [np.where(np.abs(g) < 0.1, 0, g).astype(np.float32) for g in found]


def run(make: Make, start: list[np.ndarray] = START, steps: int = STEPS) -> list[list[np.ndarray]]:
    """The weights after each step."""
    params = [Tensor(array.copy()) for array in start]
    opt = make(params)
    seen = []
    for step in range(steps):
        opt.zero_grad()
        for param, grad in zip(params, gradient_of([p.numpy() for p in params], step), strict=True):
            param.grad = Tensor(grad)
        opt.step()
        seen.append([param.numpy() for param in params])
    return seen


def run_torch(make: Make, start: list[np.ndarray] = START, steps: int = STEPS) -> list[list[np.ndarray]]:
    torch = pytest.importorskip("torch")
    params = [torch.nn.Parameter(torch.tensor(array.copy())) for array in start]
    opt = make(params)
    seen = []
    for step in range(steps):
        values = [p.detach().numpy().copy() for p in params]
        for param, grad in zip(params, gradient_of(values, step), strict=True):
            param.grad = torch.tensor(grad)
        opt.step()
        seen.append([p.detach().numpy().copy() for p in params])
    return seen


def assert_same(found: list[list[np.ndarray]], wanted: list[list[np.ndarray]], rtol: float = 2e-6) -> None:
    for ours, theirs in zip(found, wanted, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one, other, rtol=rtol, atol=2e-6)


PAIRS: dict[str, tuple[str, dict[str, Any], str, dict[str, Any]]] = {
    "sgd": ("SGD", {}, "SGD", {}),
    "sgd-decay": ("SGD", {"weight_decay": 0.1}, "SGD", {"weight_decay": 0.1}),
    "sgd-momentum": ("SGD", {"momentum": 0.9}, "SGD", {"momentum": 0.9}),
    "sgd-all": (
        *("SGD", {"momentum": 0.9, "weight_decay": 0.1, "nesterov": True}),
        *("SGD", {"momentum": 0.9, "weight_decay": 0.1, "nesterov": True}),
    ),
    "adam": ("Adam", {}, "Adam", {}),
    "adam-betas": ("Adam", {"b1": 0.5, "b2": 0.9, "eps": 1e-3}, "Adam", {"betas": (0.5, 0.9), "eps": 1e-3}),
    "adamw": ("AdamW", {}, "AdamW", {}),
    "adamw-decay": ("AdamW", {"weight_decay": 0.3}, "AdamW", {"weight_decay": 0.3}),
}


@pytest.mark.slow
@pytest.mark.parametrize("fused", [False, True], ids=["one by one", "fused"])
@pytest.mark.parametrize("lr", [0.001, 0.1])
@pytest.mark.parametrize("name", PAIRS)
def test_steps_are_those_of_torch(name: str, lr: float, fused: bool) -> None:
    torch = pytest.importorskip("torch")
    ours, settings, theirs, torch_settings = PAIRS[name]
    found = run(lambda params: getattr(optim, ours)(params, lr=lr, fused=fused, **settings))
    assert_same(found, run_torch(lambda params: getattr(torch.optim, theirs)(params, lr=lr, **torch_settings)))


def test_classic_momentum_has_the_rate_inside() -> None:
    (_, *rest) = run(lambda params: optim.SGD(params, lr=0.1, momentum=0.9, classic=True), steps=3)
    same = run(lambda params: optim.SGD(params, lr=0.1, momentum=0.9), steps=3)[1:]
    assert_same(rest, same)  # while the rate stays the same
    weight = Tensor([1.0])
    opt = optim.SGD([weight], lr=0.5, momentum=0.5, classic=True)
    for rate in (0.5, 0.0):
        opt.lr.assign([rate])
        weight.grad = Tensor([1.0])
        opt.step()
    assert weight.item() == 1.0 - 0.5 - 0.25  # the first step goes on though the rate is 0 now


def lars(w: np.ndarray, g: np.ndarray, b: np.ndarray, lr: float) -> tuple[np.ndarray, np.ndarray]:
    size, slope = np.linalg.norm(w), np.linalg.norm(g)
    trust = 0.001 * size / (slope + 0.01 * size) if size > 0 and slope > 0 else 1.0
    b = 0.9 * b + (g + 0.01 * w) * trust * lr
    return w - b, b


def lamb(w: np.ndarray, g: np.ndarray, state: Any, lr: float) -> tuple[np.ndarray, Any]:
    m, v, t = state if isinstance(state, tuple) else (0.0, 0.0, 0)
    m, v, t = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g, t + 1
    change = m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-6) + 0.01 * w
    size, length = np.linalg.norm(w), np.linalg.norm(change)
    return w - lr * (size / length if size > 0 and length > 0 else 1.0) * change, (m, v, t)


@pytest.mark.parametrize("fused", [False, True], ids=["one by one", "fused"])
@pytest.mark.parametrize(("formula", "kind"), [(lars, optim.LARS), (lamb, optim.LAMB)], ids=["lars", "lamb"])
def test_rates_in_proportion_to_norms(formula: Callable[..., Any], kind: Any, fused: bool) -> None:
    start = [*START[:3], np.zeros((), np.float32)]
    weights = [w.astype(np.float64) for w in start]
    states: list[Any] = [0.0] * len(weights)
    wanted = []
    for step in range(STEPS):
        grads = gradient_of(weights, step)
        pairs = [formula(w, g, s, 0.1) for w, g, s in zip(weights, grads, states, strict=True)]
        weights, states = [p[0] for p in pairs], [p[1] for p in pairs]
        wanted.append(weights)
    found = run(lambda params: kind(params, lr=0.1, weight_decay=0.01, fused=fused), start)
    assert_same(found, wanted, rtol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("nesterov", "fused"), [(True, False), (False, False), (True, True)], ids=["0", "1", "fused"])
def test_muon_is_that_of_torch_up_to_its_bfloat16(nesterov: bool, fused: bool) -> None:
    torch = pytest.importorskip("torch", minversion="2.9")
    global TARGET
    start = [RNG.normal(size=shape).astype(np.float32) for shape in ((12, 5), (6, 9), (12, 5))]
    kept, TARGET = TARGET, [np.zeros_like(w) for w in start]
    try:
        found = run(lambda params: optim.Muon(params, lr=0.01, nesterov=nesterov, fused=fused), start, 3)
        wanted = run_torch(lambda params: torch.optim.Muon(params, lr=0.01, nesterov=nesterov), start, 3)
    finally:
        TARGET = kept
    for ours, theirs in zip(found, wanted, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one, other, atol=2e-3)


def test_a_group_steps_all_of_its_optimisers() -> None:
    def make(params: list[Any]) -> optim.OptimizerGroup:
        return optim.OptimizerGroup(optim.Adam(params[:2], lr=0.1), optim.SGD(params[2:], lr=0.1))

    found = run(make)
    adam, sgd = (run(lambda params, f=f: f(params, lr=0.1)) for f in (optim.Adam, optim.SGD))  # type: ignore[misc]
    assert_same(found, [[*a[:2], *s[2:]] for a, s in zip(adam, sgd, strict=True)])
    group = make([Tensor(w) for w in START])
    assert (len(group.params), len(group.optimizers), group[1].params[0].shape) == (4, 2, (3, 2, 4))


# ---- kernels and memory


class MLP:
    def __init__(self) -> None:
        self.first, self.second = nn.Linear(784, 512), nn.Linear(512, 10)

    def __call__(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).relu())


def train(make: Make, steps: int = 3, realise_gradients: bool = False) -> tuple[list[int], list[int], list[float]]:
    """Kernels and peak memory of each step of an MLP, and losses. Kernels are those of the update alone, if gradients
    are realised before."""
    Tensor.manual_seed(0)
    gc.collect()  # what earlier tests left in cycles shall not go meanwhile
    before = GlobalCounters.mem_used
    model = MLP()
    x, y = Tensor.randn(128, 784).realize(), Tensor.randint(128, high=10).realize()
    opt = make(nn.state.get_parameters(model))
    kernels, peaks, losses = [], [], []
    for _ in range(steps):
        opt.zero_grad()
        GlobalCounters.reset()
        loss = model(x).sparse_categorical_crossentropy(y).backward()
        if realise_gradients:
            Tensor.realize(loss, *(param.grad for param in opt.params))
            GlobalCounters.reset()
        opt.step()
        kernels.append(GlobalCounters.kernel_count)
        peaks.append(GlobalCounters.mem_peak - before)
        losses.append(loss.item())
        assert GlobalCounters.kernel_count == kernels[-1], "the loss was computed in the step"
    return kernels, peaks, losses


@pytest.mark.slow
def test_a_training_step_of_an_mlp_is_eleven_kernels_and_keeps_its_memory() -> None:
    kernels, peaks, losses = train(optim.Adam)
    assert kernels == [11, 11, 11]
    assert peaks[0] == peaks[1] == peaks[2]
    weights = 4 * (784 * 512 + 512 + 512 * 10 + 10)
    assert peaks[0] <= 4 * weights + 128 * (784 + 4 * 512) * 4  # w, m, v, a new w; the batch, activations
    assert losses[2] < losses[0]


@pytest.mark.slow
def test_an_update_is_part_of_the_gradient_kernels() -> None:
    none = train(lambda params: optim.SGD(params, lr=0.1))[0][-1]
    momentum = train(lambda params: optim.SGD(params, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1))[0][-1]
    assert (none, momentum, train(optim.AdamW)[0][-1]) == (10, 10, 11)  # Adam counts its steps: one kernel


@pytest.mark.slow
@pytest.mark.parametrize("make", [optim.SGD, optim.AdamW, lambda p: optim.SGD(p, momentum=0.9)], ids=["0", "1", "2"])
def test_large_odd_weights_are_updated_in_place_as_in_memory_of_their_own(make: Make) -> None:
    """Weights of more than 64 kB are overwritten by the kernels that compute their gradients."""
    x, start = RNG.normal(size=(40, 257)).astype(np.float32), RNG.normal(size=(257, 131)).astype(np.float32)
    weight, apart = Tensor(start) + 0, Tensor(start) + 0
    one, other = make([weight]), make([apart])
    for _ in range(3):
        (Tensor(x) @ weight).square().mean().backward()
        one.step()
        (Tensor(x) @ apart).square().mean().backward()
        apart.grad = Tensor(apart.grad.numpy())
        other.step()
        np.testing.assert_allclose(weight.numpy(), apart.numpy(), rtol=1e-5, atol=1e-6)
        weight.grad = apart.grad = None


@pytest.mark.slow
def test_fused_training_gives_the_same_losses() -> None:
    one, fused = (train(lambda params, f=f: optim.Adam(params, fused=f)) for f in (False, True))  # type: ignore[misc]
    np.testing.assert_allclose(fused[2], one[2], rtol=1e-5)
    assert fused[0] == [one[0][0] + 1] * 3  # the update, which is part of the gradient kernels otherwise


def test_fused_parameters_are_still_the_model() -> None:
    model = nn.Linear(3, 2)
    before = model.weight.numpy()
    optim.SGD([model.weight, model.bias], fused=True)
    np.testing.assert_array_equal(model.weight.numpy(), before)
    nn.state.load_state_dict(model, {"weight": Tensor.ones(2, 3), "bias": Tensor.zeros(2)}, verbose=False)
    assert model(Tensor([[1.0, 2.0, 3.0]])).tolist() == [[6.0, 6.0]]


@pytest.mark.slow
def test_a_step_computes_running_statistics_too() -> None:
    gc.collect()  # what earlier tests left in cycles shall not go meanwhile
    layer = nn.BatchNorm(3)
    opt = optim.SGD(nn.state.get_parameters(layer))
    x = Tensor(RNG.normal(size=(8, 3)).astype(np.float32))
    used = []
    with Tensor.train():
        for _ in range(4):
            opt.zero_grad()
            layer(x).square().sum().backward()
            opt.step()
            used.append(GlobalCounters.mem_used)
            assert "lazy" not in repr(layer.running_mean)
            assert "lazy" not in repr(layer.num_batches_tracked)
    assert used[3] <= used[1]  # less where something else has gone meanwhile
    assert layer.num_batches_tracked.item() == 4


def test_the_second_step_of_batch_norm_compiles_nothing() -> None:
    from whit.engine.plan.find_plan import _plans

    layer = nn.BatchNorm(3)
    opt = optim.SGD(nn.state.get_parameters(layer))
    x = Tensor(RNG.normal(size=(9, 3)).astype(np.float32))
    plans = []
    with Tensor.train():
        for _ in range(3):
            opt.zero_grad()
            layer(x).square().sum().backward()
            opt.step()
            plans.append(len(_plans))
    assert plans[0] == plans[1] == plans[2]


def test_a_new_learning_rate_compiles_nothing() -> None:
    from whit.engine.plan.find_plan import _plans

    weight = Tensor([1.0, 2.0])
    opt = optim.SGD([weight], lr=0.5)
    for rate in (0.5, 0.25, 0.125):
        opt.lr.assign([rate]).realize()
        weight.grad = Tensor([1.0, 1.0])
        opt.step()
        if rate == 0.25:
            plans = len(_plans)
    assert len(_plans) == plans
    assert weight.tolist() == [0.125, 1.125]


# ---- states


def test_states_are_float32_for_small_floats() -> None:
    weight = Tensor([1.0, 2.0], dtype=dtypes.float16)
    opt = optim.Adam([weight], lr=0.1)
    weight.grad = Tensor([1.0, -1.0], dtype=dtypes.float16)
    opt.step()
    assert (weight.dtype, opt.m[0].dtype, opt.v[0].dtype) == (dtypes.float16, dtypes.float32, dtypes.float32)
    np.testing.assert_allclose(weight.numpy(), [0.9, 2.1], rtol=1e-3)


def test_states_have_names_that_can_be_saved_and_loaded() -> None:
    def fresh() -> tuple[Tensor, optim.Adam]:
        weight = Tensor([1.0, 2.0])
        return weight, optim.Adam([weight], lr=0.1)

    def step(weight: Tensor, opt: optim.Optimizer) -> None:
        weight.grad = weight.detach() * 2
        opt.step()

    weight, opt = fresh()
    step(weight, opt)
    state = {name: Tensor(tensor.numpy()) for name, tensor in nn.state.get_state_dict(opt).items()}
    assert {"params.0", "lr", "m.0", "v.0"} <= set(state)
    fused = optim.LAMB([Tensor([1.0]), Tensor([2.0])], fused=True)
    names = [name for name in nn.state.get_state_dict(fused) if not name.startswith("_")]
    assert names == ["params.0", "params.1", "lr", "m.0", "v.0", "correction"]
    assert not any(name.startswith("_flat") for name in nn.state.get_state_dict(fused))
    step(weight, opt)
    other, again = fresh()
    nn.state.load_state_dict(again, state, verbose=False)
    step(other, again)
    np.testing.assert_array_equal(other.numpy(), weight.numpy())


def test_parameters_that_need_no_gradient_are_left_out_and_others_are_marked() -> None:
    weight, frozen = Tensor([1.0]), Tensor([1.0], requires_grad=False)
    opt = optim.SGD([weight, frozen])
    assert [id(tensor) for tensor in opt.params] == [id(weight)]
    assert weight.requires_grad is True


# ---- refused


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: optim.SGD([]), "SGD: there are no parameters: the list is empty"),
        (lambda: optim.Adam([Tensor([1.0], requires_grad=False)]), "all of them have requires_grad=False"),
        (lambda: optim.Adam([1.0]), "Adam: parameter 0 is no tensor: 1.0"),
        (lambda: optim.Adam([Tensor([1])]), "Adam: parameter 0 is int32, and only floats have gradients"),
        (lambda: optim.SGD([Tensor([1.0])] * 2), "parameters 0 and 1 are the same tensor, of shape (1,)"),
        (lambda: optim.SGD([Tensor([1.0])], lr=-1), "SGD: lr=-1"),
        (lambda: optim.SGD([Tensor([1.0])], nesterov=True), "nesterov without momentum"),
        (lambda: optim.Adam([Tensor([1.0])], b1=1.0), "Adam: b1=1.0"),
        (lambda: optim.Muon([Tensor([1.0])]), "a parameter of shape (1,) is no matrix"),
        (lambda: optim.Adam([Tensor([1.0])], state_dtype=dtypes.int32), "Adam: state_dtype=int32"),
        (lambda: optim.SGD([Tensor([1.0])], state_dtype="f"), "SGD: state_dtype='f'"),  # type: ignore[arg-type]
        (lambda: optim.SGD([Tensor([1.0])], state_device="nowhere"), "nowhere"),
        (lambda: optim.SGD([Tensor([1.0])], lr=float("nan")), "SGD: lr=nan"),
        (lambda: optim.SGD([Tensor([1.0])], momentum=float("nan")), "SGD: momentum=nan"),
        (lambda: optim.Muon([Tensor([[1.0]])], ns_steps=-1), "Muon: ns_steps=-1"),
        (lambda: optim.OptimizerGroup(), "nothing to group"),
    ],
    ids=range(16),
)
def test_what_an_optimiser_refuses(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(WhitError, match=re.escape(message)):
        make()


def test_a_name_that_is_no_argument_is_refused() -> None:
    with pytest.raises(TypeError, match=r'SGD: there is no argument `momentun`(.|\n)*Did you mean "momentum"\?'):
        optim.SGD([Tensor([1.0])], momentun=0.9)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r'Did you mean "state_dtype"\?'):
        optim.Adam([Tensor([1.0])], state_type=dtypes.float16)  # type: ignore[call-arg]


@pytest.mark.parametrize("name", ("Adam", "AdamW", "LAMB"))
def test_betas_are_b1_and_b2(name: str) -> None:
    results = []
    for given in ({"b1": 0.5, "b2": 0.75}, {"betas": (0.5, 0.75)}):
        weight = Tensor([1.0, 2.0])
        opt = getattr(optim, name)([weight], lr=0.1, **given)
        for grad in ([1.0, -2.0], [0.5, 3.0]):
            weight.grad = Tensor(grad)
            opt.step()
        results.append(weight.tolist())
    assert results[0] == results[1] != [1.0, 2.0]
    with pytest.raises(WhitError, match=f"{name}: b2=2"):
        getattr(optim, name)([Tensor([1.0])], betas=(0.9, 2))


@pytest.mark.parametrize("fused", [False, True])
def test_a_gradient_of_another_shape_is_refused(fused: bool) -> None:
    params = [Tensor([1.0, 2.0]), Tensor([1.0, 2.0])]
    opt = optim.SGD(params, fused=fused)
    params[0].grad, params[1].grad = Tensor([1.0, 1.0]), Tensor([1.0])
    with pytest.raises(WhitError, match=r"SGD: a gradient of shape \(1,\) for a parameter of shape \(2,\)"):
        opt.step()


def test_a_missing_gradient_names_the_parameter() -> None:
    weight = Tensor.ones(3, 2)
    opt = optim.SGD([weight])
    with pytest.raises(WhitError, match=r"SGD: a parameter of shape \(3, 2\) has no gradient") as info:
        opt.step()
    assert "test_optim.py:" in str(info.value)
