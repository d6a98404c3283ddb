"""Random numbers and contiguous values are stored with the first thing computed of them, while somebody has them."""

import numpy as np
import pytest

from whit import Context, GlobalCounters, Tensor
from whit.engine.memory.storage import computed
from whit.engine.realize import store_once as lasting
from whit.ir.uop import UOp


def value_of(tensor: Tensor) -> UOp:
    return tensor.uop.src[0] if tensor.uop.op.name == "leaf" else tensor.uop


def operations(tensor: Tensor) -> int:
    GlobalCounters.reset()
    tensor.realize()
    return GlobalCounters.global_ops


@pytest.mark.parametrize(
    "make",
    [lambda: Tensor.rand(40), lambda: Tensor.randn(40), lambda: (Tensor([1.0] * 40).exp() + 1).contiguous()],
    ids=["rand", "randn", "contiguous"],
)
def test_the_second_use_reads(make) -> None:
    with Context(DEV="PYTHON"):
        x = make()
        first = (x * 2).realize()
        stored = computed(value_of(x))
        assert stored is not None
        assert operations(x + 1) <= operations(x * 1.5 + 2)
        assert computed(value_of(x)) is stored
        np.testing.assert_array_equal(first.numpy(), x.numpy() * 2)


def test_what_nobody_has_is_not_stored() -> None:
    with Context(DEV="NULL"):
        GlobalCounters.reset()
        y = (Tensor.rand(1 << 16) * 2).realize()
        assert GlobalCounters.bytes_written == y.nbytes()
        x = Tensor.rand(1 << 16)
        GlobalCounters.reset()
        y = (x * 2).realize()
        assert GlobalCounters.bytes_written == 2 * y.nbytes()


def test_large_values_are_not_stored() -> None:
    with Context(DEV="NULL"):
        x = Tensor.rand(lasting.LARGEST_BYTES // 4 + 1)
        x.sum().realize()
        assert computed(value_of(x)) is None


def test_a_tensor_that_became_another_is_not_stored() -> None:
    with Context(DEV="PYTHON"):
        x = Tensor.rand(8)
        before, y = value_of(x), x * 2
        x.replace(Tensor.ones(8))
        y.realize()
        assert computed(before) is None
        assert x.tolist() == [1.0] * 8


def test_writes_to_what_is_stored_are_not_seen_by_others() -> None:
    with Context(DEV="PYTHON"):
        x = Tensor.rand(8)
        y = (x + 0.5).realize()
        before = x.numpy().copy()
        z = x * 2
        x[2] = 7.0
        np.testing.assert_array_equal(z.numpy(), before * 2)
        before[2] = 7.0
        np.testing.assert_array_equal(x.numpy(), before)
        assert y.shape == (8,)
