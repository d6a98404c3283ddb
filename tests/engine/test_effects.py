"""Assignments: the old content stays for whoever refers to it; memory is reused where nobody does."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from whit.config import Context
from whit.dtype import dtypes
from whit.engine.memory.holders import Kept
from whit.engine.memory.storage import from_bytes, storage
from whit.engine.memory.values import dtype_of_array, from_numpy, to_numpy
from whit.engine.plan import find_plan as plans_module
from whit.engine.realize.realize import realize
from whit.engine.report.counters import GlobalCounters
from whit.ir import ops
from whit.ir.uop import UOp
from whit.runtime.buffer import usage


class Where:
    """The device that a test runs on."""

    name = "CPU"


@pytest.fixture(autouse=True, params=["CPU", "PYTHON", "CPU without optimisation"])
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    Where.name = request.param.split()[0]
    with Context(NOOPT=int(request.param == "CPU without optimisation")):
        yield Where.name


def own(values: Any) -> UOp:
    """A buffer with memory of whit's."""
    data = np.array(values)
    data = data.astype(np.float32) if data.dtype.kind == "f" or data.dtype == np.int64 else data
    return from_bytes(data.tobytes(), dtype_of_array(data), data.shape, Where.name)


def part(old: UOp, start: int, value: UOp) -> UOp:
    """old[start:start+n] = value"""
    return old.after(old.shrink(((start, value.shape[0]),)).store(value))


def values(node: UOp) -> list[float]:
    return to_numpy(realize([node])[0]).tolist()


def test_a_whole_assignment_leaves_the_old_content() -> None:
    old = own([1, 2, 3])
    assigned = old.after(old.store(old * 10))
    assert values(assigned) == [10, 20, 30]
    assert values(old) == [1, 2, 3]
    assert values(assigned + old) == [11, 22, 33]


def test_the_same_assignment_twice_happens_twice() -> None:
    tensor = own([1])
    held = []
    for expected in (2, 4, 8):
        assigned = tensor.after(tensor.store(tensor + tensor))
        held.append(assigned)  # somebody keeps the graph, so that equal ones would be the same node
        (tensor,) = realize([assigned])
        assert values(tensor) == [expected]


def test_assignments_in_a_row_before_realising() -> None:
    old = own([1, 2])
    once = old.after(old.store(old + 1))
    twice = once.after(once.store(once * once))
    assert values(twice) == [4, 9]
    assert values(once) == [2, 3]


def test_a_part_is_written_in_place_if_nobody_else_can_see_it() -> None:
    old = own([1, 2, 3, 4])
    address, used = storage(old).address, usage(Where.name).now
    assigned = part(old, 1, own([7, 8]))
    del old
    (result,) = realize([assigned])
    assert to_numpy(result).tolist() == [1, 7, 8, 4]
    assert storage(result).address == address
    del assigned
    assert usage(Where.name).now == used


def test_a_chain_of_part_assignments_stays_in_place() -> None:
    tensor = own([0] * 8)
    address = storage(tensor).address
    for i in range(8):
        tensor = part(tensor, i, own([i]))
        if i % 3 == 0:
            (tensor,) = realize([tensor])
    (tensor,) = realize([tensor])
    assert to_numpy(tensor).tolist() == list(range(8))
    assert storage(tensor).address == address


def test_a_part_is_written_into_a_copy_if_the_old_tensor_is_held() -> None:
    old = own([1, 2, 3, 4])
    _holder = Kept(old)
    assigned = part(old, 1, own([7, 8]))
    assert values(assigned) == [1, 7, 8, 4]
    assert values(old) == [1, 2, 3, 4]


def test_a_part_is_written_into_a_copy_if_a_reader_is_held() -> None:
    old = own([1, 2, 3, 4])
    reader = old.reshape((2, 2)) * 2
    _holder = Kept(reader)
    assigned = part(old, 1, own([7, 8]))
    del old
    assert values(assigned) == [1, 7, 8, 4]
    assert values(reader) == [[2, 4], [6, 8]]


def test_a_part_is_written_into_a_copy_if_a_reader_inside_the_graph_is_held() -> None:
    old = own([1, 2, 3, 4])
    doubled = old.shrink(((0, 2),)) * 2
    _holder = Kept(doubled)
    assigned = part(old, 1, doubled + 1)
    del old
    assert values(assigned) == [1, 3, 5, 4]
    assert values(doubled) == [2, 4]


def test_a_part_is_written_into_a_copy_if_the_value_was_remembered() -> None:
    a = own([1, 2])
    expression = a + 1
    (old,) = realize([expression])
    assigned = part(old, 0, own([9]))
    del old
    assert values(assigned) == [9, 3]
    assert values(expression) == [2, 3]
    assert values(expression * 2) == [4, 6]


def test_a_view_does_not_see_a_later_write() -> None:
    old = own([1, 2, 3, 4])
    (view,) = realize([old.shrink(((2, 2),))])
    assigned = part(old, 2, own([9]))
    del old
    assert values(assigned) == [1, 2, 9, 4]
    assert to_numpy(view).tolist() == [3, 4]


def test_the_callers_array_is_never_written() -> None:
    array = np.array([1, 2, 3], np.float32)
    old = from_numpy(array, Where.name)
    assigned = part(old, 0, own([5]))
    del old
    assert values(assigned) == [5, 2, 3]
    assert array.tolist() == [1, 2, 3]


def test_an_exported_array_does_not_change() -> None:
    old = own([1, 2, 3])
    array = to_numpy(old, copy=False)
    assigned = part(old, 0, own([5]))
    del old
    assert values(assigned) == [5, 2, 3]
    assert array.tolist() == [1, 2, 3]


def test_a_value_read_and_written_in_one_graph() -> None:
    old = own([1, 2, 3])
    assigned = part(old, 0, own([9]))
    both = assigned + old
    del old, assigned
    assert values(both) == [10, 4, 6]


def test_a_part_moved_inside_the_tensor() -> None:
    old = own([1, 2, 3, 4])
    assigned = part(old, 1, old.shrink(((0, 3),)))
    del old
    assert values(assigned) == [1, 1, 2, 3]


def test_two_different_updates_of_one_tensor_are_two_tensors() -> None:
    old = own([1, 2, 3])
    first, second = part(old, 0, own([8])), part(old, 2, own([9]))
    del old
    found = realize([first, second])
    assert [to_numpy(node).tolist() for node in found] == [[8, 2, 3], [1, 2, 9]]


def test_an_update_of_something_that_was_never_realised() -> None:
    lazy = own([1, 2, 3]) * 2
    assigned = part(lazy, 1, own([0]))
    assert values(assigned) == [2, 0, 6]
    assert values(lazy) == [2, 4, 6]
    zeros = UOp.const(dtypes.float32, 0).reshape((1,)).expand((3,))
    assert to_numpy(realize([part(zeros, 1, own([5]))], Where.name)[0]).tolist() == [0, 5, 0]


def test_an_update_through_a_reshape_and_with_positions() -> None:
    old = own([1, 2, 3, 4])
    _holder = Kept(old)
    grid = old.reshape((2, 2))
    assigned = grid.after(grid.shrink(((0, 2), (1, 1))).store(own([8, 9]).reshape((2, 1))))
    assert values(assigned) == [[1, 8], [3, 9]]
    rows = from_numpy(np.array([2, 0], np.int32), Where.name)
    added = old.after(old.store(own([10, 20]), rows, combine=ops.ADD))
    assert values(added) == [21, 2, 13, 4]
    assert values(old) == [1, 2, 3, 4]


def test_rows_are_written_in_place() -> None:
    cache = from_bytes(bytes(4 * 32), dtypes.float32, (8, 4), Where.name)
    address = storage(cache).address
    for row in range(3):
        new = from_numpy(np.full((1, 4), row + 1, np.float32), Where.name)
        assigned = cache.after(cache.shrink(((row, 1), (0, 4))).store(new * 2))
        del cache
        (cache,) = realize([assigned])
    assert to_numpy(cache)[:, 0].tolist() == [2, 4, 6, 0, 0, 0, 0, 0]
    assert storage(cache).address == address


# ---- numbers of kernels, and bytes


def counted(*nodes: UOp) -> tuple[int, list[UOp]]:
    """The kernels of one realize, and its results."""
    GlobalCounters.reset()
    found = realize(nodes)
    return GlobalCounters.kernel_count, found


def test_a_row_moves_the_bytes_of_a_row() -> None:
    cache = own(np.zeros((1024, 64), np.float32))
    for step in range(3):
        new = own(np.full((2, 64), step + 1.0, np.float32))
        assigned = cache.after(cache.shrink(((10 * step, 2), (0, 64))).store(new))
        del cache
        kernels, (cache,) = counted(assigned)
        assert kernels == 1
        assert GlobalCounters.copy_count == 0
        if Where.name == "CPU":
            assert (GlobalCounters.bytes_read, GlobalCounters.bytes_written) == (512, 512)
    expected = np.zeros((1024, 64), np.float32)
    for step in range(3):
        expected[10 * step : 10 * step + 2] = step + 1
    np.testing.assert_array_equal(to_numpy(cache), expected)


def test_the_copy_of_what_is_held_is_no_kernel() -> None:
    old = own(np.arange(100.0))
    _holder = Kept(old)
    kernels, _ = counted(part(old, 3, own([1, 2])))
    assert (kernels, GlobalCounters.copy_count) == (1, 1)
    if Where.name == "CPU":
        assert GlobalCounters.bytes_written == 400 + 8


def test_the_next_step_makes_no_new_plan() -> None:
    tensor = own(np.zeros(50))
    plans = None
    for i in range(1, 40):
        assigned = tensor.after(tensor.shrink(((i, 1),)).store(tensor.shrink(((i - 1, 1),)) + 1))
        del tensor
        kernels, (tensor,) = counted(assigned)
        assert (kernels, GlobalCounters.copy_count) == (1, 0)
        plans = plans or len(plans_module._plans)
        assert len(plans_module._plans) == plans
        del assigned
    np.testing.assert_array_equal(to_numpy(tensor)[:40], np.arange(40))


@pytest.mark.parametrize("sizes", [[10] * 10, [3, 7, 10, 10, 5, 15, 20, 1, 9, 10], [1] * 10], ids=str)
def test_ten_slices_are_two_kernels_at_most(sizes: list[int]) -> None:
    expected = np.arange(100, dtype=np.float32)
    tensor = own(expected.copy())
    start = 0
    for i, size in enumerate(sizes):
        value = own(np.arange(size) + 1000.0 * i)
        expected[start : start + size] = np.arange(size) + 1000 * i
        tensor = part(tensor, start, value)
        start += size
        del value
    kernels, (result,) = counted(tensor)
    np.testing.assert_array_equal(to_numpy(result), expected)
    assert kernels <= 2
    assert GlobalCounters.copy_count == 0


@pytest.mark.slow
def test_a_thousand_writes_in_a_loop() -> None:
    tensor = own(np.zeros(1000))
    for i in range(1000):
        tensor = part(tensor, i, UOp.const(dtypes.float32, i).reshape((1,)))
    kernels, (tensor,) = counted(tensor)
    np.testing.assert_array_equal(to_numpy(tensor), np.arange(1000))
    assert kernels <= 42


def test_each_write_of_a_loop_realised() -> None:
    tensor = own(np.zeros(200))
    for i in range(200):
        assigned = part(tensor, i, own([i]))
        del tensor
        (tensor,) = realize([assigned])
        del assigned
    np.testing.assert_array_equal(to_numpy(tensor), np.arange(200))


# ---- whole tensors


def test_a_large_tensor_is_replaced_in_its_memory() -> None:
    weights = own(np.arange(20_000.0))
    gradient = own(np.ones(20_000))
    address, used = storage(weights).address, usage(Where.name).peak
    for _ in range(3):
        assigned = weights.after(weights.store(weights - gradient * 2))
        del weights
        kernels, (weights,) = counted(assigned)
        assert kernels == 1
        del assigned
    assert storage(weights).address == address
    assert usage(Where.name).peak == used
    np.testing.assert_array_equal(to_numpy(weights), np.arange(20_000.0) - 6)


def test_a_large_tensor_that_is_held_or_read_elsewhere_stays() -> None:
    start = np.arange(20_000, dtype=np.float32)
    held = own(start)
    _holders = [Kept(held)]
    (result,) = realize([held.after(held.store(held + 1))])
    np.testing.assert_array_equal(to_numpy(held), start)
    np.testing.assert_array_equal(to_numpy(result), start + 1)
    turned = own(start)
    assigned = turned.after(turned.store(turned.flip((0,))))
    del turned
    np.testing.assert_array_equal(to_numpy(realize([assigned])[0]), start[::-1])
    x = own(start)
    lazy = x * 2
    _holders.append(Kept(lazy))
    assigned = x.after(x.store(x + lazy))
    del x
    np.testing.assert_array_equal(to_numpy(realize([assigned])[0]), start * 3)
    np.testing.assert_array_equal(to_numpy(realize([lazy])[0]), start * 2)
    x = own(start)
    total, assigned = (
        x.reduce(ops.ADD, (0,)),
        x.after(x.store(x + x.reduce(ops.MAX, (0,)).reshape((1,)).expand(x.shape))),
    )
    del x
    found = realize([assigned, total])
    np.testing.assert_array_equal(to_numpy(found[0]), start + 19_999)
    np.testing.assert_allclose(to_numpy(found[1]), start.sum(), rtol=1e-3)
    array = start.copy()
    mine = from_numpy(array, Where.name)
    assigned = mine.after(mine.store(mine + 1))
    del mine
    realize([assigned])
    np.testing.assert_array_equal(array, start)


def test_tensors_that_replace_each_other() -> None:
    start = np.arange(20_000, dtype=np.float32)
    x, y = own(start), own(start * 3)
    in_x, in_y = x.after(x.store(x + y)), y.after(y.store(x * 2 - y))
    del x, y
    found = realize([in_x, in_y])
    np.testing.assert_array_equal(to_numpy(found[0]), start * 4)
    np.testing.assert_array_equal(to_numpy(found[1]), -start)


def test_many_tensors_are_replaced_in_one_schedule() -> None:
    weights = [own(np.full((128, 256), i, np.float32)) for i in range(6)]
    moments = [own(np.zeros((128, 256), np.float32)) for _ in range(6)]
    gradients = [own(np.full((128, 256), i, np.float32)) for i in range(6)]
    addresses = [storage(node).address for node in weights]
    for _ in range(2):
        new = [m.after(m.store(m * 0.5 + g)) for m, g in zip(moments, gradients, strict=True)]
        changed = [w.after(w.store(w - n)) for w, n in zip(weights, new, strict=True)]
        del weights, moments
        kernels, found = counted(*changed, *new)
        weights, moments = found[:6], found[6:]
        assert kernels <= 6
        del found, new, changed
    assert [storage(node).address for node in weights] == addresses
    assert [to_numpy(w)[0, 0] for w in weights] == [-1.5 * i for i in range(6)]
    assert [to_numpy(m)[0, 0] for m in moments] == [1.5 * i for i in range(6)]


# ---- reads and writes of one memory


def test_overlapping_copies() -> None:
    start = np.arange(12, dtype=np.float32)

    def changed(target: Any, value: Any) -> np.ndarray:
        old = own(start)
        assigned = old.after(target(old).store(value(old)))
        del old
        kernels, (result,) = counted(assigned)
        assert kernels <= 2
        assert GlobalCounters.copy_count == 0
        return to_numpy(result)

    after = changed(lambda x: x.shrink(((1, 11),)), lambda x: x.shrink(((0, 11),)))
    np.testing.assert_array_equal(after, [0, *range(11)])
    after = changed(lambda x: x.shrink(((0, 11),)), lambda x: x.shrink(((1, 11),)))
    np.testing.assert_array_equal(after, [*range(1, 12), 11])
    after = changed(lambda x: x.shrink(((0, 12),)), lambda x: x.flip((0,)))
    np.testing.assert_array_equal(after, start[::-1])
    after = changed(lambda x: x.reshape((3, 4)).shrink(((0, 3), (0, 3))), lambda x: _square(x).permute((1, 0)))
    expected = start.copy().reshape(3, 4)
    expected[:, :3] = start.reshape(3, 4)[:, :3].T
    np.testing.assert_array_equal(after.reshape(3, 4), expected)


def _square(x: UOp) -> UOp:
    return x.reshape((3, 4)).shrink(((0, 3), (0, 3)))


def test_a_swap_of_halves() -> None:
    old = own(np.arange(8.0))
    first, last = old.shrink(((0, 4),)), old.shrink(((4, 4),))
    assigned = old.after(first.store(last), last.store(first))
    del old, first, last
    kernels, (result,) = counted(assigned)
    assert to_numpy(result).tolist() == [4, 5, 6, 7, 0, 1, 2, 3]
    assert kernels == 2


def test_parts_of_two_tensors_are_swapped() -> None:
    a, b = own(np.arange(8.0)), own(np.arange(8.0) + 100)
    in_a = a.after(a.shrink(((0, 4),)).store(b.shrink(((0, 4),))))
    in_b = b.after(b.shrink(((0, 4),)).store(a.shrink(((0, 4),))))
    del a, b
    kernels, found = counted(in_a, in_b)
    assert [to_numpy(f).tolist() for f in found] == [
        [100, 101, 102, 103, 4, 5, 6, 7],
        [0, 1, 2, 3, 104, 105, 106, 107],
    ]
    assert (kernels, GlobalCounters.copy_count) == (3, 0)


def test_an_update_of_a_part_by_itself_is_one_kernel() -> None:
    old = own(np.arange(8.0))
    window = old.shrink(((2, 3),))
    assigned = old.after(window.store(window * 2))
    del old, window
    kernels, (result,) = counted(assigned)
    assert to_numpy(result).tolist() == [0, 1, 4, 6, 8, 5, 6, 7]
    assert kernels == 1


def test_a_write_between_two_uses_of_a_lazy_value() -> None:
    x = own(np.arange(6.0))
    lazy = x * 10
    before = lazy + 1
    x2 = x.after(x.shrink(((0, 3),)).store(own([7, 8, 9])))
    after = lazy + x2
    del x
    found = realize([before, x2, after, lazy])
    assert [to_numpy(f).tolist() for f in found] == [
        [1, 11, 21, 31, 41, 51],
        [7, 8, 9, 3, 4, 5],
        [7, 18, 29, 33, 44, 55],
        [0, 10, 20, 30, 40, 50],
    ]


def test_a_view_of_the_old_content_beside_the_write() -> None:
    x = own(np.arange(6.0))
    old_part = x.shrink(((1, 3),))
    x2 = x.after(x.shrink(((0, 3),)).store(own([7, 8, 9])))
    new_part = x2.shrink(((1, 3),))
    del x
    found = realize([old_part, new_part, x2])
    assert [to_numpy(f).tolist() for f in found] == [[1, 2, 3], [8, 9, 3], [7, 8, 9, 3, 4, 5]]


def test_each_version_is_read() -> None:
    x = own(np.zeros(6))
    sums = []
    for i in range(6):
        x = part(x, i, own([i + 1]))
        sums.append(x.reduce(ops.ADD, (0,)))
    last = x.shrink(((5, 1),))
    x = part(x, 0, last * 10)
    found = realize([*sums, x])
    assert [to_numpy(f).tolist() for f in found] == [1, 3, 6, 10, 15, 21, [60, 2, 3, 4, 5, 6]]


def test_branches_of_a_chain() -> None:
    x = own(np.zeros(4))
    shared = part(x, 0, own([1]))
    left, right = part(shared, 1, own([2])), part(shared, 2, own([3]))
    _holders = [Kept(left), Kept(shared)]
    both = left + right + shared
    del x
    found = realize([both, right])
    assert [to_numpy(f).tolist() for f in found] == [[3, 2, 3, 0], [1, 0, 3, 0]]
    assert values(left) == [1, 2, 0, 0]
    assert values(shared) == [1, 0, 0, 0]


def test_a_whole_assignment_under_a_part() -> None:
    x = own([1, 2, 3])
    doubled = x.after(x.store(x * 2))
    assigned = part(doubled, 1, own([9]))
    assert values(assigned) == [2, 9, 6]
    assert values(x) == [1, 2, 3]


def test_a_write_through_bits_and_a_transpose() -> None:
    x = own(np.zeros((2, 3), np.float32))
    turned = x.permute((1, 0))
    assigned = turned.after(turned.shrink(((1, 2), (0, 1))).store(own([[5], [6]])))
    assert values(assigned) == [[0, 0], [5, 0], [6, 0]]
    bits = x.bitcast(dtypes.int32)
    one = from_numpy(np.array([[0x3F800000]], np.int32), Where.name)
    assigned = bits.after(bits.shrink(((1, 1), (2, 1))).store(one))
    assert values(assigned.bitcast(dtypes.float32)) == [[0, 0, 0], [0, 0, 1]]


# ---- scatter

COMBINE = {None: None, ops.ADD: np.add, ops.MUL: np.multiply, ops.MAX: np.maximum, ops.MIN: np.minimum}


def scattered(array: np.ndarray, at: Any, value: np.ndarray, combine: Any) -> np.ndarray:
    result = array.copy()
    if combine is None:
        result[at] = value
    else:
        COMBINE[combine].at(result, at, value)
    return result


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "float16"])
@pytest.mark.parametrize("combine", list(COMBINE), ids=str)
def test_scatter_with_equal_positions(combine: Any, dtype: str) -> None:
    generator = np.random.default_rng(5)
    array = generator.integers(1, 4, (7, 33)).astype(dtype)
    value = generator.integers(1, 3, (20, 33)).astype(dtype)
    rows = generator.integers(0, 5, 20).astype(np.int32)
    old, index, new = (from_numpy(a, Where.name) for a in (array, rows, value))
    kernels, (result,) = counted(old.after(old.store(new, index, combine=combine)))
    np.testing.assert_array_equal(to_numpy(result), scattered(array, rows, value, combine))
    assert kernels == 1
    flat, places = from_numpy(array.reshape(-1), Where.name), from_numpy(np.tile(rows, 3), Where.name)
    numbers = value.reshape(-1)[:60]
    (result,) = realize([flat.after(flat.store(from_numpy(numbers, Where.name), places, combine=combine))])
    expected = scattered(array.reshape(-1), np.tile(rows, 3), numbers, combine)
    np.testing.assert_array_equal(to_numpy(result), expected)


@pytest.mark.parametrize("combine", list(COMBINE), ids=str)
def test_scatter_into_what_is_not_in_memory_is_two_kernels(combine: Any) -> None:
    rows = np.array([3, 1, 3, 0, 1], np.int64)
    value = np.arange(10, dtype=np.float32).reshape(5, 2) + 1
    ones = UOp.const(dtypes.float32, 1).reshape((1, 1)).expand((4, 2))
    index, new = (from_numpy(a, Where.name) for a in (rows, value))
    kernels, (result,) = counted(ones.after(ones.store(new, index, combine=combine)))
    np.testing.assert_array_equal(to_numpy(result), scattered(np.ones((4, 2), np.float32), rows, value, combine))
    assert kernels == 2


def test_scatter_along_the_last_axis() -> None:
    generator = np.random.default_rng(3)
    array, value = np.zeros((40, 9), np.float32), generator.standard_normal((40, 20)).astype(np.float32)
    columns = generator.integers(0, 9, (40, 20)).astype(np.int32)
    rows = np.broadcast_to(np.arange(40)[:, None], (40, 20))
    old, index, new = (from_numpy(a, Where.name) for a in (array, columns, value))
    row = UOp.arange(40, dtypes.weakint).reshape((40, 1)).expand((40, 20))
    for combine in (None, ops.ADD):
        (result,) = realize([old.after(old.store(new, row, index, combine=combine))])
        np.testing.assert_array_equal(to_numpy(result), scattered(array, (rows, columns), value, combine))


@pytest.mark.parametrize("combine", list(COMBINE), ids=str)
def test_a_gate_skips_positions(combine: Any) -> None:
    array = np.arange(1, 9, dtype=np.float32)
    places = np.array([1, 99, 1, -5, 7, 0], np.int32)
    value = np.arange(6, dtype=np.float32) + 2
    old, index, new = (from_numpy(a, Where.name) for a in (array, places, value))
    inside = (index >= 0) & (index < 8)
    (result,) = realize([old.after(old.store(new, index, combine=combine, gate=inside))])
    keep = (places >= 0) & (places < 8)
    np.testing.assert_array_equal(to_numpy(result), scattered(array, places[keep], value[keep], combine))


def test_a_mask() -> None:
    array = np.arange(30, dtype=np.float32).reshape(5, 6)
    old, mask = from_numpy(array, Where.name), from_numpy(array % 3 == 0, Where.name)
    (result,) = realize([old.after(old.store(UOp.const(dtypes.float32, -1), gate=mask))])
    np.testing.assert_array_equal(to_numpy(result), np.where(array % 3 == 0, -1, array))
    (result,) = realize([old.after(old.store(old * 2, gate=old < 10.0, combine=ops.ADD))])
    np.testing.assert_array_equal(to_numpy(result), np.where(array < 10, array * 3, array))


def test_adding_at_positions_that_are_read_first() -> None:
    """x[i] = x[i] + 1 with equal positions adds once, as NumPy does."""
    old = own(np.arange(5.0))
    index = from_numpy(np.array([1, 1, 3], np.int32), Where.name)
    assigned = old.after(old.store(old.index(index) + 1, index))
    del old
    kernels, (result,) = counted(assigned)
    assert to_numpy(result).tolist() == [0, 2, 2, 4, 4]
    assert kernels == 2


def test_counting() -> None:
    values_ = np.random.default_rng(0).integers(0, 50, 5000).astype(np.int32)
    zeros = UOp.const(dtypes.int32, 0).reshape((1,)).expand((50,))
    one = UOp.const(dtypes.int32, 1)
    kernels, (result,) = counted(zeros.after(zeros.store(one, from_numpy(values_, Where.name), combine=ops.ADD)))
    np.testing.assert_array_equal(to_numpy(result), np.bincount(values_, minlength=50))
    assert kernels <= 2
