"""LLVM IR text to object code, through llvmlite; this module loads it, so import it when a kernel is to be compiled.

    code = compile_llvm(text, target)       bytes that can be kept on disk
    library = load_object(code)             linked into this process
    library.address("kernel")

There is no optimisation pipeline: the text is vectorised already, and local arrays become registers (SROA, 0.4 ms on a
450-line matmul tile). Selecting instructions at level 2 takes 1-2 ms for a small kernel.
llvmlite holds one lock around each call into LLVM, so compiling is safe from several threads, one at a time.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

import llvmlite.binding as llvm

from whit.cache import register_cache
from whit.runtime.code.library import compile_error
from whit.runtime.code.link import load_object
from whit.runtime.code.preload import wait
from whit.target import Target, host_target

__all__ = ["assembly", "compile_llvm", "load_object"]

_lock = threading.Lock()


@functools.cache
def _options() -> None:
    """Once in a process, before the first machine.

    Addresses need no strength reduction: index arithmetic is simplified already, and the rest fits x86's addressing.
    A kernel of 170 lines takes 7.1 -> 4.5 ms without it, and runs as fast (nine kernels of bench/cpu.py's kinds).
    """
    llvm.set_option("whit", "-disable-lsr")


@functools.cache
def _initialize(native: bool) -> None:
    wait()
    _options()
    if native:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()


@functools.cache
def _machine(triple: str, cpu: str, features: str) -> tuple[Any, Any]:
    """LLVM's description of a processor, and a pass builder for it."""
    _initialize(triple.partition("-")[0] == host_target().family)
    family = llvm.Target.from_triple(triple)
    machine = family.create_target_machine(cpu=cpu, features=features, opt=2, reloc="pic", codemodel="small")
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    return machine, llvm.create_pass_builder(machine, options)


register_cache(_machine.cache_clear, "runtime.llvm.machines")


def _parse(text: str, target: Target) -> Any:
    # A context of its own, because types and constants live as long as the context does; 0.03 ms.
    try:
        return llvm.parse_assembly(text, llvm.create_context())
    except RuntimeError as error:
        raise compile_error("LLVM", target, text, ".ll", str(error)) from None


def _optimized(text: str, target: Target) -> tuple[Any, Any]:
    machine, builder = _machine(target.triple, target.cpu, target.llvm_features)
    module = _parse(text, target)
    if " alloca " in text:
        passes = llvm.create_new_module_pass_manager()
        passes.add_sroa_pass()
        passes.run(module, builder)
    return machine, module


def compile_llvm(text: str, target: Target) -> bytes:
    """Object code of a module for any target; nothing is opened or run."""
    with _lock:
        machine, module = _optimized(text, target)
        code: bytes = machine.emit_object(module)
    return code


def assembly(text: str, target: Target) -> str:
    """The same as assembly text, for people."""
    with _lock:
        machine, module = _optimized(text, target)
        result: str = machine.emit_assembly(module)
    return result
