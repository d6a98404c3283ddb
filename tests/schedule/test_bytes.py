"""Bytes read, bytes written and memory at the peak, as numbers: what each program must move, and no more.

With n for the bytes of a tensor: an elementwise program reads its inputs once and writes its outputs once. A temporary
costs its bytes twice in traffic (written, read) and once in memory, while it is needed. The peak is counted from what
the inputs take: outputs, plus the arena of the temporaries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from whit import Context, Tensor
from whit.engine.realize.realize import realize
from whit.engine.report.counters import GlobalCounters

FLOAT = 4  # bytes of a float32
ROWS, COLUMNS = 256, 64
N = ROWS * COLUMNS * FLOAT  # bytes of A and B: 65,536


def ones(*shape: int) -> Tensor:
    return Tensor(np.ones(shape, np.float32), device="CPU").realize()


def a() -> Tensor:
    return ones(ROWS, COLUMNS)


def measured(build: Callable[..., Any], *inputs: Tensor) -> tuple[int, int, int, int]:
    """Kernels, bytes read, bytes written, peak above what was in use before."""
    GlobalCounters.reset()
    before = GlobalCounters.mem_used
    found = build(*inputs)
    Tensor.realize(*(found if isinstance(found, tuple) else (found,)))
    counters = GlobalCounters
    return counters.kernel_count, counters.bytes_read, counters.bytes_written, counters.mem_peak - before


@pytest.fixture(autouse=True)
def _from_zero() -> Iterator[None]:
    yield
    GlobalCounters.reset()


# name -> program, inputs, (kernels, read, written, peak)
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...], tuple[int, int, int, int]]] = {
    # Two inputs read once, though each is used twice; one output.
    "elementwise chain": (
        lambda x, y: ((x * 2 + y).relu() - x) * y,
        ((ROWS, COLUMNS), (ROWS, COLUMNS)),
        (1, 2 * N, N, N),
    ),
    # A 256x64, a weight 64x96, a bias of 96; the product 256x96 is never in memory by itself.
    "matmul, bias, relu": (
        lambda x, w, c: (x @ w + c).relu(),
        ((ROWS, COLUMNS), (COLUMNS, 96), (96,)),
        (1, N + COLUMNS * 96 * FLOAT + 96 * FLOAT, ROWS * 96 * FLOAT, ROWS * 96 * FLOAT),
    ),
    # The row's maximum and sum stay in registers: n in, n out.
    "softmax": (lambda x: x.softmax(), ((ROWS, COLUMNS),), (1, N, N, N)),
    "layernorm": (lambda x: x.layernorm(), ((ROWS, COLUMNS),), (1, N, N, N)),
    # 2**24 floats into 64 partial sums (256 bytes), and these into one number.
    "sum of 16M": (
        lambda x: x.sum(),
        ((1 << 24,),),
        (2, (1 << 24) * FLOAT + 64 * FLOAT, 64 * FLOAT + FLOAT, 64 * FLOAT + FLOAT),
    ),
    # The sums of 64 columns are kept (256 bytes); then x again, and the sums.
    "sum over rows broadcast back": (
        lambda x: x - x.sum(0),
        ((ROWS, COLUMNS),),
        (2, 2 * N + COLUMNS * FLOAT, N + COLUMNS * FLOAT, N + COLUMNS * FLOAT),
    ),
    # Both inputs once for both outputs.
    "two outputs": (
        lambda x, y: (x + y, x * y),
        ((ROWS, COLUMNS), (ROWS, COLUMNS)),
        (1, 2 * N, 2 * N, 2 * N),
    ),
    # 256 positions of int32.
    "argmax": (lambda x: x.argmax(1), ((ROWS, COLUMNS),), (1, N, ROWS * 4, ROWS * 4)),
    # An image 4x16x16 (4,096 bytes) and 8 filters 4x3x3 (1,152 bytes), each once though windows overlap; 8x14x14 out.
    "convolution, relu": (
        lambda x, w: x.conv2d(w).relu(),
        ((1, 4, 16, 16), (8, 4, 3, 3)),
        (1, 4096 + 1152, 8 * 14 * 14 * FLOAT, 8 * 14 * 14 * FLOAT),
    ),
    # Scores and weights of 256x256 (4 n each) are never stored.
    "attention": (
        lambda q, k, v: (q @ k.T * 0.125).softmax() @ v,
        ((ROWS, COLUMNS), (ROWS, COLUMNS), (ROWS, COLUMNS)),
        (1, 3 * N, N, N),
    ),
    "transpose": (lambda x: x.T.contiguous(), ((ROWS, COLUMNS),), (1, N, N, N)),
    "transposes": (lambda x, y: x.T + y.T, ((ROWS, COLUMNS), (ROWS, COLUMNS)), (1, 2 * N, N, N)),
    # Kept as half between the kernels: 64 sums of 2 bytes.
    "a narrow value is kept narrow": (
        lambda x: x.half().sum(0).float() + x,
        ((ROWS, COLUMNS),),
        (2, 2 * N + COLUMNS * 2, N + COLUMNS * 2, N + COLUMNS * 2),
    ),
    # Casts inside of a kernel move nothing.
    "rounding to half": (lambda x: (x.half() * 2).float(), ((ROWS, COLUMNS),), (1, N, N, N)),
    # What is cut away is not read, nor computed.
    "part of a product": (lambda x, y: (x * y)[:10, :3], ((ROWS, COLUMNS), (ROWS, COLUMNS)), (1, 240, 120, 120)),
    "part of a concatenation": (
        lambda x, y: (x + 1).cat(y.sin())[:ROWS],
        ((ROWS, COLUMNS), (ROWS, COLUMNS)),
        (1, N, N, N),
    ),
    "padding": (lambda x: x.pad((1, 1)) * 2, ((ROWS, COLUMNS),), (1, N, ROWS * 66 * FLOAT, ROWS * 66 * FLOAT)),
    # The position of every element is its own: nothing is read.
    "arange": (lambda: Tensor.arange(5000, device="CPU") * 2, (), (1, 0, 20_000, 20_000)),
    # One sine for both: the input is read once.
    "sum and maximum of the same rows": (
        lambda x: (x.sin().sum(1), x.sin().max(1)),
        ((ROWS, COLUMNS),),
        (1, N, 2 * ROWS * FLOAT, 2 * ROWS * FLOAT),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_bytes_and_peak(name: str) -> None:
    program, shapes, expected = PROGRAMS[name]
    assert measured(program, *(ones(*shape) for shape in shapes)) == expected


def test_bytes_are_known_without_running() -> None:
    program, shapes, expected = PROGRAMS["attention"]
    inputs = [Tensor(np.ones(shape, np.float32), device="NULL").realize() for shape in shapes]
    assert measured(program, *inputs) == expected


@pytest.mark.slow
@pytest.mark.parametrize("device", ["NULL", "NULL:PTX:sm_90a"])
@pytest.mark.parametrize("reduce", [Tensor.sum, Tensor.mean])
def test_gradients_of_the_sum_of_attention_store_no_weights(device: str, reduce: Callable[[Tensor], Tensor]) -> None:
    """A gradient that is the same everywhere is stored, 4 n or less; the weights would be 32 n of half floats."""
    shape = (2, 512, 16)
    q, k, v = (Tensor.empty(*shape, dtype="bfloat16", device=device) for _ in range(3))
    gradients = reduce(q.scaled_dot_product_attention(k, v, is_causal=True)).gradient(q, k, v)
    GlobalCounters.reset()
    Tensor.realize(*gradients)
    assert GlobalCounters.global_mem < 512 * 512 * 2 * 2


def test_temporaries_share_memory() -> None:
    """Four times softmax(x @ w) with w 64x64: three temporaries of n bytes, of which two are needed at a time."""
    weights = [ones(COLUMNS, COLUMNS) for _ in range(4)]
    w = COLUMNS * COLUMNS * FLOAT

    def layers(x: Tensor) -> Tensor:
        for weight in weights:
            x = (x @ weight).softmax()
        return x

    # Two layers: x and two w in, softmax(x @ w) @ w out; that in, softmax out. The peak: an arena of 2 n, the output.
    assert measured(layers, a()) == (4, 4 * N + 4 * w, 4 * N, 3 * N)


def test_what_is_realised_is_not_computed_again() -> None:
    x = a()
    y = (x * 2).realize()
    assert measured(lambda x: y + 1, x) == (1, N, N, N)
    assert measured(lambda x: y, x) == (0, 0, 0, 0)
    z = x.sin()
    assert measured(lambda x: (z, z), x) == (1, N, N, N)
    assert measured(lambda x: z, x) == (0, 0, 0, 0)


def test_a_tensor_that_two_outputs_need_is_computed_once() -> None:
    """The sums of columns are kept once for both outputs, and x is read once for both."""
    sums = COLUMNS * FLOAT
    found = measured(lambda x: (x - x.sum(0), x * x.sum(0)), a())
    assert found == (2, 2 * N + sums, 2 * N + sums, 2 * N + sums)


def test_what_nobody_asked_for_does_not_run() -> None:
    x = a()

    def program(x: Tensor) -> Tensor:
        unused = x.exp().sum()
        assert unused.shape == ()
        return x + 1

    assert measured(program, x) == (1, N, N, N)


@pytest.mark.parametrize("device", ["PYTHON", "CPU"])
def test_casts_are_rounding_points(device: str) -> None:
    values = np.array([1 / 3, 1 + 2**-12, 70000.0, 1e-9, -0.1], np.float32)
    x = Tensor(values, device=device)
    with np.errstate(over="ignore"):
        half = values.astype(np.float16)
    assert (x.half().float().numpy() == half.astype(np.float32)).all()
    assert (x.half().float().half().float().numpy() == half.astype(np.float32)).all()
    assert (x.int().float().numpy() == np.trunc(values)).all()
    # Between two ops as well: a product of halves is a half before it is a float again.
    squares = (half * half).astype(np.float32)
    assert ((x.half() * x.half()).float().numpy() == squares).all()
    # and for a value that two kernels share
    rounded = Tensor(values[:2], device=device).half()
    assert (rounded.float() + rounded.float().sum()).numpy().dtype == np.float32


@pytest.mark.slow
@pytest.mark.parametrize("join", ["cat", "stack"])
def test_a_thousand_tensors_are_joined_by_few_kernels(join: str) -> None:
    """36 parts a kernel: 28 kernels. Each part is read once, and written where it belongs."""
    parts = [ones(4, 8) for _ in range(1000)]
    size = 1000 * 4 * 8 * FLOAT
    first, *rest = parts
    kernels, read, written, peak = measured(lambda x: getattr(x, join)(*rest, dim=0), first)
    assert kernels == 28
    assert (read, written, peak) == (size, size, size)


@pytest.mark.slow
def test_a_thousand_tensors_of_different_sizes_are_joined_by_few_kernels() -> None:
    """16 a value: 63 of them, then 4, then 1; small ones share kernels of up to 1000 nodes. All bytes go through memory
    three times; the first two results are needed at one time, the third is the output."""
    parts = [ones(2 + i % 3, 8) for i in range(1000)]
    first, *rest = parts
    size = sum(part.nbytes() for part in parts)
    kernels, read, written, peak = measured(lambda x: x.cat(*rest), first)
    assert (kernels, read, written) == (37 + 1, 3 * size, 3 * size)
    assert 2 * size < peak < 3.2 * size  # 67 temporaries, each on a boundary of 64 bytes


def test_realising_several_at_once_counts_shared_inputs_once() -> None:
    x, y = a(), a()
    GlobalCounters.reset()
    first, second, again = realize([(x.uop + y.uop), (x.uop * y.uop), (x.uop + y.uop)])
    assert again is first and second is not first
    assert (GlobalCounters.kernel_count, GlobalCounters.bytes_read, GlobalCounters.bytes_written) == (1, 2 * N, 2 * N)


def test_a_running_sum_is_not_added_up_again_by_every_kernel() -> None:
    """A residual stream: two kernels a layer, and what is read grows with the layers, not with their square."""

    def stream(layers: int) -> tuple[int, int]:
        h = Tensor(np.ones((64, 32), np.float32))
        for _ in range(layers):
            h = h + (h.layernorm() @ Tensor(np.ones((32, 32), np.float32))).relu()
        GlobalCounters.reset()
        h.realize()
        return GlobalCounters.kernel_count, GlobalCounters.global_mem

    (few, short), (many, long) = stream(8), stream(16)
    assert many <= 2 * few + 2
    assert long <= 2.2 * short


def test_a_sum_over_an_expanded_axis_is_a_multiply() -> None:
    x = Tensor.full((10_000_000,), 0.1)
    assert x.sum().item() == 1e6
    assert Tensor([1, 2, 3]).reshape(3, 1).expand(3, 1000).sum(1).tolist() == [1000, 2000, 3000]
    assert Tensor([2.5]).expand(7).max().item() == 2.5


def test_a_long_sum_over_two_axes_is_as_exact_as_over_one() -> None:
    values = np.full((1000, 1000), 0.1, np.float32)
    with Context(NOOPT=0):
        assert abs(Tensor(values).sum().item() - 1e5) < 1
