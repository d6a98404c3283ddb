"""An effect is carried out once for each element of its values, also where nothing in it depends on which one it is."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fuzz.emulated import emulated_gpu
from tensor.check import value

from whit import Context, Tensor
from whit.codegen import generate
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.args import RangeKind
from whit.ir.check.verify import verify
from whit.ir.interpret import run
from whit.ir.op import KERNEL, PROGRAM
from whit.ir.uop import UOp, make
from whit.schedule import schedule
from whit.target import parse_target

pytestmark = pytest.mark.slow

X = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], np.float32)


def added(start: Any, places: Any, values: Any) -> Any:
    """NumPy's sum at places that may be equal."""
    result = np.array(start, np.float32)
    np.add.at(result, places, values)
    return result


def _expanded_positions() -> Any:
    """What a batch shares is used once by each of it."""
    weight = Tensor(X)
    positions = Tensor.arange(2).reshape(1, 2).expand(4, 2)
    (gradient,) = weight[positions].sum().gradient(weight)
    return gradient


def _expanded_data(rows: int) -> Any:
    """The same of positions in memory."""
    positions = Tensor(np.array([1, 0, 1])).realize().reshape(3, 1).expand(3, rows).reshape(3 * rows)
    return Tensor.zeros(2).scatter_add(0, positions, Tensor.ones(3 * rows))


CASES: dict[str, tuple[Callable[[], Any], Any]] = {
    "scatter_add of constants": (
        lambda: Tensor.zeros(3).scatter_add(0, Tensor.full((5,), 2), Tensor.ones(5)),
        [0, 0, 5],
    ),
    "two axes of constants": (
        lambda: Tensor.zeros(3, 2).scatter_add(0, Tensor.full((5, 2), 2), Tensor.ones(5, 2)),
        [[0, 0], [0, 0], [5, 5]],
    ),
    "scatter multiply": (
        lambda: Tensor.ones(3).scatter(0, Tensor.full((5,), 1), Tensor.full((5,), 2.0), "multiply"),
        [1, 32, 1],
    ),
    "sum": (
        lambda: Tensor.ones(2).scatter_reduce(0, Tensor.full((4,), 1), Tensor.full((4,), 0.5), "sum"),
        [1, 3],
    ),
    "prod": (
        lambda: Tensor.ones(2).scatter_reduce(0, Tensor.full((4,), 1), Tensor.full((4,), 3.0), "prod"),
        [1, 81],
    ),
    "mean": (
        lambda: Tensor.ones(2).scatter_reduce(0, Tensor.full((4,), 1), Tensor.full((4,), 6.0), "mean"),
        [1, 5],
    ),
    "mean without itself": (
        lambda: Tensor.ones(2).scatter_reduce(0, Tensor.full((4,), 1), Tensor.full((4,), 6.0), "mean", False),
        [1, 6],
    ),
    "amax": (
        lambda: Tensor.ones(2).scatter_reduce(0, Tensor.full((4,), 1), Tensor.full((4,), 6.0), "amax"),
        [1, 6],
    ),
    "bincount": (lambda: Tensor.full((7,), 3).bincount(), [0, 0, 0, 7]),
    "bincount with weights": (
        lambda: Tensor.full((7,), 1).bincount(weights=Tensor.full((7,), 0.5)),
        [0, 3.5],
    ),
    "histogram": (lambda: Tensor.full((6,), 0.5).histogram(2, (0.0, 1.0))[0], [0, 6]),
    "index_add": (
        lambda: Tensor(X).index_add(0, Tensor.full((4,), 1), Tensor.ones(4, 3)),
        added(X, [1, 1, 1, 1], 1.0),
    ),
    "index_add of columns": (
        lambda: Tensor(X).index_add(1, Tensor.full((4,), 1), Tensor.ones(2, 4)),
        X + np.array([0, 4, 0], np.float32),
    ),
    "index_put": (
        lambda: Tensor(X).index_put((Tensor.full((4,), 1),), Tensor.ones(4, 3), accumulate=True),
        added(X, [1, 1, 1, 1], 1.0),
    ),
    "positions of a batch": (_expanded_positions, np.full((2, 3), 4.0)),
    "expanded data": (lambda: _expanded_data(8), [8, 16]),
    "expanded data, many": (lambda: _expanded_data(640), [640, 1280]),
    "what a sum of positions comes to": (
        lambda: Tensor.zeros(4).scatter_add(0, Tensor.arange(6) // 6 * 2, Tensor.arange(6) * 0.0 + 1),
        [6, 0, 0, 0],
    ),
    "repeated by division": (
        lambda: Tensor.zeros(4).scatter_add(0, Tensor.arange(64) // 16, (Tensor.arange(64) // 16).float()),
        [0, 16, 32, 48],
    ),
}

DEVICES = ("CPU", "CPU:C", "PYTHON")


@pytest.mark.parametrize("noopt", (False, True), ids=("", "noopt"))
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CASES)
def test_every_element_counts(name: str, device: str, noopt: bool) -> None:
    program, wanted = CASES[name]
    with Context(DEV=device, NOOPT=noopt):
        np.testing.assert_array_equal(program().numpy(), np.asarray(wanted))


@pytest.mark.parametrize("name", CASES)
def test_every_element_counts_in_the_graph_of_the_tensor(name: str) -> None:
    program, wanted = CASES[name]
    np.testing.assert_array_equal(value(program()), np.asarray(wanted))


@pytest.mark.parametrize("name", ("scatter_add of constants", "index_add", "positions of a batch", "expanded data"))
def test_every_element_counts_on_a_gpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program, wanted = CASES[name]
    with emulated_gpu(monkeypatch) as device, Context(DEV=device):
        np.testing.assert_array_equal(program().numpy(), np.asarray(wanted))


def constant_sum(rows: int) -> UOp:
    """p0[2] += 1, so many times."""
    start = UOp.param(0, dtypes.float32, (3,))
    places = UOp.const(dtypes.int32, 2).reshape((1,)).expand((rows,))
    ones = UOp.const(dtypes.float32, 1.0).reshape((1,)).expand((rows,))
    return UOp.group(start.store(start.after(start.store(ones, places, combine=ops.ADD))))


def test_the_kernel_says_how_often_and_its_loop_does_it() -> None:
    (call,) = schedule(constant_sum(5)).src
    (body,) = call.src[0].src
    verify(body, KERNEL)
    assert [node.src[0].size for node in body.topological() if node.op is ops.EACH] == [5]
    for target in ("CPU:LLVM:haswell", "CPU:C", "CUDA:PTX:sm_90a"):
        program = generate(body, parse_target(target))
        verify(program.linear, PROGRAM)
        memory = np.zeros(1, np.float32)  # the one element that is written
        run(program.linear, {node: memory for node in program.linear.src if node.op is ops.PARAM})
        assert memory.tolist() == [5], target


def test_a_range_that_splitting_hides_is_run_through() -> None:
    """p0[r // 8] += 1 for 64 of r: of r = outer*8 + inner, nothing is left that depends on inner."""
    p0 = UOp.param(0, dtypes.float32, (8,))
    outer, inner = UOp.range(8, 0), UOp.range(8, 1, RangeKind.ORDERED)
    store = p0.store(UOp.const(dtypes.float32, 1.0), outer, combine=ops.ADD, gate=make(ops.EACH, (outer * 8 + inner,)))
    for target in ("CPU:LLVM:haswell", "CUDA:PTX:sm_90a"):
        program = generate(UOp.group(store), parse_target(target))
        memory = np.zeros(8, np.float32)
        run(program.linear, {node: memory for node in program.linear.src if node.op is ops.PARAM})
        assert memory.tolist() == [8.0] * 8, target
