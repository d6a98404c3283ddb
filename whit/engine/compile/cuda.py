"""Kernels to PTX: each is generated once for a target, and made machine code by the driver, in several threads. That is
kept in memory and on disk: a process that finds it there starts no assembler.

A kernel is one launch, or several where its loops have nothing to do with each other. Vectors need memory that begins
at a multiple of 16 bytes; for memory that does not, the same kernel is made again without vectors.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from whit.cache import RecentlyUsed
from whit.config import DEBUG
from whit.dtype import dtypes
from whit.engine.compile import disk_cache
from whit.engine.compile.compile import SHOWS_SOURCE, code_settings, digest, kernel_key, shows_compiling
from whit.engine.compile.progress import note_kernels
from whit.engine.report.show import announce
from whit.ir import ops
from whit.ir.uop import UOp
from whit.recording import KernelLog, hooks
from whit.runtime.cuda.failure import Started
from whit.runtime.cuda.gpu import Gpu, Module
from whit.target import Target

WARP = 32
CALLING = (b"div.rn.f", b"rcp.rn.f", b"sqrt.rn.f")  # instructions that call a function for unusual numbers
THREADS_A_CORE_ATTRIBUTE = 39  # attribute of a device: the most threads on a multiprocessor


@dataclass(frozen=True, slots=True)
class Launch:
    """A function of a kernel's module, and how it is started."""

    name: str
    blocks: int
    threads: int
    slots: tuple[int, ...]  # which arguments of the kernel it takes
    variables: tuple[str, ...]
    function: Any
    shared: int = 0  # bytes of shared memory beyond what the function declares
    maps: tuple[dict[str, Any], ...] = ()  # tensor maps that it takes after the others
    started: Started = ("", ())  # what an error says about it


@dataclass(frozen=True, slots=True)
class CudaKernel:
    """A kernel on a GPU."""

    launches: tuple[Launch, ...]
    ops: int
    bytes_read: int
    bytes_written: int
    module: Module | None  # keeps the code
    explanation: str = ""
    units: str = ""  # what computes: "float32", "bfloat16 by tensor cores"

    @property
    def total(self) -> int:
        """The blocks of all its launches."""
        return sum(launch.blocks for launch in self.launches)


ASSEMBLER_THREADS = 8  # threads
MOST_KERNELS = 4096  # that nobody uses now, or uses again soon
_kernels: RecentlyUsed[tuple[Any, ...], CudaKernel] = RecentlyUsed("engine.cuda_kernels", MOST_KERNELS)
_lock = threading.RLock()


def get_cuda_kernels(functions: Sequence[UOp], target: Target, gpu: Gpu) -> list[CudaKernel]:
    """The kernels of FUNCTIONs; those that are not compiled yet are compiled together."""
    settings = code_settings()
    keys = [(function.src[0], target, settings, gpu.ordinal) for function in functions]
    with _lock:
        found = {key: kernel for key in keys if (kernel := _kernels.get(key)) is not None}
        missing = {key: function for key, function in zip(keys, functions, strict=True) if key not in found}
        if missing:
            for key, kernel in zip(missing, _made(list(missing.values()), target, gpu), strict=True):
                found[key] = _kernels[key] = kernel
        return [found[key] for key in keys]


def find_cuda_kernel(function: UOp, target: Target, gpu: Gpu) -> CudaKernel | None:
    """The same; None if it is not compiled."""
    return _kernels.get((function.src[0], target, code_settings(), gpu.ordinal))


def occupancy(launch: Launch, gpu: Gpu) -> str:
    """How a launch fills the GPU."""
    use = gpu.usage_of(launch.function, launch.threads, launch.shared)
    warps, most = use.blocks * launch.threads // WARP, gpu.attribute(THREADS_A_CORE_ATTRIBUTE) // WARP
    spilled = f", {use.spilled} bytes spilled" if use.spilled else ""
    return (
        f"{launch.blocks} blocks of {launch.threads} threads, {use.registers} registers{spilled}, "
        f"{use.shared / 1024:.1f} KiB of shared memory: {use.blocks} on a multiprocessor, {warps} of {most} warps"
    )


def without_vectors(target: Target) -> Target:
    """The same target for memory that is not aligned."""
    return replace(target, vector_bytes=1)


def _made(functions: list[UOp], target: Target, gpu: Gpu) -> list[CudaKernel]:
    """Kernels from the disk, or compiled: the driver makes machine code in other threads, where it needs no Python,
    while this one writes the text of the next."""
    from concurrent.futures import ThreadPoolExecutor  # lazy: only when something has to be loaded

    place = f"machine code for {gpu.compute}"
    begun: list[tuple[UOp, str, dict[str, Any], Any, KernelLog | None]] = []
    with ThreadPoolExecutor(ASSEMBLER_THREADS) as workers:
        try:
            for number, function in enumerate(functions):
                note_kernels(number, len(functions))
                key = digest(kernel_key(function, target), place)
                entry = None if shows_compiling() else disk_cache.find(key)
                if entry is not None:
                    header, code = entry
                    begun.append((function, "", header, workers.submit(_on_gpu, gpu, code), None))
                    continue
                log = recorder.kernel(function, target) if (recorder := hooks.recorder) is not None else None
                header, text = compile_ptx(function, target, log)
                begun.append((function, key, header, workers.submit(_assembled, gpu, text), log))
            return [_loaded(gpu, target, *each) for each in begun]
        except BaseException:  # also an interrupt: nobody waits for the rest
            workers.shutdown(wait=False, cancel_futures=True)
            raise


def _assembled(gpu: Gpu, text: bytes) -> tuple[bytes, Module]:
    """What is kept of PTX, and it on the GPU."""
    return _on_gpu(gpu, text if is_slow_when_linked(text) else gpu.assemble(text))


def _on_gpu(gpu: Gpu, code: bytes) -> tuple[bytes, Module]:
    return code, gpu.load_module(code)


def is_slow_when_linked(text: bytes) -> bool:
    """Whether machine code that is linked would be slower. Of functions that call another one, as exact division does,
    the assembler makes code that waits for every matrix instruction; and where it does not know what a kernel is linked
    with, it does not let threads have the registers of others (`setmaxnreg`), so that sums go to memory: fp8 8192³ 0.76
    -> 2.9 ms. The driver compiles such text as a whole, and keeps it by itself."""
    return b"wgmma" in text and any(name in text for name in (*CALLING, b"setmaxnreg"))


def _loaded(
    gpu: Gpu, target: Target, function: UOp, key: str, header: dict[str, Any], coming: Any, log: KernelLog | None
) -> CudaKernel:
    """A kernel whose code is coming to the GPU; with a key, it is kept under that."""
    code, module = coming.result()
    if key:
        disk_cache.keep(key, header, code)
    if log is not None:
        log.compiled(code, lambda: "")  # the driver does not show its machine code
    source = partial(_source, function, target)
    launches = tuple(
        Launch(
            name=record["name"],
            blocks=record["blocks"],
            threads=record["threads"],
            slots=tuple(record["slots"]),
            variables=tuple(record["variables"]),
            function=module.function(record["name"], record["shared"]),
            shared=record["shared"],
            maps=tuple(record["maps"]),
            started=(record["name"], (source,)),
        )
        for record in header["launches"]
    )
    amounts = header["ops"], header["bytes_read"], header["bytes_written"]
    if DEBUG >= SHOWS_SOURCE:
        for launch in launches:
            print(f"{launch.name}: {occupancy(launch, gpu)}", flush=True)
    return CudaKernel(launches, *amounts, module, header["explanation"], header["units"])


def _source(function: UOp, target: Target) -> bytes:
    """The text of a kernel once more, for an error."""
    return compile_ptx(function, target)[1]


def compile_ptx(function: UOp, target: Target, log: KernelLog | None = None) -> tuple[dict[str, Any], bytes]:
    """What is kept of a kernel, and its text."""
    from whit.codegen import generate  # lazy: only when something has to be compiled
    from whit.codegen.gpu.separate import separate  # lazy: the same
    from whit.render import render  # lazy: the same
    from whit.render.program import params_of  # lazy: the same
    from whit.render.ptx.launch import launch_of  # lazy: the same

    (body,) = function.src
    stem = "k_" + re.sub(r"\W", "_", str(function.arg.name), flags=re.ASCII)[:60]
    observe = None if log is None else log.passed
    programs = [generate(part, target, f"{stem}_{i}", observe=observe) for i, part in enumerate(separate(body))]
    text = render({program.name: program.linear for program in programs}, target)
    whole = replace(
        programs[0],
        total=sum(program.total for program in programs),
        ops=sum(program.ops for program in programs),
        bytes_read=sum(program.bytes_read for program in programs),
        bytes_written=sum(program.bytes_written for program in programs),
        explanation="\n".join(program.explanation for program in programs),
    )
    if log is not None:
        log.rendered(whole, text)
    if DEBUG >= SHOWS_SOURCE:
        announce(function, whole.explanation, text, whole.linear, "")
    launches = [
        {
            "name": program.name,
            "blocks": program.total,
            **launch_of(program.linear, program.threads),
            "slots": [int(param.arg.slot) for param in params_of(program.linear)],
            "variables": [variable.arg.name for variable in program.variables],
        }
        for program in programs
    ]
    header = {
        "launches": launches,
        "ops": whole.ops,
        "bytes_read": whole.bytes_read,
        "bytes_written": whole.bytes_written,
        "explanation": whole.explanation,
        "units": units_of(programs),
    }
    return header, text.encode()


def units_of(programs: Sequence[Any]) -> str:
    """What does most of the work of programs, in words."""
    nodes = [node for program in programs for node in program.linear.topological()]
    for node in nodes:
        if node.op is ops.BLOCK_MMA and node.arg.atom != "fma":
            operands = "tf32" if node.arg.atom == "tf32" else node.src[2].dtype.name
            return f"{operands} by tensor cores"
    return "float64" if any(node.dtype is dtypes.float64 for node in nodes) else "float32"
