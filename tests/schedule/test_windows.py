"""Which part of a memory a kernel accesses is an argument of its call: equal steps of one graph are one kernel."""

import numpy as np
import pytest

from whit import Tensor
from whit.engine.realize.parametrise import below, parametrise
from whit.ir import ops
from whit.ir.uop import UOp
from whit.schedule import schedule
from whit.target import parse_target


def calls(*values: Tensor, target: str | None = None) -> tuple[UOp, ...]:
    """The kernels of a schedule, as they are called. Nothing is compiled."""
    roots = [value.uop for value in values]
    graph = parametrise(roots, below(roots)[0]).graph
    return schedule(graph, None if target is None else parse_target(target)).src


def recurrence(x: Tensor, w: Tensor, steps: int) -> Tensor:
    h = Tensor.zeros(4, 16)
    for t in range(steps):
        h = (x[t] + h @ w).tanh()
    return h


def test_steps_written_by_hand_are_one_kernel() -> None:
    w = Tensor.empty(16, 16)
    short, long = (calls(recurrence(Tensor.empty(steps, 4, 16), w, steps)) for steps in (8, 32))
    assert {call.src[0] for call in short} == {call.src[0] for call in long}
    assert len(long) == 32


def test_parts_of_one_memory_are_one_kernel() -> None:
    x = Tensor.empty(40, 6)
    found = calls(*[x[i : i + 2].sum(1).exp() for i in range(0, 40, 2)])
    assert len({call.src[0] for call in found}) <= 2


def test_all_of_a_memory_is_passed_as_it_is() -> None:
    x = Tensor.empty(40, 6)
    (call,) = calls(x.flip(0) * 2)
    assert call.src[2].op is ops.PARAM


@pytest.mark.parametrize(("start", "is_part"), [(2, False), (4, True)])
def test_windows_on_gpus_begin_where_vectors_can_read(start: int, is_part: bool) -> None:
    (call,) = calls(Tensor.empty(40)[start : start + 8] * 2, target="NULL:PTX:sm_90a")
    assert (call.src[2].op is ops.SHRINK) == is_part


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_values_of_many_windows(device: str) -> None:
    data = np.arange(8 * 5 * 3, dtype=np.float32).reshape(8, 5, 3)
    x = Tensor(data, device=device).realize()
    parts = {
        "rows": (x[2] - x[5], data[2] - data[5]),
        "part of a row": (x[3, 1:4] * 2, data[3, 1:4] * 2),
        "one element": (x[3, 1, 2] * 2, data[3, 1, 2] * 2),
        "columns": (x[2:6, 1] * 2, data[2:6, 1] * 2),
        "around": (x[2:4].pad(((1, 1), None, None)) + x[1:5], np.pad(data[2:4], ((1, 1), (0, 0), (0, 0))) + data[1:5]),
        "backwards": (x[6:2:-1].sum(0), data[6:2:-1].sum(0)),
        "joined": (x[1].cat(x[6], x[7]), np.concatenate([data[1], data[6], data[7]])),
        "computed": ((x * 2)[3:5] + (x * 2)[5:7], (data * 2)[3:5] + (data * 2)[5:7]),
        "kept": ((x.sum(2) * 2)[3] @ x[4], data.sum(2)[3] * 2 @ data[4]),
    }
    Tensor.realize(*[ours for ours, _ in parts.values()])
    for name, (ours, theirs) in parts.items():
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-6, err_msg=name)


def test_a_part_that_is_written_over() -> None:
    x = (Tensor(np.arange(24, dtype=np.float32).reshape(6, 4)) * 1).realize()
    wanted = x.numpy().copy()
    x[2] = x[2] * 2 + x[4]
    x[3:5] = x[2:4] + 1
    wanted[2] = wanted[2] * 2 + wanted[4]
    wanted[3:5] = wanted[2:4] + 1
    np.testing.assert_array_equal(x.numpy(), wanted)
