"""Products by warp groups whose results the copy engine stores: both roles as text, run without a GPU."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from render.ptx_copy_engine import run_groups
from schedule.build import param

from codegen.test_gpu_matmul import BF16, F16, F32, TARGET, body_of, product, turned
from codegen.test_kernel_programs import arrays_of
from whit.codegen import generate
from whit.codegen.gpu.gemm import atoms as gpu_atoms
from whit.codegen.gpu.gemm import matmul as gpu_matmul
from whit.codegen.gpu.gemm.matmul import LONG_OPERATIONS
from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.interpret import run
from whit.ir.uop import UOp, const, make
from whit.render import render
from whit.render.ptx.gemm.tma_stores import boxes_of
from whit.render.ptx.launch import launch_of

ONE = replace(TARGET, cores=1)  # its blocks compute tile after tile
GROUP = gpu_atoms.wgmma(1, 64, 64, 2)
ATOMS = {
    "two groups": gpu_atoms.wgmma(2, 128, 128, 2),
    "two pieces of a group": gpu_atoms.wgmma(1, 128, 64, 2),
    "room for one box": gpu_atoms.wgmma(2, 128, 192, 5),
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_matmul, "LEAST_TILE_ROWS", 1)
    monkeypatch.setattr(gpu_matmul, "NEAR_TILES", 2)
    monkeypatch.setattr(gpu_atoms, "WGMMA", (GROUP,))
    monkeypatch.setattr(gpu_atoms, "WGMMA_INT", (gpu_atoms.of_bytes(GROUP),))


def check(value: UOp | list[UOp]) -> str:
    """A kernel as text against its meaning, on small integers; the text."""
    body = body_of(value)
    program = generate(body, ONE)
    generator = np.random.default_rng(0)
    arrays = {
        node: generator.integers(-4, 5, array.shape).astype(array.dtype)
        for node, array in arrays_of(body, generator).items()
    }
    memory = {f"p{node.arg.slot}": array.reshape(-1).copy() for node, array in arrays.items()}
    text = render({"kernel": program.linear}, ONE)
    run_groups(text, program.total, launch_of(program.linear, program.threads), memory)
    run(body, arrays)
    for node, expected in arrays.items():
        got = memory[f"p{node.arg.slot}"].reshape(expected.shape)
        np.testing.assert_array_equal(got.astype(np.float64), expected.astype(np.float64))
    return text


def ab(rows: int = 72, depth: int = 16, columns: int = 136, dtype: DType = BF16) -> UOp:
    return product(param(0, rows, depth, dtype=dtype), param(1, depth, columns, dtype=dtype))


RESULTS: dict[str, Callable[[], UOp | list[UOp]]] = {
    "odd": ab,
    "float16": lambda: ab(depth=136, dtype=F16),
    "turned": lambda: turned(ab(136, 16, 72)),
    "batched": lambda: product(param(0, 2, 72, 8, dtype=BF16), param(1, 2, 8, 16, dtype=BF16)),
    "float32": lambda: ab().cast(F32),
    "bytes": lambda: ab(64, 16, 128).cast(dtypes.int8),
    "with a row": lambda: ab() + param(2, 1, 136, dtype=BF16).expand((72, 136)),
    "two": lambda: [ab() * 2.0, ab().cast(F32)],
    "heads": lambda: ab(64, 16, 64).reshape((2, 32, 2, 32)).permute((0, 2, 1, 3)),
    "of integers": lambda: product(param(0, 72, 16, dtype=dtypes.int8), turned(param(1, 40, 16, dtype=dtypes.int8))),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RESULTS)
def test_results_by_boxes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "bytes":
        monkeypatch.setattr(gpu_atoms, "WGMMA", (gpu_atoms.wgmma(1, 64, 128, 2),))
    text = check(RESULTS[name]())
    assert "cp.async.bulk.tensor.3d.global" in text and "st.global" not in text and "shfl" not in text


@pytest.mark.slow
@pytest.mark.parametrize("name", ATOMS)
def test_tile_after_tile(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_atoms, "WGMMA", (ATOMS[name],))
    assert "wait_group.read" in check(ab(200, 72, 264))


OTHERS: dict[str, Callable[[], UOp]] = {
    "rows that are not aligned": lambda: product(param(0, 72, 16, dtype=BF16), turned(param(1, 73, 16, dtype=BF16))),
    "bool": lambda: ab() < 1.0,
    "sums with a matrix": lambda: ab(columns=96) + param(2, 72, 96, dtype=BF16),
    "float64": lambda: ab().cast(dtypes.float64),
}


def stores_of(value: UOp) -> set[str]:
    linear = generate(body_of(value), ONE).linear
    return {node.op.name for node in linear.src if node.op in (ops.STORE, ops.BLOCK_STORE)}


@pytest.mark.parametrize("name", OTHERS)
def test_what_threads_store_themselves(name: str) -> None:
    assert stores_of(OTHERS[name]()) == {"store"}
    assert stores_of(ab()) == {"block_store"}


@pytest.mark.slow
def test_sums_with_a_matrix_are_exchanged() -> None:
    text = check(OTHERS["sums with a matrix"]())
    assert "shfl" in text and "ld.global.nc.v4.b32" in text and "st.global.v4" in text


def long(x: UOp) -> UOp:
    for i in range(LONG_OPERATIONS):
        x = (x * 0.5 + float(i)).cast(F32)
    return x.cast(BF16)


DONATING: dict[str, tuple[Callable[[], UOp], bool]] = {
    "nothing": (lambda: ab(512, 64, 512), False),
    "few": (lambda: make(ops.MAX, (ab(512, 64, 512), const(BF16, 0.0))), False),
    "many": (lambda: long(ab(512, 64, 512)), True),
    "a matrix": (lambda: ab(512, 64, 512) + param(2, 512, 512, dtype=BF16), True),
    "a row": (lambda: ab(512, 64, 512) + param(2, 1, 512, dtype=BF16).expand((512, 512)), False),
}


@pytest.mark.parametrize("name", DONATING)
def test_threads_that_copy_donate_registers_for_long_epilogues(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_atoms, "WGMMA", (gpu_atoms.wgmma(2, 128, 256, 4),))
    build, donates = DONATING[name]
    linear = generate(body_of(build()), TARGET).linear
    (tile,) = [node for node in linear.src if node.op is ops.BLOCK_MMA]
    assert tile.arg.donates_registers == donates
    assert launch_of(linear, 256)["threads"] == (384 if donates else 288)
    assert ("setmaxnreg.inc" in render({"kernel": linear}, TARGET)) == donates


def test_small_tiles_have_registers_enough() -> None:
    (tile,) = [node for node in generate(body_of(long(ab())), TARGET).linear.src if node.op is ops.BLOCK_MMA]
    assert not tile.arg.donates_registers


def test_every_tile_has_room_for_boxes() -> None:
    """Beside its stages, in the memory of a block."""
    atoms = (*gpu_atoms.WGMMA, *gpu_atoms.WGMMA_FP8, *gpu_atoms.WGMMA_INT, *gpu_atoms.WGMMA_TF32)
    for atom in atoms:
        assert 1 <= boxes_of(atom) <= 2  # type: ignore[arg-type]
