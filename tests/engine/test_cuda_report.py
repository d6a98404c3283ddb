"""Reports about kernels on a GPU: what it allows, what binds a kernel, how the GPU is filled, what was achieved.

The GPU is one of Python: 4 multiprocessors of compute capability 8.0 at 1 GHz, 1024 bits of memory at 2 GHz.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from engine.fake_gpu import FakeLibrary, fake_gpu
from whit import Context, Tensor, Variable
from whit.dtype import DType, dtypes
from whit.errors import ArgumentError


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeLibrary]:
    with fake_gpu(monkeypatch) as library:
        yield library


def test_a_kernel_that_memory_binds(gpu: FakeLibrary) -> None:
    x = Tensor(np.ones(1 << 16, np.float32), device="CUDA").realize()
    y = x * 2 + 1
    (kernel,) = y.kernels()
    lines = kernel.explain().splitlines()
    assert lines[-3:] == [
        "roofline: 0.25 operations a byte",
        "  a GPU of Python: 512 GB/s, 512.0 GFLOP/s of float32; at least 1.0 us, bound by bytes",
        "achieved: not timed yet; kernel.measure(), PROFILE=1 or DEBUG=2 do that",
    ]
    assert "at least 1.0 us, bound by bytes" in y.explain() and "best" not in y.explain()
    assert not any("occupancy" in line for line in lines)
    assert kernel.measure(0.0) == pytest.approx(0.002)
    lines = kernel.explain().splitlines()
    assert lines[-5:-3] == [
        "occupancy:",
        "  1 blocks of 1 threads, 40 registers, 1.0 KiB of shared memory: 3 on a multiprocessor, 0 of 64 warps",
    ]
    assert lines[-1] == "achieved: best 2000.0 us, 0.1 GFLOP/s, 0.3 GB/s, 0 % of the roof"
    assert "bound by bytes; best 2000.0 us, 0 % of the roof" in y.explain()


@pytest.mark.parametrize(
    ("dtype", "tf32", "roof"),
    [
        (dtypes.bfloat16, 0, "8192.0 GFLOP/s of bfloat16 by tensor cores"),
        (dtypes.float32, 0, "512.0 GFLOP/s of float32"),
        (dtypes.float32, 1, "4096.0 GFLOP/s of tf32 by tensor cores"),
        (dtypes.float64, 0, "256.0 GFLOP/s of float64"),
    ],
)
def test_the_roof_is_that_of_the_units_that_are_used(gpu: FakeLibrary, dtype: DType, tf32: int, roof: str) -> None:
    with Context(TF32=tf32):
        a = Tensor.empty(256, 512, dtype=dtype, device="CUDA").realize()
        b = Tensor.empty(512, 256, dtype=dtype, device="CUDA").realize()
        text = (a @ b).kernels()[0].explain()
    assert roof + "; at least " in text and "bound by operations" in text


def test_kernels_of_several_programs(gpu: FakeLibrary) -> None:
    a = Tensor.empty(256, 64, dtype=dtypes.bfloat16, device="CUDA").realize()
    text = (a @ a.T).cat(a @ a.T * 2).explain()
    assert "bound by" in text


def test_symbolic_kernels_are_not_measured(gpu: FakeLibrary) -> None:
    x = Tensor(np.ones(8, np.float32), device="CUDA").realize()
    (kernel,) = x[: Variable("n", 1, 8).bind(3)].sum().kernels()
    with pytest.raises(ArgumentError, match="cannot run alone on CUDA"):
        kernel.measure()
