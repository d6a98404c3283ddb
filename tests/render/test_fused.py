"""Multiply-add rounds once on every target, with the instruction or without."""

from fractions import Fraction

import numpy as np
import pytest

from render.cpu_programs import assert_same, call, mapped, sample_arrays
from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.check.verify import verify
from whit.ir.interpret import evaluate, numpy_dtype
from whit.ir.op import Stage
from whit.ir.uop import UOp, make
from whit.render import render
from whit.render.fused import expand_fma
from whit.runtime.code.gcc import compile_c, find_compiler, load_shared
from whit.runtime.code.llvm import compile_llvm, load_object
from whit.target import host_target, parse_target

F32, F64 = dtypes.float32, dtypes.float64
TARGETS = ["CPU:LLVM:x86-64", "CPU:LLVM:x86-64-v2", "CPU:C:x86-64"]
is_x86 = pytest.mark.skipif(host_target().family != "x86_64", reason="this machine is no x86")


def fused(arrays: list[np.ndarray], dtype: DType, name: str) -> np.ndarray:
    """x * y + z by code for a target, eight at a time."""
    target = parse_target(name)
    count = len(arrays[0]) // 8 * 8
    program = mapped(lambda *x: make(ops.FMA, x), (dtype,) * 3, count, 8)
    text = render({"kernel": program}, target)
    if target.renderer == "C":
        if find_compiler() is None:
            pytest.skip("there is no C compiler")
        library = load_shared(compile_c(text, target, 1))
    else:
        library = load_object(compile_llvm(text, target))
    result = np.zeros(count, numpy_dtype(dtype))
    call(library, "kernel", [result, *(array[:count].copy() for array in arrays)])
    return result


def hard_cases(dtype: DType, count: int) -> list[np.ndarray]:
    """Products just beside the middle between two numbers, sums that cancel, and results that are subnormal."""
    random = np.random.default_rng(1)
    storage = numpy_dtype(dtype)
    one = storage.type(1)
    small = np.ldexp(one, -dtype.mantissa_bits // 2 - random.integers(0, 3, count))
    x, y = (one + small).astype(storage), (one - small).astype(storage)
    z = np.ldexp(random.choice([-1.0, 1.0], count), random.integers(-60, 60, count)).astype(storage)
    a, b = (random.normal(0, 1, count).astype(storage) for _ in range(2))
    cancelling = -(a * b)  # what is left is the error of the product
    tiny = np.ldexp(one, 1 - dtype.bias).astype(storage)
    scale = np.ldexp(one, random.integers(-6, 3, count)).astype(storage)
    first = np.concatenate([x, a, a])
    second = np.concatenate([y, b, b * tiny * scale])
    third = np.concatenate([z, cancelling, random.normal(0, 1, count).astype(storage) * tiny])
    return [first.astype(storage), second.astype(storage), third.astype(storage)]


@is_x86
@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_results_without_the_instruction_are_those_of_the_interpreter(dtype: DType, name: str) -> None:
    corners, hard = sample_arrays((dtype,) * 3, 2000), hard_cases(dtype, 400)
    arrays = [np.concatenate(pair) for pair in zip(corners, hard, strict=True)]
    params = [UOp.buffer(i, dtype, arrays[0].shape) for i in range(3)]
    expected = evaluate(make(ops.FMA, tuple(params)), dict(zip(params, arrays, strict=True)))
    assert_same(dtype, fused(arrays, dtype, name), expected, name)


@is_x86
def test_the_exact_sum_is_rounded_once() -> None:
    arrays = hard_cases(F32, 200)
    result = fused(arrays, F32, "CPU:LLVM:x86-64")
    for x, y, z, found in zip(*(a.tolist() for a in (*arrays, result)), strict=True):
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        neighbours = [np.nextafter(np.float32(found), np.float32(side)) for side in (-np.inf, np.inf)]
        assert all(abs(exact - Fraction(found)) <= abs(exact - Fraction(float(n))) for n in neighbours)


def test_only_targets_without_the_instruction_are_rewritten() -> None:
    linear = mapped(lambda *x: make(ops.FMA, x), (F32,) * 3, 16, 4)
    assert expand_fma(linear, has_fma=True) is linear
    done = expand_fma(linear, has_fma=False)
    verify(done, Stage.PROGRAM)
    assert ops.FMA not in {node.op for node in done.src}
    wide = mapped(lambda *x: make(ops.FMA, x), (F64,) * 3, 16, 4)
    assert expand_fma(wide, has_fma=False) is wide
