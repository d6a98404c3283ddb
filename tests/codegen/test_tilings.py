"""Tilings of contractions: every kind of candidate means what its kernel means, and the least cost is chosen."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise, takewhile

import numpy as np
import pytest
from schedule.build import matmul, param, scheduled

from whit.codegen.cpu import panel_sizes as tiling
from whit.codegen.cpu import products
from whit.codegen.cpu.panel_sizes import MOST_STACK_BYTES, PanelPlan, Way, candidates, choose_tiling, stack_elements
from whit.codegen.pipeline import PASSES, generate
from whit.codegen.strategy.cost import Operands, estimate_tiling
from whit.codegen.strategy.record import Job
from whit.config import Context
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.interpret import numpy_dtype, run
from whit.ir.uop import UOp
from whit.kernel.contraction import find_contractions
from whit.target import Target, parse_target
from whit.tensor.graphs.convolution.convolve import Sliding, convolve

# Vectors of four and caches of a few lines, so that small products have blocks of everything.
TINY = replace(parse_target("CPU:LLVM:x86-64"), l1_bytes=256, l2_bytes=1024, l3_bytes=8192, cores=2)
INT = dtypes.int32


def spread(x: UOp, *shape: int) -> UOp:
    return x.reshape((1,) * (len(shape) - len(x.shape)) + x.shape).expand(shape)


def batched(a: UOp, b: UOp) -> UOp:
    (count, m, k), (*_, n) = a.shape, b.shape
    left = a.reshape((count, m, 1, k)).expand((count, m, n, k))
    right = b.permute((1, 0)).reshape((1, 1, n, k)).expand((count, m, n, k))
    return (left * right).reduce(ops.ADD, (3,))


def product(m: int, k: int, n: int) -> UOp:
    return matmul(param(0, m, k, dtype=INT), param(1, k, n, dtype=INT))


def in_panels(m: int, panels: int, k: int, columns: int) -> UOp:
    """A product with a matrix that lies in panels: (m, panels, columns)."""
    lines = param(1, panels, k, columns, dtype=INT).permute((0, 2, 1))
    rows = param(0, m, k, dtype=INT).reshape((m, 1, 1, k)).expand((m, panels, columns, k))
    return (rows * spread(lines, m, panels, columns, k)).reduce(ops.ADD, (3,))


KERNELS: dict[str, Callable[[], UOp]] = {
    "nn": lambda: product(11, 24, 21),
    "nt": lambda: matmul(param(0, 8, 16, dtype=INT), param(1, 13, 16, dtype=INT).permute((1, 0))),
    "tn, whole tiles": lambda: matmul(param(0, 16, 12, dtype=INT).permute((1, 0)), param(1, 16, 8, dtype=INT)),
    "bias and maximum": lambda: (product(9, 16, 13) + spread(param(2, 13, dtype=INT), 9, 13)).maximum(0),
    "into what it reads": lambda: product(9, 16, 13) + param(2, 9, 13, dtype=INT),
    "computed operands": lambda: matmul(param(0, 9, 23, dtype=INT) + 1, param(1, 23, 9, dtype=dtypes.int8).cast(INT)),
    "broadcast": lambda: batched(param(0, 2, 9, 11, dtype=INT), param(1, 11, 13, dtype=INT)),
    "vector": lambda: product(1, 48, 13),
    "in panels": lambda: in_panels(11, 3, 24, 8),
}


def convolution(size: int, outputs: int = 8, stride: int = 1, dilation: int = 1) -> UOp:
    """Of two images of four channels."""
    slide = Sliding((stride,) * 2, (dilation,) * 2, 1, (size, 7), (3, 3), ((1, 1), (1, 2)))
    return convolve(param(0, 2, 4, size, 7, dtype=INT), param(1, outputs, 4, 3, 3, dtype=INT), slide)


IMAGES: dict[str, Callable[[], UOp]] = {
    "convolution, bias and maximum": lambda: (
        convolution(6, 11) + param(2, 11, 1, 1, dtype=INT).reshape((1, 11, 1, 1)).expand((2, 11, 6, 8))
    ).maximum(0),
    "convolution into what it reads": lambda: convolution(4) + param(2, 2, 8, 4, 8, dtype=INT),
    "convolution by steps": lambda: convolution(11, 9, stride=2),
}
MOST = 4  # kinds of each kernel that are interpreted: others are those of other kernels
Kind = tuple[object, ...]


def plans_of(body: UOp, target: Target = TINY) -> dict[Kind, PanelPlan]:
    """One candidate of each kind."""
    flat = body
    for step in takewhile(lambda step: step.name != "prepare", PASSES):
        flat = step.run(flat, Job(target))
    found: dict[Kind, PanelPlan] = {}
    for number, contraction in enumerate(find_contractions(flat)):
        given = Operands(contraction, flat, target)
        for tried in candidates(contraction, flat, given):
            several = [tried.inside > 1, tried.group > 1, tried.depth.blocks > 1, tried.depth.is_ragged]
            several += [tried.row_items > 1] if tried.image else []
            kind = (number, tried.way_a, tried.way_b, tried.waits, tried.in_place, *several)
            found.setdefault(kind, PanelPlan(contraction, tried, estimate_tiling(tried, given)))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", [*KERNELS, *IMAGES])
def test_every_kind_of_tiling_means_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiling, "LEAST_PRODUCTS", 1)
    monkeypatch.setattr(tiling, "DEPTHS_BYTES", (72, 144) if name in IMAGES else (32, 64))
    monkeypatch.setattr(tiling, "DIRECT_DEPTH", 8)
    target = replace(TINY, l2_bytes=4096) if name in IMAGES else TINY
    (call,) = scheduled({**KERNELS, **IMAGES}[name]()).src
    body = call.src[0].src[0]
    generator = np.random.default_rng(0)
    arrays = {
        node: generator.integers(-9, 10, node.shape).astype(numpy_dtype(node.dtype))
        for node in body.topological()
        if node.op is ops.PARAM
    }
    inputs = {node.arg.slot: array.reshape(-1).copy() for node, array in arrays.items()}
    run(body, arrays)
    plans = plans_of(body, target)
    if name in IMAGES:
        plans = {kind: plan for kind, plan in plans.items() if plan.tiling.image}
    assert plans
    for kind, plan in list(plans.items())[:: -(-len(plans) // MOST)]:
        monkeypatch.setattr(products, "choose_tiling", lambda body, target, plan=plan: plan)
        with Context(NOOPT=0):
            linear = generate(body, target).linear
        memory = {slot: array.copy() for slot, array in inputs.items()}
        run(linear, {node: memory[node.arg.slot] for node in linear.src if node.op is ops.PARAM})
        for node, expected in arrays.items():
            np.testing.assert_array_equal(memory[node.arg.slot].reshape(expected.shape), expected, err_msg=str(kind))


def test_the_kinds_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above would say nothing if candidates of a kind were no longer made."""
    monkeypatch.setattr(tiling, "LEAST_PRODUCTS", 1)
    monkeypatch.setattr(tiling, "DEPTHS_BYTES", (32, 64))
    monkeypatch.setattr(tiling, "DIRECT_DEPTH", 8)
    seen = {name: [plan.tiling for plan in plans_of(kernel(name)).values()] for name in KERNELS}
    every = [tried for tilings in seen.values() for tried in tilings]
    assert {tried.way_a for tried in every} == {Way.DIRECT, Way.ROWS, Way.ACROSS}
    assert {tried.way_b for tried in every} >= {Way.DIRECT, Way.ACROSS, Way.TRANSPOSED}
    assert any(tried.in_place and tried.inside > 1 for tried in seen["nn"])
    assert any(tried.in_place for tried in seen["bias and maximum"])
    assert any(tried.waits for tried in seen["into what it reads"])
    assert not any(tried.in_place for tried in seen["into what it reads"])
    assert any(tried.depth.is_ragged for tried in seen["computed operands"])
    assert any(tried.steps == 1 for tried in every)


def test_windows_with_holes_have_no_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiling, "LEAST_PRODUCTS", 1)
    (call,) = scheduled(convolution(9, dilation=2)).src
    plans = plans_of(call.src[0].src[0], replace(TINY, l2_bytes=4096))
    assert plans
    assert not any(plan.tiling.image for plan in plans.values())


def kernel(name: str) -> UOp:
    (call,) = scheduled(KERNELS[name]()).src
    return call.src[0].src[0]


def test_the_least_cost_is_chosen_and_said() -> None:
    target = parse_target("CPU:LLVM:icelake-server")
    body = kernel_of(matmul(param(0, 256, 512), param(1, 512, 512)))
    plan = choose_tiling(body, target)
    assert plan is not None
    costs = []
    for found in find_contractions(body):
        given = Operands(found, body, target)
        costs += [estimate_tiling(tried, given).total for tried in candidates(found, body, given)]
    assert plan.cost.total == min(costs)
    assert len(costs) > 10
    assert "estimated" in str(plan)
    assert "products" in str(plan)


def kernel_of(value: UOp) -> UOp:
    (call,) = scheduled(value).src
    flat = call.src[0].src[0]
    for step in takewhile(lambda step: step.name != "prepare", PASSES):
        flat = step.run(flat, Job(TINY))
    return flat


def test_panels_of_a_wide_image_fit_the_stack() -> None:
    slide = Sliding((1, 1), (1, 1), 1, (4, 3000), (3, 3), ((1, 1), (1, 1)))
    body = kernel_of(convolve(param(0, 1, 256, 4, 3000), param(1, 32, 256, 3, 3), slide))
    target = replace(parse_target("CPU:LLVM:icelake-server"), cores=2)  # more have no line each
    for found in find_contractions(body):
        tilings = list(candidates(found, body, Operands(found, body, target)))
        assert all(stack_elements(tried) * 4 <= MOST_STACK_BYTES for tried in tilings)
    plan = choose_tiling(body, target)
    assert plan is not None
    assert plan.tiling.way_b is Way.WINDOWS
    assert plan.tiling.depth.blocks > 1  # a panel of all of k and one line of the image would have 28 MB


def test_more_cores_take_less_time_each() -> None:
    body = kernel_of(matmul(param(0, 512, 512), param(1, 512, 512)))
    target = parse_target("CPU:LLVM:icelake-server")
    costs = []
    for cores in (1, 2, 4, 8):
        plan = choose_tiling(body, replace(target, cores=cores))
        assert plan is not None
        costs.append(plan.cost.total)
    assert all(after < 0.6 * before for before, after in pairwise(costs))
