"""Calls that two libraries read differently raise, and say both readings; what is the same in both is accepted."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from whit import Tensor, nn
from whit.errors import ArgumentError, DTypeError

image, weight = Tensor.rand(1, 2, 8, 8), Tensor.rand(2, 2, 3, 3)
bias, one = Tensor.rand(2), Tensor.rand(1, 1, 4, 4)
places = Tensor(np.arange(16, dtype=np.int32).reshape(1, 1, 4, 4))

# wrong -> what both readings are called in the message
AMBIGUOUS: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "max_pool2d": (lambda: image.max_pool2d(3, 2, 1), ("dilation=1 in tinygrad", "padding=1 in PyTorch")),
    "avg_pool2d": (lambda: image.avg_pool2d(3, 2, 1), ("dilation=1 in tinygrad", "padding=1 in PyTorch")),
    "max_unpool2d": (lambda: one.max_unpool2d(places, 2, 2, 1), ("dilation=1 in tinygrad", "padding=1 in PyTorch")),
    "conv2d": (lambda: image.conv2d(weight, bias, 2), ("groups=2 in tinygrad", "stride=2 in PyTorch")),
    "conv2d, more": (
        lambda: image.conv2d(weight, bias, 1, 1),
        ("groups=1, stride=1 in tinygrad", "stride=1, padding=1 in PyTorch"),
    ),
    "conv_transpose2d": (
        lambda: image.conv_transpose2d(weight, bias, 2),
        ("groups=2 in tinygrad", "stride=2 in PyTorch"),
    ),
    "interpolate": (lambda: image.interpolate((4, 4)), ('"nearest" in PyTorch', '"linear" in tinygrad')),
    "cumsum": (lambda: image.cumsum(), ("0 in tinygrad", "all elements in a row in NumPy")),
    "cumprod": (lambda: image.cumprod(), ("0 in tinygrad", "NumPy")),
    "cummax": (lambda: image.cummax(), ("0 in tinygrad", "NumPy")),
    "cummin": (lambda: image.cummin(), ("0 in tinygrad", "NumPy")),
    "logcumsumexp": (lambda: image.logcumsumexp(), ("0 in tinygrad", "NumPy")),
    "transpose": (lambda: image.transpose(), ("0 and 1 in tinygrad", "in opposite order in NumPy")),
    "where": (lambda: image.where(image > 0, 0.0), ("condition.where(x, y)", "x.where(condition, y)")),
    "where of integers": (lambda: places.where(places > 0, 0), ("condition.where(x, y)", "x.where(condition, y)")),
}


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_two_readings_are_an_error_that_names_both(name: str) -> None:
    call, readings = AMBIGUOUS[name]
    with pytest.raises((ArgumentError, DTypeError)) as error:
        call()
    for reading in readings:
        assert reading in str(error.value)


def test_names_are_the_same_in_both() -> None:
    torch = pytest.importorskip("torch")
    f = torch.nn.functional
    x, w, b = (torch.tensor(t.numpy()) for t in (image, weight, bias))

    def same(ours: Tensor, theirs: Any) -> None:
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-4, atol=1e-5)

    same(image.max_pool2d(3, 2, padding=1), f.max_pool2d(x, 3, 2, padding=1))
    same(image.avg_pool2d(3, 2, padding=1), f.avg_pool2d(x, 3, 2, padding=1))
    same(image.conv2d(weight, bias, stride=2, padding=1), f.conv2d(x, w, b, stride=2, padding=1))
    same(image.conv_transpose2d(weight, bias, stride=2), f.conv_transpose2d(x, w, b, stride=2))
    same(image.interpolate((4, 4), mode="nearest"), f.interpolate(x, (4, 4)))
    same(image.cumsum(dim=1), x.cumsum(dim=1))


def test_readings_that_come_to_the_same_are_accepted() -> None:
    assert image.conv2d(weight, bias, 1).shape == (1, 2, 6, 6)
    assert image.max_pool2d(2, 2).shape == image.max_pool2d().shape
    assert Tensor([1, 2, 3]).cumsum().tolist() == [1, 3, 6]
    assert Tensor(3.0).cumsum().tolist() == 3.0
    assert (image > 0.5).where(image > 0.2, False).dtype.is_bool
    assert places.where(1.0, 0.0).sum().item() == 15


def test_a_maximum_is_not_unpacked() -> None:
    x = Tensor([[1.0, 5.0], [4.0, 2.0]])
    for call in (lambda: x.max(1), lambda: x.min(dim=1), lambda: x.max(axis=0)):
        with pytest.raises(ArgumentError, match="the result is one tensor of two rows, and is unpacked"):
            _values, _places = call()
    with pytest.raises(ArgumentError, match=r"use x.max\(1\), x.argmax\(1\)"):
        _values, _places = x.max(1)
    first, second = x.max(1).tolist()
    assert (first, second) == (5.0, 4.0)
    assert [row.item() for row in x.max(1)] == [5.0, 4.0]
    rows = Tensor([[1.0, 5.0], [4.0, 2.0], [3.0, 0.0]])
    with pytest.raises(ValueError, match=r"a tensor \(3,\) has 3 rows, and not 2(.|\n)*x.max\(1\), x.argmax\(1\)"):
        _values, _places = rows.max(1)
    one, two, three = rows.max(1)
    assert (one.item(), two.item(), three.item()) == (5.0, 4.0, 3.0)
    a, b = x.sum(1)
    assert (a.item(), b.item()) == (6.0, 6.0)
    a, b = x.max(1) + 0
    assert (a.item(), b.item()) == (5.0, 4.0)


def test_positions_are_not_unpacked() -> None:
    x = Tensor([[0.0, 1.0], [1.0, 0.0]])
    with pytest.raises(ArgumentError, match="nonzero: the result is one tensor of two rows, and is unpacked"):
        _rows, _columns = x.nonzero()
    rows, columns = x.nonzero().T
    assert (rows.tolist(), columns.tolist()) == ([0, 1], [1, 0])


@pytest.mark.parametrize("name", ["sum", "mean", "max", "prod", "all", "std", "argmax", "logsumexp", "median"])
def test_a_second_axis_is_no_keepdim(name: str) -> None:
    x = Tensor.rand(2, 3)
    for wrong in (1, 0, None, "float64", np.float64):
        with pytest.raises(ArgumentError, match=f"{name}: keepdim=.* is no bool"):
            getattr(x, name)(0, wrong)
    assert getattr(x, name)(0, keepdims=True) is not None


def test_weight_decay_of_adam_is_that_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    start = np.array([1.0, -2.0, 3.0], np.float32)
    for ours, theirs in ((nn.optim.Adam, torch.optim.Adam), (nn.optim.AdamW, torch.optim.AdamW)):
        w, p = Tensor(start), torch.tensor(start, requires_grad=True)
        one, other = ours([w], lr=0.1, weight_decay=0.3), theirs([p], lr=0.1, weight_decay=0.3)
        for _ in range(3):
            for optimizer, loss in ((one, (w * w).sum()), (other, (p * p).sum())):
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        np.testing.assert_allclose(w.numpy(), p.detach().numpy(), rtol=1e-5)
