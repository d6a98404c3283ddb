"""Accesses of a small stride as whole runs: what is loaded and stored, and that nothing beyond it is touched."""

import numpy as np
import pytest

from whit import Context, Tensor
from whit.codegen.passes.interleave import interleave
from whit.codegen.passes.lanes import lane_numbers
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.uop import UOp, make
from whit.simplify.sums import linear_form
from whit.target import parse_target

MASKS, NO_MASKS = parse_target("CPU:LLVM:icelake-server"), parse_target("CPU:LLVM:x86-64-v3")
IN, OUT = UOp.param(1, dtypes.float32, (64,)), UOp.param(0, dtypes.float32, (64,))
LANES = lane_numbers(8)


def reading(*offsets: int, gate: tuple[UOp, ...] = ()) -> UOp:
    loads = [make(ops.LOAD, (IN, LANES * 4 + i, *gate), 1) for i in offsets]
    return UOp.group(*(OUT.store(load, 8 * i) for i, load in enumerate(loads)))


def loads_of(body: UOp) -> list[UOp]:
    return [node for node in body.topological() if node.op is ops.LOAD]


@pytest.mark.parametrize("target", [MASKS, NO_MASKS], ids=str)
def test_gathers_side_by_side_are_one_load_and_shuffles(target) -> None:
    changed = interleave(reading(0, 1, 2, 3), target)
    (load,) = loads_of(changed)
    assert load.arg == 32 and len(load.src) == 2
    assert [store.src[1].arg for store in changed.src] == [tuple(range(i, 32, 4)) for i in range(4)]


def test_what_nobody_asked_for_behind_the_last_element_is_not_read() -> None:
    some = reading(5, 6)
    assert interleave(some, NO_MASKS) is some
    (load,) = loads_of(interleave(some, MASKS))
    assert linear_form(load.src[1]) == ({}, 5)
    assert load.src[2] is (lane_numbers(32) < 7 * 4 + 2)


def test_lanes_that_do_not_count_are_not_read() -> None:
    few = reading(0, 1, 2, 3, gate=(LANES < 3,))
    (load,) = loads_of(interleave(few, MASKS))
    assert load.src[2] is (lane_numbers(32) < 2 * 4 + 4)
    others = reading(0, 1, 2, 3, gate=(LANES.eq(2),))
    assert interleave(others, MASKS) is others


@pytest.mark.parametrize("count", [2, 3, 4])
def test_stores_that_fill_a_run_are_one(count: int) -> None:
    values = [IN.load(8 * i, 8) for i in range(count)]
    stores = [
        make(ops.STORE, (OUT, value, LANES * count + i), OUT.store(value, 0).arg) for i, value in enumerate(values)
    ]
    changed = interleave(UOp.group(*stores), NO_MASKS)
    (store,) = set(changed.src)
    assert linear_form(store.src[2]) == ({}, 0) and store.src[1].shape == (8 * count,)
    assert store.src[1].arg == tuple(t * 8 + i for i in range(8) for t in range(count))
    some = UOp.group(*stores[:-1])
    assert interleave(some, MASKS) is some  # what lies between belongs to others


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3, 4])
def test_compiled_runs_of_any_length_and_dtype(count: int) -> None:
    for size, dtype in ((5000, np.float32), (4099, np.float64), (4104, np.int16)):
        parts = [np.arange(i, i + size).astype(dtype) for i in range(count)]
        with Context(CHECK_OOB=1):
            found = Tensor.stack(*(Tensor(part) for part in parts), dim=-1).contiguous().realize()
            apart = [found[:, i].contiguous().numpy() for i in range(count)]
        np.testing.assert_array_equal(found.numpy(), np.stack(parts, -1))
        for part, back in zip(parts, apart, strict=True):
            np.testing.assert_array_equal(part, back)


@pytest.mark.cpu
@pytest.mark.parametrize("channels", [2, 3, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.float64])
def test_colours_come_to_lie_beside_each_other(channels: int, dtype: type) -> None:
    for height, width in ((1, 16), (7, 35)):
        a = (np.arange(2 * channels * height * width) % 251).reshape(2, channels, height, width).astype(dtype)
        last = np.ascontiguousarray(a.transpose(0, 2, 3, 1))
        padded = np.pad(last, [(0, 0), (1, 2), (2, 1), (0, 0)])
        x = Tensor(a).permute(0, 2, 3, 1)
        np.testing.assert_array_equal(x.contiguous().numpy(), last)
        np.testing.assert_array_equal(x.pad([(0, 0), (1, 2), (2, 1), (0, 0)]).contiguous().numpy(), padded)
        np.testing.assert_array_equal(Tensor(last).permute(0, 3, 1, 2).contiguous().numpy(), a)
