"""The interpreter and constant folding give the same value: every elementwise op on every dtype it accepts."""

import math
from typing import Any

import pytest

from ops.corners import (
    APPROXIMATE,
    ULPS,
    accepted,
    by_scalars,
    graph_on,
    is_same,
    name_of,
    samples,
    source_dtypes,
    to_array,
    to_python,
)
from whit.dtype import DType, convert, decode, dtypes
from whit.ir import ops
from whit.ir.interpret import evaluate, numpy_dtype
from whit.ir.op import Op
from whit.ir.uop import UOp

pytestmark = pytest.mark.slow  # many

CASTABLE = (dtypes.weakint, *dtypes.scalars)


@pytest.mark.parametrize("op, dtype", accepted(), ids=name_of)
def test_arrays_and_scalars_agree(op: Op, dtype: DType) -> None:
    sources = source_dtypes(op, dtype)
    operands = samples(sources)
    node, buffers = graph_on(op, dtype, len(operands))
    columns = list(zip(*operands, strict=True))
    inputs = {b: to_array(b.dtype, column) for b, column in zip(buffers, columns, strict=True)}
    results = to_python(node.dtype, evaluate(node, inputs))
    ulps = (ULPS if dtype is dtypes.float64 else 1) if op in APPROXIMATE else 0
    for values, result in zip(operands, results, strict=True):
        expected = by_scalars(op, dtype, values)
        same = is_same(node.dtype, result, expected, ulps, signed_zero=op not in (ops.MAX, ops.MIN))
        assert same, f"{op.name}{values} of {dtype.name}: arrays give {result}, scalars {expected}"


@pytest.mark.parametrize("op, dtype", accepted(), ids=name_of)
def test_one_element_is_computed_like_many(op: Op, dtype: DType) -> None:
    sources = source_dtypes(op, dtype)
    operands = samples(sources, most=20)
    node, buffers = graph_on(op, dtype, len(operands))
    inputs = {b: to_array(b.dtype, [v[i] for v in operands]) for i, b in enumerate(buffers)}
    together = to_python(node.dtype, evaluate(node, inputs))
    scalars = tuple(UOp.param(i, source) for i, source in enumerate(sources))
    alone = scalars[0].alu(op, *scalars[1:])
    for values, expected in zip(operands, together, strict=True):
        given = {p: to_array(p.dtype, [v])[0:1].reshape(()) for p, v in zip(scalars, values, strict=True)}
        result = evaluate(alone, given)
        assert result.shape == ()
        assert is_same(node.dtype, to_python(node.dtype, result.reshape(1))[0], expected, ULPS, signed_zero=False)


@pytest.mark.parametrize("source", CASTABLE, ids=name_of)
@pytest.mark.parametrize("target", CASTABLE, ids=name_of)
def test_cast_of_arrays_is_convert(source: DType, target: DType) -> None:
    values = [value for (value,) in samples((source,)) if _converts(target, value)]
    x = UOp.buffer(0, source, (len(values),))
    node = x.cast(target)
    results = to_python(target, evaluate(node, {x: to_array(source, values)}))
    for value, result in zip(values, results, strict=True):
        expected = convert(target, value) if source is not target else value
        assert is_same(target, result, expected), f"{value} to {target.name}: {result}, not {expected}"


def _converts(target: DType, value: Any) -> bool:
    return target is not dtypes.weakint or value not in (math.inf, -math.inf)


@pytest.mark.parametrize("target", [*dtypes.fp8s, dtypes.bfloat16], ids=name_of)
def test_the_largest_double_converts_to_small_floats(target: DType) -> None:
    largest = dtypes.float64.largest
    assert convert(target, largest) == (target.largest if target.saturates else math.inf)


@pytest.mark.parametrize("dtype", dtypes.fp8s, ids=name_of)
def test_cast_to_fp8_rounds_like_convert_everywhere(dtype: DType) -> None:
    codes = list(range(1 << 16))
    x = UOp.buffer(0, dtypes.bfloat16, (len(codes),))
    values = [decode(dtypes.bfloat16, code) for code in codes]
    results = to_python(dtype, evaluate(x.cast(dtype), {x: to_array(dtypes.bfloat16, values)}))
    assert all(is_same(dtype, result, convert(dtype, value)) for result, value in zip(results, values, strict=True))


@pytest.mark.parametrize("dtype", dtypes.scalars, ids=name_of)
def test_bitcast_keeps_the_bits(dtype: DType) -> None:
    given = to_array(dtype, [value for (value,) in samples((dtype,))])
    x = UOp.buffer(0, dtype, given.shape)
    for other in dtypes.scalars:
        if other.bitsize == dtype.bitsize:
            result = evaluate(x.bitcast(other), {x: given})
            assert result.dtype == numpy_dtype(other)
            assert result.tobytes() == given.tobytes()


@pytest.mark.parametrize("dtype", [d for d in dtypes.floats if d.mantissa_bits < 52], ids=name_of)
def test_fused_multiply_add_rounds_once(dtype: DType) -> None:
    # (1 + step) * 1.5 is a tie between 1.5 + step and 1.5 + 2 * step, and an addend however small decides it.
    step, tiny = 2.0**-dtype.mantissa_bits, 2.0 ** (1 - dtype.bias)
    x, y, z = (UOp.param(i, dtype) for i in range(3))
    for addend, expected in ((tiny, 1.5 + 2 * step), (-tiny, 1.5 + step)):
        operands = (1 + step, 1.5, addend)
        given = {p: to_array(dtype, [v]).reshape(()) for p, v in zip((x, y, z), operands, strict=True)}
        assert evaluate(x.fma(y, z), given).astype(float) == expected
        assert by_scalars(ops.FMA, dtype, operands) == expected
