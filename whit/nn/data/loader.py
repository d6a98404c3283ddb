"""DataLoader: a data set as batches of tensors."""

from __future__ import annotations

import multiprocessing
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from multiprocessing.context import BaseContext
from typing import Any

from whit.errors import ArgumentError
from whit.nn.data.collate import stack_samples, to_tensors
from whit.nn.data.dataset import IterableDataset, TensorDataset
from whit.nn.data.samplers import BatchSampler, Generator, RandomSampler, SequentialSampler, source
from whit.nn.data.workers import END, Job, Processes, Reader, Threads
from whit.tensor import Tensor

PREFETCHED = 2  # batches of each worker that are read ahead, unless it is said


class DataLoader:
    """Batches of a data set, in `for batch in loader:`.

    batch_size      None: samples as they are
    num_workers     0 reads samples here; more are threads, or with `multiprocessing_context` ("spawn", "fork",
                    "forkserver") processes, which are for data sets that compute in Python
    collate_fn      a list of samples -> a batch. What it gives is given on as it is
    device          where tensors of batches are; the next batch is on its way there while one is used
    generator       a number or a random.Random, in place of `Tensor`'s random numbers
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: str | BaseContext | None = None,
        generator: Generator = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        device: str | None = None,
    ) -> None:
        self.is_iterable = isinstance(dataset, IterableDataset) or not hasattr(dataset, "__getitem__")
        _check_numbers(batch_size, num_workers, timeout, prefetch_factor)
        self._check_order(batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.dataset, self.num_workers, self.drop_last, self.timeout = dataset, num_workers, drop_last, timeout
        self.collate_fn, self.worker_init_fn, self.generator, self.device = (
            collate_fn,
            worker_init_fn,
            generator,
            device,
        )
        self.prefetch_factor = PREFETCHED if prefetch_factor is None else prefetch_factor
        self.persistent_workers, self.multiprocessing_context = persistent_workers, multiprocessing_context
        self.sampler, self.batch_sampler = sampler, batch_sampler
        self.batch_size = batch_size if batch_sampler is None else None
        if not self.is_iterable and sampler is None and batch_sampler is None:
            self.sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        if self.sampler is not None and self.batch_size is not None:
            self.batch_sampler = BatchSampler(self.sampler, self.batch_size, drop_last)
        self._pool: Threads | Processes | None = None

    def _check_order(
        self, batch_size: int | None, shuffle: bool | None, sampler: Any, batch_sampler: Any, drop_last: bool
    ) -> None:
        """Refuses two answers to one question."""
        has_order = sampler is not None or batch_sampler is not None
        _refuse("shuffle beside a sampler", bool(shuffle) and has_order)
        has_batches = batch_size not in (1, None) or sampler is not None or drop_last
        _refuse("batch_sampler beside batch_size, sampler or drop_last", batch_sampler is not None and has_batches)
        _refuse("drop_last without batches", batch_size is None and drop_last)
        _refuse("an order for a data set without numbers", self.is_iterable and (bool(shuffle) or has_order))

    def __len__(self) -> int:
        """How many batches there are."""
        if self.is_iterable:
            count = len(self.dataset)
            size = self.batch_size or 1
            return count // size if self.drop_last else -(-count // size)
        batches: Any = self.batch_sampler if self.batch_sampler is not None else self.sampler
        return len(batches)

    def __iter__(self) -> Iterator[Any]:
        """Another pass over the data."""
        if self.num_workers == 0:
            return self._alone()
        return self._ahead()

    # ---- what is read

    def _asked(self) -> Iterator[Any]:
        """What readers are asked for: lists of numbers, a number, or how many samples."""
        if self.is_iterable:
            return repeat(self.batch_size)
        return iter(self.batch_sampler if self.batch_sampler is not None else self.sampler or ())

    def _job(self) -> Job:
        collate = self.collate_fn or (stack_samples if self._is_batched() else _same)
        seed = source(self.generator).randrange(2**31) if self.num_workers else 0
        return Job(self.dataset, collate, self.is_iterable, self.drop_last, seed, self.worker_init_fn)

    def _is_batched(self) -> bool:
        return self.batch_size is not None or self.batch_sampler is not None

    def _given(self, batch: Any) -> Any:
        """A batch as it is given to the user."""
        if self.collate_fn is not None and self.device is None:
            return batch
        return to_tensors(batch, self.device)

    # ---- here, or by workers

    def _alone(self) -> Iterator[Any]:
        if isinstance(self.dataset, TensorDataset) and self.collate_fn is None and self._is_batched():
            yield from map(self._rows, self._asked())
            return
        read = Reader(self._job())
        for asked in self._asked():
            batch = read(asked)
            if isinstance(batch, str) and batch is END:
                return
            yield self._given(batch)

    def _rows(self, indices: list[int]) -> tuple[Tensor, ...]:
        """A batch of tensors, by one kernel for each."""
        found = []
        for tensor in self.dataset.tensors:
            place = Tensor(indices, dtype="int32", device=tensor.device)
            rows = tensor[place]
            found.append(rows if self.device is None else rows.to(self.device))
        Tensor.realize(*found)
        return tuple(found)

    def _workers(self) -> Threads | Processes:
        if self._pool is not None:
            return self._pool
        context = self.multiprocessing_context
        pool: Threads | Processes
        if context is None:
            pool = Threads(self.num_workers, self._job())
        else:
            found = multiprocessing.get_context(context) if isinstance(context, str) else context
            pool = Processes(self.num_workers, self._job(), found)
        if self.persistent_workers and not self.is_iterable:
            self._pool = pool
            weakref.finalize(self, pool.close)
        return pool

    def _ahead(self) -> Iterator[Any]:
        """Batches that workers read; the next one is made before one is given."""
        pool = self._workers()
        is_done = False
        try:
            ready: deque[Any] = deque()
            for batch in self._taken(pool):
                ready.append(self._given(batch))
                if len(ready) > 1:
                    yield ready.popleft()
            while ready:
                yield ready.popleft()
            is_done = True
        finally:
            if pool is not self._pool:
                pool.close()
            elif not is_done:  # batches are on their way that nobody wants
                self._pool = None
                pool.close()

    def _taken(self, pool: Threads | Processes) -> Iterator[Any]:
        asked = self._asked()
        waiting = 0
        live = [True] * self.num_workers
        turn = 0
        pool.next = 0
        for _ in range(self.prefetch_factor * self.num_workers):
            waiting += self._ask(pool, asked)
        while waiting:
            batch = pool.take(self.timeout)
            waiting -= 1
            worker, turn = turn, (turn + 1) % self.num_workers
            if isinstance(batch, str) and batch == END:
                live[worker] = False
                if not any(live):
                    return
                waiting += self._ask(pool, asked)
                continue
            waiting += self._ask(pool, asked)
            yield batch

    @staticmethod
    def _ask(pool: Threads | Processes, asked: Iterator[Any]) -> int:
        """Asks for one more batch, if there is one."""
        try:
            wanted = next(asked)
        except StopIteration:
            return 0
        pool.ask(wanted)
        return 1


def _refuse(problem: str, is_there: bool) -> None:
    if is_there:
        raise ArgumentError(f"DataLoader: {problem}", fix="See the docstring of DataLoader for what goes together.")


def _check_numbers(batch_size: int | None, num_workers: int, timeout: float, prefetch_factor: int | None) -> None:
    _refuse(f"batch_size={batch_size!r}", batch_size is not None and (isinstance(batch_size, bool) or batch_size < 1))
    _refuse(f"num_workers={num_workers!r}", isinstance(num_workers, bool) or num_workers < 0)
    _refuse(f"timeout={timeout!r}", timeout < 0)
    _refuse(f"prefetch_factor={prefetch_factor!r}", prefetch_factor is not None and prefetch_factor < 1)


def _same(sample: Any) -> Any:
    return sample
