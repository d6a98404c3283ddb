"""Attention by tensor cores: values and gradients against NumPy in float64. No GPU is needed.

The device PYTHON runs the schedule of a GPU; where a kernel is attention, it runs its program by the interpreter, with
small blocks, or its PTX by a machine of NumPy, with those that a GPU has.
"""

import math
import re
import shutil
import subprocess
import sysconfig
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from render.ptx_machine import run_ptx

from codegen.test_cpu_attention import causal, expected
from whit import Context, Tensor
from whit.codegen import Program, generate
from whit.codegen.gpu.attention import sizes as attention_sizes
from whit.codegen.gpu.separate import separate
from whit.dtype import DType, dtypes
from whit.engine.compile.cuda import compile_ptx, without_vectors
from whit.engine.devices import python
from whit.engine.report.counters import GlobalCounters
from whit.ir import ops
from whit.ir.check.verify import verify
from whit.ir.interpret import run
from whit.ir.op import PROGRAM
from whit.ir.uop import UOp, make
from whit.kernel.online_softmax import plain_powers
from whit.render import render
from whit.render.ptx.launch import launch_of
from whit.schedule.rewrites import stage_operands as operands
from whit.target import parse_target

pytestmark = pytest.mark.slow

TARGET = parse_target("CUDA:PTX:sm_90a")
PTXAS = shutil.which("ptxas") or shutil.which("ptxas", path=f"{sysconfig.get_path('purelib')}/nvidia/cu13/bin")
needs_ptxas = pytest.mark.skipif(PTXAS is None, reason="there is no ptxas (whit[ptx])")
RNG = np.random.default_rng(11)
BF16, F16, E4M3, E5M2 = dtypes.bfloat16, dtypes.float16, dtypes.fp8e4m3, dtypes.fp8e5m2
MOST_SPILLED = 64  # bytes, around the loop
ERRORS = {BF16: 1.5e-2, F16: 2e-3, E4M3: 6.5e-2, E5M2: 0.13}


class Emulated:
    """What the device runs instead of the kernels of attention."""

    def __init__(self) -> None:
        self.is_text = True
        self.target = TARGET
        self.offset = 0  # bytes from a multiple of 16 to the memory of params
        self.programs: list[Program] = []

    def __call__(self, call: UOp, values: dict[UOp, Any]) -> None:
        function, *arguments = call.src
        programs = [generate(part, self.target) for part in separate(function.src[0])]
        if not any("tensor cores" in program.explanation for program in programs):
            run(call, values)
            return
        (program,) = programs
        self.programs.append(program)
        verify(program.linear, PROGRAM)
        params = [node for node in program.linear.src if node.op is ops.PARAM]
        memory = {node: values[arguments[node.arg.slot]].reshape(-1) for node in params}
        if not self.is_text:
            run(program.linear, memory)
            return
        launch = launch_of(program.linear, program.threads)
        arrays = {f"p{node.arg.slot}": array for node, array in memory.items()}
        text = render({"attention": program.linear}, self.target)
        run_ptx(text, program.total, launch["threads"], arrays, launch["shared"], self.offset)


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> Emulated:
    found = Emulated()
    monkeypatch.setattr(python, "run", found)
    monkeypatch.setattr(python.PythonDevice, "target", property(lambda device: found.target))
    return found


def tensors(*shapes: tuple[int, ...], dtype: DType = BF16) -> list[Tensor]:
    return [Tensor(RNG.standard_normal(s).astype(np.float32), device="PYTHON").cast(dtype).realize() for s in shapes]


def wide(*found: Tensor) -> list[Any]:
    return [t.cast(dtypes.float32).numpy().astype(np.float64) for t in found]


def is_close(found: list[Tensor], right: list[Any], dtype: DType = BF16) -> bool:
    pairs = zip(wide(*found), right, strict=False)
    return all(np.abs(a - b).max() <= ERRORS[dtype] * max(np.abs(b).max(), 1) for a, b in pairs)


# heads, rows, keys, depth, columns; what is seen; arguments
CASES: dict[str, tuple[tuple[int, int, int, int, int], Any, dict[str, Any]]] = {
    "odd lengths, causal": ((2, 37, 53, 16, 16), causal(37, 53), {"is_causal": True}),
    "more columns": ((1, 32, 48, 16, 32), np.True_, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_programs(name: str, emulated: Emulated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_sizes, "SIZES", (attention_sizes.BlockSize(1, 1, 16),))
    emulated.is_text = False
    (heads, rows, keys, depth, columns), seen, arguments = CASES[name]
    q, k, v, g = tensors((heads, rows, depth), (heads, keys, depth), (heads, keys, columns), (heads, rows, columns))
    found = [q.scaled_dot_product_attention(k, v, **arguments)]
    assert is_close([t.realize() for t in found], expected(wide(q, k, v, g), seen))
    assert len(emulated.programs) == 1


@pytest.mark.parametrize("dtype", [BF16, E4M3], ids=["bfloat16", "fp8e4m3"])
def test_programs_of_warp_groups(dtype: DType, emulated: Emulated) -> None:
    emulated.is_text = False
    q, k, v = tensors(*[(1, 64, 64)] * 3, dtype=dtype)
    out = ((q.float() @ k.float().transpose(-2, -1) / 8).softmax() @ v.float()).realize()
    assert is_close([out], expected(wide(q, k, v, q), np.True_))
    (program,) = emulated.programs
    assert {node.arg.atom for node in program.linear.src if node.op is ops.BLOCK_MMA} == {"wgmma"}


def test_programs_of_gradients(emulated: Emulated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_sizes, "SIZES", (attention_sizes.BlockSize(1, 1, 16),))
    emulated.is_text = False
    q, k, v, g = tensors(*[(1, 32, 16)] * 4)
    out = q.scaled_dot_product_attention(k, v)
    found = [out, *out.gradient(q, k, v, gradient=g)]
    Tensor.realize(*found)
    assert is_close(found, expected(wide(q, k, v, g), np.True_))
    assert len(emulated.programs) == 3  # the result; the gradient of queries; those of keys and values


def hidden_rows() -> Any:
    mask = RNG.random((70, 150)) > 0.3
    mask[[0, 33, 69]] = False
    return mask


TEXTS: dict[str, tuple[tuple[int, int, int, int, int], Any, dict[str, Any]]] = {
    "causal": ((2, 192, 192, 64, 64), causal(192, 192), {"is_causal": True}),
    "odd lengths": ((1, 70, 150, 32, 48), np.True_, {}),
    "a mask, rows that see nothing": ((1, 70, 150, 64, 64), (mask := hidden_rows()), {"attn_mask": mask}),
    "wide heads": ((1, 130, 130, 128, 128), causal(130, 130), {"is_causal": True}),
    "wider heads": ((1, 40, 70, 256, 256), np.True_, {}),
}


@pytest.mark.parametrize(
    ("name", "by_groups"), [*((name, True) for name in TEXTS), ("causal", False), ("wide heads", False)]
)
def test_texts(name: str, by_groups: bool, emulated: Emulated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_sizes, "WARP_GROUPS", by_groups)
    (heads, rows, keys, depth, columns), seen, arguments = TEXTS[name]
    q, k, v, g = tensors((heads, rows, depth), (heads, keys, depth), (heads, keys, columns), (heads, rows, columns))
    if "attn_mask" in arguments:
        arguments = {"attn_mask": Tensor(arguments["attn_mask"], device="PYTHON")}
    out = q.scaled_dot_product_attention(k, v, **arguments)
    found = [out, *out.gradient(q, k, v, gradient=g)]
    Tensor.realize(*found)
    assert is_close(found, expected(wide(q, k, v, g), seen))
    assert len(emulated.programs) == (3 if depth == columns else 4)
    together = "multiply together" in emulated.programs[0].explanation
    assert together == (by_groups and depth % 64 == columns % 64 == 0)


def by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.transpose(-2, -1) / 8).softmax() @ v


def with_powers(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q.float() @ k.float().transpose(-2, -1) / 8 - 1.5
    e = (scores - scores.max(-1, keepdim=True)).exp()
    return (e / e.sum(-1, keepdim=True)) @ v.float()


def shared_heads(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return q.scaled_dot_product_attention(k[:1], v[:1], enable_gqa=True)


FORMS = {"by hand": by_hand, "with powers": with_powers, "shared heads": shared_heads}


def causal_by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    seen = Tensor.ones(q.shape[-2], k.shape[-2], dtype=dtypes.bool, device="PYTHON").tril()
    return seen.where(q @ k.transpose(-2, -1) / 8, -math.inf).softmax() @ v


def by_letters(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = Tensor.einsum("bqd,bkd->bqk", q, k).float() / 8
    weights = (scores - scores.logsumexp(-1, keepdim=True)).exp()
    return Tensor.einsum("bqk,bkd->bqd", weights.cast(v.dtype), v)


def dropped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    keep = Tensor(KEPT, device="PYTHON")
    return keep.where((q @ k.transpose(-2, -1) / 8).softmax() * 2, 0) @ v


KEPT = RNG.random((1, 48, 48)) < 0.5
BY_HAND = {form.__name__: form for form in (by_hand, with_powers, causal_by_hand, by_letters, dropped)}


@pytest.mark.parametrize("name", BY_HAND)
def test_gradients_of_forms(name: str, emulated: Emulated) -> None:
    """As those of the method: the result, the gradient of queries, those of keys and values; nothing as large as the
    scores but what dropout keeps."""
    q, k, v, g = tensors(*[(1, 48, 64)] * 4)
    out = BY_HAND[name](q, k, v).cast(BF16)
    found = [out, *out.gradient(q, k, v, gradient=g)]
    GlobalCounters.reset()
    Tensor.realize(*found)
    assert len(emulated.programs) == 3 and GlobalCounters.kernel_count == 4  # and sums of g * out
    seen = causal(48, 48) if name == "causal_by_hand" else np.True_
    weights = 2 * KEPT if name == "dropped" else 1
    assert is_close(found, expected(wide(q, k, v, g), seen, weights))
    bounds = ["row i sees those" in program.explanation for program in emulated.programs]
    assert all(bounds) if name == "causal_by_hand" else not any(bounds)


@pytest.mark.parametrize("form", ["where", "added"])
def test_rows_whose_first_keys_are_hidden(form: str, emulated: Emulated) -> None:
    """The largest score so far is -inf, until one is seen. If none ever is, there are no weights: NaN."""
    q, k, v, g = tensors((1, 32, 64), (1, 130, 64), (1, 130, 64), (1, 32, 64))
    mask = np.ones((32, 130), np.bool_)
    mask[::3, :100], mask[5] = False, False
    seen, scores = Tensor(mask, device="PYTHON"), (q @ k.transpose(-2, -1)).float() / 8
    scores = seen.where(scores, -math.inf) if form == "where" else scores + seen.where(0.0, -math.inf)
    out = scores.softmax().cast(BF16) @ v
    found = [out, *out.gradient(q, gradient=g)]
    Tensor.realize(*found)
    rows = np.arange(32) != 5
    (array, slope), (right, by_queries, *_) = wide(*found), expected(wide(q, k, v, g), mask)
    assert np.isnan(array[:, 5]).all() and len(emulated.programs) == 2
    assert np.abs(array - right)[:, rows].max() < 0.015 and np.abs(slope - by_queries)[:, rows].max() < 0.015


@pytest.mark.parametrize("dtype", [BF16, F16], ids=["bfloat16", "float16"])
@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str, dtype: DType, emulated: Emulated) -> None:
    q, k, v = tensors(*[(2, 80, 64)] * 3, dtype=dtype)
    out = FORMS[form](q, k, v).realize()
    arrays = wide(q, k, v)
    if form == "shared heads":
        arrays[1:] = [array[:1] for array in arrays[1:]]
    assert is_close([out], expected([*arrays, arrays[0]], np.True_), dtype)
    assert len(emulated.programs) == 1


def with_scales(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    of_q, of_k, of_v = (Tensor([factor], device="PYTHON").realize() for factor in (0.5, 2.0, 0.25))
    scores = q.matmul(k.transpose(-2, -1), dtype=dtypes.float32) * of_q * of_k / 8
    return scores.softmax() @ v.float() * of_v


FP8_FORMS: dict[str, tuple[Any, tuple[DType, DType, DType], DType, float]] = {
    "by name": (Tensor.scaled_dot_product_attention, (E4M3, E4M3, E4M3), E4M3, 1.0),
    "two kinds": (Tensor.scaled_dot_product_attention, (E4M3, E5M2, E4M3), BF16, 1.0),
    "values of bfloat16": (Tensor.scaled_dot_product_attention, (E4M3, E4M3, BF16), BF16, 1.0),
    "scales": (with_scales, (E5M2, E4M3, E4M3), dtypes.float32, 0.25),
    "shared heads": (shared_heads, (E4M3, E4M3, E4M3), E4M3, 1.0),
}


@pytest.mark.parametrize("name", FP8_FORMS)
def test_fp8(name: str, emulated: Emulated) -> None:
    """Nothing is rounded to fp8 but the result, where it is one."""
    form, kinds, kind, factor = FP8_FORMS[name]
    q, k, v = (tensors((2, 80, 64), dtype=dtype)[0] for dtype in kinds)
    out = form(q, k, v).realize()
    arrays = wide(q, k, v)
    if form is shared_heads:
        arrays[1:] = [array[:1] for array in arrays[1:]]
    (right, *_) = expected([*arrays, arrays[0]], np.True_)
    assert out.dtype is kind
    assert is_close([out], [right * factor], F16 if kind is dtypes.float32 else kind)
    assert len(emulated.programs) == 1


@pytest.mark.parametrize(
    ("rows", "keys", "depth"), [(70, 150, 128), (40, 70, 256), (64, 64, 48)], ids=["128", "256", "48"]
)
def test_scores_of_fp8(rows: int, keys: int, depth: int, emulated: Emulated) -> None:
    """By warp groups as they are, no more than 128 products in one sum; else as halves."""
    q, k, v = tensors((1, rows, depth), (1, keys, depth), (1, keys, depth), dtype=E4M3)
    out = q.scaled_dot_product_attention(k, v, is_causal=True).realize()
    assert is_close([out], expected(wide(q, k, v, q), causal(rows, keys)), E4M3)
    (program,) = emulated.programs
    text = render({"attention": program.linear}, TARGET)
    assert (".e4m3.e4m3" in text) == (depth != 48)
    assert ("add.rn.f32 %acc" in text) == (depth == 256)


@pytest.mark.parametrize("form", [Tensor.scaled_dot_product_attention, shared_heads], ids=["heads", "shared heads"])
def test_large_values_of_fp8_are_stored_as_halves_once(
    form: Any, emulated: Emulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(python.PythonDevice, "target", TARGET)
    monkeypatch.setattr(operands, "LARGE_PRODUCT", 1)
    monkeypatch.setattr(operands, "LEAST_USES", 32)
    q, k, v = tensors(*[(2, 64, 64)] * 3, dtype=E4M3)
    before = GlobalCounters.kernel_count
    out = form(q, k, v).realize()
    assert GlobalCounters.kernel_count == before + 2
    (program,) = emulated.programs
    params = [node for node in program.linear.src if node.op is ops.PARAM]
    assert sorted(node.dtype.name for node in params if node.shape[0] > 1) == ["float16", *["fp8e4m3"] * 3]
    arrays = wide(q, k, v)
    if form is shared_heads:
        arrays[1:] = [array[:1] for array in arrays[1:]]
    assert is_close([out], expected([*arrays, arrays[0]], np.True_), E4M3)


@pytest.mark.parametrize("kind", [E4M3, BF16], ids=lambda kind: kind.name)
def test_gradients_of_fp8(kind: DType, emulated: Emulated) -> None:
    """They are of the rounded result, as everywhere."""
    q, k, v, g = (tensors((1, 80, 64), dtype=dtype)[0] for dtype in (E4M3, E4M3, kind, kind))
    out = q.scaled_dot_product_attention(k, v, is_causal=True)
    found = [out, *out.gradient(q, k, v, gradient=g)]
    Tensor.realize(*found)
    assert is_close(found, expected(wide(q, k, v, g), causal(80, 80)), E5M2)
    assert len(emulated.programs) == 3


@pytest.mark.parametrize("by_groups", [False, True], ids=["warps", "groups"])
def test_memory_that_is_not_aligned(by_groups: bool, emulated: Emulated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_sizes, "WARP_GROUPS", by_groups)
    emulated.target, emulated.offset = without_vectors(TARGET), 2
    q, k, v = tensors(*[(1, 64, 64)] * 3)
    out = q.scaled_dot_product_attention(k, v).realize()
    assert is_close([out], expected(wide(q, k, v, q), np.True_))
    assert len(emulated.programs) == 1


def test_what_tensor_cores_do_not_compute_is_computed_as_written(emulated: Emulated) -> None:
    for dtype, depth in ((dtypes.float32, 16), (BF16, 24)):
        q, k, v = tensors(*[(1, 32, depth)] * 3, dtype=dtype)
        out = q.scaled_dot_product_attention(k, v).realize()
        right = expected(wide(q, k, v, q), np.True_)
        assert is_close([out], right)
    assert not emulated.programs


def test_turing_multiplies_float16(emulated: Emulated) -> None:
    emulated.target = parse_target("CUDA:PTX:sm_75")
    # What is of bfloat16 is computed as written.
    for dtype, count in ((F16, 3), (BF16, 0)):
        q, k, v, g = tensors(*[(1, 70, 32)] * 4, dtype=dtype)
        out = q.scaled_dot_product_attention(k, v, is_causal=True)
        found = [out, *out.gradient(q, k, v, gradient=g)]
        Tensor.realize(*found)
        assert is_close(found, expected(wide(q, k, v, g), causal(70, 70)), dtype)
        assert len(emulated.programs) == count
        emulated.programs.clear()
        on_turing = [Tensor.empty(1, 64, 64, dtype=dtype, device="NULL:PTX:sm_75") for _ in range(3)]
        reasons = [
            each
            for x in on_turing[0].scaled_dot_product_attention(on_turing[1], on_turing[2]).kernels()
            for each in x.reasons
        ]
        assert ["attention by tensor cores" in each for each in reasons].count(True) == (dtype is F16)


# Of an A100, of what is in workstations, and of Turing.
@pytest.mark.parametrize(("arch", "kib"), [("sm_80", 163), ("sm_80", 99), ("sm_75", 64)])
def test_blocks_have_room_in_the_shared_memory_of_a_gpu(arch: str, kib: int) -> None:
    target = replace(parse_target(f"CUDA:PTX:{arch}"), shared_bytes=kib * 1024)
    with Context(DEV=f"NULL:PTX:{arch}"):
        q, k, v, g = (Tensor.empty(1, 64, 256, dtype=F16) for _ in range(4))
        out = q.scaled_dot_product_attention(k, v)
        kernels = [kernel for x in (out, *out.gradient(q, k, v, gradient=g)) for kernel in x.kernels()]
    headers = [compile_ptx(function, target)[0] for function in {each.function: None for each in kernels}]
    chains = [header for header in headers if "attention by tensor cores" in header["explanation"]]
    found = [launch["shared"] for header in chains for launch in header["launches"]]
    assert len(chains) >= 3 and kib * 1024 * 3 // 4 < max(found) <= kib * 1024


def test_a_row_keeps_its_largest_score_while_others_are_near(emulated: Emulated) -> None:
    """Scores that grow from block to block, by less and by more than a row waits for."""
    q, k, v = tensors(*[(1, 256, 64)] * 3)
    steps = np.repeat([0.0, 1.0, 40.0, 41.0], 64).reshape(1, 1, 256).astype(np.float32)
    scores = q.float() @ k.float().transpose(-2, -1) / 8 + Tensor(steps, device="PYTHON")
    out = (scores.softmax() @ v.float()).realize()
    a, b, c = wide(q, k, v)
    right = a @ b.swapaxes(-1, -2) / 8 + steps
    power = np.exp(right - right.max(-1, keepdims=True))
    assert is_close([out], [power / power.sum(-1, keepdims=True) @ c])
    assert len(emulated.programs) == 1


def test_a_gpu_stores_scores_only_if_it_is_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python.PythonDevice, "target", TARGET)
    q, k, v = tensors(*[(1, 32, 16)] * 3)
    counts = []
    for blocks in (0, 1):
        with Context(FLASH_ATTENTION=blocks):
            before = GlobalCounters.kernel_count
            q.scaled_dot_product_attention(k, v).realize()
            counts.append(GlobalCounters.kernel_count - before)
    assert counts == [3, 1]


@pytest.mark.parametrize(
    "form", [by_hand, with_powers, Tensor.scaled_dot_product_attention], ids=lambda form: form.__name__
)
def test_what_is_computed_as_written_gets_tiles(form: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two products, and four for the gradients: no kernel has another reduction beside one."""
    monkeypatch.setattr(python.PythonDevice, "target", TARGET)
    kernels: list[UOp] = []
    monkeypatch.setattr(python, "run", lambda call, values: kernels.append(call.src[0].src[0]))
    q, k, v, g = (Tensor.empty(1, 128, 64, dtype=dtypes.float32, device="PYTHON") for _ in range(4))
    out = form(q, k, v)
    Tensor.realize(out, *out.gradient(q, k, v, gradient=g))
    found = [generate(part, TARGET).explanation for body in kernels for part in separate(body)]
    assert sum("fma tiles" in explanation for explanation in found) == 6


def test_only_the_powers_of_exp_are_simplified() -> None:
    x, y = UOp.param(0, dtypes.float32, ()), UOp.param(1, dtypes.float32, ())
    power = x.exp2()
    assert plain_powers(make(ops.FMA, (power, y, power))) is make(ops.FMA, (power, y, power))
    plain = plain_powers(make(ops.EXP, (x,)))
    assert plain.op is ops.EXP2 and plain.src[0].op is ops.MUL and x in plain.src[0].src


@needs_ptxas
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_texts_assemble_and_hardly_a_register_is_spilled(
    arch: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The kernels of bench/gpu_attention.py, whose registers are full."""
    target = parse_target(f"CUDA:PTX:{arch}")
    programs: dict[str, UOp] = {}

    def generated(call: UOp, values: Any) -> None:
        for part in separate(call.src[0].src[0]):
            program = generate(part, target)
            if "tensor cores" in program.explanation:
                programs[f"k{len(programs)}"] = program.linear

    monkeypatch.setattr(python.PythonDevice, "target", target)
    q, k, v, g = tensors(*[(1, 256, 128)] * 4)
    monkeypatch.setattr(python, "run", generated)
    out = q.scaled_dot_product_attention(k, v, is_causal=True)
    Tensor.realize(out, *out.gradient(q, k, v, gradient=g))
    assert len(programs) == 3
    source = tmp_path / "kernel.ptx"
    source.write_text(render(programs, target))
    command = [str(PTXAS), "-v", f"-arch={arch}", str(source), "-o", str(tmp_path / "kernel.cubin")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    spilled = [int(number) for number in re.findall(r"(\d+) bytes spill stores", done.stdout + done.stderr)]
    assert len(spilled) == 3 and max(spilled) <= MOST_SPILLED
