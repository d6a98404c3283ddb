"""Loops, memory, vectors and control flow of rendered programs agree with the interpreter, which runs the same list."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from render.cpu_programs import (
    I64,
    RENDERERS,
    Compile,
    array_of,
    assert_same,
    by_llvm,
    call,
    index,
    listed,
    sample_arrays,
)
from whit.dtype import DType, dtypes
from whit.errors import InternalError, NotSupportedError
from whit.ir import ops
from whit.ir.args import Memory, RangeKind
from whit.ir.check.verify import verify
from whit.ir.interpret import numpy_dtype, run
from whit.ir.op import Op, Stage
from whit.ir.uop import UOp, const, make
from whit.render.c.text import render_c
from whit.render.llvm.text import render_llvm
from whit.target import parse_target

pytestmark = pytest.mark.slow  # many programs are compiled

F32, I32, BOOL = dtypes.float32, dtypes.int32, dtypes.bool
SUMMED = (dtypes.int8, dtypes.int32, dtypes.int64, dtypes.uint8, dtypes.uint16, F32, dtypes.float64, dtypes.float16)


def check(compile: Compile, linear: UOp, arrays: dict[UOp, Any], variables: dict[UOp, int] | None = None) -> None:
    """Runs a program both ways on copies of the arrays, and compares all memory afterwards."""
    verify(linear, Stage.PROGRAM)
    variables = variables or {}
    expected = {param: array.copy() for param, array in arrays.items()}
    run(linear, {**expected, **variables})
    result = {param: array.copy() for param, array in arrays.items()}
    by_slot = sorted(result, key=lambda param: param.arg.slot)
    assert [param.arg.slot for param in by_slot] == list(range(len(by_slot)))
    numbers = [variables[v] for v in sorted(variables, key=lambda v: v.arg.name)]
    core = [node for node in linear.src if node.op is ops.RANGE and node.arg.kind is RangeKind.CORE]
    stop = core[0].src[0].arg if core else 1
    call(compile({"kernel": linear}), "kernel", [result[param] for param in by_slot], numbers, 0, stop)
    for param in by_slot:
        assert_same(param.dtype, result[param], expected[param], f"slot {param.arg.slot}")


def ramp(dtype: DType, count: int, scale: float = 1) -> Any:
    """Small different numbers."""
    return ((np.arange(count) * 7 % 23 - 5) * scale).astype(np.float64).astype(numpy_dtype(dtype))


@pytest.mark.parametrize("compile", RENDERERS)
@pytest.mark.parametrize("dtype", [F32, I32, dtypes.bfloat16, dtypes.fp8e4m3], ids=lambda d: d.name)
def test_a_loop_sums_into_a_register(compile: Compile, dtype: DType) -> None:
    out, x = UOp.param(0, dtype, (3,)), UOp.param(1, dtype, (60,))
    outer, inner = UOp.range(index(3), 0), UOp.range(index(20), 1, RangeKind.REDUCE)
    acc = UOp.buffer(0, dtype, (1,), memory=Memory.REGISTER)
    start = acc.after(outer).store(const(dtype, 0), 0)
    old = acc.after(start, inner).load(0)
    step = acc.store(old + x.load(outer * 20 + inner), 0)
    end = inner.end()
    total = acc.after(end).load(0)
    linear = listed(out, x, acc, outer, start, inner, step, end, out.store(total, outer), outer.end())
    check(compile, linear, {out: ramp(dtype, 3), x: ramp(dtype, 60)})


@pytest.mark.parametrize("compile", RENDERERS)
@pytest.mark.parametrize("width", [4, 16])
def test_vector_accumulators_are_added_up_in_the_end(compile: Compile, width: int) -> None:
    out, x, y = (UOp.param(i, F32, (n,)) for i, n in enumerate((1, 12 * width, 12 * width)))
    loop = UOp.range(index(6), 0, RangeKind.REDUCE)
    acc = UOp.buffer(0, F32, (2 * width,), memory=Memory.REGISTER)
    zero = UOp.stack(*[const(F32, 0.0)] * width)
    starts = [acc.store(zero, half * width) for half in (0, 1)]
    steps = []
    for half in (0, 1):
        place = loop * (2 * width) + half * width
        old = acc.after(*starts, loop).load(half * width, width)
        steps.append(acc.store(x.load(place, width).fma(y.load(place, width), old), half * width))
    end = loop.end()
    both = acc.after(end).load(0, width) + acc.after(end).load(width, width)
    total = both.reduce(ops.ADD, (0,))
    linear = listed(out, x, y, acc, *starts, loop, *steps, end, out.store(total, index(0)))
    check(compile, linear, {out: ramp(F32, 1), x: ramp(F32, 12 * width), y: ramp(F32, 12 * width, 0.5)})


@pytest.mark.parametrize("compile", RENDERERS)
@pytest.mark.parametrize("op", ops.REDUCERS, ids=lambda op: op.name)
def test_horizontal_reductions(compile: Compile, op: Op) -> None:
    bits = op in (ops.AND, ops.OR)
    kinds = (BOOL, I32, dtypes.uint8, I64) if bits else SUMMED
    nodes: list[UOp] = []
    arrays = {}
    for dtype in kinds:
        for width in (2, 3, 7, 8, 16):
            x, out = UOp.param(len(arrays), dtype, (width,)), UOp.param(len(arrays) + 1, dtype, (1,))
            scale = 0.25 if dtype.is_float else 1
            (corners,) = sample_arrays((dtype,), width)
            # sums and products of floats may be taken in any order, so theirs are exact
            arrays[x] = ramp(dtype, width, scale) if dtype.is_float and op in (ops.ADD, ops.MUL) else corners
            arrays[out] = ramp(dtype, 1)
            nodes += [x, out, out.store(x.load(index(0), width).reduce(op, (0,)), index(0))]
    signed_zero_is_free = op in (ops.MAX, ops.MIN)
    if signed_zero_is_free:
        arrays = {p: a + a.dtype.type(0) if p.dtype in (F32, dtypes.float64) else a for p, a in arrays.items()}
    check(compile, listed(*nodes), arrays)


@pytest.mark.parametrize("compile", RENDERERS)
def test_a_sum_of_negative_zeros_is_zero(compile: Compile) -> None:
    x, out = UOp.param(0, F32, (4,)), UOp.param(1, F32, (1,))
    linear = listed(x, out, out.store(x.load(index(0), 4).reduce(ops.ADD, (0,)), index(0)))
    check(compile, linear, {x: np.full(4, -0.0, np.float32), out: np.ones(1, np.float32)})


# ---- gates, gathers, scatters


def _gates(count: int) -> list[UOp]:
    """A gate that varies, given in slot 0."""
    return [UOp.param(0, BOOL, (count,))]


@pytest.mark.parametrize("compile", RENDERERS)
@pytest.mark.parametrize("dtype", [F32, BOOL, dtypes.int8, dtypes.float64, dtypes.float16], ids=lambda d: d.name)
@pytest.mark.parametrize("width", [1, 3, 8])
def test_gated_loads_give_zero_and_read_nothing(compile: Compile, dtype: DType, width: int) -> None:
    (gates,) = _gates(24)
    x, one, many = (UOp.param(i, dtype, (n,)) for i, n in ((1, 24), (2, 24), (3, 24)))
    loop = UOp.range(index(24 // width), 0)
    place = loop * width
    far = (loop < 24 // width - 1).where(place, index(1 << 50))  # outside, where the gate is false
    scalar = x.load(far, width, loop < 24 // width - 1)
    mask = gates.load(place, width)
    vector = x.load(place, width, mask)
    linear = listed(gates, x, one, many, loop, one.store(scalar, place), many.store(vector, place), loop.end())
    flags = np.arange(24) % 3 != 0
    check(
        compile, linear, {gates: flags, x: sample_arrays((dtype,), 24)[0], one: ramp(dtype, 24), many: ramp(dtype, 24)}
    )


@pytest.mark.parametrize("compile", RENDERERS)
@pytest.mark.parametrize("dtype", [F32, BOOL, dtypes.int8, dtypes.int64, dtypes.bfloat16], ids=lambda d: d.name)
@pytest.mark.parametrize("width", [1, 3, 8])
def test_gated_stores_leave_the_rest_alone(compile: Compile, dtype: DType, width: int) -> None:
    (gates,) = _gates(24)
    x, one, many = (UOp.param(i, dtype, (24,)) for i in (1, 2, 3))
    loop = UOp.range(index(24 // width), 0)
    place = loop * width
    value = x.load(place, width)
    far = (loop < 2).where(place, index(1 << 50))
    stores = [
        one.store(value, far, gate=loop < 2),
        many.store(value, place, gate=gates.load(place, width)),
    ]
    linear = listed(gates, x, one, many, loop, *stores, loop.end())
    given = {gates: np.arange(24) % 3 != 0, x: sample_arrays((dtype,), 24)[0]}
    check(compile, linear, {**given, one: ramp(dtype, 24), many: ramp(dtype, 24)})


@pytest.mark.parametrize("compile", RENDERERS)
@pytest.mark.parametrize("dtype", [F32, BOOL, dtypes.int16, dtypes.float64, dtypes.fp8e5m2], ids=lambda d: d.name)
@pytest.mark.parametrize("kind", [I32, I64, dtypes.uint32, dtypes.uint8], ids=lambda d: d.name)
def test_gathers_and_scatters(compile: Compile, dtype: DType, kind: DType) -> None:
    places, x, gathered, masked, scattered = (UOp.param(i, kind if i == 0 else dtype, (24,)) for i in range(5))
    loop = UOp.range(index(3), 0)
    start = loop * 8
    positions = places.load(start, 8)
    inside = positions < const(kind, 20)
    stores = [
        gathered.store(x.load(positions), start),
        masked.store(x.load(positions, gate=inside), start, gate=loop < 2),
        scattered.store(x.load(start, 8), positions, gate=None if kind.is_unsigned else inside),
    ]
    linear = listed(places, x, gathered, masked, scattered, loop, *stores, loop.end())
    order = np.random.default_rng(1).integers(0, 24, 24).astype(numpy_dtype(kind))
    (values,) = sample_arrays((dtype,), 24)
    rest = {buffer: ramp(dtype, 24) for buffer in (gathered, masked, scattered)}
    check(compile, linear, {places: order, x: values, **rest})


@pytest.mark.parametrize("compile", RENDERERS)
def test_a_scalar_goes_to_many_positions(compile: Compile) -> None:
    places, out = UOp.param(0, I64, (4,)), UOp.param(1, F32, (8,))
    store = out.store(const(F32, 2.5), places.load(index(0), 4), gate=places.load(index(0), 4) < 5)
    check(compile, listed(places, out, store), {places: np.array([7, 1, 4, 4]), out: ramp(F32, 8)})


COMBINED = [(op, dtype) for op in ops.REDUCERS for dtype in (F32, I32, dtypes.uint8, dtypes.bfloat16, BOOL)]
COMBINED = [
    (op, dtype)
    for op, dtype in COMBINED
    if (not dtype.is_bool and not dtype.is_float) or dtype.is_bool == (op in (ops.AND, ops.OR))
]


@pytest.mark.parametrize("compile", RENDERERS)
@pytest.mark.parametrize("gated", [False, True])
def test_combining_stores_take_every_lane(compile: Compile, gated: bool) -> None:
    """At equal positions too: scalars, neighbours and scattered lanes."""
    for op, dtype in COMBINED:
        places, x, one, row, some, gates = (
            UOp.param(i, k, (16,)) for i, k in enumerate((I64, dtype, dtype, dtype, dtype, BOOL))
        )
        loop = UOp.range(index(2), 0)
        start = loop * 8
        value, positions, mask = x.load(start, 8), places.load(start, 8), gates.load(start, 8)
        stores = [
            one.store(x.load(start), index(3), combine=op, gate=gates.load(start) if gated else None),
            row.store(value, index(4), combine=op, gate=mask if gated else None),
            some.store(value, positions, combine=op, gate=mask if gated else None),
        ]
        linear = listed(places, x, one, row, some, gates, loop, *stores, loop.end())
        arrays = {places: np.array([1, 1, 2, 3, 1, 9, 9, 9, 0, 0, 1, 2, 3, 4, 5, 5]), gates: np.arange(16) % 3 != 1}
        arrays |= {buffer: ramp(dtype, 16) for buffer in (x, one, row, some)}
        check(compile, linear, arrays)


def test_atomic_stores_can_be_asked_for() -> None:
    places, x, out = UOp.param(0, I64, (8,)), UOp.param(1, F32, (8,)), UOp.param(2, F32, (4,))
    store = out.store(x.load(index(0), 8), places.load(index(0), 8), combine=ops.ADD)
    target = parse_target("CPU")
    text = render_llvm({"kernel": listed(places, x, out, store)}, target, atomic=True)
    assert text.count("atomicrmw fadd ptr") == 8
    row = out.store(x.load(index(0), 4), index(0), combine=ops.ADD)
    assert render_llvm({"kernel": listed(x, out, row)}, target, atomic=True).count("atomicrmw fadd ptr") == 4
    store = out.store(x.load(index(0)), index(0), combine=ops.MUL)
    with pytest.raises(NotSupportedError, match="mul of float32 is not atomic"):
        render_llvm({"kernel": listed(x, out, store)}, target, atomic=True)
    small = UOp.param(0, dtypes.bfloat16, (4,))
    store = small.store(const(dtypes.bfloat16, 1.0), index(0), combine=ops.ADD)
    with pytest.raises(NotSupportedError, match="add of bfloat16 is not atomic"):
        render_llvm({"kernel": listed(small, store)}, target, atomic=True)


# ---- control flow, variables, cores


@pytest.mark.parametrize("compile", RENDERERS)
@pytest.mark.parametrize("size", [0, 1, 5])
def test_loops_run_as_often_as_a_variable_says(compile: Compile, size: int) -> None:
    m, n = UOp.variable("m", 0, 9, I64), UOp.variable("n", 0, 9, I32)
    out = UOp.param(0, I32, (9,))
    loop = UOp.range(n, 0)
    linear = listed(out, m, n, loop, out.store(loop + m.cast(I32), loop), loop.end())
    check(compile, linear, {out: ramp(I32, 9)}, {m: 4, n: size})


@pytest.mark.parametrize("compile", RENDERERS)
def test_if_skips_its_block_and_blocks_nest(compile: Compile) -> None:
    x, out = UOp.param(0, I32, (10,)), UOp.param(1, I32, (10,))
    loop = UOp.range(index(10), 0)
    value = x.load(loop)
    positive = make(ops.IF, (value > 0,))
    odd = make(ops.IF, ((value & 1).eq(1),))
    stores = [out.store(value * 2, loop), out.store(value * 3, loop)]
    nodes = (x, out, loop, value, positive, stores[0], odd, stores[1], odd.end(), positive.end(), loop.end())
    check(compile, listed(*nodes), {x: ramp(I32, 10), out: ramp(I32, 10)})


@pytest.mark.parametrize("compile", RENDERERS)
@pytest.mark.parametrize("kind", [I32, I64], ids=lambda d: d.name)
def test_cores_share_the_outermost_range(compile: Compile, kind: DType) -> None:
    out = UOp.param(0, kind, (20,))
    core = UOp.range(const(kind, 20), 0, RangeKind.CORE)
    linear = listed(out, core, out.store(core * 3, core), core.end())
    check(compile, linear, {out: ramp(kind, 20)})
    result = np.zeros(20, numpy_dtype(kind))
    library = compile({"kernel": linear})
    call(library, "kernel", [result], start=5, stop=8)
    call(library, "kernel", [result], start=9, stop=9)
    assert result.tolist() == [i * 3 if 5 <= i < 8 else 0 for i in range(20)]


@pytest.mark.parametrize("compile", RENDERERS)
def test_panels_are_filled_and_read_at_any_position(compile: Compile) -> None:
    x, out = UOp.param(0, F32, (32,)), UOp.param(1, F32, (32,))
    panel = UOp.buffer(0, F32, (32,), memory=Memory.SHARED)
    i, j = UOp.range(index(4), 0), UOp.range(index(32), 1)
    fill = panel.store(x.load(i * 8, 8), (const(I64, 3) - i) * 8)
    end = i.end()
    read = panel.after(end).load((j * 5) % 32)
    check(
        compile,
        listed(x, out, panel, i, fill, end, j, out.store(read, j), j.end()),
        {x: ramp(F32, 32), out: ramp(F32, 32)},
    )


@pytest.mark.parametrize("compile", RENDERERS)
@pytest.mark.parametrize("dtype", [F32, BOOL, dtypes.uint8, dtypes.float16], ids=lambda d: d.name)
def test_lanes_are_taken_out_put_together_and_mixed(compile: Compile, dtype: DType) -> None:
    x, out = UOp.param(0, dtype, (8,)), UOp.param(1, dtype, (12,))
    loop = UOp.range(index(4), 0)
    vector = x.load(index(0), 4)
    lanes = [vector.index(const(I64, lane)) for lane in (3, 1, 0)]
    built = UOp.stack(*lanes, const(dtype, 1))
    same = UOp.stack(*[lanes[0]] * 4)
    dynamic = vector.index(loop)
    nodes = (x, out, out.store(built, index(0)), out.store(same, index(4)))
    linear = listed(*nodes, loop, out.store(dynamic, loop + 8), loop.end())
    check(compile, linear, {x: sample_arrays((dtype,), 8)[0], out: ramp(dtype, 12)})


@pytest.mark.parametrize("compile", RENDERERS)
def test_scalars_and_vectors_mix(compile: Compile) -> None:
    x, s, out = UOp.param(0, F32, (8,)), UOp.param(1, F32, (1,)), UOp.param(2, F32, (24,))
    vector, scalar = x.load(index(0), 8), s.load(index(0))
    values = [
        (vector * scalar).maximum(scalar) + 1.0,
        (vector < scalar).where(scalar, vector),
        (scalar < 0.0).where(vector, const(F32, 7.0)),
    ]
    stores = [out.store(value, index(8 * i)) for i, value in enumerate(values)]
    check(compile, listed(x, s, out, *stores), {x: ramp(F32, 8), s: ramp(F32, 1), out: ramp(F32, 24)})


@pytest.mark.parametrize("compile", RENDERERS)
def test_small_floats_converted_in_a_loop_can_be_used_after_it(compile: Compile) -> None:
    half = dtypes.bfloat16
    x, out = UOp.param(0, half, (1,)), UOp.param(1, half, (5,))
    loop = UOp.range(index(4), 0)
    value = x.load(index(0))
    inside, outside = out.store(value + value, loop), out.store(value * value, index(4))
    linear = listed(x, out, value, loop, inside, loop.end(), outside)
    check(compile, linear, {x: array_of(half, [1.5]), out: ramp(half, 5)})


# ---- what is refused, and what the text looks like

MASK = UOp.stack(const(BOOL, True), const(BOOL, False))


@pytest.mark.parametrize("render", [render_llvm, render_c], ids=["llvm", "c"])
@pytest.mark.parametrize(
    "program, message",
    [
        (UOp.linear(UOp.range(4, 0)), "has no size"),
        (UOp.linear(UOp.range(index(4), 0, RangeKind.LANE)), "is no loop"),
        (UOp.linear(UOp.range(index(4), 0), UOp.range(index(4), 1, RangeKind.CORE)), "is inside another block"),
        (const(I64, 1), "is no list of instructions"),
        (UOp.linear(UOp.buffer(0, F32, (4,))), "is no flat memory of the function"),
        (UOp.linear(X := UOp.param(0, F32, (4,)), X.load(index(0), gate=MASK)), "in an access of 1 lanes"),
        (UOp.linear(X, X.store(const(F32, 1.0), index(0), gate=MASK)), "in an access of 1 lanes"),
    ],
)
def test_programs_that_break_the_conventions_are_refused(
    render: Callable[..., str], program: UOp, message: str
) -> None:
    with pytest.raises(InternalError, match=message):
        render({"kernel": program}, parse_target("CPU"))


GOLDEN = """\
; double for CPU:LLVM:x86-64-v3
target triple = "x86_64-unknown-linux-gnu"

define void @double(ptr noalias readonly %buffers, ptr noalias readonly %variables, i64 %start, i64 %stop) nounwind {
entry:
  %p0.at.1 = getelementptr inbounds ptr, ptr %buffers, i64 0
  %p0 = load ptr, ptr %p0.at.1, align 8
  br label %r0.loop
r0.loop:
  %r0 = phi i64 [ 0, %entry ], [ %r0.next, %r0.latch ]
  %mul.2 = mul i64 %r0, 8
  %at.3 = getelementptr inbounds float, ptr %p0, i64 %mul.2
  %load.4 = load <8 x float>, ptr %at.3, align 4
  %mul.5 = fmul <8 x float> %load.4, splat (float 2.0)
  %at.6 = getelementptr inbounds float, ptr %p0, i64 %mul.2
  store <8 x float> %mul.5, ptr %at.6, align 4
  br label %r0.latch
r0.latch:
  %r0.next = add nuw nsw i64 %r0, 1
  %r0.more = icmp slt i64 %r0.next, 100
  br i1 %r0.more, label %r0.loop, label %r0.end
r0.end:
  ret void
}
"""


def test_text_of_a_small_kernel() -> None:
    x = UOp.param(0, F32, (800,))
    loop = UOp.range(index(100), 0)
    linear = listed(x, loop, x.store(x.load(loop * 8, 8) * 2.0, loop * 8), loop.end())
    assert render_llvm({"double": linear}, parse_target("CPU:LLVM:x86-64-v3")).strip() == GOLDEN.strip()


def test_many_programs_share_a_module() -> None:
    x = UOp.param(0, F32, (4,))
    programs = {f"add{i}": listed(x, x.store(x.load(index(0), 4).sqrt() + float(i), index(0))) for i in range(5)}
    library = by_llvm(programs)
    data = np.ones(4, np.float32)
    for name in library.names:
        call(library, name, [data])
    assert library.names == tuple(programs)
