"""Sorts on GPUs: networks in shared memory and merged runs, on the interpreter, against the meaning of SORT."""

from typing import Any

import numpy as np
import pytest
from schedule.build import param, scheduled, stores

from codegen.test_gpu import TARGET
from codegen.test_sort import agrees, run_programs, sorts
from whit.codegen import generate
from whit.codegen.gpu.sort import bitonic as gpu_sort
from whit.codegen.gpu.sort import merge as gpu_merge
from whit.dtype import DType, dtypes
from whit.errors import InternalError, NotSupportedError
from whit.ir.interpret import numpy_dtype
from whit.ir.uop import UOp
from whit.schedule import schedule
from whit.schedule.rewrites import split_sort as sort

pytestmark = pytest.mark.slow  # every thread is interpreted


def check(values: list[UOp], inputs: dict[UOp, Any] | None = None) -> int:
    """What is scheduled for a GPU computes what the graph says, bit by bit; how many kernels it is."""
    linear = schedule(stores(values), TARGET)
    agrees(linear, values, run_programs, TARGET, inputs)
    return len(linear.src)


@pytest.fixture(autouse=True)
def few_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that can be interpreted."""
    for name, value in {"THREADS": 4, "WARP": 2, "WARP_BITS": 1}.items():
        monkeypatch.setattr(gpu_merge, name, value)
    monkeypatch.setattr(gpu_sort, "LEAST_THREADS", 2)


@pytest.mark.parametrize(("rows", "size"), ((1, 2), (3, 5), (7, 8), (1, 40), (1, 130)))
def test_rows_in_shared_memory(rows: int, size: int) -> None:
    x = param(0, rows, size)
    keys = np.random.default_rng(size).integers(0, size, (rows, size)).astype(np.float32)
    assert check(sorts(x), {x: keys}) == 1
    assert check(sorts(x, max(size // 3, 1), descending=True)[1:], {x: keys}) == 1


@pytest.mark.parametrize("dtype", dtypes.scalars, ids=lambda d: d.name)
def test_every_dtype(dtype: DType) -> None:
    check(sorts(param(0, 11, dtype=dtype)))
    check(sorts(param(0, 11, dtype=dtype), descending=True))


@pytest.mark.parametrize(("size", "kernels"), ((32, 2), (65, 4)))
def test_long_rows_are_merged(size: int, kernels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort, "GPU_PIECE_ELEMENTS", 16)
    x = param(0, 2, size)
    keys = np.random.default_rng(size).integers(0, 30, (2, size)).astype(np.float32)
    keys[keys == 7], keys[keys == 8] = np.nan, -0.0
    assert check(sorts(x), {x: keys}) == kernels
    assert check(sorts(x.permute((1, 0)), size - 3, descending=True, axis=0)[1:], {x: keys}) == kernels


@pytest.mark.parametrize("descending", (False, True))
def test_the_first_few_are_those_of_pieces(descending: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fills the last piece up is behind all keys, also the last ones."""
    monkeypatch.setattr(sort, "GPU_PIECE_ELEMENTS", 16)
    for dtype in (dtypes.float32, dtypes.bool, dtypes.uint64):
        x = param(0, 2, 45, dtype=dtype)
        keys = np.random.default_rng(1).integers(0, 30, (2, 45)).astype(numpy_dtype(dtype))
        if dtype is dtypes.float32:
            keys[0] = -np.inf if descending else -np.nan
        assert check(sorts(x, 5, descending), {x: keys}) == 2


def test_a_row_that_was_not_cut_for_a_gpu_is_an_error() -> None:
    (call,) = scheduled(sorts(param(0, 5000))[:1]).src
    with pytest.raises(InternalError, match="a row of 5000 does not fit in a block"):
        generate(call.src[0].src[0], TARGET)


def test_rows_of_2_to_the_30_are_refused() -> None:
    body = schedule(stores(sorts(param(0, 1 << 30))[:1]), TARGET).src[0].src[0].src[0]
    with pytest.raises(NotSupportedError, match="a row of 1073741824 elements on a GPU"):
        generate(body, TARGET)
