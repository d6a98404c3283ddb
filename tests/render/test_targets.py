"""Code for machines that are not this one: it compiles for all of them, and older ones of the family run here."""

import numpy as np
import pytest

from render.cpu_programs import assert_same, by_llvm, call, index, listed, mapped, operand_dtypes, sample_arrays
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.args import Memory, RangeKind
from whit.ir.interpret import evaluate, numpy_dtype
from whit.ir.uop import UOp, make
from whit.render import render
from whit.render.c.text import render_c
from whit.render.llvm.text import render_llvm
from whit.runtime.code.elf import undefined_symbols
from whit.runtime.code.llvm import assembly, compile_llvm
from whit.target import host_target, parse_target

pytestmark = pytest.mark.slow  # many programs are compiled

F32 = dtypes.float32
COUNT = 48
KINDS = (dtypes.float32, dtypes.float64, dtypes.int8, dtypes.uint32, dtypes.int64, dtypes.float16)
OPS = (ops.ADD, ops.MAX, ops.FLOOR, ops.ROUND, ops.FLOORDIV, ops.CMOD, ops.SHR, ops.LT, ops.WHERE, ops.ABS)
MACHINES = {"x86-64": 62, "x86-64-v3": 62, "znver4": 62, "skylake-avx512": 62, "aarch64": 183, "cortex-a76": 183}
is_x86 = pytest.mark.skipif(host_target().family != "x86_64", reason="this machine is no x86")


def _programs() -> dict[str, UOp]:
    """Arithmetic, casts and memory in one module."""
    found = {}
    for op in OPS:
        for dtype in KINDS:
            if (op in (ops.FLOOR, ops.ROUND) and not dtype.is_float) or (
                op in (ops.FLOORDIV, ops.CMOD, ops.SHR) and dtype.is_float
            ):
                continue
            for width in (1, 3, 8):
                program = mapped(lambda *x: make(op, x), operand_dtypes(op, dtype), COUNT, width)  # noqa: B023
                found[f"{op.name}_{dtype.name}_{width}"] = program
    for source in KINDS:
        for target in (kind for kind in KINDS if kind is not source):
            found[f"cast_{source.name}_{target.name}"] = mapped(lambda x: x.cast(target), (source,), COUNT, 8)  # noqa: B023
    x, places = UOp.param(0, dtypes.float32, (COUNT,)), UOp.param(1, dtypes.int64, (8,))
    positions = places.load(index(0), 8)
    gate = positions < 7
    loads = (positions, gate, x.load(positions, gate=gate), x.load(index(8), 8, gate))
    stores = (x.store(loads[2], positions, gate=gate), x.store(loads[3], index(16), gate=gate))
    found["memory"] = UOp.linear(x, places, *loads, *stores)
    return found


@pytest.mark.parametrize("arch", MACHINES)
def test_objects_are_made_for_every_machine(arch: str) -> None:
    target = parse_target(f"CPU:LLVM:{arch}")
    code = compile_llvm(render_llvm(_programs(), target), target)
    assert code[:6] == b"\x7fELF\x02\x01"
    assert int.from_bytes(code[18:20], "little") == MACHINES[arch]
    rounding = {"floor", "floorf", "rint", "rintf"} if arch == "x86-64" else set()
    assert set(undefined_symbols(code)) <= rounding | {"memcpy", "memset"}


@is_x86
@pytest.mark.parametrize("arch", ["x86-64", "x86-64-v2", "x86-64-v3"])
def test_code_for_older_machines_gives_the_same(arch: str) -> None:
    if not parse_target(f"CPU:LLVM:{arch}").features <= host_target().features:
        pytest.skip(f"this machine is older than {arch}")
    programs = _programs()
    memory = programs.pop("memory")
    library = by_llvm({**programs, "memory": memory}, f"CPU:LLVM:{arch}")
    for name, program in programs.items():
        out, *inputs = (node for node in program.src if node.op is ops.PARAM)
        store = next(node for node in program.src if node.op is ops.STORE)
        loads = {load: load.src[0] for load in program.src if load.op is ops.LOAD}
        given = sample_arrays([node.dtype for node in inputs], COUNT)
        value = store.src[1]
        buffers = {node: UOp.buffer(node.arg.slot, node.dtype, (COUNT,)) for node in inputs}
        graph = make(value.op, tuple(buffers[loads[s]] for s in value.src), value.arg)
        expected = evaluate(graph, dict(zip(buffers.values(), given, strict=True)))
        result = np.zeros(COUNT, numpy_dtype(out.dtype))
        call(library, name, [result, *given])
        assert_same(out.dtype, result, expected, f"{name} on {arch}", signed_zero=value.op is not ops.MAX)


def test_wide_vectors_use_wide_registers() -> None:
    program = {"add": mapped(lambda x, y: x + y, (dtypes.float32,) * 2, 160, 16)}
    target = parse_target("CPU:LLVM:skylake-avx512")
    assert "zmm" in assembly(render_llvm(program, target), target)
    older = parse_target("CPU:LLVM:x86-64-v3")
    text = assembly(render_llvm(program, older), older)
    assert "ymm" in text and "zmm" not in text


def test_local_arrays_become_registers() -> None:
    out, x = UOp.param(0, F32, (64,)), UOp.param(1, F32, (640,))
    loop = UOp.range(index(10), 0, RangeKind.REDUCE)
    acc = UOp.buffer(0, F32, (64,), memory=Memory.REGISTER)
    zero = UOp.stack(*[UOp.const(F32, 0.0)] * 16)
    starts = [acc.store(zero, i * 16) for i in range(4)]
    steps = [
        acc.store(acc.after(*starts, loop).load(i * 16, 16) + x.load(loop * 64 + i * 16, 16), i * 16) for i in range(4)
    ]
    end = loop.end()
    results = [out.store(acc.after(end).load(i * 16, 16), index(i * 16)) for i in range(4)]
    target = parse_target("CPU:LLVM:skylake-avx512")
    text = assembly(render_llvm({"sum": listed(out, x, acc, *starts, loop, *steps, end, *results)}, target), target)
    assert "rsp" not in text


def test_the_renderer_follows_from_the_target() -> None:
    program = {"add": mapped(lambda x, y: x + y, (dtypes.float32,) * 2, 16, 4)}
    assert render(program, parse_target("CPU")) == render_llvm(program, parse_target("CPU"))
    assert render(program, parse_target("CPU:C")) == render_c(program, parse_target("CPU:C"))
