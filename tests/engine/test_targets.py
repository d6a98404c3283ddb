"""A device may name its target: through C, for older processors of the family, or only compiled for others."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whit
from whit import Context, Device, Tensor, TinyJit
from whit import target as target_module
from whit.config import CACHE_DIR
from whit.dtype import DType, dtypes
from whit.engine.compile import compile as compile_module
from whit.engine.compile.compile import compile_kernel
from whit.engine.compile.cuda import compile_ptx, is_slow_when_linked
from whit.engine.devices import null_gpu
from whit.engine.report.counters import GlobalCounters
from whit.errors import BackendError, DeviceError
from whit.ir.interpret import numpy_dtype
from whit.runtime.code.elf import _Object
from whit.runtime.code.gcc import find_compiler
from whit.runtime.cuda.ptxas import find_ptxas
from whit.target import host_target, parse_target

HOST = host_target()
needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="there is no C compiler")
is_x86 = pytest.mark.skipif(HOST.family != "x86_64", reason="this machine is no x86")
THROUGH_C = pytest.param("CPU:C", marks=needs_compiler)
OLD = [pytest.param(f"CPU:LLVM:{arch}", marks=is_x86) for arch in ("x86-64", "x86-64-v2")]
OTHER_FAMILY = "cortex-a76" if HOST.family == "x86_64" else "znver4"


def numbers(*shape: int) -> Any:
    return np.random.default_rng(0).normal(0, 1, shape).astype(np.float32)


# ---- names


@needs_compiler
def test_a_tensor_lives_on_the_device_with_that_target() -> None:
    a = Tensor([1.0, 2.0], device="cpu:c")
    b = (a + 1).realize()
    assert (a.device, b.device) == ("CPU:C", "CPU:C")
    assert b.tolist() == [2.0, 3.0]
    assert GlobalCounters.device("CPU:C").kernel_count == 1
    assert GlobalCounters.device("CPU").kernel_count == 0
    assert Device["CPU:C"].target == parse_target("CPU:C")


@pytest.mark.slow
@needs_compiler
def test_the_default_device_may_have_a_target() -> None:
    with Context(DEV="CPU:C"):
        assert Tensor([1.0]).device == "CPU:C"
    Device.DEFAULT = "cpu:C"
    try:
        assert Tensor([1.0]).device == "CPU:C"
    finally:
        Device.DEFAULT = "CPU"
    assert run("print(Tensor([1.0]).exp().realize().device)", DEV="cpu:c") == "CPU:C\n"


@pytest.mark.slow
def test_a_name_of_a_device_loads_no_target_and_a_name_of_a_target_no_compiler() -> None:
    program = (
        "Device.canonicalize('{}'); import sys; print(*[n for n in ('whit.target', 'llvmlite') if n in sys.modules])"
    )
    assert run(program.format("CPU:1")) == "\n"
    assert run(program.format("CPU:C")) == "whit.target\n"


def test_targets_are_devices_of_their_own() -> None:
    a, b = Tensor([1.0, 2.0], device="CPU"), Tensor([1.0, 2.0], device="CPU:C")
    with pytest.raises(DeviceError, match="CPU:C"):
        a + b
    assert (a + b.to("CPU")).tolist() == [2.0, 4.0]


def run(program: str, **environment: str) -> str:
    """What a program prints, in a process of its own."""
    settings = {**os.environ, "CACHE_DIR": CACHE_DIR.value, **environment}
    command = [sys.executable, "-c", f"from whit import Device, Tensor\n{program}"]
    done = subprocess.run(command, capture_output=True, text=True, env=settings, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- what cannot be opened


def test_a_processor_of_another_family_cannot_be_opened() -> None:
    name = f"CPU:LLVM:{OTHER_FAMILY}"
    with pytest.raises(DeviceError) as caught:
        (Tensor([1.0], device=name) + 1).realize()
    family = parse_target(name).family
    assert caught.value.what == f"device: {name} cannot be opened: this machine cannot run code for {OTHER_FAMILY}"
    assert caught.value.details == f"it is {HOST.arch} and has no {family}"
    assert caught.value.fix == f'Use "NULL:LLVM:{OTHER_FAMILY}" to compile only, or "CPU" to run.'


@is_x86
def test_missing_instruction_sets_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    flags = {target_module._LINUX_FLAGS.get(f, f) for f in target_module._AVX2 - {"avx2", "bmi"}}
    monkeypatch.setattr(target_module, "_first_processor", lambda: {"flags": " ".join(flags)})
    arch = "haswell" if HOST.arch != "haswell" else "skylake"
    with pytest.raises(DeviceError, match=f"it is {HOST.arch} and has no avx2, bmi\n"):
        Device[f"CPU:LLVM:{arch}"]
    monkeypatch.setattr(target_module, "_first_processor", dict)  # a system that does not say
    assert target_module.missing_features(parse_target("CPU:LLVM:x86-64-v2")) == []
    more = target_module._described("LLVM", "znver5", "linux")
    assert set(target_module.missing_features(more)) == more.features - HOST.features


# ---- NULL compiles for any of them


@pytest.mark.parametrize("name", ["NULL", f"NULL:LLVM:{OTHER_FAMILY}", pytest.param("NULL:C", marks=needs_compiler)])
def test_null_plans_and_compiles_for_its_target_and_runs_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []

    def remembering(function: Any, target: Any) -> Any:
        header, code = compile_kernel(function, target)
        compiled.append((target, code))
        return header, code

    compile_module._kernels.clear()
    monkeypatch.setattr(compile_module, "compile_kernel", remembering)
    x = Tensor(numbers(64, 64), device=name)
    with Context(CACHE=0):
        (x @ x).relu().realize()
    counts = GlobalCounters.device(name)
    assert counts.kernel_count == len(compiled) >= 1
    target, code = compiled[0]
    assert target == Device[name].target
    if target.renderer == "LLVM":
        assert _Object(code).functions() or target.family == HOST.family
        assert int.from_bytes(code[18:20], "little") == {"x86_64": 62, "aarch64": 183}[target.family]
    with pytest.raises(DeviceError, match="has no data"):
        x.numpy()


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_89", "sm_90a", "sm_100", "sm_120"])
def test_null_compiles_for_a_gpu_that_is_not_here(arch: str, capsys: pytest.CaptureFixture[str]) -> None:
    name = f"NULL:PTX:{arch}"
    with Context(DEV=f"null:ptx:{arch}", CACHE=0, DEBUG=4):
        x = Tensor.empty(33, 40)
        step = TinyJit(lambda x: (x * 2).sum(1))
        step(x), step(x)
    said = capsys.readouterr().out
    assert x.device == name and Device[name].target == parse_target(f"CUDA:PTX:{arch}")
    assert GlobalCounters.device(name).kernel_count == 2
    assert GlobalCounters.device(name).bytes_read == 2 * 33 * 40 * 4
    assert f"=== {name} (CUDA:PTX:{arch}): 1 kernel" in said
    assert said.count(f".target {arch}") == 1 and "--- source of add_reduce_33\n" in said
    assert re.search(
        r"k_add_reduce_33_0: \d+ blocks of \d+ threads" + (r", \d+ registers" if find_ptxas() else ";"), said
    )
    with pytest.raises(DeviceError, match=f"{name} has no data"):
        x.numpy()


def test_kernels_for_a_gpu_come_from_disk_and_need_no_assembler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    compiled = []

    def remembering(function: Any, *arguments: Any) -> Any:
        compiled.append(function)
        return compile_ptx(function, *arguments)

    monkeypatch.setattr(null_gpu, "find_ptxas", lambda: None)
    monkeypatch.setattr(null_gpu, "compile_ptx", remembering)
    for _ in range(2):
        whit.clear_caches()
        with Context(DEV="NULL:PTX:sm_80", CACHE_DIR=str(tmp_path), CACHE=2):
            (Tensor.empty(48) + 1).realize()
        assert len(compiled) == 1
    with Context(DEV="NULL:PTX:sm_80", CACHE=0, DEBUG=3):
        (Tensor.empty(48) - 7).realize()
    assert '; not assembled: pip install "whit[ptx]"' in capsys.readouterr().out


@pytest.mark.skipif(find_ptxas() is None, reason="there is no ptxas (whit[ptx])")
def test_an_assembler_that_refuses_a_kernel_leaves_log_and_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whit.render.ptx.text.render_ptx", lambda programs, target: "nonsense")
    with pytest.raises(BackendError, match="ptxas refuses the code for CUDA:PTX:sm_90a") as caught:
        (Tensor.empty(47, device="NULL:PTX:sm_90a") * 1.75).realize()
    path = Path(caught.value.details.rpartition("the source is in ")[2])
    assert path.read_text() == "nonsense"
    path.unlink()


def texts_of(result: Tensor, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The PTX of the kernels of a result."""
    texts: list[bytes] = []

    def noted(text: bytes, target: Any) -> tuple[bytes, dict[str, Any]]:
        texts.append(text)
        return text, {}

    monkeypatch.setattr(null_gpu, "_assembled", noted)
    with Context(CACHE=0):
        result.realize()
    return texts


def test_two_kinds_of_fp8_are_multiplied_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = (Tensor.empty(320, 256, device="NULL:PTX:sm_90a", dtype=d) for d in ("fp8e4m3", "fp8e5m2"))
    (text,) = texts_of(x.matmul(y.T, dtype="bfloat16"), monkeypatch)  # not one more for each operand as bfloat16
    assert b".e4m3.e5m2" in text


def test_code_that_takes_the_registers_of_others_is_not_linked(monkeypatch: pytest.MonkeyPatch) -> None:
    x = Tensor.empty(8192, 8192, device="NULL:PTX:sm_90a", dtype="fp8e4m3")
    (text,) = texts_of(x.matmul(x.T, dtype="bfloat16"), monkeypatch)
    assert b"setmaxnreg" in text and is_slow_when_linked(text)
    y = x[:4096, :4096].contiguous()
    assert not is_slow_when_linked(texts_of(y.matmul(y.T, dtype="bfloat16"), monkeypatch)[-1])


def test_what_an_image_network_computes_for_a_gpu_is_the_same_if_the_gpu_is_not_here() -> None:
    x, w = (
        Tensor.empty(*shape, device="NULL:PTX:sm_90a", dtype="bfloat16") for shape in ((8, 64, 8, 8), (64, 64, 3, 3))
    )
    names = [reason for kernel in x.conv2d(w, padding=1).kernels() for reason in kernel.reasons]
    assert any("wgmma" in name for name in names), names


@pytest.mark.parametrize(
    "name, words",
    [
        (
            "NULL:PTX:sm_90",
            'no architecture "sm_90" in "NULL:PTX:sm_90". Did you mean "sm_90a"?\n  known: sm_75, sm_80, sm_89, sm_90a',
        ),
        ("NULL:PTZ", 'no renderer "PTZ" in "NULL:PTZ". Did you mean "PTX"?\n  known: LLVM, C, PTX'),
        ("NULL:sm_90a", '"sm_90a" in "NULL:sm_90a" is an architecture'),
        ("NULL:sm_90a", 'Did you mean "NULL:PTX:sm_90a"?'),
        ("CUDA:PTX:sm_90a", '"NULL:PTX:sm_90a" compiles for that, and runs nothing.'),
    ],
)
def test_a_gpu_that_does_not_exist_is_answered_with_those_that_do(name: str, words: str) -> None:
    with pytest.raises(DeviceError, match=re.escape(words)):
        Device.canonicalize(name)


def test_data_may_go_to_null_and_never_comes_back() -> None:
    there = Tensor([1.0, 2.0]).to("NULL").realize()
    with pytest.raises(DeviceError, match="NULL has no data"):
        (there + 1).realize().to("CPU").realize()


def test_what_was_only_compiled_is_linked_when_it_is_to_run() -> None:
    x = numbers(40)
    compile_module._kernels.clear()
    (Tensor(x, device="NULL") * 3.5 - 1).realize()
    assert np.array_equal((Tensor(x, device="CPU") * 3.5 - 1).numpy(), x * np.float32(3.5) - 1)


@needs_compiler
def test_c_for_another_family_says_what_does() -> None:
    with pytest.raises(BackendError, match=f'as in "NULL:LLVM:{OTHER_FAMILY}", which does'):
        (Tensor([1.0], device=f"NULL:C:{OTHER_FAMILY}") + 1).realize()


# ---- C, end to end


@needs_compiler
def test_kernels_in_c_run_on_all_cores() -> None:
    x = numbers(512, 256)
    compile_module._kernels.clear()
    with Context(THREADS=2, NOOPT=0):
        tensor = Tensor(x, device="CPU:C")
        total, largest = tensor.sum(1), tensor.max(1)
        total.realize(largest)
    (kernel,) = compile_module._kernels.values()
    assert kernel.total > 1
    assert np.allclose(total.numpy(), x.sum(1), atol=1e-3)
    assert np.array_equal(largest.numpy(), x.max(1))


@pytest.mark.slow
@needs_compiler
def test_kernels_in_c_come_from_disk_without_a_compiler(tmp_path: Path) -> None:
    program = "print(Tensor([1.0, 2.0]).mul(3.5).sum().item())"
    settings = {"DEV": "CPU:C", "CACHE_DIR": str(tmp_path)}
    assert run(program, **settings) == "10.5\n"
    assert run(program, PATH="", **settings) == "10.5\n"


@pytest.mark.slow
def test_without_a_compiler_the_error_says_what_to_install(tmp_path: Path) -> None:
    program = "try: Tensor([1.0, 2.0]).mul(3.5).realize()\nexcept Exception as e: print(type(e).__name__, e)"
    text = run(program, DEV="CPU:C", CACHE_DIR=str(tmp_path), PATH="")
    assert text.startswith(f"BackendError compile: there is no C compiler for CPU:C:{HOST.arch}\n")
    assert "looked for cc, gcc and clang" in text
    assert 'apt install gcc), or use "CPU", which needs none.' in text


@needs_compiler
def test_a_compiler_that_refuses_a_kernel_leaves_log_and_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whit.render.c.text.render_c", lambda programs, target: "void kernel() { nonsense; }")
    with pytest.raises(BackendError) as caught:
        (Tensor(numbers(7), device="CPU:C") * 1.75).realize()
    assert "refuses the code for CPU:C:" in caught.value.what
    assert "nonsense" in caught.value.details
    path = Path(caught.value.details.rpartition("the source is in ")[2])
    assert path.read_text() == "void kernel() { nonsense; }"
    path.unlink()


@needs_compiler
def test_a_compiler_older_than_the_processor_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whit.runtime.code.gcc._flags", lambda target: ("-mnonsense",))
    with pytest.raises(BackendError, match="does not know CPU:C:") as caught:
        (Tensor(numbers(7), device="CPU:C") * 2.75).realize()
    assert "-mnonsense" in caught.value.details
    assert "newer compiler" in caught.value.fix


# ---- every dtype and function on every target


@pytest.mark.slow
@pytest.mark.parametrize("name", [THROUGH_C, *OLD])
@pytest.mark.parametrize("dtype", [d for d in dtypes.scalars if d.itemsize], ids=lambda d: d.name)
def test_every_dtype_has_the_same_bits_as_on_the_interpreter(name: str, dtype: DType) -> None:
    generator = np.random.default_rng(7)
    kind = numpy_dtype(dtype)
    bits = [generator.integers(0, 2 if dtype.is_bool else 256, 37 * dtype.itemsize).astype(np.uint8) for _ in range(2)]
    x, y = (b.view(kind) for b in bits)

    def results(device: str) -> list[Any]:
        a, b = Tensor(x, device=device), Tensor(y, device=device)
        found = [a + b, a * b, a.maximum(b), (a < b).where(b, a), a.cast(dtypes.float32), a.cast(dtypes.int32)]
        found += [a.cast(dtypes.float64).cast(dtype), a.cast(dtypes.float32).cast(dtype)]
        found[0].realize(*found[1:])
        return [tensor.numpy() for tensor in found]

    for i, (result, wanted) in enumerate(zip(results(name), results("PYTHON"), strict=True)):
        same = result.view(f"u{result.itemsize}") == wanted.view(f"u{wanted.itemsize}")
        if result.dtype.kind not in "iub":
            same |= (result != result) & (wanted != wanted)
        assert np.all(same), (i, result[~same], wanted[~same])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=lambda d: d.name)
@pytest.mark.parametrize("function", ["exp2", "log2", "sin", "exp", "tanh", "erf"])
@is_x86
def test_functions_have_the_same_bits_without_fma(function: str, dtype: DType) -> None:
    generator = np.random.default_rng(3)
    bits = generator.integers(0, 2**dtype.bitsize, 4000, dtype=f"u{dtype.itemsize}").view(dtype.name)
    x = np.concatenate([bits, generator.normal(0, 5, 4000).astype(dtype.name)])
    wanted = getattr(Tensor(x, device="CPU"), function)().numpy()
    names = ["CPU:LLVM:x86-64", "CPU:LLVM:x86-64-v2"] + ["CPU:C:x86-64"] * (find_compiler() is not None)
    for name in names:
        result = getattr(Tensor(x, device=name), function)().numpy()
        same = (result == wanted) & (np.signbit(result) == np.signbit(wanted)) | np.isnan(result) & np.isnan(wanted)
        assert np.all(same), (name, x[~same][:3])
