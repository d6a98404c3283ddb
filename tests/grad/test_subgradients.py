"""What docs/gradients.md says about points where a function has no derivative."""

import math
from collections.abc import Callable

import pytest

from whit import Tensor

Numbers = list[float]

# what it is -> the function, a point, its gradient there
CHOICES: dict[str, tuple[Callable[[Tensor], Tensor], Numbers, Numbers]] = {
    "max": (lambda x: x.max(), [2.0, 1.0, 2.0], [0.5, 0.0, 0.5]),
    "min": (lambda x: x.min(), [2.0, 1.0, 1.0, 1.0], [0.0, 1 / 3, 1 / 3, 1 / 3]),
    "maximum": (lambda x: x.maximum(2.0), [1.0, 2.0, 3.0], [0.0, 0.5, 1.0]),
    "minimum": (lambda x: x.minimum(2.0), [1.0, 2.0, 3.0], [1.0, 0.5, 0.0]),
    "clamp": (lambda x: x.clamp(1.0, 2.0), [0.0, 1.0, 1.5, 2.0], [0.0, 1.0, 1.0, 1.0]),
    "relu": (lambda x: x.relu(), [-1.0, 0.0, 1.0], [0.0, 0.0, 1.0]),
    "cummax": (lambda x: x.cummax(0)[0], [1.0, 2.0, 2.0, 1.0], [1.0, 1.0, 2.0, 0.0]),
    "cummin": (lambda x: x.cummin(0)[0], [2.0, 1.0, 1.0], [1.0, 1.0, 1.0]),
    "max_pool2d": (lambda x: x.reshape(1, 1, 2, 2).max_pool2d(), [3.0, 3.0, 1.0, 3.0], [1 / 3, 1 / 3, 0.0, 1 / 3]),
    "sort": (
        lambda x: x.sort()[0] * Tensor([1.0, 10.0, 100.0], device="PYTHON"),
        [5.0, 1.0, 5.0],
        [10.0, 1.0, 100.0],
    ),
    "topk": (lambda x: x.topk(1)[0], [5.0, 1.0, 5.0], [1.0, 0.0, 0.0]),
    "median": (lambda x: x.median(0)[0], [5.0, 1.0, 3.0], [0.0, 0.0, 1.0]),
    "kthvalue": (lambda x: x.kthvalue(2)[0], [5.0, 1.0, 3.0], [0.0, 0.0, 1.0]),
    "acosh": (lambda x: x.acosh(), [-2.0, -1.0], [1 / math.sqrt(3), math.inf]),
    "abs": (lambda x: x.abs(), [-1.0, 0.0, -0.0], [-1.0, 0.0, 0.0]),
    "sqrt": (lambda x: x.sqrt(), [0.0, 4.0], [math.inf, 0.25]),
    "norm": (lambda x: x.norm() + x.norm(3) + x.norm(1), [0.0, 0.0], [0.0, 0.0]),
    "normalize": (lambda x: x.normalize(dim=0), [0.0, 0.0], [1e12, 1e12]),
    "steps": (lambda x: x.floor() + x.ceil() + x.round() + x.trunc() + x.sign(), [0.0, 0.5, 1.0], [0.0, 0.0, 0.0]),
    "power": (lambda y: Tensor([0.0, 0.0], device="PYTHON") ** y, [0.0, 2.0], [0.0, 0.0]),
    "cast": (lambda x: x.half().float() * 3, [0.1, 0.2], [3.0, 3.0]),
}


@pytest.mark.parametrize("name", CHOICES)
def test_the_choice(name: str) -> None:
    function, point, expected = CHOICES[name]
    x = Tensor(point, device="PYTHON")
    assert function(x).sum().gradient(x)[0].tolist() == pytest.approx(expected)


# what it is in PyTorch -> the same here, and points with all of its corners
ACTIVATIONS: dict[str, tuple[Callable[[Tensor], Tensor], Numbers]] = {
    "relu": (lambda x: x.relu(), [-1.0, -0.0, 0.0, 1.0]),
    "relu6": (lambda x: x.relu6(), [-1.0, 0.0, 3.0, 6.0, 7.0]),
    "leaky_relu": (lambda x: x.leaky_relu(), [-1.0, 0.0, 1.0]),
    "elu": (lambda x: x.elu(2.0), [-1.0, 0.0, 1.0]),
    "celu": (lambda x: x.celu(2.0), [-1.0, 0.0, 1.0]),
    "selu": (lambda x: x.selu(), [-1.0, 0.0, 1.0]),
    "hardtanh": (lambda x: x.hardtanh(), [-2.0, -1.0, 0.0, 1.0, 2.0]),
    "hardsigmoid": (lambda x: x.hardsigmoid(), [-4.0, -3.0, 0.0, 3.0, 4.0]),
    "hardswish": (lambda x: x.hardswish(), [-4.0, -3.0, 0.0, 3.0, 4.0]),
    "softsign": (lambda x: x.softsign(), [-1.0, 0.0, 1.0]),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_have_the_slopes_of_pytorch_at_their_corners(name: str) -> None:
    torch = pytest.importorskip("torch")
    function, points = ACTIVATIONS[name]
    theirs = {"elu": {"alpha": 2.0}, "celu": {"alpha": 2.0}}.get(name, {})
    x, y = Tensor(points, device="PYTHON"), torch.tensor(points, requires_grad=True)
    value = getattr(torch.nn.functional, name)(y, **theirs)
    value.sum().backward()
    assert function(x).tolist() == pytest.approx(value.tolist(), abs=1e-5)
    assert function(x).sum().gradient(x)[0].tolist() == pytest.approx(y.grad.tolist(), abs=1e-5)


@pytest.mark.parametrize("low, high", [(0.0, None), (None, 0.0), (-1.0, 1.0), (1.0, -1.0)])
def test_clamp_has_the_slopes_of_pytorch(low: float | None, high: float | None) -> None:
    torch = pytest.importorskip("torch")
    points = [-2.0, -1.0, 0.0, 1.0, 2.0]
    bounds = [None if bound is None else [bound] * 5 for bound in (low, high)]
    ours = [Tensor(points, device="PYTHON"), *[None if b is None else Tensor(b, device="PYTHON") for b in bounds]]
    theirs = [None if b is None else torch.tensor(b, requires_grad=True) for b in (points, *bounds)]
    torch.clamp(*theirs).sum().backward()
    assert ours[0].clamp(low, high).sum().gradient(ours[0])[0].tolist() == theirs[0].grad.tolist()
    asked = [tensor for tensor in ours if tensor is not None]
    found = ours[0].clamp(ours[1], ours[2]).sum().gradient(*asked)
    assert [g.tolist() for g in found] == [tensor.grad.tolist() for tensor in theirs if tensor is not None]
