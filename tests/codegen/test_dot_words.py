"""Products of bytes by fours: exact for all signs, in every layout, and only where the target can."""

from __future__ import annotations

import numpy as np
import pytest

from whit import Tensor, dtypes
from whit.codegen import generate
from whit.codegen.cpu.dot_words import as_dot
from whit.dtype import DType
from whit.errors import DTypeError
from whit.ir import ops
from whit.ir.args import DotArg, RangeKind
from whit.ir.interpret import evaluate, run
from whit.ir.uop import UOp, const, make
from whit.render import render
from whit.target import parse_target

RNG = np.random.default_rng(0)
ICELAKE = parse_target("CPU:LLVM:icelake-server")


def values(dtype: str, *shape: int) -> np.ndarray:
    """All bytes, the extreme ones often."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    found = RNG.integers(low, high, shape, endpoint=True)
    return np.where(RNG.random(shape) < 0.3, RNG.choice([low, high], shape), found).astype(dtype)


def product(m: int, k: int, n: int, left: DType = dtypes.int8, right: DType = dtypes.int8) -> UOp:
    a, b = UOp.param(1, left, (m * k,)), UOp.param(2, right, (k * n,))
    row, column, along = UOp.range(m, 0), UOp.range(n, 1), UOp.range(k, 1000, RangeKind.REDUCE)
    both = a.index(row * k + along).cast(dtypes.int32) * b.index(along * n + column).cast(dtypes.int32)
    place = row * n + column
    return UOp.group(UOp.param(0, dtypes.int32, (m * n,)).store(both.reduce(ops.ADD, ranges=(along,)), place))


def ran(body: UOp, a: np.ndarray, b: np.ndarray, size: int) -> np.ndarray:
    result = np.zeros(size, np.int32)
    given = (result, a.reshape(-1), b.reshape(-1))
    params = [node for node in body.topological() if node.op is ops.PARAM]
    views = {node: given[node.arg.slot].view(node.dtype.name) for node in params}
    run(body, views)
    return result


# ---- the op


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("right", [False, True])
def test_dot_adds_the_products_of_four_bytes(left: bool, right: bool) -> None:
    x, y = (values("int8" if signed else "uint8", 5, 4) for signed in (left, right))
    words = [array.reshape(-1).view(np.int32) for array in (x, y)]
    params = [UOp.param(i, dtypes.int32, (5,)) for i in range(2)]
    node = make(
        ops.DOT,
        (*params, const(dtypes.int32, 7)),
        DotArg(*(dtypes.int8 if signed else dtypes.uint8 for signed in (left, right))),
    )
    want = (x.astype(np.int64) * y.astype(np.int64)).sum(1) + 7
    assert evaluate(node, dict(zip(params, words, strict=True))).tolist() == want.tolist()


def test_dot_is_of_int32() -> None:
    with pytest.raises(DTypeError, match="dot: operands must be int32"):
        make(
            ops.DOT,
            (const(dtypes.int32, 0), const(dtypes.int8, 0), const(dtypes.int32, 0)),
            DotArg(dtypes.int8, dtypes.int8),
        )


# ---- the rewrite


@pytest.mark.parametrize("k", [8, 11], ids=["whole", "a rest"])
def test_four_bytes_along_k_are_one_operand(k: int) -> None:
    body = product(3, k, 5)
    found = as_dot(body, ICELAKE)
    assert found is not None
    (reduce,) = [node for node in found.topological() if node.op is ops.REDUCE]
    assert reduce.src[0].op is ops.DOT and [r.size for r in reduce.src[1:]] == [2]
    a, b = values("int8", 3, k), values("int8", k, 5)
    assert ran(found, a, b, 15).tolist() == (a.astype(int) @ b.astype(int)).reshape(-1).tolist()


@pytest.mark.parametrize(
    ("body", "arch"),
    [
        (product(3, 3, 5), "icelake-server"),
        (product(3, 8, 5, dtypes.uint8, dtypes.uint8), "icelake-server"),
        (product(3, 8, 5, dtypes.int16, dtypes.int8), "icelake-server"),
        (product(3, 8, 5), "x86-64-v4"),
        (product(3, 8, 5), "aarch64"),
    ],
    ids=["less than four", "both unsigned", "wider", "no VNNI", "another family"],
)
def test_what_is_left_as_it_is(body: UOp, arch: str) -> None:
    assert as_dot(body, parse_target(f"CPU:LLVM:{arch}")) is None


@pytest.mark.slow
@pytest.mark.parametrize("signs", ["int8 int8", "uint8 int8", "int8 uint8"])
def test_the_program_is_exact(signs: str) -> None:
    left, right = signs.split()
    m, k, n = 16, 128, 64
    program = generate(product(m, k, n, getattr(dtypes, left), getattr(dtypes, right)), ICELAKE)
    assert "vpdpbusd.512" in render({program.name: program.linear}, ICELAKE)
    a, b = values(left, m, k), values(right, k, n)
    assert ran(program.linear, a, b, m * n).tolist() == (a.astype(int) @ b.astype(int)).reshape(-1).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("signs", ["int8 int8", "uint8 int8", "uint8 uint8"])
def test_every_layout_is_exact(signs: str, layout: str) -> None:
    left, right = signs.split()
    a, b = values(left, 33, 1030), values(right, 1030, 70)
    x = Tensor(a) if layout[0] == "n" else Tensor(a.T.copy()).T
    y = Tensor(b) if layout[1] == "n" else Tensor(b.T.copy()).T
    found = x.matmul(y, dtype=dtypes.int32).numpy()
    np.testing.assert_array_equal(found, a.astype(np.int32) @ b.astype(np.int32))


def test_sums_that_wrap_and_what_follows_them() -> None:
    a, b = np.full((16, 64), -128, np.int8), np.full((64, 48), -128, np.int8)
    found = ((Tensor(a) @ Tensor(b)).float() * 0.5 + 1).relu().numpy()
    assert (found == 64 * 128 * 128 * 0.5 + 1).all()


# ---- words that are read as they lie


def test_neighbours_along_k_are_read_as_one_word() -> None:
    m, k, n = 3, 8, 5
    a, b = UOp.param(1, dtypes.int8, (m * k,)), UOp.param(2, dtypes.uint8, (n * k,))
    row, column, along = UOp.range(m, 0), UOp.range(n, 1), UOp.range(k, 1000, RangeKind.REDUCE)
    left = (a.index(row * k + along).bitcast(dtypes.uint8) ^ 128).bitcast(dtypes.int8)
    both = left.cast(dtypes.int32) * b.index(column * k + along).cast(dtypes.int32)
    total = both.reduce(ops.ADD, ranges=(along,))
    found = as_dot(UOp.group(UOp.param(0, dtypes.int32, (m * n,)).store(total, row * n + column)), ICELAKE)
    assert found is not None
    params = {node.arg.slot: node for node in found.topological() if node.op is ops.PARAM}
    assert [params[i].dtype for i in (1, 2)] == [dtypes.int32, dtypes.int32]
    x, y = values("int8", m, k), values("uint8", n, k)
    want = (x.astype(int) ^ -128) @ y.T.astype(int)
    assert ran(found, x, y, m * n).tolist() == want.reshape(-1).tolist()


@pytest.mark.parametrize(("step", "offset"), [(9, 0), (8, 2)], ids=["rows of nine", "from the third on"])
def test_words_that_begin_elsewhere_are_put_together(step: int, offset: int) -> None:
    a, b = UOp.param(1, dtypes.uint8, (80,)), UOp.param(2, dtypes.int8, (80,))
    row, column, along = UOp.range(3, 0), UOp.range(5, 1), UOp.range(8, 1000, RangeKind.REDUCE)
    left, right = (side.index(r * step + along + offset) for side, r in ((a, row), (b, column)))
    total = (left.cast(dtypes.int32) * right.cast(dtypes.int32)).reduce(ops.ADD, ranges=(along,))
    found = as_dot(UOp.group(UOp.param(0, dtypes.int32, (15,)).store(total, row * 5 + column)), ICELAKE)
    assert found is not None
    assert all(node.dtype is not dtypes.int32 for node in found.topological() if node.op is ops.PARAM and node.arg.slot)
    x, y = values("uint8", 80), values("int8", 80)
    rows = [array[offset + np.arange(count)[:, None] * step + np.arange(8)] for array, count in ((x, 3), (y, 5))]
    want = rows[0].astype(int) @ rows[1].T.astype(int)
    assert ran(found, x, y, 15).tolist() == want.reshape(-1).tolist()


def test_columns_in_panels_have_ranges_of_their_own() -> None:
    m, k, n, panel = 12, 16, 64, 32
    a, b = UOp.param(1, dtypes.uint8, (m * k,)), UOp.param(2, dtypes.int8, (n * k,))
    row, column = UOp.range(m, 0), UOp.range(n, 1)
    outer, inner = UOp.range(k // 4, 1000, RangeKind.REDUCE), UOp.range(4, 1001, RangeKind.REDUCE)
    place = ((column // panel * (k // 4) + outer) * panel + column % panel) * 4 + inner
    both = a.index(row * k + outer * 4 + inner).cast(dtypes.int32) * b.index(place).cast(dtypes.int32)
    total = both.reduce(ops.ADD, ranges=(outer, inner))
    found = as_dot(UOp.group(UOp.param(0, dtypes.int32, (m * n,)).store(total, row * n + column)), ICELAKE)
    assert found is not None
    sizes = sorted(node.size for node in found.topological() if node.op is ops.RANGE)
    assert sizes == [n // panel, k // 4, m, panel]
    assert all(node.op not in (ops.FLOORDIV, ops.FLOORMOD) for node in found.topological())
