"""The verifier: good graphs of each stage pass, and each invariant has graphs that break it and it alone."""

import dataclasses
import pickle
from collections.abc import Callable

import pytest
from hypothesis import given
from strategies import tensor_graphs

from whit.dtype import dtypes
from whit.errors import InternalError, VerifyError
from whit.ir import ops
from whit.ir.args import FunctionArg, Memory, ParamArg, RangeKind, StageArg
from whit.ir.check.verify import INVARIANTS, verify
from whit.ir.op import EVERYWHERE, Stage
from whit.ir.text.parse import parse
from whit.ir.uop import UOp, const, make

f32, index = dtypes.float32, dtypes.weakint
n = UOp.variable("n", 1, 64)

TENSOR_GRAPH = """
b0 = buffer 0, float32(4, 8), device="CPU"
b1 = buffer 1, float32(8,), device="CPU"
%1 = reduce b0, op=add, axes=(0,)
%2 = shrink b1, parts=((2, 4),)
%3 = store %2, 1.0:float32
%4 = after b1, %3
%5 = mul %1, %4
"""

KERNEL = """
p0 = param 0, float32(4, 8)
p1 = param 1, float32(4, 8)
r0 = range 4, id=0
r1 = range 8, id=1, kind=reduce
r2 = range 8, id=2
%1 = index p0, r0, r1
%2 = reduce %1, r1, op=max
%3 = index p0, r0, r2
%4 = sub %3, %2
%5 = store p1, %4, r0, r2
"""

SCATTER = """
p0 = param 0, float32(64,)
p1 = param 1, int32(8,)
r0 = range 8, id=0
%1 = index p1, r0
%2 = store p0, 1.0:float32, %1, combine=add
%3 = store p0, 2.0:float32, 3, gate=true
%4 = group %2, %3
"""

PROGRAM = """
p0 = param 0, float32(8, 16)
p1 = param 1, float32(8,)
b0 = buffer 0, float32(1,), memory=register
r0 = range 8, id=0
  %1 = store b0, 0.0:float32, 0
  %2 = mul r0, 16
  %3 = after b0, %1
  r1 = range 16, id=1, kind=reduce
    %4 = add %2, r1
    %5 = lt %4, 100
    if1 = if %5
      %6 = load p0, %4
      %7 = load %3, 0
      %8 = add %6, %7
      %9 = store b0, %8, 0
    %10 = end if1
  %11 = end r1
  %12 = after b0, %9, %11
  %13 = load %12, 0
  store p1, %13, r0
end r0
linear ...
"""

SCHEDULE = """
step = function "step" {
  p0 = param 0, float32(4,)
  p1 = param 1, float32(4,)
  r0 = range 4, id=0
  %1 = index p0, r0
  store p1, %1, r0
}
b0 = buffer 0, float32(4,), device="CPU"
b1 = buffer 1, float32(4,), device="CPU"
%1 = call step, b0, b1
%2 = copy b1, "CUDA:0"
linear %1, %2
"""

GOOD = [
    (TENSOR_GRAPH, Stage.TENSOR),
    (KERNEL, Stage.KERNEL),
    (SCATTER, Stage.KERNEL),
    (PROGRAM, Stage.PROGRAM),
    (SCHEDULE, Stage.SCHEDULE),
    ("linear", Stage.PROGRAM),
    ("linear", Stage.SCHEDULE),
]


@pytest.mark.parametrize(("text", "stage"), GOOD)
def test_good_graphs_pass_alone_and_as_functions(text: str, stage: Stage) -> None:
    node = parse(text)
    verify(node, stage)
    verify(node.function("f"), stage)


@given(tensor_graphs())
def test_random_tensor_graphs_pass(node: UOp) -> None:
    verify(node, Stage.TENSOR)


def test_a_schedule_may_call_kernels_programs_and_schedules() -> None:
    bodies = [parse(KERNEL), parse(PROGRAM), parse(SCHEDULE)]
    calls = []
    for i, body in enumerate(bodies):
        function = body.function(f"f{i}")
        calls.append(function.call(*(UOp.param(p.slot, p.dtype, p.shape) for p in function.arg.params)))
    verify(UOp.linear(*calls), Stage.SCHEDULE)


def test_a_staged_value_is_indexed_by_other_ranges() -> None:
    source, out = UOp.param(0, f32, (4, 8)), UOp.param(1, f32, (8, 4))
    i, j, k, m = (UOp.range(size, id) for id, size in enumerate((4, 8, 4, 8)))
    tile = source.index(i, j).stage(i, j, arg=StageArg(Memory.SHARED))
    verify(out.store(tile.index(k, m), m, k), Stage.KERNEL)


# ---- broken graphs

p0, p1 = UOp.param(0, f32, (4, 8)), UOp.param(1, f32, (4,))
r0, r1 = UOp.range(4, 0), UOp.range(8, 1)
kernel = parse(SCHEDULE).src[0].src[0]
b0, b1, b2 = (UOp.buffer(i, f32, (4,), "CPU") for i in range(3))
condition = make(ops.IF, (r0 < 2,))


def program(*nodes: UOp) -> UOp:
    return UOp.linear(*nodes)


def leaks_out_of_a_loop() -> UOp:
    value = p1.load(r0)
    return program(p1, r0, value, r0.end(), p1.store(value, 0))


def leaks_out_of_an_if() -> UOp:
    value = p1.load(0)
    inner = [condition, value, condition.end()]
    return program(p1, r0, r0 < 2, *inner, p1.store(value, 0), r0.end())


def uses_its_range_after_the_loop() -> UOp:
    return program(p1, r0, r0.end(), r0 * 2)


BROKEN: list[tuple[str, Callable[[], UOp], Stage, str]] = [
    # invariant, graph, stage, part of the message
    ("ops of the stage", lambda: r0 + 1, Stage.TENSOR, "range id=0, kind=loop"),
    ("ops of the stage", lambda: p1.load(0), Stage.TENSOR, "only at PROGRAM"),
    ("ops of the stage", lambda: p1.store(p0.reshape((32,)).index(r0), r0), Stage.KERNEL, "reshape shape=(32,)"),
    ("ops of the stage", lambda: p1.store(p1.load(r0), r0), Stage.KERNEL, "load (float32)"),
    ("ops of the stage", lambda: program(p0, p0.scan(ops.ADD, 0)), Stage.PROGRAM, "scan"),
    ("ops of the stage", lambda: UOp.linear(kernel.call(b0 + b1, b2), b1.store(b0)), Stage.SCHEDULE, "store"),
    ("params of functions", lambda: make(ops.FUNCTION, (p0,), FunctionArg("f")), Stage.TENSOR, "lists 0 params"),
    (
        "params of functions",
        lambda: make(ops.FUNCTION, (p0 * p0,), FunctionArg("f", (p0.arg, ParamArg(0, f32)))),
        Stage.TENSOR,
        "two different params in one slot",
    ),
    (
        "params of functions",
        lambda: make(ops.FUNCTION, (UOp.group(p0, p1),), FunctionArg("f", (p1.arg, p0.arg))),
        Stage.TENSOR,
        "out of order",
    ),
    ("targets are memory", lambda: (b0 + b1).store(b0), Stage.TENSOR, "goes to add"),
    ("targets are memory", lambda: p0.index(r0).store(p0.index(r0, r1), r1), Stage.KERNEL, "goes to index"),
    ("targets are memory", lambda: program(p0, p0 + 1, (p0 + 1).load(0)), Stage.PROGRAM, "goes to add"),
    ("range ids", lambda: p0.store(p0.index(r0, UOp.range(8, 0)), r0, UOp.range(8, 0)), Stage.KERNEL, "has the id of"),
    (
        "range ids",
        lambda: program(r0, r0.end(), UOp.range(5, 0), UOp.range(5, 0).end()),
        Stage.PROGRAM,
        "has the id of range",
    ),
    ("kernel root", lambda: p0.index(r0, r1), Stage.KERNEL, "is no effect"),
    ("kernel root", lambda: UOp.group(p1.store(p1.index(r0), r0), p1.index(r0)), Stage.KERNEL, "is no effect"),
    ("kernel root", lambda: UOp.group(kernel), Stage.KERNEL, "is no effect"),
    ("stored once", lambda: p1.store(p0.index(r0, r1), r0), Stage.KERNEL, "for all values of r1"),
    ("stored once", lambda: p1.store(p0.index(r0, r1).scan(ops.ADD, range=r1), r0), Stage.KERNEL, "values of r1"),
    ("program root", lambda: p1.store(p1.load(0), 0), Stage.PROGRAM, "is no list"),
    ("program root", lambda: program(program()), Stage.PROGRAM, "is a list inside the list"),
    ("sources first", lambda: program(p1.load(0), p1), Stage.PROGRAM, "stands before its source param"),
    ("sources first", lambda: program(p1, p1), Stage.PROGRAM, "is listed twice"),
    ("sources first", lambda: program(const(f32, 1)), Stage.PROGRAM, "is listed, and constants"),
    ("blocks nest", lambda: program(r0), Stage.PROGRAM, "is never closed"),
    ("blocks nest", lambda: program(r0, r1, r0.end(), r1.end()), Stage.PROGRAM, "does not close the innermost"),
    ("values stay in their block", leaks_out_of_a_loop, Stage.PROGRAM, "uses load"),
    ("values stay in their block", leaks_out_of_an_if, Stage.PROGRAM, "closed block of if"),
    ("values stay in their block", uses_its_range_after_the_loop, Stage.PROGRAM, "closed block of range"),
    ("flat positions", lambda: program(p0, p0.store(const(f32, 0), 1, 2)), Stage.PROGRAM, "has 2 positions"),
    ("flat positions", lambda: program(p0, p0.store(const(f32, 0))), Stage.PROGRAM, "has 0 positions"),
    ("schedule root", lambda: kernel.call(b0, b1), Stage.SCHEDULE, "is no list of calls"),
    ("schedule root", lambda: UOp.linear(b0), Stage.SCHEDULE, "is no call and no copy"),
    ("schedule root", lambda: UOp.linear(UOp.linear()), Stage.SCHEDULE, "is a list inside the list"),
    ("launches in order", lambda: UOp.linear(b0.copy_to("A").copy_to("B")), Stage.SCHEDULE, "is used and never listed"),
    (
        "launches in order",
        lambda: UOp.linear(b0.copy_to("A").copy_to("B"), b0.copy_to("A")),
        Stage.SCHEDULE,
        "is listed before a call whose result it uses",
    ),
]


def _broken_invariant(node: UOp, stage: Stage) -> VerifyError:
    with pytest.raises(VerifyError) as raised:
        verify(node, stage)
    return raised.value


@pytest.mark.parametrize(("name", "build", "stage", "part"), BROKEN)
def test_a_broken_invariant_is_named_with_its_node_and_stage(
    name: str, build: Callable[[], UOp], stage: Stage, part: str
) -> None:
    error = _broken_invariant(build(), stage)
    assert error.what.startswith(f"verify: {name} is broken at stage {stage.name}: ")
    assert part in error.what
    assert " = " in error.details or error.details == ""
    assert error.fix.startswith("The invariant: ")


def test_every_invariant_has_a_broken_example() -> None:
    assert {name for name, *_ in BROKEN} == {invariant.name for invariant in INVARIANTS}


def test_every_invariant_applies_somewhere_and_says_what_it_demands() -> None:
    names = [invariant.name for invariant in INVARIANTS]
    assert len(set(names)) == len(names)
    for invariant in INVARIANTS:
        assert invariant.stages & EVERYWHERE
        assert invariant.doc.endswith(".")
        assert "\n" not in invariant.doc


def test_every_op_is_refused_at_the_stages_it_does_not_name() -> None:
    for op in ops.OPS.values():
        assert op.stages & EVERYWHERE, op
    (first, *_) = INVARIANTS
    for stage in Stage:
        node = p0.reshape((32,))
        assert bool(list(first.problems(node, [node], stage))) == (stage not in ops.RESHAPE.stages)


def test_the_message_shows_the_surroundings() -> None:
    error = _broken_invariant(p1.store(p0.index(r0, r1), r0), Stage.KERNEL)
    assert str(error).splitlines() == [
        "verify: stored once is broken at stage KERNEL: store writes one place for all values of r1",
        "  p1 = param 1, float32(4,)",
        "  p0 = param 0, float32(4, 8)",
        "  r0 = range 4, id=0, kind=loop",
        "  r1 = range 8, id=1, kind=loop",
        "  %1 = index p0, r0, r1  # float32",
        "  %2 = store p1, %1, r0",
        "  The invariant: A STORE's value varies only with ranges that its positions or gate name or that run in order, or it combines.",  # noqa: E501
    ]
    assert isinstance(error, InternalError)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_mistake_inside_a_function_names_it() -> None:
    bad = p1.store(p0.index(r0, r1), r0).function("bad")
    schedule = UOp.linear(bad.call(UOp.buffer(0, f32, (4, 8)), b1))
    error = _broken_invariant(schedule, Stage.SCHEDULE)
    assert "at stage KERNEL in function 'bad'" in error.what


def test_programs_of_any_length_are_checked_without_recursion() -> None:
    nodes = [p1]
    value = p1.load(0)
    nodes.append(value)
    for _ in range(20_000):
        value = value + 1.0
        nodes.append(value)
    verify(program(*nodes), Stage.PROGRAM)
    nodes[5], nodes[6] = nodes[6], nodes[5]
    assert "sources first" in _broken_invariant(program(*nodes), Stage.PROGRAM).what


def test_invariants_are_records() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        INVARIANTS[0].name = "other"  # type: ignore[misc]


def test_of_an_ordered_range_the_last_value_stays() -> None:
    last = UOp.range(8, 1, RangeKind.ORDERED)
    verify(UOp.group(p1.store(p0.index(r0, last), r0)), Stage.KERNEL)
