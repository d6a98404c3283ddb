"""Every op on every dtype that it accepts and on every kind of shape, compiled and interpreted, is what NumPy says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from fuzz.cuda import run_on
from fuzz.graphs import FIRST_OUTPUT, stored
from fuzz.native import link, prepare
from gpus import needs_gpu
from ops.corners import source_dtypes

from matrix import reference
from matrix.cases import KINDS, Case, Group, accepts
from whit.dtype import DType, dtypes
from whit.engine.devices.device import Device
from whit.engine.memory.values import from_numpy, to_numpy
from whit.engine.realize.realize import realize
from whit.ir import ops
from whit.ir.interpret import numpy_dtype, run
from whit.ir.op import Op
from whit.ir.uop import UOp
from whit.runtime.code.gcc import find_compiler
from whit.schedule import schedule
from whit.target import parse_target

pytestmark = pytest.mark.slow  # many thousand cases

DEVICES = ("PYTHON", "CPU:LLVM", "CPU:C", "CUDA")
NEEDS = {"CPU:C": pytest.mark.skipif(find_compiler() is None, reason="there is no C compiler"), "CUDA": needs_gpu}
KEEP_BITS = {*ops.MOVEMENT, ops.WHERE, ops.BITCAST, ops.STACK, ops.INDEX, ops.DETACH, ops.PARAM, ops.CONST}
# CPUs compute with fp8 in float32, and C is written of that: two formats see all shapes, and C. What is left of the
# others tests/render/test_small_floats.py sees: every bit pattern is converted.
LIKE_ANOTHER = dtypes.fp8s[2:]
RUNS = [
    pytest.param(kind, dtype, device, marks=NEEDS.get(device, ()), id=f"{kind}-{dtype.name}-{device}")
    for kind, (_, accepted) in KINDS.items()
    for dtype in accepted
    for device in DEVICES
    if device != "CPU:C" or dtype not in LIKE_ANOTHER
]


@pytest.mark.parametrize("op", ops.ELEMENTWISE, ids=lambda op: op.name)
def test_every_op_has_a_reference(op: Op) -> None:
    """A new op needs a line in reference.py."""
    for dtype in dtypes.scalars:
        if accepts(op, dtype):
            arrays = [np.ones(1, reference.STORAGE[source]) for source in source_dtypes(op, dtype)]
            assert reference.elementwise(op, dtype, arrays).shape == (1,)


@pytest.mark.parametrize("kind, dtype, device", RUNS)
def test_every_op_is_what_numpy_says(kind: str, dtype: DType, device: str) -> None:
    few = device == "CPU:C" or (device == "CPU:LLVM" and dtype in LIKE_ANOTHER)
    groups = list(KINDS[kind][0](dtype, few))
    problems = []
    for group, outputs in zip(groups, results(groups, device), strict=True):
        for case, found in zip(group.cases, outputs, strict=True):
            problem = difference(case, found)
            if problem:
                problems.append(problem)
    assert not problems, f"{len(problems)} cases are wrong:\n" + "\n".join(problems[:20])


def results(groups: Sequence[Group], device: str) -> list[list[Any]]:
    """The values of all cases."""
    graphs = [stored(tuple(case.node for case in group.cases)) for group in groups]
    arrays = [{**group.inputs, **_outputs(group)} for group in groups]
    if device == "PYTHON":
        for graph, given in zip(graphs, arrays, strict=True):
            run(schedule(graph), given)
    elif device == "CUDA":
        for graph, given in zip(graphs, arrays, strict=True):
            run_on(device, graph, given)
    else:
        target = parse_target(device)
        natives = [prepare(schedule(graph), target, f"g{i}") for i, graph in enumerate(graphs)]
        link(natives, target)
        for native, given in zip(natives, arrays, strict=True):
            native.run(given)
    return [[array for node, array in given.items() if node.arg.slot >= FIRST_OUTPUT] for given in arrays]


def _outputs(group: Group) -> dict[UOp, Any]:
    places = [store.src[0] for store in stored(tuple(case.node for case in group.cases)).src]
    return {place: np.full(place.shape, 1).astype(numpy_dtype(place.dtype)) for place in places}


def difference(case: Case, found: Any) -> str:
    """What is wrong with a result."""
    dtype, expected = case.node.dtype, case.expected
    if case.ulps:
        same = _is_near(dtype, found, expected, case.ulps)
    else:
        kind = f"u{dtype.itemsize}"
        same = np.ascontiguousarray(found).view(kind) == np.ascontiguousarray(expected).view(kind)
        if dtype.is_float and not _keeps_bits(case.node):
            wide, wanted = found.astype(np.float64), expected.astype(np.float64)
            same |= np.isnan(wide) & np.isnan(wanted)
            if not case.has_signed_zeros:
                same |= (wide == 0) & (wanted == 0)
    same = same.reshape(found.shape)
    if same.all():
        return ""
    where = tuple(int(axis[0]) for axis in np.nonzero(~same))
    differ = f"{int((~same).sum())} of {same.size} differ"
    return f"{case.name}: {differ}, at {where}: {found[where]!r}, not {expected[where]!r}"


def _keeps_bits(node: UOp) -> bool:
    """Whether NaNs keep their payload: nothing is computed, as it is where a maximum is spread."""
    return all(below.op in KEEP_BITS for below in node.topological() if below.dtype.is_float)


def _is_near(dtype: DType, found: Any, exact: Any, ulps: int) -> Any:
    """Within so many units in the last place of an exact value; zeros keep their sign, overflow is where it belongs."""
    got = found.astype(np.float64).astype(np.longdouble)
    largest = np.longdouble(dtype.largest)
    if dtype.saturates:
        exact = np.clip(exact, -largest, largest)
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(exact)
        unit = np.ldexp(np.longdouble(1), np.maximum(exponent - 1, 1 - dtype.bias) - dtype.mantissa_bits)
        near = np.abs(got - exact) <= ulps * unit
        near |= np.isinf(got) & (np.abs(exact) + ulps * unit > largest) & (np.sign(got) == np.sign(exact))
    near |= np.isnan(got) & np.isnan(exact)
    is_zero = exact == 0
    if dtype.flavour == "fnuz":
        return np.where(is_zero, got == 0, near)
    return np.where(is_zero, (got == 0) & (np.signbit(got) == np.signbit(exact)), near)


@pytest.mark.parametrize(
    "device", ["PYTHON", "CPU", *(pytest.param(device, marks=needs) for device, needs in NEEDS.items())]
)
@pytest.mark.parametrize("dtype", dtypes.scalars, ids=lambda dtype: dtype.name)
def test_devices_compute_the_same(dtype: DType, device: str) -> None:
    """The part of the matrix that goes through the engine, from arrays to arrays."""
    group = next(iter(KINDS["elementwise"][0](dtype, True)))
    places = {node: from_numpy(array, device) for node, array in group.inputs.items()}
    roots = [case.node.substitute(places) for case in group.cases]
    for case, found in zip(group.cases, realize(roots), strict=True):
        assert found.device == Device.canonicalize(device)
        assert difference(case, to_numpy(found)) == ""
