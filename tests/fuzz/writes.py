"""Random programs of writes: copies, views, scatters, assignments and points where some of it is realised.

    program = make_program(7)          # always the same one
    print(program.text)                # to be pasted into a test
    program.check("CPU")               # raises with the text where a value differs from NumPy's

Every tensor has an array that NumPy makes in the same way, and NumPy decides what is a view. All numbers are whole and
small, so that sums are exact in any order.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from whit import Context, Tensor

SHAPES = ((4,), (6,), (2, 3), (3, 2), (3, 4), (1, 4), (2, 1), (2, 3, 2), (5,), (1,))
MOST = 1 << 20  # beyond this a sum might not be exact
Array = Any
Environment = dict[str, Array]


class DiffersError(AssertionError):
    """A value is not NumPy's."""


@dataclass(slots=True)
class Step:
    """A line of the program, and what NumPy does for it."""

    text: str
    numpy: Callable[[Environment], None]


@dataclass(slots=True)
class Program:
    """Lines, and the names of what is looked at in the end."""

    seed: int
    steps: list[Step] = field(default_factory=list)
    looked_at: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The program as Python."""
        lines = [step.text for step in self.steps]
        return "\n".join([*lines, *(f"print({name}.tolist())" for name in self.looked_at)])

    def wanted(self) -> Environment:
        """What NumPy computes."""
        arrays: Environment = {}
        for step in self.steps:
            step.numpy(arrays)
        return arrays

    def check(self, device: str, noopt: bool = False) -> None:
        """Compares every value with NumPy's."""
        wanted = self.wanted()
        names: dict[str, Any] = {"Tensor": Tensor}
        with Context(DEV=device, NOOPT=noopt):
            try:
                exec("\n".join(step.text for step in self.steps), names)
                for name in self.looked_at:
                    found = names[name].numpy()
                    if found.shape != wanted[name].shape or not np.array_equal(found, wanted[name]):
                        raise DiffersError(f"{name} is {found.tolist()}, and should be {wanted[name].tolist()}")
            except Exception as error:
                raise DiffersError(f"seed {self.seed} on {device}{' NOOPT' * noopt}: {error}\n{self.text}") from error


def literal(array: Array) -> str:
    """An array as a list."""
    return str(array.tolist())


class Generator:
    """The state of making one program."""

    def __init__(self, seed: int, length: int) -> None:
        self.random = random.Random(seed)
        self.program = Program(seed)
        self.arrays: Environment = {}
        self.count = 0
        for _ in range(2):
            self.fresh()
        while len(self.program.steps) < length:
            self.random.choice(STEPS)(self)
        self.program.looked_at = list(self.arrays)
        self.random.shuffle(self.program.looked_at)

    # ---- what steps are made of

    def do(self, text: str, numpy: Callable[[Environment], None]) -> None:
        """One more step, unless its numbers get too large."""
        numpy(self.arrays)
        self.program.steps.append(Step(text, numpy))

    def define(self, text: str, value: Callable[[Environment], Array]) -> None:
        """A new tensor. NumPy's value may be a view."""
        if np.abs(value(self.arrays)).max(initial=0) > MOST:
            return
        self.count += 1
        name = f"v{self.count}"
        self.do(f"{name} = {text}", lambda env: env.__setitem__(name, value(env)))

    def any(self) -> str:
        """One of the tensors, rather a late one."""
        names = list(self.arrays)
        return self.random.choice(names[-4:] if self.random.random() < 0.6 else names)

    def like(self, shape: tuple[int, ...]) -> tuple[str, Callable[[Environment], Array]]:
        """A value of a shape: a tensor, something made of one, or numbers."""
        names = [name for name, array in self.arrays.items() if array.shape == shape]
        kind = self.random.randrange(5)
        if names and kind:
            name = self.random.choice(names)
            return self.random.choice(
                [
                    (name, lambda env: env[name]),
                    (name, lambda env: env[name]),
                    (f"{name}.abs()", lambda env: np.abs(env[name])),
                    (f"({name} + 1)", lambda env: env[name] + 1),
                    (f"{name}.contiguous()", lambda env: env[name].copy()),
                    (f"{name}.flip(0)", lambda env: np.flip(env[name], 0)),
                ]
            )
        if self.random.random() < 0.3:
            sizes = ", ".join(map(str, shape))
            return f"Tensor.ones({sizes})", lambda env: np.ones(shape, np.float32)
        array = self.numbers(shape)
        return f"Tensor({literal(array)})", lambda env: array

    def numbers(self, shape: tuple[int, ...]) -> Array:
        """Small whole numbers."""
        count = int(np.prod(shape))
        return np.array([float(self.random.randint(-3, 3)) for _ in range(count)], np.float32).reshape(shape)

    def positions(self, shape: tuple[int, ...], size: int) -> tuple[str, Array]:
        """Positions on an axis: data, a constant, or a row that is repeated."""
        kind = self.random.randrange(4)
        if kind == 0:
            place = self.random.randrange(size)
            return f"Tensor.full({shape}, {place})", np.full(shape, place)
        if kind == 1 and len(shape) == 2:
            row = np.array([self.random.randrange(size) for _ in range(shape[1])])
            return f"Tensor({row.tolist()}).reshape(1, {shape[1]}).expand{shape}", np.broadcast_to(row, shape)
        count = int(np.prod(shape))
        places = np.array([self.random.randrange(size) for _ in range(count)]).reshape(shape)
        return f"Tensor({places.tolist()})", places

    # ---- steps

    def fresh(self) -> None:
        """A tensor of numbers, in memory or not."""
        array = self.numbers(self.random.choice(SHAPES))
        how = self.random.choice(("", " * 1", ".realize()", " * 2"))
        factor = 2 if how == " * 2" else 1
        self.define(f"Tensor({literal(array)}){how}", lambda env: array * factor)

    def computed(self) -> None:
        """Something elementwise, or along an axis."""
        name = self.any()
        shape = self.arrays[name].shape
        other, value = self.like(shape)
        self.define(
            *self.random.choice(
                [
                    (f"{name} + {other}", lambda env: env[name] + value(env)),
                    (f"{name} - {other}", lambda env: env[name] - value(env)),
                    (f"{name}.maximum({other})", lambda env: np.maximum(env[name], value(env))),
                    (f"{name}.abs()", lambda env: np.abs(env[name])),
                    (
                        f"({name} > 0).where({name}, {other})",
                        lambda env: np.where(env[name] > 0, env[name], value(env)),
                    ),
                    (f"{name}.cumsum(0)", lambda env: np.cumsum(env[name], 0, dtype=np.float32)),
                    (f"{name}.cummin(0)[0]", lambda env: np.minimum.accumulate(env[name], 0)),
                    (f"{name}.sum(0, keepdim=True)", lambda env: env[name].sum(0, keepdims=True)),
                    (f"{name}.max(-1, keepdim=True)", lambda env: env[name].max(-1, keepdims=True)),
                    (f"{name}.cat({name}, dim=0)", lambda env: np.concatenate([env[name], env[name]])),
                    (f"{name}.sort(0)[0]", lambda env: np.sort(env[name], 0)),
                ]
            )
        )

    def copy(self) -> None:
        """The same value again."""
        name = self.any()
        how = self.random.choice(("clone", "contiguous"))
        self.define(f"{name}.{how}()", lambda env: env[name].copy())

    def view(self) -> None:
        """Elements that are shared."""
        name = self.any()
        shape = self.arrays[name].shape
        start = self.random.randrange(shape[0])
        choices: list[tuple[str, Callable[[Environment], Array]]] = [
            (f"{name}[{start}:]", lambda env: env[name][start:]),
            (f"{name}.flip(0)", lambda env: env[name][::-1]),
            (f"{name}[::2]", lambda env: env[name][::2]),
        ]
        if len(shape) > 1:
            choices += [
                (f"{name}[:, 0]", lambda env: env[name][:, 0]),
                (f"{name}.transpose(0, 1)", lambda env: np.swapaxes(env[name], 0, 1)),
            ]
        self.define(*self.random.choice(choices))

    def scattered(self) -> None:
        """A copy with something combined into it."""
        name = self.any()
        shape = self.arrays[name].shape
        axis = self.random.randrange(len(shape))
        method = self.random.choice(("index_add", "scatter_add", "scatter", "amax", "sum", "prod"))
        if method == "index_add":
            count = self.random.randint(1, 3)
            text, places = self.positions((count,), shape[axis])
            source, value = self.like((*shape[:axis], count, *shape[axis + 1 :]))

            def added(env: Environment) -> Array:
                result = env[name].copy()
                np.add.at(np.moveaxis(result, axis, 0), places, np.moveaxis(value(env), axis, 0))
                return result

            self.define(f"{name}.index_add({axis}, {text}, {source})", added)
            return
        text, places = self.positions(shape, shape[axis])
        source, value = self.like(shape)
        call = {
            "scatter_add": f"scatter_add({axis}, {text}, {source})",
            "scatter": f"scatter({axis}, {text}, {source})",
        }.get(method, f'scatter_reduce({axis}, {text}, {source}, "{method}")')
        combine = {"scatter_add": np.add, "sum": np.add, "amax": np.maximum, "prod": np.multiply}.get(method)

        def scatter(env: Environment) -> Array:
            result, values = env[name].copy(), value(env)
            for index in np.ndindex(shape):
                place = (*index[:axis], places[index], *index[axis + 1 :])
                result[place] = values[index] if combine is None else combine(result[place], values[index])
            return result

        self.define(f"{name}.{call}", scatter)

    def written(self) -> None:
        """A write into a tensor, and so into all that share its elements."""
        name = self.any()
        array = self.arrays[name]
        shape = array.shape
        start = self.random.randrange(shape[0])
        stop = self.random.randint(start + 1, shape[0])
        kind = self.random.randrange(6)
        if kind == 0:
            text, value = self.like(shape)
            self.write(f"{name} += {text}", name, lambda env: np.add(env[name], value(env)), ...)
        elif kind == 1:
            text, value = self.like(shape)
            self.write(f"{name}.assign({text})", name, value, ...)
        elif kind == 2:
            text, value = self.like((stop - start, *shape[1:]))
            self.write(f"{name}[{start}:{stop}] = {text}", name, value, slice(start, stop))
        elif kind == 3:
            number = self.random.randint(-3, 3)
            self.write(f"{name}[{start}] = {number}", name, lambda env: np.float32(number), start)
        elif kind == 4:
            places = self.random.sample(range(shape[0]), self.random.randint(1, shape[0]))
            text, value = self.like((len(places), *shape[1:]))
            self.write(f"{name}[Tensor({places})] = {text}", name, value, places)
        else:
            number = self.random.randint(-3, 3)
            text = f"{name}[{name} > {number}] = {number}"
            self.do(text, lambda env: env[name].__setitem__(env[name] > number, number))

    def write(self, text: str, name: str, value: Callable[[Environment], Array], index: Any) -> None:
        """One write; NumPy reads all of the value before."""
        if np.abs(value(self.arrays)).max(initial=0) > MOST:
            return
        self.do(text, lambda env: env[name].__setitem__(index, np.array(value(env))))

    def realised(self) -> None:
        """Some of the tensors, in any order."""
        names = list(self.arrays)
        chosen = self.random.sample(names, self.random.randint(1, min(4, len(names))))
        self.do(f"Tensor.realize({', '.join(chosen)})", lambda env: None)

    def forgotten(self) -> None:
        """A tensor that nobody has any more."""
        if len(self.arrays) > 3:
            name = self.random.choice(list(self.arrays))
            self.do(f"del {name}", lambda env: env.__delitem__(name))


STEPS: tuple[Callable[[Generator], None], ...] = (
    Generator.fresh,
    *(Generator.computed,) * 4,
    *(Generator.copy,) * 3,
    *(Generator.view,) * 3,
    *(Generator.scattered,) * 5,
    *(Generator.written,) * 5,
    *(Generator.realised,) * 2,
    Generator.forgotten,
)


def make_program(seed: int, length: int = 0) -> Program:
    """The program of a number."""
    return Generator(seed, length or 3 + seed % 17).program


def main() -> None:
    """python tests/fuzz/writes.py FIRST COUNT [DEVICE]: how many programs differ, and the shortest text."""
    import sys  # here: only by hand

    first, count, *rest = sys.argv[1:]
    device = rest[0] if rest else "CPU"
    failures = []
    for seed in range(int(first), int(first) + int(count)):
        try:
            make_program(seed).check(device)
        except DiffersError as error:
            failures.append(str(error))
            print(f"{len(failures)} of {seed - int(first) + 1}: {str(error)[:200]}", flush=True)
    if failures:
        print(min(failures, key=len))
    print(f"{count} programs, {len(failures)} wrong")


if __name__ == "__main__":
    main()
