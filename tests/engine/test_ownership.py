"""Who keeps memory from being written over: tensors and what is kept on purpose, and nothing else."""

from collections.abc import Callable

import pytest

from whit import Tensor, TinyJit
from whit.engine.memory.holders import Holder, Kept, holders
from whit.engine.memory.storage import storage
from whit.engine.realize.realize import realize
from whit.engine.report.counters import GlobalCounters
from whit.errors import InternalError
from whit.ir import ops


def new() -> Tensor:
    return Tensor([1.0, 2.0, 3.0, 4.0]).clone().realize()


def address(tensor: Tensor) -> int:
    return storage(tensor.uop).address


def copies_of_a_write(x: Tensor) -> int:
    """How many copies it takes to write one element."""
    x[0] = 9.0
    GlobalCounters.reset()
    x.realize()
    assert GlobalCounters.kernel_count <= 1
    return GlobalCounters.copy_count


def test_local_variables_and_lists_of_nodes_are_no_holders() -> None:
    x = new()
    node = x.uop
    nodes = [node, node * 2]
    assert copies_of_a_write(x) == 0
    with pytest.raises(InternalError, match="its content was replaced by an assignment"):
        realize(nodes)


READERS: dict[str, Callable[[Tensor], Tensor | Kept]] = {
    "a tensor": lambda x: x * 2,
    "a copy of a view": lambda x: x.reshape(2, 2).detach().contiguous() * 2,
    "a kept node": lambda x: Kept((x * 2).uop),
}


@pytest.mark.parametrize("name", READERS)
def test_a_tensor_and_what_is_kept_are_holders_as_long_as_they_live(name: str) -> None:
    x = new()
    reader = READERS[name](x)
    assert copies_of_a_write(x) == 1
    assert Tensor._make(reader.uop).flatten().tolist() == [2, 4, 6, 8]
    x = new()
    reader = READERS[name](x)
    del reader
    assert copies_of_a_write(x) == 0


def test_who_has_a_memory_through_a_remembered_value_may_be_older_than_it() -> None:
    x = Tensor([1.0, 2.0]) * 3
    y = x + 1  # a graph over what is computed only now
    x.numpy()
    x.realize()
    assert copies_of_a_write(x) == 1
    assert (x.tolist(), y.tolist()) == ([9, 6], [4, 7])


def test_a_value_that_is_only_remembered_is_computed_again() -> None:
    a = Tensor([1.0, 2.0]).realize()
    node = a.uop * 3
    x = Tensor._make(node)
    x.realize()
    assert copies_of_a_write(x) == 0
    assert (a * 3).uop is node
    assert (a * 3).tolist() == [3, 6]


def test_a_tensor_that_takes_the_node_of_another_is_a_holder_from_then_on() -> None:
    other = new()
    x = new()
    other.replace(x * 2)
    assert copies_of_a_write(x) == 1
    assert other.tolist() == [2, 4, 6, 8]
    x = new()
    other[:2] = x[:2]
    assert copies_of_a_write(x) == 1
    assert other.tolist() == [1, 2, 6, 8]


@pytest.mark.parametrize("is_view", (False, True))
def test_a_captured_write_leaves_what_was_built_since_alone(is_view: bool) -> None:
    w = new()
    _view = w[1:3] if is_view else None
    step = TinyJit(lambda: w.assign(w + 1))
    for _ in range(3):
        step()
    start = address(w)
    step()
    assert address(w) == start
    lazy = w * 10
    for _ in range(2):
        step()
    assert lazy.tolist() == [50, 60, 70, 80]
    assert w.tolist() == [7, 8, 9, 10]
    del lazy
    step()
    start = address(w)
    step()
    assert (address(w), w.tolist()) == (start, [9, 10, 11, 12])


def test_a_captured_write_leaves_no_stale_value_behind() -> None:
    w = new()
    step = TinyJit(lambda: w.assign(w + 1))
    for _ in range(3):
        step()
    node = (w * 10).uop  # nobody's, and its value is remembered
    realize([node])
    step()
    assert (w * 10).tolist() == [50, 60, 70, 80]


def test_arguments_that_share_memory_are_not_given_away() -> None:
    f = TinyJit(lambda x, y: (x * 2, y * 3), donate=(0, 1))
    for _ in range(3):
        f(new(), new())
    x = new()
    y = Tensor._make(x.uop)
    found = f(x, y)
    assert [one.tolist() for one in found] == [[2, 4, 6, 8], [3, 6, 9, 12]]


def test_a_holder_is_newer_than_all_the_memory_that_it_reads() -> None:
    w = new()
    step = TinyJit(lambda x: (w.assign(w + x), w * x)[1])
    kept = [step(new()) for _ in range(4)]
    view = w[1:]
    view += 1
    Tensor.realize(view, w)
    kept.append((w * 2).realize() + view.sum())
    for holder in list(holders):
        node = holder.node()
        if type(holder) is not Holder or node is None:
            continue
        memories = [each for each in node.topological() if each.op is ops.BUFFER]
        assert all(memory.arg.id < holder.number for memory in memories), node.short()
