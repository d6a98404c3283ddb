"""What a program writes, and what it reads of its own memory: right programs pass, and planted faults are found."""

from collections.abc import Callable

import pytest

from whit.codegen.passes.check_writes import check_writes
from whit.codegen.pipeline import generate
from whit.dtype import dtypes
from whit.errors import InternalError
from whit.ir import ops
from whit.ir.args import RangeKind
from whit.ir.uop import UOp, const, make
from whit.target import parse_target

CPU = parse_target("CPU")
ZERO = const(dtypes.weakint, 0)


def param(slot: int, *shape: int) -> UOp:
    return UOp.param(slot, dtypes.float32, shape)


def copy(n: int = 100) -> UOp:
    r = UOp.range(n, 0)
    return UOp.group(param(0, n).store(param(1, n).index(r) + 1.0, r))


def row_sums() -> UOp:
    r, k = UOp.range(5, 0), UOp.range(700, 1000, RangeKind.REDUCE)
    return UOp.group(param(0, 5).store(param(1, 5, 700).index(r, k).reduce(ops.ADD, ranges=(k,)), r))


def histogram() -> UOp:
    r = UOp.range(12, 0)
    places = UOp.param(1, dtypes.int32, (12,))
    return UOp.group(param(0, 4).store(const(dtypes.float32, 1.0), places.index(r), combine=ops.ADD))


def every_second() -> UOp:
    r = UOp.range(33, 0)
    return UOp.group(param(0, 33).store(param(1, 33).index(r), r, gate=(r % 2).eq(0)))


KERNELS = (copy, row_sums, histogram, every_second)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)
def test_right_programs_pass(kernel: Callable[[], UOp]) -> None:
    body = kernel()
    check_writes(body, generate(body, CPU).linear)


def changed(linear: UOp, f: Callable[[UOp], UOp | None]) -> UOp:
    """The program with instructions replaced, or left out where `f` gives nothing."""
    new: dict[UOp, UOp] = {}
    listed: list[UOp] = []
    for node in linear.src:
        made = make(node.op, tuple(new.get(s, s) for s in node.src), node.arg) if node.src else node
        kept = f(made)
        if kept is not None:
            listed.append(kept)
        new[node] = made if kept is None else kept
    return make(ops.LINEAR, tuple(listed))


def is_write(node: UOp) -> bool:
    return node.op is ops.STORE and node.src[0].op is ops.PARAM


def shorter(node: UOp) -> UOp:
    """A loop that ends early."""
    if node.op is not ops.RANGE or int(node.src[0].arg) < 2:
        return node
    return make(ops.RANGE, (const(node.src[0].dtype, int(node.src[0].arg) - 1),), node.arg)


def without_last_write() -> Callable[[UOp], UOp | None]:
    return lambda node: None if is_write(node) else node


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)
def test_a_lost_store_is_found(kernel: Callable[[], UOp]) -> None:
    body = kernel()
    with pytest.raises(InternalError, match="never writes param 0"):
        check_writes(body, changed(generate(body, CPU).linear, without_last_write()))


@pytest.mark.parametrize("kernel", [lambda: copy(1000), histogram], ids=["copy", "scatter"])
def test_a_loop_that_ends_early_is_found(kernel: Callable[[], UOp]) -> None:
    body = kernel()
    with pytest.raises(InternalError, match="check_writes: kernel writes"):
        check_writes(body, changed(generate(body, CPU).linear, shorter))


def test_an_effect_that_happens_once_instead_of_for_each_element_is_found() -> None:
    r = UOp.range(5, 0)
    one = const(dtypes.float32, 1.0)
    body = UOp.group(param(0, 3).store(one, r * 0 + 2, combine=ops.ADD))
    once = make(ops.LINEAR, (param(0, 3), param(0, 3).store(one, const(dtypes.int64, 2), combine=ops.ADD)))
    with pytest.raises(InternalError, match="place 2 of param 0 1 times instead of 5"):
        check_writes(body, once)


def test_a_lost_gate_is_found() -> None:
    body = every_second()
    r = UOp.range(33, 0)
    without = UOp.group(param(0, 33).store(param(1, 33).index(r), r))
    with pytest.raises(InternalError, match="place 1 of param 0 1 times instead of 0, and 15 others"):
        check_writes(body, generate(without, CPU).linear)


def test_a_sum_that_is_not_cleared_is_found() -> None:
    body = row_sums()
    linear = generate(body, CPU).linear
    first = next(node for node in linear.src if node.op is ops.STORE and node.src[0].op is ops.BUFFER)
    left = [node for node in linear.src if node is not first]
    with pytest.raises(InternalError, match="which nothing has written"):
        check_writes(body, make(ops.LINEAR, tuple(left)))
