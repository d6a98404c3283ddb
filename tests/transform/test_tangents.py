"""Forward mode: the rule of every op, method and formula against small steps in float64."""

from collections.abc import Callable

import numpy as np
import pytest
from grad.methods import CASES as METHODS
from grad.methods import Case
from grad.test_methods import STEP, loss, slope, tensors
from grad.test_ops import CASES as OPS

from whit import Tensor, jvp
from whit.ir import ops

CASES = {**{f"op {name}": cases for name, cases in OPS.items()}, **METHODS}
ALL = [(name, i) for name, cases in CASES.items() for i in range(len(cases))]
IDS = [f"{name}-{i}" for name, i in ALL]
# Of these the value is defined by a gradient alone, or no gradient is known.
NO_SECOND = {name for name, cases in CASES.items() if not cases[0].is_smooth}


def agrees(function: Callable[[Case, list[Tensor]], Tensor], case: Case) -> None:
    """The tangent along a random direction is the difference between two points nearby."""
    directions = [np.random.default_rng([7, *np.shape(a)]).uniform(-1, 1, np.shape(a)) for a in case.arrays]
    ends = []
    for step in (STEP, -STEP, 2 * STEP, -2 * STEP):
        moved = [array + step * d for array, d in zip(case.arrays, directions, strict=True)]
        ends.append(function(case, tensors(moved)).item())
    wanted = (8 * (ends[0] - ends[1]) - (ends[2] - ends[3])) / (12 * STEP)
    value, found = jvp(lambda *x: function(case, list(x)), tensors(case.arrays), tensors(directions))
    assert value.item() == pytest.approx(function(case, tensors(case.arrays)).item(), rel=1e-12)
    assert found.item() == pytest.approx(wanted, rel=1e-6, abs=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "i"), ALL, ids=IDS)
def test_tangent(name: str, i: int) -> None:
    agrees(loss, CASES[name][i])


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CASES if name not in NO_SECOND])
def test_tangent_of_the_gradient(name: str) -> None:
    agrees(slope, CASES[name][0])


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CASES if name not in NO_SECOND])
def test_gradient_of_the_tangent(name: str) -> None:
    """It is the tangent of the gradient: second derivatives do not depend on the order."""
    case = CASES[name][0]
    directions = tensors([np.random.default_rng([7, *np.shape(a)]).uniform(-1, 1, np.shape(a)) for a in case.arrays])
    operands = tensors(case.arrays)
    _, along = jvp(lambda *x: loss(case, list(x)), operands, directions)
    found = along.gradient(*operands)
    _, wanted = jvp(lambda *x: tuple(loss(case, list(x)).gradient(*x)), operands, directions)
    for one, two in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one.numpy(), two.numpy(), rtol=1e-8, atol=1e-10)


def test_every_op_with_a_gradient_has_a_tangent() -> None:
    for name, op in ops.OPS.items():
        assert (op.grad is None) == (op.tangent is None), name
