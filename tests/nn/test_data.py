"""Data sets, samplers, and the loader: order, batches, workers that fail, are killed, or are not needed any more."""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from whit import GlobalCounters, Tensor
from whit.errors import ArgumentError, DTypeError, ShapeError, UserError
from whit.nn.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    get_worker_info,
    random_split,
)
from whit.nn.data.workers import DataWorkerError

KINDS: dict[str, dict[str, Any]] = {
    "none": {},
    "threads": {"num_workers": 2},
    "fork": {"num_workers": 2, "multiprocessing_context": "fork"},
    "spawn": {"num_workers": 2, "multiprocessing_context": "spawn"},
}
SPAWN = pytest.param("spawn", marks=pytest.mark.slow)  # each process imports whit
PROCESSES = ["fork", SPAWN]
WITH_WORKERS = ["threads", *PROCESSES]
ALL = ["none", *WITH_WORKERS]
pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="fork"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]


class Squares(Dataset):
    """Numbers beside their squares; one of them can go wrong."""

    def __init__(self, count: int, bad: int | None = None, action: str = "raise") -> None:
        self.count, self.bad, self.action = count, bad, action

    def __getitem__(self, index: int) -> Any:
        if index == self.bad:
            if self.action == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.action == "sleep":
                time.sleep(30)
            raise KeyError(f"sample {index} is broken")
        return np.float32(index), index * index

    def __len__(self) -> int:
        return self.count


class Shares(IterableDataset):
    """Numbers of which each worker has its part."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, self.count, step))


def numbers(loader: DataLoader) -> list[list[float]]:
    return [x.tolist() for x, _ in loader]


def children() -> int:
    return len(multiprocessing.active_children())


def data_threads() -> int:
    return sum(thread.name.startswith("data-") for thread in threading.enumerate())


def wait_for(condition: Any, seconds: float = 10) -> bool:
    """Whether it comes true. What nobody refers to is collected once: late in a run of all tests that takes a second."""
    gc.collect()
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return bool(condition())


# ---- batches


@pytest.mark.parametrize("kind", ALL)
def test_batches_come_in_order_with_the_last_one_short_or_left_out(kind: str) -> None:
    loader = DataLoader(Squares(10), batch_size=4, **KINDS[kind])
    assert len(loader) == 3
    for _ in range(2):
        assert numbers(loader) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    x, y = next(iter(loader))
    assert (x.dtype.name, y.dtype.name, y.tolist()) == ("float32", "int64", [0, 1, 4, 9])
    short = DataLoader(Squares(10), batch_size=4, drop_last=True, **KINDS[kind])
    assert len(short) == 2 and numbers(short) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert numbers(DataLoader(Squares(0), batch_size=4, **KINDS[kind])) == []
    alone = DataLoader(Squares(3), batch_size=None, **KINDS[kind])
    assert [int(y) for _, y in alone] == [0, 1, 4] and len(alone) == 3


@pytest.mark.parametrize("kind", ALL)
def test_shuffled_batches_are_those_of_the_seed(kind: str) -> None:
    def epochs() -> list[list[float]]:
        loader = DataLoader(Squares(20), batch_size=20, shuffle=True, **KINDS[kind])
        return [numbers(loader)[0] for _ in range(2)]

    Tensor.manual_seed(3)
    first, second = epochs()
    assert sorted(first) == list(range(20)) != first and first != second
    Tensor.manual_seed(3)
    assert epochs() == [first, second]
    of_generator = [numbers(DataLoader(Squares(9), 9, True, generator=random.Random(1)))[0] for _ in range(2)]
    assert of_generator[0] == of_generator[1]


@pytest.mark.parametrize("kind", ALL)
def test_samples_without_numbers_are_shared_by_workers(kind: str) -> None:
    loader = DataLoader(Shares(11), batch_size=3, **KINDS[kind])
    found = [batch.tolist() for batch in loader]
    assert sorted(number for batch in found for number in batch) == list(range(11))
    assert max(map(len, found)) == 3
    whole = DataLoader(Shares(11), batch_size=3, drop_last=True, **KINDS[kind])
    assert all(batch.shape == (3,) for batch in whole)


def test_tensors_are_read_by_one_kernel_a_batch() -> None:
    data = TensorDataset(Tensor.arange(12).reshape(6, 2).realize(), Tensor.arange(6).realize())
    found = [(x.tolist(), y.tolist()) for x, y in DataLoader(data, batch_size=2)]
    assert found == [([[4 * i, 4 * i + 1], [4 * i + 2, 4 * i + 3]], [2 * i, 2 * i + 1]) for i in range(3)]
    rest = iter(DataLoader(data, batch_size=2, shuffle=True))
    next(rest)
    GlobalCounters.reset()
    next(rest)
    assert GlobalCounters.kernel_count == 2
    assert [tensor.tolist() for tensor in data[1]] == [[2, 3], 1]
    assert next(iter(DataLoader(data, device="PYTHON")))[0].device == "PYTHON"
    with pytest.raises(ShapeError, match=r"TensorDataset: \[2, 3\] samples"):
        TensorDataset(Tensor.ones(2), Tensor.ones(3))


class Pair(NamedTuple):
    a: Any
    b: Any


def test_samples_are_stacked_whatever_they_are_made_of() -> None:
    batch = default_collate(
        [{"x": np.ones(2), "t": "a", "p": Pair(1.5, True)}, {"x": np.zeros(2), "t": "b", "p": Pair(2.5, False)}]
    )
    assert batch["x"].dtype.name == "float64" and batch["t"] == ["a", "b"]
    assert (
        isinstance(batch["p"], Pair) and batch["p"].a.dtype.name == "float32" and batch["p"].b.tolist() == [True, False]
    )
    assert default_collate([Tensor([1]), Tensor([2])]).tolist() == [[1], [2]]
    assert [part.tolist() for part in default_collate([[1, 2.0], [3, 4.0]])] == [[1, 3], [2, 4]]
    with pytest.raises(ShapeError, match=r"samples of shapes \(2,\), \(3,\) in one batch(.|\n)*pad_sequence"):
        default_collate([np.ones(2), np.ones(3)])
    with pytest.raises(DTypeError, match="a sample has a set"):
        default_collate([{1}, {2}])
    with pytest.raises(ShapeError, match="several numbers of parts"):
        default_collate([(1, 2), (1,)])
    own = DataLoader([1, 2, 3], batch_size=2, collate_fn=list)
    assert list(own) == [[1, 2], [3]]


# ---- workers that go wrong


@pytest.mark.parametrize("kind", ALL)
def test_an_error_in_a_worker_is_raised_with_its_place(kind: str) -> None:
    loader = DataLoader(Squares(12, bad=7), batch_size=2, **KINDS[kind])
    with pytest.raises(KeyError, match="sample 7 is broken") as caught:
        list(loader)
    if kind in ("fork", "spawn"):
        assert any("in worker 1 of a DataLoader" in note and "test_data.py" in note for note in caught.value.__notes__)
    del caught
    assert wait_for(lambda: children() == 0 and data_threads() == 0)


@pytest.mark.parametrize("kind", PROCESSES)
def test_a_worker_that_is_killed_is_an_error(kind: str) -> None:
    with pytest.raises(DataWorkerError, match=r"worker 1 has ended with exit code -9"):
        list(DataLoader(Squares(12, bad=2, action="kill"), batch_size=2, **KINDS[kind]))
    assert wait_for(lambda: children() == 0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", PROCESSES)
def test_a_worker_that_takes_too_long_is_an_error_and_ends(kind: str) -> None:
    start = time.monotonic()
    with pytest.raises(DataWorkerError, match=r"no batch for 3 seconds"):
        list(DataLoader(Squares(12, bad=2, action="sleep"), batch_size=2, timeout=3, **KINDS[kind]))
    assert time.monotonic() - start < 20
    assert wait_for(lambda: children() == 0)


@pytest.mark.parametrize("kind", WITH_WORKERS)
def test_workers_end_with_a_loop_that_is_left(kind: str) -> None:
    for batch in DataLoader(Squares(100), batch_size=2, **KINDS[kind]):
        assert batch[0].shape == (2,)
        break
    del batch
    assert wait_for(lambda: children() == 0 and data_threads() == 0)
    rest = iter(DataLoader(Squares(100), batch_size=2, **KINDS[kind]))
    next(rest)
    del rest
    assert wait_for(lambda: children() == 0 and data_threads() == 0)


@pytest.mark.parametrize("kind", WITH_WORKERS)
def test_workers_that_persist_are_the_same_in_every_epoch(kind: str) -> None:
    loader = DataLoader(Squares(10), batch_size=4, persistent_workers=True, **KINDS[kind])
    assert numbers(loader) == numbers(loader)
    pool = loader._pool
    assert pool is not None
    for _ in loader:
        break
    assert loader._pool is not pool, "batches were on their way"
    assert numbers(loader) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    del loader, pool
    assert wait_for(lambda: children() == 0 and data_threads() == 0)


def test_what_cannot_be_sent_to_a_process_is_said() -> None:
    with pytest.raises(UserError, match=r"the data set cannot be sent to a process(.|\n)*threads"):
        list(DataLoader([lambda: 3], num_workers=1, multiprocessing_context="spawn"))
    assert wait_for(lambda: children() == 0)


# A process that a shell has started in the background ignores Ctrl-C, and so do its children.
PROGRAM = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, {folder!r})
from nn.test_data import Squares
from whit.nn.data import DataLoader

if __name__ == "__main__":
    loader = DataLoader(Squares(10**6), batch_size=2, num_workers=2, multiprocessing_context="fork")
    for place, _ in enumerate(loader):
        if place == 1:
            import multiprocessing
            print(*[child.pid for child in multiprocessing.active_children()], flush=True)
            time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_a_parent_that_is_stopped(sent: signal.Signals) -> None:
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(folder=folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as program:
        assert program.stdout is not None
        pids = [int(word) for word in program.stdout.readline().split()]
        assert len(pids) == 2
        if sent is signal.SIGINT:
            os.killpg(program.pid, sent)  # as a terminal does: to all of them
        else:
            program.send_signal(sent)
        assert program.wait(20) != 0
        assert program.stderr is not None
        text = program.stderr.read()
    assert ("KeyboardInterrupt" in text) == (sent is signal.SIGINT)
    assert wait_for(lambda: not any(_is_running(pid) for pid in pids))


def _is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# ---- data sets and orders


def test_data_sets_are_joined_and_parted() -> None:
    both = ConcatDataset([Squares(3), [("a", "b")]]) + Subset(Squares(9), [4, 8])
    assert isinstance(both, ConcatDataset) and len(both) == 6
    assert [both[i][1] for i in (0, 2, 3, 4, -1)] == [0, 4, "b", 16, 64]
    with pytest.raises(IndexError, match="sample 6 of 6"):
        both[6]
    assert list(ChainDataset([range(2), range(1)])) == [0, 1, 0] == list(ChainDataset([range(2)]) + range(1))
    assert StackDataset(range(3), [5, 6, 7])[1] == (1, 6) and StackDataset(a=[1])[0] == {"a": 1}
    with pytest.raises(ArgumentError, match="several lengths"):
        StackDataset([1], [1, 2])
    parts = random_split(range(10), [0.5, 0.25, 0.25], generator=1)
    assert [len(part) for part in parts] == [6, 2, 2]
    assert sorted(part[i] for part in parts for i in range(len(part))) == list(range(10))
    assert [len(part) for part in random_split(range(10), [3, 7])] == [3, 7]
    with pytest.raises(ArgumentError, match=r"random_split: \[3, 3\] of 10 samples"):
        random_split(range(10), [3, 3])


def test_orders() -> None:
    assert list(BatchSampler(range(5), 2)) == [[0, 1], [2, 3], [4]] and len(BatchSampler(range(5), 2)) == 3
    assert list(BatchSampler(range(5), 2, True)) == [[0, 1], [2, 3]] and len(BatchSampler(range(5), 2, True)) == 2
    drawn = list(RandomSampler(range(4), True, 1000, 0))
    assert len(drawn) == 1000 and min(Counter(drawn).values()) > 200
    assert sorted(RandomSampler(range(4), num_samples=8)) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert sorted(SubsetRandomSampler([5, 7, 9])) == [5, 7, 9]
    counts = Counter(WeightedRandomSampler([1.0, 0.0, 3.0], 4000, generator=0))
    assert set(counts) == {0, 2} and 2.6 < counts[2] / counts[0] < 3.4
    assert sorted(WeightedRandomSampler([1.0, 0.0, 3.0], 2, replacement=False)) == [0, 2]
    loader = DataLoader(Squares(10), batch_sampler=[[1, 2], [5]])
    assert numbers(loader) == [[1, 2], [5]]
    assert numbers(DataLoader(Squares(10), 2, sampler=[3, 1, 2])) == [[3, 1], [2]]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"batch_size": 0}, "batch_size=0"),
        ({"num_workers": -1}, "num_workers=-1"),
        ({"shuffle": True, "sampler": [1]}, "shuffle beside a sampler"),
        ({"batch_sampler": [[1]], "drop_last": True}, "batch_sampler beside"),
        ({"batch_size": None, "drop_last": True}, "drop_last without batches"),
        ({"dataset": Shares(3), "shuffle": True}, "an order for a data set without numbers"),
        ({"prefetch_factor": 0}, "prefetch_factor=0"),
    ],
)
def test_arguments_that_do_not_go_together(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=f"DataLoader: {message}"):
        DataLoader(**{"dataset": Squares(3), **given})
    with pytest.raises(ArgumentError, match="BatchSampler: batch_size=True"):
        BatchSampler(range(3), True)
    with pytest.raises(ArgumentError, match="generator='x'"):
        list(RandomSampler(range(3), generator="x"))  # type: ignore[arg-type]
