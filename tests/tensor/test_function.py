"""`@function`: calls give what the plain program gives, and one body serves them all."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from whit import Tensor, TinyJit, function
from whit.engine.programs.overlay import Overlaid, slot_of
from whit.errors import ArgumentError
from whit.ir import ops
from whit.ir.uop import UOp
from whit.nn import BatchNorm, Linear

pytestmark = pytest.mark.slow

Program = Callable[[Callable[..., Any]], Any]


def plain(fn: Any) -> Any:
    return fn


def values(result: Any) -> Any:
    """Nested results as arrays."""
    if isinstance(result, Tensor):
        return result.numpy()
    if isinstance(result, dict):
        return {key: values(part) for key, part in result.items()}
    if isinstance(result, list | tuple):
        return [values(part) for part in result]
    return result


def data(*shape: int) -> Tensor:
    count = int(np.prod(shape))
    return Tensor((np.arange(count, dtype=np.float32).reshape(shape) % 7 - 3) / 4)


def calls_of(*tensors: Tensor) -> list[UOp]:
    return [node for tensor in tensors for node in tensor.uop.topological() if node.op is ops.CALL]


# ---- programs: each gets `function`, or nothing, to put around its functions


def layers(wrap: Callable[..., Any]) -> Any:
    @wrap
    def layer(x: Tensor, w: Tensor, scale: float) -> Tensor:
        return x + (x.layernorm() @ w).gelu() * scale

    ws, x = [data(4, 4) * (i + 1) for i in range(3)], data(2, 4)
    for i, w in enumerate(ws):
        x = layer(x, w, 0.3 + i)
    loss = x.square().mean()
    return [loss, *loss.gradient(*ws)]


def containers(wrap: Callable[..., Any]) -> Any:
    @wrap
    def f(pair: tuple[Tensor, Tensor], *, scale: float = 2.0) -> dict[str, Any]:
        a, b = pair
        return {"sum": a + b, "more": [a * scale, (b, 3, None)], "text": "x"}

    return f((data(3), data(3)), scale=0.7)


def closure(wrap: Callable[..., Any]) -> Any:
    w, lazy = data(3, 3), data(3) * 2

    @wrap
    def f(x: Tensor) -> Tensor:
        return (x @ w + lazy).relu()

    loss = f(data(2, 3)).sum()
    return loss.gradient(w, lazy)


def methods(wrap: Callable[..., Any]) -> Any:
    class Block:
        def __init__(self, scale: float) -> None:
            self.linear = Linear(4, 4)
            self.scale = scale

        @wrap
        def __call__(self, x: Tensor) -> Tensor:
            return self.linear(x).tanh() * self.scale

    Tensor.manual_seed(7)
    blocks = [Block(1.0), Block(3.0)]
    y = blocks[1](blocks[0](data(2, 4)))
    y.sum().backward()
    return [y, blocks[0].linear.weight.grad, blocks[1].linear.bias.grad]


def nested(wrap: Callable[..., Any]) -> Any:
    @wrap
    def inner(x: Tensor, w: Tensor) -> Tensor:
        return (x @ w).sin()

    @wrap
    def outer(x: Tensor, v: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        h = inner(x, v)
        return inner(h, w) + x, h

    v, w = data(3, 3), data(3, 3) + 1
    y, h = outer(*outer(data(3, 3), v, w), w)
    return [y, h, *(y * h).sum().gradient(v, w)]


def normalisation(wrap: Callable[..., Any]) -> Any:
    norm = BatchNorm(3)

    @wrap
    def f(x: Tensor) -> Tensor:
        return norm(x).relu()

    with Tensor.train():
        y = f(data(4, 3, 2, 2))
        z = f(y)
    return [y, z, norm.running_mean, norm.running_var]


def dropout(wrap: Callable[..., Any]) -> Any:
    @wrap
    def f(x: Tensor) -> Tensor:
        return x.dropout(0.5) + Tensor.rand(8)

    Tensor.manual_seed(3)
    with Tensor.train():
        return [f(data(8)), f(data(8)), Tensor.rand(4)]


def second_derivatives(wrap: Callable[..., Any]) -> Any:
    @wrap
    def f(x: Tensor) -> Tensor:
        return (x.sin() * x).cumsum().exp()

    x = data(4) / 4
    (first,) = f(x).sum().gradient(x)
    return [first, *(first * first).sum().gradient(x)]


def written(wrap: Callable[..., Any]) -> Any:
    state = data(4)

    @wrap
    def f(x: Tensor) -> Tensor:
        y = state + x
        state[1:3] = y[:2]
        return state * y

    return [f(data(4)), state, f(data(4) + 1), state]


def returned(wrap: Callable[..., Any]) -> Any:
    """Arguments, views of arguments, and results that are views of each other; all are written to afterwards."""

    @wrap
    def f(x: Tensor) -> tuple[Tensor, ...]:
        y = x * 2
        return x, x[1:], y, y[:2], y

    x = data(4)
    same, part, y, start, again = f(x)
    part += 10
    start.assign(start + 1)
    return [x, same, part, y, start, again, same is x, again is y]


def constants(wrap: Callable[..., Any]) -> Any:
    @wrap
    def f(n: int) -> tuple[Tensor, Tensor]:
        return Tensor.ones(n) * 3, Tensor.arange(n)

    return f(4)


def inside_gradient(wrap: Callable[..., Any]) -> Any:
    w = data(3)

    @wrap
    def gradient_of(x: Tensor) -> Tensor:
        return (w * x).square().sum().gradient(w)[0]

    return gradient_of(data(3) + 1)


def shown_to_another(wrap: Callable[..., Any]) -> Any:
    """A result that is asked for, and whose view is given to another call."""
    twice = wrap(lambda x: x * 2 + 1)
    total = wrap(lambda x: x.sum(0))
    y = twice(data(3, 4))
    z = total(y.reshape(4, 3))
    Tensor.realize(y, z)
    return y, z


PROGRAMS: list[Program] = [
    layers,
    containers,
    closure,
    methods,
    nested,
    normalisation,
    dropout,
    second_derivatives,
    written,
    returned,
    constants,
    inside_gradient,
    shown_to_another,
]


def same(found: Any, expected: Any) -> None:
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key, part in expected.items():
            same(found[key], part)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for left, right in zip(found, expected, strict=True):
            same(left, right)
    elif isinstance(expected, np.ndarray):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    else:
        assert found == expected


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_calls_give_what_the_plain_program_gives(program: Program) -> None:
    same(values(program(function)), values(program(plain)))


@pytest.mark.parametrize("program", [layers, nested, containers, methods], ids=lambda program: program.__name__)
def test_and_the_results_are_calls(program: Program) -> None:
    found: list[Tensor] = []

    def collect(part: Any) -> None:
        if isinstance(part, Tensor):
            found.append(part)
        elif isinstance(part, dict):
            collect(list(part.values()))
        elif isinstance(part, list | tuple):
            for inner in part:
                collect(inner)

    collect(program(function))
    assert calls_of(*found)


# ---- one body


def test_layers_share_one_body_whatever_their_tensors_and_numbers() -> None:
    @function
    def layer(x: Tensor, w: Tensor, rate: float) -> Tensor:
        return x + (x @ w).gelu() * rate

    x = data(2, 4)
    for i in range(8):
        x = layer(x, data(4, 4), 0.1 * i + 0.05)
    assert len(calls_of(x)) == 8
    assert len({call.src[0] for call in calls_of(x)}) == 1


def test_other_shapes_are_other_bodies() -> None:
    double = function(lambda x: x * 2.5)
    assert calls_of(double(data(3)))[0].src[0] is not calls_of(double(data(4)))[0].src[0]


def test_a_stack_of_layers_and_its_gradient_compile_what_one_layer_does() -> None:
    from whit.schedule import schedule

    def kernels(count: int) -> set[UOp]:
        @function
        def layer(x: Tensor, w: Tensor) -> Tensor:
            return x + (x.layernorm() @ w).gelu()

        x = Tensor.empty(2, 8)
        ws = [Tensor.empty(8, 8) for _ in range(count)]
        for w in ws:
            x = layer(x, w)
        loss = x.square().mean()
        nodes = [loss.uop, *(gradient.uop for gradient in loss.gradient(*ws))]
        stores = [UOp.param(i, node.dtype, node.shape).store(node) for i, node in enumerate(nodes)]
        return {call.src[0] for call in schedule(UOp.group(*stores)).src}

    assert len(kernels(32)) == len(kernels(3))


# ---- with others


def test_under_the_jit() -> None:
    w = data(4, 4)

    @function
    def layer(x: Tensor) -> Tensor:
        return (x @ w).relu().dropout(0.5)

    @TinyJit
    def step(x: Tensor) -> Tensor:
        y = layer(layer(x))
        (gradient,) = y.sum().gradient(w)
        w.assign(w - gradient * 0.1)
        return y

    def plain_step(x: Tensor) -> Tensor:
        y = (x @ w).relu().dropout(0.5)
        y = (y @ w).relu().dropout(0.5)
        (gradient,) = y.sum().gradient(w)
        w.assign(w - gradient * 0.1)
        return y.realize()

    found, expected = [], []
    with Tensor.train():
        for run, results in ((step, found), (plain_step, expected)):
            Tensor.manual_seed(5)
            w.assign(data(4, 4)).realize()
            for i in range(3):
                results.append(run(data(2, 4) + i).numpy())
            results.append(w.numpy())
    same(found, expected)


def test_a_jit_inside_of_a_function() -> None:
    double = TinyJit(lambda x: x * 2)
    f = function(lambda x: double(x) + 1)
    for i in range(3):
        same((f(data(3) + i)).numpy(), (data(3) + i).numpy() * 2 + 1)


def test_threads_do_not_see_each_other() -> None:
    results: dict[int, float] = {}

    def work(number: int) -> None:
        f = function(lambda x: (x * number).sum())
        results[number] = sum(f(data(5) + i).item() for i in range(5))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    total = sum((data(5) + i).sum().item() for i in range(5))
    assert results == pytest.approx({number: number * total for number in range(1, 5)})


# ---- what goes wrong


def test_an_exception_leaves_nothing_behind() -> None:
    @function
    def f(x: Tensor) -> Tensor:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        f(data(3))
    assert Overlaid.__dict__["uop"] is slot_of("uop")
    same((data(3) + 1).numpy(), data(3).numpy() + 1)


def test_what_is_no_function_is_told() -> None:
    with pytest.raises(ArgumentError, match="function: 3 is no function"):
        function(3)


def test_options_of_tinygrad_are_taken() -> None:
    weight = data(3)

    @function(precompile=True, allow_implicit=False)
    def alone(x: Tensor) -> Tensor:
        return x * 2 + Tensor.ones(3)

    @function(allow_implicit=False)
    def implicit(x: Tensor) -> Tensor:
        return x * weight

    @function(grad_fxn=lambda dy, call: (dy * call.src[1] * 5, None))
    def five(x: Tensor, y: Tensor) -> Tensor:
        return x * y

    x = data(3)
    same(alone(x).numpy(), x.numpy() * 2 + 1)
    same(alone(x[:3]).numpy(), x.numpy() * 2 + 1)
    with pytest.raises(ArgumentError, match=r"function: implicit reads float32\(3,\), which is no argument"):
        implicit(x)
    y = five(x, weight)
    same(y.numpy(), x.numpy() * weight.numpy())
    dx, dw = y.sum().gradient(x, weight)
    same([dx.numpy(), dw.numpy()], [x.numpy() * 5, np.zeros(3)])
    with pytest.raises(ArgumentError, match="gives 1 gradients for 2 tensors"):
        function(lambda a, b: a * b, grad_fxn=lambda dy, call: (dy,))(x, weight).sum().gradient(x)
    with pytest.raises(ArgumentError, match="It has to give one tensor"):
        function(lambda a: (a, a), grad_fxn=lambda dy, call: (dy,))(x)


def test_it_keeps_its_name_and_its_text() -> None:
    @function
    def layer(x: Tensor) -> Tensor:
        """What it does."""
        return x * 3

    assert (layer.__name__, layer.__doc__) == ("layer", "What it does.")
    assert calls_of(layer(data(2)))[0].src[0].arg.name == "layer"


@dataclass
class Pair:
    first: Tensor
    second: Tensor


def test_dataclasses_are_looked_into() -> None:
    f = function(lambda x: Pair(x + 1, x * 3))
    pair = f(data(3))
    assert len(calls_of(pair.first, pair.second)) == 2
    same([pair.first.numpy(), pair.second.numpy()], [data(3).numpy() + 1, data(3).numpy() * 3])
