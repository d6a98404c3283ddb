"""Random programs of reads and writes, on whit's graphs and on NumPy arrays that are copied before every write.

A name stands for a content. A write makes a new content, and either replaces the name (then nobody may see the old one
any more, and its memory may be overwritten) or keeps the old one beside it.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from whit.config import Context
from whit.dtype import dtypes
from whit.engine.memory.holders import Kept
from whit.engine.memory.storage import from_bytes
from whit.engine.memory.values import from_numpy, to_numpy
from whit.engine.realize import changes
from whit.engine.realize.realize import realize
from whit.ir import ops
from whit.ir.uop import UOp

pytestmark = pytest.mark.slow  # many

ROWS, COLUMNS = 4, 6
COMBINE = {None: None, ops.ADD: np.add, ops.MAX: np.maximum, ops.MIN: np.minimum}


class Program:
    """Names with their graphs and what they should be."""

    def __init__(self, seed: int, device: str) -> None:
        self.random = random.Random(seed)
        self.device = device
        self.names: list[Kept] = []
        self.arrays: list[np.ndarray] = []
        for _ in range(2):
            self.create()

    def add(self, graph: UOp, array: np.ndarray) -> None:
        self.names.append(Kept(graph))
        self.arrays.append(array)
        if len(self.names) > 6:
            self.drop()

    def drop(self) -> None:
        i = self.pick()
        del self.names[i], self.arrays[i]

    def pick(self) -> int:
        return self.random.randrange(len(self.names))

    def create(self) -> None:
        array = np.array([self.random.randrange(-9, 9) for _ in range(ROWS * COLUMNS)], np.int32).reshape(ROWS, COLUMNS)
        kind = self.random.randrange(3)
        if kind == 0:
            self.add(from_bytes(array.tobytes(), dtypes.int32, array.shape, self.device), array)
        elif kind == 1:
            self.add(from_numpy(array.copy(), self.device), array)
        else:
            number = self.random.randrange(5)
            zeros = UOp.const(dtypes.int32, number).reshape((1, 1)).expand((ROWS, COLUMNS))
            self.add(zeros, np.full((ROWS, COLUMNS), number, np.int32))

    def window(self, rows: int | None = None, columns: int | None = None) -> tuple[tuple[int, int], tuple[int, int]]:
        found = []
        for wanted, size in ((rows, ROWS), (columns, COLUMNS)):
            length = wanted or self.random.randint(1, size)
            found.append((self.random.randint(0, size - length), length))
        return found[0], found[1]

    def value(self, rows: int, columns: int) -> tuple[UOp, np.ndarray]:
        """Something of this shape that is read from one or two names."""
        graph, array = self.part(rows, columns)
        if self.random.random() < 0.4:
            other, numbers = self.part(rows, columns)
            graph, array = graph + other, array + numbers
        if self.random.random() < 0.3:
            graph, array = graph * 2 + 1, array * 2 + 1
        return graph, array.astype(np.int32)

    def part(self, rows: int, columns: int) -> tuple[UOp, np.ndarray]:
        i = self.pick()
        graph, array = self.names[i].uop, self.arrays[i]
        kind = self.random.randrange(5)
        if kind == 0:
            graph, array = graph.flip((1,)), array[:, ::-1]
        elif kind == 1:
            graph, array = graph.flip((0,)), array[::-1]
        elif kind == 2:
            row = graph.reduce(ops.ADD, (0,)).reshape((1, COLUMNS)).expand((ROWS, COLUMNS))
            graph, array = row, np.broadcast_to(array.sum(0, dtype=np.int32), (ROWS, COLUMNS))
        (r, _), (c, _) = self.window(rows, columns)
        return graph.shrink(((r, rows), (c, columns))), array[r : r + rows, c : c + columns]

    def view(self, graph: UOp, array: np.ndarray) -> tuple[UOp, np.ndarray]:
        """A target: a view of a graph, and the same of an array."""
        kind = self.random.randrange(5)
        if kind == 0:
            (r, rows), (c, columns) = self.window()
            return graph.flip((1,)).shrink(((r, rows), (c, columns))), array[:, ::-1][r : r + rows, c : c + columns]
        if kind == 1:
            first = self.random.randrange(2)
            every = graph.reshape((ROWS, COLUMNS // 2, 2)).shrink(((0, ROWS), (0, COLUMNS // 2), (first, 1)))
            return every.reshape((ROWS, COLUMNS // 2)), array[:, first::2]
        if kind == 2:
            return graph.permute((1, 0)).shrink(((1, 3), (0, 2))), array.T[1:4, 0:2]
        (r, rows), (c, columns) = self.window()
        return graph.shrink(((r, rows), (c, columns))), array[r : r + rows, c : c + columns]

    def write(self) -> None:
        i = self.pick()
        graph, array = self.names[i].uop, self.arrays[i].copy()
        stores = []
        if self.random.random() < 0.25:
            value, numbers = self.value(ROWS, COLUMNS)
            if self.random.random() < 0.5:
                value, numbers = value + graph, numbers + array
            array = numbers.copy()
            stores.append(graph.store(value))
        for _ in range(self.random.choice([1, 1, 1, 2]) if not stores else 0):
            stores.append(self.scatter(graph, array) if self.random.random() < 0.3 else self.assign(graph, array))
        new = graph.after(*stores)
        if self.random.random() < 0.6:
            self.names[i], self.arrays[i] = Kept(new), array
        else:
            self.add(new, array)

    def assign(self, graph: UOp, array: np.ndarray) -> UOp:
        target, place = self.view(graph, array)
        value, numbers = self.value(*place.shape)
        combine: Any = self.random.choice([None, None, None, *COMBINE])
        if self.random.random() < 0.2:
            mask, wanted = self.value(*place.shape)
            place[...] = np.where(wanted < 0, self.combined(combine, place, numbers), place)
            return target.store(value, combine=combine, gate=mask < 0)
        place[...] = self.combined(combine, place, numbers)
        return target.store(value, combine=combine)

    @staticmethod
    def combined(combine: Any, old: np.ndarray, new: np.ndarray) -> np.ndarray:
        return new if combine is None else COMBINE[combine](old, new)  # type: ignore[misc]

    def scatter(self, graph: UOp, array: np.ndarray) -> UOp:
        count = self.random.randint(1, 5)
        rows = np.array([self.random.randrange(-1, ROWS + 1) for _ in range(count)], np.int32)
        index = from_numpy(rows, self.device)
        inside = (index >= 0) & (index < ROWS)
        combine: Any = self.random.choice(list(COMBINE))
        keep = (rows >= 0) & (rows < ROWS)
        value, numbers = self.value(1, COLUMNS)
        spread = value.expand((count, COLUMNS)) + index.reshape((count, 1)).expand((count, COLUMNS))
        numbers = np.broadcast_to(numbers, (count, COLUMNS)) + rows[:, None]
        if combine is None:
            for row, line in zip(rows[keep], numbers[keep], strict=True):
                array[row] = line
        else:
            COMBINE[combine].at(array, rows[keep], numbers[keep])
        return graph.store(spread, index, combine=combine, gate=inside)

    def realize(self) -> None:
        chosen = [i for i in range(len(self.names)) if self.random.random() < 0.5]
        results = realize([self.names[i].uop for i in chosen], self.device)
        for i, result in zip(chosen, results, strict=True):
            np.testing.assert_array_equal(to_numpy(result), self.arrays[i])
            if self.random.random() < 0.7:
                self.names[i] = Kept(result)

    def derive(self) -> None:
        graph, array = self.value(ROWS, COLUMNS)
        self.add(graph, array.copy())

    def step(self) -> None:
        action = self.random.choices([self.write, self.realize, self.derive, self.create], [5, 3, 1.5, 0.5])[0]
        action()

    def finish(self) -> None:
        for name, array in zip(self.names, self.arrays, strict=True):
            np.testing.assert_array_equal(to_numpy(realize([name.uop], self.device)[0]), array)


@pytest.fixture(autouse=True)
def reuse_small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "LEAST_REUSED_BYTES", 1)


@pytest.mark.parametrize("seed", [*range(40), 200056, 200110])
def test_a_random_program_on_the_interpreter(seed: int) -> None:
    program = Program(seed, "PYTHON")
    for _ in range(25):
        program.step()
    program.finish()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("noopt", [0, 1], ids=["optimised", "plain"])
def test_a_random_program_on_the_cpu(seed: int, noopt: int) -> None:
    with Context(NOOPT=noopt):
        program = Program(seed + 1000, "CPU")
        for _ in range(20):
            program.step()
        program.finish()
