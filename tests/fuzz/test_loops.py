"""Random steps, in random nests: `whit.scan` gives what the loop in Python does, and so do its gradients."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tensor.loops import agree, written_out

import whit
from whit import Tensor

SIZE = 3
Values = list[Tensor]

ONE: list[Callable[[Tensor], Tensor]] = [
    lambda a: a.sin(),
    lambda a: a.tanh() * 1.5,
    lambda a: a.flip(0),
    lambda a: a.softmax(0),
    lambda a: a.cumsum(0) * 0.5,
    lambda a: a.roll(1, 0),
    lambda a: a * 0.5 + 0.25,
    lambda a: a.sum().expand(SIZE) * 0.3,
    lambda a: a[1:].pad((0, 1)),
    lambda a: a.sort(0)[0],
    lambda a: a.detach() + a * 0.5,
    lambda a: a[Tensor([2, 0, 1])],
]
TWO: list[Callable[[Tensor, Tensor], Tensor]] = [
    lambda a, b: a + b,
    lambda a, b: a * b,
    lambda a, b: a.maximum(b),
    lambda a, b: (a > b).where(a, b * 0.5),
    lambda a, b: a.reshape(SIZE, 1).matmul(b.reshape(1, SIZE)).sum(0) * 0.2,
    lambda a, b: whit.cond(a.sum() > b.sum(), lambda u, v: u - v, lambda u, v: u * 0.5 + v.cos(), a, b),
]


def program(chosen: random.Random, scan: Callable[..., Any], constants: Values, depth: int) -> Callable[..., Any]:
    """A function of one step, made of choices that depend on `chosen` alone."""
    ops = [(chosen.random(), chosen.randrange(99), chosen.randrange(99), chosen.randrange(99)) for _ in range(6)]
    states, outputs = chosen.randrange(1, 3), chosen.randrange(0, 3)
    picks = [chosen.randrange(99) for _ in range(states + outputs)]
    inner = program(chosen, scan, constants, depth - 1) if depth else None
    is_reversed, seed = chosen.random() < 0.5, chosen.randrange(99)

    def step(state: Values, x: Tensor) -> Any:
        values = [*state, x, *constants]
        for share, which, a, b in ops:
            first, second = values[a % len(values)], values[b % len(values)]
            if inner is not None and share < 0.2:
                width = inner.states  # type: ignore[attr-defined]
                begin = [values[(seed + i) % len(values)] for i in range(width)]
                last, _ = scan(inner, begin, first.stack(second, x), reverse=is_reversed)
                values.append(last[0] * 0.5)
            elif share < 0.6:
                values.append(ONE[which % len(ONE)](first))
            else:
                values.append(TWO[which % len(TWO)](first, second))
        found = [values[pick % len(values)].tanh() for pick in picks]
        return found[:states], found[states:]

    step.states = states  # type: ignore[attr-defined]
    return step


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(n, marks=pytest.mark.slow) for n in range(8, 60))])
def test_random_steps(seed: int) -> None:
    numbers = np.random.default_rng(seed)
    count, is_reversed = seed % 4 + 1, bool(seed % 2)
    xs, constants = (Tensor(numbers.normal(size=(n, SIZE))) for n in (count, 2))

    def results(scan: Callable[..., Any]) -> Callable[..., Any]:
        def run(xs: Tensor, constants: Tensor, init: Tensor) -> Any:
            step = program(random.Random(seed), scan, [constants[0], constants[1]], depth=seed % 3 == 0)
            begin = [init * (i + 1) for i in range(step.states)]  # type: ignore[attr-defined]
            return scan(step, begin, xs, reverse=is_reversed)

        return run

    def loss(scan: Callable[..., Any]) -> Callable[..., Tensor]:
        def run(*args: Tensor) -> Tensor:
            found = whit.tensor.nested.tensors_in(results(scan)(*args))
            total: Tensor = sum((each * (i + 1)).sum() for i, each in enumerate(found))
            return total

        return run

    given = (xs, constants, Tensor(numbers.normal(size=SIZE)))
    agree(results(whit.scan)(*given), results(written_out)(*given), 1e-9)
    every = (0, 1, 2)
    agree(whit.grad(loss(whit.scan), argnums=every)(*given), whit.grad(loss(written_out), argnums=every)(*given), 1e-7)
    moves = tuple(tensor * 0.5 for tensor in given)
    agree(whit.jvp(loss(whit.scan), given, moves)[1], whit.jvp(loss(written_out), given, moves)[1], 1e-7)
    many = xs.stack(xs * 0.5)
    mapped, wanted = [whit.vmap(lambda a, s=scan: loss(s)(a, *given[1:]))(many) for scan in (whit.scan, written_out)]
    agree(mapped, wanted, 1e-9)
