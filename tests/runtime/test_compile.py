"""LLVM IR and C become machine code in this process, or an error that says why not."""

import ctypes
import gc
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import whit
from whit.errors import BackendError, MissingError
from whit.runtime.code.elf import defined_functions, undefined_symbols
from whit.runtime.code.gcc import compile_c, find_compiler, load_shared
from whit.runtime.code.library import Library
from whit.runtime.code.llvm import assembly, compile_llvm, load_object
from whit.runtime.code.orc import load_by_llvm
from whit.target import host_target, parse_target

HOST = host_target()
needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="there is no C compiler")

# p[start .. stop) *= 2.5, with a constant in memory and a table
DOUBLE = """
@table = private constant [4 x float] [float 2.5, float 2.5, float 2.5, float 2.5], align 16
define void @scale(ptr %buffers, ptr %variables, i64 %start, i64 %stop) nounwind {
entry:
  %p = load ptr, ptr %buffers, align 8
  br label %loop
loop:
  %i = phi i64 [ %start, %entry ], [ %next, %loop ]
  %lane = and i64 %i, 3
  %factor.at = getelementptr inbounds float, ptr @table, i64 %lane
  %factor = load float, ptr %factor.at, align 4
  %at = getelementptr inbounds float, ptr %p, i64 %i
  %x = load float, ptr %at, align 4
  %y = fmul float %x, %factor
  store float %y, ptr %at, align 4
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %stop
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""


def scaled(library: Library) -> list[float]:
    data = (ctypes.c_float * 6)(1, 2, 3, 4, 5, 6)
    buffers = (ctypes.c_void_p * 1)(ctypes.addressof(data))
    library.kernel("scale")(ctypes.addressof(buffers), 0, 1, 5)
    return list(data)


def test_object_code_is_linked_and_runs() -> None:
    code = compile_llvm(DOUBLE, HOST)
    assert defined_functions(code) == ["scale"]
    library = load_object(code)
    assert library.names == ("scale",)
    assert scaled(library) == [1, 5, 7.5, 10, 12.5, 6]


def test_llvms_own_linker_gives_the_same() -> None:
    library = load_by_llvm(compile_llvm(DOUBLE, HOST))
    assert scaled(library) == [1, 5, 7.5, 10, 12.5, 6]


def test_the_same_text_gives_the_same_bytes() -> None:
    assert compile_llvm(DOUBLE, HOST) == compile_llvm(DOUBLE, HOST)


@pytest.mark.slow
def test_code_is_unmapped_when_nobody_holds_it() -> None:
    if HOST.system != "linux" or HOST.family != "x86_64":
        pytest.skip("LLVM's linker keeps its own books")
    code = compile_llvm(DOUBLE, HOST)
    library = load_object(code)
    place = library.address("scale") & ~0xFFF
    kernel = library.kernel("scale")
    del library
    gc.collect()
    assert _is_mapped(place)  # the function keeps it
    del kernel
    gc.collect()
    assert not _is_mapped(place)


def _is_mapped(address: int) -> bool:
    ranges = re.findall(r"^([0-9a-f]+)-([0-9a-f]+)", Path("/proc/self/maps").read_text(), re.MULTILINE)
    return any(int(first, 16) <= address < int(last, 16) for first, last in ranges)


def test_unknown_functions_are_an_error_and_not_a_crash() -> None:
    text = "define void @f() {\n  call void @nowhere()\n  ret void\n}\ndeclare void @nowhere()\n"
    code = compile_llvm(text, HOST)
    assert undefined_symbols(code) == ["nowhere"]
    for load in (load_object, load_by_llvm):
        with pytest.raises(BackendError, match="link: the code calls nowhere, which is nowhere"):
            load(code)
    with pytest.raises(BackendError, match="the function nowhere is not in this process"):
        load_object(code, frozenset({"nowhere"}))


def test_functions_of_the_c_library_can_be_called() -> None:
    text = """
define double @round_down(double %x) { %y = call double @llvm.floor.f64(double %x)
  ret double %y }
declare double @llvm.floor.f64(double)
"""
    target = parse_target("CPU:LLVM:x86-64") if HOST.family == "x86_64" else HOST
    code = compile_llvm(text, target)
    library = load_object(code)
    function = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(library.address("round_down"))
    assert function(-1.5) == -2.0


def test_missing_functions_are_named() -> None:
    library = load_object(compile_llvm(DOUBLE, HOST))
    with pytest.raises(MissingError, match=r'there is no function "scal"\. Did you mean "scale"\?'):
        library.address("scal")


def test_bad_text_is_an_error_with_its_log_and_source() -> None:
    with pytest.raises(BackendError) as caught:
        compile_llvm("define void @f() {\n  %x = fadd i32 1, 2\n  ret void\n}\n", HOST)
    assert caught.value.what == f"compile: LLVM refuses the code for {HOST}"
    assert "invalid operand type" in caught.value.details
    path = Path(re.search(r"the source is in (.*)", caught.value.details)[1])  # type: ignore[index]
    assert "fadd i32" in path.read_text()
    path.unlink()


def test_code_for_another_machine_is_not_linked() -> None:
    other = parse_target("CPU:LLVM:aarch64" if HOST.family == "x86_64" else "CPU:LLVM:x86-64")
    code = compile_llvm(DOUBLE, other)
    if HOST.family == "x86_64" and HOST.system == "linux":
        with pytest.raises(BackendError, match="the code is for ELF machine 183, not for x86-64"):
            load_object(code)


def test_what_is_no_object_is_refused() -> None:
    if HOST.family == "x86_64" and HOST.system == "linux":
        with pytest.raises(BackendError, match="this is no 64-bit ELF object"):
            load_object(b"MZ" + bytes(100))


def test_assembly_is_text() -> None:
    assert "scale:" in assembly(DOUBLE, HOST)


def test_compiling_from_several_threads() -> None:
    results: list[list[float]] = []

    def compile_and_run() -> None:
        results.append(scaled(load_object(compile_llvm(DOUBLE, HOST))))

    threads = [threading.Thread(target=compile_and_run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[1, 5, 7.5, 10, 12.5, 6]] * 6


def test_linking_loads_no_llvm() -> None:
    if HOST.family != "x86_64" or HOST.system != "linux":
        pytest.skip("this machine links through LLVM")
    code = compile_llvm(DOUBLE, HOST)
    program = (
        "import sys; from whit.runtime.code.link import load_object; import whit.runtime.pool.threads\n"
        f"load_object({code!r}); print(*sys.modules)"
    )
    root = Path(whit.__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=root)
    assert "llvmlite" not in done.stdout.split()


# ---- C

C_TEXT = """#include <stdint.h>
void scale(void **buffers, const int64_t *variables, int64_t start, int64_t stop) {
  for (int64_t i = start; i < stop; i++) ((float *)buffers[0])[i] *= 2.5f;
}
"""


@needs_compiler
def test_c_is_compiled_and_runs() -> None:
    assert scaled(load_shared(compile_c(C_TEXT, parse_target("CPU:C")))) == [1, 5, 7.5, 10, 12.5, 6]


@needs_compiler
def test_missing_functions_of_c_are_named() -> None:
    with pytest.raises(MissingError, match='there is no function "other"'):
        load_shared(compile_c(C_TEXT, parse_target("CPU:C"))).address("other")


@needs_compiler
def test_bad_c_is_an_error_with_its_log() -> None:
    with pytest.raises(BackendError) as caught:
        compile_c("void f() { nonsense; }", parse_target("CPU:C"))
    assert "nonsense" in caught.value.details
    Path(caught.value.details.rpartition("the source is in ")[2]).unlink()


@needs_compiler
def test_c_for_another_family_is_refused() -> None:
    other = parse_target("CPU:C:aarch64" if HOST.family == "x86_64" else "CPU:C:x86-64")
    with pytest.raises(BackendError, match="makes no code for CPU:C:"):
        compile_c(C_TEXT, other)


def test_without_a_c_compiler_the_error_offers_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whit.runtime.code.gcc.find_compiler", lambda: None)
    with pytest.raises(BackendError) as caught:
        compile_c(C_TEXT, parse_target("CPU:C"))
    assert 'or use "CPU", which needs none' in caught.value.fix


def test_broken_libraries_are_refused() -> None:
    with pytest.raises(BackendError, match="the shared library cannot be loaded"):
        load_shared(b"not a library")
