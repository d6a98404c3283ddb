"""The devices NULL:PTX:sm_90a and so on: programs for a GPU that is not here. Nothing runs.

    DEV=NULL:PTX:sm_90a DEBUG=4 python program.py       the PTX of every kernel

Kernels are the same as on a device CUDA with that architecture. Where NVIDIA's assembler is installed (`whit[ptx]`), it
takes the driver's part: a text that it refuses is an error, and DEBUG=3 has the registers of each kernel.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from whit.cache import register_cache
from whit.config import DEBUG
from whit.engine.compile import disk_cache
from whit.engine.compile.compile import SHOWS_SOURCE, code_settings, digest, kernel_key, shows_compiling
from whit.engine.compile.cuda import compile_ptx
from whit.engine.plan.plan import Plan, kernels_in
from whit.engine.report.counters import Counts
from whit.engine.report.show import show_load
from whit.ir.uop import UOp
from whit.recording import KernelLog, hooks
from whit.runtime.cuda.ptxas import Use, assemble, find_ptxas
from whit.runtime.pool.threads import thread_count
from whit.target import Target


@dataclass(frozen=True, slots=True)
class LoadedPlan:
    """A plan whose kernels compile."""

    plan: Plan
    counts: Counts  # of one run


def load_plan(plan: Plan, device: str, target: Target) -> LoadedPlan:
    """Compiles what is not compiled yet."""
    start = perf_counter()
    counts = Counts()
    for header in get_headers(kernels_in(plan), target):
        counts.add(Counts(1, 0, header["ops"], header["bytes_read"], header["bytes_written"]))
    if DEBUG >= 1:
        show_load(device, target, len(plan.steps), plan.arena_bytes, perf_counter() - start)
    return LoadedPlan(plan, counts)


_headers: dict[tuple[Any, ...], dict[str, Any]] = {}
_lock = threading.RLock()
register_cache(_headers.clear, "engine.null_gpu")


def get_headers(functions: Sequence[UOp], target: Target) -> list[dict[str, Any]]:
    """What is kept of the kernels of FUNCTIONs; those that are not compiled yet are compiled together."""
    settings = code_settings()
    keys = [(function.src[0], target, settings) for function in functions]
    with _lock:
        missing = {key: function for key, function in zip(keys, functions, strict=True) if key not in _headers}
        if missing:
            _headers.update(zip(missing, _made(list(missing.values()), target), strict=True))
        return [_headers[key] for key in keys]


def _made(functions: list[UOp], target: Target) -> list[dict[str, Any]]:
    """From the disk, or compiled: the assembler runs beside this thread, which writes the text of the next."""
    from concurrent.futures import ThreadPoolExecutor  # lazy: only when something has to be compiled

    place = "by ptxas" if find_ptxas() else "text"
    begun: list[tuple[str, dict[str, Any], Any, KernelLog | None]] = []
    with ThreadPoolExecutor(max(thread_count(), 1)) as workers:
        try:
            for function in functions:
                key = digest(kernel_key(function, target), place)
                entry = None if shows_compiling() else disk_cache.find(key)
                if entry is not None:
                    begun.append(("", entry[0], None, None))
                    continue
                log = recorder.kernel(function, target) if (recorder := hooks.recorder) is not None else None
                header, text = compile_ptx(function, target, log)
                begun.append((key, header, workers.submit(_assembled, text, target), log))
            return [_finished(*each) for each in begun]
        except BaseException:  # also an interrupt: nobody waits for the rest
            workers.shutdown(wait=False, cancel_futures=True)
            raise


def _assembled(text: bytes, target: Target) -> tuple[bytes, dict[str, Use]]:
    return assemble(text.decode(), target) if find_ptxas() else (text, {})


def _finished(key: str, header: dict[str, Any], coming: Any, log: KernelLog | None) -> dict[str, Any]:
    """What is kept of a kernel whose code is coming; without a key, it was found on disk."""
    if key:
        code, uses = coming.result()
        disk_cache.keep(key, header, code)
        if log is not None:
            log.compiled(code, lambda: "")
        if DEBUG >= SHOWS_SOURCE:
            for launch in header["launches"]:
                print(f"{launch['name']}: {_described(launch, uses.get(launch['name']))}", flush=True)
    return header


def _described(launch: dict[str, Any], use: Use | None) -> str:
    """How a function would be started, and what it takes of a multiprocessor."""
    started = f"{launch['blocks']} blocks of {launch['threads']} threads"
    if use is None:
        return f'{started}; not assembled: pip install "whit[ptx]"'
    spilled = f", {use.spilled} bytes spilled" if use.spilled else ""
    shared = (use.shared + launch["shared"]) / 1024
    return f"{started}, {use.registers} registers{spilled}, {shared:.1f} KiB of shared memory"
