"""Equal steps of a long graph are calls of one function, with the values of the plain graph."""

from collections.abc import Callable

import numpy as np
import pytest

from whit import Context, Tensor, clear_caches
from whit.engine.realize.parametrise import below, parametrise
from whit.ir import ops
from whit.ir.uop import UOp
from whit.schedule.rewrites import roll_steps as module
from whit.schedule.rewrites.roll_steps import roll_steps

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 2, 4)).astype(np.float32)
W = (RNG.normal(size=(4, 4)) / 2).astype(np.float32)
STEPS = 10


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small graphs count as long."""
    for name, value in {"LONG": 30, "REPEATS": 4, "LEAST": 3}.items():
        monkeypatch.setattr(module, name, value)


def graph_of(*values: Tensor) -> UOp:
    roots = [value.uop for value in values]
    return parametrise(roots, below(roots)[0]).graph


def calls_in(graph: UOp) -> list[UOp]:
    return [node for node in graph.topological() if node.op is ops.CALL]


def inputs(device: str = "CPU") -> tuple[Tensor, Tensor]:
    return Tensor(X, device=device).realize(), Tensor(W, device=device).realize()


def recurrence(x: Tensor, w: Tensor) -> list[Tensor]:
    h = x[0]
    for t in range(STEPS):
        h = (x[t] + h @ w).tanh()
    return [h]


def all_outputs(x: Tensor, w: Tensor) -> list[Tensor]:
    h, found = x[0], []
    for t in range(STEPS):
        h = (x[t] + h @ w).tanh()
        found.append(h)
    return [found[0].stack(*found[1:]), h.sum()]


def numbers(x: Tensor, w: Tensor) -> list[Tensor]:
    h = x[0]
    for t in range(STEPS):
        h = (h - (h @ w).exp2() * (0.01 * t + 0.003)).sigmoid() * (1.7 - t * 0.11)
    return [h]


def two_steps_back(x: Tensor, w: Tensor) -> list[Tensor]:
    before, h = x[0], x[1]
    for t in range(STEPS):
        before, h = h, (h @ w + before * 0.3 + x[t + 1] - x[t]).tanh()
    return [h, before]


def two_states(x: Tensor, w: Tensor) -> list[Tensor]:
    h, c = x[0], x[1]
    for t in range(STEPS):
        gates = (x[t] + h @ w.T).sigmoid()
        c = gates * c + (1 - gates) * (c @ w).tanh()
        h = c.tanh() * gates
    return [h, c]


def another_in_the_middle(x: Tensor, w: Tensor) -> list[Tensor]:
    h = x[0]
    for t in range(STEPS):
        h = (x[t] + h @ w).tanh() if t != 3 else (x[t] - h @ w.T).exp2().log2()
    return [h]


def invariants(x: Tensor, w: Tensor) -> list[Tensor]:
    h, inside, table = x[0], w.exp2().sum(0), Tensor.arange(4, device=x.device) * 0.5
    for t in range(STEPS):
        h = ((h * inside) @ w.softmax(1) + table + x[t]).tanh() + x.sum(0) * 0.1
    return [h]


def gradient(x: Tensor, w: Tensor) -> list[Tensor]:
    return recurrence(x, w)[0].square().sum().gradient(w, x)


def equal_numbers(x: Tensor, w: Tensor) -> list[Tensor]:
    h = x[0]
    for t in range(STEPS):
        h = ((h @ w) * (0.25 if t % 2 else 0.35) + 0.15).tanh() * (0.35 if t > 4 else 0.75)
    return [h]


def windows_of_two(x: Tensor, w: Tensor) -> list[Tensor]:
    other, h = (x.flip(0) * 2).realize(), x[0]
    for t in range(STEPS):
        h = (x[t] * other[t] + h @ w).tanh()
    return [h]


def gathers_and_scans(x: Tensor, w: Tensor) -> list[Tensor]:
    h, places = x[0], Tensor([3, 0, 2, 1], device=x.device)
    for t in range(STEPS):
        h = ((h @ w)[:, places].cumsum(1) + x[t]).tanh()
    return [h]


def writes(x: Tensor, w: Tensor) -> list[Tensor]:
    h = x[0] * 1
    for t in range(STEPS):
        h = (h @ w).tanh()
        h[:, t % 2] = x[t, :, 0]
    return [h]


def stacked_layers(x: Tensor, w: Tensor) -> list[Tensor]:
    layers, h = (w * (Tensor.arange(STEPS, device=w.device).reshape(-1, 1, 1) * 0.1)).realize(), x[0]
    for t in range(STEPS):
        h = h + (h @ layers[t]).relu()
    return [h]


PROGRAMS: list[Callable[[Tensor, Tensor], list[Tensor]]] = [
    recurrence,
    all_outputs,
    numbers,
    two_steps_back,
    two_states,
    another_in_the_middle,
    invariants,
    gradient,
    equal_numbers,
    windows_of_two,
    gathers_and_scans,
    writes,
    stacked_layers,
]


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_values_are_those_of_the_plain_graph(
    program: Callable[[Tensor, Tensor], list[Tensor]], device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for size in (1 << 30, 30):
        for name, value in {"LONG": size, "REPEATS": 4, "LEAST": 3}.items():
            monkeypatch.setattr(module, name, value)
        clear_caches()
        with Context(CACHE=0):
            values = program(*inputs(device))
            Tensor.realize(*values)
        found.append([value.numpy() for value in values])
    for plain, rolled in zip(*found, strict=True):
        np.testing.assert_allclose(rolled, plain, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("program", [recurrence, all_outputs, numbers, two_states, invariants, windows_of_two])
def test_steps_are_calls_of_one_function(program: Callable[[Tensor, Tensor], list[Tensor]]) -> None:
    calls = calls_in(roll_steps(graph_of(*program(*inputs()))))
    assert len(calls) >= STEPS - 3
    assert len({call.src[0] for call in calls}) == 1


@pytest.mark.usefixtures("short")
def test_what_is_the_same_in_all_steps_is_computed_before() -> None:
    (call, *_) = calls_in(roll_steps(graph_of(*invariants(*inputs()))))
    reduces = [node for node in call.src[0].src[0].topological() if node.op is ops.REDUCE]
    assert len(reduces) == 1  # the product: sums, the softmax and its maximum are given to it


@pytest.mark.usefixtures("short")
def test_layers_with_weights_of_their_own_are_left_alone() -> None:
    x = Tensor(X).realize()[0]
    for _ in range(STEPS):
        x = (x @ Tensor(RNG.normal(size=(4, 4)).astype(np.float32)).realize()).tanh()
    graph = graph_of(x)
    assert roll_steps(graph) is graph


@pytest.mark.usefixtures("short")
def test_steps_without_a_reduction_stay_one_kernel() -> None:
    x = Tensor(X).realize()
    for t in range(STEPS):
        x = (x * (1.1 + t) - 0.3 * t).tanh()
    graph = graph_of(x)
    assert roll_steps(graph) is graph


def test_short_graphs_are_not_looked_at() -> None:
    graph = graph_of(*recurrence(*inputs()))
    assert roll_steps(graph) is graph


def test_a_long_loop_by_hand_is_one_function() -> None:
    x, w = Tensor.empty(300, 2, 4), Tensor.empty(4, 4)
    h = x[0]
    for t in range(300):
        h = (x[t] + h @ w).gelu()
    calls = calls_in(roll_steps(graph_of(h)))
    assert len(calls) > 140, "of two steps each: one has too few nodes for a function"
    assert len({call.src[0] for call in calls}) == 1
