"""Where a window of memory begins is no part of a program: a loop over slices compiles once, and computes right."""

import shutil
from collections.abc import Callable

import numpy as np
import pytest
from fuzz.emulated import emulated_gpu

from whit import Tensor, clear_caches, dtypes, nn
from whit.dtype import DType
from whit.engine.compile.compile import linked_kernels
from whit.engine.memory.storage import storage
from whit.engine.plan import find_plan as plans_module
from whit.engine.realize.known import known
from whit.engine.realize.parametrise import below, parametrise
from whit.engine.realize.windows import FEW_WINDOWS, find_windows
from whit.ir import ops
from whit.ir.uop import UOp

ROWS, COLUMNS = 40, 6
DATA = np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS)


def graph_of(value: Tensor) -> UOp:
    """What the schedule of a value is found under."""
    order, _ = below([value.uop])
    return parametrise([value.uop], order, find_windows(order)).graph


def programs(step: Callable[[int], object], starts: range) -> int:
    """How many programs a loop needs."""
    clear_caches()
    for i in starts:
        step(i)
    return len(plans_module._plans)


# What a loop does with x in step i, in whit and in NumPy alike.
VIEWS: dict[str, Callable[..., object]] = {
    "rows": lambda x, i: x[i : i + 3] * 3,
    "one row": lambda x, i: x[i] * 3,
    "a row from the end": lambda x, i: x[-1 - i] * 3,
    "one element": lambda x, i: x[i, i % 6] * 3,
    "columns": lambda x, i: x[:, i % 4 : i % 4 + 2] * 3,
    "one column": lambda x, i: x[:, i % 6] * 3,
    "a block": lambda x, i: x[i : i + 3, i % 4 : i % 4 + 2] * 3,
    "rows of rows": lambda x, i: x[i : i + 8][i % 3 : i % 3 + 2] * 3,
    "columns of rows": lambda x, i: x[i : i + 8][:, i % 3 : i % 3 + 2] * 3,
    "transposed": lambda x, i: x.T[:, i : i + 4] * 3,
    "transposed rows": lambda x, i: x[i : i + 4].T * 3,
    "reshaped": lambda x, i: x.reshape(-1, 3)[i : i + 4] * 3,
    "each second row": lambda x, i: x[i : i + 6 : 2] * 3,
    "backwards": lambda x, i: x[i + 6 : i : -1] * 3,
    "backwards by two": lambda x, i: x[i + 6 : i : -2] * 3,
    "two windows": lambda x, i: x[i + 1 : i + 4] - x[i : i + 3],
    "windows apart": lambda x, i: x[i : i + 3] - x[2 * i + 1 : 2 * i + 4],
    "columns apart": lambda x, i: x[:, i % 3] - x[:, 3 + (i * i) % 3],
    "many windows": lambda x, i: sum(x[i + k] * (k + 3) for k in range(2 * FEW_WINDOWS)),
    "a window and all": lambda x, i: x[i] - x.sum(0),
    "a sum": lambda x, i: x[i : i + 5].sum(),
    "a product": lambda x, i: x[i + 1 : i + 7] @ x[:6],
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_moving_windows_are_one_program(name: str, device: str) -> None:
    view = VIEWS[name]
    x = Tensor(DATA, device=device).realize()

    def step(i: int) -> None:
        np.testing.assert_allclose(view(x, i).numpy(), view(DATA, i))  # type: ignore[attr-defined]

    assert programs(step, range(12)) == 1


@pytest.mark.cpu  # a GPU has other counts
@pytest.mark.parametrize(
    "name", ["rows", "columns", "a block", "transposed", "backwards by two", "two windows", "a product"]
)
def test_programs_of_a_gpu_for_moving_windows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    view = VIEWS[name]
    with emulated_gpu(monkeypatch) as device:
        x = Tensor(DATA, device=device).realize()

        def step(i: int) -> None:
            np.testing.assert_allclose(view(x, i).numpy(), view(DATA, i))  # type: ignore[attr-defined]

        assert programs(step, range(3)) == 1


def test_equal_steps_of_one_graph_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    with emulated_gpu(monkeypatch) as device:
        x, w = Tensor(DATA, device=device).realize(), Tensor(DATA[:6] / 99, device=device).realize()
        h, wanted = Tensor.zeros(3, 6, device=device), np.zeros((3, 6))
        for t in range(6):
            h = (x[t : t + 3] + h @ w).tanh()
            wanted = np.tanh(DATA[t : t + 3] + wanted @ (DATA[:6] / 99))
        np.testing.assert_allclose(h.numpy(), wanted, atol=1e-5)


@pytest.mark.cpu  # counts what is linked into this process
def test_one_kernel_is_compiled_for_moving_batches() -> None:
    x, w = Tensor(DATA).realize(), Tensor.ones(COLUMNS, 5).contiguous().realize()
    clear_caches()
    for i in range(0, ROWS, 8):
        np.testing.assert_allclose(
            (x[i : i + 8] @ w).relu().numpy(), DATA[i : i + 8].sum(1, keepdims=True).repeat(5, 1)
        )
    assert len(linked_kernels()) == 1


ALL = [dtypes.bool, dtypes.int8, dtypes.uint16, dtypes.int32, dtypes.int64]
FLOATS = [dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64]


@pytest.mark.parametrize("dtype", [*ALL, *FLOATS], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("device", ["CPU", "CPU:C", "PYTHON"])
def test_odd_offsets_of_every_dtype_to_the_end(dtype: DType, device: str) -> None:
    if device == "CPU:C" and shutil.which("gcc") is None:
        pytest.skip("no C compiler")
    numbers = np.arange(67) % 2 if dtype is dtypes.bool else np.arange(67)
    x = Tensor(numbers, device=device).cast(dtype).realize()

    def step(i: int) -> None:
        found = (x[i : i + 33].where(7, 9) if dtype is dtypes.bool else x[i : i + 33] + x[i : i + 33]).cast(
            dtypes.int32
        )
        wanted = np.where(numbers[i : i + 33], 7, 9) if dtype is dtypes.bool else 2 * numbers[i : i + 33]
        np.testing.assert_array_equal(found.numpy(), wanted.astype(np.int8) if dtype is dtypes.int8 else wanted)

    assert programs(step, range(35)) == 1


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_writes_through_moving_slices(device: str) -> None:
    x, y = Tensor(DATA, device=device).realize(), Tensor(np.zeros_like(DATA), device=device).contiguous().realize()
    wanted = np.zeros_like(DATA)

    def step(i: int) -> None:
        y[i : i + 3] = x[i + 1 : i + 4] * 2
        y[:, i % 6] = x[:, (i + 1) % 6]
        wanted[i : i + 3] = DATA[i + 1 : i + 4] * 2
        wanted[:, i % 6] = DATA[:, (i + 1) % 6]
        np.testing.assert_array_equal(y.numpy(), wanted)

    assert programs(step, range(12)) == 1


def test_reading_a_window_of_what_is_replaced() -> None:
    # the new value may lie in the memory that the window shows
    size = 1 << 15
    x = Tensor(np.arange(size, dtype=np.float32)).contiguous().realize()
    wanted = np.arange(size, dtype=np.float32)
    for i in range(3):
        x.assign(x + x[i : i + 4].sum() + x.flip(0)[i])
        wanted = wanted + wanted[i : i + 4].sum() + wanted[::-1][i]
        np.testing.assert_allclose(x.numpy(), wanted, rtol=1e-6)


def test_writing_after_reading_a_window_in_one_graph() -> None:
    x = Tensor(DATA).contiguous().realize()
    wanted = DATA.copy()
    for i in range(4):
        old = x[i : i + 2] * 2
        x[i : i + 2] = x[i + 1 : i + 3] + 1
        total = old.sum() + x[i : i + 2].sum()
        np.testing.assert_allclose(total.item(), (wanted[i : i + 2] * 2).sum() + (wanted[i + 1 : i + 3] + 1).sum())
        wanted[i : i + 2] = wanted[i + 1 : i + 3] + 1
        np.testing.assert_array_equal(x.numpy(), wanted)


def test_a_window_that_was_read_does_not_keep_a_tensor_from_being_changed_in_place() -> None:
    x = (Tensor(np.arange(1 << 16, dtype=np.float32)) * 2).realize()
    addresses = set()
    for i in range(3):
        memory = known(x.uop)
        assert memory is not None, "it was realised"
        addresses.add(storage(memory).address)
        (x[i : i + 4] * 2).realize()
        x[i] = -1.0
        x.realize()
    assert len(addresses) == 1


def test_many_windows_that_cover_a_memory_stay_parts_of_it() -> None:
    x = Tensor(DATA[: 2 * FEW_WINDOWS]).realize()
    graph = graph_of(sum((x[k] for k in range(1, 2 * FEW_WINDOWS)), x[0]))
    assert len([node for node in graph.topological() if node.op is ops.PARAM]) == 2


def test_a_window_of_all_is_no_window() -> None:
    x = Tensor(DATA).realize()
    order, _ = below([(x[0:ROWS] * 2).uop])
    assert not find_windows(order)


def test_sizes_are_part_of_the_program() -> None:
    x = Tensor(DATA).realize()
    assert graph_of(x[0:3] * 2) is graph_of(x[5:8] * 2)
    assert graph_of(x[0:3] * 2) is not graph_of(x[0:4] * 2)


def test_training_over_slices_is_one_program_a_step() -> None:
    x, y = Tensor(DATA / 240).realize(), Tensor(np.arange(ROWS) % 3).realize()
    model = nn.Linear(COLUMNS, 3)
    opt = nn.optim.SGD([model.weight, model.bias], lr=0.1)

    def step(i: int) -> None:
        opt.zero_grad()
        loss = model(x[i : i + 4]).cross_entropy(y[i : i + 4]).backward()
        opt.step()
        loss.item()

    with Tensor.train():
        step(0)
        first = programs(step, range(0, 4, 4))
        assert programs(step, range(0, ROWS, 4)) == first
