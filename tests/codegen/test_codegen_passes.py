"""Each pass of the code generator by itself: a small kernel before and after."""

import pytest
from schedule.build import matmul, param, scheduled, total

from whit.codegen.cpu.loops import LoopStrategy, choose_strategy
from whit.codegen.math.expand import EXPAND_MATH, EXPAND_MATH_ON_GPU, WIDEN_FUNCTIONS
from whit.codegen.passes.flatten import FLATTEN, flat_position, read_scalar_params
from whit.codegen.passes.index_dtype import fix_index_dtype
from whit.codegen.passes.lanes import lane_numbers, masked
from whit.codegen.passes.linearise import linearise, separate_loops
from whit.codegen.passes.merge_ranges import merge_ranges
from whit.codegen.passes.simplify_lanes import simplify_lanes
from whit.codegen.passes.vector_access import VECTOR_ACCESS, is_count, is_first_lane, start_of_neighbours
from whit.codegen.pipeline import MATH, PASSES, backend_of, generate
from whit.codegen.strategy.apply import apply_strategy, split
from whit.config import Context
from whit.dtype import dtypes
from whit.errors import InternalError
from whit.ir import ops
from whit.ir.args import RangeKind
from whit.ir.rewrite import rewrite
from whit.ir.rules import Rules
from whit.ir.text.write import to_text
from whit.ir.uop import UOp, const
from whit.kernel.ranges import free_ranges, in_order, regions, replace_ranges, scanned_ranges, stride
from whit.simplify import simplify
from whit.target import parse_target

TARGET = parse_target("CPU:LLVM:x86-64-v3")
R0, R1 = UOp.range(6, 0), UOp.range(8, 1)
P0, P1 = param(0, 6, 8), param(1, 6, 8)
COPY = UOp.group(P0.store(P1.index(R0, R1), R0, R1))


def flat(body: UOp) -> UOp:
    return simplify(rewrite(read_scalar_params(body), FLATTEN, once=True))


def kernel(value: UOp) -> UOp:
    (call,) = scheduled(value).src
    return flat(call.src[0].src[0])


def positions(body: UOp) -> list[str]:
    return [node.src[2].expression() for node in body.src]


# ---- flatten


def test_flatten_gives_every_access_one_position() -> None:
    assert to_text(flat(COPY), types=False) == (
        "p0 = param 0, float32(48,)\n"
        "p1 = param 1, float32(48,)\n"
        "r0 = range 6, id=0, kind=loop\n"
        "%1 = mul r0, 8\n"
        "r1 = range 8, id=1, kind=loop\n"
        "%2 = add %1, r1\n"
        "%3 = index p1, %2\n"
        "%4 = store p0, %3, %2\n"
        "group %4"
    )


def test_flatten_keeps_gates() -> None:
    gate = R0 < 3
    body = flat(UOp.group(P0.store(P1.index(R0, R1, gate=gate), R0, R1)))
    (load,) = [node for node in body.topological() if node.op is ops.INDEX]
    assert load.arg
    assert load.src[2] is gate


def test_flatten_reads_a_param_without_axes_at_zero() -> None:
    body = flat(UOp.group(param(0).store(param(1) * 2.0)))
    assert positions(body) == ["0"]
    (load,) = [node for node in body.topological() if node.op is ops.INDEX]
    assert load.src[1].arg == 0


def test_flat_position_of_a_symbolic_axis() -> None:
    n = UOp.variable("n", 1, 9)
    assert simplify(flat_position((4, n), (R0, R1))).expression() in ("r0*n + r1", "r1 + r0*n")


# ---- merge_ranges


def test_ranges_that_are_walked_as_one_become_one() -> None:
    merged = merge_ranges(flat(COPY))
    (r,) = [node for node in merged.topological() if node.op is ops.RANGE]
    assert r.size == 48
    assert positions(merged) == ["r0"]


def test_ranges_of_a_transposition_stay() -> None:
    body = kernel(param(0, 6, 8).permute((1, 0)) * 2.0)
    assert merge_ranges(body) is body


def test_ranges_of_a_symbolic_axis_times_a_number_stay_where_they_are_not_walked_as_one() -> None:
    n = UOp.variable("n", 1, 64)
    left, right = (UOp.param(slot, dtypes.float32, shape) for slot, shape in ((1, (n * 4, 1)), (2, (1, 6))))
    body = kernel(left.expand((n * 4, 6)) + right.expand((n * 4, 6)))
    assert merge_ranges(body) is body


def test_ranges_that_are_reduced_together_become_one() -> None:
    merged = merge_ranges(kernel(param(0, 6, 8).reduce(ops.ADD, (0, 1))))
    (r,) = [node for node in merged.topological() if node.op is ops.RANGE]
    assert (r.size, r.arg.kind) == (48, RangeKind.REDUCE)


def test_the_range_of_a_scan_stays() -> None:
    body = kernel(param(0, 6, 8).scan(ops.ADD, 1))
    assert len([node for node in merge_ranges(body).topological() if node.op is ops.RANGE]) == 2


# ---- ranges


def test_free_ranges_are_those_that_nothing_binds() -> None:
    body = kernel(total(param(0, 6, 8)))
    free = free_ranges(body)
    (reduce,) = [node for node in body.topological() if node.op is ops.REDUCE]
    assert free[reduce] == {R0}
    assert free[reduce.src[0]] == {R0, *reduce.src[1:]}


def test_strides_are_coefficients() -> None:
    position = R0 * 8 + R1
    free = free_ranges(position)
    assert [stride(position, r, free) for r in (R0, R1, UOp.range(3, 7))] == [8, 1, 0]
    divided = R0 // 2 + R1
    assert stride(divided, R0, free_ranges(divided)) is None


def test_ranges_of_scans_are_innermost() -> None:
    body = kernel(param(0, 6, 8).scan(ops.ADD, 0))
    assert [r.arg.id for r in in_order(free_ranges(body)[body], scanned_ranges(body))] == [1, 0]


def test_regions_end_at_reductions() -> None:
    outside, inside = regions(kernel(matmul(param(0, 6, 8), param(1, 8, 5)) + param(2, 6, 5)))
    assert (len(outside.loads), len(inside.loads)) == (1, 2)


def test_replaced_ranges_are_bound_anew() -> None:
    body = kernel(total(param(0, 6, 8)))
    (reduce,) = [node for node in body.topological() if node.op is ops.REDUCE]
    (old,) = reduce.src[1:]
    new = UOp.range(8, 77, RangeKind.REDUCE)
    replaced = replace_ranges(body, {old: new}, {old: (new,)})
    assert old not in replaced.topological()
    assert new in replaced.topological()


# ---- strategy


@pytest.mark.parametrize(("size", "width", "unroll"), [(100, 16, 2), (15, 16, 1), (64, 16, 4), (7, 1, 4), (1, 8, 1)])
def test_a_split_covers_everything_once(size: int, width: int, unroll: int) -> None:
    main, vectors, rest = split(size, width, unroll)
    assert main * width * unroll + vectors * width + rest == size
    assert rest < width * (unroll if width == 1 else 1)


def test_lanes_go_along_the_neighbours() -> None:
    body = kernel(param(0, 60, 80) * 2.0 + param(1, 60, 80))
    assert [r.arg.id for r in choose_strategy(body, TARGET).lanes] == [1]


def test_a_matmul_has_a_register_tile() -> None:
    body = kernel(matmul(param(0, 64, 64), param(1, 64, 64)))
    strategy = choose_strategy(body, TARGET)
    assert len(strategy.lanes) == 1
    assert len(strategy.unroll) == 2
    assert "contraction" in str(strategy)


@pytest.mark.parametrize("axis", (0, 1))
def test_lanes_of_a_scan_are_neighbours_and_it_has_no_cores_along_it(axis: int) -> None:
    body = kernel(param(0, 400, 300).scan(ops.ADD, axis))
    strategy = choose_strategy(body, TARGET)
    assert [r.arg.id for r in strategy.lanes] == [1]
    assert strategy.core is not None
    assert strategy.core not in scanned_ranges(body)


def test_applying_nothing_changes_only_names() -> None:
    body = flat(COPY)
    applied = apply_strategy(body, LoopStrategy(order=in_order(free_ranges(body)[body])))
    assert positions(simplify(applied)) == ["piece18*8 + piece34"]


def test_lanes_are_vectors_and_the_rest_is_masked() -> None:
    body = flat(UOp.group(param(0, 20).store(param(1, 20).index(UOp.range(20, 0)), UOp.range(20, 0))))
    (r,) = free_ranges(body)[body]
    main, rest = simplify(apply_strategy(body, LoopStrategy(lanes={r: 8}, order=[r]))).src
    assert main.src[2].shape == (8,)
    assert not main.arg.gated
    assert rest.arg.gated
    assert rest.src[3] is (lane_numbers(8) < 4)


def test_masks_do_not_enter_horizontal_reductions() -> None:
    vector = param(1, 20).index(lane_numbers(8))
    body = UOp.group(param(0, 20).store(vector.reduce(ops.ADD, (0,)), lane_numbers(8)))
    result = masked(body, lane_numbers(8) < 3)
    (load,) = [node for node in result.topological() if node.op is ops.INDEX]
    assert not load.arg


# ---- vector_access


def test_neighbours_are_one_access() -> None:
    assert start_of_neighbours(R0 * 8 + lane_numbers(4) + 3).expression() == "r0*8 + 3"
    assert start_of_neighbours(R0 + lane_numbers(4) * 8) is None
    assert start_of_neighbours(lane_numbers(4) + lane_numbers(4)) is None
    assert is_count(lane_numbers(4))
    assert not is_count(UOp.stack(*(const(dtypes.weakint, i) for i in (0, 2))))


def test_loads_of_neighbours_and_gathers() -> None:
    flat_param = param(1, 48)
    near = rewrite(flat_param.index(R0 * 8 + lane_numbers(4)), VECTOR_ACCESS, once=True)
    assert (near.op, near.arg, near.shape) == (ops.LOAD, 4, (4,))
    far = rewrite(flat_param.index(R0 + lane_numbers(4) * 8), VECTOR_ACCESS, once=True)
    assert (far.op, far.arg, far.shape) == (ops.LOAD, 1, (4,))


def test_what_repeats_neighbours_is_loaded_once() -> None:
    position, lanes = R0 * 8 + lane_numbers(4) // 2, lane_numbers(4)
    spread = rewrite(param(1, 48).index(position), VECTOR_ACCESS, once=True)
    assert (spread.op, spread.arg, spread.src[0].arg) == (ops.SHUFFLE, (0, 0, 1, 1), 2)
    half = rewrite(param(1, 48).index(position, gate=lanes < 2), VECTOR_ACCESS, once=True)
    assert to_text(half.src[0].src[2]) == to_text(simplify(lane_numbers(2) < 1))
    for gate in (lanes < 3, lanes < R1, R1 < 3):  # not whole pairs, not known
        load = rewrite(param(1, 48).index(position, gate=gate), VECTOR_ACCESS, once=True)
        assert (load.op, load.arg) == (ops.LOAD, 1)


def test_one_element_for_some_lanes_has_the_shape_of_the_gate() -> None:
    gated = param(1, 48).index(R0, gate=lane_numbers(4) < 2)
    load = rewrite(gated, VECTOR_ACCESS, once=True)
    assert load.shape == gated.shape == (4,)


def test_a_store_of_the_first_lane_only_is_a_scalar_one() -> None:
    value = param(1, 48).index(lane_numbers(4))
    one = lane_numbers(4) < 1
    assert is_first_lane(one)
    assert not is_first_lane(lane_numbers(4) < 2)
    store = rewrite(param(0, 48).store(value, R0 + lane_numbers(4), gate=one), VECTOR_ACCESS, once=True)
    assert not store.arg.gated
    assert store.src[1].shape == ()


def test_a_scalar_is_stored_into_every_lane() -> None:
    store = rewrite(param(0, 48).store(const(dtypes.float32, 1.0), R0 + lane_numbers(4)), VECTOR_ACCESS, once=True)
    assert store.src[1].shape == (4,)


# ---- index_dtype


def test_every_index_is_int64() -> None:
    n = UOp.variable("n", 1, 9)
    body = fix_index_dtype(UOp.group(param(0, 48).store(param(1, 48).index(R0 * n), R0 + R1)))
    assert all(node.dtype is not dtypes.weakint for node in body.topological())


# ---- linearise


def test_loops_nest_as_stores_ask_for() -> None:
    linear = linearise(fix_index_dtype(rewrite(flat(COPY), VECTOR_ACCESS, once=True)))
    assert [node.op.name for node in linear.src] == [
        *("param", "param", "range", "mul", "range", "add", "load", "store", "end", "end")
    ]


def test_ranges_that_do_not_nest_are_an_error() -> None:
    a, b, c = (UOp.range(2, i) for i in range(3))
    flat_param = param(0, 48)
    one = const(dtypes.float32, 1.0)
    body = UOp.group(flat_param.store(one, a * 4 + b), flat_param.store(one, a * 4 + c), flat_param.store(one, b + c))
    with pytest.raises(InternalError, match="do not nest"):
        linearise(fix_index_dtype(body))


def test_reductions_inside_of_different_loops_have_ranges_of_their_own() -> None:
    k = UOp.range(8, 1000, RangeKind.REDUCE)
    row = param(1, 48).index(R0 * 8 + k)
    alone = row.reduce(ops.ADD, ranges=(k,))
    inside = (row * param(2, 64).index(R1 * 8 + k)).reduce(ops.ADD, ranges=(k,))
    both = UOp.group(param(0, 48).store(alone + inside, R0 * 8 + R1))
    bound = [node.src[1] for node in separate_loops(both).topological() if node.op is ops.REDUCE]
    assert len(set(bound)) == 2
    assert linearise(fix_index_dtype(rewrite(both, VECTOR_ACCESS, once=True))).op is ops.LINEAR


def test_a_range_under_other_ranges_of_its_reduction_is_another_loop() -> None:
    j, k = UOp.range(4, 1000, RangeKind.REDUCE), UOp.range(8, 1001, RangeKind.REDUCE)
    both = param(1, 32).index(j * 8 + k).reduce(ops.ADD, ranges=(j, k))
    one = param(2, 8).index(k).reduce(ops.ADD, ranges=(k,))
    separated = separate_loops(UOp.group(param(0, 1).store(both + one, const(dtypes.weakint, 0))))
    outer, inner = (node.src[1:] for node in separated.topological() if node.op is ops.REDUCE)
    assert not set(outer) & set(inner)


def test_reductions_inside_of_the_same_loops_share_theirs() -> None:
    body = kernel(total(param(0, 6, 8)) * param(0, 6, 8).reduce(ops.MAX, (1,)))
    assert separate_loops(body) is body


# ---- simplify_lanes


def test_a_horizontal_sum_keeps_its_lanes() -> None:
    vector = param(1, 48).index(lane_numbers(4)).cast(dtypes.int32) * 0
    (store,) = simplify_lanes(UOp.group(param(0, 1, dtype=dtypes.int32).store(vector.reduce(ops.ADD, (0,)), 0))).src
    assert store.src[1].op is ops.REDUCE
    assert store.src[1].src[0].shape == (4,)


def test_products_are_fused_into_sums_where_the_target_can() -> None:
    body = kernel(total(param(0, 6, 8) * param(1, 6, 8)))
    body = fix_index_dtype(rewrite(body, VECTOR_ACCESS, once=True))
    assert any(node.op is ops.FMA for node in linearise(body, has_fma=True).src)
    assert not any(node.op is ops.MUL and node.dtype.is_float for node in linearise(body, has_fma=True).src)
    assert not any(node.op is ops.FMA for node in linearise(body, has_fma=False).src)


# ---- pipeline


def test_passes_say_why_they_stand_there() -> None:
    assert len({step.name for step in PASSES}) == len(PASSES)
    assert all(step.why for step in PASSES)


@pytest.mark.parametrize("target", ["CPU:LLVM:haswell", "NULL:PTX:sm_90a"])
def test_strategies_say_why_they_stand_there(target: str) -> None:
    strategies = backend_of(parse_target(target)).strategies
    assert len({strategy.name for strategy in strategies}) == len(strategies)
    assert all(strategy.why for strategy in strategies)


@pytest.mark.parametrize("rules", [WIDEN_FUNCTIONS, EXPAND_MATH, EXPAND_MATH_ON_GPU], ids=lambda rules: rules.name)
def test_math_is_all_that_its_rules_are_about(rules: Rules) -> None:
    assert set(rules.compiled) <= MATH
    assert (set(rules.compiled) == MATH) == (rules is not WIDEN_FUNCTIONS)


def test_every_pass_can_be_observed() -> None:
    seen: list[str] = []
    with Context(NOOPT=0):
        generate(COPY, TARGET, observe=lambda step, body: seen.append(step.name))
    assert seen == [step.name for step in PASSES]
