"""Steps of an algorithm: values, the number of the step, what is compiled and kept."""

from collections.abc import Sequence

import numpy as np
import pytest

from whit import Device, Tensor
from whit.dtype import dtypes
from whit.engine.plan.find_plan import _plans
from whit.engine.realize.repeat import repeat
from whit.engine.report.counters import GlobalCounters
from whit.errors import InternalError
from whit.ir.uop import UOp


def _step(k: UOp, state: Sequence[UOp]) -> list[UOp]:
    x, y = state
    return [x * 2.0 + k.cast(dtypes.float32), y + x]


@pytest.mark.parametrize("device", ("CPU", "PYTHON"))
@pytest.mark.parametrize("count", (0, 1, 2, 3, 7))
def test_a_step_sees_its_number_and_the_last_state(device: str, count: int) -> None:
    x, y = np.array([1.0, -3.0], np.float32), np.array([0.5, 0.0], np.float32)
    start = Tensor(x, device=device), Tensor(y, device=device)
    found = repeat(_step, [tensor.uop for tensor in start], count, device)
    for k in range(count):
        x, y = x * 2 + k, y + x
    np.testing.assert_array_equal(Tensor(found[0]).numpy(), x)
    np.testing.assert_array_equal(Tensor(found[1]).numpy(), y)
    assert start[0].tolist() == [1, -3] and start[1].tolist() == [0.5, 0]


def test_other_buffers_and_constants_are_read_in_every_step() -> None:
    other = Tensor([3.0, 4.0])
    (found,) = repeat(lambda k, state: [state[0] + other.uop * 0.3], [Tensor([0.0, 0.0]).uop], 4, Device.DEFAULT)
    np.testing.assert_allclose(Tensor(found).numpy(), [3.6, 4.8], rtol=1e-6)


def test_steps_are_one_plan() -> None:
    state = [Tensor([1.0, 2.0, 3.0]).uop, Tensor([0.0, 0.0, 0.0]).uop]
    repeat(_step, state, 3, Device.DEFAULT)
    before = len(_plans)
    GlobalCounters.reset()
    repeat(_step, state, 3, Device.DEFAULT)
    assert len(_plans) == before
    assert GlobalCounters.kernel_count == 3
    assert GlobalCounters.device(Device.DEFAULT).copy_count == 0


def test_a_state_keeps_its_shape() -> None:
    with pytest.raises(InternalError, match="changes the dtypes or shapes"):
        repeat(lambda k, state: [state[0].reshape((1, 2))], [Tensor([1.0, 2.0]).uop], 2, Device.DEFAULT)
