"""Programs that sort: run by the interpreter and compiled through both renderers, against the meaning of SORT."""

import ctypes
from typing import Any

import numpy as np
import pytest
from schedule.build import FIRST_OUTPUT, arrays_for, param, scheduled, stores

from whit.codegen import generate
from whit.codegen.cpu.sort_keys import key_of
from whit.config import Context
from whit.dtype import DType, decode, dtypes
from whit.engine.compile.compile import get_kernel
from whit.engine.plan.plan import make_plan
from whit.ir import ops
from whit.ir.check.verify import verify
from whit.ir.interpret import evaluate, numpy_dtype, run
from whit.ir.op import PROGRAM
from whit.ir.uop import UOp
from whit.target import parse_target

pytestmark = pytest.mark.slow  # every program is interpreted and compiled

LLVM, C = parse_target("CPU"), parse_target("CPU:C")


def sorts(x: UOp, count: int | None = None, descending: bool = False, axis: int = -1) -> list[UOp]:
    """Values and positions."""
    axis %= len(x.shape)
    size = x.shape[axis]
    alone = tuple(size if i == axis else 1 for i in range(len(x.shape)))
    places = UOp.arange(size, dtypes.int32).reshape(alone).expand(x.shape)
    kept = size if count is None else count
    return [x.sort(x, axis, kept, descending), x.sort(places, axis, kept, descending)]


def run_programs(linear: UOp, memory: dict[UOp, Any], target: Any) -> None:
    """Every kernel of a schedule as a program, in the interpreter."""
    for call in linear.src:
        function, *arguments = call.src
        program = generate(function.src[0], target).linear
        verify(program, PROGRAM)
        flat = [memory[argument].reshape(-1) for argument in arguments]
        run(program, {node: flat[node.arg.slot] for node in program.topological() if node.op is ops.PARAM})


def run_code(linear: UOp, memory: dict[UOp, Any], target: Any) -> None:
    """Every kernel of a schedule as machine code, on one core."""
    for call in linear.src:
        function, *arguments = call.src
        kernel = get_kernel(function, target)
        pointers = (ctypes.c_void_p * len(arguments))(*(memory[argument].ctypes.data for argument in arguments))
        kernel.function(ctypes.addressof(pointers), 0, 0, kernel.total)


def check(values: list[UOp], how: Any, target: Any, inputs: dict[UOp, Any] | None = None) -> None:
    """The schedule of values computes what they mean."""
    agrees(scheduled(values), values, how, target, inputs)


def agrees(linear: UOp, values: list[UOp], how: Any, target: Any, inputs: dict[UOp, Any] | None) -> None:
    """A schedule, run in some way, computes what the graph says, bit by bit."""
    inputs = arrays_for(values) if inputs is None else inputs
    memory: dict[UOp, Any] = dict(inputs)
    for call in linear.src:
        for argument in call.src[1:]:
            memory.setdefault(argument, np.zeros(argument.shape, numpy_dtype(argument.dtype)))
    how(linear, memory, target)
    for store in stores(values).src:
        expected = evaluate(store.src[1], inputs)
        assert memory[store.src[0]].tobytes() == expected.tobytes()


CASES = {
    "counted": lambda: sorts(param(0, 3, 17)),
    "counted, the first few": lambda: sorts(param(0, 3, 40), 5, True),
    "along the first axis": lambda: sorts(param(0, 9, 4), axis=0),
    "radix": lambda: sorts(param(0, 2, 230)),
    "radix of values": lambda: sorts(param(0, 200), descending=True)[:1],
    "radix of positions": lambda: sorts(param(0, 200))[1:],
    "radix of long keys": lambda: sorts(param(0, 210, dtype=dtypes.float64)),
    "radix, the first few": lambda: sorts(param(0, 220), 100),
    "selected": lambda: sorts(param(0, 2, 500), 7, True),
    "selected by radix": lambda: sorts(param(0, 1100), 130),
    "an expression": lambda: sorts(abs(param(0, 3, 30) * 2.0 + param(1, 30).reshape((1, 30)).expand((3, 30))).sqrt()),
    "padded and flipped": lambda: sorts(param(0, 3, 30).pad(((1, 0), (2, 5))).flip((1,))),
    "one key, other values": lambda: [param(0, 3, 30).sort(param(1, 3, 30), 1, 30)],
}


@pytest.mark.parametrize("name", CASES)
def test_programs_mean_what_sorting_means(name: str) -> None:
    check(CASES[name](), run_programs, parse_target("CPU:LLVM:x86-64-v3"))


@pytest.mark.parametrize("target", (LLVM, C), ids=("llvm", "c"))
@pytest.mark.parametrize("name", CASES)
def test_compiled_programs_mean_what_sorting_means(name: str, target: Any) -> None:
    check(CASES[name](), run_code, target)


def test_optimisation_changes_nothing() -> None:
    with Context(NOOPT=1):
        check(CASES["radix"](), run_code, LLVM)
        check(CASES["counted"](), run_code, LLVM)


def test_accesses_of_sorts_pass_the_bounds_check() -> None:
    with Context(CHECK_OOB=1):
        for name in ("counted", "radix", "selected"):
            for call in scheduled(CASES[name]()).src:
                generate(call.src[0].src[0], LLVM)


@pytest.mark.parametrize("size", ((1 << 16), (1 << 16) + 1))
def test_long_rows_are_merged_from_two(size: int) -> None:
    values = sorts(param(0, size))
    assert len(scheduled(values).src) == 2
    check(values, run_code, LLVM)
    ties = {param(0, size): np.random.default_rng(0).integers(0, 9, size).astype(np.float32)}
    check(sorts(param(0, size), descending=True), run_code, LLVM, ties)


def test_the_memory_that_sorting_needs_is_known_before() -> None:
    def bytes_of(values: list[UOp]) -> int:
        return make_plan(scheduled(values), FIRST_OUTPUT + len(values)).arena_bytes

    assert bytes_of(sorts(param(0, 1000, 100))) == 0
    assert bytes_of(sorts(param(0, 50, 1000))[:1]) == 50 * 2 * 4000 // 64 * 64
    assert bytes_of(sorts(param(0, 5000, 1000))) == 64 * 2 * 8000  # not more for more rows
    assert bytes_of(sorts(param(0, 50, 1 << 15), 10)) == 50 * 2 * 74 * 8  # nor for longer ones, if few are wanted
    million = 1_000_000
    assert bytes_of(sorts(param(0, million))[:1]) == 2 * 4 * million + 4 * million  # two halves, and what is merged


def test_merging_runs_of_odd_sizes() -> None:
    for size, middle in ((2, 1), (3, 2), (10, 9), (31, 16), (64, 32)):
        keys = np.random.default_rng(size).integers(0, 5, size).astype(np.int32)
        keys[:middle].sort()
        keys[middle:].sort()
        x = param(0, size, dtype=dtypes.int32)
        merged = [node.replace(arg=_with_runs(node.arg, middle)) for node in sorts(x)]
        check(merged, run_code, LLVM, {x: keys})
        check(merged, run_programs, LLVM, {x: keys})


def _with_runs(arg: Any, runs: int) -> Any:
    return type(arg)(arg.count, arg.axis, arg.descending, 0, runs)


def test_positions_stay_in_order_where_keys_are_equal() -> None:
    for size in (150, 700, 70_000):
        keys = np.random.default_rng(size).integers(0, 3, size).astype(np.float32)
        check(sorts(param(0, size)), run_code, LLVM, {param(0, size): keys})
        check(sorts(param(0, size), 20, True), run_code, LLVM, {param(0, size): keys})


@pytest.mark.parametrize("order", ("ascending", "descending", "equal"))
def test_selection_of_data_in_order(order: str) -> None:
    x = param(0, 3000)
    keys = {
        "ascending": np.arange(3000, dtype=np.float32),
        "descending": -np.arange(3000, dtype=np.float32),
        "equal": np.ones(3000, np.float32),
    }[order]
    check(sorts(x, 7, True), run_code, LLVM, {x: keys})
    check(sorts(x, 150), run_code, LLVM, {x: keys})


@pytest.mark.parametrize("dtype", [d for d in dtypes.floats if d.itemsize < 4], ids=lambda d: d.name)
def test_keys_of_small_floats_are_ordered_as_the_numbers(dtype: DType) -> None:
    codes = np.arange(1 << dtype.bitsize).astype(f"u{dtype.itemsize}")
    bits = UOp.buffer(0, dtypes.uint8 if dtype.itemsize == 1 else dtypes.uint16, codes.shape)
    keys = evaluate(key_of(bits, dtype, False), {bits: codes}).astype(np.int64)
    numbers = np.array([decode(dtype, int(code)) for code in codes])
    is_nan = np.isnan(numbers)
    assert is_nan.any()
    assert (keys[is_nan] == keys.max()).all()
    assert keys[~is_nan].max() < keys.max()
    order = np.argsort(numbers[~is_nan], kind="stable")
    found, wanted = keys[~is_nan][order], numbers[~is_nan][order]
    assert ((np.diff(found) > 0) == (np.diff(wanted) > 0)).all()
    assert (np.diff(found) >= 0).all()
