"""`torch.Generator`: random numbers of their own, beside those that `manual_seed` starts.

    generator = torch.Generator().manual_seed(0)
    torch.randn(3, generator=generator)

A generator is a seed and the number of values drawn from it (docs/random.md); drawing with one leaves the others alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from whit.errors import ArgumentError
from whit.tensor.graphs.threefry import seed_with, set_state, state


class Generator:
    """A seed, and how many values were drawn from it."""

    def __init__(self, device: Any = "CPU") -> None:
        self.device = device
        self._state = (0, 0)

    def manual_seed(self, seed: int) -> Generator:
        """Starts over with a seed."""
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise ArgumentError(f"manual_seed: {seed!r} is no seed", fix="Use an integer of at most 64 bits.")
        self._state = (seed % 2**64, 0)
        return self

    def initial_seed(self) -> int:
        """The seed."""
        return self._state[0]

    def seed(self) -> int:
        """Starts over with a seed that the system gives, and returns it."""
        return self.manual_seed(fresh_seed()).initial_seed()

    def get_state(self) -> tuple[int, int]:
        """The seed, and how many values were drawn."""
        return self._state

    def set_state(self, new_state: tuple[int, int]) -> None:
        """Goes on where `get_state` was asked."""
        self._state = (int(new_state[0]), int(new_state[1]))


class _Default(Generator):
    """The generator of all who name none."""

    def __init__(self) -> None:
        self.device = "CPU"

    @property
    def _state(self) -> tuple[int, int]:  # that of the process
        return state()

    @_state.setter
    def _state(self, value: tuple[int, int]) -> None:
        set_state(*value)


default_generator: Generator = _Default()


def fresh_seed() -> int:
    """A seed that nobody knows."""
    return int.from_bytes(os.urandom(8), "little")


@contextmanager
def drawing(generator: Generator | None) -> Iterator[None]:
    """Draws in this block are those of a generator."""
    if generator is None or generator is default_generator:
        yield
        return
    if not isinstance(generator, Generator):
        raise ArgumentError(f"generator={generator!r:.60} is no generator", fix="Make one: torch.Generator().")
    outside = state()
    set_state(*generator.get_state())
    try:
        yield
    finally:
        generator.set_state(state())
        set_state(*outside)


def manual_seed(seed: int) -> Generator:
    """Starts the random numbers of all who name no generator."""
    seed_with(seed)
    return default_generator


def seed() -> int:
    """The same with a seed that the system gives; returns it."""
    found = fresh_seed()
    seed_with(found)
    return found


def initial_seed() -> int:
    """The seed that was set last."""
    return state()[0]


def get_rng_state() -> tuple[int, int]:
    """The seed, and how many values were drawn."""
    return state()


def set_rng_state(new_state: tuple[int, int]) -> None:
    """Goes on where `get_rng_state` was asked."""
    set_state(int(new_state[0]), int(new_state[1]))


@contextmanager
def fork_rng(devices: Any = None, enabled: bool = True) -> Iterator[None]:
    """Draws in this block leave those after it as they would have been."""
    before = state()
    try:
        yield
    finally:
        if enabled:
            set_state(*before)
