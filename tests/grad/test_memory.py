"""Memory of gradients: what the forward pass computes is let go as the backward pass uses it up."""

import gc

import numpy as np
import pytest

from grad.test_checkpoint import floats, planned
from whit import GlobalCounters, Tensor, checkpoint
from whit.engine.plan.plan import Plan, make_plan
from whit.engine.realize.parametrise import below, parametrise
from whit.schedule.pipeline import schedule

pytestmark = pytest.mark.slow

ROWS, WIDTH, LAYERS = 64, 32, 6
N, W = ROWS * WIDTH * 4, WIDTH * WIDTH * 4  # bytes of a layer's result, and of a weight


def network(count: int) -> tuple[Tensor, list[Tensor]]:
    weights = [floats(WIDTH, WIDTH, seed=i) for i in range(count)]
    h = floats(ROWS, WIDTH)
    for w in weights:
        h = (h @ w).tanh()
    return h.square().mean(), weights


def plan_of(tensors: list[Tensor]) -> Plan:
    roots = [tensor.uop for tensor in tensors]
    graph = parametrise(roots, below(roots)[0])
    return make_plan(schedule(graph.graph), graph.outputs + len(graph.slots))


def test_values_of_the_forward_pass_are_let_go_as_the_backward_pass_runs() -> None:
    """Results of the layers are needed from their kernel to that of their gradient, the last one first. At the peak all
    of them are there, and one gradient; at the end one gradient is left."""
    loss, weights = network(LAYERS)
    plan = plan_of([loss, *loss.gradient(*weights)])
    alive = [sum(t.nbytes for t in plan.temporaries if t.first <= step <= t.last) for step in range(len(plan.steps))]
    large = sorted((t.first, t.last) for t in plan.temporaries if t.nbytes == N)
    forward = large[:LAYERS]
    assert [last for _, last in forward] == sorted((last for _, last in forward), reverse=True)
    assert (plan.arena_bytes, max(alive), alive[-1]) == ((LAYERS + 1) * N, (LAYERS + 1) * N, N)


def test_each_layer_costs_its_result_and_nothing_else() -> None:
    peaks = []
    for count in (2, 3, 6):
        loss, weights = network(count)
        peaks.append(planned([loss, *loss.gradient(*weights)])[1])
    assert (peaks[1] - peaks[0], peaks[2] - peaks[1]) == (N, 3 * N)


@pytest.mark.parametrize("kind", ["plain", "checkpoint", "custom"])
def test_a_realised_gradient_keeps_nothing_of_the_forward_pass(kind: str) -> None:
    w, x = floats(WIDTH, WIDTH).realize(), floats(ROWS, WIDTH).realize()
    w.requires_grad = True
    sine = Tensor.custom_function(lambda x: x.sin(), lambda dy, y, x: dy * x.cos())
    gc.collect()
    before = GlobalCounters.mem_used

    def step() -> Tensor:
        h = x.exp().realize()
        block = {"plain": lambda h: (h @ w).sin(), "custom": lambda h: sine(h @ w)}.get(kind)
        y = checkpoint(lambda h: (h @ w).sin(), h) if block is None else block(h)
        loss = y.square().sum().backward()
        Tensor.realize(loss, w.grad)
        assert GlobalCounters.mem_used - before == N + W + 4  # h, the gradient and the loss
        return loss

    loss = step()
    assert GlobalCounters.mem_used - before == W + 4
    assert np.isfinite(loss.item())
    del loss
    w.grad = None
    assert GlobalCounters.mem_used == before
