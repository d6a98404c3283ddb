"""A bitcast of a constant is the constant with these bits, or stays a bitcast."""

import numpy as np
import pytest

from whit.dtype import DType, decode, dtypes, encode
from whit.ir import ops
from whit.ir.interpret import evaluate
from whit.ir.uop import UOp, const
from whit.simplify import simplify


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (dtypes.uint8, dtypes.fp8e5m2),
        (dtypes.uint8, dtypes.fp8e4m3),
        (dtypes.int8, dtypes.fp8e5m2fnuz),
        (dtypes.uint16, dtypes.float16),
        (dtypes.uint16, dtypes.bfloat16),
    ],
    ids=str,
)
def test_every_bitcast_of_a_constant_keeps_its_bits(source: DType, target: DType) -> None:
    step = 1 if target.bitsize == 8 else 97
    for bits in range(0, 1 << target.bitsize, step):
        node = const(source, decode(source, bits)).bitcast(target)
        folded = simplify(node)
        if folded.op is ops.CONST:
            assert encode(target, folded.arg) == bits
        else:
            assert folded is node
            assert decode(target, bits) != decode(target, bits)  # only a signalling NaN has no constant
        unsigned = f"u{target.itemsize}"
        assert np.asarray(evaluate(folded, {})).view(unsigned) == bits


def test_a_choice_between_constants_keeps_an_infinity() -> None:
    infinity = UOp.const_from_bits(dtypes.fp8e5m2, 0x7C)
    chosen = const(dtypes.bool, True).where(infinity, 1.0)
    assert simplify(chosen) is infinity
    assert simplify(infinity + 1.0) is infinity
