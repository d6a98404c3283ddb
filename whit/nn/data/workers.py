"""Workers of a DataLoader: threads or processes that read samples ahead. Batches keep their order.

Batch n is read by worker n % count, so what comes next is always known. Processes get numbers of samples through a pipe
and send batches back; one that finds its pipe closed ends, so none outlives a parent that was killed. Ctrl-C is left to
the parent, which closes the pipes.
"""

from __future__ import annotations

import pickle
import random
import signal
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from typing import Any, NamedTuple

from whit.errors import BackendError, UserError

PATIENCE_S = 2.0  # seconds for a process to end by itself
END = "end of the data"  # what a reader gives after the last sample


class WorkerInfo(NamedTuple):
    """Which worker this is."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_here = threading.local()


def get_worker_info() -> WorkerInfo | None:
    """In a worker, which one it is; elsewhere None."""
    return getattr(_here, "info", None)


class Job(NamedTuple):
    """What all workers need."""

    dataset: Any
    collate: Callable[[Any], Any]
    is_iterable: bool
    drop_last: bool
    seed: int
    init: Callable[[int], None] | None


class Reader:
    """Reads one batch after the other: by numbers of samples, or so many of what comes."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.samples: Iterator[Any] | None = iter(job.dataset) if job.is_iterable else None

    def __call__(self, asked: Any) -> Any:
        job = self.job
        if self.samples is None:
            if not isinstance(asked, list):
                return job.collate(job.dataset[asked])
            return job.collate([job.dataset[index] for index in asked])
        if asked is None:
            sample = next(self.samples, END)
            return END if isinstance(sample, str) and sample is END else job.collate(sample)
        found = list(islice(self.samples, asked))
        if not found or (len(found) < asked and job.drop_last):
            return END
        return job.collate(found)


class DataWorkerError(BackendError, RuntimeError):
    """A process that reads samples has ended without an answer."""


# ---- threads


class Threads:
    """Workers that share this process."""

    def __init__(self, count: int, job: Job) -> None:
        self.pools = [ThreadPoolExecutor(1, f"data-{n}", self._begin, (n, count, job)) for n in range(count)]
        self.waiting: deque[Future[Any]] = deque()
        self.next = 0

    @staticmethod
    def _begin(number: int, count: int, job: Job) -> None:
        _here.info = WorkerInfo(number, count, job.seed + number, job.dataset)
        _here.reader = None
        _here.job = job

    @staticmethod
    def _read(asked: Any) -> Any:
        if _here.reader is None:
            if _here.job.init is not None:
                _here.job.init(_here.info.id)
            _here.reader = Reader(_here.job)
        return _here.reader(asked)

    def ask(self, asked: Any) -> None:
        """Lets the next worker read a batch."""
        self.waiting.append(self.pools[self.next].submit(self._read, asked))
        self.next = (self.next + 1) % len(self.pools)

    def take(self, timeout: float) -> Any:
        """The batch that was asked for first."""
        try:
            return self.waiting.popleft().result(timeout or None)
        except TimeoutError as error:
            raise _late(timeout) from error

    def close(self) -> None:
        """Ends the threads; what one reads just now is read to its end, and forgotten."""
        for pool in self.pools:
            pool.shutdown(wait=False, cancel_futures=True)


def _late(timeout: float) -> DataWorkerError:
    return DataWorkerError(
        f"DataLoader: no batch for {timeout:g} seconds", fix="Give a longer timeout, or more workers."
    )


# ---- processes


class Processes:
    """Workers of their own."""

    def __init__(self, count: int, job: Job, context: BaseContext) -> None:
        self.connections: list[Connection] = []
        self.processes: list[Any] = []
        self.order: deque[int] = deque()
        self.next = 0
        is_forked = context.get_start_method() == "fork"
        try:
            for number in range(count):
                mine, theirs = context.Pipe()
                others = [*self.connections, mine] if is_forked else []
                target = (theirs, others, number, count, job)
                process: Any = context.Process(target=_work, args=target, daemon=True)  # type: ignore[attr-defined]
                self.connections.append(mine)
                process.start()
                self.processes.append(process)
                theirs.close()
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            self.close()
            raise UserError(
                f"DataLoader: the data set cannot be sent to a process: {error}",
                fix="Define its class and collate_fn in a module, or leave out multiprocessing_context for threads.",
            ) from error

    def ask(self, asked: Any) -> None:
        """Lets the next worker read a batch."""
        number = self.next
        self.order.append(number)
        self.next = (number + 1) % len(self.connections)
        with suppress(BrokenPipeError, ConnectionError):  # it has ended: said where its batch is taken
            self.connections[number].send(asked)

    def take(self, timeout: float) -> Any:
        """The batch that was asked for first."""
        number = self.order.popleft()
        connection = self.connections[number]
        if timeout and not wait([connection], timeout):
            raise _late(timeout)
        try:
            kind, content = pickle.loads(connection.recv_bytes())
        except (EOFError, ConnectionError) as error:
            process = self.processes[number]
            process.join(PATIENCE_S)
            raise DataWorkerError(
                f"DataLoader: worker {number} has ended with exit code {process.exitcode}",
                fix="It was killed, perhaps for want of memory, or a native library has failed.",
            ) from error
        if kind == "error":
            raise content
        return content

    def close(self) -> None:
        """Ends the processes: by closing their pipes, and those that do not listen by force."""
        for connection in self.connections:
            connection.close()
        for process in self.processes:
            process.join(PATIENCE_S)
            if process.is_alive():
                process.terminate()
                process.join(PATIENCE_S)
            if process.is_alive():
                process.kill()
                process.join()
            process.close()
        self.connections, self.processes = [], []


def _work(connection: Connection, others: list[Connection], number: int, count: int, job: Job) -> None:
    """What a process does until its pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for other in others:  # a copy of an end that stays open would hide that the parent has gone
        other.close()
    random.seed(job.seed + number)
    _here.info = WorkerInfo(number, count, job.seed + number, job.dataset)
    reader: Reader | None = None
    while True:
        try:
            asked = connection.recv()
        except (EOFError, OSError):
            return
        try:
            if reader is None:
                if job.init is not None:
                    job.init(number)
                reader = Reader(job)
            answer = pickle.dumps(("batch", reader(asked)), protocol=5)
        except Exception as error:
            answer = _failed(error, number)
        try:
            connection.send_bytes(answer)
        except (BrokenPipeError, ConnectionError, OSError):
            return


def _failed(error: Exception, number: int) -> bytes:
    """The error with where it was raised; a RuntimeError in its place if it cannot be sent."""
    text = f"in worker {number} of a DataLoader:\n{traceback.format_exc()}"
    try:
        error.add_note(text)
        answer = pickle.dumps(("error", error))
        pickle.loads(answer)  # some errors can be sent, and not be made again
    except Exception:
        answer = pickle.dumps(("error", RuntimeError(f"{type(error).__name__}: {error}\n{text}")))
    return answer
