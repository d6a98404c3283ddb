"""Random programs of windows at three variables: what NumPy says where they fit, the same error in a call and a replay
where they do not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest

from whit import Context, Tensor, TinyJit, Variable
from whit.errors import UserError

SIZE = 24
X = np.random.default_rng(0).standard_normal((3, SIZE)).astype(np.float32)
VARIABLES = (Variable("a", 0, SIZE), Variable("b", 0, SIZE), Variable("c", 1, 6))

Values = list[Any]  # of the variables: numbers, or bound ones
Place = Callable[[Values], Any]
Step = Callable[[Any, Values], Any]


def place(random: Random) -> Place:
    """A position that depends on variables."""
    i, j, k = random.randrange(3), random.randrange(3), random.randrange(5)
    places: list[Place] = [
        lambda v: v[i],
        lambda v: v[i] + k,
        lambda v: v[i] + v[j],
        lambda v: v[i] * 2,
        lambda v: v[i] // 2 + k,
        lambda v: SIZE - v[i],
        lambda v: v[i] * 3 - k,
        lambda v: v[i] + v[j] - k,
    ]
    return random.choice(places)


def padded(x: Any, before: Any, after: Any) -> Any:
    pads = ((0, 0), (before, after))
    return x.pad(pads) if isinstance(x, Tensor) else np.pad(x, pads)


def step(random: Random) -> Step:
    """A window, or what changes where one begins."""
    first, last = place(random), place(random)
    steps: list[Step] = [
        lambda x, v: x[:, first(v) : last(v)],
        lambda x, v: x[:, first(v) : first(v) + 2],
        lambda x, v: x[:, : last(v)],
        lambda x, v: x[:, first(v) :],
        lambda x, v: x[:, first(v) : first(v) + v[2]],
        lambda x, v: padded(x, 0, v[2]),
        lambda x, v: padded(x[:, : last(v)], first(v), 0),
        lambda x, v: x.flip(1) if isinstance(x, Tensor) else x[:, ::-1],
        lambda x, v: x.realize() if isinstance(x, Tensor) else x,
    ]
    return random.choice(steps)


def program(random: Random) -> Step:
    """A few steps, and a kernel."""
    steps = [step(random) for _ in range(random.randrange(1, 4))]
    is_sum = random.random() < 0.3

    def run(x: Any, values: Values) -> Any:
        for each in steps:
            x = each(x, values)
        return x.sum(1) if is_sum else x * 2

    return run


def outcome(run: Callable[[], Tensor]) -> Any:
    """The elements, or the error."""
    try:
        return run().numpy()
    except UserError as error:
        return type(error), error.what


@pytest.mark.slow
@pytest.mark.parametrize("device", ["PYTHON", pytest.param("CPU", marks=pytest.mark.cpu)])
@pytest.mark.parametrize("seed", range(30))
def test_random_windows_mean_what_numpy_says(seed: int, device: str) -> None:
    random = Random(seed)
    run, x = program(random), Tensor(X, device=device).realize()
    captured = TinyJit(lambda a, b, c: run(x, [a, b, c]))
    for _ in range(6):
        values = [random.randrange(SIZE + 1), random.randrange(SIZE + 1), random.randrange(1, 7)]
        values = values if random.random() < 0.5 else [values[0] % 6, values[1] % 8 + 5, values[2]]
        bound = [variable.bind(value) for variable, value in zip(VARIABLES, values, strict=True)]
        with Context(VERIFY=1):
            found, again = outcome(partial(run, x, bound)), outcome(partial(captured, *bound))
        if isinstance(found, tuple):
            assert again == found
            continue
        wanted = run(X, values)
        assert found.shape == again.shape == wanted.shape
        assert np.allclose(found, wanted, atol=1e-4)
        assert np.allclose(again, wanted, atol=1e-4)
