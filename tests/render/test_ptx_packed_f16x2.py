"""float16 and bfloat16 two by two have the bits that float32 and one rounding give, whatever the width of a vector.

A machine in Python runs them, for every architecture that has other instructions; test_ptx_values.py, a GPU.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from render.cpu_programs import assert_same, listed
from render.ptx_machine import run_ptx
from render.test_ptx import ARCHS, assemble, needs_ptxas, programs_of
from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.args import RangeKind
from whit.ir.interpret import evaluate, numpy_dtype
from whit.ir.uop import UOp, const, make
from whit.render import render
from whit.target import parse_target

pytestmark = pytest.mark.slow  # every thread is interpreted

F16, BF16, F32 = dtypes.float16, dtypes.bfloat16, dtypes.float32
HALF_PRECISION = (F16, BF16)
TARGET = parse_target("CUDA:PTX:sm_90a")
SPECIAL = {
    F16: (0, 1, 0x3FF, 0x400, 0x3BFF, 0x3C00, 0x3C01, 0x7BFF, 0x7C00, 0x7E01),
    BF16: (0, 1, 0x7F, 0x80, 0x3F7F, 0x3F80, 0x3F81, 0x7F7F, 0x7F80, 0x7FC1),
}
COUNT = 240


def number(x: UOp) -> UOp:
    """1 instead of NaN, which has bits that nobody knows."""
    return x.eq(x).where(x, 1.0)


Form = Callable[[UOp, UOp, UOp, UOp], UOp]

FORMS: dict[str, Form] = {  # of three vectors and a scalar
    "add": lambda x, y, z, s: x + y,
    "sub": lambda x, y, z, s: x - y,
    "mul": lambda x, y, z, s: x * y,
    "fma": lambda x, y, z, s: make(ops.FMA, (x, y, z)),
    "max": lambda x, y, z, s: x.maximum(y),
    "min": lambda x, y, z, s: x.minimum(y),
    "neg": lambda x, y, z, s: -x,
    "abs": lambda x, y, z, s: abs(x),
    "where": lambda x, y, z, s: (x < y).where(y, z),
    "where of a scalar": lambda x, y, z, s: (s < 1.0).where(y, z),
    "where of numbers": lambda x, y, z, s: (x < y).where(x.constant(2.0), 3.0),
    "lt": lambda x, y, z, s: x < y,
    "le": lambda x, y, z, s: make(ops.LE, (x, y)),
    "eq": lambda x, y, z, s: x.eq(y),
    "ne": lambda x, y, z, s: x.ne(y),
    "not fused": lambda x, y, z, s: x * y + z,
    "a scalar": lambda x, y, z, s: s - x * s,
    "scalars": lambda x, y, z, s: make(ops.FMA, (s, s - 1.0, -s)) * x,
    "numbers": lambda x, y, z, s: (x * 0.1 + 3.0).maximum(-1.0) - x.constant(2.0),
    "float32 between": lambda x, y, z, s: (x.cast(F32) * 1.1).cast(x.dtype) + make(ops.SQRT, (y,)),
    "to float32": lambda x, y, z, s: (x + y).cast(F32) * z.cast(F32),
    "bits": lambda x, y, z, s: ((number(x * y).bitcast(dtypes.uint16) ^ 1).bitcast(x.dtype)) - z,
    "bits as a number": lambda x, y, z, s: number(x * y).bitcast(dtypes.int16).cast(F32) * 0.5,
    "bits of a minus": lambda x, y, z, s: (-number(x)).bitcast(dtypes.uint16).cast(dtypes.int32),
}


def of_bits(dtype: DType, count: int, seed: int) -> Any:
    """Operands: a third special ones, the others any bits."""
    generator = np.random.default_rng(seed)
    codes = generator.integers(0, 1 << 16, count, np.uint16)
    special = generator.choice(np.array(SPECIAL[dtype], np.uint16), count) | codes & 0x8000
    return np.where(generator.integers(0, 3, count) == 0, special, codes).view(numpy_dtype(dtype))


def operands(dtype: DType, count: int) -> list[Any]:
    """Three vectors, some of the second close to the first, and a scalar."""
    x, y, z = (of_bits(dtype, count, seed) for seed in range(3))
    y[::5] = (x[::5].view(np.uint16) ^ 0x8001).view(y.dtype)
    return [x, y, z, np.array([0.3], y.dtype)]


def expected(form: Form, dtype: DType, given: list[Any]) -> tuple[DType, Any]:
    x, y, z, scalar = (UOp.buffer(i, dtype, array.shape) for i, array in enumerate(given))
    node = form(x, y, z, scalar.reshape(()))
    return node.dtype, evaluate(node, dict(zip((x, y, z, scalar), given, strict=True)))


def program(form: Form, dtype: DType, count: int, width: int, threads: int) -> UOp:
    """Each thread computes so many neighbours: slot 0 is the result, the others the operands."""
    block = UOp.range(const(dtypes.int32, count // width // threads), 0, RangeKind.BLOCK)
    thread = UOp.range(const(dtypes.int32, threads), 1, RangeKind.THREAD)
    place = (block * threads + thread) * width
    params = [UOp.param(i + 1, dtype, (size,)) for i, size in enumerate((count, count, count, 1))]
    x, y, z = (param.load(place, width) for param in params[:3])
    value = form(x, y, z, params[3].load(const(dtypes.int32, 0)))
    out = UOp.param(0, value.dtype, (count,))
    return listed(out, *params, block, thread, out.store(value, place), thread.end(), block.end())


@pytest.mark.parametrize("width", (1, 2, 3, 8))
@pytest.mark.parametrize("arch", ("sm_75", "sm_80", "sm_90a"))
@pytest.mark.parametrize("dtype", HALF_PRECISION, ids=lambda dtype: dtype.name)
def test_bits_are_those_of_the_interpreter(dtype: DType, arch: str, width: int) -> None:
    given, target = operands(dtype, COUNT), parse_target(f"CUDA:PTX:{arch}")
    for name, form in FORMS.items():
        result_dtype, wanted = expected(form, dtype, given)
        text = render({"f": program(form, dtype, COUNT, width, COUNT // width)}, target)
        result = np.zeros(COUNT, numpy_dtype(result_dtype))
        run_ptx(text, 1, COUNT // width, {f"p{i}": array for i, array in enumerate((result, *given))})
        assert_same(result_dtype, result, wanted, name, signed_zero=name not in ("max", "min"))


@pytest.mark.parametrize("order", ((0, 1, 4, 5), (1, 0, 2, 7), (3, 3, 5, 6)), ids=str)
def test_lanes_in_another_order(order: tuple[int, ...]) -> None:
    x, y, *_ = given = operands(F16, COUNT)
    text = render({"f": program(lambda a, b, *_: make(ops.SHUFFLE, (a, b), order) * b, F16, COUNT, 4, 60)}, TARGET)
    result = np.zeros_like(x)
    run_ptx(text, 1, 60, {f"p{i}": array for i, array in enumerate((result, *given))})
    lanes = np.concatenate([x.reshape(-1, 4), y.reshape(-1, 4)], axis=1)[:, order]
    with np.errstate(all="ignore"):
        assert_same(F16, result, (lanes * y.reshape(-1, 4)).reshape(-1), str(order))
    assert text.count("prmt") == (0 if order == (0, 1, 4, 5) else 2)


@needs_ptxas
@pytest.mark.parametrize("arch", ARCHS)
def test_they_assemble(arch: str, tmp_path: Path) -> None:
    programs = {
        f"f{i}_{dtype.name}_{width}": program(form, dtype, COUNT, width, 24)
        for i, form in enumerate(FORMS.values())
        for dtype in HALF_PRECISION
        for width in (1, 2, 5)
    }
    assemble(render(programs, parse_target(f"CUDA:PTX:{arch}")), arch, tmp_path)


@pytest.mark.parametrize("dtype", (F16, dtypes.int16, dtypes.uint16), ids=lambda dtype: dtype.name)
def test_numbers_are_stored_two_by_two(dtype: DType) -> None:
    values = [2, 3, 0, 7] if dtype.is_unsigned else [-2, 3, -1, 7]
    out = UOp.param(0, dtype, (4,))
    stack = UOp.stack(*(const(dtype, value) for value in values))
    text = render({"f": listed(out.store(stack, const(dtypes.int32, 0)))}, TARGET)
    result = np.zeros(4, numpy_dtype(dtype))
    run_ptx(text, 1, 1, {"p0": result})
    assert result.tolist() == values and text.count("st.global") == 1


def text_of(value: UOp, arch: str) -> str:
    target = parse_target(f"CUDA:PTX:{arch}")
    return render(programs_of(value, target), target)


@pytest.mark.parametrize(("arch", "dtype", "instructions"), (
    ("sm_80", F16, ("mul.rn.f16x2", "add.rn.f16x2")),
    ("sm_80", BF16, ("fma.rn.bf16x2", "fma.rn.bf16x2")),
    ("sm_90a", BF16, ("mul.rn.bf16x2", "add.rn.bf16x2")),
    ("sm_100", BF16, ("mul.rn.bf16x2", "add.rn.bf16x2")),
))  # fmt: skip
def test_eight_halves_are_four_registers_from_load_to_store(
    arch: str, dtype: DType, instructions: tuple[str, str]
) -> None:
    x = UOp.param(0, dtype, (1 << 20,))
    text = text_of(x * x + x, arch)
    assert sum(text.count(name) for name in {*instructions}) == 8
    assert "prmt" not in text and "cvt.f32" not in text and ".f32" not in text


def test_what_has_no_instruction_is_computed_in_float32_and_rounded_two_by_two() -> None:
    x = UOp.param(0, BF16, (1 << 20,))
    text = text_of(make(ops.SQRT, (x + x,)), "sm_90a")
    assert [text.count(name) for name in ("add.rn.bf16x2", "sqrt.rn.f32", "cvt.rn.bf16x2.f32")] == [4, 8, 4]
    text = text_of((x < x * x).cast(dtypes.int32), "sm_80")
    assert [text.count(name) for name in ("fma.rn.bf16x2", "setp.lt.f32", "setp.lt.bf16x2")] == [2, 4, 0]
