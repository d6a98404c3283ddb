"""Random programs of views, lazy values, reads and writes, on tensors and on NumPy arrays side by side.

Every tensor has an array that was made in the same way. NumPy decides what is a view and what a copy. Reading any
tensor at any time must give what its array holds.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tensor.interpreted import interpreted
from whit import Context, Tensor

SHAPES = ((), (1,), (4,), (6,), (2, 3), (3, 2), (3, 4), (4, 1), (2, 3, 2), (0, 3), (2, 1, 3))
MOST = 12  # tensors at a time
BINARY = (operator.iadd, operator.isub, operator.imul, operator.iand, operator.ior, operator.ixor)

counts = {"steps": 0}


@st.composite
def slices(draw: Any, size: int) -> Any:
    ends = st.none() | st.integers(-size - 1, size + 1)
    return slice(draw(ends), draw(ends), draw(st.sampled_from((None, 1, -1, 2, -2, 3))))


@st.composite
def basic(draw: Any, shape: tuple[int, ...]) -> Any:
    """An index of integers, slices, None and ... ."""
    entries: list[Any] = []
    for size in shape[: draw(st.integers(0, len(shape)))]:
        if draw(st.integers(0, 4)) == 4:
            entries.append(None)
        if size and draw(st.booleans()):
            entries.append(draw(st.integers(-size, size - 1)))
        else:
            entries.append(draw(slices(size)))
    if draw(st.integers(0, 3)) == 3:
        entries.append(Ellipsis)
    return tuple(entries)


@st.composite
def advanced(draw: Any, shape: tuple[int, ...]) -> Any:
    """An index with arrays of positions or a mask in it."""
    if draw(st.booleans()):
        axes = draw(st.integers(1, len(shape)))
        bits = st.lists(st.booleans(), min_size=int(np.prod(shape[:axes])), max_size=int(np.prod(shape[:axes])))
        return (np.array(draw(bits), np.bool_).reshape(shape[:axes]),)
    entries: list[Any] = []
    common = draw(st.sampled_from(((1,), (2,), (3,), (2, 2))))
    place = draw(st.integers(0, len(shape) - 1))
    for axis, size in enumerate(shape):
        if size and (axis == place or draw(st.integers(0, 2)) == 2):
            flat = st.lists(st.integers(-size, size - 1), min_size=int(np.prod(common)), max_size=int(np.prod(common)))
            entries.append(np.array(draw(flat), np.int64).reshape(common))
        else:
            entries.append(draw(slices(size)))
    return tuple(entries)


def as_tensors(index: Any) -> Any:
    return tuple(Tensor(entry) if isinstance(entry, np.ndarray) else entry for entry in index)


def own(array: Any) -> Any:
    """A copy in row-major order."""
    return np.array(array, np.int32, order="C")


class Effects(RuleBasedStateMachine):
    """`pool` is a list of pairs: a tensor and its array."""

    def on_device(self) -> Any:
        """Everything runs here."""
        return interpreted()

    def __init__(self) -> None:
        super().__init__()
        self.context: Any = self.on_device()
        self.context.__enter__()
        self.pool: list[tuple[Tensor, Any]] = []

    def teardown(self) -> None:
        try:
            for tensor, array in self.pool:
                self.compare(tensor, array)
        finally:
            self.context.__exit__(None, None, None)

    def compare(self, tensor: Tensor, array: Any) -> None:
        counts["steps"] += 1
        assert tensor.shape == array.shape
        np.testing.assert_array_equal(tensor.numpy(), array)

    def pick(self, data: Any) -> tuple[Tensor, Any]:
        counts["steps"] += 1
        return self.pool[-1 - data.draw(st.integers(0, len(self.pool) - 1))]

    def add(self, tensor: Tensor, array: Any) -> None:
        assert tensor.shape == array.shape
        self.pool.append((tensor, array))
        if len(self.pool) > MOST:
            del self.pool[0]

    def values(self, data: Any, shape: tuple[int, ...]) -> Any:
        start = data.draw(st.integers(-9, 9))
        return own(np.arange(start, start + int(np.prod(shape))).reshape(shape))

    # ---- tensors

    @initialize(data=st.data())
    def first(self, data: Any) -> None:
        self.create(data)

    @rule(data=st.data())
    def create(self, data: Any) -> None:
        shape = data.draw(st.sampled_from(SHAPES))
        kind = data.draw(st.integers(0, 2))
        array = self.values(data, shape)
        if kind == 0:
            self.add(Tensor(array.tolist(), dtype="int32").reshape(shape), array)
        elif kind == 1:
            self.add(Tensor(array.copy()) * 2, own(array * 2))
        else:
            self.add(Tensor.full(shape, 7, dtype="int32"), np.full(shape, 7, np.int32))

    @rule(data=st.data())
    def view(self, data: Any) -> None:
        tensor, array = self.pick(data)
        kind = data.draw(st.integers(0, 6))
        if kind <= 1:
            index = data.draw(basic(array.shape))
            # With `...` NumPy gives an array, and a view, also of one element.
            self.add(tensor[index], array[index if Ellipsis in index else (*index, Ellipsis)])
        elif kind == 2:
            order = data.draw(st.permutations(range(array.ndim)))
            self.add(tensor.permute(tuple(order)), array.transpose(order))
        elif kind == 3 and array.ndim:
            axis = data.draw(st.integers(0, array.ndim - 1))
            self.add(tensor.flip(axis), np.flip(array, axis))
        elif kind == 4:
            self.add(tensor.detach().squeeze(), array.squeeze())
        elif kind == 5 and array.ndim >= 2:
            offset = data.draw(st.integers(-1, 1))
            window = np.diagonal(array, offset)
            window.setflags(write=array.flags.writeable)
            self.add(tensor.diagonal(offset), window)
        else:
            new = data.draw(st.sampled_from(((3, *array.shape), (2, 1, *array.shape))))
            self.add(tensor.expand(new), np.broadcast_to(array, new))

    @rule(data=st.data())
    def reshape(self, data: Any) -> None:
        tensor, array = self.pick(data)
        count = array.size
        fitting = [shape for shape in (*SHAPES, (12,), (2, 6), (1, 4, 3), (2, 2, 3)) if np.prod(shape) == count]
        shape = data.draw(st.sampled_from([*fitting, (count,), (count, 1), array.shape[::-1]]))
        changed, expected = tensor.reshape(shape), array.reshape(shape)
        if count and array.flags.writeable and changed is not tensor:
            assert (changed._family is not None and changed._family is tensor._family) == np.shares_memory(
                expected, array
            )
        self.add(changed, expected)

    @rule(data=st.data())
    def lazy(self, data: Any) -> None:
        tensor, array = self.pick(data)
        other, second = self.pick(data)
        if second.shape == array.shape:
            self.add(tensor * 3 + other, own(array * np.int32(3) + second))
        elif array.ndim:
            self.add(tensor.sum(0) + 1, own(array.sum(0, dtype=np.int32) + 1))
        else:
            self.add(-tensor, own(-array))

    @rule(data=st.data())
    def copy(self, data: Any) -> None:
        tensor, array = self.pick(data)
        kind = data.draw(st.integers(0, 4))
        if kind == 0:
            self.add(tensor.clone(), own(array))
        elif kind == 1:
            self.add(tensor.contiguous(), own(array))
        elif kind == 2:
            self.add(Tensor(tensor), own(array))
        elif array.ndim:
            index = data.draw(advanced(array.shape))
            self.add(tensor[as_tensors(index)], own(array[index]))

    @precondition(lambda self: len(self.pool) > 1)
    @rule(data=st.data())
    def forget(self, data: Any) -> None:
        counts["steps"] += 1
        del self.pool[data.draw(st.integers(0, len(self.pool) - 1))]

    # ---- reading

    @rule(data=st.data())
    def read(self, data: Any) -> None:
        self.compare(*self.pick(data))

    @rule(data=st.data())
    def realize(self, data: Any) -> None:
        tensor, _ = self.pick(data)
        other, _ = self.pick(data)
        assert tensor.realize(other) is tensor

    # ---- writing

    def writable(self, data: Any, least: int = 0) -> tuple[Tensor, Any]:
        """A tensor that can be written to, whose first axis is at least so long (0: it need not have one)."""
        counts["steps"] += 1
        found = [pair for pair in self.pool if pair[1].flags.writeable and (pair[1].shape or (0,))[0] >= least]
        if not found:
            shape = (least, 2) if least else ()
            array = self.values(data, shape)
            self.add(Tensor(array.copy()), array)
            return self.pool[-1]
        return found[-1 - data.draw(st.integers(0, len(found) - 1))]

    @rule(data=st.data())
    def assign(self, data: Any) -> None:
        tensor, array = self.writable(data)
        value = self.values(data, array.shape)
        assert tensor.assign(Tensor(value.copy())) is tensor
        array[...] = value

    @rule(data=st.data(), op=st.sampled_from(BINARY))
    def in_place(self, data: Any, op: Any) -> None:
        tensor, array = self.writable(data)
        other, second = self.pick(data)
        if second.shape != array.shape:
            other, second = data.draw(st.integers(-3, 3)), None
        right = np.int32(other) if second is None else second.copy()
        assert op(tensor, other) is tensor
        if array.ndim:
            op(array, right)
        else:
            array[...] = op(array.copy(), right)

    @rule(data=st.data())
    def write_part(self, data: Any) -> None:
        tensor, array = self.writable(data)
        index = data.draw(basic(array.shape))
        self.store(data, tensor, array, index, index)

    @rule(data=st.data())
    def write_at_positions(self, data: Any) -> None:
        tensor, array = self.writable(data, 1)
        index = data.draw(advanced(array.shape))
        self.store(data, tensor, array, index, as_tensors(index))

    def store(self, data: Any, tensor: Tensor, array: Any, index: Any, tensors: Any) -> None:
        shape = array[index].shape
        kind = data.draw(st.integers(0, 3))
        if kind == 0:
            tensor[tensors] = 5
            array[index] = 5
        elif kind == 1:
            value = self.values(data, shape)
            tensor[tensors] = Tensor(value)
            array[index] = value
        elif kind == 2:
            value = self.values(data, shape[-1:])
            tensor[tensors] += Tensor(value)
            array[index] = array[index] + value
        else:
            value = self.values(data, shape)
            pairs = [(Tensor(value), value), *(pair for pair in self.pool if pair[1].shape == shape)]
            other, second = pairs[-1 - data.draw(st.integers(0, len(pairs) - 1))]
            tensor[tensors] = other
            array[index] = second.copy()

    @rule(data=st.data())
    def move_along(self, data: Any) -> None:
        tensor, array = self.writable(data, 2)
        tensor[1:] = tensor[:-1]
        array[1:] = array[:-1].copy()

    @rule(data=st.data())
    def swap(self, data: Any) -> None:
        tensor, array = self.writable(data, 2)
        tensor[0], tensor[-1] = tensor[-1] + 0, tensor[0] + 0
        array[[0, -1]] = array[[-1, 0]]


class CompiledEffects(Effects):
    """The same with machine code."""

    def on_device(self) -> Any:
        return Context(DEV="CPU")


@pytest.mark.parametrize(
    "machine, length, programs",
    [
        (Effects, 12, 30),
        pytest.param(Effects, 40, 100, marks=pytest.mark.slow),
        pytest.param(Effects, 100, 60, marks=pytest.mark.slow),
        pytest.param(CompiledEffects, 30, 12, marks=pytest.mark.slow),
    ],
)
def test_random_programs_do_what_numpy_does(machine: type[Effects], length: int, programs: int) -> None:
    before = counts["steps"]
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=programs,
            stateful_step_count=length,
            deadline=None,
            derandomize=True,
            phases=(Phase.generate,),  # shrinking such programs takes minutes
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert counts["steps"] - before >= length * programs  # together more than 10,000
