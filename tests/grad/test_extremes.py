"""Values and gradients at the ends of the numbers, of functions by name and written by hand; docs/training.md is true.

The truth is computed in long double from formulas that are right everywhere, at the points as the dtype holds them. The
rest of the page's claims are in `test_restate.py`.
"""

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whit import Tensor, dtypes

pytestmark = pytest.mark.slow  # many

INF, NAN = math.inf, math.nan
POINTS = [0.0, -0.0, 1e-30, -1e-30, 1e-6, -1e-6, 1.0, -1.0, 20.0, -20.0, 88.0, -88.0, 89.0, -89.0, 104.0, -104.0]
POINTS += [1e4, -1e4, 1e38, -1e38, INF, -INF, NAN]
Function = Callable[[Any], Any]
DTYPES = {"float32": np.float32, "float64": np.float64, "float16": np.float16}


# ---- the truth


def sigmoid(x: Any) -> Any:
    small = np.exp(-abs(x))
    return np.where(x >= 0, 1, small) / (1 + small)


def softplus(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-abs(x)))


def bell(x: Any) -> Any:
    return np.exp(-abs(x)) / (1 + np.exp(-abs(x))) ** 2


def silu(x: Any) -> Any:
    return np.where(x < -11000, 0 * sigmoid(x), np.maximum(x, -11000) * sigmoid(x))


def silu_slope(x: Any) -> Any:
    bounded = np.clip(x, -11000, 11000)
    return sigmoid(x) * (1 + bounded * sigmoid(-bounded))


TRUTH: dict[str, tuple[Function, Function]] = {
    "sigmoid": (sigmoid, bell),
    "tanh": (np.tanh, lambda x: 4 * bell(2 * x)),
    "softplus": (softplus, sigmoid),
    "logsigmoid": (lambda x: -softplus(-x), lambda x: sigmoid(-x)),
    "log(1-sigmoid)": (lambda x: -softplus(x), lambda x: -sigmoid(x)),
    "silu": (silu, silu_slope),
    "bce 1": (lambda x: softplus(-x), lambda x: -sigmoid(-x)),
    "bce 0": (softplus, sigmoid),
    "bce 0.25": (lambda x: 0.25 * softplus(-x) + 0.75 * softplus(x), lambda x: sigmoid(x) - 0.25),
    "softmax": (sigmoid, bell),
    "log_softmax": (lambda x: -softplus(-x), lambda x: sigmoid(-x)),
    "logsumexp": (softplus, sigmoid),
    "expm1": (np.expm1, np.exp),
    "sinh": (np.sinh, np.cosh),
    "cosh": (np.cosh, np.sinh),
    "identity": (lambda x: x, np.ones_like),
    "abs": (abs, lambda x: np.nan_to_num(np.sign(x))),
}


# ---- the spellings


def filled(x: Tensor, value: float) -> Tensor:
    """A number at every place of x."""
    return Tensor.full(x.shape, value, dtype=x.dtype, device=x.device)


def row(x: Tensor) -> Tensor:
    """x, and 0 beside it."""
    return Tensor.stack(x, filled(x, 0), dim=-1)


def places(x: Tensor) -> Tensor:
    """0, 1, 2 ... for the rows of x."""
    return Tensor.arange(x.shape[0], device=x.device)


def bce(probability: Function, label: float) -> Function:
    def loss(x: Tensor) -> Tensor:
        p, y = probability(x), filled(x, label)
        return -(y * p.log() + (1 - y) * (1 - p).log())

    return loss


def named_bce(label: float) -> Function:
    return lambda x: x.binary_crossentropy_logits(filled(x, label), "none")


def by_hand(x: Tensor) -> Tensor:
    return 1 / (1 + (-x).exp())


def hand_softmax(x: Tensor) -> Tensor:
    power = row(x).exp()
    return power / power.sum(-1, keepdim=True)


def shifted_softmax(x: Tensor) -> Tensor:
    rows = row(x)
    power = (rows - rows.max(-1, keepdim=True)).exp()
    return power / power.sum(-1, keepdim=True)


SPELLINGS: list[tuple[str, str, Function]] = [
    ("sigmoid", "named", Tensor.sigmoid),
    ("sigmoid", "1/(1+e)", by_hand),
    ("sigmoid", "reciprocal", lambda x: (1 + (-x).exp()).reciprocal()),
    ("sigmoid", "power", lambda x: ((-x).exp() + 1) ** -1),
    ("sigmoid", "e/(1+e)", lambda x: x.exp() / (x.exp() + 1)),
    ("sigmoid", "scaled", lambda x: 1 / (1 + (x * -1).exp())),
    ("sigmoid", "other numerator", lambda x: 2 / (1 + (-x).exp()) / 2),
    ("tanh", "named", Tensor.tanh),
    ("tanh", "four", lambda x: (x.exp() - (-x).exp()) / (x.exp() + (-x).exp())),
    ("tanh", "scaled", lambda x: ((x * 1).exp() - (x * -1).exp()) / ((x * -1).exp() + (x * 1).exp())),
    ("tanh", "2x", lambda x: ((2 * x).exp() - 1) / ((2 * x).exp() + 1)),
    ("tanh", "-2x", lambda x: (1 - (-2 * x).exp()) / (1 + (-2 * x).exp())),
    ("softplus", "named", Tensor.softplus),
    ("softplus", "log", lambda x: (1 + x.exp()).log()),
    ("softplus", "log1p", lambda x: x.exp().log1p()),
    ("softplus", "logaddexp", lambda x: (filled(x, 0).exp() + x.exp()).log()),
    ("logsigmoid", "named", Tensor.logsigmoid),
    ("logsigmoid", "log", lambda x: x.sigmoid().log()),
    ("logsigmoid", "by hand", lambda x: by_hand(x).log()),
    ("logsigmoid", "moved", lambda x: by_hand(x).reshape(1, -1).permute(1, 0).log().reshape(-1)),
    ("logsigmoid", "cast", lambda x: by_hand(x).cast(dtypes.float64).log().cast(x.dtype)),
    ("log(1-sigmoid)", "log", lambda x: (1 - x.sigmoid()).log()),
    ("log(1-sigmoid)", "by hand", lambda x: (1 - by_hand(x)).log()),
    ("log(1-sigmoid)", "log1p", lambda x: (-x.sigmoid()).log1p()),
    ("silu", "named", Tensor.silu),
    ("silu", "product", lambda x: x * x.sigmoid()),
    ("silu", "by hand", lambda x: x * by_hand(x)),
    ("silu", "quotient", lambda x: x / (1 + (-x).exp())),
    *((f"bce {y:g}", "named", named_bce(y)) for y in (0, 1, 0.25)),
    *((f"bce {y:g}", "sigmoid", bce(Tensor.sigmoid, y)) for y in (0, 1, 0.25)),
    *((f"bce {y:g}", "by hand", bce(by_hand, y)) for y in (0, 1, 0.25)),
    ("softmax", "named", lambda x: row(x).softmax(-1)[:, 0]),
    ("softmax", "by hand", lambda x: hand_softmax(x)[:, 0]),
    ("log_softmax", "named", lambda x: row(x).log_softmax(-1)[:, 0]),
    ("log_softmax", "log", lambda x: row(x).softmax(-1).log()[:, 0]),
    ("log_softmax", "log of a column", lambda x: row(x).softmax(-1)[:, 0].log()),
    ("log_softmax", "picked", lambda x: row(x).softmax(-1)[places(x), places(x) * 0].log()),
    ("log_softmax", "gathered", lambda x: row(x).softmax(-1).gather(1, places(x).reshape(-1, 1) * 0).log()[:, 0]),
    ("log_softmax", "cross entropy", lambda x: -row(x).cross_entropy(places(x) * 0, "none")),
    ("log_softmax", "by hand", lambda x: hand_softmax(x).log()[:, 0]),
    ("logsumexp", "named", lambda x: row(x).logsumexp(-1)),
    ("logsumexp", "log", lambda x: row(x).exp().sum(-1).log()),
    ("logsumexp", "keepdim", lambda x: row(x).exp().sum(-1, keepdim=True).log()[:, 0]),
    ("logsumexp", "mean", lambda x: row(x).exp().mean(-1).log() + math.log(2)),
    ("expm1", "named", Tensor.expm1),
    ("expm1", "e-1", lambda x: x.exp() - 1),
    ("expm1", "1-e", lambda x: -(1 - x.exp())),
    ("sinh", "half", lambda x: (x.exp() - (-x).exp()) / 2),
    ("sinh", "times half", lambda x: 0.5 * (x.exp() - (-x).exp())),
    ("cosh", "half", lambda x: (x.exp() + (-x).exp()) / 2),
    ("identity", "log of exp", lambda x: x.exp().log()),
    ("abs", "root of square", lambda x: (x * x).sqrt()),
    ("abs", "power", lambda x: (x**2) ** 0.5),
]
IDS = [f"{name}-{spelling}" for name, spelling, _ in SPELLINGS]


# Where a result goes to 0 its relative error stays small, but for these: differences of numbers near 1
ABSOLUTE = {"log_softmax", "logsumexp", "bce 0.25"}
ABSOLUTE_SLOPE = {*ABSOLUTE, "tanh", "expm1", "bce 0", "bce 1", "softmax"}


def value_and_slope(function: Function, x: Tensor) -> tuple[Tensor, Tensor]:
    value = function(x)
    return value, value.gradient(x, gradient=Tensor.ones(*value.shape, dtype=value.dtype, device=x.device))[0]


def compare(what: str, found: Any, truth: Any, dtype: Any, ulps: float, is_relative: bool) -> None:
    """Within so many units in the last place: of the truth, or of 1 if that is larger and the error an absolute one."""
    info = np.finfo(dtype)
    with np.errstate(all="ignore"):
        wanted = truth.astype(dtype)
        scale = np.maximum(abs(truth), 128 * info.smallest_normal if is_relative else 1)
        is_close = abs(found.astype(np.longdouble) - truth) <= ulps * float(info.eps) * scale
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    wrong = ~np.where(np.isfinite(wanted), is_close, same)
    assert not wrong.any(), f"{what}: {found[wrong]}, not {wanted[wrong]}, at points {np.flatnonzero(wrong)}"


def check(name: str, function: Function, x: Tensor, dtype: Any) -> None:
    points = x.numpy()
    true_value, true_slope = TRUTH[name]
    with np.errstate(all="ignore"):
        exact = points.astype(np.longdouble)
        truth, slope = true_value(exact), true_slope(exact)
    found, found_slope = value_and_slope(function, x)
    compare("value", found.numpy(), truth, dtype, 6, name not in ABSOLUTE)
    compare("slope", found_slope.numpy(), slope, dtype, 8, name not in ABSOLUTE_SLOPE)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "_", "function"), SPELLINGS, ids=IDS)
def test_value_and_slope_at_the_extremes(name: str, _: str, function: Function, dtype: str) -> None:
    with np.errstate(over="ignore"):
        points = np.array(POINTS).astype(DTYPES[dtype])
    check(name, function, Tensor(points, device="PYTHON"), DTYPES[dtype])


COARSE = [entry for entry in SPELLINGS if entry[1] in ("named", "by hand", "log")]


@pytest.mark.parametrize(("name", "_", "function"), COARSE, ids=[f"{name}-{how}" for name, how, _ in COARSE])
def test_bfloat16_at_the_extremes(name: str, _: str, function: Function) -> None:
    x = Tensor(POINTS, device="PYTHON").cast(dtypes.bfloat16)
    value, slope = (found.cast(dtypes.float32).numpy() for found in value_and_slope(function, x))
    with np.errstate(all="ignore"):
        exact = x.cast(dtypes.float32).numpy().astype(np.longdouble)
        truths = [true(exact).astype(np.float32) for true in TRUTH[name]]
    for found, truth in zip((value, slope), truths, strict=True):
        np.testing.assert_allclose(found, truth, rtol=0.02, atol=0.01)


def test_compiled_code_gives_the_same() -> None:
    chosen = {"sigmoid-1/(1+e)", "tanh-four", "softplus-log", "bce 1-by hand", "log_softmax-by hand", "logsumexp-log"}
    entries = [entry for entry, key in zip(SPELLINGS, IDS, strict=True) if key in chosen]
    assert len(entries) == len(chosen)
    x = Tensor(np.array(POINTS, np.float32), device="CPU")
    found = [value_and_slope(function, x) for _, _, function in entries]
    found[0][0].realize(*(tensor for pair in found for tensor in pair))
    for (name, how, _), pair in zip(entries, found, strict=True):
        exact = np.array(POINTS, np.float32).astype(np.longdouble)
        for tensor, true, outside in zip(pair, TRUTH[name], (ABSOLUTE, ABSOLUTE_SLOPE), strict=True):
            with np.errstate(all="ignore"):
                truth = true(exact)
            compare(f"{name} {how}", tensor.numpy(), truth, np.float32, 8, name not in outside)


# ---- the tables of the page


def table(header: str) -> list[list[str]]:
    """The cells of the rows of a table of docs/training.md."""
    lines = (Path(__file__).parents[2] / "docs" / "training.md").read_text().splitlines()
    start = lines.index(header) + 2
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines[start:])
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in rows]


def of_row(name: str) -> Function:
    function = name.strip("`")
    if function.startswith("binary_crossentropy_logits"):
        return named_bce(float(function[-2]))
    if function in ("softmax", "log_softmax"):
        return lambda x: getattr(row(x), function)(-1)[:, 0]
    if function == "logsumexp":
        return lambda x: row(x).logsumexp(-1)
    if function == "norm":
        return lambda x: row(x).norm(2, -1)
    return lambda x: getattr(x, function)()


@pytest.mark.parametrize("cells", table("| | -inf | -1e4 | 0 | 1e4 | inf |"), ids=lambda cells: cells[0].strip("`"))
def test_the_table_of_extreme_values(cells: list[str]) -> None:
    name, *pairs = cells
    wanted = np.array([[float(number) for number in pair.split(",")] for pair in pairs]).T
    value, slope = value_and_slope(of_row(name), Tensor([-INF, -1e4, 0.0, 1e4, INF], device="PYTHON"))
    np.testing.assert_allclose(value.numpy(), wanted[0], rtol=1e-6)
    np.testing.assert_allclose(slope.numpy(), wanted[1], rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_the_table_of_powers(dtype: str) -> None:
    rows = np.array([[float(cell) for cell in cells] for cells in table("| x | y | x ** y | by x | by y |")])
    x, y = (Tensor(column.astype(DTYPES[dtype]), device="PYTHON") for column in rows.T[:2])
    value = x**y
    found = [value, *value.gradient(x, y, gradient=filled(x, 1))]
    for tensor, wanted in zip(found, rows.T[2:], strict=True):
        np.testing.assert_allclose(tensor.numpy(), wanted, rtol=2e-3 if dtype == "float16" else 1e-6)


# ---- norms


NORMS: dict[str, Function] = {
    "norm": lambda x: x.norm(2, -1),
    "norm 3": lambda x: x.norm(3, -1),
    "norm 1.5": lambda x: x.norm(1.5, -1),
    "norm 1": lambda x: x.norm(1, -1),
    "norm inf": lambda x: x.norm(INF, -1),
    "root": lambda x: (x * x).sum(-1).sqrt(),
    "power": lambda x: (x**2).sum(-1) ** 0.5,
    "other power": lambda x: (x.abs() ** 3).sum(-1) ** (1 / 3),
    "fourth power": lambda x: (x**4).sum(-1) ** 0.25,
    "root mean square": lambda x: x.square().mean(-1).sqrt(),
    "two squares": lambda x: (x[:, 0] * x[:, 0] + 2 * x[:, 1] * x[:, 1]).sqrt(),
    "deviation": lambda x: x.std(-1),
    "kept": lambda x: (x * x).sum(-1, keepdim=True).sqrt()[:, 0],
}


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_norms_of_zeros_have_the_gradient_0(name: str, dtype: str) -> None:
    zeros = Tensor(np.array([[0.0, -0.0], [3.0, 4.0]], DTYPES[dtype]), device="PYTHON")
    value = NORMS[name](zeros)
    (slope,) = value.gradient(zeros, gradient=filled(value, 1))
    assert value.numpy()[0] == 0
    assert (slope.numpy()[0] == 0).all()
    assert np.isfinite(slope.numpy()).all()
    assert slope.numpy()[1].any()


def test_a_root_alone_is_still_steep_at_0() -> None:
    x = Tensor([0.0, 4.0], device="PYTHON")
    assert x.sqrt().sum().gradient(x)[0].tolist() == [INF, 0.25]
    assert (x * 2).sqrt().sum().gradient(x)[0].tolist()[0] == INF


def test_the_loss_of_certain_probabilities_has_a_finite_gradient() -> None:
    p, y = Tensor([0.0, 1.0, 0.5], device="PYTHON"), Tensor([1.0, 1.0, 1.0], device="PYTHON")
    loss = p.binary_crossentropy(y, "none")
    np.testing.assert_allclose(loss.numpy(), [100.0, 0.0, math.log(2)], rtol=1e-6)
    np.testing.assert_allclose(loss.gradient(p, gradient=filled(p, 1))[0].numpy(), [-1e12, 0.0, -2.0], rtol=1e-6)
    x = Tensor([1e4, -1e4], device="PYTHON")
    assert np.isfinite(x.sigmoid().binary_crossentropy(filled(x, 0)).gradient(x)[0].numpy()).all()
