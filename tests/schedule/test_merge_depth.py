"""Operands whose depth is several axes in memory are copied where tensor cores read them by a copy engine."""

import pytest

from schedule.build import matmul, param, stores
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.uop import UOp
from whit.schedule import schedule
from whit.target import parse_target

HOPPER = parse_target("CUDA:PTX:sm_90a")
HALF = dtypes.bfloat16


def times_weight(rows: UOp, columns: int) -> UOp:
    weight = param(1, rows.shape[-1], columns, dtype=HALF)
    return matmul(rows.cast(dtypes.float32), weight.cast(dtypes.float32)).cast(HALF)


def heads(tokens: int, order: tuple[int, ...]) -> UOp:
    """(heads, tokens, depth), as rows of 1024."""
    sizes = [0, 0, 0]
    for place, size in zip(order, (tokens, 16, 64), strict=True):
        sizes[place] = size
    return param(0, *sizes, dtype=HALF).permute(order).reshape((tokens, 1024))


@pytest.mark.parametrize(
    ("tokens", "order", "copies"),
    [(4096, (1, 0, 2), 1), (4096, (0, 1, 2), 0), (256, (1, 0, 2), 0)],
    ids=["heads first", "tokens first", "small"],
)
def test_rows_in_several_pieces_are_copied_into_one(tokens: int, order: tuple[int, ...], copies: int) -> None:
    linear = schedule(stores(times_weight(heads(tokens, order), 1024)), HOPPER)
    assert len(linear.src) == 1 + copies
    found = {a: None for call in linear.src for a in call.src[1:] if a.op is ops.BUFFER}
    assert [buffer.shape for buffer in found] == [(tokens, 1024)] * copies


def test_other_targets_read_them_where_they_are() -> None:
    assert len(schedule(stores(times_weight(heads(4096, (1, 0, 2)), 1024))).src) == 1
