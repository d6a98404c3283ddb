"""An axis of symbolic size is sorted as one of known size: NaN, infinities and equal elements where they belong."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from whit import Tensor, TinyJit, Variable, dtypes
from whit.dtype import DType
from whit.engine.plan import find_plan as plans_module
from whit.errors import NotSupportedError, OutOfRangeError, ShapeError

pytestmark = pytest.mark.slow  # compiles much

DEVICES = ["PYTHON", pytest.param("CPU", marks=pytest.mark.cpu), pytest.param("CPU:C", marks=pytest.mark.cpu)]
DTYPES = [dtypes.float32, dtypes.float16, dtypes.fp8e4m3, dtypes.int32, dtypes.int64, dtypes.uint8, dtypes.bool]
X = np.random.default_rng(0).integers(-3, 4, (4, 12)).astype(np.float32)
X[0, 3], X[1, 2], X[2, 5], X[3, 1] = np.nan, -np.inf, np.inf, -0.0

PROGRAMS: dict[str, Callable[[Tensor], Sequence[Tensor]]] = {
    "sort": lambda x: x.sort(1),
    "descending": lambda x: x.sort(1, descending=True),
    "argsort": lambda x: (x.argsort(1), x.argsort(1, descending=True)),
    "topk": lambda x: x.topk(3, 1),
    "smallest": lambda x: x.topk(3, 1, largest=False),
    "none": lambda x: x.topk(0, 1),
    "msort": lambda x: (x.T.msort(),),
    "kthvalue": lambda x: x.kthvalue(2, 1),
    "median": lambda x: (*x.median(1), x.median()),
    "mode": lambda x: x.mode(1),
}


def data(dtype: DType, device: str) -> Tensor:
    values = X if dtype.is_float and dtype.itemsize > 1 else np.nan_to_num(X, posinf=200, neginf=-200)
    return Tensor(np.abs(values) if dtype is dtypes.uint8 else values, device=device).cast(dtype).realize()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_symbolic_axes_are_sorted_as_known_ones(name: str, device: str) -> None:
    n = Variable("n", 0, 12)
    for dtype in DTYPES if device == "CPU" else DTYPES[:1]:
        x, counts = data(dtype, device), []
        for size in (5, 3, 12):
            wanted = [each.float().numpy() for each in PROGRAMS[name](x[:, :size])]
            before = len(plans_module._plans)
            found = [each.float().numpy() for each in PROGRAMS[name](x[:, : n.bind(size)])]
            counts.append(len(plans_module._plans) - before)
            assert [each.shape for each in found] == [each.shape for each in wanted]
            for one, other in zip(found, wanted, strict=True):
                assert np.array_equal(one, other, equal_nan=True), (name, dtype, size)
        assert counts[1:] == [0, 0]


def test_an_axis_of_no_elements() -> None:
    x, n = Tensor(X), Variable("n", 0, 12)
    assert x[:, : n.bind(0)].sort(1)[0].numpy().shape == (4, 0)
    with pytest.raises(ShapeError, match="median: no elements along axis 1"):
        x[:, : n.bind(0)].median(1)


def test_both_axes_may_be_symbolic() -> None:
    x, n, m = Tensor(X), Variable("n", 1, 4), Variable("m", 1, 12)
    found = x[: n.bind(3), : m.bind(7)].sort(1)[0] + 0
    assert np.array_equal(found.numpy(), x[:3, :7].sort(1)[0].numpy(), equal_nan=True)


def test_more_than_there_are_now_is_refused() -> None:
    x, n = Tensor(X).realize(), Variable("n", 0, 12)
    with pytest.raises(OutOfRangeError, match=r"topk: 3 of the n=2 elements along axis 1 of \(4, n=2\)"):
        x[:, : n.bind(2)].topk(3, 1)
    all_of_them = x[:, : n.bind(12)].topk(12, 1)[0]
    assert all_of_them.shape == (4, 12)
    assert np.array_equal(all_of_them.numpy(), x.topk(12, 1)[0].numpy(), equal_nan=True)
    with pytest.raises(OutOfRangeError, match="kthvalue: there is no element 3 among n=2"):
        x[:, : n.bind(2)].kthvalue(3, 1)
    with pytest.raises(NotSupportedError, match="quantile: the size n=2 of axis 1 is symbolic"):
        x[:, : n.bind(2)].quantile(0.5, 1)

    @TinyJit
    def largest(count: Any) -> Tensor:
        return x[:, :count].topk(3, 1)[0]

    for size in (4, 3, 12):
        found = largest(n.bind(size)).numpy()
        assert np.array_equal(found, x[:, :size].topk(3, 1)[0].numpy(), equal_nan=True)
    with pytest.raises(OutOfRangeError, match="topk: 3 of the n=2 elements"):
        largest(n.bind(2))
    assert len(largest.captured) == 1


def test_gradients_go_to_where_elements_came_from() -> None:
    values = np.nan_to_num(X, posinf=5, neginf=-5)
    x, n = Tensor(values, requires_grad=True), Variable("n", 0, 12)
    (x[:, : n.bind(5)].sort(1)[0] ** 2).sum().backward()
    wanted = 2 * values
    wanted[:, 5:] = 0
    assert np.allclose(x.grad.numpy(), wanted)
