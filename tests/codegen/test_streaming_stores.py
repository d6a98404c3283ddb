"""Results that are written past the caches."""

from dataclasses import replace

import numpy as np
import pytest
from render.cpu_programs import call
from schedule.build import param, row_sum, scheduled

from whit.codegen import generate
from whit.config import Context
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.uop import UOp
from whit.render.llvm.text import render_llvm
from whit.runtime.code.llvm import compile_llvm, load_object
from whit.target import MiB, Target, host_target, parse_target

TARGETS = [replace(parse_target(f"CPU:LLVM:{arch}"), l3_bytes=MiB) for arch in ("skylake-avx512", "haswell")]
HALF = 1 << 17  # float32 that are half of their last cache


def linear(value: UOp, target: Target) -> UOp:
    (called,) = scheduled(value).src
    with Context(NOOPT=0):
        return generate(called.src[0].src[0], target).linear


def stores(program: UOp) -> set[UOp]:
    return {node for node in program.src if node.op is ops.STORE}


def streamed(program: UOp) -> set[UOp]:
    return {node for node in stores(program) if node.arg.streaming}


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_a_result_of_half_the_last_cache_is_written_past_it(target: Target) -> None:
    program = linear(param(0, HALF) + param(1, HALF), target)
    assert stores(program) == streamed(program)
    text = render_llvm({"kernel": program}, target)
    assert text.count("!nontemporal") == len(stores(program)) > 0
    assert text.count("call void @llvm.x86.sse.sfence()") == 1


def test_a_smaller_result_is_not() -> None:
    program = linear(param(0, HALF - 64) + param(1, HALF - 64), TARGETS[0])
    assert not streamed(program)


def test_rows_that_do_not_start_with_a_line_are_not() -> None:
    even, odd = (linear(x / row_sum(x), TARGETS[0]) for x in (param(0, 512, 1024), param(0, 512, 1001)))
    assert streamed(even)
    assert not streamed(odd)


def test_narrow_numbers_fill_their_lines_together() -> None:
    a, b = (param(slot, 2 * HALF, dtype=dtypes.bfloat16) for slot in (0, 1))
    program = linear(a + b, TARGETS[0])
    assert stores(program) == streamed(program)


def test_memory_that_is_read_as_well_is_kept() -> None:
    x = param(0, HALF)
    r = UOp.range(HALF, 0)
    with Context(NOOPT=0):
        program = generate(UOp.group(x.store(x.index(r) + 1.0, r)), TARGETS[0]).linear
    assert stores(program)
    assert not streamed(program)


@pytest.mark.parametrize("start", [0, 4, 3])
def test_memory_that_starts_inside_of_a_line_gets_the_same(start: int) -> None:
    """Parts of tensors and memory of others start anywhere: a store past the caches would end the process there."""
    target = replace(host_target(), l3_bytes=MiB)
    (called,) = scheduled(param(0, HALF) + param(1, HALF)).src
    with Context(NOOPT=0):
        program = generate(called.src[0].src[0], target)
    assert streamed(program.linear)
    library = load_object(compile_llvm(render_llvm({"kernel": program.linear}, target), target))
    memory = np.zeros(HALF + 64, np.float32)
    first = -memory.ctypes.data % 64 // 4 + start
    a, b = np.arange(HALF, dtype=np.float32), np.ones(HALF, np.float32)
    call(library, "kernel", [memory[first : first + HALF], a, b], stop=program.total)
    assert np.array_equal(memory[first : first + HALF], a + 1)
    assert not memory[:first].any()
    assert not memory[first + HALF :].any()
