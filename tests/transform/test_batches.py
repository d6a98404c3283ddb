"""vmap of every op and method against the function of each example, stacked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from grad.methods import CASES as METHODS
from grad.methods import Case, spread
from grad.test_methods import agrees as gradients_agree
from grad.test_methods import loss, tensors
from grad.test_ops import CASES as OPS
from grad.test_ops import on

from transform.test_tangents import agrees
from whit import Tensor, vmap
from whit.dtype import to_dtype
from whit.errors import WhitError
from whit.ir import ops
from whit.ir.op import TENSOR
from whit.ir.uop import UOp, make

pytestmark = pytest.mark.slow

CASES = {**{f"op {name}": cases for name, cases in OPS.items()}, **METHODS}
ALL = [(name, i) for name, cases in CASES.items() for i in range(len(cases))]
IDS = [f"{name}-{i}" for name, i in ALL]
EXAMPLES = 3

Results = list[Tensor]


def examples(array: Any, axis: int) -> Any:
    """Examples that are near the array, where the function is as it is there, along an axis."""
    near = [np.array(array) * (1 + 0.01 * i) for i in range(EXAMPLES)]
    return np.stack(near, axis % (np.ndim(array) + 1))


def results(function: Callable[..., Any]) -> Callable[..., Results]:
    """A function that gives all results of another one in a list."""

    def run(*x: Tensor) -> Results:
        Tensor.manual_seed(3)
        with Tensor.train():
            found = function(*x)
        return list(found) if isinstance(found, tuple | list) else [found]

    return run


def compare(function: Callable[..., Results], arrays: Sequence[Any], axes: Sequence[int | None], out: int = 0) -> None:
    """vmap against a loop."""
    given = [array if axis is None else examples(array, axis) for array, axis in zip(arrays, axes, strict=True)]
    found = vmap(function, tuple(axes), out, randomness="same")(*tensors(given))
    rows = []
    for i in range(EXAMPLES):
        one = [a if axis is None else np.take(a, i, axis) for a, axis in zip(given, axes, strict=True)]
        rows.append([y.numpy() for y in function(*tensors(one))])
    assert len(found) == len(rows[0])
    for place, y in enumerate(found):
        wanted = np.stack([row[place] for row in rows], out)
        assert y.shape == wanted.shape and y.numpy().dtype == wanted.dtype
        np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-12, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "i"), ALL, ids=IDS)
def test_all_operands_have_a_batch(name: str, i: int) -> None:
    case = CASES[name][i]
    compare(results(case.function), case.arrays, [0] * len(case.arrays))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "i"), ALL, ids=IDS)
def test_one_operand_has_a_batch_in_its_last_axis(name: str, i: int) -> None:
    case = CASES[name][i]
    for mapped in range(len(case.arrays)):
        axes = [-1 if place == mapped else None for place in range(len(case.arrays))]
        compare(results(case.function), case.arrays, axes, out=-1)


def sloped(case: Case) -> Callable[..., Results]:
    """The gradients of a number made of a case."""
    return lambda *x: loss(case, list(x)).gradient(*x)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "i"), ALL, ids=IDS)
def test_gradients_of_each_example(name: str, i: int) -> None:
    case = CASES[name][i]
    compare(sloped(case), case.arrays, [0] * len(case.arrays))
    for mapped in range(len(case.arrays) if len(case.arrays) > 1 else 0):
        compare(sloped(case), case.arrays, [0 if place == mapped else None for place in range(len(case.arrays))])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "i"), ALL, ids=IDS)
def test_gradient_of_a_batch(name: str, i: int) -> None:
    """The gradient of a sum over examples, one operand being the same for all: the sum of its gradients."""
    case = CASES[name][i]
    for shared in range(len(case.arrays)):
        axes = tuple(None if place == shared and len(case.arrays) > 1 else 0 for place in range(len(case.arrays)))
        given = [a if axis is None else examples(a, axis) for a, axis in zip(case.arrays, axes, strict=True)]
        x = tensors(given)
        found = vmap(lambda *x: loss(case, list(x)), axes, randomness="same")(*x).sum().gradient(*x)
        wanted = [np.zeros(np.shape(each)) for each in given]
        for row in range(EXAMPLES):
            one = tensors([a if axis is None else a[row] for a, axis in zip(given, axes, strict=True)])
            for place, dx in enumerate(loss(case, one).gradient(*one)):
                wanted[place][... if axes[place] is None else row] += dx.numpy()
        for dx, total in zip(found, wanted, strict=True):
            np.testing.assert_allclose(dx.numpy(), total, rtol=1e-9, atol=1e-12)


# ---- every elementwise op, of every kind of numbers

KINDS = {"float": "float64", "int": "int32", "unsigned": "uint8", "bool": "bool"}
SHAPES: list[tuple[tuple[Any, ...], ...]] = [  # of each operand: the shape of an example, or ("shared", shape)
    ((3, 4), (3, 4), (3, 4)),
    ((), (3, 4), ()),
    ((3, 4), (), ("shared", (3, 4))),
    ((), ("shared", (3, 4)), ("shared", ())),
    (("shared", ()), (), ()),
    (("shared", (3, 4)), (3, 4), ("shared", ())),
]


def accepted(op: Any, kind: str) -> list[str] | None:
    """The dtypes of the operands of an op, mostly of a kind; None if it takes no such."""
    dtypes = [KINDS[kind]] * op.least
    if op is ops.WHERE:
        dtypes[0] = "bool"
    try:
        make(op, tuple(UOp.param(i, to_dtype(dtype)) for i, dtype in enumerate(dtypes)))
    except WhitError:
        return None
    return dtypes


ELEMENTWISE = [
    (op.name, kind) for op in ops.ELEMENTWISE if op.stages & TENSOR for kind in KINDS if accepted(op, kind) is not None
]


@pytest.mark.parametrize(("name", "kind"), ELEMENTWISE)
def test_every_elementwise_op(name: str, kind: str) -> None:
    op = ops.OPS[name]
    dtypes = accepted(op, kind)
    assert dtypes is not None
    for shapes in SHAPES:
        rows, axes = [], []
        for place, (dtype, shape) in enumerate(zip(dtypes, shapes, strict=False)):
            is_shared = shape[:1] == ("shared",)
            whole = shape[1] if is_shared else (EXAMPLES, *shape)
            numbers = np.random.default_rng([place, len(name)]).uniform(0.2, 1.9, whole)
            rows.append((numbers * (1 if kind == "float" else 3)).astype(dtype))
            axes.append(None if is_shared else 0)
        if all(axis is None for axis in axes):
            continue
        function = lambda *x: [Tensor(make(op, tuple(each.uop for each in x)))]  # noqa: E731
        found = vmap(function, tuple(axes))(*tensors(rows))[0].numpy()
        for i in range(EXAMPLES):
            one = tensors([row if axis is None else row[i] for row, axis in zip(rows, axes, strict=True)])
            np.testing.assert_array_equal(found[i], function(*one)[0].numpy())


# ---- positions and gates that differ from example to example

DATA = spread(3, 4)
SPOTS = np.array([2.3, 0.4, 2.4])
VALUES = spread(3, 4, seed=4)


def spots(y: UOp) -> UOp:
    return y.cast(to_dtype("int32"))


def written(combine: Any, is_gated: bool, is_scalar: bool) -> Case:
    """Rows written at positions that are made of an operand."""

    def write(x: UOp, y: UOp, v: UOp) -> UOp:
        gate = (y > 1.0) if is_gated else None
        value = v.reduce(ops.ADD, (0, 1)) if is_scalar else v
        return x.after(x.store(value, spots(y), combine=combine, gate=gate))

    return on(write, DATA, SPOTS, VALUES)


AT_PLACES = {
    "index": on(lambda x, y: x.index(spots(y)), DATA, SPOTS),
    "index, gate": on(lambda x, y: x.index(spots(y), gate=y > 1.0), DATA, SPOTS),
    "index, two": on(lambda x, y: x.index(spots(y), spots(y)), DATA, SPOTS),
    "index, number": on(lambda x, y: x.index(spots(y)), DATA, np.array(1.2)),
    "index, number and row": on(lambda x, y: x.index(2, spots(y)), DATA, SPOTS),
    "whole, gate": on(lambda x, y: x.after(x.store(y, gate=y > 0.3)), DATA, VALUES),
    "whole, number": on(lambda x, y: x.after(x.store(y)), DATA, np.array(0.4)),
    "view": on(lambda x, y: x.after(x.flip((0,)).shrink([(1, 2), (0, 3)]).store(y)), DATA, spread(2, 3)),
    "two writes": on(lambda x, y: x.after(x.store(y, 1), x.store(y * 2, 2, combine=ops.ADD)), DATA, spread(4)),
    **{
        f"store {combine} {gated} {scalar}": written(combine, gated, scalar)
        for combine in (None, ops.ADD, ops.MUL, ops.MAX)
        for gated in (False, True)
        for scalar in (False, True)
    },
}


@pytest.mark.parametrize("name", AT_PLACES)
def test_places_that_differ(name: str) -> None:
    case = AT_PLACES[name]
    count = len(case.arrays)
    for mapped in range(1, 2**count):
        axes = [0 if mapped >> place & 1 else None for place in range(count)]
        compare(results(case.function), case.arrays, axes)
        compare(sloped(case), case.arrays, axes)


@pytest.mark.parametrize("name", AT_PLACES)
def test_derivatives_at_places(name: str) -> None:
    agrees(loss, AT_PLACES[name])
    gradients_agree(loss, AT_PLACES[name])


def test_every_op_of_tensor_graphs_goes_over_batches() -> None:
    """Others have no sources, or are what `whit.transform.batch` knows itself; variables are the same for all."""
    missing = {op.name for op in ops.OPS.values() if op.stages & TENSOR and op.batch is None and op.most != 0}
    assert missing == {"arange", "bind", "buffer", "call", "formula", "function", "item", "loop", "param"}
