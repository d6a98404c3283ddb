"""Scatters on GPUs: integers are combined in memory, the rest is shared by where it is written."""

import numpy as np
import pytest

from codegen.test_gpu import TARGET
from whit.codegen import generate
from whit.codegen.gpu import threads as gpu
from whit.codegen.gpu.scatter import blocks as gpu_scatter_list
from whit.codegen.pipeline import Program
from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.args import RangeKind
from whit.ir.check.verify import verify
from whit.ir.interpret import numpy_dtype, run
from whit.ir.op import PROGRAM, Op
from whit.ir.uop import UOp
from whit.render import render

pytestmark = pytest.mark.slow  # every thread is interpreted

ROWS, COLUMNS, PLACES = 70, 3, 8


def scatter(dtype: DType, combine: Op | None, rows: int, columns: int, by_value: bool = False) -> UOp:
    """p0[p1[i]*3 + c] op= p2[i, c], where p1[i] is a place, and maybe only what is positive."""
    target, source = UOp.param(0, dtype, (PLACES * columns,)), UOp.param(2, dtype, (rows * columns,))
    i, c = UOp.range(rows, 0, RangeKind.ORDERED), UOp.range(columns, 1)
    place = UOp.param(1, dtypes.int32, (rows,)).index(i)
    gate = (place < PLACES) & (place >= 0)
    if by_value:
        gate = gate & (source.index(i * columns + c) > 0)
    value = source.index(i * columns + c, gate=gate)
    return UOp.group(target.store(value, place.cast(dtypes.weakint) * columns + c, combine=combine, gate=gate))


def check(
    dtype: DType, combine: Op | None, rows: int = ROWS, columns: int = COLUMNS, by_value: bool = False
) -> Program:
    """The program of a scatter, whose results have the bits that they have in order."""
    body = scatter(dtype, combine, rows, columns, by_value)
    program = generate(body, TARGET)
    verify(program.linear, PROGRAM)
    rng = np.random.default_rng(0)
    kind = numpy_dtype(dtype)
    arrays = {
        0: (rng.standard_normal(PLACES * columns) * 9).astype(kind),
        1: rng.integers(-2, PLACES + 2, rows, dtype=np.int32),
        2: (rng.standard_normal(rows * columns) * 9).astype(kind),
    }
    found, wanted = ({slot: array.copy() for slot, array in arrays.items()} for _ in range(2))
    run(program.linear, {node: found[node.arg.slot] for node in program.linear.src if node.op is ops.PARAM})
    run(body, {node: wanted[node.arg.slot] for node in body.topological() if node.op is ops.PARAM})
    np.testing.assert_array_equal(found[0], wanted[0])
    return program


@pytest.mark.parametrize("combine", (ops.ADD, ops.MAX, ops.MIN, ops.AND, ops.OR), ids=lambda op: op.name)
def test_integers_are_combined_in_memory(combine: Op) -> None:
    for dtype in (dtypes.int32, dtypes.uint64):
        program = check(dtype, combine)
        assert not any(node.op is ops.RANGE and node.arg.kind is RangeKind.ORDERED for node in program.linear.src)
        text = render({"f": program.linear}, TARGET)
        assert f"red.global.{combine.name}." in text
        assert text.count("ld.global") == 2  # the place is read once, though it says whether it is one


CASES = {"float add": (dtypes.float32, ops.ADD), "int16 max": (dtypes.int16, ops.MAX), "last": (dtypes.int32, None)}


@pytest.mark.parametrize(("dtype", "combine"), CASES.values(), ids=CASES)
def test_the_rest_is_done_in_order_by_who_has_the_place(
    dtype: DType, combine: Op | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "ENOUGH_THREADS", 64)
    program = check(dtype, combine)
    assert program.total * program.threads >= 13 * COLUMNS
    assert "red.global" not in render({"f": program.linear}, TARGET)


SHAPES = ((70, 3, False), (150, 1, False), (64, 2, False), (20, 33, False), (20, 264, False), (20, 66, True))


@pytest.mark.parametrize(("rows", "columns", "by_value"), SHAPES)
def test_blocks_list_what_is_theirs_and_add_it_in_order(
    rows: int, columns: int, by_value: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = {"LEAST": 8, "PARTS": (3,), "FEW_THREADS": 32, "MANY_THREADS": 96, "LANES": 2}
    for name, value in small.items():
        monkeypatch.setattr(gpu_scatter_list, name, value)
    dtype, combine = list(CASES.values())[columns % 3]
    program = check(dtype, combine, rows, columns, by_value)
    assert (program.total, program.threads) == (3, 96) and "list" in program.explanation
    assert sum(node.op is ops.BARRIER for node in program.linear.src) == 3
