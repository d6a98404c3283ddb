"""Cases in which NumPy does something else than docs/semantics.md says, and the interpreter must not."""

import math

import numpy as np
import pytest

from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.interpret import evaluate, numpy_dtype, run
from whit.ir.uop import UOp, const

UNSIGNED = (dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64)


def test_a_scalar_has_no_axes_to_pad_shrink_or_flip() -> None:
    x = UOp.param(0, dtypes.float32)
    for node in (x.pad(()), x.shrink(()), x.flip(()), x.permute(()), x.expand(()), x.reshape(())):
        assert evaluate(node, {x: np.float32(3)}) == 3


@pytest.mark.parametrize("shape", [(), (1,), (2,), (3, 1)])
def test_one_exponent_for_many_numbers_is_no_square_root(shape: tuple[int, ...]) -> None:
    # np.power takes the square root where one exponent of 0.5 is broadcast: NaN at -inf, and -0.0 stays.
    x, y = UOp.param(0, dtypes.float64, (3, 2)), UOp.param(1, dtypes.float64, shape)
    numbers = np.array([[-math.inf, -0.0]] * 3)
    wide = y.reshape((1,) * (2 - len(shape)) + shape).expand((3, 2)) if shape else y
    result = evaluate(x.alu(ops.POW, wide), {x: numbers, y: np.full(shape, 0.5)})
    assert np.array_equal(result, [[math.inf, 0.0]] * 3)
    assert not np.signbit(result).any()


@pytest.mark.parametrize("dtype", UNSIGNED, ids=lambda dtype: dtype.name)
def test_a_gated_store_at_an_unsigned_position(dtype: DType) -> None:
    memory, place, gate = UOp.param(0, dtypes.int32, (4,)), UOp.param(1, dtype), UOp.param(2, dtypes.bool)
    store = memory.store(const(dtypes.int32, 5), place, gate=gate)
    for graph in (store, UOp.linear(store)):
        for position, is_on, expected in ((1, True, [0, 5, 0, 0]), (1, False, [0] * 4), (200, False, [0] * 4)):
            array = np.zeros(4, np.int32)
            run(graph, {memory: array, place: np.array(position, numpy_dtype(dtype)), gate: np.array(is_on)})
            assert array.tolist() == expected
