"""Every elementwise op on every dtype, scalar and in vectors of each width, agrees with the interpreter bit for bit."""

import numpy as np
import pytest

from render.cpu_programs import (
    BEFORE,
    RENDERERS,
    Compile,
    accepts,
    assert_same,
    by_c,
    by_llvm,
    call,
    mapped,
    operand_dtypes,
    sample_arrays,
)
from whit.dtype import DType, dtypes
from whit.errors import NotSupportedError
from whit.ir import ops
from whit.ir.interpret import evaluate, numpy_dtype
from whit.ir.op import Op
from whit.ir.uop import UOp, make
from whit.render.c.text import render_c
from whit.render.llvm.text import render_llvm
from whit.target import parse_target

pytestmark = pytest.mark.slow  # every op, dtype and width

COUNT = 48 * 16  # a multiple of every width
WIDTHS = {by_llvm: (1, 3, 4, 8, 16), by_c: (3,)}
# C is never written of fp8, but of what computes it: tests/matrix compiles every op and cast of one of them through C.
DTYPES = {by_llvm: dtypes.scalars, by_c: tuple(dtype for dtype in dtypes.scalars if dtype not in dtypes.fp8s)}
OPS = [op for op in ops.ELEMENTWISE if op not in BEFORE]


@pytest.mark.parametrize("compile", RENDERERS)
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_elementwise_op_means_what_the_interpreter_says(op: Op, compile: Compile) -> None:
    cases = [(dtype, width) for dtype in DTYPES[compile] if accepts(op, dtype) for width in WIDTHS[compile]]
    programs = {
        f"{dtype.name}_{width}": mapped(lambda *x: make(op, x), operand_dtypes(op, dtype), COUNT, width)
        for dtype, width in cases
    }
    library = compile(programs)
    for dtype in dict.fromkeys(dtype for dtype, _ in cases):
        sources = operand_dtypes(op, dtype)
        given = sample_arrays(sources, COUNT)
        buffers = [UOp.buffer(i, source, (COUNT,)) for i, source in enumerate(sources)]
        node = make(op, tuple(buffers))
        expected = evaluate(node, dict(zip(buffers, given, strict=True)))
        for width in WIDTHS[compile]:
            result = np.zeros(COUNT, numpy_dtype(node.dtype))
            call(library, f"{dtype.name}_{width}", [result, *given])
            what = f"{op.name} of {width} {dtype.name}"
            assert_same(node.dtype, result, expected, what, signed_zero=op not in (ops.MAX, ops.MIN))


@pytest.mark.parametrize("compile", RENDERERS)
@pytest.mark.parametrize("source", dtypes.scalars, ids=lambda dtype: dtype.name)
def test_cast_means_what_the_interpreter_says(source: DType, compile: Compile) -> None:
    widths = (1, 3, 16) if compile is by_llvm else (3,)
    cases = [(target, width) for target in DTYPES[compile] if target is not source for width in widths]
    programs = {
        f"{target.name}_{width}": mapped(lambda x: x.cast(target), (source,), COUNT, width)  # noqa: B023
        for target, width in cases
    }
    library = compile(programs)
    (given,) = sample_arrays((source,), COUNT)
    x = UOp.buffer(0, source, (COUNT,))
    for target in dict.fromkeys(target for target, _ in cases):
        expected = evaluate(x.cast(target), {x: given})
        for width in widths:
            result = np.zeros(COUNT, numpy_dtype(target))
            call(library, f"{target.name}_{width}", [result, given])
            assert_same(target, result, expected, f"cast of {width} {source.name} to {target.name}")


@pytest.mark.parametrize("compile", RENDERERS)
def test_bitcast_keeps_the_bits(compile: Compile) -> None:
    pairs = [(a, b) for a in dtypes.scalars for b in dtypes.scalars if a is not b and a.bitsize == b.bitsize]
    programs = {
        f"{a.name}_{b.name}_{width}": mapped(lambda x: x.bitcast(b), (a,), COUNT, width)  # noqa: B023
        for a, b in pairs
        for width in WIDTHS[compile][:2]
    }
    library = compile(programs)
    for source, target in pairs:
        (given,) = sample_arrays((source,), COUNT)
        for width in WIDTHS[compile][:2]:
            result = np.zeros(COUNT, numpy_dtype(target))
            call(library, f"{source.name}_{target.name}_{width}", [result, given])
            assert result.tobytes() == given.tobytes()


@pytest.mark.parametrize("compile", RENDERERS)
@pytest.mark.parametrize("op", [ops.FLOORDIV, ops.FLOORMOD, ops.CDIV, ops.CMOD, ops.SHL, ops.SHR], ids=lambda o: o.name)
def test_integer_ops_with_a_constant_on_the_right(op: Op, compile: Compile) -> None:
    kinds = (dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.int64, dtypes.uint64)
    numbers = (0, 1, 2, 3, 7, 8, 16, 64, -1, -2, -3, -8)
    widths = (1, 4) if compile is by_llvm else (1,)
    constants = {dtype: {c for c in (*numbers, dtype.min, dtype.max) if c >= dtype.min} for dtype in kinds}
    cases = [(dtype, c, width) for dtype in kinds for c in sorted(constants[dtype]) for width in widths]
    names = [f"case{i}" for i in range(len(cases))]
    programs = {
        name: mapped(lambda x: make(op, (x, x.constant(c))), (dtype,), COUNT, width)  # noqa: B023
        for name, (dtype, c, width) in zip(names, cases, strict=True)
    }
    library = compile(programs)
    for name, (dtype, constant, width) in zip(names, cases, strict=True):
        (given,) = sample_arrays((dtype,), COUNT)
        x = UOp.buffer(0, dtype, (COUNT,))
        expected = evaluate(make(op, (x, x.constant(constant))), {x: given})
        result = np.zeros(COUNT, numpy_dtype(dtype))
        call(library, name, [result, given])
        assert_same(dtype, result, expected, f"{op.name} by {constant} of {width} {dtype.name}")


def test_products_and_sums_are_not_fused() -> None:
    library = by_llvm({"kernel": mapped(lambda x, y, z: x * y + z, (dtypes.float32,) * 3, COUNT, 16)})
    x, y, z = (np.random.default_rng(i).standard_normal(COUNT).astype(np.float32) for i in range(3))
    result = np.zeros_like(x)
    call(library, "kernel", [result, x, y, z])
    assert (result == x * y + z).all()


@pytest.mark.parametrize("op", BEFORE, ids=lambda op: op.name)
@pytest.mark.parametrize("render", [render_llvm, render_c], ids=["llvm", "c"])
def test_ops_that_are_expanded_before_are_refused(op: Op, render: object) -> None:
    program = mapped(lambda *x: make(op, x), (dtypes.float32,) * op.least, 16, 4)
    with pytest.raises(NotSupportedError, match=rf"render \w+: {op.name} "):
        render({"kernel": program}, parse_target("CPU"))  # type: ignore[operator]
