"""Gradients through calls of functions: those of the same ops in place, and nothing is computed twice."""

from collections.abc import Callable

import numpy as np

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.interpret import evaluate
from whit.ir.uop import UOp, const, make
from whit.schedule import schedule
from whit.transform import gradients
from whit.transform.calls import values_to_keep

N = 5


def param(slot: int, *shape: int) -> UOp:
    return UOp.param(slot, dtypes.float64, shape)


def product(x: UOp, w: UOp) -> UOp:
    (rows, inner), (_, columns) = x.shape, w.shape
    shape = (rows, inner, columns)
    left, right = x.reshape((rows, inner, 1)).expand(shape), w.reshape((1, inner, columns)).expand(shape)
    return (left * right).reduce(ops.ADD, (1,))


def body(x: UOp, w: UOp, b: UOp) -> tuple[UOp, UOp]:
    """A layer with a residual, and a second result."""
    h = product(x, w) + b.reshape((1, N)).expand((N, N))
    y = make(ops.SIN, (h,))
    return x + y * y, h.reduce(ops.ADD, (0,))


def layer() -> UOp:
    return UOp.group(*body(param(0, N, N), param(1, N, N), param(2, N))).function("layer")


def item(call: UOp, place: int = 0) -> UOp:
    return make(ops.ITEM, (call,), place)


def called(x: UOp, w: UOp, b: UOp) -> tuple[UOp, UOp]:
    call = layer().call(x, w, b)
    return item(call), item(call, 1)


def nested(x: UOp, w: UOp, b: UOp) -> tuple[UOp, UOp]:
    """The layer inside of a function that does nothing else."""
    inner = called(param(0, N, N), param(1, N, N), param(2, N))
    call = UOp.group(*inner).function("outer").call(x, w, b)
    return item(call), item(call, 1)


INPUTS = [param(0, N, N), param(1, N, N), param(2, N), param(3, N, N)]


def stack(apply: Callable[[UOp, UOp, UOp], tuple[UOp, UOp]]) -> UOp:
    x, v, b, w = INPUTS
    h, s = apply(x, v, b)
    h, t = apply(h * const(dtypes.float64, 0.5), w, s)
    h, _ = apply(h, v, b)
    return (h * h).reduce(ops.ADD, (0, 1)) + t.reduce(ops.ADD, (0,))


def values() -> dict[UOp, np.ndarray]:
    generator = np.random.default_rng(3)
    return {node: generator.standard_normal(node.shape) for node in INPUTS}


def gradients_of(loss: UOp) -> list[UOp]:
    found = gradients(loss, const(dtypes.float64, 1.0), INPUTS)
    assert all(node is not None for node in found)
    return [node for node in found if node is not None]


def test_they_are_those_of_the_ops_in_place() -> None:
    data = values()
    for apply in (called, nested):
        for node, expected in zip(gradients_of(stack(apply)), gradients_of(stack(body)), strict=True):
            np.testing.assert_allclose(evaluate(node, data), evaluate(expected, data), rtol=1e-12)


def test_second_derivatives() -> None:
    data = values()

    def twice(loss: UOp) -> list[UOp]:
        first = gradients_of(loss)
        return gradients_of((first[1] * first[1]).reduce(ops.ADD, (0, 1)))

    for apply in (called, nested):
        for node, expected in zip(twice(stack(apply)), twice(stack(body)), strict=True):
            np.testing.assert_allclose(evaluate(node, data), evaluate(expected, data), rtol=1e-10)


def test_the_same_functions_serve_every_call() -> None:
    found = gradients_of(stack(called))
    functions = {node.src[0] for root in found for node in root.topological() if node.op is ops.CALL}
    names = sorted(function.arg.name for function in functions)
    # The layer as it is (its last result feeds the loss), with what gradients need, and the gradients: of both results,
    # of the first alone (the last layer), each once.
    assert names == ["layer", "layer", "layer_grad", "layer_grad"]


def test_nothing_of_a_function_is_computed_twice_in_a_schedule() -> None:
    loss = stack(called)
    graph = UOp.group(
        UOp.param(10, dtypes.float64, ()).store(loss),
        *(UOp.param(11 + i, dtypes.float64, node.shape).store(node) for i, node in enumerate(gradients_of(loss))),
    )
    linear = schedule(graph)
    products = [call for call in linear.src if "add_reduce" in call.src[0].arg.name]
    # three layers: the product, its sum over rows, and in the gradient two products and one sum each; then the loss
    assert len(products) <= 3 * (2 + 3) + 2


def test_arguments_without_gradients_and_results_nobody_uses() -> None:
    x, places = param(0, N), UOp.param(1, dtypes.int32, (3,))
    f = UOp.group(x.index(places.cast(dtypes.weakint)), x * x, x.detach()).function("f")
    call = f.call(param(0, N), UOp.param(1, dtypes.int32, (3,)))
    loss = item(call).reduce(ops.ADD, (0,))
    (dx,) = gradients(loss, const(dtypes.float64, 1.0), [param(0, N)])
    assert dx is not None
    data = {param(0, N): np.arange(5.0), UOp.param(1, dtypes.int32, (3,)): np.array([1, 1, 4], np.int32)}
    np.testing.assert_array_equal(evaluate(dx, data), [0, 2, 0, 0, 1])
    assert gradients(item(call, 2).reduce(ops.ADD, (0,)), const(dtypes.float64, 1.0), [param(0, N)]) == [None]


def test_sums_are_kept_and_elementwise_ops_are_not() -> None:
    x, w, b = param(0, N, N), param(1, N, N), param(2, N)
    y, _ = body(x, w, b)
    (dx,) = gradients(y.reduce(ops.ADD, (0, 1)), const(dtypes.float64, 1.0), [x])
    assert dx is not None
    assert values_to_keep([dx], UOp.group(y)) == [product(x, w)]
