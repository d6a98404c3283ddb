"""What a layer more costs when a stack of equal ones is scheduled: counted, not timed."""

from collections.abc import Callable
from typing import Any

import pytest

from whit import Tensor, clear_caches, function
from whit.engine.plan.plan import make_plan
from whit.engine.realize import reuse
from whit.engine.realize.parametrise import below, parametrise
from whit.ir import ops
from whit.ir.rewrite import counting
from whit.ir.uop import UOp
from whit.schedule import call_kernels, calls, movement
from whit.schedule.pipeline import schedule
from whit.schedule.stages import choose as choose_stages


def trained(count: int, wrap: Callable[..., Any]) -> tuple[UOp, int]:
    """The graph of one step of gradient descent on a stack of layers, and its slots."""

    @wrap
    def layer(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return x + (x.layernorm() @ a + b).gelu()

    pairs = [(Tensor.empty(16, 16), Tensor.empty(16)) for _ in range(count)]
    x = Tensor.empty(8, 16)
    for a, b in pairs:
        x = layer(x, a, b)
    weights = [tensor for pair in pairs for tensor in pair]
    rate = Tensor.empty(1)
    steps = zip(weights, x.square().mean().gradient(*weights), strict=True)
    roots = [(w - rate * dw).uop for w, dw in steps]
    graph = parametrise(roots, below(roots)[0])
    return graph.graph, graph.outputs + len(graph.slots)


def plain(fn: Callable[..., Any]) -> Callable[..., Any]:
    return fn


def counted(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[int]:
    """A list that grows with each call of a function."""
    found: list[int] = []
    original = getattr(module, name)

    def count(*args: Any, **kwargs: Any) -> Any:
        found.append(1)
        return original(*args, **kwargs)

    monkeypatch.setattr(module, name, count)
    return found


def attempts_for(layers: int, wrap: Callable[..., Any]) -> int:
    """How often a rule is tried while a stack is scheduled."""
    clear_caches()
    graph, _ = trained(layers, wrap)
    with counting() as counts:
        schedule(graph)
    return sum(count.attempts for count in counts.by_rule.values())


@pytest.mark.slow
def test_a_layer_more_costs_what_the_one_before_did(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels lowered, and positions worked out, are in proportion to the layers: nothing looks at all of them for
    each."""
    lowered = counted(monkeypatch, choose_stages, "lower_kernel")
    asked = counted(monkeypatch, movement, "_source_position")
    found = []
    for layers in (6, 12, 24):
        lowered.clear()
        asked.clear()
        schedule(trained(layers, plain)[0])
        found.append((len(lowered), len(asked)))
    (few, first), (more, second), (many, third) = found
    assert many - more <= 2 * (more - few) and more - few <= 6 * 30
    assert third - second <= 2 * (second - first) and second - first <= 6 * 13


def test_equal_layers_without_functions_have_equal_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    made = counted(monkeypatch, call_kernels, "_made")
    found = []
    for layers in (6, 12):
        made.clear()
        linear = schedule(trained(layers, plain)[0])
        assert len({call.src[0] for call in linear.src}) == len(made)
        found.append((len(made), len(linear.src)))
    assert found == [(19, 47), (19, 103)]


@pytest.mark.slow
def test_rules_are_tried_a_little_more_for_each_layer() -> None:
    """Which rules are tried depends on the order of operands as well, so some layers cost more than others."""
    for wrap, most in ((plain, 80), (function, 18)):
        few, many = attempts_for(6, wrap), attempts_for(24, wrap)
        assert many - few <= 18 * most, wrap


def test_bodies_are_scheduled_once_and_kernels_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduled = counted(monkeypatch, calls, "_body_schedule")
    looked_at = counted(monkeypatch, reuse, "_is_same_element")
    found = []
    for layers in (4, 12):
        clear_caches()
        scheduled.clear()
        looked_at.clear()
        graph, slots = trained(layers, function)
        linear = schedule(graph)
        make_plan(linear, slots)
        assert all(call.op is ops.CALL for call in linear.src)
        found.append((len(scheduled), len(looked_at)))
    assert found[0] == found[1] and found[0][0] == 3  # the layer, its gradient, and that of the first one
