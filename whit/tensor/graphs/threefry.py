"""Random bits: Threefry-2x32 with 20 rounds, as integer arithmetic on positions.

    draw = next_draw(6, "CPU")           # counters 0..5 of the current seed; the next draw starts at 6
    high, low = words(draw, (2, 3))      # two nodes of 32 random bits at every position

Value i of a draw is a function of the seed and of the number that it has among all values drawn since `seed_with`:
block(key = seed, counter = start + i). Nothing else enters, so the bits are the same on every device, under every
schedule, whenever they are computed, and in whatever shape; and no two draws share a counter.

Seed and start lie in a small buffer that the graph reads, so another draw of the same shape is the same kernel. Whoever
replays a graph can give it another draw: `draw_of` tells which buffers are draws, and of how many values.

J. Salmon, M. Moraes, R. Dror, D. Shaw: Parallel random numbers: as easy as 1, 2, 3. SC 2011.
"""

from __future__ import annotations

import struct
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

from whit.dtype import DType, dtypes, encode
from whit.engine.programs.overlay import current
from whit.errors import ArgumentError, NotSupportedError
from whit.ir.op import Shape
from whit.ir.placeholder import new_stand_in
from whit.ir.sizes import Size, is_at_most, settled, value_now
from whit.ir.uop import UOp, const
from whit.records import dataclass
from whit.tensor.engine import from_bytes
from whit.transform.active import active

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
ROUNDS = 20

_WORD = 2**32 - 1
_BITS: dict[int, DType] = {1: dtypes.int8, 2: dtypes.int16, 4: dtypes.int32, 8: dtypes.int64}


@dataclass(frozen=True, slots=True)
class Draw:
    """Counters start .. start + count - 1 of a seed."""

    seed: int
    start: int
    count: int


@dataclass(slots=True)
class _State:
    """The one generator of a process. It is no cache: it is what the user seeds."""

    seed: int = 0
    used: int = 0


_state = _State()
_lock = threading.Lock()
_draws: weakref.WeakKeyDictionary[UOp, Draw] = weakref.WeakKeyDictionary()


def seed_with(seed: int) -> None:
    """Starts over with the numbers of this seed."""
    if isinstance(seed, bool) or not hasattr(seed, "__index__") or not -(2**63) <= seed.__index__() < 2**64:
        raise ArgumentError(f"manual_seed: {seed!r} is no seed", fix="Use an integer of at most 64 bits.")
    trace = current()
    if trace is not None:
        trace.seed_with(seed.__index__() % 2**64)
        return
    with _lock:
        _state.seed, _state.used = seed.__index__() % 2**64, 0


def state() -> tuple[int, int]:
    """The seed, and how many values were drawn since it was set."""
    _check_not_traced("get_rng_state")
    with _lock:
        return _state.seed, _state.used


def set_state(seed: int, used: int) -> None:
    """Goes on where `state` was asked."""
    _check_not_traced("set_rng_state")
    with _lock:
        _state.seed, _state.used = seed, used


def _check_not_traced(name: str) -> None:
    trace = current()
    if trace is not None:
        raise trace.fail(
            f"{name}: the random numbers are saved or set while {trace.name} is captured",
            "each replay draws others",
            "Do it outside of the function.",
        )


class Draws:
    """The draws of a body that runs again and again: what stands for those of a step, and how many values they have."""

    def __init__(self, refusal: str = "") -> None:
        self.made: list[tuple[UOp, Size]] = []
        self._refusal = refusal  # why there are none
        self.around = len(active())  # transforms that were there before

    def draw(self, size: Size, device: str) -> UOp:
        """What stands for one."""
        if self._refusal:
            raise NotSupportedError(self._refusal, fix="Draw before the loop, and let steps take their parts.")
        node = new_stand_in(dtypes.uint32, (4,), device)
        self.made.append((node, size))
        return node


class _Drawing(threading.local):
    """Whose bodies this thread runs, the innermost last."""

    def __init__(self) -> None:
        self.bodies: tuple[Draws, ...] = ()


_drawing = _Drawing()


@contextmanager
def drawing(draws: Draws) -> Iterator[None]:
    """Meanwhile draws are those of a body."""
    before = _drawing.bodies
    _drawing.bodies = (*before, draws)
    try:
        yield
    finally:
        _drawing.bodies = before


def transforms_around() -> int:
    """How many of the transforms that this thread is in are around the innermost body that runs again and again."""
    return _drawing.bodies[-1].around if _drawing.bodies else 0


def draws_of_steps(size: Size, length: Size, device: str) -> UOp:
    """Draws of so many values for each of so many steps, (length, 4), from one draw of all."""
    draw = next_draw(settled(size * length), device)
    low, high = (draw.shrink([(i, 1)]).cast(dtypes.uint64) for i in (2, 3))
    steps = UOp.arange(length, dtypes.uint64)
    each = const(dtypes.uint64, size) if isinstance(size, int) else size.cast(dtypes.uint64)
    start = (low + (high << 32)).reshape((1,)).expand((length,)) + steps * each.reshape((1,)).expand((length,))
    seeds = [draw.shrink([(i, 1)]).reshape((1,)).expand((length,)) for i in (0, 1)]
    words = [*seeds, start.cast(dtypes.uint32), (start >> 32).cast(dtypes.uint32)]
    return UOp.stack(*words).permute((1, 0))


def next_draw(size: Size, device: str) -> UOp:
    """A BUFFER with the seed and the first of as many counters as `size` is now, which nobody had before."""
    if _drawing.bodies:
        return _drawing.bodies[-1].draw(size, device)
    trace = current()
    if trace is not None:
        return trace.draw(size, device, dtypes.uint32)
    count = value_now(size) or 0
    with _lock:
        draw = Draw(_state.seed, _state.used, count)
        _state.used += count
    node = from_bytes(generator.counter_bytes(draw.seed, draw.start), dtypes.uint32, (4,), device)
    _draws[node] = draw
    return node


class _Generator:
    """The generator, for who replays a graph."""

    def reserve(self, count: int, reseed: int | None = None, used: int = 0) -> tuple[int, int]:
        """The seed of the process and the first of `count` counters, as if `used` values had been drawn. A program
        that sets the seed on the way leaves it at `reseed`, with `used` values drawn."""
        with _lock:
            found = (_state.seed, _state.used)
            _state.used += count
            if reseed is not None:
                _state.seed, _state.used = reseed, used
        return found

    def counter_bytes(self, seed: int, start: int) -> bytes:
        """What is in the buffer of a draw."""
        return struct.pack("<4I", seed & _WORD, seed >> 32, start & _WORD, start >> 32 & _WORD)


generator = _Generator()


def draw_of(node: UOp) -> Draw | None:
    """What a buffer draws, if it is one of `next_draw`."""
    return _draws.get(node)


def fixed(dtype: DType, value: float) -> UOp:
    """A number that belongs to a formula. The engine passes constants to kernels, so that the user can vary them; those
    behind a bitcast it leaves in the code."""
    bits = encode(dtype, value)
    signed = bits - 2 ** (8 * dtype.itemsize) if bits >> (8 * dtype.itemsize - 1) else bits
    return const(_BITS[dtype.itemsize], signed).bitcast(dtype)


def words(draw: UOp, shape: Shape, offset: Any = 0) -> tuple[UOp, UOp]:
    """Two words of random bits at every position of a shape, from the counters of a draw after `offset`."""
    key0, key1, low, high = (draw.shrink([(i, 1)]).reshape(()) for i in range(4))
    count = settled(prod(shape))
    is_long = is_at_most(count + offset, 2**32) is not True
    place = UOp.arange(count, dtypes.uint64 if is_long else dtypes.uint32).reshape(shape)
    if isinstance(offset, UOp):
        place = place + offset.cast(place.dtype)
    elif offset:
        place = place + fixed(place.dtype, offset)
    first = place.cast(dtypes.uint32) + low
    second = (first < low).cast(dtypes.uint32) + high
    if place.dtype is dtypes.uint64:
        second = second + (place >> 32).cast(dtypes.uint32)
    return block(key0, key1, first, second)


def _sum(x: UOp, y: UOp, signed: bool) -> UOp:
    """x + y. The simplifier writes sums of sums as one, and each x0 is a sum with the one before, which is needed too:
    258 additions a value instead of 48. Every other one is made of signed integers, and so stands alone."""
    if not signed:
        return x + y
    return (x.bitcast(dtypes.int32) + y.bitcast(dtypes.int32)).bitcast(dtypes.uint32)


def block(key0: UOp, key1: UOp, x0: UOp, x1: UOp) -> tuple[UOp, UOp]:
    """The two words that a key makes of a counter."""
    keys = (key0, key1, key0 ^ key1 ^ fixed(dtypes.uint32, PARITY))
    x0, x1 = x0 + keys[0], x1 + keys[1]
    for group in range(ROUNDS // 4):
        for i, turn in enumerate(ROTATIONS[group % 2]):
            x0 = _sum(x0, x1, signed=i % 2 == 1)
            x1 = ((x1 << turn) | (x1 >> (32 - turn))) ^ x0
        x0 = x0 + keys[(group + 1) % 3]
        x1 = x1 + (keys[(group + 2) % 3] + fixed(dtypes.uint32, group + 1))
    return x0, x1
