"""The proof that accesses are in bounds: by bounds, by trying, by the solver; and what it says when they are not."""

import pytest
from schedule.build import cross_entropy, matmul, param, scheduled, softmax, windows

from whit.codegen import generate
from whit.codegen.passes import check_bounds as module
from whit.codegen.passes.check_bounds import accesses, check_bounds, find_problem
from whit.config import Context
from whit.dtype import dtypes
from whit.errors import InternalError
from whit.ir import ops
from whit.ir.args import Memory
from whit.ir.uop import UOp, const
from whit.target import parse_target

TARGET = parse_target("CPU:LLVM:x86-64-v3")
I64 = dtypes.int64
P = param(0, 17)


def index(value: int) -> UOp:
    return const(I64, value)


def loop(size: int | UOp, id: int = 0) -> UOp:
    return UOp(ops.RANGE, I64, (size if isinstance(size, UOp) else index(size),), UOp.range(1, id).arg)


def stack(*values: int) -> UOp:
    return UOp.stack(*(index(value) for value in values))


def program(*inside: UOp, around: tuple[UOp, ...] = ()) -> UOp:
    """A LINEAR of these accesses inside of loops, with everything that they need listed."""
    listed: dict[UOp, None] = {}
    for opener in around:
        for node in opener.topological():
            if node.op is not ops.CONST:
                listed[node] = None
    for access in inside:
        for node in access.topological():
            if node.op is not ops.CONST:
                listed[node] = None
    return UOp.linear(*listed, *(opener.end() for opener in reversed(around)))


def problem_of(access: UOp, *around: UOp) -> str:
    """What is said about the only access of a program."""
    found = [a for a in accesses(program(access, around=around)) if a.node is access]
    assert len(found) == 1
    return find_problem(found[0])


ONE = const(dtypes.float32, 1.0)


def test_positions_inside_pass_by_their_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "all_points", lambda access: pytest.fail("bounds are enough"))
    r = loop(17)
    assert problem_of(P.load(r), r) == ""
    assert problem_of(P.store(ONE, r), r) == ""
    assert problem_of(P.load(index(1), width=16)) == ""


def test_a_loop_that_runs_once_or_not_at_all_counts_0(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "all_points", lambda access: pytest.fail("bounds are enough"))
    once, r = loop(UOp.variable("n", 0, 1, I64), 1), loop(17)
    assert problem_of(P.load(r + once * 17), once, r) == ""


def test_one_past_the_end_is_found() -> None:
    r = loop(18)
    assert problem_of(P.load(r), r) == "is 17 for r0 = 17, outside of 17 elements"
    assert problem_of(P.store(ONE, r), r) == "is 17 for r0 = 17, outside of 17 elements"


def test_below_zero_is_found() -> None:
    r = loop(3)
    assert problem_of(P.load(r - 1), r) == "is -1 for r0 = 0, outside of 17 elements"


def test_the_end_of_a_vector_counts() -> None:
    assert problem_of(P.load(index(1), width=16)) == ""
    assert "is 17 for its only value" in problem_of(P.load(index(2), width=16))
    vector = UOp.stack(*[ONE] * 4)
    assert "is 17" in problem_of(P.store(vector, index(14)))


def test_gates_are_believed() -> None:
    r = loop(20)
    assert problem_of(P.load(r - 2, gate=(r >= 2) & (r < 19)), r) == ""
    assert "is -1 for r0 = 1" in problem_of(P.load(r - 2, gate=(r >= 1) & (r < 19)), r)
    assert "is 17 for r0 = 19" in problem_of(P.load(r - 2, gate=r >= 2), r)


def test_masks_of_lanes_are_believed() -> None:
    lanes = stack(*range(8))
    assert problem_of(P.load(index(16), width=8, gate=lanes < 1)) == ""
    assert "is 17" in problem_of(P.load(index(16), width=8, gate=lanes < 2))
    assert problem_of(P.load(stack(0, 5, 16, 99), gate=stack(0, 1, 2, 3) < 3)) == ""
    assert "is 99" in problem_of(P.load(stack(0, 5, 16, 99), gate=stack(0, 1, 2, 3) < 4))


def test_loops_that_may_not_run_count() -> None:
    outer = loop(18)
    inside = loop((outer < 17).where(index(1), index(0)), 1)
    assert problem_of(P.load(outer), outer, inside) == ""
    assert "is 17" in problem_of(P.load(outer), outer)
    never = loop(0)
    assert problem_of(P.load(index(99)), never) == ""


def test_conditions_around_count() -> None:
    r = loop(30)
    condition = UOp(ops.IF, None, (r < 17,))
    assert problem_of(P.load(r), r, condition) == ""


def test_variables_take_all_their_values() -> None:
    n = UOp.variable("n", 1, 17, I64)
    r = loop(n)
    assert problem_of(P.load(r), r) == ""
    m = UOp.variable("n", 1, 18, I64)
    r = loop(m)
    assert problem_of(P.load(r), r) == "is 17 for n = 18, r0 = 17, outside of 17 elements"


def test_many_values_are_left_to_the_solver() -> None:
    pytest.importorskip("z3")
    big = param(0, 1000 * 3000)
    a, b = loop(1002, 0), loop(3000, 1)
    inside = (a >= 1) & (a < 1001)
    assert problem_of(big.load((a - 1) * 3000 + b, gate=inside), a, b) == ""
    wrong = (a >= 1) & (a < 1002)
    assert "may be outside: r0 = 1001" in problem_of(big.load((a - 1) * 3000 + b, gate=wrong), a, b)
    divided = (a * 3000 + b) // 3000
    assert problem_of(param(0, 1000).load(divided, gate=divided < 1000), a, b) == ""


def test_positions_from_data_need_a_gate() -> None:
    pytest.importorskip("z3")
    r = loop(5)
    data = param(1, 5, dtype=dtypes.int32).load(r).cast(I64)
    safe = P.load(data, gate=(data >= 0) & (data < 17))
    unsafe = P.load(data)
    assert check_bounds(program(safe, around=(r,))) == []
    (trusted,) = check_bounds(program(unsafe, around=(r,)))
    assert trusted.node is unsafe
    assert problem_of(P.load(data % 17), r) == ""
    longer = loop(18)
    (trusted,) = check_bounds(
        program(P.load(longer, gate=param(1, 18, dtype=dtypes.bool).load(longer)), around=(longer,))
    )
    assert trusted.gate is not None


def test_products_that_wrap_are_not_believed() -> None:
    pytest.importorskip("z3")
    r = loop(5)
    data = param(1, 5, dtype=I64).load(r)
    assert problem_of(P.load(data * 3, gate=(data >= 0) & (data < 5)), r) == ""
    assert problem_of(P.load(data * 3, gate=data < 5), r) != ""


def test_registers_are_memory_too() -> None:
    register = UOp.buffer(0, dtypes.float32, (8,), memory=Memory.REGISTER)
    assert problem_of(register.load(index(0), width=8)) == ""
    assert "outside of 8 elements" in problem_of(register.load(index(1), width=8))


def test_a_planted_access_is_named() -> None:
    """A kernel whose store has lost its gate."""
    r = UOp.range(18, 0)
    body = UOp.group(P.store(param(1, 18).index(r), r))
    with Context(CHECK_OOB=1), pytest.raises(InternalError) as caught:
        generate(body, TARGET, "broken")
    assert "broken" in str(caught.value)
    assert "store at" in str(caught.value)
    assert "outside of 17 elements" in str(caught.value)
    assert "memory: param 0" in str(caught.value)


def test_nothing_is_checked_unless_asked() -> None:
    r = UOp.range(18, 0)
    generate(UOp.group(P.store(param(1, 18).index(r), r)), TARGET)


@pytest.mark.parametrize(
    "value",
    [
        softmax(param(0, 33, 65)),
        matmul(param(0, 65, 33), param(1, 33, 129)),
        windows(param(0, 3, 40), 5).reduce(ops.MAX, (2,)),
        param(0, 300, 500).pad(((3, 1), (0, 7))).permute((1, 0)) * 2.0,
        param(0, 100_003) + 1.0,
        cross_entropy(param(0, 6, 8), param(1, 6, dtype=dtypes.int32)),
    ],
)
def test_kernels_of_whole_graphs_pass(value: UOp) -> None:
    with Context(CHECK_OOB=1):
        for name in ("x86-64", "x86-64-v3", "skylake-avx512"):
            for call in scheduled(value).src:
                generate(call.src[0].src[0], parse_target(f"CPU:LLVM:{name}"))
