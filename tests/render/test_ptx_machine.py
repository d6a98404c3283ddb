"""PTX of every op and cast means what the interpreter says, run without a GPU; test_ptx_values.py runs it on one."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from render.cpu_programs import accepts, assert_same, operand_dtypes, sample_arrays
from render.ptx_machine import run_ptx
from whit.codegen import generate
from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.interpret import evaluate, numpy_dtype
from whit.ir.op import TENSOR, Op
from whit.ir.uop import UOp, make
from whit.render import render
from whit.schedule import schedule
from whit.target import Target, parse_target

pytestmark = pytest.mark.slow

TARGET = parse_target("CUDA:PTX:sm_90a")
COUNT = 250  # of two hundred and fifty-six threads
EXPANDED = (  # into many others; tests/codegen has them
    *(ops.EXP, ops.EXP2, ops.LOG, ops.LOG2, ops.SIN, ops.COS, ops.POW, ops.LOGADDEXP),
    *(ops.SIGMOID, ops.TANH, ops.ERF),
)
DTYPES = [dtype for dtype in dtypes.scalars if dtype not in dtypes.fp8s[2:]]  # those are float32 inside
OPS = [op for op in ops.ELEMENTWISE if TENSOR in op.stages and op not in EXPANDED]


def check(
    cases: list[tuple[str, UOp]], given: dict[UOp, Any], signed_zero: bool = True, target: Target = TARGET
) -> None:
    """Values over params, in as few kernels as the schedule makes of them, as text."""
    outputs = [UOp.param(100 + i, node.dtype, (COUNT,)) for i, (_, node) in enumerate(cases)]
    found = {output: np.zeros(COUNT, numpy_dtype(output.dtype)) for output in outputs}
    stores = (output.store(node) for output, (_, node) in zip(outputs, cases, strict=True))
    for call in schedule(UOp.group(*stores), target).src:
        program = generate(call.src[0].src[0], target)
        arrays = {f"p{i}": {**given, **found}[argument] for i, argument in enumerate(call.src[1:])}
        run_ptx(render({"kernel": program.linear}, target), program.total, program.threads, arrays)
    for output, (name, node) in zip(outputs, cases, strict=True):
        assert_same(node.dtype, found[output], evaluate(node, given), name, signed_zero)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_ops(op: Op) -> None:
    cases, given = [], {}
    for dtype in DTYPES:
        if accepts(op, dtype):
            sources = operand_dtypes(op, dtype)
            params = [UOp.param(len(given) + i, source, (COUNT,)) for i, source in enumerate(sources)]
            given.update(zip(params, sample_arrays(sources, COUNT), strict=True))
            cases.append((f"{op.name} of {dtype.name}", make(op, tuple(params))))
    check(cases, given, op not in (ops.MAX, ops.MIN))


@pytest.mark.parametrize("source", DTYPES, ids=lambda dtype: dtype.name)
def test_casts(source: DType) -> None:
    param = UOp.param(0, source, (COUNT,))
    targets = [target for target in DTYPES if target is not source]
    cases = [(f"{source.name} to {target.name}", param.cast(target)) for target in targets]
    check(cases, {param: sample_arrays([source], COUNT)[0]})


def test_quotients_by_numbers_are_bits_or_parts_of_products() -> None:
    wide, short = UOp.param(0, dtypes.uint32, (COUNT,)), UOp.param(1, dtypes.uint16, (COUNT,))
    given = dict(zip((wide, short), sample_arrays([wide.dtype, short.dtype], COUNT), strict=True))
    numbers = (wide & 0x7FFFFFFF).cast(dtypes.int32), short.cast(dtypes.int64), wide
    cases = []
    for x in numbers:
        for y in (1, 3, 7, 64, 641, 65535, 0x7FFFFFFF):
            number = x.constant(y)
            cases += [(f"{x.dtype.name} by {y}", make(op, (x, number))) for op in (ops.FLOORDIV, ops.FLOORMOD)]
    check(cases, given)


@pytest.mark.parametrize("dtype", (dtypes.int8, dtypes.uint64, dtypes.bool), ids=lambda dtype: dtype.name)
def test_scans_by_exchange_between_threads(dtype: DType) -> None:
    param = UOp.param(0, dtype, (COUNT,))
    for op in (ops.AND, ops.OR) if dtype.is_bool else (ops.ADD, ops.MIN):
        check([(op.name, param.scan(op, 0))], {param: sample_arrays([dtype], COUNT)[0]})


@pytest.mark.parametrize("dtype", (dtypes.float16, dtypes.float32, dtypes.float64), ids=lambda dtype: dtype.name)
def test_sorts(dtype: DType) -> None:
    param = UOp.param(0, dtype, (COUNT,))
    check([("values", param.sort(param, 0, COUNT, True))], {param: sample_arrays([dtype], COUNT)[0]})


def test_columns_of_halves_are_read_ahead_two_in_a_register() -> None:
    target = replace(TARGET, cores=1)
    x, output = (UOp.param(slot, dtypes.bfloat16, (300, 64)) for slot in (0, 100))
    values = np.random.default_rng(0).standard_normal((300, 64)).astype(numpy_dtype(dtypes.bfloat16))
    found = np.zeros_like(values)
    (call,) = schedule(UOp.group(output.store(x.scan(ops.MAX, 0))), target).src
    program = generate(call.src[0].src[0], target)
    text = render({"kernel": program.linear}, target)
    arrays = {f"p{i}": {x: values, output: found}[argument].reshape(-1) for i, argument in enumerate(call.src[1:])}
    run_ptx(text, program.total, program.threads, arrays)
    np.testing.assert_array_equal(found, np.maximum.accumulate(values, 0))
    assert text.count("mov.b32 %acc") == 2 * 16 + 4  # 16 rows of two columns, twice; what came before, twice


# ---- what sm_75 has no instructions for

TURING = parse_target("CUDA:PTX:sm_75")
F32, BF16 = dtypes.float32, dtypes.bfloat16


@pytest.mark.parametrize("op", (ops.ADD, ops.FMA, ops.MAX, ops.MIN, ops.LT), ids=lambda op: op.name)
def test_ops_of_bfloat16_by_integers_and_extremes_without_nan(op: Op) -> None:
    cases, given = [], {}
    for dtype in (BF16, F32):
        params = [UOp.param(len(given) + i, dtype, (COUNT,)) for i in range(op.least)]
        given.update(zip(params, sample_arrays([dtype] * op.least, COUNT), strict=True))
        cases.append((f"{op.name} of {dtype.name}", make(op, tuple(params))))
    check(cases, given, op not in (ops.MAX, ops.MIN), TURING)


@pytest.mark.parametrize("source", (F32, dtypes.float64, dtypes.int64, dtypes.fp8e4m3), ids=lambda dtype: dtype.name)
def test_casts_to_bfloat16_by_integers(source: DType) -> None:
    x = UOp.param(0, source, (COUNT,))
    cases = [("there", x.cast(BF16)), ("and back", x.cast(BF16).cast(source))]
    check(cases, {x: sample_arrays([source], COUNT)[0]}, target=TURING)
