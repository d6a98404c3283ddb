"""Random reductions of pieces of shared tensors, several in one kernel, beside NumPy.

Numbers are small integers, so that sums in any order are exact and results are compared to the bit. By hand:

    python tests/fuzz/reductions.py --seed 0 --seconds 600
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from whit import Tensor

SIZES = (1, 2, 3, 4, 6, 8, 12, 16)
LARGE = 3000  # elements above which nothing is repeated


@dataclass(slots=True)
class Value:
    """A tensor, what it should be, and how it was made."""

    tensor: Tensor
    array: np.ndarray
    text: str

    def then(self, text: str, tensor: Tensor, array: np.ndarray) -> Value:
        return Value(tensor, array, f"{self.text}.{text}")


@dataclass(slots=True)
class Program:
    """Values that are realised together."""

    seed: int
    outputs: list[Value] = field(default_factory=list)


Draw = random.Random


def _along(ndim: int, axis: int, this: Any, other: Any) -> tuple[Any, ...]:
    return tuple(this if i == axis else other for i in range(ndim))


def _cat(draw: Draw, v: Value, axis: int) -> Value:
    part = _along(v.array.ndim, axis, slice(0, draw.randint(1, v.array.shape[axis])), slice(None))
    joined = np.concatenate([v.array, v.array[part]], axis)
    return v.then(f"cat([{part}], {axis})", v.tensor.cat(v.tensor[part], dim=axis), joined)


def _interleave(draw: Draw, v: Value, axis: int) -> Value:
    return v.then(f"repeat_interleave(2, {axis})", v.tensor.repeat_interleave(2, axis), np.repeat(v.array, 2, axis))


def _tile(draw: Draw, v: Value, axis: int) -> Value:
    times = _along(v.array.ndim, axis, 2, 1)
    return v.then(f"repeat{times}", v.tensor.repeat(*times), np.tile(v.array, times))


def _pad(draw: Draw, v: Value, axis: int) -> Value:
    widths = _along(v.array.ndim, axis, (draw.randint(0, 2), draw.randint(0, 2)), (0, 0))
    return v.then(f"pad({widths})", v.tensor.pad(widths), np.pad(v.array, widths))


def _insert_zeros(draw: Draw, v: Value, axis: int) -> Value:
    shape = v.array.shape
    apart, widths = (*shape[: axis + 1], 1, *shape[axis + 1 :]), _along(v.array.ndim + 1, axis + 1, (0, 1), (0, 0))
    together = _along(v.array.ndim, axis, 2 * shape[axis], 0)
    together = tuple(new or old for new, old in zip(together, shape, strict=True))
    array = np.pad(v.array.reshape(apart), widths).reshape(together)
    return v.then(f"insert_zeros({axis})", v.tensor.reshape(apart).pad(widths).reshape(together), array)


def _reshape(draw: Draw, v: Value, axis: int) -> Value:
    shape = list(v.array.shape)
    draw.shuffle(shape)
    if len(shape) > 1 and draw.random() < 0.5:
        shape = [shape[0] * shape[1], *shape[2:]]
    return v.then(f"reshape({shape})", v.tensor.reshape(*shape), v.array.reshape(shape))


def _permute(draw: Draw, v: Value, axis: int) -> Value:
    order = list(range(v.array.ndim))
    draw.shuffle(order)
    return v.then(f"permute({order})", v.tensor.permute(*order), v.array.transpose(order))


def _flip(draw: Draw, v: Value, axis: int) -> Value:
    return v.then(f"flip({axis})", v.tensor.flip(axis), np.flip(v.array, axis))


def _slice(draw: Draw, v: Value, axis: int) -> Value:
    start = draw.randrange(v.array.shape[axis])
    part = slice(start, draw.randint(start + 1, v.array.shape[axis]))
    key = _along(v.array.ndim, axis, part, slice(None))
    return v.then(f"[{key}]", v.tensor[key], v.array[key])


def _stack(draw: Draw, v: Value, axis: int) -> Value:
    return v.then(f"stack(+1, {axis})", v.tensor.stack(v.tensor + 1, dim=axis), np.stack([v.array, v.array + 1], axis))


def _distance(draw: Draw, v: Value, axis: int) -> Value:
    return v.then("abs() - 1", v.tensor.abs() - 1, np.abs(v.array) - 1)


GROW: tuple[Callable[[Draw, Value, int], Value], ...] = (_cat, _interleave, _tile, _insert_zeros, _stack)
KEEP: tuple[Callable[[Draw, Value, int], Value], ...] = (_pad, _reshape, _permute, _flip, _slice, _distance)


def _moved(draw: Draw, value: Value) -> Value:
    for _ in range(draw.randint(0, 3)):
        if value.array.ndim:
            steps = KEEP if value.array.size > LARGE else (*GROW, *KEEP)
            value = draw.choice(steps)(draw, value, draw.randrange(value.array.ndim))
    return value


def _weighted(draw: Draw, value: Value) -> Value:
    weights = np.random.default_rng(draw.randrange(1 << 30)).integers(-2, 3, value.array.shape).astype(np.float32)
    return value.then("weighted", value.tensor * Tensor(weights).realize(), value.array * weights)


def _reduced(draw: Draw, value: Value) -> Value:
    name = draw.choice(("sum", "sum", "max", "min"))
    axes = tuple(sorted(draw.sample(range(value.array.ndim), draw.randint(1, value.array.ndim))))
    keep = draw.random() < 0.3
    tensor = getattr(value.tensor, name)(axis=axes, keepdim=keep)
    return value.then(f"{name}({axes}, {keep})", tensor, getattr(value.array, name)(axis=axes, keepdims=keep))


def make_program(seed: int) -> Program:
    """Two to five values of one to three tensors; some are made of others."""
    draw = random.Random(seed)
    numbers = np.random.default_rng(seed)
    known: list[Value] = []
    for i in range(draw.randint(1, 3)):
        array = numbers.integers(-2, 3, [draw.choice(SIZES) for _ in range(draw.randint(1, 4))]).astype(np.float32)
        known.append(Value(Tensor(array).realize(), array, f"t{i}{list(array.shape)}"))
    program = Program(seed)
    for _ in range(draw.randint(2, 5)):
        value = _moved(draw, draw.choice(known))
        if draw.random() < 0.4:
            value = _weighted(draw, value)
        if value.array.ndim and draw.random() < 0.8:
            value = _reduced(draw, value)
            if draw.random() < 0.3:
                value = _moved(draw, value)
                value = _reduced(draw, value) if value.array.ndim else value
        program.outputs.append(value)
        if draw.random() < 0.3:
            known.append(value)
    if draw.random() < 0.35:  # all in one number
        total = sum((v.tensor.sum() for v in program.outputs[1:]), program.outputs[0].tensor.sum())
        number = np.float32(sum(float(v.array.sum()) for v in program.outputs))
        program.outputs = [Value(total, np.asarray(number), " + ".join(v.text for v in program.outputs))]
    return program


def problem_of(program: Program) -> str:
    """What is wrong with the results of a program; nothing if they are right."""
    try:
        Tensor.realize(*(value.tensor for value in program.outputs))
        for value in program.outputs:
            if not np.array_equal(value.tensor.numpy(), value.array):
                return f"seed {program.seed}: {value.text} is {value.tensor.numpy()}, should be {value.array}"
    except Exception as error:
        last = "".join(traceback.format_tb(error.__traceback__)[-2:])
        return f"seed {program.seed}: {type(error).__name__}: {error}\n{last}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first program")
    parser.add_argument("--seconds", type=float, default=60, help="how long")
    options = parser.parse_args()
    start, count, bad = time.perf_counter(), 0, 0
    while time.perf_counter() - start < options.seconds:
        problem = problem_of(make_program(options.seed + count))
        count, bad = count + 1, bad + bool(problem)
        if problem:
            print(problem, flush=True)
    print(f"{count} programs, {bad} wrong")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
