"""Schedules as machine code, run on memory with guards around it.

programs = [compile_schedule(linear, target) ...]     what is to be run
link(programs, target)                                one module for all of them
program.run(arrays)                                   in place; raises Overwritten if a guard was touched
"""

from __future__ import annotations

import ctypes
import itertools
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from whit.codegen import Program, generate
from whit.ir import ops
from whit.ir.interpret import numpy_dtype
from whit.ir.uop import UOp
from whit.render import render
from whit.runtime.code.gcc import compile_c, load_shared
from whit.runtime.code.library import Library
from whit.runtime.code.llvm import compile_llvm, load_object
from whit.target import Target, host_target, parse_target

GUARD = 256  # bytes before and after each buffer
PATTERN = 0xA5


class OverwrittenError(AssertionError):
    """A kernel wrote outside of its buffers."""


def runnable_targets() -> list[Target]:
    """This machine, and everything simpler that it can run."""
    host = host_target()
    names = ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64")
    others = [parse_target(f"CPU:LLVM:{name}") for name in names]
    return [host, *(t for t in others if t.family == host.family and t.features <= host.features and t != host)]


class Guarded:
    """An array with guard bytes around it; its address is a multiple of the element's size and of nothing else."""

    def __init__(self, dtype: Any, shape: tuple[int, ...], offset: int = 0) -> None:
        size = int(np.prod(shape)) * dtype.itemsize
        self.memory = np.full(size + 2 * GUARD + 128, PATTERN, np.uint8)
        start = GUARD + -(self.memory.ctypes.data + GUARD) % 64 + offset * dtype.itemsize
        self.start, self.stop = start, start + size
        self.array = self.memory[start : start + size].view(dtype).reshape(shape)

    def is_intact(self) -> bool:
        """Whether nothing was written around the array."""
        outside = (self.memory[: self.start], self.memory[self.stop :])
        return all(bool((part == PATTERN).all()) for part in outside)


@dataclass
class Native:
    """The kernels of a schedule, compiled or about to be."""

    linear: UOp
    programs: dict[str, Program]
    library: Library | None = None
    order: random.Random = field(default_factory=lambda: random.Random(0))

    def run(self, arrays: dict[UOp, np.ndarray]) -> None:
        """Calls the kernels one after another; the arrays of the params are written."""
        memory: dict[UOp, Guarded] = {}
        for call in self.linear.src:
            for place in map(memory_of, arguments_of(call)):
                if place not in memory:
                    guarded = Guarded(numpy_dtype(place.dtype), place.shape, self.order.randrange(2))
                    if place in arrays:
                        guarded.array[...] = arrays[place]
                    memory[place] = guarded
        for call, (name, program) in zip(self.linear.src, self.programs.items(), strict=True):
            places = arguments_of(call)
            parts = [shown(place, memory[memory_of(place)].array) for place in places]
            before = [part.copy() for part in parts]
            self._call(name, program, parts)
            written = written_slots(call.src[0].src[0])
            for slot, place in enumerate(places):
                if not memory[memory_of(place)].is_intact():
                    raise OverwrittenError(f"{name} wrote outside of its argument {slot}, {place.short()}")
                if slot not in written and not same_bits(before[slot], parts[slot]):
                    raise OverwrittenError(f"{name} wrote its argument {slot}, {place.short()}, which it only reads")
        for place, guarded in memory.items():
            if place in arrays:
                arrays[place][...] = guarded.array

    def _call(self, name: str, program: Program, arrays: list[np.ndarray]) -> None:
        assert self.library is not None
        buffers = (ctypes.c_void_p * max(len(arrays), 1))(*(array.ctypes.data for array in arrays))
        kernel = self.library.kernel(name)
        numbers = (ctypes.c_int64 * 1)(0)
        for start, stop in self._pieces(program.total):
            kernel(ctypes.addressof(buffers), ctypes.addressof(numbers), start, stop)

    def _pieces(self, total: int) -> list[tuple[int, int]]:
        """The iterations of the cores in pieces, in any order."""
        cuts = sorted({0, total, *(self.order.randint(0, total) for _ in range(3))})
        pieces = list(itertools.pairwise(cuts))
        self.order.shuffle(pieces)
        return pieces


def arguments_of(call: UOp) -> list[UOp]:
    """The memories that a call gets, and parts of memories; no values of variables."""
    return [argument for argument in call.src[1:] if argument.op is not ops.BIND]


def memory_of(place: UOp) -> UOp:
    """The PARAM or BUFFER of which an argument is a part."""
    return memory_of(place.src[0]) if place.op in (ops.SHRINK, ops.RESHAPE) else place


def shown(place: UOp, array: np.ndarray) -> np.ndarray:
    """The part of a memory that an argument is."""
    if place.op is ops.SHRINK:
        return shown(place.src[0], array)[tuple(slice(start, start + length) for start, length in place.arg)]
    return shown(place.src[0], array).reshape(place.shape) if place.op is ops.RESHAPE else array


def written_slots(body: UOp) -> set[int]:
    """The params that a kernel stores into, or sorts in."""
    stored = [node.src[0] for node in body.topological() if node.op is ops.STORE]
    scratch = [memory for node in body.topological() if node.op is ops.SORT for memory in node.src[4:]]
    return {memory.arg.slot for memory in (*stored, *scratch)}


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays are the same, NaNs included."""
    return a.tobytes() == b.tobytes()


def prepare(linear: UOp, target: Target, prefix: str = "k") -> Native:
    """The programs of a schedule's kernels, under names that start with the prefix."""
    programs = {f"{prefix}_{i}": generate(call.src[0].src[0], target) for i, call in enumerate(linear.src)}
    return Native(linear, programs)


def link(natives: Iterable[Native], target: Target) -> None:
    """Compiles all programs as one module."""
    natives = list(natives)
    texts = {name: program.linear for native in natives for name, program in native.programs.items()}
    if not texts:
        return
    if target.renderer == "C":
        library = load_shared(compile_c(render(texts, target), target, level=0))
    else:
        library = load_object(compile_llvm(render(texts, target), target))
    for native in natives:
        native.library = library
