"""Assignments: the old content stays for whoever refers to it; memory is reused where nobody does."""

from collections.abc import Iterator

import numpy as np
import pytest

from engine.simple import schedule as simple_schedule
from whit.dtype import dtypes
from whit.engine import realize as realize_module
from whit.engine.realize import realize
from whit.engine.storage import from_bytes, storage
from whit.engine.values import from_numpy, to_numpy
from whit.ir import ops
from whit.ir.uop import UOp
from whit.runtime.buffer import usage


@pytest.fixture(autouse=True)
def simple(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    realize_module._plans.clear()
    monkeypatch.setattr(realize_module, "load_scheduler", lambda: simple_schedule)
    yield
    realize_module._plans.clear()


def own(values: list[float]) -> UOp:
    """A buffer with memory of whit's."""
    data = np.array(values, np.float32)
    return from_bytes(data.tobytes(), dtypes.float32, data.shape, "PYTHON")


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
    address, used = storage(old).address, usage("PYTHON").now
    assigned = part(old, 1, own([7, 8]))
    del old
    (result,) = realize([assigned])
    assert to_numpy(result).tolist() == [1, 7, 8, 4]
    assert storage(result).address == address
    del assigned
    assert usage("PYTHON").now == used


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
    assigned = part(old, 1, own([7, 8]))
    assert values(assigned) == [1, 7, 8, 4]
    assert values(old) == [1, 2, 3, 4]


def test_a_part_is_written_into_a_copy_if_a_reader_is_held() -> None:
    old = own([1, 2, 3, 4])
    reader = old.reshape((2, 2)) * 2
    assigned = part(old, 1, own([7, 8]))
    del old
    assert values(assigned) == [1, 7, 8, 4]
    assert values(reader) == [[2, 4], [6, 8]]


def test_a_part_is_written_into_a_copy_if_a_reader_inside_the_graph_is_held() -> None:
    old = own([1, 2, 3, 4])
    doubled = old.shrink(((0, 2),)) * 2
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
    old = from_numpy(array, "PYTHON")
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
    assert to_numpy(realize([part(zeros, 1, own([5]))], "PYTHON")[0]).tolist() == [0, 5, 0]


def test_an_update_through_a_reshape_and_with_positions() -> None:
    old = own([1, 2, 3, 4])
    grid = old.reshape((2, 2))
    assigned = grid.after(grid.shrink(((0, 2), (1, 1))).store(own([8, 9]).reshape((2, 1))))
    assert values(assigned) == [[1, 8], [3, 9]]
    rows = from_numpy(np.array([2, 0], np.int32), "PYTHON")
    added = old.after(old.store(own([10, 20]), rows, combine=ops.ADD))
    assert values(added) == [21, 2, 13, 4]
    assert values(old) == [1, 2, 3, 4]


def test_rows_are_written_in_place_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    cache = from_bytes(bytes(4 * 32), dtypes.float32, (8, 4), "CPU")
    address = storage(cache).address
    for row in range(3):
        new = from_numpy(np.full((1, 4), row + 1, np.float32), "CPU")
        assigned = cache.after(cache.shrink(((row, 1), (0, 4))).store(new * 2))
        del cache
        (cache,) = realize([assigned])
    assert to_numpy(cache)[:, 0].tolist() == [2, 4, 6, 0, 0, 0, 0, 0]
    assert storage(cache).address == address
