"""Programs of writes compute what NumPy does: some that were wrong once, and random ones."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from fuzz.writes import make_program
from whit import Context, Tensor
from whit.engine.realize import changes

pytestmark = pytest.mark.slow

DEVICES = ("CPU", "CPU:C", "PYTHON")
M = np.array([[-2.0, -1.0], [0.0, 1.0], [2.0, 3.0]], np.float32)


@pytest.fixture(params=DEVICES)
def on(request: pytest.FixtureRequest) -> Iterator[str]:
    with Context(DEV=request.param):
        yield request.param


@pytest.mark.parametrize("noopt", (False, True), ids=("", "noopt"))
def test_a_copy_that_is_read_is_not_the_copy_that_is_written(noopt: bool, on: str) -> None:
    with Context(NOOPT=noopt):
        x = Tensor([4.0, 2.0, 3.0, 1.0]) * 1.5
        c = x.contiguous()
        assert x.scatter_add(0, Tensor([0, 0, 1, 1]), c).tolist() == [15, 9, 4.5, 1.5]
        assert c.tolist() == x.tolist() == [6, 3, 4.5, 1.5]


def test_a_copy_is_what_is_written_into_the_tensor(on: str) -> None:
    x = Tensor([4.0, 2.0, 3.0, 1.0]) * 1.5
    y = x.contiguous()
    x[Tensor([1, 0])] = y[:2]
    assert x.tolist() == [3, 6, 4.5, 1.5]
    assert y.tolist() == [6, 3, 4.5, 1.5]


def test_what_was_gathered_is_written_to_in_a_copy(on: str) -> None:
    """Of the interpreter, too, which is asked what a schedule should compute (CHECK_PLAN)."""
    x, y = Tensor([2, 8]), Tensor([2, 2])
    a = x[Tensor([1, 0, 0, 1])]
    b = a.index_add(0, Tensor([0, 1]), y)
    with Context(CHECK_PLAN=1):
        Tensor.realize(a, b)
    assert (a.tolist(), b.tolist(), x.tolist()) == ([8, 2, 2, 8], [10, 4, 2, 8], [2, 8])


def test_what_was_padded_is_written_to_in_a_copy(on: str) -> None:
    x = Tensor([[1, 2], [3, 4]])
    y = x.pad(((0, 1), (1, 0)))
    with Context(CHECK_PLAN=1):
        y[Tensor([0, 2])] = 7
        assert y.tolist() == [[7, 7, 7], [0, 3, 4], [7, 7, 7]]
    assert x.tolist() == [[1, 2], [3, 4]]


def test_one_element_at_a_position_is_read_before_it_is_written(on: str) -> None:
    x = Tensor([[1, 2], [3, 4]]).contiguous().realize()
    with Context(CHECK_PLAN=1):
        x[Tensor([1]), Tensor([-2])] += 7
        assert x.tolist() == [[1, 2], [10, 4]]
        x[Tensor([-2])] += Tensor([5, 6])
        assert x.tolist() == [[6, 8], [10, 4]]


@pytest.mark.parametrize("shape", ((), (1,), (1, 1), (2,)))
def test_a_mask_of_nothing_writes_nothing(shape: tuple[int, ...], on: str) -> None:
    x = Tensor.ones(*shape).contiguous().realize()
    x[x > 5] = 0
    x[x > 5] += 3
    assert x.numpy().tolist() == np.ones(shape).tolist()


def test_positions_may_be_computed_with_floats(on: str) -> None:
    with Context(CHECK_PLAN=1):
        positions = (Tensor.arange(4, dtype="float32") % 2).cast("int32")
        assert Tensor([5.0, 7.0]).gather(0, positions).tolist() == [5, 7, 5, 7]


def test_a_copy_beside_what_is_made_of_a_scatter(on: str) -> None:
    x = Tensor(M) * 1
    r = x.index_add(1, Tensor([0, 0]), x)
    c = x.clone()
    y = r.abs()
    Tensor.realize(x, c, y)
    wanted = M + np.array([[1.0, 0.0]]) * M.sum(1, keepdims=True)
    np.testing.assert_array_equal(x.numpy(), M)
    np.testing.assert_array_equal(c.numpy(), M)
    np.testing.assert_array_equal(y.numpy(), np.abs(wanted))
    np.testing.assert_array_equal(r.numpy(), wanted)


@pytest.mark.parametrize("how", (lambda x: x, lambda x: x * 1, lambda x: x.realize()), ids=("data", "lazy", "realised"))
def test_a_scatter_of_what_is_made_of_a_copy(how: Callable[[Tensor], Tensor], on: str) -> None:
    x = how(Tensor(M))
    c = x.clone()
    r = x.index_add(0, Tensor([1, 1, 0]), c.abs())
    Tensor.realize(c, r)
    wanted = M.copy()
    np.add.at(wanted, [1, 1, 0], np.abs(M))
    np.testing.assert_array_equal(r.numpy(), wanted)
    np.testing.assert_array_equal(c.numpy(), M)
    np.testing.assert_array_equal(x.numpy(), M)


def test_a_copy_of_a_copy_is_added_to_it(on: str) -> None:
    x = Tensor(M[:, :1]) * 1
    v3 = x.clone()
    v9 = v3.contiguous()
    v11 = v3.index_add(1, Tensor([0]), v9)
    Tensor.realize(v3, v9, v11)
    np.testing.assert_array_equal(v11.numpy(), 2 * M[:, :1])
    np.testing.assert_array_equal(v9.numpy(), M[:, :1])
    np.testing.assert_array_equal(v3.numpy(), M[:, :1])


@pytest.mark.parametrize("least", (1 << 16, 1), ids=("", "reused"))  # bytes of memory that is used again
@pytest.mark.parametrize("first", range(0, 200, 25))
def test_random_programs_of_writes(first: int, least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "LEAST_REUSED_BYTES", least)
    for seed in range(first, first + 25):
        make_program(seed).check("PYTHON")


@pytest.mark.slow
@pytest.mark.parametrize("noopt", (False, True), ids=("", "noopt"))
def test_random_programs_of_writes_in_machine_code(noopt: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "LEAST_REUSED_BYTES", 1)
    for seed in range(1000, 1040):
        make_program(seed).check("CPU", noopt)
