"""float16, bfloat16 and fp8 are converted exactly as `whit.dtype.convert` says, on every bit pattern."""

from typing import Any

import numpy as np
import pytest

from render.cpu_programs import assert_same, by_llvm, call, mapped
from whit.dtype import DType, convert, decode, dtypes, encode
from whit.ir import ops
from whit.ir.check.verify import verify
from whit.ir.interpret import evaluate, numpy_dtype
from whit.ir.op import Stage
from whit.ir.uop import UOp, const
from whit.render.program import relist
from whit.render.small_floats import SMALL, emulate_small_floats

F32, F64, I64 = dtypes.float32, dtypes.float64, dtypes.int64
SMALL_LIST = (dtypes.float16, dtypes.bfloat16, *dtypes.fp8s)
TARGETS = ("CPU:LLVM", "CPU:LLVM:x86-64")  # with an instruction for float16, and without


def every_code(dtype: DType) -> Any:
    return np.arange(1 << dtype.bitsize, dtype=f"u{dtype.itemsize}").view(numpy_dtype(dtype))


def near_ties() -> Any:
    """float32: all upper halves, each with lower halves around which roundings change."""
    low = np.array([0, 1, 0x0FFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    return ((np.arange(1 << 16, dtype=np.uint32) << 16)[:, None] | low).reshape(-1).view(np.float32)


def converted(given: Any, source: DType, target: DType, machine: str, width: int = 16) -> Any:
    padded = np.concatenate([given, given[: -len(given) % width]])
    library = by_llvm({"cast": mapped(lambda x: x.cast(target), (source,), len(padded), width)}, machine)
    result = np.zeros(len(padded), numpy_dtype(target))
    call(library, "cast", [result, padded])
    return result[: len(given)]


def oracle(given: Any, source: DType, target: DType) -> Any:
    x = UOp.buffer(0, source, given.shape)
    return evaluate(x.cast(target), {x: given})


@pytest.mark.slow
@pytest.mark.parametrize("machine", TARGETS)
@pytest.mark.parametrize("source", SMALL_LIST, ids=lambda d: d.name)
def test_every_small_float_decodes(source: DType, machine: str) -> None:
    given = every_code(source)
    assert_same(F32, converted(given, source, F32, machine), oracle(given, source, F32), source.name)
    values = converted(given, source, F64, machine).tolist()
    expected = [decode(source, code) for code in range(1 << source.bitsize)]
    assert all(a == b or (a != a and b != b) for a, b in zip(values, expected, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("machine", TARGETS)
@pytest.mark.parametrize("target", SMALL_LIST, ids=lambda d: d.name)
def test_float32_is_rounded_once(target: DType, machine: str) -> None:
    given = near_ties()
    assert_same(target, converted(given, F32, target, machine), oracle(given, F32, target), target.name)


@pytest.mark.slow
@pytest.mark.parametrize("target", SMALL_LIST, ids=lambda d: d.name)
def test_float64_and_wide_integers_are_rounded_once(target: DType) -> None:
    generator = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        codes = every_code(target).astype(np.float64)
        middle = (codes + np.roll(codes, 1)) / 2
        values = middle[np.isfinite(middle)][:4000]
        doubles = np.concatenate([values, np.nextafter(values, np.inf), np.nextafter(values, -np.inf)])
    doubles = np.concatenate([doubles, [np.inf, -np.inf, np.nan, 1e308, -1e308, 5e-324, -5e-324, 0.0, -0.0]])
    assert_same(target, converted(doubles, F64, target, "CPU"), oracle(doubles, F64, target), target.name)
    shifts = generator.integers(0, 63, 3000)
    ints = generator.integers(-(2**63), 2**63 - 1, 3000) >> shifts
    ties = np.array([s * (2**k + 2 ** (k - 9) + d) for k in range(54, 63) for s in (1, -1) for d in (-1, 0, 1)])
    ints = np.concatenate([ints, ties, [2**63 - 1, -(2**63)]])
    assert_same(target, converted(ints, I64, target, "CPU"), oracle(ints, I64, target), target.name)
    unsigned = ints.view(np.uint64)
    result = converted(unsigned, dtypes.uint64, target, "CPU")
    assert_same(target, result, oracle(unsigned, dtypes.uint64, target), target.name)


def test_some_conversions_by_hand() -> None:
    for target, value in ((dtypes.bfloat16, 1.00390625), (dtypes.fp8e4m3, 1e9), (dtypes.float16, 65519.996)):
        (result,) = converted(np.array([value] * 16), F64, target, "CPU")[:1].view(f"u{target.itemsize}").tolist()
        assert result == encode(target, convert(target, value))


def test_only_moves_of_small_floats_are_left() -> None:
    x, out = UOp.param(0, dtypes.bfloat16, (4,)), UOp.param(1, dtypes.bfloat16, (4,))
    value = x.load(const(I64, 0))
    product = value * value
    linear = UOp.linear(x, out, value, product, out.store(product, const(I64, 1)))
    done = emulate_small_floats(linear, has_half=False)
    verify(done, Stage.PROGRAM)
    small = {node.op for node in done.src if node.dtype in SMALL or any(s.dtype in SMALL for s in node.src)}
    assert small == {ops.PARAM, ops.LOAD, ops.STORE, ops.BITCAST}
    assert emulate_small_floats(done, has_half=False) is done


def test_programs_without_small_floats_stay_as_they_are() -> None:
    x = UOp.param(0, F32, (4,))
    linear = UOp.linear(x, x.load(const(I64, 0)))
    assert emulate_small_floats(linear, has_half=False) is linear


def test_new_instructions_are_listed_where_all_their_users_see_them() -> None:
    x, loop = UOp.param(0, F32, (4,)), UOp.range(const(I64, 4), 0)
    value = x.load(const(I64, 0))
    inside, outside = x.store(value, loop), x.store(value + 1.0, const(I64, 0))
    linear = UOp.linear(x, value, loop, inside, loop.end(), value + 1.0, outside)
    double = value * 2.0
    replaced = {inside: x.store(double, loop), outside: x.store(double, const(I64, 0))}
    done = relist(linear, replaced)
    verify(done, Stage.PROGRAM)
    order = list(done.src)
    assert order.index(double) < order.index(loop)
