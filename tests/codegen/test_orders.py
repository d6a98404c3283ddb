"""Nothing depends on the order in which independent instructions stand: any legal order gives the same bits."""

import random
from dataclasses import replace

import numpy as np
import pytest
from fuzz.check import bounds_of, compare, empty_outputs, expected_of, scheduled
from fuzz.graphs import Case, make_case
from fuzz.native import link, prepare, same_bits
from schedule.build import arrays_for, layernorm, matmul, param, softmax, total

from codegen.orders import shuffled
from codegen.test_kernel_programs import TARGETS, arrays_of, run_program
from whit.codegen import generate
from whit.ir import ops
from whit.ir.check.verify import verify
from whit.ir.op import PROGRAM
from whit.ir.uop import UOp
from whit.target import host_target

pytestmark = pytest.mark.slow  # many

SMALL = {
    "softmax": softmax(param(0, 5, 17)),
    "layernorm": layernorm(param(0, 5, 17), param(1, 17), param(2, 17)),
    "matmul": matmul(param(0, 5, 9), param(1, 9, 17)),
    "sum and maximum": total(param(0, 5, 17)) - param(0, 5, 17).reduce(ops.MAX, (1,)),
    "running sum": param(0, 5, 17).scan(ops.ADD, 0),
}


def test_orders_differ_and_are_legal() -> None:
    (call,) = scheduled(Case((SMALL["softmax"],), {}, "real")).src
    linear = generate(call.src[0].src[0], TARGETS[32]).linear
    orders = {shuffled(linear, random.Random(seed)) for seed in range(5)}
    assert len(orders) == 5
    for order in orders:
        verify(order, PROGRAM)
        assert sorted(map(id, order.src)) == sorted(map(id, linear.src))


@pytest.mark.parametrize("name", SMALL)
def test_any_order_means_the_same_to_the_interpreter(name: str) -> None:
    for call in scheduled(Case((SMALL[name],), {}, "real")).src:
        body = call.src[0].src[0]
        linear = generate(body, TARGETS[32]).linear
        arrays = arrays_of(body, np.random.default_rng(0))
        expected = run_program(body, linear, arrays)
        for seed in range(3):
            found = run_program(body, shuffled(linear, random.Random(seed)), arrays)
            assert all(same_bits(found[slot], expected[slot]) for slot in expected)


def outputs_of(case: Case, linear: UOp, seed: int | None) -> list[np.ndarray]:
    """What compiled code computes, its instructions in the order of a seed."""
    target = host_target()
    native = prepare(linear, target)
    if seed is not None:
        chooser = random.Random(seed)
        native.programs = {
            name: replace(program, linear=shuffled(program.linear, chooser))
            for name, program in native.programs.items()
        }
    link([native], target)
    outputs = empty_outputs(case)
    native.run({**case.inputs, **outputs})
    return list(outputs.values())


@pytest.mark.parametrize("name", SMALL)
def test_any_order_compiles_to_the_same_bits(name: str) -> None:
    case = Case((SMALL[name],), arrays_for(SMALL[name]), "real")
    linear = scheduled(case)
    expected = outputs_of(case, linear, None)
    for seed in range(4):
        assert all(map(same_bits, outputs_of(case, linear, seed), expected))


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_any_order_of_random_graphs_is_right(first: int) -> None:
    for seed in range(first, first + 20):
        case = make_case(seed)
        linear = scheduled(case)
        assert compare(case, expected_of(case), outputs_of(case, linear, seed), bounds_of(case)) == "", f"seed {seed}"
