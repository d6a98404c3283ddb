"""Schedules on disk: found again by other processes, never where something has changed, and never needed."""

import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whit import Context, GlobalCounters, Tensor, Variable, clear_caches, dtypes, function, nn
from whit.engine.compile import disk_cache, schedules
from whit.engine.compile.schedules import find_or_make, schedule_key
from whit.engine.plan import find_plan as plans_module
from whit.ir import ops
from whit.ir.text.parse import parse
from whit.ir.text.write import to_text
from whit.ir.uop import UOp
from whit.viz import trace

pytestmark = pytest.mark.slow  # compiles much

DEV = "PYTHON"
GRAPH = UOp.group(UOp.param(0, dtypes.float32, (4,)).store(UOp.param(1, dtypes.float32, (4,)) * 2.0))
LINEAR = UOp(ops.LINEAR)
Made = list[UOp]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Made]:
    """The schedules that are made, with a cache of their own."""
    found: Made = []
    load = plans_module.load_scheduler

    def counting(device: str, *_: object) -> Callable[[UOp], UOp]:
        def schedule(graph: UOp) -> UOp:
            found.append(load(device)(graph))
            return found[-1]

        return schedule

    monkeypatch.setattr(plans_module, "load_scheduler", counting)
    clear_caches()
    with Context(CACHE=1, CACHE_DIR=str(tmp_path)):
        yield found
    clear_caches()


def numbers(*shape: int) -> Tensor:
    return Tensor(np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape), device=DEV)


def in_a_new_process(program: Callable[[], Tensor], device: str = DEV) -> tuple[list[Any], int, int]:
    """The result as if nothing were known but what is on disk; kernels, and bytes that they write."""
    clear_caches()
    GlobalCounters.reset()
    with Context(DEV=device):
        result = program().numpy()
    return result.tolist(), GlobalCounters.kernel_count, GlobalCounters.device(device).bytes_written


def attention() -> Tensor:
    q = numbers(2, 4, 8) / 64
    return q.scaled_dot_product_attention(q + 1, q, is_causal=True)


def changed_in_part() -> Tensor:
    x = numbers(4, 4).realize()
    x[1:3, ::2] = x.sum(0)[::2] * 0.3
    return x


def of_a_variable_size() -> Tensor:
    n = Variable("n", 1, 8).bind(5)
    return (numbers(8)[:n] * 1.7).sum()


@function
def block(x: Tensor, w: Tensor) -> Tensor:
    return (x @ w).relu() / 7


def called() -> Tensor:
    return block(block(numbers(3, 3), numbers(3, 3)), numbers(3, 3) - 4)


def trained() -> Tensor:
    w = (numbers(3, 2) / 9).realize()
    opt = nn.optim.AdamW([w], lr=0.1)
    with Tensor.train():
        ((numbers(4, 3) @ w).softmax() - 0.3).square().mean().backward()
        opt.step()
    return w


def of_odd_constants() -> Tensor:
    x = Tensor([1.0, float("nan"), -0.0], device=DEV)
    return (x == float("inf")).where(x, -0.0) + (x.cast(dtypes.int8) * -3).cast(dtypes.float32)


PROGRAMS = [attention, changed_in_part, of_a_variable_size, called, trained, of_odd_constants]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("noopt", [0, 1])
def test_the_next_process_makes_no_schedule_and_has_the_same_kernels(
    program: Callable[[], Tensor], noopt: int, made: Made, tmp_path: Path
) -> None:
    with Context(NOOPT=noopt):
        first = in_a_new_process(program)
        count = len(made)
        assert count > 0
        assert str(in_a_new_process(program)) == str(first)  # NaN is not equal to itself
    assert len(made) == count
    entries = [disk_cache.unpack(path.read_bytes(), name=path.name) for path in tmp_path.iterdir()]
    assert {parse(entry[1].decode()) for entry in entries if entry is not None} == set(made)


def test_each_schedule_is_asked_what_it_can_overwrite(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[UOp] = []

    def ask(linear: UOp, output: int, source: int) -> bool:
        asked.append(linear)
        return False

    monkeypatch.setattr(plans_module, "can_overwrite", ask)
    monkeypatch.setattr("whit.engine.realize.changes.LEAST_REUSED_BYTES", 1)
    for device, noopt in (("PYTHON", 0), ("NULL", 0), ("PYTHON", 1), ("PYTHON", 0)):
        with Context(NOOPT=noopt):
            x = Tensor([1.0, 2.0, 3.0], device=device).realize()
            x.assign(x * 2.5 + 1).realize()
    assert len(asked) == 3


@pytest.mark.parametrize("settings", [{"NOOPT": 1}, {"FLASH_ATTENTION": 0}, {"THREADS": 1}])
def test_another_setting_is_another_schedule(settings: dict[str, int], made: Made) -> None:
    with Context(NOOPT=0):
        in_a_new_process(attention)
    count = len(made)
    with Context(**settings):
        in_a_new_process(attention)
    assert len(made) == 2 * count


def test_another_target_and_changed_sources_are_other_schedules(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {schedule_key(GRAPH, device) for device in ("NULL", "NULL:LLVM:x86-64", "NULL:LLVM:cortex-a76", "PYTHON")}
    monkeypatch.setattr(schedules, "sources_digest", lambda parts: "another version")
    keys.add(schedule_key(GRAPH, "NULL"))
    assert len(keys) == 5


def test_devices_of_one_kind_share_schedules(made: Made) -> None:
    def program() -> Tensor:
        return (Tensor([[1.0, 2.0], [3.0, 4.0]]) + 1.5).sum(0)

    first = in_a_new_process(program, "CPU")
    with Context(DEV="CPU"):
        count = len(made)
        x = Tensor([[1.0, 2.0], [3.0, 4.0]], device="CPU:1")
        assert (x + 1.5).sum(0).tolist() == first[0]
    assert len(made) == count == 1


OTHER = to_text(UOp.param(0, dtypes.float32, (3,)) * 2.0)


@pytest.mark.parametrize("damage", [b"", b"nonsense", "half", "not a schedule", "no text", "other nodes"])
def test_what_is_damaged_is_made_again(damage: bytes | str, made: Made, tmp_path: Path) -> None:
    def program() -> Tensor:
        return (numbers(3) * 2.5).sum()

    first = in_a_new_process(program)
    (path,) = tmp_path.glob("*.kernel")
    header: dict[str, Any] = {"name": "schedule"}
    contents = {
        "half": path.read_bytes()[:-9],
        "not a schedule": disk_cache.pack(header, b"x = what 1, 2", name=path.name),
        "no text": disk_cache.pack(header, b"\xff\xfe", name=path.name),
        "other nodes": disk_cache.pack(header, OTHER.encode(), name=path.name),
    }
    path.write_bytes(contents[damage] if isinstance(damage, str) else damage)
    assert in_a_new_process(program) == first and len(made) == 2
    assert in_a_new_process(program) == first and len(made) == 2


@pytest.mark.parametrize(
    ("settings", "count"), [({}, 1), ({"CACHE": 0}, 2), ({"CACHE": 2}, 2), ({"TRACK_MATCH_STATS": 1}, 2)]
)
def test_schedules_are_made_where_they_are_not_kept_or_rules_are_counted(
    settings: dict[str, int], count: int, made: Made, tmp_path: Path
) -> None:
    with Context(**settings):
        linears = [find_or_make(GRAPH, DEV, lambda graph: made.append(LINEAR) or LINEAR) for _ in range(2)]  # type: ignore[func-returns-value]
    assert linears == [LINEAR, LINEAR] and len(made) == count
    assert len(list(tmp_path.iterdir())) == 2 - count


def test_a_recording_has_every_schedule(made: Made, tmp_path: Path) -> None:
    in_a_new_process(called)
    count = len(made)
    with trace(tmp_path / "a.trace"):
        in_a_new_process(called)
    assert len(made) == 2 * count


def test_a_folder_that_cannot_be_written_is_only_a_warning(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(disk_cache._state, "warned", 0)
    (tmp_path / "file").write_text("")
    with Context(CACHE_DIR=str(tmp_path / "file")):
        with pytest.warns(RuntimeWarning, match="whit cannot keep"):
            first = in_a_new_process(of_a_variable_size)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert in_a_new_process(of_a_variable_size) == first


def test_what_does_not_read_back_is_not_kept(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "parse", lambda text: GRAPH)
    assert find_or_make(GRAPH, DEV, lambda graph: LINEAR) is LINEAR
    assert list(tmp_path.iterdir()) == []


PROGRAM = """
import sys
from whit import GlobalCounters, Tensor
from whit.ir.rewrite import counting
with counting() as counts:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    print(((x @ x).relu() * 0.3).sum(0).tolist(), GlobalCounters.kernel_count)
print(sum(count.attempts for count in counts.by_rule.values()) > 0)
print(*(name for name in ("whit.schedule", "whit.codegen", "llvmlite") if name in sys.modules))
"""


@pytest.mark.slow
def test_processes_at_once_keep_whole_schedules_and_the_next_loads_no_scheduler(tmp_path: Path) -> None:
    environment = {**os.environ, "CACHE": "1", "CACHE_DIR": str(tmp_path), "DEV": "CPU"}

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True, env=environment)

    together = [start() for _ in range(2)]
    first, second = [process.communicate()[0].splitlines() for process in together]
    assert first[0] == second[0] and "True" in (first[1], second[1])
    assert all(disk_cache.unpack(path.read_bytes(), name=path.name) is not None for path in tmp_path.iterdir())
    assert start().communicate()[0].splitlines() == [first[0], "False", ""]
