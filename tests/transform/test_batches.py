"""vmap of every op and method against the function of each example, stacked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from grad.methods import CASES as METHODS
from grad.methods import Case
from grad.test_methods import loss, tensors
from grad.test_ops import CASES as OPS

from whit import Tensor, vmap
from whit.ir import ops
from whit.ir.op import TENSOR

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


def test_every_op_of_tensor_graphs_goes_over_batches() -> None:
    """Others have no sources, or are what `whit.transform.batch` knows itself; variables are the same for all."""
    missing = {op.name for op in ops.OPS.values() if op.stages & TENSOR and op.batch is None and op.most != 0}
    assert missing == {"arange", "bind", "buffer", "call", "formula", "function", "item", "param"}
