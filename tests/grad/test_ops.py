"""The gradient rule of every op against small steps in float64, and the gradient of its gradient."""

from collections.abc import Callable
from typing import Any

import pytest

from grad.methods import Case, at, spread
from grad.test_methods import agrees, loss, slope
from whit import Tensor, dtypes
from whit.ir import ops
from whit.ir.args import StageArg
from whit.ir.op import TENSOR
from whit.ir.uop import UOp, const, make
from whit.transform import FORMULAS

pytestmark = pytest.mark.slow  # many

X, Y, Z = (spread(3, 4, seed=i) for i in range(3))
ABOVE = spread(3, 4, low=0.3, high=2.3)
PLACES = UOp.stack(*(const(dtypes.int32, i) for i in (2, 0, 2)))
GATE = UOp.stack(*(const(dtypes.bool, i != 1) for i in range(3)))


RESTATEMENTS = {
    "xlog1py",
    "times_log",
    "mixed",
}  # no method gives them, only expressions that are restated: their tests have them


def on(function: Callable[..., UOp], *arrays: Any) -> Case:
    """A function of nodes."""
    return at(lambda *tensors: Tensor(function(*(tensor.uop for tensor in tensors))), *arrays)


def written(*steps: dict[str, Any]) -> Case:
    """Rows written one after another, by position."""

    def write(x: UOp, *values: UOp) -> UOp:
        stores = [x.store(v, PLACES, **step) for v, step in zip(values, steps, strict=True)]
        return x.after(*stores)

    return on(write, X, *(spread(3, 4, seed=9 + i) for i in range(len(steps))))


# For each op that has a rule: every form of it.
CASES: dict[str, list[Case]] = {
    "reshape": [on(lambda x: x.reshape((2, 6)), X)],
    "permute": [on(lambda x: x.permute((1, 2, 0)), spread(2, 3, 4))],
    "expand": [on(lambda x: x.expand((2, 3, 4)), spread(1, 3, 1)), on(lambda x: x.expand((1, 1)), spread(1, 1))],
    "pad": [on(lambda x: x.pad(((1, 0), (0, 2))), X)],
    "shrink": [on(lambda x: x.shrink(((1, 2), (0, 3))), X), on(lambda x: x.shrink(((0, 0), (0, 4))), X)],
    "flip": [on(lambda x: x.flip((0, 1)), X)],
    **{op.name: [on(lambda x, op=op: x.alu(op), ABOVE)] for op in ops.ELEMENTWISE if op.grad and op.least == 1},
    **{op.name: [on(lambda x, y, op=op: x.alu(op, y), ABOVE, ABOVE[::-1]), on(lambda x, op=op: x.alu(op, x), ABOVE)]
       for op in ops.ELEMENTWISE if op.grad and op.least == 2 and op not in (ops.MAX, ops.MIN)},
    "complex": [on(lambda x, y: (x.alu(ops.COMPLEX, y) * (2 - 1j)).alu(ops.REAL), X, Y)],
    "real": [on(lambda x: (x.alu(ops.COMPLEX, x) * x.alu(ops.COMPLEX, -x)).alu(ops.REAL), X)],
    "imag": [on(lambda x, y: (x.alu(ops.COMPLEX, y) / y.alu(ops.COMPLEX, x)).alu(ops.IMAG), ABOVE, ABOVE[::-1])],
    "max": [on(lambda x, y: x.alu(ops.MAX, y), X, Y), on(lambda x: x.alu(ops.MAX, x), X)],
    "min": [on(lambda x, y: x.alu(ops.MIN, y), X, Y), on(lambda x, y: x.alu(ops.MIN, y), X, spread())],
    "where": [on(lambda x, y: (x < 0.5).where(x, y), X, Y), on(lambda x, y: (x < 0.5).where(y, x), X, spread())],
    "fma": [on(lambda x, y, z: x.fma(y, z), X, Y, Z), on(lambda x, y: x.fma(y, y), X, spread())],
    "cast": [on(lambda x: x.cast(dtypes.float32).cast(dtypes.float64) * 0.0 + x, X)],
    "bitcast": [on(lambda x: x.bitcast(dtypes.int64).bitcast(dtypes.float64) * 0.0 + x, X)],
    "detach": [on(lambda x: (x * 0.0).detach() + x, X)],
    "recompute": [on(lambda x: x.recompute(x * 2).sin(), X)],
    "leaf": [on(lambda x: x.leaf() * x, X)],
    "stage_gradient": [on(lambda x: make(ops.STAGE_GRADIENT, (x * x,)) * x, X)],
    "stage": [on(lambda x: (x * x).stage(arg=StageArg()) * x, X)],
    "reduce": [
        on(lambda x, op=op, axes=axes: x.reduce(op, axes), spread(3, 2, 4))
        for op in (ops.ADD, ops.MUL, ops.MAX, ops.MIN)
        for axes in ((1,), (0, 2), (0, 1, 2))
    ],
    "scan": [
        on(lambda x, op=op, axis=axis, back=back: x.scan(op, axis, reverse=back), spread(3, 2, 4))
        for op in (ops.ADD, ops.MUL, ops.MAX, ops.MIN, ops.LOGADDEXP)
        for axis, back in ((0, False), (2, True))
    ],
    "sort": [
        on(lambda x, y, axis=axis, n=n, down=down: x.detach().sort(y, axis, n, down), X, Y)
        for axis, n, down in ((1, 4, False), (0, 2, True))
    ],
    "index": [
        on(lambda x: x.index(PLACES), X),
        on(lambda x: x.index(PLACES, gate=GATE), X),
        on(lambda x: x.index(PLACES, PLACES), X),
        on(lambda x: x.index(2), X),
    ],
    "store": [
        *(written({"combine": op}) for op in (None, ops.ADD, ops.MUL, ops.MAX, ops.MIN)),
        *(written({"combine": op, "gate": GATE}) for op in (None, ops.ADD, ops.MUL, ops.MAX, ops.MIN)),
    ],
    "after": [written({}, {}), written({}, {"combine": ops.ADD}), written({"combine": ops.MUL}, {})],
    "stack": [on(lambda x, y: UOp.stack(x, y, x), X, Y)],
    "copy": [on(lambda x: x.copy_to("PYTHON:1").copy_to("PYTHON") * x, X)],
}  # fmt: skip

ALL = [(name, i) for name, cases in CASES.items() for i in range(len(cases))]


@pytest.mark.parametrize(("name", "i"), ALL, ids=[f"{name}-{i}" for name, i in ALL])
def test_gradient_of_an_op(name: str, i: int) -> None:
    agrees(loss, CASES[name][i])


@pytest.mark.parametrize(("name", "i"), ALL, ids=[f"{name}-{i}" for name, i in ALL])
def test_gradient_of_the_gradient_of_an_op(name: str, i: int) -> None:
    agrees(slope, CASES[name][i])


def test_every_op_with_a_gradient_has_a_case() -> None:
    assert {name for name, op in ops.OPS.items() if op.grad is not None} == set(CASES)


def test_every_case_has_its_op() -> None:
    for name, cases in CASES.items():
        for case in cases:
            y = case.function(*(Tensor(array, device="PYTHON") for array in case.arrays))
            assert ops.OPS[name] in {node.op for node in y.uop.topological()}


def test_every_float_op_has_a_gradient() -> None:
    """Ops of the tensor stage without a rule give no floats, or `whit.transform` knows them itself."""
    missing = {op.name for op in ops.OPS.values() if op.grad is None and op.stages & TENSOR and op.least}
    no_floats = {op.name for op in ops.ELEMENTWISE if op.grad is None}
    assert missing - no_floats == {"formula", "item", "function", "call", "loop", "bind"}


def test_every_formula_with_a_gradient_is_met_by_the_case_of_a_method() -> None:
    from grad.methods import CASES
    from grad.more_methods import MORE

    found = set()
    for cases in {**CASES, **MORE}.values():
        for case in cases:
            y = case.function(*(Tensor(array, device="PYTHON") for array in case.arrays))
            found |= {node.arg.name for node in y.uop.topological() if node.op is ops.FORMULA}
    # not those that other tests have registered, directly, by checkpoints or by batches
    rules = [(name, rule.__module__) for name, rule in FORMULAS.items() if not name.startswith("checkpoint")]
    ours = {name for name, module in rules if module.startswith("whit.") and module != "whit.transform.batch"}
    assert ours - found == {"bessel_i1", "svd_u", "svd_vh", "pinv", "lstsq", "geqrf", "empty", *RESTATEMENTS}
