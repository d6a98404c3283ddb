"""ARANGE: the positions of an axis as values."""

import numpy as np
import pytest

from whit.dtype import DType, dtypes
from whit.errors import ArgumentError, DTypeError, ShapeError
from whit.ir import ops
from whit.ir.args import ArangeArg
from whit.ir.interpret import evaluate, numpy_dtype
from whit.ir.op import TENSOR
from whit.ir.text.write import to_text
from whit.ir.uop import UOp, make
from whit.simplify.bounds import bounds

n = UOp.variable("n", 0, 9)


@pytest.mark.parametrize("dtype", (dtypes.weakint, *dtypes.ints), ids=lambda d: d.name)
@pytest.mark.parametrize("size", (0, 1, 5, 128))
def test_the_value_at_a_position_is_the_position(dtype: DType, size: int) -> None:
    node = UOp.arange(size, dtype)
    assert (node.shape, node.dtype, node.device, node.op.stages) == ((size,), dtype, None, TENSOR)
    found = evaluate(node)
    assert found.dtype == numpy_dtype(dtype)
    np.testing.assert_array_equal(found, np.arange(size))


def test_a_symbolic_size_is_a_source() -> None:
    node = UOp.arange(n, dtypes.int32)
    assert node.shape == (n,)
    assert evaluate(node, {n: 4}).tolist() == [0, 1, 2, 3]
    assert evaluate(UOp.arange(n.bind(3))).tolist() == [0, 1, 2]


def test_bounds_are_the_positions() -> None:
    assert bounds(UOp.arange(5, dtypes.int32)) == (0, 4)
    assert bounds(UOp.arange(1)) == (0, 0)
    assert bounds(UOp.arange(0)) == (0, 0)
    assert bounds(UOp.arange(n)) == (0, 8)
    assert bounds(UOp.arange(5).reshape((5, 1)).expand((5, 3)) * 2 + 1) == (1, 9)


def test_it_is_interned_by_size_and_dtype() -> None:
    assert UOp.arange(5) is UOp.arange(5)
    assert UOp.arange(5) is not UOp.arange(5, dtypes.int32)


def test_its_text() -> None:
    assert to_text(UOp.arange(5, dtypes.int32)) == "%1 = arange size=5, dtype=int32  # int32(5,)"


def test_what_does_not_fit() -> None:
    with pytest.raises(DTypeError, match="int8 does not hold the positions below 129"):
        UOp.arange(129, dtypes.int8)
    with pytest.raises(DTypeError, match="float32 does not hold"):
        UOp.arange(3, dtypes.float32)
    with pytest.raises(ShapeError, match="a size is -1"):
        UOp.arange(-1)
    with pytest.raises(ArgumentError, match="1 symbolic sizes for"):
        make(ops.ARANGE, (n,), ArangeArg(4, dtypes.int32))
    with pytest.raises(ArgumentError, match="0 symbolic sizes for"):
        make(ops.ARANGE, (), ArangeArg(None, dtypes.int32))
    with pytest.raises(DTypeError, match="symbolic sizes are scalars of dtype weakint"):
        UOp.arange(UOp.param(0, dtypes.int32))
