"""PTX: its text, and that NVIDIA's assembler takes it for every op, dtype and kind of kernel. No GPU is needed."""

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from render.cpu_programs import BEFORE, accepts, mapped, operand_dtypes
from render.ptx_machine import run_ptx
from whit.codegen import generate
from whit.codegen.gpu.gemm import atoms as gpu_atoms
from whit.codegen.gpu.separate import separate
from whit.config import Context
from whit.dtype import DType, dtypes
from whit.errors import NotSupportedError
from whit.ir import ops
from whit.ir.args import Memory, RangeKind, place_of
from whit.ir.interpret import evaluate, numpy_dtype
from whit.ir.op import Op
from whit.ir.uop import UOp, const, make
from whit.render import render
from whit.render.ptx.gemm.exchange import exchange, in_order_of_mma
from whit.render.ptx.launch import before_the_tile, launch_of
from whit.render.ptx.values import PtxWriter
from whit.schedule import schedule
from whit.target import Target, parse_target

ARCHS = ("sm_75", "sm_80", "sm_90a", "sm_100", "sm_120")
TARGET = parse_target("CUDA:PTX:sm_90a")
PTXAS = shutil.which("ptxas") or shutil.which("ptxas", path=f"{sysconfig.get_path('purelib')}/nvidia/cu13/bin")
needs_ptxas = pytest.mark.skipif(PTXAS is None, reason="there is no ptxas (whit[ptx])")
OPS = [op for op in ops.ELEMENTWISE if op not in BEFORE]


def assemble(text: str, arch: str, folder: Path) -> None:
    """Raises with the assembler's words. What it takes does not depend on how much it optimises."""
    source = folder / "kernel.ptx"
    source.write_text(text)
    command = [str(PTXAS), f"-arch={arch}", "-O1", str(source), "-o", str(folder / "kernel.cubin")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{text}"


def programs_of(value: UOp, target: Target = TARGET) -> dict[str, UOp]:
    """The programs of a value's kernels, by name."""
    out = UOp.param(100, value.dtype, value.shape)
    linear = schedule(UOp.group(out.store(value)))
    bodies = [part for call in linear.src for part in separate(call.src[0].src[0])]
    return {f"kernel{i}": generate(body, target).linear for i, body in enumerate(bodies)}


@pytest.mark.slow
@needs_ptxas
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_every_elementwise_op_assembles(op: Op, tmp_path: Path) -> None:
    programs = {
        f"{dtype.name}_{width}": mapped(lambda *x: make(op, x), operand_dtypes(op, dtype), 48, width)
        for dtype in dtypes.scalars
        if accepts(op, dtype)
        for width in (1, 4)
    }
    assemble(render(programs, TARGET), "sm_90a", tmp_path)


@pytest.mark.slow
@needs_ptxas
def test_every_cast_assembles(tmp_path: Path) -> None:
    programs = {}
    for source in dtypes.scalars:
        for target in dtypes.scalars:
            name = f"{source.name}_{target.name}"
            programs[name] = mapped(lambda x, to=target: x.cast(to), [source], 48, 4)
            if source.bitsize == target.bitsize:
                programs[f"{name}_bits"] = mapped(lambda x, to=target: x.bitcast(to), [source], 48, 1)
    assemble(render(programs, TARGET), "sm_90a", tmp_path)


def rows(dtype: DType = dtypes.float32) -> UOp:
    return UOp.param(0, dtype, (64, 512))


KERNELS = {
    "elementwise": lambda: rows() * 2.0 + rows(),
    "halves": lambda: rows(dtypes.float16) * rows(dtypes.float16),
    "sum": lambda: rows().reduce(ops.ADD, (1,)),
    "all": lambda: (rows() < 0.0).reduce(ops.AND, (0, 1)),
    "columns": lambda: rows().reduce(ops.MAX, (0,)),
    "scan": lambda: rows().scan(ops.ADD, 1),
    "scan of columns of halves": lambda: UOp.param(0, dtypes.bfloat16, (100, 40)).scan(ops.MAX, 0),
    "scan of a long row": lambda: UOp.param(0, dtypes.int64, (20_001,)).scan(ops.ADD, 0, reverse=True),
    "scan of logarithms": lambda: rows().scan(ops.LOGADDEXP, 1),
    "transpose": lambda: rows().permute((1, 0)) * 2.0,
    "transpose of bytes": lambda: UOp.param(0, dtypes.bool, (100, 40)).permute((1, 0)).stage(),
    "exp": lambda: make(ops.EXP2, (rows(),)),
    "sin of doubles": lambda: make(ops.SIN, (rows(dtypes.float64),)),
}


@pytest.mark.slow
@needs_ptxas
@pytest.mark.parametrize("arch", ARCHS)
def test_kernels_assemble(arch: str, tmp_path: Path) -> None:
    programs = {}
    for number, build in enumerate(KERNELS.values()):
        programs |= {f"{name}_{number}": linear for name, linear in programs_of(build()).items()}
    assemble(render(programs, parse_target(f"CUDA:PTX:{arch}")), arch, tmp_path)


def product(dtype: DType, sizes: tuple[int, int, int], turned: bool = False) -> UOp:
    """A matrix product whose sums are float32."""
    m, n, k = sizes
    a, b = (UOp.param(0, dtype, (k, m)), UOp.param(1, dtype, (n, k))) if turned else (
        UOp.param(0, dtype, (m, k)), UOp.param(1, dtype, (k, n)))  # fmt: skip
    a, b = (a.permute((1, 0)), b) if turned else (a, b.permute((1, 0)))
    left, right = a.reshape((m, 1, k)).expand((m, n, k)), b.reshape((1, n, k)).expand((m, n, k))
    total = dtypes.float32 if dtype.is_float else dtypes.int32
    return (left.cast(total) * right.cast(total)).reduce(ops.ADD, (2,)).cast(dtype)


def along_depth(left: DType, right: DType, sizes: tuple[int, int, int]) -> UOp:
    """A product of bytes, or of rounded float32, that lie along the depth."""
    m, n, k = sizes
    a, b = UOp.param(0, left, (m, k)).reshape((m, 1, k)), UOp.param(1, right, (n, k)).reshape((1, n, k))
    if left is dtypes.uint32:  # the bits of float32
        a, b = a.bitcast(F32), b.bitcast(F32)
    total = dtypes.float32 if a.dtype.is_float else dtypes.int32
    return (a.expand((m, n, k)).cast(total) * b.expand((m, n, k)).cast(total)).reduce(ops.ADD, (2,))


F16, BF16, F32 = dtypes.float16, dtypes.bfloat16, dtypes.float32
PRODUCTS = [
    product(BF16, (8192, 8192, 1024)),
    product(F16, (8192, 8192, 1024), turned=True),
    product(BF16, (512, 512, 512)),
    product(F16, (333, 335, 337)),
    product(F32, (512, 512, 64)),
    product(F32, (333, 335, 337), turned=True),
    along_depth(dtypes.fp8e4m3, dtypes.fp8e5m2, (8192, 8192, 8192)),
    along_depth(dtypes.fp8e5m2, dtypes.fp8e4m3, (333, 335, 337)),
    along_depth(dtypes.int8, dtypes.uint8, (512, 512, 512)),
    along_depth(dtypes.uint8, dtypes.uint8, (333, 335, 337)),
    along_depth(dtypes.uint32, dtypes.uint32, (512, 512, 64)),
    product(BF16, (16, 4096, 4096)),
    product(F16, (33, 1000, 1000)),
]


@pytest.mark.slow
@needs_ptxas
@pytest.mark.parametrize("arch", ARCHS[1:-1])
def test_matrix_products_assemble(arch: str, tmp_path: Path) -> None:
    target = parse_target(f"CUDA:PTX:{arch}")
    found: dict[UOp, None] = {}  # most are the same whether float32 is rounded or not
    for rounds in (False, True):
        with Context(TF32=rounds):
            found |= dict.fromkeys(programs_of(value, target)["kernel0"] for value in PRODUCTS)
    text = render({f"product{number}": linear for number, linear in enumerate(found)}, target)
    assemble(text, arch, tmp_path)
    assert text.count("mma.sync.aligned.m16n8k8.row.col.f32.tf32") > 0
    assert ("wgmma.mma_async" in text and ".multicast::cluster" in text) == (arch == "sm_90a")
    for kinds in ("m64n192k32.f32.e4m3.e5m2", "k32.s32.s8.u8", "k8.f32.tf32.tf32", "m64n16k16", "ld.shared::cluster"):
        assert (kinds in text and "setmaxnreg.inc" in text) == (arch == "sm_90a")
    assert (".f32.e5m2.e4m3.f32" in text) == (arch != "sm_80")
    assert "mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32" in text


@needs_ptxas
@pytest.mark.parametrize("arch", ("sm_89", "sm_120"))
def test_tensor_cores_multiply_fp8_from_sm_89_on(arch: str, tmp_path: Path) -> None:
    target = parse_target(f"CUDA:PTX:{arch}")
    text = render(programs_of(along_depth(dtypes.fp8e5m2, dtypes.fp8e4m3, (65, 66, 96)), target), target)
    assemble(text, arch, tmp_path)
    assert "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e4m3.f32" in text
    assert ("griddepcontrol" in text) == (arch == "sm_120")


@pytest.mark.slow
@needs_ptxas
def test_what_is_older_than_sm_80_has_none_of_its_instructions(tmp_path: Path) -> None:
    target = parse_target("CUDA:PTX:sm_75")
    with Context(TF32=True):  # which is allowed, and not there
        products = [
            product(F16, (333, 336, 337)),
            product(BF16, (65, 66, 96)),
            product(F32, (512, 512, 64)),
            PRODUCTS[7],
        ]
        products += [along_depth(left, dtypes.uint8, (65, 66, 96)) for left in (dtypes.int8, dtypes.uint8)]
        texts = {f"product{i}": programs_of(value, target)["kernel0"] for i, value in enumerate(products)}
    for op in (ops.MAX, ops.MIN, ops.FMA):
        texts |= {
            f"{op.name}_{d.name}": mapped(lambda *x, op=op: make(op, x), [d] * op.least, 48, 4) for d in (F32, BF16)
        }
    for other in dtypes.scalars:
        texts[f"{other.name}_to"] = mapped(lambda x: x.cast(BF16), [other], 48, 4)
        texts[f"{other.name}_from"] = mapped(lambda x, to=other: x.cast(to), [BF16], 48, 4)
    text = render(texts, target)
    assemble(text, "sm_75", tmp_path)
    assert not re.search(r"bf16|tf32|cp\.async|\.NaN|cvt\.rn\.f16x2|griddepcontrol", text)
    for shape in ("m16n8k8.row.col.f32.f16.f16.f32", "m8n8k16.row.col.s32.s8.u8.s32", "m8n8k16.row.col.s32.u8.u8.s32"):
        assert f"mma.sync.aligned.{shape}" in text


def test_a_product_by_warp_groups_is_launched_with_a_warp_more_and_maps_of_its_matrices() -> None:
    linear = programs_of(product(BF16, (512, 1000, 192)))["kernel0"]
    (tile,) = [node for node in linear.src if node.op is ops.BLOCK_MMA]
    rows, columns, _ = tile.arg.tile
    launch = launch_of(linear, 256)
    assert launch["threads"] == 32 + 32 * 4 * tile.arg.threads[0].count
    boxes = tile.arg.threads[0].count * 2 * 64 * 128
    assert launch["shared"] == tile.arg.stages * ((rows + columns) * 128 + 16) + boxes <= 227 * 1024
    a, b, result = launch["maps"]
    assert (a["sizes"], a["strides"], a["box"]) == ([192, 512, 1], [384, 384], [64, rows, 1])
    assert (b["sizes"], b["strides"], b["box"]) == ([1000, 192, 1], [2000, 2000], [64, 64, 1])
    assert (result["sizes"], result["strides"], result["box"]) == ([1000, 512, 1], [2000, 2000], [64, 64, 1])


def test_the_copying_thread_runs_the_loop_over_tiles_and_computes_nothing() -> None:
    linear = programs_of(product(BF16, (8192, 8192, 1024)))["kernel0"]
    (tile,) = [node for node in linear.src if node.op is ops.BLOCK_MMA]
    copying = before_the_tile(linear, tile)
    assert [node.arg.kind.value for node in copying if node.op is ops.RANGE] == ["block", "thread", "loop"]
    assert not any(node.op in (ops.LOAD, ops.STORE) for node in copying)


def test_sums_are_exchanged_into_the_places_that_the_atom_says() -> None:
    """The instructions of the exchange, run for a warp: registers hold where tensor cores leave an element."""
    atom = gpu_atoms.mma(1, 1, 16, 64, 2)
    writer = PtxWriter()
    names = [writer.register("f32", "sum") for _ in range(32)]
    values: list[dict[str, Any]] = []
    for lane in range(32):
        native = [(lane // 4 + 8 * half, 8 * j + lane % 4 * 2 + e) for j in range(8) for half in (0, 1) for e in (0, 1)]
        values.append({"%laneid": lane, **dict(zip(in_order_of_mma(names), native, strict=True))})
    exchange(writer, names)
    for line in (line for line in writer.lines if "//" not in line):
        step_of_a_warp(line.strip().rstrip(";"), values)
    for lane, found in enumerate(values):
        for element, name in enumerate(names):
            (row, column), (down, right) = place_of(lane, atom.threads), place_of(element, atom.elements)
            assert found[name] == (row + down, column + right)


def step_of_a_warp(line: str, values: list[dict[str, Any]]) -> None:
    """One instruction of the exchange in every lane at once."""
    guard, text = line.split(" ", 1) if line.startswith("@") else ("", line)
    instruction, operands = text.split(" ", 1)
    target, *sources = operands.split(", ")
    before = [dict(found) for found in values]
    for lane, found in enumerate(values):
        if guard and before[lane][guard.lstrip("@!")] == guard.startswith("@!"):
            continue
        x = [before[lane].get(source, source) for source in sources]
        if instruction == "and.b32":
            found[target] = x[0] & int(x[1])
        elif instruction == "setp.ne.u32":
            found[target] = x[0] != int(x[1])
        elif instruction == "selp.f32":
            found[target] = x[0] if x[2] else x[1]
        elif instruction == "shfl.sync.bfly.b32":
            found[target] = before[lane ^ int(x[1])][sources[0]]
        else:
            assert instruction in ("mov.b32", "mov.u32"), line
            found[target] = x[0]


def test_the_text_of_a_small_kernel() -> None:
    text = render({"twice": programs_of(UOp.param(0, dtypes.float32, (100,)) * 2.0)["kernel0"]}, TARGET)
    assert text == Path(__file__).with_name("twice.ptx").read_text()


@pytest.mark.parametrize("dtype", (dtypes.int32, dtypes.uint32), ids=lambda dtype: dtype.name)
def test_no_minus_is_left_to_the_assembler(dtype: DType) -> None:
    """That of CUDA 13.0 loses the one in max(max(a, -x), b); every way to write it is spelled ~x + 1."""
    a, x = (UOp.param(i, dtype, (3, 5)) for i in range(2))
    for minus in (-x, const(dtype, 0) - x, x * const(dtype, dtype.max if dtype.is_unsigned else -1)):
        value = make(ops.MAX, (a, minus)).reduce(ops.MAX, (0,))
        (program,) = programs_of(value).values()
        text = render({"k": program}, TARGET)
        assert "not.b32" in text and not re.search(r"neg\.|sub\.\w+ %\w+, 0|, (-1|4294967295);", text)
        arrays = {node: np.arange(15, dtype=dtype.name).reshape(3, 5) - 4 for node in (a, x)}
        found = np.zeros(5, dtype.name)
        run_ptx(text, 1, 32, {"p0": found, "p1": arrays[a], "p2": arrays[x]})
        np.testing.assert_array_equal(found, evaluate(value, arrays))


def test_no_signed_maximum_with_0_is_left_to_the_assembler() -> None:
    """That of CUDA 13.0 takes a <= b for max(min(a, b), 0) == a: maxima of int32 are unsigned ones of flipped numbers,
    and casts to unsigned integers need none."""
    both, f = UOp.param(0, dtypes.int32, (2, 70)), UOp.param(0, dtypes.float32, (70,))
    a, b = (both.shrink(((row, 1), (0, 70))).reshape((70,)) for row in range(2))
    given = {
        both: np.random.default_rng(0).integers(-5, 5, (2, 70)).astype(np.int32),
        f: np.linspace(-300, 700, 70, dtype=np.float32),
    }
    byte = f.cast(dtypes.uint8)
    for value in (a.minimum(b).maximum(0).eq(a), a.maximum(b).maximum(0), byte.eq(255), byte, f.cast(dtypes.int8)):
        (program,) = programs_of(value).values()
        text = render({"k": program}, TARGET)
        assert not re.search(r"max\.s32 \S+ \S+ (0|%)", text)
        nodes = {node for line in program.src for node in line.topological()}
        counts = {node.arg.kind: node.size for node in nodes if node.op is ops.RANGE}
        (param,) = (node for node in (both, f) if node in value.topological())
        found = np.zeros(70, numpy_dtype(value.dtype))
        memory = {"p0": found, "p1": given[param]}
        run_ptx(text, counts.get(RangeKind.BLOCK, 1), counts.get(RangeKind.THREAD, 1), memory)  # type: ignore[arg-type]
        np.testing.assert_array_equal(found, evaluate(value, {param: given[param]}))


def test_vectors_are_one_access_where_they_are_aligned() -> None:
    p0, p1 = (UOp.param(slot, dtypes.float32, (64,)) for slot in (0, 1))
    zero, one = (const(dtypes.int64, n) for n in (0, 1))
    aligned, shifted = p1.load(zero, 4), p1.load(one, 4)
    text = render({"f": UOp.linear(p0, p1, aligned, shifted, p0.store(aligned, zero), p0.store(shifted, one))}, TARGET)
    assert text.count("ld.global.v4.f32") == 1
    assert text.count("ld.global.f32") == 4
    assert text.count("st.global.v4.f32") == 1
    assert text.count("st.global.f32") == 4


def test_an_if_directly_in_another_has_a_label_of_its_own() -> None:
    p0, zero = UOp.param(0, dtypes.int32, (8,)), const(dtypes.int64, 0)
    x = p0.load(zero)
    outer, inner = (make(ops.IF, (x > n,)) for n in (0, 1))
    body = [p0, x, *outer.src, *inner.src, outer, inner, p0.store(x, zero), inner.end(), outer.end()]
    labels = re.findall(r"^ *(\w+):", render({"f": UOp.linear(*body)}, TARGET), re.MULTILINE)
    assert len(labels) == len(set(labels)) == 2


def test_too_much_shared_memory_is_refused() -> None:
    p0 = UOp.param(0, dtypes.float32, (1,))
    shared = UOp.buffer(0, dtypes.float32, (60_000,), memory=Memory.SHARED)
    zero = const(dtypes.int64, 0)
    store = shared.store(const(dtypes.float32, 1.0), zero)
    load = shared.after(store).load(zero)
    with pytest.raises(NotSupportedError, match="240000 bytes of shared memory, and a block has 232448"):
        render({"f": UOp.linear(p0, shared, store, load.src[0], load, p0.store(load, zero))}, TARGET)


@pytest.mark.slow
@needs_ptxas
def test_a_thousand_parameters_assemble_and_more_than_there_can_be_are_refused(tmp_path: Path) -> None:
    def program(count: int) -> UOp:
        zero = const(dtypes.int64, 0)
        params = [UOp.param(slot, dtypes.float32, (1,)) for slot in range(count)]
        return UOp.linear(*params, *(param.store(const(dtypes.float32, 1.0), zero) for param in params))

    assemble(render({"f": program(1000)}, TARGET), "sm_90a", tmp_path)
    with pytest.raises(NotSupportedError, match="over 5000 tensors and variables; 4095 is the most"):
        render({"f": program(5000)}, TARGET)


def test_what_a_product_reads_beside_its_operands_may_be_loaded_before_tiles_are_stored() -> None:
    beside = UOp.param(2, BF16, (512, 512))
    text = render({"f": programs_of(product(BF16, (512, 512, 64)) + beside)["kernel0"]}, TARGET)
    assert "ld.global.nc.v4.b32" in text
    assert "ld.global.v4" not in text


def test_a_sigmoid_has_no_branches() -> None:
    x = UOp.param(0, dtypes.float32, (256,))
    (program,) = programs_of(x.alu(ops.SIGMOID)).values()
    text = render({"kernel": program}, TARGET)
    assert "rcp.approx.ftz.f32" in text
    assert "div.rn" not in text
    (program,) = programs_of((x < 0.0).where(x, 1.0) / (x + 1.0)).values()
    assert "div.rn.f32" in render({"kernel": program}, TARGET)
