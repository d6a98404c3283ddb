"""When shapes come that were not seen before: one program for all of them, or one for each.

    many = ManySizes()
    many.note_own(shapes, ...)      a program was made for these shapes alone
    choice = many.choose(shapes)    sizes that change as variables, if one program may serve
    many.add(program, choice, ...)  it does
    many.find(shapes)               that program, for these shapes

The first shape has a program of its own: it may be the only one. Of the second one it is known which sizes change, so
a program is tried in which they are variables. A size is a variable times the power of two that divides all that were
seen, if it is 8 at least (so images whose sizes are multiples of 32 have programs that know that); sizes that were
equal in all calls are one variable. What does not fit (a size beyond the bounds, another divisor, sizes that are no
longer equal) makes the next program, which serves what the last one did, too.

A program for many sizes may be slower than one for a shape. By how much is measured when it is made. A shape whose
calls have together lost the time that its own program costs gets one: so neither compiling nor waiting is ever much
more than twice the least that was possible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd
from time import perf_counter
from typing import Any, Final

from whit.ir.uop import UOp
from whit.onnx.capture import Program
from whit.records import dataclass, field
from whit.tensor import Tensor
from whit.tensor.core import Core

MOST_PROGRAMS: Final = 6  # that are kept for one kind of inputs
MOST_TRIES: Final = 24  # and that are made: each knows less than the one before, so few are ever needed
UNITS: Final = (8, 32)  # the least and the largest but 1, powers of two: what nets of images halve five times
ROOM: Final = 1.25  # by which the largest size of a program is above those that were seen, at least
MORE_ROOM: Final = 1.6  # the same where the last program had too little
MOST_BYTES: Final = 4 << 30  # of temporaries of a program, which are planned for its largest sizes
WORTH: Final = 1.3  # times as slow: below that, a shape never gets a program of its own
SEEN: Final = 64  # shapes that are remembered

Shape = tuple[int, ...]
Place = tuple[int, int]  # which tensor, and which of its axes


@dataclass(frozen=True)
class Dimension:
    """A size that changes: a variable times a unit, at some places of the inputs."""

    name: str
    unit: int
    low: int
    high: int
    places: tuple[Place, ...]

    def value(self, shapes: Sequence[Shape]) -> int | None:
        """The variable for these shapes; None if they do not fit."""
        sizes = {shapes[tensor][axis] for tensor, axis in self.places}
        if len(sizes) != 1:
            return None
        value, rest = divmod(sizes.pop(), self.unit)
        return value if not rest and self.low <= value <= self.high else None

    def size(self, value: int) -> UOp:
        """The size of a shape."""
        bound = UOp.variable(self.name, self.low, self.high).bind(value)
        return bound * self.unit if self.unit > 1 else bound


@dataclass(frozen=True)
class Choice:
    """Which sizes are variables; all others are those of `shapes`."""

    shapes: tuple[Shape, ...]
    dimensions: tuple[Dimension, ...]

    def values(self, shapes: Sequence[Shape]) -> dict[str, int] | None:
        """The values of the variables for these shapes; None if they do not fit."""
        places = {place for dimension in self.dimensions for place in dimension.places}
        for number, (known, given) in enumerate(zip(self.shapes, shapes, strict=True)):
            for axis, size in enumerate(known):
                if given[axis] != size and (number, axis) not in places:
                    return None
        found = {}
        for dimension in self.dimensions:
            value = dimension.value(shapes)
            if value is None:
                return None
            found[dimension.name] = value
        return found

    def symbolic(self, shapes: Sequence[Shape]) -> list[tuple[Any, ...]]:
        """The shapes with their variables, bound to these values."""
        result: list[list[Any]] = [list(shape) for shape in shapes]
        for dimension in self.dimensions:
            value = dimension.value(shapes)
            if value is None:
                raise AssertionError("the shapes fit")
            for tensor, axis in dimension.places:
                result[tensor][axis] = dimension.size(value)
        return [tuple(shape) for shape in result]


@dataclass(slots=True)
class Sized:
    """A program for many sizes."""

    program: Program
    choice: Choice
    loss: float  # the part of its time that a program for the shape alone would not take
    seconds: float  # what that would cost to make


@dataclass(slots=True)
class Served:
    """Such a program for one shape."""

    sized: Sized
    values: dict[str, int]
    lost: float = 0.0  # seconds

    def __call__(self, tensors: Sequence[Core]) -> Any:
        """Runs it; None if it does not fit."""
        sized = self.sized
        if not sized.loss:
            return sized.program(tensors, self.values)
        start = perf_counter()
        found = sized.program(tensors, self.values)
        self.lost += (perf_counter() - start) * sized.loss
        return found

    def is_too_slow(self) -> bool:
        """Whether a program for this shape alone would have paid by now."""
        return self.lost > self.sized.seconds


@dataclass(slots=True)
class ManySizes:
    """The shapes of one kind of inputs, and the programs for many of them; the newest first."""

    seen: list[tuple[Shape, ...]] = field(default_factory=list)  # the first one, and the newest
    own: tuple[Shape, ...] = ()  # those that have got a program of their own last
    programs: list[Sized] = field(default_factory=list)
    tries: int = 0
    key: Any = None  # of that part
    stop: int = 0  # the step at which it ends
    seconds: float = 0.0  # what it took to make
    is_long: bool = False  # no size is below half of what was seen, so that windows fit
    why_not: str = ""  # there is no program for many sizes

    def note(self, shapes: Sequence[Shape]) -> None:
        """Remembers shapes."""
        known = tuple(shapes)
        if known not in self.seen:
            self.seen.append(known)
            del self.seen[1:-SEEN]

    def note_own(self, shapes: Sequence[Shape], key: Any, stop: int, seconds: float) -> None:
        """A program was made for these shapes alone."""
        self.note(shapes)
        self.own, self.key, self.stop, self.seconds = tuple(shapes), key, stop, seconds

    def find(self, shapes: Sequence[Shape]) -> Served | None:
        """A program for many sizes that serves these."""
        for sized in self.programs:
            values = sized.choice.values(shapes)
            if values is not None and sized.program.replay.program.fits(values):
                self.note(shapes)
                return Served(sized, values)
        return None

    def add(self, program: Program, choice: Choice, own: Any, tensors: Sequence[Core]) -> None:
        """A program was made for many sizes. `own` is the last one for one shape, to compare with."""
        if program.replay.program.arena() > MOST_BYTES:
            self.why_not = "the temporaries of a program for the largest sizes take too much memory"
            return
        sized = Sized(program, choice, 0.0, self.seconds)
        shapes = self.own
        values = choice.values(shapes)
        if isinstance(own, Program) and values is not None:
            ones = [
                Tensor.ones(*shape, dtype=like.dtype, device=like.device).contiguous().realize()
                for shape, like in zip(shapes, tensors, strict=True)
            ]
            mine, its = _best_time(lambda: program(ones, values)), _best_time(lambda: own(ones))
            sized.loss = max(1 - its / mine, 0.0) if mine and mine > WORTH * its else 0.0
        self.programs.insert(0, sized)
        del self.programs[MOST_PROGRAMS:]

    def fails(self, why: str) -> bool:
        """A program for many sizes could not be made; whether another one is worth a try."""
        if self.is_long:
            self.why_not = why
        self.is_long = True
        return not self.why_not

    def choose(self, shapes: Sequence[Shape]) -> Choice | None:
        """Variables for the sizes that change; None if one program cannot serve."""
        if not self.own or self.why_not or self.tries >= MOST_TRIES:
            return None
        now = tuple(shapes)
        usable = [known for known in self.seen if _is_like(known, now)]
        groups: dict[tuple[int, ...], list[Place]] = {}
        for tensor, axis in _changing([now, *usable]):
            groups.setdefault(tuple([known[tensor][axis] for known in (now, *usable)]), []).append((tensor, axis))
        if not groups:
            return None
        room = MORE_ROOM if self.tries else ROOM
        self.tries += 1
        dimensions = [
            _dimension(f"size{n}", sizes, places, room, self.is_long)
            for n, (sizes, places) in enumerate(groups.items())
        ]
        return Choice(now, tuple(dimensions))


def _best_time(run: Callable[[], Any]) -> float:
    """Seconds of the shorter of two calls, after one that is not counted."""
    run()
    found = []
    for _ in range(2):
        start = perf_counter()
        run()
        found.append(perf_counter() - start)
    return min(found)


def _is_like(shapes: tuple[Shape, ...], others: tuple[Shape, ...]) -> bool:
    """Whether shapes differ in sizes that one program can have: one of 1 is broadcast, one of 0 is nothing."""
    pairs = ((a, b) for one, other in zip(shapes, others, strict=True) for a, b in zip(one, other, strict=True))
    return all(a == b or min(a, b) > 1 for a, b in pairs)


def _changing(seen: list[tuple[Shape, ...]]) -> list[Place]:
    """The places where shapes differ."""
    first = seen[0]
    return [
        (tensor, axis)
        for tensor, shape in enumerate(first)
        for axis, size in enumerate(shape)
        if any(other[tensor][axis] != size for other in seen)
    ]


def _dimension(name: str, sizes: tuple[int, ...], places: list[Place], room: float, is_long: bool) -> Dimension:
    least, largest = UNITS
    unit = min(_power_of_two(gcd(*sizes)), largest)
    unit = unit if unit >= least else 1  # lengths of texts, say: the next one is odd
    high = 1 << (int(max(sizes) * room) - 1).bit_length()
    low = max(1 << ((min(sizes) // 2).bit_length() - 1), unit) // unit if is_long else 1
    return Dimension(name, unit, low if unit > 1 else max(low, 2), high // unit, tuple(places))


def _power_of_two(number: int) -> int:
    return number & -number
