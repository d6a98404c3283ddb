"""Long sums are sums of shorter ones: what the pass does to a program, on every target, and how exact results are."""

from typing import Any

import numpy as np
import pytest
from schedule.build import param, scheduled

from whit import Context, Tensor
from whit.codegen import generate
from whit.codegen.gpu.separate import separate
from whit.codegen.passes.block_sums import MOST, MOST_OF_MANY, block_sums, lengths
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.args import Memory
from whit.ir.check.verify import verify
from whit.ir.interpret import run
from whit.ir.op import PROGRAM
from whit.ir.uop import UOp, const, make
from whit.target import parse_target

pytestmark = pytest.mark.slow

TARGETS = ("CPU:LLVM:x86-64-v3", "CPU:LLVM:x86-64", "CPU:C:x86-64", "CUDA:PTX:sm_90a")
F32, I64 = dtypes.float32, dtypes.int64


def program(size: int | UOp, scan: bool = False, steps: int = 1) -> UOp:
    """total += x[r] for r below a size; a scan stores each sum, and a sum the last one."""
    given = (size.arg.high if isinstance(size, UOp) else size) * steps
    p0, p1 = (UOp.param(slot, F32, (given if slot or scan else 1,)) for slot in (0, 1))
    zero = const(I64, 0)
    register = UOp.buffer(0, F32, (1,), memory=Memory.REGISTER)
    listed = [size] if isinstance(size, UOp) else []
    clear = register.store(const(F32, 0.0), zero)
    r = UOp.range(size if isinstance(size, UOp) else const(I64, size), 0)
    place = r * const(I64, steps)
    ready = register.after(clear)
    total = old = ready.load(zero)
    body = [place, ready, old]
    for step in range(steps):
        at = place + const(I64, step)
        value = p1.load(at)
        total = total + value
        body += [at, value, total]
    keep = register.store(total, zero)
    end = [p0.store(total, place), r.end()] if scan else [r.end()]
    last = register.after(keep)
    result = last.load(zero)
    after = [] if scan else [last, result, p0.store(result, zero)]
    return make(ops.LINEAR, (p0, p1, register, *listed, clear, r, *body, keep, *end, *after))


def result_of(linear: UOp, x: np.ndarray, variables: dict[UOp, int] | None = None) -> np.ndarray:
    verify(linear, PROGRAM)
    p0, p1 = (node for node in linear.src if node.op is ops.PARAM)
    result = np.zeros(p0.shape, np.float32)
    run(linear, {p0: result, p1: x, **(variables or {})})
    return result


def test_a_short_sum_is_left_as_it_is() -> None:
    assert block_sums(linear := program(MOST)) is linear


@pytest.mark.parametrize(("size", "steps"), [(MOST + 1, 1), (600, 1), (1009, 1), (40_000, 1), (70_003, 1), (300, 7)])
def test_a_long_sum_is_one_of_parts(size: int, steps: int) -> None:
    x = np.random.default_rng(0).integers(-9, 9, size * steps).astype(np.float32)
    linear = program(size, steps=steps)
    assert lengths(linear) == [size * steps]
    blocked = block_sums(linear)
    assert max(lengths(blocked)) <= MOST
    if size < 2000:
        assert result_of(blocked, x) == result_of(linear, x) == x.sum()


@pytest.mark.parametrize("size", (MOST + 1, 600, 1009))
def test_a_scan_adds_what_came_before_its_part(size: int) -> None:
    x = np.random.default_rng(0).integers(-9, 9, size).astype(np.float32)
    blocked = block_sums(program(size, scan=True))
    assert max(lengths(blocked)) <= MOST
    np.testing.assert_array_equal(result_of(blocked, x), np.cumsum(x))


def test_a_scan_in_three_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whit.codegen.passes.block_sums.MOST", 8)
    monkeypatch.setattr("whit.codegen.passes.block_sums.LEAST", 2)
    x = np.random.default_rng(0).integers(-9, 9, 519).astype(np.float32)
    blocked = block_sums(program(519, scan=True))
    assert len(lengths(blocked)) >= 3
    assert max(lengths(blocked)) <= 8
    np.testing.assert_array_equal(result_of(blocked, x), np.cumsum(x))


@pytest.mark.parametrize("bound", (1, 128, 500, 1000))
def test_the_size_of_a_sum_may_be_a_variable(bound: int) -> None:
    n = UOp.variable("n", 1, 1000, I64)
    x = np.random.default_rng(0).integers(-9, 9, 1000).astype(np.float32)
    blocked = block_sums(program(n))
    assert max(lengths(blocked)) <= MOST
    assert result_of(blocked, x, {n: bound}) == x[:bound].sum()


KERNELS = {
    "all": lambda: param(0, 1_000_003).reduce(ops.ADD, (0,)),
    "columns": lambda: param(0, 100_003, 64).reduce(ops.ADD, (0,)),
    "few columns": lambda: param(0, 1_000_000, 3).reduce(ops.ADD, (0,)),
    "rows": lambda: param(0, 40, 100_000).reduce(ops.ADD, (1,)),
    "middle": lambda: param(0, 40, 30_000, 8).reduce(ops.ADD, (1,)),
    "outer and inner": lambda: param(0, 700, 5, 900).reduce(ops.ADD, (0, 2)),
    "squares of columns": lambda: (param(0, 50_000, 40) * param(0, 50_000, 40)).reduce(ops.ADD, (0,)),
    "halves": lambda: param(0, 50_000, 40, dtype=dtypes.half).cast(F32).reduce(ops.ADD, (0,)),
    "doubles": lambda: param(0, 50_000, 40, dtype=dtypes.float64).reduce(ops.ADD, (0,)),
    "products": lambda: dot(64, 20_000, 48),
    "a row of products": lambda: dot(1, 300_000, 16),
    "thin products": lambda: dot(3, 100_003, 5),
}


def dot(m: int, k: int, n: int) -> UOp:
    a = param(0, m, k).reshape((m, 1, k)).expand((m, n, k))
    b = param(1, n, k).reshape((1, n, k)).expand((m, n, k))
    return (a * b).reduce(ops.ADD, (2,))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("target", TARGETS)
def test_no_register_of_any_target_is_added_to_too_often(name: str, target: str) -> None:
    found: list[int] = []
    for call in scheduled(KERNELS[name]()).src:
        for body in separate(call.src[0].src[0]):
            linear = generate(body, parse_target(target)).linear
            verify(linear, PROGRAM)
            found += lengths(linear)
    assert max(found, default=0) <= (MOST_OF_MANY if "products" in name else MOST)


# ---- numbers

ROWS = 100_003
SHAPES: dict[str, Any] = {
    "columns": ((ROWS, 8), 0),
    "many columns": ((20_011, 70), 0),
    "rows": ((5, ROWS), 1),
    "all": ((4, ROWS), None),
}
SHAPES |= {"middle": ((3, 30_011, 7), 1), "outer and inner": ((400, 3, 401), (0, 2))}
BOUND, BOUND_OF_PRODUCTS = 4e-6, 1e-5  # docs/accuracy.md


def data(shape: tuple[int, ...], kind: str) -> np.ndarray:
    """Positive numbers: the same each time, which round in one direction for long, or random."""
    return np.full(shape, 0.1, np.float32) if kind == "equal" else np.random.default_rng(1).random(shape, np.float32)


def error(found: Tensor, expected: np.ndarray) -> float:
    """Relative to the largest result."""
    return float(np.abs(found.numpy().astype(np.float64) - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize("noopt", (False, True))
@pytest.mark.parametrize("kind", ("equal", "random"))
@pytest.mark.parametrize("name", SHAPES)
def test_sums_of_many_rows_are_exact_to_the_bound(name: str, kind: str, noopt: bool) -> None:
    shape, axis = SHAPES[name]
    x = data(shape, kind)
    wide = x.astype(np.float64)
    with Context(NOOPT=noopt):
        assert error(Tensor(x).sum(axis), wide.sum(axis)) < BOUND
        assert error(Tensor(x).mean(axis), wide.mean(axis)) < BOUND
        assert error(Tensor(x).square().sum(axis), (wide**2).sum(axis)) < BOUND
        assert error(Tensor(x).logsumexp(axis), np.log(np.exp(wide).sum(axis))) < BOUND
        if kind == "random":
            assert error(Tensor(x).var(axis), wide.var(axis, ddof=1)) < BOUND


@pytest.mark.parametrize("kind", ("equal", "random"))
@pytest.mark.parametrize(("shape", "axis"), [((300_007,), 0), ((ROWS, 4), 0), ((3, ROWS), 1), ((3, 30_011, 5), 1)])
def test_cumulative_sums_are_exact_to_the_bound(shape: tuple[int, ...], axis: int, kind: str) -> None:
    x = data(shape, kind)
    found = Tensor(x).cumsum(axis).numpy()
    expected = x.astype(np.float64).cumsum(axis)
    assert (np.abs(found - expected) / expected).max() < BOUND
    assert (np.diff(found, axis=axis) >= 0).all()  # as those of the numbers are


@pytest.mark.parametrize("kind", ("equal", "random"))
@pytest.mark.parametrize(("m", "k", "n"), [(4, ROWS, 4), (1, ROWS, 16), (9, ROWS, 1), (64, 20_011, 48), (1, ROWS, 1)])
def test_deep_products_are_exact_to_the_bound(m: int, k: int, n: int, kind: str) -> None:
    a, b = data((m, k), kind), data((k, n), kind)
    assert error(Tensor(a) @ Tensor(b), a.astype(np.float64) @ b.astype(np.float64)) < BOUND_OF_PRODUCTS


@pytest.mark.parametrize("kind", ("equal", "random"))
def test_gradients_of_weights_of_convolutions_are_exact_to_the_bound(kind: str) -> None:
    x, dy = data((16, 3, 66, 66), kind), data((16, 4, 64, 64), kind)
    weight = Tensor.zeros(4, 3, 3, 3).contiguous().realize()
    (found,) = (Tensor(x).conv2d(weight) * Tensor(dy)).sum().gradient(weight)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (64, 64), (2, 3))
    assert error(found, np.einsum("bchwyx,bkyx->kchw", windows, dy.astype(np.float64))) < BOUND_OF_PRODUCTS


@pytest.mark.parametrize("dtype", ("float16", "bfloat16"))
@pytest.mark.parametrize("name", SHAPES)
def test_sums_of_halves_are_rounded_once(name: str, dtype: str) -> None:
    shape, axis = SHAPES[name]
    x = (Tensor(data(shape, "random")) * 0.01).cast(dtype).realize()
    wide = x.float().numpy().astype(np.float64)
    bits = 2.0**-11 if dtype == "float16" else 2.0**-8
    assert error(x.sum(axis).float(), wide.sum(axis)) <= bits * 1.01
    assert error(x.mean(axis).float(), wide.mean(axis)) <= bits * 1.01


@pytest.mark.slow
def test_ten_million_numbers() -> None:
    x = data((10_000_000,), "equal")
    expected = x.astype(np.float64).cumsum()
    assert error(Tensor(x).sum(), expected[-1]) < BOUND
    assert error(Tensor(x).cumsum(0), expected) < BOUND
    assert error(Tensor(x).reshape(-1, 10).sum(0), expected[-1] / 10 * np.ones(10)) < BOUND


def test_two_loops_of_one_symbolic_size_share_the_number_of_parts() -> None:
    n = UOp.variable("n", 1, 1000, I64)
    p0, p1 = (UOp.param(slot, F32, (2 if slot == 0 else 1000,)) for slot in (0, 1))
    zero = const(I64, 0)
    body: list[UOp] = []
    for i in range(2):
        register = UOp.buffer(i, F32, (1,), memory=Memory.REGISTER)
        clear = register.store(const(F32, 0.0), zero)
        r = UOp.range(n, i)
        ready = register.after(clear)
        old, value = ready.load(zero), p1.load(r)
        total = old + value
        keep = register.store(total, zero)
        last = register.after(keep)
        result = last.load(zero)
        store = p0.store(result, const(I64, i))
        body += [register, clear, r, ready, old, value, total, keep, r.end(), last, result, store]
    blocked = block_sums(make(ops.LINEAR, (p0, p1, n, *body)))
    assert max(lengths(blocked)) <= MOST
    verify(blocked, PROGRAM)  # "listed twice", before
    found, x = np.zeros(2, np.float32), np.arange(1000, dtype=np.float32)
    run(blocked, {p0: found, p1: x, n: 700})
    np.testing.assert_array_equal(found, [x[:700].sum()] * 2)
