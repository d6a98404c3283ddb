"""Random graphs, the same in every run: compiled code agrees with the interpreter, with and without optimisation."""

import numpy as np
import pytest

from fuzz.check import failure_of, find_failures, report
from fuzz.cuda import problem_of, problem_of_program
from fuzz.emulated import emulated_gpu
from fuzz.graphs import Case, make_case
from fuzz.native import runnable_targets
from fuzz.networks import make_part
from fuzz.programs import Program, difference, make_program
from whit import Device, Tensor
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.interpret import numpy_dtype
from whit.ir.text.parse import parse
from whit.ir.text.write import to_text
from whit.runtime.code.gcc import find_compiler
from whit.target import parse_target

pytestmark = pytest.mark.slow  # half of the time of all tests

BATCH = 25  # cases compiled together
COUNT = 400


@pytest.mark.parametrize("first", range(0, COUNT, BATCH))
def test_compiled_graphs_agree_with_the_interpreter(first: int) -> None:
    failures = find_failures(range(first, first + BATCH))
    assert not failures, "\n\n".join(report(seed) for seed in failures)


@pytest.mark.skipif(find_compiler() is None, reason="there is no C compiler")
@pytest.mark.parametrize("first", range(COUNT, COUNT + 100, BATCH))
def test_graphs_compiled_through_c_agree_with_the_interpreter(first: int) -> None:
    target = parse_target("CPU:C")
    failures = find_failures(range(first, first + BATCH), [target])
    assert not failures, "\n\n".join(report(seed, target) for seed in failures)


def test_programs_for_gpus_agree_with_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every thread is interpreted, so few graphs are enough. What compiles them is tested on a GPU (`fuzz/cuda.py`)."""
    with emulated_gpu(monkeypatch) as name:
        assert not {seed: problem for seed in range(18, 34) if (problem := problem_of(seed, name))}
        assert problem_of_program(20100, name) == ""  # int8, computed on the way: no tensor core adds it as int32


def test_programs_of_tensors_become_programs_of_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of sizes that take too long to interpret. Found so: sums of products without loads, zeros of integers."""
    with emulated_gpu(monkeypatch) as name:
        monkeypatch.setattr(Device[name], "run", lambda *given: None)
        for seed in (*range(1000, 1024), 1038, 1051, 1062, 1125, 1258, 1736):
            _compile(make_program(seed), name)
        for seed in range(12):
            _compile(make_part(seed), name)


def test_graphs_are_scheduled_for_the_gpu_that_runs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that does not fit in a block is sorted in pieces. It takes too long to interpret."""
    kernels: list[int] = []
    with emulated_gpu(monkeypatch) as name:
        monkeypatch.setattr(Device[name], "run", lambda loaded, *given: kernels.append(len(loaded.plan.steps)))
        problem_of(9071938, name)
    assert kernels == [3]


def _compile(program: Program, device: str) -> None:
    program.build(*(Tensor(array, device=device) for array in program.arrays)).realize()


def test_programs_for_gpus_run_and_their_differences_are_seen() -> None:
    programs, parts = [[make(seed) for seed in range(40)] for make in (make_program, make_part)]
    assert [len({program.name.split()[0] for program in some}) for some in (programs, parts)] == [14, 6]
    for program in (*programs[:20], *parts[:10]):
        found = program.run("PYTHON")
        assert difference(program, found, found) == ""
        wrong = found.copy()
        largest = float(np.abs(found.astype(np.float64)).max())
        wrong.flat[-1] = 2 * largest + 1 if program.tolerance else 0 if wrong.flat[-1] else 1
        assert difference(program, found, wrong).startswith("1 of ")


def test_a_seed_is_always_the_same_case() -> None:
    for seed in range(30):
        one, two = make_case(seed), make_case(seed)
        assert one.graph is two.graph
        assert all((one.inputs[node].tobytes() == two.inputs[node].tobytes()) for node in one.inputs)


def test_cases_have_something_of_everything() -> None:
    graphs = [make_case(seed).graph for seed in range(600)]
    seen = {node.op for graph in graphs for node in graph.topological()}
    reducers = {n.arg.op for graph in graphs for n in graph.topological() if n.op in (ops.REDUCE, ops.SCAN)}
    wanted = {
        *ops.MOVEMENT,
        ops.REDUCE,
        ops.SCAN,
        ops.SORT,
        ops.INDEX,
        ops.STACK,
        ops.ARANGE,
        ops.CAST,
        ops.BITCAST,
        ops.WHERE,
    }
    assert wanted <= seen
    assert set(ops.REDUCERS) <= reducers
    assert any(0 in node.shape for graph in graphs for node in graph.topological())
    assert any(len(graph.src) > 3 for graph in graphs)
    gathers = [node for graph in graphs for node in graph.topological() if node.op is ops.INDEX]
    assert any(len(node.src) - node.arg == 3 for node in gathers), "gathers on two axes"
    assert any(node.src[1].op is not ops.PARAM and node.arg for node in gathers), "gated, at computed positions"
    assert {node.dtype for graph in graphs for node in graph.topological()} >= set(dtypes.scalars)


def test_the_text_of_a_case_is_the_case() -> None:
    for seed in range(50):
        graph = make_case(seed).graph
        assert parse(to_text(graph)) is graph


# Graphs that were wrong once, as the fuzzer has shown them.
FOUND = {
    "the last lane of a vector that is a number": """
        p100 = param 100, int32(1, 2)
        %1 = arange size=9, dtype=int32
        %2 = reshape %1, shape=(1, 9, 1)
        %3 = expand %2, shape=(2, 9, 4)
        %4 = shrink %3, parts=((0, 1), (3, 1), (1, 2))
        %5 = reshape %4, shape=(1, 2)
        %6 = scan %5, op=or, axis=1
        %7 = store p100, %6
        group %7
    """,
    "a sort reads the same element in two loops": """
        p100 = param 100, int32(7,)
        p1 = param 1, int32(1,)
        p2 = param 2, int32(7,)
        %1 = expand p1, shape=(7,)
        %2 = add %1, p2
        %3 = sort %2, %2, count=7, axis=0
        %4 = store p100, %3
        group %4
    """,
    "a number's value and a number's memory are one node": """
        p100 = param 100, uint32
        p1 = param 1, int32
        %1 = bitcast p1, uint32
        %2 = store p100, %1
        group %2
    """,
    "a copy reads its own output": """
        p100 = param 100, float64(4, 9)
        p1 = param 1, float64(4, 9)
        %1 = store p100, p1
        group %1
    """,
    "the loop of a scan is not the innermost": """
        p100 = param 100, float16(8, 9, 4)
        p1 = param 1, float16(8, 9, 4)
        %1 = scan p1, op=max, axis=1
        %2 = store p100, %1
        group %2
    """,
    "scans along two axes in one kernel": """
        p100 = param 100, int32(5, 6)
        p101 = param 101, int32(5, 6)
        p1 = param 1, int32(5, 6)
        %1 = scan p1, op=add, axis=0
        %2 = store p100, %1
        %3 = scan p1, op=add, axis=1
        %4 = store p101, %3
        group %2, %4
    """,
    "a register of float16 outside of its loop": """
        p100 = param 100, float16(5,)
        p2 = param 2, float16(3, 9, 9, 5)
        %1 = reduce p2, op=max, axes=(0, 1, 2)
        %2 = store p100, %1
        group %2
    """,
    "one element under a mask of lanes, and a masked store of narrowed values": """
        p100 = param 100, uint8(2, 5, 1, 5)
        p0 = param 0, int64(5, 1, 5)
        %1 = stack p0, p0
        %2 = cast %1, uint8
        %3 = store p100, %2
        group %3
    """,
    "two registers start from the same vector": """
        p100 = param 100, int32(40, 8)
        p0 = param 0, int32(40, 8)
        %1 = reduce p0, op=max, axes=(0,)
        %2 = reshape %1, shape=(1, 8)
        %3 = expand %2, shape=(40, 8)
        %4 = reduce p0, op=max, axes=(1,)
        %5 = reshape %4, shape=(40, 1)
        %6 = expand %5, shape=(40, 8)
        %7 = sub %3, %6
        %8 = store p100, %7
        group %8
    """,
    "a reduction over nothing": """
        p100 = param 100, int32(9, 3)
        p1 = param 1, int32(9, 0)
        %1 = reshape p1, shape=(9, 1, 0)
        %2 = expand %1, shape=(9, 3, 0)
        %3 = reduce %2, op=mul, axes=(2,)
        %4 = store p100, %3
        group %4
    """,
    "padding around nothing": """
        p100 = param 100, int64(18,)
        p2 = param 2, int64(0, 1)
        %1 = reduce p2, op=mul, axes=(1,)
        %2 = pad %1, pads=((17, 1),)
        %3 = store p100, %2
        group %3
    """,
    "reductions of two kernels with one range, one inside the other": """
        p100 = param 100, int8(2, 4)
        p0 = param 0, int8(2, 4)
        %1 = reduce p0, op=or, axes=(0,)
        %2 = reshape %1, shape=(1, 4)
        %3 = expand %2, shape=(2, 4)
        %4 = sub p0, %3
        %5 = reduce %4, op=and, axes=(0,)
        %6 = reshape %5, shape=(1, 4)
        %7 = expand %6, shape=(2, 4)
        %8 = sub %4, %7
        %9 = store p100, %8
        group %9
    """,
    "the rest of the cores' range runs in every iteration": """
        p100 = param 100, uint32(65, 63)
        p4 = param 4, uint32(65, 1, 2)
        %1 = expand p4, shape=(65, 63, 2)
        p6 = param 6, uint32(1, 63, 2)
        %2 = expand p6, shape=(65, 63, 2)
        %3 = mul %1, %2
        %4 = reduce %3, op=add, axes=(2,)
        %5 = store p100, %4
        group %5
    """,
    "the cores' range is not the first": """
        p100 = param 100, uint32(65, 63)
        p4 = param 4, uint32(65, 1, 2)
        %1 = expand p4, shape=(65, 63, 2)
        p3 = param 3, uint32(2, 63)
        %2 = permute p3, order=(1, 0)
        %3 = reshape %2, shape=(1, 63, 2)
        %4 = expand %3, shape=(65, 63, 2)
        %5 = mul %1, %4
        %6 = reduce %5, op=add, axes=(2,)
        %7 = store p100, %6
        group %7
    """,
    "the same load in two loops that may not run": """
        p100 = param 100, uint8(5, 31)
        p1 = param 1, uint8(5, 1, 129)
        %1 = expand p1, shape=(5, 31, 129)
        p2 = param 2, uint8(1, 31, 129)
        %2 = expand p2, shape=(5, 31, 129)
        %3 = mul %1, %2
        %4 = reduce %3, op=add, axes=(2,)
        %5 = store p100, %4
        group %5
    """,
    "lanes along an output and along a reduction inside": """
        p100 = param 100, bfloat16(8,)
        p3 = param 3, bfloat16(8, 31)
        %1 = reduce p3, op=max, axes=(1,)
        %2 = reshape %1, shape=(8, 1)
        %3 = expand %2, shape=(8, 31)
        %4 = reduce %3, op=max, axes=(1,)
        %5 = store p100, %4
        group %5
    """,
    "a kept value that simplifies to a number, and is read as a position": """
        p100 = param 100, int32(7, 1, 4, 1)
        p4 = param 4, int32(1, 4, 1)
        p6 = param 6, uint32(7, 1)
        %1 = scan p6, op=mul, axis=0
        %2 = floormod %1, 1:uint32
        %3 = index p4, %2
        %4 = store p100, %3
        group %4
    """,
    "a range for the cores that is shorter than one step": """
        p100 = param 100, float16(33,)
        p1 = param 1, float16(257, 33)
        p4 = param 4, float16(257, 33)
        %1 = sub p1, p4
        %2 = reduce %1, op=max, axes=(0,)
        %3 = store p100, %2
        group %3
    """,
    "a padded axis and a sum over another": """
        p100 = param 100, uint32(7, 131)
        p5 = param 5, uint32(7, 129)
        %1 = reduce p5, op=add, axes=(1,)
        %2 = reshape %1, shape=(7, 1)
        %3 = expand %2, shape=(7, 129)
        %4 = sub p5, %3
        %5 = mul %4, %4
        %6 = pad %5, pads=((0, 0), (2, 0))
        %7 = store p100, %6
        group %7
    """,
    "a vector below a horizontal sum that simplifies to a number": """
        p100 = param 100, int32(10, 9)
        p6 = param 6, int32(5, 1)
        %1 = pad p6, pads=((3, 2), (1, 3))
        %2 = reshape %1, shape=(10, 1, 5)
        %3 = expand %2, shape=(10, 9, 5)
        p7 = param 7, int32(1, 9, 5)
        %4 = expand p7, shape=(10, 9, 5)
        %5 = mul %3, %4
        %6 = reduce %5, op=add, axes=(2,)
        %7 = store p100, %6
        group %7
    """,
    "a sum of products on a machine without a fused multiply-add": """
        p100 = param 100, float32(4,)
        p1 = param 1, float32(4, 9)
        %1 = mul p1, p1
        %2 = reduce %1, op=add, axes=(1,)
        %3 = store p100, %2
        group %3
    """,
}


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_stays_fixed(name: str) -> None:
    graph = parse(FOUND[name])
    params = {node for store in graph.src for node in store.src[1].topological() if node.op is ops.PARAM}
    inputs = {
        node: np.random.default_rng(0).integers(0, 4, node.shape).astype(numpy_dtype(node.dtype)) for node in params
    }
    for target in runnable_targets():
        case = Case(tuple(store.src[1] for store in graph.src), inputs, "exact")
        assert failure_of(case, target) == ""
