"""PTX: its text, and that NVIDIA's assembler takes it for every op, dtype and kind of kernel. No GPU is needed."""

import shutil
import subprocess
from pathlib import Path

import pytest
from cpu_programs import BEFORE, accepts, mapped, operand_dtypes

from whit.codegen import generate, separate
from whit.dtype import DType, dtypes
from whit.errors import NotSupportedError
from whit.ir import ops
from whit.ir.args import Memory
from whit.ir.op import Op
from whit.ir.uop import UOp, const, make
from whit.render import render
from whit.schedule import schedule
from whit.target import parse_target

ARCHS = ("sm_80", "sm_90a", "sm_100")
TARGET = parse_target("CUDA:PTX:sm_90a")
PTXAS = shutil.which("ptxas")
needs_ptxas = pytest.mark.skipif(PTXAS is None, reason="there is no ptxas (PyPI: nvidia-cuda-nvcc)")
OPS = [op for op in ops.ELEMENTWISE if op not in BEFORE]


def assemble(text: str, arch: str, folder: Path) -> None:
    """Raises with the assembler's words."""
    source = folder / "kernel.ptx"
    source.write_text(text)
    command = [str(PTXAS), f"-arch={arch}", str(source), "-o", str(folder / "kernel.cubin")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{text}"


def programs_of(value: UOp) -> dict[str, UOp]:
    """The programs of a value's kernels, by name."""
    out = UOp.param(100, value.dtype, value.shape)
    linear = schedule(UOp.group(out.store(value)))
    bodies = [part for call in linear.src for part in separate(call.src[0].src[0])]
    return {f"kernel{i}": generate(body, TARGET).linear for i, body in enumerate(bodies)}


@pytest.mark.slow
@needs_ptxas
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_every_elementwise_op_assembles(op: Op, tmp_path: Path) -> None:
    programs = {
        f"{dtype.name}_{width}": mapped(lambda *x: make(op, x), operand_dtypes(op, dtype), 48, width)
        for dtype in dtypes.all
        if accepts(op, dtype)
        for width in (1, 4)
    }
    assemble(render(programs, TARGET), "sm_90a", tmp_path)


@pytest.mark.slow
@needs_ptxas
def test_every_cast_assembles(tmp_path: Path) -> None:
    programs = {}
    for source in dtypes.all:
        for target in dtypes.all:
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
    "exp": lambda: make(ops.EXP2, (rows(),)),
    "sin of doubles": lambda: make(ops.SIN, (rows(dtypes.float64),)),
}


@needs_ptxas
@pytest.mark.parametrize("arch", ARCHS)
def test_kernels_assemble(arch: str, tmp_path: Path) -> None:
    programs = {}
    for number, build in enumerate(KERNELS.values()):
        programs |= {f"{name}_{number}": linear for name, linear in programs_of(build()).items()}
    assemble(render(programs, parse_target(f"CUDA:PTX:{arch}")), arch, tmp_path)


def test_the_text_of_a_small_kernel() -> None:
    text = render({"twice": programs_of(UOp.param(0, dtypes.float32, (100,)) * 2.0)["kernel0"]}, TARGET)
    assert text == Path(__file__).with_name("twice.ptx").read_text()


def test_vectors_are_one_access_where_they_are_aligned() -> None:
    p0, p1 = (UOp.param(slot, dtypes.float32, (64,)) for slot in (0, 1))
    zero, one = (const(dtypes.int64, n) for n in (0, 1))
    aligned, shifted = p1.load(zero, 4), p1.load(one, 4)
    text = render({"f": UOp.linear(p0, p1, aligned, shifted, p0.store(aligned, zero), p0.store(shifted, one))}, TARGET)
    assert text.count("ld.global.v4.f32") == 1
    assert text.count("ld.global.f32") == 4
    assert text.count("st.global.v4.f32") == 1
    assert text.count("st.global.f32") == 4


def test_too_much_shared_memory_is_refused() -> None:
    p0 = UOp.param(0, dtypes.float32, (1,))
    shared = UOp.buffer(0, dtypes.float32, (20_000,), memory=Memory.SHARED)
    zero = const(dtypes.int64, 0)
    store = shared.store(const(dtypes.float32, 1.0), zero)
    load = shared.after(store).load(zero)
    with pytest.raises(NotSupportedError, match="80000 bytes of shared memory, and a block has 49152"):
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
