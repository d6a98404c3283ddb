"""The gradient of every Tensor method against small steps in float64, and the gradient of the gradient."""

import inspect
from typing import Any

import numpy as np
import pytest

from grad.methods import CASES as FIRST
from grad.methods import NONE as NO_GRADIENT
from grad.methods import POINTWISE, STEPS, Case
from grad.more_methods import MORE, MORE_NONE
from whit import Tensor
from whit.tensor.methods.foreign_names import Aliases

pytestmark = pytest.mark.slow  # many

CASES = {**FIRST, **MORE}
NONE = NO_GRADIENT | MORE_NONE
STEP = 1e-5


def tensors(arrays: Any) -> list[Tensor]:
    return [Tensor(np.array(array), device="PYTHON") for array in arrays]


def weights(shape: tuple[int, ...], seed: int) -> Tensor:
    return Tensor(np.random.default_rng([seed, *shape]).uniform(0.5, 1.5, shape), device="PYTHON")


def loss(case: Case, operands: list[Tensor]) -> Tensor:
    Tensor.manual_seed(3)
    with Tensor.train():
        y = case.function(*operands)
    return (y * weights(y.shape, 1)).sum()


def slope(case: Case, operands: list[Tensor]) -> Tensor:
    """A number made of all gradients."""
    found = loss(case, operands).gradient(*operands)
    return sum(((dx * weights(dx.shape, 2)).sum() for dx in found), Tensor(0.0, dtype="double", device="PYTHON"))


def agrees(function: Any, case: Case) -> None:
    """The gradient is the difference between two points nearby, along a random direction of all operands."""
    directions = [np.random.default_rng([7, *np.shape(a)]).uniform(-1, 1, np.shape(a)) for a in case.arrays]
    ends = []
    for step in (STEP, -STEP, 2 * STEP, -2 * STEP):
        moved = [array + step * d for array, d in zip(case.arrays, directions, strict=True)]
        ends.append(function(case, tensors(moved)).item())
    wanted = (8 * (ends[0] - ends[1]) - (ends[2] - ends[3])) / (12 * STEP)
    operands = tensors(case.arrays)
    slopes = [dx.numpy() for dx in function(case, operands).gradient(*operands)]
    assert [dx.shape for dx in slopes] == [np.shape(array) for array in case.arrays]
    found = sum(float((dx * d).sum()) for dx, d in zip(slopes, directions, strict=True))
    assert found == pytest.approx(wanted, rel=1e-6, abs=1e-7)


ALL = [(name, i) for name, cases in CASES.items() for i in range(len(cases))]


@pytest.mark.parametrize(("name", "i"), ALL, ids=[f"{name}-{i}" for name, i in ALL])
def test_gradient(name: str, i: int) -> None:
    agrees(loss, CASES[name][i])


@pytest.mark.parametrize("name", [name for name, cases in CASES.items() if cases[0].is_smooth])
def test_gradient_of_the_gradient(name: str) -> None:
    agrees(slope, CASES[name][0])


@pytest.mark.parametrize("name", CASES)
def test_gradient_of_views(name: str) -> None:
    """Operands that are views from the end of every second element: the gradients are those of the elements, with
    zeros between them."""
    case = CASES[name][0]
    if any(not np.ndim(array) for array in case.arrays):
        return
    apart = [np.repeat(array[::-1], 2, axis=0) for array in case.arrays]
    wide = tensors(apart)
    found = loss(case, [x[::2].flip(0) for x in wide]).gradient(*wide)
    operands = tensors(case.arrays)
    for dx, plain in zip(found, loss(case, operands).gradient(*operands), strict=True):
        np.testing.assert_allclose(dx.numpy()[::2][::-1], plain.numpy(), rtol=1e-12, atol=1e-14)
        assert not dx.numpy()[1::2].any()


@pytest.mark.parametrize("name", [*POINTWISE, *STEPS, "sum", "mean", "prod", "cumsum", "softmax", "sort", "var"])
def test_gradients_of_nothing_have_no_elements(name: str) -> None:
    for shape in ((0,), (2, 0, 3)):
        x = Tensor(np.zeros(shape), device="PYTHON")
        y = getattr(x, name)(*((0,) if name == "cumsum" else ()))
        y = y[0] if isinstance(y, tuple) else y
        (dx,) = y.sum().gradient(x)
        assert dx.numpy().shape == shape


def test_every_name_has_a_case_or_no_gradient() -> None:
    """Other libraries' names for methods are these methods; names that are only looked for (`Absent`) are none."""
    names = {name for name in dir(Tensor) if not name.startswith("_") and hasattr(Tensor, name)} - {*vars(Aliases)}
    names -= {name for name in names if hasattr(inspect.getattr_static(Tensor, name), "same_as")}
    assert names - set(CASES) - NONE == set(), "give these a case in tests/grad/methods.py"
    assert (set(CASES) | NONE) - names == set()
    assert set(CASES) & NONE == set()


@pytest.mark.parametrize("name", ["bitcast", "heaviside", "int", "argmax", "detach", "one_hot"])
def test_what_has_no_gradient_gives_zeros(name: str) -> None:
    arguments = {"bitcast": ("int64",), "heaviside": (1.0,), "one_hot": (3,)}.get(name, ())
    x = Tensor([0.5, 1.5], dtype="double", device="PYTHON")
    y = getattr(x.int() if name == "one_hot" else x, name)(*arguments)
    (dx,) = (y.cast("float64") * 2).sum().gradient(x)
    assert dx.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", ["float", "half", "bfloat16"])
def test_casts_to_fewer_bits_pass_the_gradient_on(name: str) -> None:
    x = Tensor([0.5, 1.5], dtype="double", device="PYTHON")
    (dx,) = (getattr(x, name)().double() * Tensor([2.0, 3.0], dtype="double", device="PYTHON")).sum().gradient(x)
    assert dx.tolist() == [2.0, 3.0]
