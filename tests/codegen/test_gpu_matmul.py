"""Matrix products by tiles mean what their kernels mean, for every atom, layout and odd size. No GPU is needed."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from schedule.build import param, scheduled

from codegen.test_kernel_programs import arrays_of
from whit.codegen import generate
from whit.codegen.gpu.arithmetic import with_short_epilogue
from whit.codegen.gpu.gemm import atoms as gpu_atoms
from whit.codegen.gpu.gemm import matmul as gpu_matmul
from whit.codegen.gpu.separate import separate
from whit.codegen.math.functions import plain_exp
from whit.config import Context
from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.args import MatrixArg, RangeKind
from whit.ir.check.verify import verify
from whit.ir.interpret import run
from whit.ir.interpret.program import _cut, _rounded
from whit.ir.op import PROGRAM
from whit.ir.uop import UOp
from whit.target import parse_target

pytestmark = pytest.mark.slow  # every thread is interpreted

TARGET = parse_target("CUDA:PTX:sm_90a")
OLD = parse_target("CUDA:PTX:sm_80")
F16, BF16, F32 = dtypes.float16, dtypes.bfloat16, dtypes.float32
SMALL = {
    "STAGED_MMA": (gpu_atoms.mma(1, 2, 16, 16, 2, pairs=True),),
    "STAGED_FMA": (gpu_atoms.fma(1, 1, 32, 16, 2),),
    "WGMMA": (gpu_atoms.wgmma(1, 64, 32, 2),),
    "WGMMA_FP8": (gpu_atoms.of_bytes(gpu_atoms.wgmma(1, 64, 32, 2)),),
    "WGMMA_INT": (gpu_atoms.of_bytes(gpu_atoms.wgmma(1, 64, 32, 2)),),
    "WGMMA_TF32": (gpu_atoms.of_floats(gpu_atoms.wgmma(1, 64, 32, 2)),),
    "BYTES": (gpu_atoms.of_bytes(gpu_atoms.mma(1, 2, 16, 32, 2)),),
    "MMA": (gpu_atoms.mma(1, 2, 16, 32, 2),),
    "FMA": (gpu_atoms.fma(1, 1, 32, 16, 2),),
    "ROUNDED": (gpu_atoms.tf32(1, 2, 16, 32, 2),),
    "STAGED_ROUNDED": (gpu_atoms.tf32(1, 2, 16, 16, 2, pairs=True),),
}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles that are interpreted fast."""
    for name, atoms in SMALL.items():
        monkeypatch.setattr(gpu_atoms, name, atoms)
    monkeypatch.setattr(gpu_matmul, "LEAST_TILE_ROWS", 1)
    monkeypatch.setattr(gpu_matmul, "NEAR_TILES", 2)


def product(a: UOp, b: UOp) -> UOp:
    """A (batched) product whose sums are float32, or int32."""
    *batch, m, k = a.shape
    n = b.shape[-1]
    b = b.permute((*range(len(batch)), len(batch) + 1, len(batch)))
    x = a.reshape((*batch, m, 1, k)).expand((*batch, m, n, k))
    y = b.reshape((*batch, 1, n, k)).expand((*batch, m, n, k))
    total = F32 if a.dtype.is_float else dtypes.int32
    if a.dtype is not F32:
        x, y = x.cast(total), y.cast(total)
    return (x * y).reduce(ops.ADD, (len(batch) + 2,)).cast(total if a.dtype.itemsize == 1 else a.dtype)


def turned(x: UOp) -> UOp:
    return x.permute((1, 0))


def body_of(value: UOp | list[UOp]) -> UOp:
    (call,) = scheduled(value).src
    return call.src[0].src[0]


def check(value: UOp, atom: str, target: Any = TARGET, tolerance: float = 0.0) -> Any:
    """The program of a value against its kernel, on small integers, whose sums are exact."""
    body = body_of(value)
    program = generate(body, target)
    (found,) = [node for node in program.linear.src if node.op is ops.BLOCK_MMA]
    assert found.arg.atom == atom
    verify(program.linear, PROGRAM)
    generator = np.random.default_rng(0)
    arrays = {
        node: generator.integers(-4, 5, array.shape).astype(array.dtype)
        for node, array in arrays_of(body, generator).items()
    }
    for node, array in arrays.items():
        if node.dtype is dtypes.uint32:  # bits of float32
            array[...] = array.view(np.int32).astype(np.float32).view(np.uint32)
    memory = {node.arg.slot: array.reshape(-1).copy() for node, array in arrays.items()}
    run(program.linear, {node: memory[node.arg.slot] for node in program.linear.src if node.op is ops.PARAM})
    run(body, arrays)
    for node, expected in arrays.items():
        got = memory[node.arg.slot].reshape(expected.shape)
        least = tolerance * float(np.finfo(np.float32).tiny)  # subnormal numbers have fewer bits
        np.testing.assert_allclose(got.astype(np.float64), expected.astype(np.float64), rtol=tolerance, atol=least)
    return program


PRODUCTS: dict[str, Callable[[DType], UOp]] = {
    "plain": lambda d: product(param(0, 64, 16, dtype=d), param(1, 16, 32, dtype=d)),
    "turned": lambda d: product(turned(param(0, 16, 64, dtype=d)), turned(param(1, 32, 16, dtype=d))),
    "odd": lambda d: product(param(0, 33, 5, dtype=d), param(1, 5, 19, dtype=d)),
    "batched": lambda d: product(param(0, 2, 32, 8, dtype=d), param(1, 2, 8, 16, dtype=d)),
    "rows are turned when stored": lambda d: turned(product(param(0, 32, 8, dtype=d), param(1, 8, 16, dtype=d))),
    "a part": lambda d: product(param(0, 40, 24, dtype=d).shrink(((8, 32), (8, 16))), param(1, 16, 16, dtype=d)),
}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize(("dtype", "atom"), [(BF16, "mma"), (F32, "fma")], ids=["mma", "fma"])
def test_products_by_tiles(name: str, dtype: DType, atom: str) -> None:
    check(PRODUCTS[name](dtype), atom, OLD)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", ["plain", "turned", "batched"])
def test_products_by_warp_groups(name: str) -> None:
    check(PRODUCTS[name](F16), "wgmma")


FEW: dict[str, Callable[[DType], UOp]] = {  # rows, depth, columns
    "rows of a matrix": lambda d: product(param(0, 3, 72, dtype=d), turned(param(1, 72, 72, dtype=d))),
    "columns of a matrix": lambda d: product(param(0, 9, 64, dtype=d), param(1, 64, 128, dtype=d)),
    "columns that are few": lambda d: product(param(0, 64, 72, dtype=d), turned(param(1, 2, 72, dtype=d))),
    "one core": lambda d: product(param(0, 9, 40, dtype=d), turned(param(1, 136, 40, dtype=d))),
}


@pytest.mark.parametrize(
    ("name", "tile"), [*zip(FEW, ((64, 8, 2), (64, 16, 1), (64, 8, 2), (128, 16, 1)), strict=True)], ids=FEW
)
def test_few_rows_beside_a_large_matrix(name: str, tile: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_matmul, "SKINNY_COLUMNS", 64)
    monkeypatch.setattr(gpu_atoms, "FEWEST_PIECES", 1)
    target = replace(TARGET, cores=1) if name == "one core" else TARGET
    program = check(FEW[name](BF16), "wgmma", target)
    (found,) = [node for node in program.linear.src if node.op is ops.BLOCK_MMA]
    assert (*found.arg.tile[:2], found.arg.split_k) == tile


@pytest.mark.usefixtures("small")
def test_quotients_and_powers_of_halves_are_short() -> None:
    total = product(param(0, 64, 16, dtype=F16), param(1, 16, 32, dtype=F16)).cast(F32)
    whole = check(total.alu(ops.SIGMOID), "wgmma", tolerance=1e-6)
    short = check(total.alu(ops.SIGMOID).cast(F16), "wgmma", tolerance=2**-10)
    quotient = check((total / (total * total + 3.0)).cast(F16), "wgmma", tolerance=2**-10)
    counts = [
        [sum(node.op is op for node in program.linear.src) for op in (ops.NORMAL_DIV, ops.RECIPROCAL, ops.FMA)]
        for program in (whole, short, quotient)
    ]
    assert counts == [[2, 0, 6], [0, 2, 0], [0, 2, 0]]


def test_only_functions_that_are_made_exact_are_shortened() -> None:
    x = param(0, 64).index(UOp.range(64, 0))
    product_ = param(1, 64).index(UOp.range(64, 0))
    for value, wanted in ((x.alu(ops.EXP), plain_exp(x)), (x.exp2(), x.exp2())):
        store = UOp.param(2, F16, (64,)).store((value + product_).cast(F16), UOp.range(64, 0))
        short = with_short_epilogue(UOp.group(store), product_)
        assert short.src[0].src[1].src[0].src[0] is wanted


E4M3, E5M2, I8, U8 = dtypes.fp8e4m3, dtypes.fp8e5m2, dtypes.int8, dtypes.uint8


def of_bytes(left: DType, right: DType, m: int, n: int, k: int) -> UOp:
    """a @ b.T, both along the depth in memory."""
    return product(param(0, m, k, dtype=left), turned(param(1, n, k, dtype=right)))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("left", "right"), [(E4M3, E4M3), (E4M3, E5M2), (I8, I8), (U8, I8)], ids=lambda d: d.name)
def test_products_of_bytes(left: DType, right: DType) -> None:
    check(of_bytes(left, right, 64, 32, 48), "wgmma")
    check(of_bytes(left, right, 33, 19, 37), "bytes")
    if left.is_float:
        check(of_bytes(left, right, 32, 16, 8), "mma", OLD)  # as halves, which have all their values


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", ["plain", "turned", "batched"])
def test_bytes_that_do_not_lie_along_the_depth(name: str) -> None:
    check(PRODUCTS[name](I8), "bytes")


STAGED: dict[str, Callable[[DType], UOp]] = {
    "prologue": lambda d: product(param(0, 32, 16, dtype=d) * 2.0, param(1, 16, 32, dtype=d)),
    "prologue, odd": lambda d: product(param(0, 33, 37, dtype=d) + 1.0, param(1, 37, 19, dtype=d) - 1.0),
    "turned prologue": lambda d: product(turned(param(0, 16, 32, dtype=d)) + 1.0, turned(param(1, 32, 16, dtype=d))),
    "of two": lambda d: product(param(0, 16, 8, dtype=d) * param(2, 16, 8, dtype=d), param(1, 8, 16, dtype=d)),
}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", STAGED)
@pytest.mark.parametrize(("dtype", "atom"), [(BF16, "mma"), (F32, "fma")], ids=["mma", "fma"])
def test_operands_that_are_computed_on_the_way(name: str, dtype: DType, atom: str) -> None:
    program = check(STAGED[name](dtype), atom)
    assert sum(node.op is ops.BARRIER for node in program.linear.src) == 1


@pytest.mark.usefixtures("small")
def test_float32_is_rounded_only_if_that_is_allowed() -> None:
    with Context(TF32=1):
        check(PRODUCTS["odd"](F32), "tf32")
        check(STAGED["prologue, odd"](F32), "tf32")
        check(product(rounded(0, 64, 32), turned(rounded(1, 32, 32))), "wgmma")
        check(product(rounded(0, 33, 37), turned(rounded(1, 19, 37))), "tf32")


def rounded(slot: int, rows: int, depth: int) -> UOp:
    """float32 as `schedule.rewrites.stage_operands` stores it."""
    return param(slot, rows, depth, dtype=dtypes.uint32).bitcast(F32)


def test_rounded_operands_have_ten_bits_of_mantissa() -> None:
    x = np.array([1 + 2**-10, 1 + 2**-11, 1 + 2**-12, -1 - 2**-11, np.inf, -0.0], np.float32)
    np.testing.assert_array_equal(_cut(x.view(np.uint32)), np.array([1 + 2**-10, 1, 1, -1, np.inf, -0.0], np.float32))
    np.testing.assert_array_equal(
        _rounded(x), np.array([1 + 2**-10, 1 + 2**-10, 1, -1 - 2**-10, np.inf, -0.0], np.float32)
    )


def test_two_products_are_two_launches_unless_one_reads_what_the_other_may_overwrite() -> None:
    a, b, c, more = (UOp.param(slot, F32, (1024,)) for slot in range(4))
    row, column, k = UOp.range(32, 0), UOp.range(32, 1), UOp.range(32, 2, RangeKind.REDUCE)
    at = row * 32 + column
    first, second = ((a.index(row * 32 + k) * x.index(k * 32 + column)).reduce(ops.ADD, ranges=(k,)) for x in (b, c))
    results = [UOp.param(slot, F32, (1024,)) for slot in (10, 11)]
    stores = [results[0].store(first, at), results[1].store(second, at)]
    assert [part.src for part in separate(UOp.group(*stores))] == [(stores[0],), (stores[1],)]
    stores[1] = results[1].store(second + more.index(at), at)
    assert [part.src for part in separate(UOp.group(*stores))] == [tuple(stores)]


def test_positions_have_32_bits_where_everything_fits() -> None:
    for size, dtype in ((64, dtypes.int32), (1 << 16, dtypes.int64)):
        program = generate(body_of(param(0, size, size) + 1.0), TARGET)
        assert {node.dtype for node in program.linear.src if node.op is ops.RANGE} == {dtype}


def test_tiles_fill_the_chip() -> None:
    def atom_of(*sizes: int) -> str:
        matrices = (MatrixArg(0, sizes[2], 1, copied=16),) * 2
        atom = gpu_atoms.choose_atom(BF16, sizes, 1, matrices, TARGET)
        return f"{atom.tile[0]} x {atom.tile[1]}, {atom.cluster}"

    assert atom_of(8192, 8192, 8192) == "128 x 256, 2"
    assert atom_of(512, 6144, 4096) == "128 x 192, 1"  # 128 tiles for 132 multiprocessors
    assert atom_of(512, 4096, 4096) == "128 x 128, 1"
    assert atom_of(64, 64, 64) == "64 x 64, 1"


def test_tiles_that_are_always_inside_are_stored_without_a_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_atoms, "WGMMA", (gpu_atoms.wgmma(1, 128, 128, 3),))
    left, right = (param(i, n, 64, dtype=dtypes.bfloat16).cast(dtypes.float32) for i, n in enumerate((256, 320)))
    program = generate(body_of(product(left, turned(right))), TARGET)
    stores = [node for node in program.linear.src if node.op is ops.STORE]
    assert [node.arg.gated for node in stores].count(True) == len(stores) // 2  # 64 of the 128 columns of the last tile
    assert all(node.src[1].shape == (8,) for node in stores)


def test_blocks_share_the_depth_so_that_all_run_at_once() -> None:
    def atom_of(rows: int, columns: int, depth: int) -> tuple[int, int, int]:
        atom = gpu_atoms.choose_skinny((rows, columns, depth), TARGET)
        return *atom.tile[:2], atom.split_k

    assert atom_of(4096, 16, 4096) == (64, 16, 2)
    assert atom_of(6144, 33, 4096) == (64, 48, 1)
    assert atom_of(14336, 2, 4096) == (128, 8, 1)
    assert atom_of(1024, 5, 768) == (64, 8, 3)  # four pieces of 64 for each
    assert atom_of(128256, 64, 4096) == (64, 64, 1)
