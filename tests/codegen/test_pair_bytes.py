"""Neighbouring bytes are loaded at once where they begin at a multiple of their number."""

import pytest

from whit.codegen.gpu.pair_bytes import pair_bytes
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.uop import UOp, make
from whit.simplify.sums import linear_form


@pytest.mark.parametrize(
    ("step", "offsets", "widths"),
    [
        (18, (0, 1), [2]),
        (18, (1, 2), [1, 1]),  # begins at an odd number
        (17, (0, 1), [1, 1]),
        (144, (0, 1, 2, 3), [4]),
        (18, (0, 1, 2, 3), [2, 2]),
        (18, (0, 1, 2), [1, 2]),
        (18, (0, 2), [1, 1]),
    ],
)
def test_bytes_that_are_neighbours(step: int, offsets: tuple[int, ...], widths: list[int]) -> None:
    memory = UOp.param(1, dtypes.uint8, (4 * step,))
    place = UOp.range(4, 0) * step
    loads = [make(ops.LOAD, (memory, place + offset), 1) for offset in offsets]
    paired = pair_bytes(UOp.group(*loads))
    assert sorted(node.arg for node in paired.topological() if node.op is ops.LOAD) == widths
    for new, old, offset in zip(paired.src, loads, offsets, strict=True):
        if new is not old:
            vector, lane = new.src
            assert linear_form(vector.src[1])[1] + lane.arg == offset


def test_bytes_with_a_gate_and_wider_numbers_stay() -> None:
    r = UOp.range(4, 0)
    for dtype in (dtypes.uint8, dtypes.int16):
        memory = UOp.param(1, dtype, (64,))
        gate = (r < 3,) if dtype is dtypes.uint8 else ()
        group = UOp.group(*(make(ops.LOAD, (memory, r * 2 + i, *gate), 1) for i in range(2)))
        assert pair_bytes(group) is group
