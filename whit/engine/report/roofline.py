"""The roofline of this machine, measured: the speed of a copy in memory, and of multiply-adds in registers.

    roof = measure_roofline(seconds=0.2, nbytes=1 << 28)
    estimate(body).seconds(roof)        # what a kernel takes here at least (`whit.kernel.cost`)

Both use as many threads as kernels do. The multiply-adds are written by hand, so that they do not depend on how well
whit compiles. Each number is the best of many runs, and the results are checked before they count.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from whit.dtype import dtypes
from whit.engine.compile.compile import get_kernel, helper_object, prepare_pool
from whit.engine.compile.tune.alone import Alone
from whit.errors import BackendError
from whit.ir.uop import UOp
from whit.kernel.rates import Rates
from whit.runtime.code.link import load_object
from whit.runtime.pool.threads import Launch, run_launches, thread_count
from whit.target import CACHE_LINE_BYTES, Target, host_target, parse_target

# independent multiply-adds at a time: at least latency x units of any processor, and they fit 16 registers
INDEPENDENT_FMAS = 12
STEPS_A_PIECE = 20_000  # of each chain in one piece of work, about 30 us
PIECES_A_THREAD = 8  # for each thread: cores are not equally fast


@functools.cache
def roofline_of_this_machine() -> Rates:
    """Measured once in a process, in about half a second."""
    return measure_roofline(0.2, 1 << 26)


def measure_roofline(seconds: float, nbytes: int) -> Rates:
    """Measures each for `seconds`; the copy is of an array of `nbytes`."""
    return Rates(copy_bandwidth(seconds, nbytes), peak_flops(seconds), threads=thread_count())


def best_seconds(call: Callable[[], object], seconds: float, least: int = 3) -> float:
    """The time of the fastest of many calls: as many as fit into `seconds`, and at least `least`."""
    clock = time.perf_counter
    best = float("inf")
    end = clock() + seconds
    count = 0
    while count < least or clock() < end:
        start = clock()
        call()
        best = min(best, clock() - start)
        count += 1
    return best


def copy_bandwidth(seconds: float, nbytes: int) -> float:
    """Bytes that a copy reads and writes in a second: by a kernel or by the C library, whichever is faster here."""
    source = np.ones(nbytes // 4, np.float32)
    copied = np.zeros_like(source)
    r, params = UOp.range(source.size, 0), [UOp.param(slot, dtypes.float32, (source.size,)) for slot in (0, 1)]
    function = UOp.group(params[0].store(params[1].index(r) + 1.0, r)).function("copy")
    prepare_pool()
    kernel, alone = get_kernel(function, parse_target("CPU")), Alone(function.src[0])
    alone.fill({1: source})
    times = [
        best_seconds(lambda: alone.run(kernel), seconds / 2),
        best_seconds(lambda: np.copyto(copied, source), seconds / 2),
    ]
    return 2 * source.nbytes / min(times)


# ---- multiply-adds


def peak_flops(seconds: float) -> float:
    """Float32 operations a second of multiply-adds that need no memory, on all threads."""
    target = host_target()
    prepare_pool()
    text = peak_text(target)
    name = f"multiply-adds {hashlib.sha256(text.encode()).hexdigest()[:16]}"  # other text is another entry on disk
    library = load_object(helper_object(name, lambda: _compiled(text, target)))
    threads = thread_count()
    pieces = threads * PIECES_A_THREAD
    results = np.zeros(pieces * CACHE_LINE_BYTES // 4, np.float32)
    factors = np.array([0.5, 1.0], np.float32)  # x -> x * 0.5 + 1, which comes to rest at exactly 2
    pointers = (ctypes.c_void_p * 2)(results.ctypes.data, factors.ctypes.data)
    steps = (ctypes.c_int64 * 1)(STEPS_A_PIECE)
    launch = Launch(
        library.address("peak"), ctypes.addressof(pointers), ctypes.addressof(steps), pieces, 1, max(threads, 1)
    )
    launches = (Launch * 1)(launch)
    run_launches(launches, 1)  # starts threads, which is not to be counted
    best = best_seconds(lambda: run_launches(launches, 1), seconds)
    found: Any = results[:: CACHE_LINE_BYTES // 4]
    if not np.all(found == 2.0 * INDEPENDENT_FMAS):
        raise BackendError("roof: the multiply-adds are wrong", f"{found[0]} in place of {2.0 * INDEPENDENT_FMAS}")
    return 2 * INDEPENDENT_FMAS * (target.vector_bytes // 4) * STEPS_A_PIECE * pieces / best


def _compiled(text: str, target: Target) -> bytes:
    from whit.runtime.code.llvm import compile_llvm  # lazy: loads LLVM

    return compile_llvm(text, target)


def peak_text(target: Target) -> str:
    """LLVM text of `peak`, called as kernels are: it stores the sum of its chains for each piece of start .. stop."""
    lanes = target.vector_bytes // 4
    vector = f"<{lanes} x float>"
    operation = "fma" if target.has_fma else "fmuladd"
    numbers = range(INDEPENDENT_FMAS)
    chains = [f"  %x{i} = phi {vector} [ zeroinitializer, %piece ], [ %y{i}, %loop ]" for i in numbers]
    steps = [
        f"  %y{i} = call {vector} @llvm.{operation}.v{lanes}f32({vector} %x{i}, {vector} %m, {vector} %a)"
        for i in numbers
    ]
    sums = [f"  %s{i + 1} = fadd {vector} %s{i}, %y{i}" for i in numbers]
    return "\n".join(
        [
            f'target triple = "{target.triple}"',
            f"declare {vector} @llvm.{operation}.v{lanes}f32({vector}, {vector}, {vector})",
            "define void @peak(ptr %buffers, ptr %variables, i64 %start, i64 %stop) nounwind {",
            "entry:",
            "  %results = load ptr, ptr %buffers, align 8",
            "  %second = getelementptr ptr, ptr %buffers, i64 1",
            "  %factors = load ptr, ptr %second, align 8",
            "  %steps = load i64, ptr %variables, align 8",
            *_splat("m", 0, lanes),
            *_splat("a", 1, lanes),
            "  br label %piece",
            "piece:",
            "  %number = phi i64 [ %start, %entry ], [ %following, %end ]",
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [ 0, %piece ], [ %next, %loop ]",
            *chains,
            *steps,
            "  %next = add i64 %i, 1",
            "  %more = icmp slt i64 %next, %steps",
            "  br i1 %more, label %loop, label %end",
            "end:",
            f"  %s0 = fadd {vector} zeroinitializer, zeroinitializer",
            *sums,
            f"  %sum = extractelement {vector} %s{INDEPENDENT_FMAS}, i64 {lanes - 1}",
            f"  %offset = mul i64 %number, {CACHE_LINE_BYTES}",
            "  %place = getelementptr i8, ptr %results, i64 %offset",
            "  store float %sum, ptr %place, align 4",
            "  %following = add i64 %number, 1",
            "  %others = icmp slt i64 %following, %stop",
            "  br i1 %others, label %piece, label %return",
            "return:",
            "  ret void",
            "}",
            "",
        ]
    )


def _splat(name: str, place: int, lanes: int) -> list[str]:
    vector = f"<{lanes} x float>"
    return [
        f"  %{name}.at = getelementptr float, ptr %factors, i64 {place}",
        f"  %{name}.one = load float, ptr %{name}.at, align 4",
        f"  %{name}.lane = insertelement {vector} poison, float %{name}.one, i64 0",
        f"  %{name} = shufflevector {vector} %{name}.lane, {vector} poison, <{lanes} x i32> zeroinitializer",
    ]
