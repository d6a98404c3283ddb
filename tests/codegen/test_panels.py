"""Contractions through panels: every layout, edge and kind of operand, against NumPy."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from schedule.build import matmul, param, scheduled

from whit import Context, Tensor, Variable
from whit.codegen import generate
from whit.codegen.cpu.panel_sizes import choose_tiling
from whit.ir import ops
from whit.ir.uop import UOp
from whit.kernel.contraction import find_contractions
from whit.target import parse_target
from whit.tensor.graphs.convolution.convolve import Sliding, convolve, gradient_of_weight

pytestmark = pytest.mark.slow  # every case is compiled

RNG = np.random.default_rng(0)
SIZES = [
    *((33, 40, 70), (128, 64, 10)),  # in part beyond the edges; fewer columns than a vector has lanes
    *((64, 64, 64), (13, 300, 33), (100, 33, 9), (8, 64, 200), (257, 16, 31), (14, 513, 32), (9, 64, 100)),
    *((20, 3001, 21), (33, 2560, 70)),  # several blocks along k, with and without a rest
]
QUICK = 2  # of them
MARKED = [*SIZES[:QUICK], *(pytest.param(sizes, marks=pytest.mark.slow) for sizes in SIZES[QUICK:])]


def values(*shape: int) -> np.ndarray:
    """Small integers, so that sums are exact in any order."""
    return RNG.integers(-4, 5, shape).astype(np.float32)


def kernel(value: UOp) -> UOp:
    """The body of the one kernel that computes a value."""
    (call,) = scheduled(value).src
    return call.src[0].src[0]


@pytest.mark.parametrize("sizes", MARKED, ids=str)
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_every_layout_and_edge(sizes: tuple[int, int, int], layout: str) -> None:
    m, k, n = sizes
    a = values(m, k) if layout[0] == "n" else values(k, m).T
    b = values(k, n) if layout[1] == "n" else values(n, k).T
    left = Tensor(a) if layout[0] == "n" else Tensor(a.T.copy()).T
    right = Tensor(b) if layout[1] == "n" else Tensor(b.T.copy()).T
    np.testing.assert_array_equal((left @ right).numpy(), a @ b)


OPEN = {
    "rows": lambda n, a, b: a[:n] @ b,
    "rows that lie across k": lambda n, a, b: a.T.contiguous().realize()[:, :n].T @ b,
    "columns": lambda n, a, b: b.T @ a.T.contiguous().realize()[:, :n],
    "columns that lie along k": lambda n, a, b: b.T @ a[:n].T,
    "few rows": lambda n, a, b: b.T[:6].contiguous().realize() @ a.T.contiguous().realize()[:, :n],
    "both": lambda n, a, b: a[:n] @ a[:n].T,
    "what is made of them": lambda n, a, b: ((a[:n] * 2) @ b + b.T[0, 0]).relu() + a[:n, : b.shape[1]],
}


@pytest.mark.parametrize(("name", "depth"), [*((name, 40) for name in OPEN), ("rows", 1300), ("columns", 1300)])
def test_rows_and_columns_of_a_symbolic_size(name: str, depth: int) -> None:
    x, w = values(150, depth), values(depth, 33)
    n = Variable("n", 0, 150)
    a, b = Tensor(x).realize(), Tensor(w).realize()
    whole = OPEN[name](150, a, b).numpy()
    for value in (150, 0, 1, 37, 100):
        with Context(CHECK_OOB=1):
            found = OPEN[name](n.bind(value), a, b).numpy()
        rows, columns = found.shape
        assert value in (rows, columns)
        np.testing.assert_array_equal(found, whole[:rows, :columns])


@pytest.mark.parametrize("cores", [1, 2, 16])
def test_nothing_is_read_of_columns_that_may_be_none(cores: int) -> None:
    """A block of one tile: its loop runs once or not at all, and positions do not depend on it."""
    columns = param(1, 150, 40).shrink(((0, UOp.variable("n", 0, 150)), (0, 40))).permute((1, 0))
    target = replace(parse_target("CPU:LLVM:skylake-avx512"), cores=cores)
    with Context(NOOPT=False, CHECK_OOB=1):
        assert "(turned)" in generate(kernel(matmul(param(0, 33, 40), columns)), target).explanation


def test_squares_that_end_at_a_symbolic_edge_are_loaded_by_rows() -> None:
    n = UOp.variable("n", 1, 256)
    keys = UOp.param(1, Tensor(0.0).dtype, (n, 64)).permute((1, 0))
    with Context(NOOPT=False):
        program = generate(kernel(matmul(param(0, 64, 64), keys)), parse_target("CPU:LLVM:skylake-avx512"))
    assert "(turned)" in program.explanation
    assert not [node for node in program.linear.src if node.op is ops.LOAD and node.src[1].shape]


def test_one_square_is_written_and_turned_in_a_loop() -> None:
    """Four side by side, written out, took LLVM four times as long."""
    keys = param(1, 512, 512).permute((1, 0))
    with Context(NOOPT=False):
        program = generate(kernel(matmul(param(0, 512, 512), keys)), parse_target("CPU:LLVM:skylake-avx512"))
    turned = [node for node in program.linear.src if node.op is ops.SHUFFLE and len(node.src) == 2]
    assert "(turned)" in program.explanation and len(turned) == 16 * 4


@pytest.mark.parametrize("depth", [40, 707])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32", "int8"])
def test_other_dtypes(dtype: str, depth: int) -> None:
    a, b = values(50, depth) // 4, values(depth, 45) // 4  # sums that all of them can hold
    found = (Tensor(a).cast(dtype) @ Tensor(b).cast(dtype)).float().numpy()
    want = a @ b
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("layout", ["n", "t"])
@pytest.mark.parametrize(("k", "n"), [(64, 128), (300, 77), (31, 1056), (1031, 40)])
def test_a_vector_times_a_matrix(k: int, n: int, layout: str) -> None:
    x, w = values(k), values(k, n)
    matrix = Tensor(w) if layout == "n" else Tensor(w.T.copy()).T
    np.testing.assert_array_equal((Tensor(x) @ matrix).numpy(), x @ w)
    np.testing.assert_array_equal((Tensor(np.stack([x] * 3)[:, None]) @ matrix).numpy(), np.stack([x[None] @ w] * 3))


def test_batches_and_a_broadcast_operand() -> None:
    a, b = values(3, 5, 20, 33), values(5, 33, 40)
    np.testing.assert_array_equal((Tensor(a) @ Tensor(b)).numpy(), a @ b)


def test_epilogues_and_prologues() -> None:
    a, b, bias, residual = values(50, 40), values(40, 45), values(45), values(50, 45)
    t = [Tensor(x) for x in (a, b, bias, residual)]
    found = ((t[0] * 2 + 1) @ t[1] + t[2]).relu() + t[3]
    np.testing.assert_array_equal(found.numpy(), np.maximum((a * 2 + 1) @ b + bias, 0) + residual)
    both = Tensor(a) @ Tensor(b)
    double = both * 2
    Tensor.realize(both, double)
    np.testing.assert_array_equal(double.numpy(), (a @ b) * 2)


def test_a_long_epilogue_after_several_blocks_of_k() -> None:
    a, b, bias = values(30, 600) / 8, values(600, 50) / 8, values(50)
    found = ((Tensor(a) @ Tensor(b) + Tensor(bias)).gelu() * 2 + 1).numpy()
    x = (a @ b + bias).astype(np.float64)
    want = x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3))) + 1
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("size", "window", "options"),
    [
        (20, 3, {"padding": 1}),
        (6, 3, {"padding": 1}),  # narrower than a vector
        (15, 5, {"stride": 2, "padding": 2}),
        (12, 3, {"dilation": 2, "padding": 1, "groups": 2}),
    ],
    ids=str,
)
def test_a_convolution_and_its_gradients(size: int, window: int, options: dict[str, Any]) -> None:
    """Against the interpreter: every way of copying windows, whole and in parts."""
    x, w = values(3, 16, size, size), values(24, 16 // options.get("groups", 1), window, window)
    results = []
    for device in ("CPU", "PYTHON"):
        given = [Tensor(a, device=device) for a in (x, w)]
        y = given[0].conv2d(given[1], **options)
        results.append([r.numpy() for r in (y, *y.square().sum().gradient(*given))])
    for found, want in zip(*results, strict=True):
        np.testing.assert_array_equal(found, want)


def test_the_operand_that_is_cheaper_to_copy_becomes_vectors() -> None:
    """A convolution reads rows from its image, or copies windows as columns, where those have holes; the gradient of
    its weight copies them as rows, and turns the other."""
    slide = Sliding((1, 1), (1, 1), 1, (20, 20), (3, 3), ((1, 1), (1, 1)))
    x, w, dy = param(0, 8, 16, 20, 20), param(1, 32, 16, 3, 3), param(2, 8, 32, 20, 20)
    target = parse_target("CPU:LLVM:skylake-avx512")
    with Context(NOOPT=False):
        assert "from an image" in generate(kernel(convolve(x, w, slide)), target).explanation
        holes = replace(slide, dilation=(2, 2), padding=((2, 2), (2, 2)))
        assert "by windows" in generate(kernel(convolve(x, w, holes)), target).explanation
        turned = generate(kernel(gradient_of_weight(x, dy, slide)), target).explanation
    assert "(copied along k)" in turned
    assert "(turned)" in turned


def test_a_convolution_is_a_contraction() -> None:
    x, w = values(2, 8, 20, 20), values(16, 8, 3, 3)
    found = Tensor(x).conv2d(Tensor(w), padding=1).numpy()
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    np.testing.assert_array_equal(found, np.einsum("bchwij,ocij->bohw", windows, w))


@pytest.mark.parametrize("name", ["CPU:LLVM:x86-64", "CPU:LLVM:x86-64-v3", "CPU:LLVM:skylake-avx512"])
def test_large_products_use_panels_and_small_ones_do_not(name: str) -> None:
    target = parse_target(name)
    with Context(NOOPT=False):
        assert "through panels" in generate(kernel(matmul(param(0, 128, 64), param(1, 64, 96))), target).explanation
        few_rows = generate(kernel(matmul(param(0, 6, 64), param(1, 64, 96))), target).explanation
        assert few_rows.count("read where it is") == 2
        assert "panels" not in generate(kernel(matmul(param(0, 16, 16), param(1, 16, 16))), target).explanation
        vector = generate(kernel(matmul(param(0, 1, 512), param(1, 512, 256))), target).explanation
        assert vector.count("read where it is") == 2
        across = generate(kernel(matmul(param(0, 1, 512), param(1, 256, 512).permute((1, 0)))), target).explanation
        assert "4 rows at a time" in across


def test_without_optimisation_there_are_no_panels() -> None:
    with Context(NOOPT=True):
        program = generate(kernel(matmul(param(0, 128, 64), param(1, 64, 96))), parse_target("CPU"))
    assert "panels" not in program.explanation


def test_a_kernel_that_reads_what_it_writes_is_not_computed_twice() -> None:
    body = kernel(matmul(param(0, 50, 64), param(1, 64, 45)))
    (store,) = body.src
    target, value, *position = store.src
    again = target.store(value + target.index(*position), *position)
    again = UOp.group(again)
    assert find_contractions(again)
    assert choose_tiling(again, parse_target("CPU")) is None


def test_what_is_no_contraction_is_left_alone() -> None:
    a, b = param(0, 64, 64), param(1, 64, 64)
    assert not find_contractions(kernel((a * b).reduce(ops.ADD, (1,))))
    small = matmul(param(0, 8, 8), param(1, 8, 8))  # a larger one has a kernel of its own
    assert not find_contractions(kernel(small.reduce(ops.ADD, (1,))))
    assert not find_contractions(kernel(a + b))


@pytest.mark.parametrize(
    "sizes", [(128, 300, 101), (64, 512, 784), (64, 257, 131), (40, 131, 257), (64, 1700, 10)], ids=str
)
def test_a_sum_into_what_it_reads_counts_every_element_once(sizes: tuple[int, int, int]) -> None:
    """The engine lets a result overwrite what it replaces; tiles that are moved back must not read it again."""
    k, m, n = sizes
    x, y, start = values(k, m), values(k, n), values(m, n)
    w = (Tensor(start) + 0).realize()
    w.assign(w - Tensor(x).T @ Tensor(y)).realize()
    np.testing.assert_array_equal(w.numpy(), start - x.T @ y)


@pytest.mark.cpu
@pytest.mark.parametrize("size", [(14, 14), (9, 20), (16, 13)], ids=str)
@pytest.mark.parametrize("step", [1, 2])
def test_rows_of_images_with_channels_last(size: tuple[int, int], step: int) -> None:
    """Tiles that end with lines, the last one moved back or not, and images whose results lie along columns."""
    rng = np.random.default_rng(0)
    for inputs, outputs in ((3, 24), (32, 48)):
        x = rng.integers(-3, 4, (1, inputs, *size)).astype(np.float32)
        w = rng.integers(-3, 4, (outputs, inputs, 3, 3)).astype(np.float32)
        with Context(FROZEN=1, WINO=0):
            found = Tensor(x).conv2d(Tensor(w), padding=1, stride=step).relu().permute(0, 2, 3, 1).numpy()
        expected = Tensor(x, device="PYTHON").conv2d(Tensor(w, device="PYTHON"), padding=1, stride=step).relu().numpy()
        np.testing.assert_array_equal(found, expected.transpose(0, 2, 3, 1))
