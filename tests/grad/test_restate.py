"""Expressions that are restated have the value and gradient of what was written, wherever that is finite."""

import math
from typing import Any

import numpy as np
import pytest

from grad.test_extremes import table
from whit import Tensor, dtypes
from whit.ir import ops
from whit.ir.uop import UOp
from whit.transform.formulas import RESTATED

pytestmark = pytest.mark.slow  # many

BETTER = {RESTATED, "root_of_squares", "power_of_squares"}
PAGE = [
    (text.strip(), target.strip("`"))
    for cells in table("| written | computed as |")
    for text, target in [(part, cells[1]) for part in cells[0].strip("`").split("`, `")]
]


def restated(node: UOp) -> list[UOp]:
    """The nodes in a graph whose value or gradient is better than what was written."""
    return [part for part in node.topological() if part.op is ops.FORMULA and part.arg.name in BETTER]


def operands(seed: int = 0) -> dict[str, Any]:
    """x of both signs, w between 0 and 1, y a label."""
    random = np.random.default_rng(seed)
    x, w = random.uniform(-6, 6, (4, 3)), random.uniform(0.05, 0.95, (4, 3))
    arrays = {"x": x, "w": w, "y": random.integers(0, 2, (4, 3)).astype(float)}
    return {name: Tensor(array, device="PYTHON") for name, array in arrays.items()}


def results(text: str, given: dict[str, Any]) -> list[Any]:
    value = eval(text, {"log": math.log}, given)
    ones = Tensor.ones(*value.shape, dtype=value.dtype, device="PYTHON")
    return [found.numpy() for found in (value, *value.gradient(given["x"], given["w"], gradient=ones))]


@pytest.mark.parametrize(("text", "target"), PAGE, ids=[text for text, _ in PAGE])
def test_what_the_page_lists_is_restated(text: str, target: str) -> None:
    given = operands()
    assert restated(eval(text, {}, given).uop)
    for found, wanted in zip(results(text, given), results(target, given), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("text", [text for text, _ in PAGE])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_the_value_is_that_of_what_was_written(text: str, dtype: str) -> None:
    given = {name: tensor.cast(dtype).realize() for name, tensor in operands(1).items()}
    value = eval(text, {}, given)
    for node in restated(value.uop):
        if node.arg.name == RESTATED:
            better, written = (value._wrap(source).cast(dtypes.float64).numpy() for source in node.src[:2])
            eps = {"float64": 1e-13, "float32": 1e-5, "float16": 0.02}[dtype]
            finite = np.isfinite(written)
            assert finite.any()
            np.testing.assert_allclose(better[finite], written[finite], rtol=eps, atol=eps)


SMOOTH = [text for text, _ in PAGE if "abs" not in text]


@pytest.mark.parametrize("text", SMOOTH)
def test_second_derivatives(text: str) -> None:
    given = operands(2)
    point = given["x"].numpy()
    name = "w" if "w" in text else "x"

    def slope(array: Any) -> Any:
        moved = {**given, name: Tensor(array, device="PYTHON")}
        return moved, eval(text, {}, moved).sum().gradient(moved[name])[0]

    point, step = given[name].numpy(), 1e-5
    moved, first = slope(point)
    second = first.sum().gradient(moved[name])[0].numpy()
    direction = np.ones_like(point) * step
    by_steps = (slope(point + direction)[1].numpy() - slope(point - direction)[1].numpy()) / (2 * step)
    whole = "-1" in text  # rows: the sum of the Hessian's columns is what a common step shows
    np.testing.assert_allclose(second, by_steps, rtol=1e-5, atol=1e-6 if not whole else 1e-5)


def test_a_gradient_in_the_middle_is_that_of_what_was_written() -> None:
    x = Tensor([0.5, -1.0], device="PYTHON")
    p = x.sigmoid()
    loss = p.log().sum()
    np.testing.assert_allclose(loss.gradient(p)[0].numpy(), 1 / p.numpy(), rtol=1e-6)
    by_p, by_x = loss.gradient(p, x)
    np.testing.assert_allclose(by_p.numpy(), 1 / p.numpy(), rtol=1e-6)
    np.testing.assert_allclose(by_x.numpy(), 1 - p.numpy(), rtol=1e-6)
    power = x.exp()
    shares = power / power.sum()
    (found,) = shares[0].log().gradient(power)
    np.testing.assert_allclose(found.numpy(), [1, 0] / power.numpy() - 1 / power.numpy().sum(), rtol=1e-5)


def test_a_gradient_by_what_only_the_better_expression_has_is_zero() -> None:
    x = Tensor([0.5], device="PYTHON")
    minus = -x
    assert (1 / (1 + x.exp())).sum().gradient(minus)[0].tolist() == [0.0]


def test_a_target_used_beside_a_restated_expression_gets_both_parts() -> None:
    x = Tensor([0.5], device="PYTHON")
    p = x.sigmoid()
    (found,) = (p.log() + 3 * p).sum().gradient(p)
    np.testing.assert_allclose(found.numpy(), 1 / p.numpy() + 3, rtol=1e-6)


def test_a_detached_part_stays_constant() -> None:
    x = Tensor([0.5], device="PYTHON")
    value = x.exp() / (1 + x.detach().exp())
    assert not restated(value.uop) or value.uop.src[1].op is ops.FDIV
    (found,) = value.sum().gradient(x)
    np.testing.assert_allclose(found.numpy(), 1 / (1 + np.exp(-0.5)), rtol=1e-6)


NOT_RESTATED = {
    "another constant": lambda x, y: 1 / (2 + (-x).exp()),
    "the sum of another axis": lambda x, y: x.exp() / x.exp().sum(-1),
    "the sum of another tensor": lambda x, y: x.exp() / y.exp().sum(-1, keepdim=True),
    "a shifted softmax": lambda x, y: (e := (x - x.max(-1, keepdim=True)).exp()) / e.sum(-1, keepdim=True),
    "a sum with a sign": lambda x, y: (x * x - y * y).abs().sum(-1).sqrt(),
    "different exponents": lambda x, y: (x.exp() - (-y).exp()) / (x.exp() + (-x).exp()),
    "integers": lambda x, y: x.int() * y.int() - 1,
}


@pytest.mark.parametrize("name", NOT_RESTATED)
def test_what_only_looks_like_one_is_left_alone(name: str) -> None:
    random = np.random.default_rng(3)
    x, y = (Tensor(random.uniform(-2, 2, (3, 3)), device="PYTHON") for _ in range(2))
    assert not restated(NOT_RESTATED[name](x, y).uop)


def test_the_sum_along_the_wrong_axis_is_divided_by_as_written() -> None:
    x = np.random.default_rng(4).uniform(-2, 2, (3, 3))
    found = (Tensor(x, device="PYTHON").exp() / Tensor(x, device="PYTHON").exp().sum(-1)).numpy()
    np.testing.assert_allclose(found, np.exp(x) / np.exp(x).sum(-1), rtol=1e-12)


def test_odd_shapes() -> None:
    for shape in [(), (1,), (0,), (2, 0), (0, 3)]:
        x = Tensor(np.ones(shape), device="PYTHON")
        for value in (1 / (1 + (-x).exp()), x.exp().sum().log(), x.exp() / x.exp().sum(), (x * x).sum().sqrt()):
            (slope,) = value.sum().gradient(x)
            assert slope.shape == shape
            assert not np.isnan(slope.numpy()).any()


def test_entropy_at_zero_probability_is_zero() -> None:
    p = Tensor([0.0, 1.0, 0.5], device="PYTHON")
    np.testing.assert_allclose((-p * p.log()).numpy(), [0, 0, math.log(2) / 2], rtol=1e-6)
    np.testing.assert_allclose((p.log() * -p).numpy(), [0, 0, math.log(2) / 2], rtol=1e-6)
    assert np.isnan((p * Tensor([math.nan] * 3, device="PYTHON").log()).numpy()).all()
    x = Tensor([[0.0, -math.inf, 1e4]], device="PYTHON")
    shares = x.softmax(-1)
    entropy = -(shares * shares.log()).sum()
    assert entropy.item() == 0
    assert entropy.gradient(x)[0].tolist() == [[0.0, 0.0, 0.0]]
