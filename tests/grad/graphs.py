"""Random differentiable programs from a seed: `make_program(seed)` is always the same function at the same point.

Values stay small: what might grow goes through a sine. Where a program has a kink near its point, small steps of
different sizes disagree, and the program says nothing (`difference` gives None).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from grad.methods import names
from whit import Tensor, checkpoint, dtypes
from whit.ir import ops
from whit.ir.uop import UOp, const

STEP = 2e-4
MOST = 60  # elements of a value
Shape = tuple[int, ...]
Step = Callable[[list[Tensor]], Tensor]  # from all values so far to one more


@dataclass(frozen=True)
class Program:
    """A function of the arrays, as a list of steps."""

    seed: int
    arrays: tuple[Any, ...]
    steps: tuple[tuple[str, Step], ...]

    def __call__(self, operands: list[Tensor]) -> Tensor:
        """The number it computes: something of its last values."""
        values = list(operands)
        for _, step in self.steps:
            values.append(step(values))
        total = Tensor(0.0, dtype="double", device=operands[0].device)
        for i, value in enumerate(values[-3:]):
            total = total + (value * weights(value.shape, i, value.device)).sum()
        return total

    def slope(self, operands: list[Tensor]) -> Tensor:
        """A number made of all its gradients."""
        found = self(operands).gradient(*operands)
        total = Tensor(0.0, dtype="double", device=operands[0].device)
        for i, dx in enumerate(found):
            total = total + (dx * weights(dx.shape, 7 + i, dx.device)).sum()
        return total

    @property
    def text(self) -> str:
        """For reports."""
        return f"seed {self.seed}: {[a.shape for a in self.arrays]} " + " ".join(name for name, _ in self.steps)


def weights(shape: Shape, seed: int, device: str) -> Tensor:
    return Tensor(np.asarray(np.random.default_rng([seed, *shape]).uniform(0.5, 1.5, shape)), device=device)


def make_program(seed: int) -> Program:
    """The program of that number."""
    generator = Generator(seed)
    for _ in range(generator.random.choice((2, 3, 4, 6, 9))):
        generator.step()
    return Program(seed, tuple(generator.arrays), tuple(generator.steps))


def operands(program: Program, along: float = 0.0, device: str = "PYTHON") -> list[Tensor]:
    """The operands, moved by a step in a random direction."""
    moved = [np.asarray(a + along * d) for a, d in zip(program.arrays, directions(program), strict=True)]
    return [Tensor(array, device=device) for array in moved]


def directions(program: Program) -> list[Any]:
    generator = np.random.default_rng(program.seed + 1)
    return [np.asarray(generator.uniform(-1, 1, array.shape)) for array in program.arrays]


def difference(program: Program, function: Callable[[list[Tensor]], Tensor]) -> float | None:
    """The derivative along the direction by small steps; None where steps of different sizes disagree."""
    ends = {k: function(operands(program, k * STEP)).item() for k in (-2, -1, 1, 2)}
    small, large = ((ends[k] - ends[-k]) / (2 * k * STEP) for k in (1, 2))
    fine = (4 * small - large) / 3  # without the third derivative
    return float(fine) if np.isfinite(fine) and abs(small - large) < 1e-4 * (1 + abs(fine)) else None


def gradient_along(program: Program, function: Callable[[list[Tensor]], Tensor], device: str = "PYTHON") -> float:
    """The same from the gradient."""
    given = operands(program, device=device)
    found = function(given).gradient(*given)
    Tensor.realize(*found)
    return float(sum((dx.numpy() * d).sum() for dx, d in zip(found, directions(program), strict=True)))


class Generator:
    """Grows a program, one step at a time; knows only shapes."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        numbers = np.random.default_rng(seed)
        self.arrays = [
            np.asarray(numbers.uniform(-2, 2, self.shape())) for _ in range(self.random.choice((1, 2, 2, 3)))
        ]
        self.shapes: list[Shape] = [array.shape for array in self.arrays]
        self.steps: list[tuple[str, Step]] = []

    def shape(self) -> Shape:
        sizes = (1, 2, 3, 4, 5) if self.random.random() < 0.97 else (0, 1, 2)
        found = tuple(self.random.choice(sizes) for _ in range(self.random.choice((0, 1, 1, 2, 2, 3))))
        return found if prod(found) <= MOST else found[:1]

    def step(self) -> None:
        """One more step; another one where the first choice does not fit."""
        while True:
            kind = self.random.choice(KINDS)
            place = self.place()
            made = kind(self, place, self.shapes[place])
            if made is None:
                continue
            step, shape = made
            self.steps.append((kind.__name__, step))
            self.shapes.append(shape)
            return

    def place(self) -> int:
        """Mostly a late value."""
        return max(len(self.shapes) - 1 - int(self.random.expovariate(0.6)), 0)

    def axis(self, shape: Shape) -> int:
        return self.random.randrange(len(shape))

    def partner(self, shape: Shape) -> int | None:
        """A value that broadcasts to a shape."""
        found = [i for i, other in enumerate(self.shapes) if _broadcasts(other, shape)]
        return self.random.choice(found) if found else None


def _broadcasts(small: Shape, large: Shape) -> bool:
    ending = large[len(large) - len(small) :]
    return len(small) <= len(large) and all(a in (1, b) for a, b in zip(small, ending, strict=True))


Made = tuple[Step, Shape] | None

UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    name: getattr(Tensor, name)
    for name in names("sin cos tanh sigmoid gelu softplus silu erf atan asinh square abs relu mish logsigmoid elu")
}
UNARY |= {
    "sqrt": lambda x: (x.abs() + 0.5).sqrt(),
    "log": lambda x: (x.abs() + 0.5).log(),
    "log2": lambda x: (x.square() + 0.5).log2(),
    "reciprocal": lambda x: (x.abs() + 0.5).reciprocal(),
    "rsqrt": lambda x: (x.square() + 0.5).rsqrt(),
    "exp": lambda x: x.sin().exp(),
    "exp2": lambda x: x.sin().exp2(),
    "detached": lambda x: x.detach() * 0.0 + x.sin(),
    "staged": lambda x: x.contiguous() + x.contiguous_backward(),
    "floor": lambda x: x - x.floor(),
    "custom": Tensor.custom_function(lambda x: x.sin() * 1, lambda dy, y, x: dy * x.cos()),
    "recompute": lambda x: checkpoint(lambda x: (x.sin() * x).cos(), x),
}
BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    name: getattr(Tensor, name) for name in names("add sub mul maximum minimum logaddexp")
}
BINARY |= {
    "div": lambda x, y: x / (y.abs() + 0.5),
    "pow": lambda x, y: (x.sin().abs() + 0.5) ** y.sin(),
    "where": lambda x, y: (x > 0.3).where(x, y),
    "lerp": lambda x, y: x.lerp(y, 0.3),
    "recompute": lambda x, y: checkpoint(lambda x: (x * y).sin() * x, x),
    "pair": lambda x, y: checkpoint(lambda x, y: (x.sin() * y, x.cos()), x, y)[0],
}


def unary(g: Generator, i: int, shape: Shape) -> Made:
    function = UNARY[g.random.choice(sorted(UNARY))]
    return lambda values: function(values[i]).sin() * 2, shape


def binary(g: Generator, i: int, shape: Shape) -> Made:
    j = g.partner(shape)
    function = BINARY[g.random.choice(sorted(BINARY))]
    if j is None:
        return None
    return lambda values: function(values[i], values[j] + values[i] * 0 if not shape else values[j]), shape


def reduction(g: Generator, i: int, shape: Shape) -> Made:
    axes = tuple(axis for axis in range(len(shape)) if g.random.random() < 0.5)
    name = g.random.choice(("sum", "mean", "max", "min", "prod", "logsumexp", "var", "norm"))
    if not axes or any(shape[axis] < 2 for axis in axes):
        return None
    keep = g.random.random() < 0.4
    left = tuple(1 if axis in axes else n for axis, n in enumerate(shape) if keep or axis not in axes)

    def step(values: list[Tensor]) -> Tensor:
        x = values[i]
        if name == "norm":
            return (x.square().sum(axes, keepdim=keep) + 0.1).sqrt().sin()
        return getattr(x, name)(axes, keepdim=keep).sin()

    return step, left


def scan(g: Generator, i: int, shape: Shape) -> Made:
    if not shape:
        return None
    axis, back = g.axis(shape), g.random.random() < 0.3
    op = g.random.choice((ops.ADD, ops.MUL, ops.MAX, ops.MIN, ops.LOGADDEXP))
    return lambda values: Tensor(values[i].uop.scan(op, axis, reverse=back)).sin(), shape


def rearranged(g: Generator, i: int, shape: Shape) -> Made:
    if not shape:
        return lambda values: values[i].reshape(1, 1), (1, 1)
    kind = g.random.choice(("permute", "flip", "flatten", "pad", "shrink", "expand", "every", "roll", "repeat"))
    axis = g.axis(shape)
    size = shape[axis]
    rest = shape[:axis], shape[axis + 1 :]
    if kind == "permute":
        order = list(range(len(shape)))
        g.random.shuffle(order)
        return lambda values: values[i].permute(*order), tuple(shape[a] for a in order)
    if kind == "flip":
        return lambda values: values[i].flip(axis) * values[i], shape
    if kind == "flatten":
        return lambda values: values[i].reshape(prod(shape)), (prod(shape),)
    if kind == "roll":
        return lambda values: values[i].roll(1, axis) + values[i], shape
    if kind == "repeat" and 2 * prod(shape) <= MOST:
        return lambda values: values[i].repeat_interleave(2, axis), (*rest[0], 2 * size, *rest[1])
    if kind == "pad":
        pads = [(1, 2) if a == axis else (0, 0) for a in range(len(shape))]
        return lambda values: values[i].pad(tuple(pads)), (*rest[0], size + 3, *rest[1])
    if kind == "shrink" and size > 1:
        return lambda values: values[i].shrink(_window(shape, axis, 1, size)), (*rest[0], size - 1, *rest[1])
    if kind == "every" and size > 1:
        cut = tuple(slice(None, None, 2) if a == axis else slice(None) for a in range(len(shape)))
        return lambda values: values[i][cut], (*rest[0], (size + 1) // 2, *rest[1])
    if kind == "expand" and 3 * prod(shape) <= MOST:
        return lambda values: values[i].unsqueeze(axis).expand(*rest[0], 3, *shape[axis:]), (*rest[0], 3, *shape[axis:])
    return None


def _window(shape: Shape, axis: int, first: int, last: int) -> Any:
    return tuple((first, last) if a == axis else (0, n) for a, n in enumerate(shape))


def joined(g: Generator, i: int, shape: Shape) -> Made:
    same = [j for j, other in enumerate(g.shapes) if other == shape]
    j = g.random.choice(same)
    if g.random.random() < 0.5 or not shape:
        return lambda values: values[i].stack(values[j], dim=0), (2, *shape)
    axis = g.axis(shape)
    size = tuple(2 * n if a == axis else n for a, n in enumerate(shape))
    return lambda values: values[i].cat(values[j], dim=axis), size


def ordered(g: Generator, i: int, shape: Shape) -> Made:
    if not shape:
        return None
    axis = g.axis(shape)
    kind, down = g.random.choice(("sort", "topk", "softmax", "log_softmax", "by")), g.random.random() < 0.5
    if kind == "sort":
        return lambda values: values[i].sort(axis, descending=down)[0], shape
    if kind == "topk" and shape[axis]:
        count = g.random.randint(1, shape[axis])
        size = tuple(count if a == axis else n for a, n in enumerate(shape))
        return lambda values: values[i].topk(count, axis, largest=down)[0], size
    if kind == "by":
        return lambda values: Tensor(values[i].uop.sort((values[i] * 3).sin().uop, axis, shape[axis], down)), shape
    return lambda values: values[i].softmax(axis) if down else values[i].log_softmax(axis).sin(), shape


def product(g: Generator, i: int, shape: Shape) -> Made:
    if len(shape) < 2:
        return None
    return lambda values: (values[i] @ values[i].transpose(-1, -2)).sin(), (*shape[:-1], shape[-2])


def gathered(g: Generator, i: int, shape: Shape) -> Made:
    if not shape or not shape[0]:
        return None
    count = g.random.randint(1, 4)
    places = UOp.stack(*(const(dtypes.int32, g.random.randrange(shape[0])) for _ in range(count)))
    gates = [g.random.random() < 0.7 for _ in range(count)]
    gate = UOp.stack(*(const(dtypes.bool, yes) for yes in gates)) if g.random.random() < 0.5 else None
    return lambda values: Tensor(values[i].uop.index(places, gate=gate)), (count, *shape[1:])


def written(g: Generator, i: int, shape: Shape) -> Made:
    """Some rows of one value, or a part of it, written over by another."""
    j = g.partner(shape[1:]) if shape else None
    if j is None or not shape[0]:
        return None
    combine = g.random.choice((None, None, ops.ADD, ops.MUL, ops.MAX, ops.MIN))
    rows = [g.random.randrange(shape[0]) for _ in range(g.random.randint(1, 4))]
    places = UOp.stack(*(const(dtypes.int32, row) for row in rows))
    first = g.random.randrange(shape[0])
    size, by_place = g.random.randint(1, shape[0] - first), g.random.random() < 0.6

    def step(values: list[Tensor]) -> Tensor:
        x, v = values[i].uop, values[j]
        count = len(rows) if by_place else size
        scale = Tensor(np.linspace(0.4, 1.7, count).reshape((count, *(1,) * (len(shape) - 1))), device=v.device)
        value = (v.broadcast_to((count, *shape[1:])) * scale).uop
        if by_place:
            return Tensor(x.after(x.store(value, places, combine=combine)))
        window = [(first, size), *((0, n) for n in shape[1:])]
        return Tensor(x.after(x.shrink(window).store(value, combine=combine)))

    return step, shape


OFTEN = (unary, binary, rearranged)
KINDS = (*OFTEN, *OFTEN, reduction, scan, joined, ordered, product, gathered, written)
