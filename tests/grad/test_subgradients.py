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
    "clamp": (lambda x: x.clamp(1.0, 2.0), [0.0, 1.0, 1.5, 2.0], [0.0, 0.5, 1.0, 0.5]),
    "relu": (lambda x: x.relu(), [-1.0, 0.0, 1.0], [0.0, 0.5, 1.0]),
    "cummax": (lambda x: x.cummax(0), [1.0, 2.0, 2.0, 1.0], [1.0, 3.0, 0.0, 0.0]),
    "cummin": (lambda x: x.cummin(0), [2.0, 1.0, 1.0], [1.0, 2.0, 0.0]),
    "max_pool2d": (lambda x: x.reshape(1, 1, 2, 2).max_pool2d(), [3.0, 3.0, 1.0, 3.0], [1 / 3, 1 / 3, 0.0, 1 / 3]),
    "sort": (
        lambda x: x.sort()[0] * Tensor([1.0, 10.0, 100.0], device="PYTHON"),
        [5.0, 1.0, 5.0],
        [10.0, 1.0, 100.0],
    ),
    "topk": (lambda x: x.topk(1)[0], [5.0, 1.0, 5.0], [1.0, 0.0, 0.0]),
    "median": (lambda x: x.median(0)[0], [5.0, 1.0, 3.0], [0.0, 0.0, 1.0]),
    "kthvalue": (lambda x: x.kthvalue(2)[0], [5.0, 1.0, 3.0], [0.0, 0.0, 1.0]),
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
