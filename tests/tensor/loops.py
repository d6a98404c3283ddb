"""Loops written out in Python, which `whit.scan` must agree with, and steps for both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import whit
from whit import Tensor

Scan = Callable[..., Any]
HIDDEN = 3


def written_out(f: Callable[..., Any], init: Any, xs: Any, reverse: bool = False) -> Any:
    """What `scan` gives, step by step."""
    state, rows = init, []
    (first, *_) = whit.tensor.nested.tensors_in(xs)
    order = range(first.shape[0])
    for step in reversed(order) if reverse else order:
        state, row = f(state, whit.map_tensors(lambda tensor, at=step: tensor[at], xs))
        rows.append(row)
    one, *others = reversed(rows) if reverse else rows
    return state, whit.map_tensors(lambda y, *more: y.stack(*more), one, *others)


def lstm(state: tuple[Tensor, Tensor], x: Tensor, weight: Tensor, bias: Tensor) -> Any:
    h, c = state
    take, forget, new, give = (x + h @ weight + bias).chunk(4, dim=-1)
    c = forget.sigmoid() * c + take.sigmoid() * new.tanh()
    h = give.sigmoid() * c.tanh()
    return (h, c), h


def arguments(steps: int, dtype: str = "float64") -> list[Tensor]:
    """Inputs, weight, bias, and first states of an LSTM."""
    random = np.random.default_rng(steps)
    shapes = [(steps, 2, 4 * HIDDEN), (HIDDEN, 4 * HIDDEN), (4 * HIDDEN,), (2, HIDDEN), (2, HIDDEN)]
    return [Tensor(random.normal(size=shape).astype(dtype)) for shape in shapes]


def results(scan: Scan, reverse: bool = False) -> Callable[..., tuple[Tensor, ...]]:
    """The last state and the outputs of an LSTM, by a scan."""

    def run(x: Tensor, weight: Tensor, bias: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
        (h, c), ys = scan(lambda state, part: lstm(state, part, weight, bias), (h, c), x, reverse=reverse)
        return h, c, ys

    return run


def loss(scan: Scan, reverse: bool = False) -> Callable[..., Tensor]:
    """A number to differentiate."""

    def run(*args: Tensor) -> Tensor:
        h, c, ys = results(scan, reverse)(*args)
        return (ys * ys).sum() + h.sin().sum() + 2 * c.sum()

    return run


def agree(found: Any, wanted: Any, off: float = 1e-7) -> None:
    """Tensors in containers are nearly equal."""
    pairs = zip(whit.tensor.nested.tensors_in(found), whit.tensor.nested.tensors_in(wanted), strict=True)
    for one, other in pairs:
        assert one.dtype is other.dtype
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=off, atol=off)
