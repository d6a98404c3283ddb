"""Random functions that read and write arguments, captured tensors and views of them, called several times with other
things going on in between. Under TinyJit everything that can be seen is what it is without."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from whit import Context, Tensor, TinyJit

pytestmark = pytest.mark.slow

ROWS, COLUMNS = 3, 4
Pool = list[Tensor]


def elsewhere(a: Tensor) -> str:
    """Another device than that of a tensor."""
    return "CPU:1" if a.device == "CPU" else "CPU"


def changed_elsewhere(a: Tensor, number: int, row: int) -> Tensor:
    """A copy on another device with one row replaced, and back."""
    there = a.to(elsewhere(a))
    there[row] = there[row - 1] + number
    return there.to(a.device)


class Maker:
    """Random instructions on a pool of tensors of one shape; the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def value(self) -> Callable[[Pool], Tensor]:
        """Something of the shape that is read from the pool."""
        i, j, kind = self.random.randrange(100), self.random.randrange(100), self.random.randrange(10)
        number = self.random.randrange(-3, 4)

        def compute(pool: Pool) -> Tensor:
            a, b = pool[i % len(pool)], pool[j % len(pool)]
            if kind == 0:
                return a + b
            if kind == 1:
                return a * 2 - number
            if kind == 2:
                return a.flip(0) + number
            if kind == 3:
                return a.sum(1, keepdim=True) - b
            if kind == 4:
                return a.reshape(COLUMNS, ROWS).T.contiguous() % 5
            if kind == 5:
                return (a > b).where(a, number)
            if kind == 6:
                return a + Tensor.randint(ROWS, COLUMNS, high=5)
            if kind == 7:
                return (a.to(elsewhere(a)) - number).to(a.device) + b
            if kind == 8:
                return changed_elsewhere(a * 2 if number else a, number, j % ROWS)
            return Tensor.cat(b[1:], a[:1])

        return compute

    def write(self) -> Callable[[Pool], Any]:
        """Changes one of the pool."""
        i, kind, value = self.random.randrange(100), self.random.randrange(8), self.value()
        row, start = self.random.randrange(ROWS), self.random.randrange(COLUMNS - 1)
        stop = self.random.randrange(start + 1, COLUMNS + 1)

        def change(pool: Pool) -> None:
            tensor, new = pool[i % len(pool)], value(pool) % 100
            if kind == 0:
                tensor.assign(new)
            elif kind == 1:
                tensor[row] = new[0]
            elif kind == 2:
                tensor[:, start:stop] += new[:, start:stop]
            elif kind == 3:
                tensor += new
            elif kind == 4:
                tensor.T[start] = new[:, 0]
            elif kind == 5:
                part = tensor[row:]
                part -= new[row:]
            elif kind == 6:
                tensor.replace(new)
            else:
                tensor.assign(new).realize()

        return change

    def body(self) -> Callable[[Pool], list[Tensor]]:
        """A function of a pool."""
        steps: list[tuple[str, Any]] = []
        for _ in range(self.random.randrange(2, 7)):
            kind = self.random.choice(["write", "write", "value", "view", "output", "realize"])
            if kind in ("write", "value", "output"):
                steps.append((kind, self.write() if kind == "write" else self.value()))
            else:
                steps.append((kind, self.random.randrange(100)))

        def run(pool: Pool) -> list[Tensor]:
            local, results = list(pool), []
            for kind, step in steps:
                if kind == "write":
                    step(local)
                elif kind == "value":
                    local.append(step(local))
                elif kind == "output":
                    results.append(step(local))
                elif kind == "view":
                    local.append(local[step % len(local)].flip(1))
                else:
                    local[step % len(local)].realize()
            return results

        return run


def seen_by(seed: int, jit: Any) -> list[Any]:
    """What can be seen of a program."""
    maker = Maker(seed)
    chance = maker.random
    Tensor.manual_seed(seed)
    captured = [Tensor([[chance.randrange(9) for _ in range(COLUMNS)] for _ in range(ROWS)]) for _ in range(3)]
    if chance.random() < 0.3:
        captured[1] = Tensor.full((ROWS, COLUMNS), 2)
    if chance.random() < 0.4:
        captured.append(captured[0].flip(0))
    if chance.random() < 0.3:
        captured.append(captured[2] + 1)
    count = chance.randrange(3)
    first, second = maker.body(), maker.body()
    functions = [jit(lambda *args: first([*captured, *args])), jit(lambda *args: second([*args, *captured]))]
    lazy: list[Tensor] = []
    seen: list[Any] = []
    for _ in range(5):
        arguments = [Tensor([[chance.randrange(9)] * COLUMNS] * ROWS) for _ in range(count)]
        if count and chance.random() < 0.3:
            arguments[0] = chance.choice([captured[0], captured[1].flip(0), captured[2] * 2, arguments[-1]])
        results = chance.choice(functions)(*arguments)
        seen.append([t.tolist() for t in [*results, *captured, *arguments]])
        kind = chance.randrange(6)
        tensor = chance.choice(captured)
        if kind == 0:
            lazy.append(tensor * 3)
        elif kind == 1:
            lazy.append(tensor[1:])
        elif kind == 2:
            lazy.clear()
        elif kind == 3:
            tensor[0] = 7
        elif kind == 4:
            lazy += results
        else:
            tensor.assign(tensor + 1).realize()
    seen.append([t.tolist() for t in [*lazy, *captured]])
    return seen


@pytest.mark.parametrize("seed", range(25))
def test_random_program_gives_the_same(seed: int) -> None:
    with Context(DEV="PYTHON"):
        assert seen_by(seed, TinyJit) == seen_by(seed, lambda function: function)
