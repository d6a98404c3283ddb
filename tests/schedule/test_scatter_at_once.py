"""Scatters for GPUs by integers that are combined in memory: what they give, and which of them are."""

from math import inf, nan

import numpy as np
import pytest

from schedule.build import param
from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.check.verify import verify
from whit.ir.interpret import evaluate, numpy_dtype, run
from whit.ir.op import KERNEL, SCHEDULE, Op
from whit.ir.uop import UOp
from whit.kernel.rates import SCATTER_TIMES
from whit.schedule import schedule
from whit.schedule.rewrites import exact_sums, scatter_at_once
from whit.target import parse_target

HOPPER = parse_target("CUDA:PTX:sm_90a")
FLOATS = (dtypes.float32, dtypes.bfloat16, dtypes.float16)
ROOMS = {"levels": 1 << 40, "largest": 0}
PLACES = 6
ROWS = SCATTER_TIMES.search_ps // SCATTER_TIMES.combine_ps  # as many values are combined while one row is found


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scatter_at_once, "FEW", 2)
    monkeypatch.setattr(scatter_at_once, "FEWEST", 2)


def scattered(dtype: DType, combine: Op | None, count: int, *columns: int) -> UOp:
    """p0[p1[i], c] op= p2[i, c], where p1[i] is a place."""
    target, places = param(0, PLACES, *columns, dtype=dtype), param(1, count, dtype=dtypes.int32)
    gate = (places < PLACES) & (places >= 0)
    value = param(2, count, *columns, dtype=dtype)
    return target.after(target.store(value, places, combine=combine, gate=gate))


def result_of(value: UOp, arrays: list[np.ndarray]) -> tuple[np.ndarray, UOp]:
    """What the schedule for a GPU gives, and the schedule."""
    out = UOp.param(100, value.dtype, value.shape)
    linear = schedule(UOp.group(out.store(value)), HOPPER)
    verify(linear, SCHEDULE)
    for call in linear.src:
        verify(call.src[0].src[0], KERNEL)
    inputs = {node: arrays[node.arg.slot] for node in value.topological() if node.op is ops.PARAM}
    found = np.zeros(value.shape, numpy_dtype(value.dtype))
    run(linear, {**inputs, out: found})
    return found, linear


def combined(linear: UOp) -> list[str]:
    """The stores of a schedule that combine with memory."""
    stores = [store for call in linear.src for store in call.src[0].src[0].src]
    return [f"{s.arg.combine.name} {s.src[0].dtype.name}" for s in stores if s.arg.combine is not None]


def arrays_of(dtype: DType, count: int, *columns: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    kind = numpy_dtype(dtype)
    wide = np.exp(rng.standard_normal((count, *columns)))
    return [
        (rng.standard_normal((PLACES, *columns)) * 9).astype(kind),
        rng.integers(-2, PLACES + 2, count, dtype=np.int32),
        (rng.standard_normal((count, *columns)) * 9 * wide).astype(kind),
    ]


def exact(arrays: list[np.ndarray]) -> np.ndarray:
    """The sums, rounded once."""
    old, places, values = arrays
    inside = (places >= 0) & (places < PLACES)
    found = old.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        np.add.at(found, places[inside], values[inside].astype(np.float64))
        return found.astype(old.dtype)


# ---- sums


@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("columns", ((), (3,)), ids=("numbers", "rows"))
def test_sums_are_exact_and_rounded_once(
    dtype: DType, room: str, columns: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact_sums, "ROOM", ROOMS[room])
    arrays = arrays_of(dtype, 90, *columns)
    found, linear = result_of(scattered(dtype, ops.ADD, 90, *columns), arrays)
    np.testing.assert_array_equal(found, exact(arrays))
    assert combined(linear) == ["add int64"] if room == "levels" else ["max int32", "add int64"]


@pytest.mark.parametrize("room", ROOMS)
def test_infinities_nan_zeros_and_the_smallest_numbers(room: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_sums, "ROOM", ROOMS[room])
    cases = (
        ([inf, 1.0, inf], inf),
        ([2.0, -inf], -inf),
        ([inf, 0.0, -inf], nan),
        ([nan, inf], nan),
        ([3e38, 3e38, -3e38], 3e38),  # one after the other would be infinite
        ([3e38, 3e38], inf),
        ([2.0**-149, 2.0**-149, -700 * 2.0**-149, 2.0**-126], 2.0**-126 - 698 * 2.0**-149),
        ([1e30, 1.0, -1e30], 1.0 if room == "levels" else 0.0),
        ([0.0, -0.0], -0.0),
        ([], -0.0),
    )
    values = np.array([v for case, _ in cases for v in case], np.float32)
    places = np.array([i for i, (case, _) in enumerate(cases) for _ in case], np.int32)
    old = np.full(len(cases), -0.0, np.float32)
    target, rows = param(0, len(cases)), param(1, len(places), dtype=dtypes.int32)
    sums = target.after(target.store(param(2, len(places)), rows, combine=ops.ADD))
    found, _ = result_of(sums, [old, places, values])
    wanted = np.array([total for _, total in cases], np.float32)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found[-2:]), np.signbit(wanted[-2:]))


@pytest.mark.parametrize("room", ROOMS)
def test_sums_do_not_depend_on_the_order(room: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_sums, "ROOM", ROOMS[room])
    old, places, values = arrays_of(dtypes.float32, 80)
    values = values * 2.0 ** np.arange(-80, 80, 2, dtype=np.float32)  # so wide that the largest hides the smallest
    sums = scattered(dtypes.float32, ops.ADD, 80)
    found, _ = result_of(sums, [old, places, values])
    again, _ = result_of(sums, [old, places[::-1].copy(), values[::-1].copy()])
    assert found.tobytes() == again.tobytes()


def test_where_levels_take_too_much_memory_the_largest_decides() -> None:
    """For a value in 3 of 6 places there are 13 levels and more of 6 words each."""
    assert combined(schedule_of(scattered(dtypes.float32, ops.ADD, 3))) == ["max int32", "add int64"]
    assert combined(schedule_of(scattered(dtypes.float32, ops.ADD, 90))) == ["add int64"]


# ---- the rest


def schedule_of(value: UOp) -> UOp:
    return schedule(UOp.group(UOp.param(100, value.dtype, value.shape).store(value)), HOPPER)


CASES = {
    "max": (ops.MAX, dtypes.float32, "max int32"),
    "min": (ops.MIN, dtypes.float16, "min int32"),
    "min of float64": (ops.MIN, dtypes.float64, "min int64"),
    "last": (None, dtypes.float32, "max int32"),
    "last of bytes": (None, dtypes.uint8, "max int32"),
    "add bytes": (ops.ADD, dtypes.int8, "add int32"),
    "or of bools": (ops.OR, dtypes.bool, "or int32"),
}


@pytest.mark.parametrize("columns", ((), (3,)), ids=("numbers", "rows"))
@pytest.mark.parametrize("case", CASES)
def test_the_same_as_in_order(case: str, columns: tuple[int, ...]) -> None:
    combine, dtype, wanted = CASES[case]
    arrays = arrays_of(dtype, 40, *columns)
    if dtype.is_float:
        arrays[2].reshape(-1)[[3, 5, 7]] = [nan, inf, -0.0]
    value = scattered(dtype, combine, 40, *columns)
    found, linear = result_of(value, arrays)
    inputs = {node: arrays[node.arg.slot] for node in value.topological() if node.op is ops.PARAM}
    np.testing.assert_array_equal(found, evaluate(value, inputs))
    assert combined(linear) == [wanted]


def test_a_part_of_memory_is_changed_where_it_is() -> None:
    """p0[1:3] += at rows: the rest stays, and there is no copy of it."""
    memory, rows, value = param(0, 4, 3), param(1, 5, dtype=dtypes.int32), param(2, 5, 3)
    part = memory.shrink([(1, 2), (0, 3)])
    group = UOp.group(memory.store(memory.after(part.store(value, rows, combine=ops.ADD))))
    linear = schedule(group, HOPPER)
    old = np.arange(12, dtype=np.float32).reshape(4, 3)
    places, values = np.array([0, 1, 0, 0, 1], np.int32), np.arange(15, dtype=np.float32).reshape(5, 3)
    found, wanted = old.copy(), old.copy()
    run(linear, {memory: found, rows: places, value: values})
    np.add.at(wanted[1:3], places, values)
    np.testing.assert_array_equal(found, wanted)
    shapes = {a.shape for call in linear.src for a in call.src[1:] if a.op is ops.BUFFER}
    assert all(shape[-2:] == (2, 3) for shape in shapes)


def test_a_memory_that_is_read_where_others_write() -> None:
    """p0[i] = p0[j]: all is read before it is written."""
    memory, i, j = param(0, 8), param(1, 5, dtype=dtypes.int32), param(2, 5, dtype=dtypes.int32)
    linear = schedule(UOp.group(memory.store(memory.after(memory.store(memory.index(j), i)))), HOPPER)
    found = np.arange(8, dtype=np.float32)
    run(linear, {memory: found, i: np.array([3, 2, 1, 0, 3], np.int32), j: np.array([0, 3, 2, 1, 2], np.int32)})
    np.testing.assert_array_equal(found, [1, 2, 3, 2, 4, 5, 6, 7])


def test_what_stays_in_order() -> None:
    for combine, dtype in ((ops.MUL, dtypes.float32), (ops.ADD, dtypes.float64), (ops.MAX, dtypes.fp8e5m2)):
        assert combined(schedule_of(scattered(dtype, combine, 40))) == [f"{combine.name} {dtype.name}"]
    wide = scattered(dtypes.float32, ops.ADD, 40, ROWS)
    assert combined(schedule_of(wide)) == ["add float32"]
    alone = scattered(dtypes.float32, ops.ADD, 1)
    assert combined(schedule_of(alone)) == ["add float32"]
    target, places = param(0, 4 * ROWS), param(1, 4, dtype=dtypes.int32)
    sparse = target.after(target.store(param(2, 4), places, combine=ops.ADD))
    assert combined(schedule_of(sparse)) == ["add float32"]


def test_one_value_for_each_row_meets_no_other() -> None:
    """p0[i, p1[i]] += p2[i]: rows are different places."""
    target, columns = param(0, 40, 8), param(1, 40, dtype=dtypes.int32)
    rows = UOp.arange(40)
    value = target.after(target.store(param(2, 40), rows, columns, combine=ops.ADD))
    assert combined(schedule_of(value)) == ["add float32"]
    again = target.after(target.store(param(2, 40), rows.cast(dtypes.uint8), columns, combine=ops.ADD))
    assert combined(schedule_of(again)) == ["max int32", "add int64"]


def test_rows_of_their_own_positions_are_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """p0[p1[i, j], j] += p2[i, j] has no rows, unless p1 is the same for all j: then blocks look for them."""
    monkeypatch.setattr(scatter_at_once, "FEW", 1 << 12)
    target, value, columns = param(0, 8, 16), param(2, 40, 16), UOp.arange(16).reshape((1, 16)).expand((40, 16))
    narrow = param(1, 40, 1, dtype=dtypes.int32).expand((40, 16))
    for places, is_searched in ((param(1, 40, 16, dtype=dtypes.int32), False), (narrow, True)):
        wrapped = (places < 0).where(places + 8, places)
        sums = target.after(target.store(value, wrapped, columns, combine=ops.ADD))
        assert (combined(schedule_of(sums)) == ["add float32"]) is is_searched


def test_other_devices_stay_as_they_are() -> None:
    value = scattered(dtypes.float32, ops.ADD, 40)
    linear = schedule(UOp.group(UOp.param(100, value.dtype, value.shape).store(value)), parse_target("CPU:LLVM:x86-64"))
    assert combined(linear) == ["add float32"]
