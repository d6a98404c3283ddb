"""LLVM IR text to object code, by LLVM's library (`libllvm`); importing this module loads nothing of it.

    code = compile_llvm(text, target)       bytes that can be kept on disk
    library = load_object(code)             linked into this process
    library.address("kernel")

There is no optimisation pipeline: the text is vectorised already, and local arrays become registers (SROA, 0.4 ms on a
450-line matmul tile). Selecting instructions at level 2 takes 1-2 ms for a small kernel.
One lock is held around all of it, so compiling is safe from several threads, one at a time.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref, c_char_p, string_at
from typing import Any

from whit.cache import register_cache
from whit.runtime.code.libllvm import library
from whit.runtime.code.library import compile_error
from whit.runtime.code.link import load_object
from whit.target import Target, host_target

__all__ = ["assembly", "compile_llvm", "load_object"]

_lock = threading.Lock()


@functools.cache
def _options() -> None:
    """Once in a process, before the first machine.

    Addresses need no strength reduction: index arithmetic is simplified already, and the rest fits x86's addressing.
    A kernel of 170 lines takes 7.1 -> 4.5 ms without it, and runs as fast (nine kernels of bench/cpu.py's kinds).
    """
    library().LLVMPY_SetCommandLine(b"whit", b"-disable-lsr")


@functools.cache
def _initialize(native: bool) -> None:
    llvm = library()
    _options()
    if native:
        llvm.LLVMPY_InitializeNativeTarget()
        llvm.LLVMPY_InitializeNativeAsmPrinter()
    else:
        llvm.LLVMPY_InitializeAllTargetInfos()
        llvm.LLVMPY_InitializeAllTargets()
        llvm.LLVMPY_InitializeAllTargetMCs()
        llvm.LLVMPY_InitializeAllAsmPrinters()


_machines: dict[tuple[str, str, str], tuple[Any, Any, Any]] = {}


def _clear_machines() -> None:
    with _lock:
        while _machines:
            _, (machine, builder, options) = _machines.popitem()
            library().LLVMPY_DisposePassBuilder(builder)
            library().LLVMPY_DisposePipelineTuningOptions(options)
            library().LLVMPY_DisposeTargetMachine(machine)


register_cache(_clear_machines, "runtime.llvm.machines")


def _machine(triple: str, cpu: str, features: str) -> tuple[Any, Any]:
    """LLVM's description of a processor, and a pass builder for it."""
    key = triple, cpu, features
    if key not in _machines:
        _machines[key] = _new_machine(*key)
    machine, builder, _ = _machines[key]
    return machine, builder


def _new_machine(triple: str, cpu: str, features: str) -> tuple[Any, Any, Any]:
    _initialize(triple.partition("-")[0] == host_target().family)
    llvm, error = library(), c_char_p()
    family = llvm.LLVMPY_GetTargetFromTriple(triple.encode(), byref(error))
    if not family:
        raise RuntimeError(_taken(error))
    level, reloc, model = 2, b"pic", b"small"
    machine = llvm.LLVMPY_CreateTargetMachine(
        family, triple.encode(), cpu.encode(), features.encode(), level, reloc, model, False, False, b""
    )
    if not machine:
        raise RuntimeError(f"no machine {triple} {cpu}")
    options = llvm.LLVMPY_CreatePipelineTuningOptions()
    return machine, llvm.LLVMPY_CreatePassBuilder(machine, options), options


def _taken(error: c_char_p) -> str:
    """What LLVM says is wrong; the text is LLVM's no more."""
    text = (error.value or b"").decode(errors="replace")
    library().LLVMPY_DisposeString(error)
    return text


@contextmanager
def _parsed(text: str, target: Target) -> Iterator[Any]:
    """A module, in a context of its own, because types and constants live as long as the context does; 0.03 ms."""
    llvm, error = library(), c_char_p()
    context = llvm.LLVMPY_ContextCreate()
    try:
        module = llvm.LLVMPY_ParseAssembly(context, text.encode(), byref(error))
        if error:
            raise compile_error("LLVM", target, text, ".ll", f"LLVM IR parsing error\n{_taken(error)}")
        try:
            yield module
        finally:
            llvm.LLVMPY_DisposeModule(module)
    finally:
        llvm.LLVMPY_ContextDispose(context)


def _emitted(text: str, target: Target, is_object: bool) -> bytes:
    """Object code, or assembly text."""
    with _lock:
        machine, builder = _machine(target.triple, target.cpu, target.llvm_features)
        llvm, error = library(), c_char_p()
        with _parsed(text, target) as module:
            if " alloca " in text:
                passes = llvm.LLVMPY_CreateNewModulePassManager()
                llvm.LLVMPY_module_AddSROAPass(passes)
                llvm.LLVMPY_RunNewModulePassManager(passes, module, builder)
                llvm.LLVMPY_DisposeNewModulePassManger(passes)
            memory = llvm.LLVMPY_TargetMachineEmitToMemory(machine, module, is_object, byref(error))
            if not memory:
                raise RuntimeError(_taken(error))
            try:
                return string_at(llvm.LLVMPY_GetBufferStart(memory), llvm.LLVMPY_GetBufferSize(memory))
            finally:
                llvm.LLVMPY_DisposeMemoryBuffer(memory)


def compile_llvm(text: str, target: Target) -> bytes:
    """Object code of a module for any target; nothing is opened or run."""
    return _emitted(text, target, is_object=True)


def assembly(text: str, target: Target) -> str:
    """The same as assembly text, for people."""
    return _emitted(text, target, is_object=False).decode()
