"""Scheduling and code generation take time in proportion to the graph: counted in function calls, not in seconds."""

import sys
from collections.abc import Callable
from typing import Any

import pytest

from schedule.build import matmul, param, row_sum, softmax, stores, total
from whit import Tensor
from whit.codegen import generate
from whit.ir.graph import topological
from whit.ir.uop import UOp
from whit.nn.optim.flat import joined
from whit.schedule import schedule
from whit.schedule.stages.attention import find_attentions
from whit.target import ANY_CPU, parse_target

pytestmark = pytest.mark.slow  # large graphs

A, B = param(0, 6, 8), param(1, 6, 8)
TARGET = parse_target("CPU:LLVM:x86-64-v3")


def calls_of(function: Callable[..., Any], *arguments: Any) -> int:
    """How many Python functions are called, and how many of C."""
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function(*arguments)
    finally:
        sys.setprofile(before)
    return count


def elementwise(length: int) -> UOp:
    x = A
    for i in range(length):
        x = x * 1.5 + B if i % 2 else x.maximum(0.25)
    return x


def movement(length: int) -> UOp:
    x = A
    for i in range(length):
        x = x.permute((1, 0)) if i % 2 else x.flip((0,))
    return x


def layers(length: int) -> UOp:
    x = A
    for i in range(length // 20):
        x = softmax(matmul(x, param(10 + i, 8, 8))) + x
    return x


def norms(length: int) -> UOp:
    x = A
    for _ in range(length // 10):
        x = x / row_sum(x)
    return x


def diamonds(length: int) -> UOp:
    """Every value is used twice: 2**n paths."""
    x = A
    for _ in range(length):
        x = x * x + x
    return x


def many_outputs(length: int) -> list[UOp]:
    return [total(A * float(i)) for i in range(length // 10)]


def stacked(length: int) -> UOp:
    return UOp.stack(*(param(10 + i, 6, 8) for i in range(length)))


def concatenated(length: int) -> UOp:
    """Of different sizes, as `Tensor.cat` writes it."""
    first, *rest = (Tensor(param(10 + i, 2 + i % 3, 8)) for i in range(length))
    return first.cat(*rest).uop


def joined_sums(length: int) -> UOp:
    """Values that are computed where they lie in one memory."""
    return joined([Tensor(row_sum(param(10 + i, 2 + i % 3, 8))) for i in range(length // 5)]).uop * 2.0


def joined_params(length: int) -> UOp:
    """Copies into one memory, in one kernel with a loop for each size."""
    return joined([Tensor(param(10 + i, 2 + i, 8)) for i in range(length // 5)]).uop


def trained(layer: Callable[[Tensor, Tensor], Tensor], count: int) -> UOp:
    """The gradients of so many layers, each taking a step."""
    x, weights = Tensor(A), [Tensor(param(1000 + i, 8, 8)) for i in range(count)]
    for weight in weights:
        x = layer(x, weight)
    gradients = x.square().mean().gradient(*weights)
    return stores([(w - g * 0.125).uop for w, g in zip(weights, gradients, strict=True)])


def attend(x: Tensor, weight: Tensor) -> Tensor:
    y = x @ weight
    return x + (y @ y.T).softmax() @ y


LAYERS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "plain": lambda x, weight: (x @ weight).relu(),
    "residual": lambda x, weight: x + (x @ weight).tanh(),
    "norm": lambda x, weight: x + (x.layernorm() @ weight).gelu(),
    "attention": attend,
}


GRAPHS = (
    elementwise,
    movement,
    layers,
    norms,
    diamonds,
    many_outputs,
    stacked,
    concatenated,
    joined_sums,
    joined_params,
)


@pytest.mark.parametrize("make", GRAPHS, ids=lambda make: make.__name__)
def test_twice_the_graph_takes_twice_the_steps_to_schedule(make: Callable[[int], Any]) -> None:
    schedule(stores(make(100)))  # whatever is only done once
    small, large = stores(make(300)), stores(make(600))
    assert calls_of(schedule, large) < 2.6 * calls_of(schedule, small)


@pytest.mark.parametrize("make", [elementwise, diamonds, joined_params], ids=lambda make: make.__name__)
def test_twice_the_kernel_takes_twice_the_steps_to_generate(make: Callable[[int], Any]) -> None:
    bodies = [schedule(stores(make(length))).src[0].src[0].src[0] for length in (50, 150, 300)]
    generate(bodies[0], TARGET)
    assert calls_of(generate, bodies[2], TARGET) < 2.6 * calls_of(generate, bodies[1], TARGET)


def test_ten_thousand_operations_are_one_kernel() -> None:
    assert len(schedule(stores(elementwise(10_000))).src) == 1


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_training_twice_the_layers_takes_twice_the_steps_to_schedule(layer: Callable[[Tensor, Tensor], Tensor]) -> None:
    schedule(trained(layer, 10))
    small, large = trained(layer, 25), trained(layer, 50)
    assert calls_of(schedule, large) < 2.2 * calls_of(schedule, small)


def test_looking_for_attention_stops_soon_in_sums_over_all_layers() -> None:
    def look(graph: UOp) -> None:
        values = [store.src[1] for store in graph.src]
        assert not find_attentions(topological(values), values, lambda root, inline, kept: root, ANY_CPU).stored

    layer = LAYERS["residual"]
    small, large = trained(layer, 100), trained(layer, 200)
    assert calls_of(look, large) < 2.2 * calls_of(look, small)
