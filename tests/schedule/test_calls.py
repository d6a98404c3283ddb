"""Calls of functions in tensor graphs: the schedule does what the graph says, and schedules each body once."""

import random

from schedule.build import attention
from schedule.test_writes import compared, param
from whit import Context, clear_caches
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.uop import UOp, const, make
from whit.schedule import schedule
from whit.schedule.calls import merge_calls
from whit.target import parse_target


def check(*stores: UOp) -> UOp:
    """Compares the schedule with the graph; the schedule."""
    return compared(*stores, tolerance=1e-5)


def item(call: UOp, place: int = 0) -> UOp:
    return make(ops.ITEM, (call,), place)


def doubled() -> UOp:
    """x * 2 as a function."""
    x = param(0, 4)
    return UOp.group(x * const(dtypes.float32, 2.0)).function("doubled")


def dense() -> UOp:
    """(max(x @ w, 0), sums of it) as a function."""
    x, w = param(0, 4, 4), param(1, 4, 4)
    product = (x.reshape((4, 4, 1)).expand((4, 4, 4)) * w.reshape((1, 4, 4)).expand((4, 4, 4))).reduce(ops.ADD, (1,))
    y = product.maximum(const(dtypes.float32, 0.0))
    return UOp.group(y, y.reduce(ops.ADD, (1,))).function("dense")


def test_a_call_stores_its_result_where_it_is_wanted() -> None:
    linear = check(param(0, 4).store(item(doubled().call(param(1, 4)))))
    assert len(linear.src) == 1
    assert linear.src[0].src[1:] == (param(0, 4), param(1, 4))


def test_a_function_of_one_value_is_that_value() -> None:
    f = (param(0, 4) * param(0, 4)).function("square")
    check(param(0, 4).store(f.call(f.call(param(1, 4)) + param(1, 4))))


def test_arguments_are_stored_first_and_results_are_read_from_memory() -> None:
    x = param(1, 4)
    linear = check(param(0, 4).store(item(doubled().call(x + x)) - x))
    assert len(linear.src) == 3


def test_a_result_may_go_to_two_params_and_be_used_besides() -> None:
    y = item(doubled().call(param(3, 4)))
    check(param(0, 4).store(y), param(1, 4).store(y), param(2, 4).store(y + y))


def test_a_stack_of_calls_has_the_kernels_of_one() -> None:
    h = param(1, 4, 4)
    f = dense()
    for layer in range(12):
        h = item(f.call(h, param(2 + layer, 4, 4)))
    linear = check(param(0, 4, 4).store(h))
    kernels = {call.src[0] for call in linear.src}
    assert len(linear.src) == 12 * len(kernels)
    assert len(kernels) == 2  # the second member is computed although nobody wants it


def test_functions_call_functions() -> None:
    f = dense()
    x, v, w = param(0, 4, 4), param(1, 4, 4), param(2, 4, 4)
    inner = f.call(x, v)
    outer = UOp.group(item(f.call(item(inner) + x, w)) + x, item(inner, 1)).function("outer")
    call = outer.call(param(2, 4, 4), param(3, 4, 4), param(4, 4, 4))
    check(param(0, 4, 4).store(item(call)), param(1, 4).store(item(call, 1)))


def test_kernels_on_both_sides_of_a_call_are_not_merged() -> None:
    """a + b is needed by the call, and what reads the call's result looks just like it."""
    a, b = param(2, 4), param(3, 4)
    y = item(doubled().call(a + b))
    check(param(0, 4).store(y * a + b), param(1, 4).store(a + b))


def test_an_argument_may_be_a_reshaped_memory_or_result() -> None:
    y = item(dense().call(param(1, 16).reshape((4, 4)), param(2, 2, 8).reshape((4, 4))))
    z = item(dense().call(y.reshape((2, 8)).reshape((4, 4)), param(3, 4, 4)))
    linear = check(param(0, 4, 4).store(z))
    assert len(linear.src) == 4


def test_a_call_reads_what_was_there_before_a_store() -> None:
    w, x = param(0, 4), param(1, 4)
    check(w.store(item(doubled().call(w)) + x), param(2, 4).store(x * w))
    check(w.shrink([(1, 2)]).store(x.shrink([(0, 2)])), param(2, 4).store(item(doubled().call(w))))


def test_results_with_some_elements_replaced() -> None:
    y = item(doubled().call(param(1, 4)))
    changed = make(ops.AFTER, (y, y.shrink([(1, 2)]).store(param(2, 2))))
    check(param(0, 4).store(changed + y))


def test_members_without_elements_constants_and_arguments_returned() -> None:
    x = param(0, 4)
    f = UOp.group(x, const(dtypes.float32, 3.0).reshape((1,)).expand((4,)), x.shrink([(0, 0)])).function("plain")
    call = f.call(param(3, 4))
    check(param(0, 4).store(item(call)), param(1, 4).store(item(call, 1)), param(2, 0).store(item(call, 2)))


def test_calls_with_the_same_arguments_and_common_members_are_one() -> None:
    x = param(0, 4)
    y = x * x
    short, more = UOp.group(y + x).function("f"), UOp.group(y + x, y).function("f")
    other = UOp.group(x - y).function("g")
    a = param(3, 4)
    stores = [
        param(0, 4).store(item(short.call(a))),
        param(1, 4).store(item(more.call(a), 1)),
        param(2, 4).store(item(other.call(a))),
    ]
    merged = merge_calls(UOp.group(*stores))
    assert {node.src[0] for node in merged.topological() if node.op is ops.CALL} == {more, other}
    check(*stores)


def test_chains_of_calls_are_merged_from_the_first_to_the_last() -> None:
    x = param(0, 4)
    short, more = UOp.group(x * x + x).function("f"), UOp.group(x * x + x, x * x).function("f")
    first = param(2, 4)
    gradient = first
    for _ in range(3):
        second = item(more.call(first), 1)
        first = item(short.call(first))
        gradient = gradient + second
    merged = merge_calls(UOp.group(param(0, 4).store(first), param(1, 4).store(gradient)))
    assert len([node for node in merged.topological() if node.op is ops.CALL]) == 3
    check(param(0, 4).store(first), param(1, 4).store(gradient))


def test_random_graphs_of_calls() -> None:
    functions = [doubled(), UOp.group(param(0, 4) + param(1, 4), param(0, 4) * param(1, 4)).function("two")]
    nested = functions[1].call(item(functions[0].call(param(0, 4))), param(0, 4) - param(1, 4))
    functions.append(UOp.group(item(nested, 1), item(nested) - param(1, 4)).function("nested"))
    for seed in range(60):
        choose = random.Random(seed)
        values = [param(10 + i, 4) for i in range(3)]
        for _ in range(choose.randrange(2, 12)):
            a, b = choose.choice(values), choose.choice(values)
            kind = choose.randrange(5)
            if kind < 2:
                values.append(a + b if kind else a.maximum(b))
            else:
                f = functions[kind - 2]
                call = f.call(*([a, b][: len(f.arg.params)]))
                values.append(item(call, choose.randrange(len(f.src[0].src))))
        outputs = choose.sample(values, min(len(values), 4))
        check(*(param(i, 4).store(value) for i, value in enumerate(outputs)))


def test_bodies_are_scheduled_for_each_setting_and_each_target() -> None:
    body = attention(*[param(slot, 64, 16) for slot in range(3)]).function("attention")
    graph = UOp.group(param(0, 64, 16).store(body.call(*[param(slot, 64, 16) for slot in (1, 2, 3)])))
    ways = [(blocks, parse_target(target)) for blocks in (0, 1) for target in ("CPU", "CUDA:PTX:sm_90a")]

    def schedules(is_cleared: bool) -> list[UOp]:
        found = []
        for blocks, target in ways:
            if is_cleared:
                clear_caches()
            with Context(FLASH_ATTENTION=blocks):
                found.append(schedule(graph, target))
        return found

    assert schedules(is_cleared=False) == (expected := schedules(is_cleared=True))
    assert len(set(expected)) > 1
