"""Products of bfloat16 by pairs: what the instruction means, in every layout, for processors that have it.

Where a test runs machine code, the instruction is replaced by what it does, so that any processor can run it."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from render.cpu_programs import by_llvm, call

from whit.codegen import generate
from whit.codegen.cpu.dot_words import as_dot
from whit.codegen.pipeline import Program
from whit.dtype import dtypes
from whit.errors import DTypeError
from whit.ir import ops
from whit.ir.args import DotArg, RangeKind
from whit.ir.interpret import evaluate, run
from whit.ir.rewrite import rewrite_all
from whit.ir.rules import Rules, function_rule
from whit.ir.uop import UOp, const, make
from whit.render import render
from whit.render.program import relist
from whit.runtime.code.llvm import assembly
from whit.target import Target, parse_target

RNG = np.random.default_rng(0)
TARGETS = [parse_target(f"CPU:LLVM:{arch}") for arch in ("sapphirerapids", "znver4")]
BF16, F32, I32 = dtypes.bfloat16, dtypes.float32, dtypes.int32
PAIRS = DotArg(BF16, BF16)


def product(m: int, k: int, n: int, layout: str = "nn", given: str = "bfloat16", out: str = "float32") -> UOp:
    """A product of matrices, of which the left one may be float32 that is rounded first."""
    a, b = UOp.param(1, getattr(dtypes, given), (m * k,)), UOp.param(2, BF16, (k * n,))
    row, column, along = UOp.range(m, 0), UOp.range(n, 1), UOp.range(k, 1000, RangeKind.REDUCE)
    left = a.index(row * k + along if layout[0] == "n" else along * m + row)
    right = b.index(along * n + column if layout[1] == "n" else column * k + along)
    both = (left if given == "bfloat16" else left.cast(BF16)).cast(F32) * right.cast(F32)
    total = both.reduce(ops.ADD, ranges=(along,))
    stored = total if out == "float32" else (total + 1.0).cast(BF16)
    return UOp.group(UOp.param(0, stored.dtype, (m * n,)).store(stored, row * n + column))


def numbers(*shape: int) -> np.ndarray:
    """Numbers whose sums of products are exact in float32."""
    return RNG.integers(-8, 9, shape).astype(np.float32) / 4


def operands(m: int, k: int, n: int, layout: str, given: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The operands as they lie in memory, and their product."""
    a, b = numbers(m, k), numbers(k, n)
    lies = [x if way == "n" else np.ascontiguousarray(x.T) for x, way in zip((a, b), layout, strict=True)]
    left = lies[0].astype(ml_dtypes.bfloat16) if given == "bfloat16" else lies[0]
    return left, lies[1].astype(ml_dtypes.bfloat16), a @ b


# ---- the op


def dot(x: list[float], y: list[float], z: float) -> float:
    words = [np.array(pair, ml_dtypes.bfloat16).view(np.int32) for pair in (x, y)]
    params = [UOp.param(i, I32, (1,)) for i in range(2)]
    node = make(ops.DOT, (*params, const(F32, z)), PAIRS)
    return float(evaluate(node, dict(zip(params, words, strict=True)))[0])


def test_dot_adds_the_products_of_two_bfloat16() -> None:
    assert dot([1.5, -2.0], [4.0, 0.25], 10.0) == 10.0 - 0.5 + 6.0


def test_each_product_is_exact_and_each_sum_is_rounded_once() -> None:
    x = 1 + 2**-7
    assert dot([x, 0.0], [x, 0.0], -(1.0 + 2**-6)) == 2**-14
    tie = 2.0**-24  # half of the last bit of 1: to even each time, where both together would have been added
    assert dot([tie, tie], [1.0, 1.0], 1.0) == 1.0
    assert dot([tie, 2 * tie], [1.0, 1.0], 1.0) == 1.0 + 4 * tie  # the upper one first, to an odd last bit
    assert dot([2 * tie, tie], [1.0, 1.0], 1.0) == 1.0 + 2 * tie


def test_subnormal_numbers_are_zeros() -> None:
    least = 2.0**-126
    assert dot([least / 2, 0.0], [2.0**100, 0.0], 3.0) == 3.0
    assert dot([least, 0.0], [0.5, 0.0], 0.0) == 0.0
    assert dot([0.0, 0.0], [0.0, 0.0], least / 2) == 0.0
    assert dot([least, 0.0], [1.0, 0.0], 0.0) == least


@pytest.mark.parametrize(("x", "want"), [([np.inf, 1.0], np.inf), ([np.inf, -np.inf], np.nan), ([np.nan, 0.0], np.nan)])
def test_what_is_no_number_stays(x: list[float], want: float) -> None:
    assert np.array_equal(dot(x, [1.0, 1.0], 0.0), want, equal_nan=True)


def test_sums_of_bfloat16_are_float32() -> None:
    with pytest.raises(DTypeError, match="sums of bytes are int32 and those of bfloat16 float32"):
        make(ops.DOT, (const(I32, 0), const(I32, 0), const(I32, 0)), PAIRS)
    with pytest.raises(DTypeError, match="sums of bytes are int32"):
        make(ops.DOT, (const(I32, 0), const(I32, 0), const(F32, 0.0)), DotArg(BF16, dtypes.int8))


# ---- the rewrite


def interpreted(body: UOp, a: np.ndarray, b: np.ndarray, result: np.ndarray) -> np.ndarray:
    params = {node.arg.slot: node for node in body.topological() if node.op is ops.PARAM}
    run(body, {params[0]: result.reshape(-1), params[1]: a.reshape(-1), params[2]: b.reshape(-1)})
    return result


@pytest.mark.parametrize("k", [8, 9], ids=["even", "odd"])
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_two_along_k_are_one_operand(layout: str, k: int) -> None:
    found = as_dot(product(3, k, 5, layout), TARGETS[0])
    assert found is not None
    (reduce,) = [node for node in found.topological() if node.op is ops.REDUCE]
    assert reduce.src[0].op is ops.DOT and [r.size for r in reduce.src[1:]] == [4]
    a, b, want = operands(3, k, 5, layout, "bfloat16")
    np.testing.assert_array_equal(interpreted(found, a, b, np.zeros((3, 5), np.float32)), want)


def test_the_second_of_a_pair_is_the_upper_half() -> None:
    found = as_dot(product(1, 4, 1), TARGETS[0])
    assert found is not None
    words = [node for node in found.topological() if node.op is ops.OR]
    shifted = [part for word in words for part in word.src if part.op is ops.SHL]
    assert [part.src[1].arg for part in shifted] == [16, 16]
    places = [[node.src[1] for node in part.topological() if node.op is ops.INDEX] for part in shifted]
    assert all(place.op is ops.ADD and place.src[1].arg == 1 for (place,) in places)


@pytest.mark.parametrize(
    ("body", "arch"),
    [
        (product(3, 8, 5), "icelake-server"),
        (product(3, 8, 5), "aarch64"),
        (product(3, 1, 5), "znver4"),
    ],
    ids=["no instruction", "another family", "no pair"],
)
def test_what_is_left_as_it_is(body: UOp, arch: str) -> None:
    assert as_dot(body, parse_target(f"CPU:LLVM:{arch}")) is None
    assert as_dot(product(3, 8, 5), parse_target("CPU:C:znver4")) is None


# ---- programs


@function_rule(ops.DOT)
def emulated(node: UOp) -> UOp:
    """dot(x, y, z) -> two fused multiply-adds; not for subnormal numbers"""
    x, y, z = node.src

    def part(word: UOp, is_upper: bool) -> UOp:
        bits = word & const(I32, -0x10000) if is_upper else make(ops.SHL, (word, const(I32, 16)))
        return bits.bitcast(F32)

    upper = make(ops.FMA, (part(x, True), part(y, True), z))
    return make(ops.FMA, (part(x, False), part(y, False), upper))


def ran(program: Program, a: np.ndarray, b: np.ndarray, result: np.ndarray) -> np.ndarray:
    """What machine code for this processor computes."""
    linear = relist(program.linear, rewrite_all(program.linear.src, Rules("emulated", (emulated,))))
    call(by_llvm({program.name: linear}), program.name, [result, a, b], stop=program.total)
    return result


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.arch)
def test_the_instruction_is_in_the_machine_code(target: Target) -> None:
    program = generate(product(32, 64, 64, "nt"), target)
    assert "four bytes at once" in program.explanation
    text = assembly(render({program.name: program.linear}, target), target)
    assert "vdpbf16ps" in text and "vfmadd" not in text


@pytest.mark.slow
def test_the_program_has_the_pairs_where_the_instruction_looks() -> None:
    program = generate(product(16, 96, 48), TARGETS[0])
    assert any(node.op is ops.DOT for node in program.linear.src)
    a, b, want = operands(16, 96, 48, "nn", "bfloat16")
    np.testing.assert_array_equal(interpreted(program.linear, a, b, np.zeros((16, 48), np.float32)), want)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "given", "out"),
    [
        ("nn", "bfloat16", "float32"),
        ("nt", "bfloat16", "bfloat16"),
        ("tn", "bfloat16", "bfloat16"),
        ("tt", "bfloat16", "float32"),
        ("nn", "float32", "bfloat16"),
        ("tt", "float32", "float32"),
    ],
)
def test_every_layout_with_tails_and_an_odd_k(layout: str, given: str, out: str) -> None:
    m, k, n = 33, 131, 70
    program = generate(product(m, k, n, layout, given, out), TARGETS[0])
    assert any(node.op is ops.DOT for node in program.linear.src)
    a, b, want = operands(m, k, n, layout, given)
    result = np.zeros((m, n), np.float32 if out == "float32" else ml_dtypes.bfloat16)
    found = ran(program, a, b, result)
    np.testing.assert_array_equal(found, want if out == "float32" else (want + 1).astype(ml_dtypes.bfloat16))


@pytest.mark.slow
def test_pairs_of_channels_where_windows_have_none() -> None:
    channels, side, outputs, window = 8, 14, 16, 3
    weight = UOp.param(1, BF16, (outputs * channels * window**2,))
    image = UOp.param(2, BF16, (channels * side**2,))
    size = side - window + 1
    o, y, x = (UOp.range(count, i) for i, count in enumerate((outputs, size, size)))
    c, i, j = (UOp.range(count, 1000 + n, RangeKind.REDUCE) for n, count in enumerate((channels, window, window)))
    left = weight.index(((o * channels + c) * window + i) * window + j)
    right = image.index((c * side + y + i) * side + x + j)
    total = (left.cast(F32) * right.cast(F32)).reduce(ops.ADD, ranges=(c, i, j))
    body = UOp.group(UOp.param(0, F32, (outputs * size**2,)).store(total, (o * size + y) * size + x))
    program = generate(body, TARGETS[0])
    assert any(node.op is ops.DOT for node in program.linear.src)
    a, b = numbers(outputs, channels, window, window), numbers(channels, side, side)
    seen = np.lib.stride_tricks.sliding_window_view(b, (window, window), axis=(1, 2))
    given = [array.astype(ml_dtypes.bfloat16) for array in (a, b)]
    found = ran(program, given[0], given[1], np.zeros((outputs, size, size), np.float32))
    np.testing.assert_array_equal(found, np.einsum("ocij,cyxij->oyx", a, seen))


@pytest.mark.slow
def test_blocks_of_k_and_rounding() -> None:
    """Many blocks of k, and numbers that round: as near as float32 in any order."""
    m, k, n = 24, 5000, 40
    a, b = (RNG.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((m, k), (k, n)))
    program = generate(product(m, k, n), TARGETS[1])
    found = ran(program, a, b, np.zeros((m, n), np.float32))
    want = a.astype(np.float64) @ b.astype(np.float64)
    reach = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
    assert (np.abs(found - want) <= reach * 2**-23 * 32).all()
