"""One kernel on memory of its own: to see what it computes, and how long it takes.

alone = Alone(body)
alone.fill(arrays)              one for each param, by slot
alone.run(kernel)
alone.arrays[0]                 what it has written
alone.best_seconds(kernel, 0.05)
"""

from __future__ import annotations

import time
from array import array
from typing import Any

import numpy as np

from whit.engine.compile.tune.task import Runnable
from whit.engine.memory.storage import nbytes_of
from whit.ir import ops
from whit.ir.interpret import numpy_dtype
from whit.ir.uop import UOp
from whit.runtime.buffer import Buffer
from whit.runtime.pool.threads import run_native, thread_count

CHUNKS_A_THREAD = 16  # as the device CPU hands out work
LEAST_RUNS, MOST_RUNS = 3, 1000


class Alone:
    """Buffers for the params of a kernel without symbolic sizes."""

    def __init__(self, body: UOp) -> None:
        self.params = {node.arg.slot: node for node in body.topological() if node.op is ops.PARAM}
        self.written = {store.src[0].arg.slot for store in body.src}
        self.arrays: dict[int, Any] = {}
        self._pointers = array("Q", bytes(8 * (max(self.params, default=0) + 1)))
        for slot, param in self.params.items():
            buffer = Buffer("CPU", nbytes_of(param.dtype, param.shape))
            self._pointers[slot] = buffer.address
            count = int(np.prod([int(size) for size in param.shape]))
            self.arrays[slot] = np.frombuffer(buffer.memory(), numpy_dtype(param.dtype), count).reshape(param.shape)

    def fill(self, given: dict[int, Any]) -> None:
        """Copies what is given into the memory."""
        for slot, content in given.items():
            self.arrays[slot][...] = content

    def run(self, kernel: Runnable) -> None:
        """One run."""
        self._launch(kernel)()

    def _launch(self, kernel: Runnable) -> Any:
        threads = max(min(thread_count(), kernel.total), 1)
        chunk = max(kernel.total // (threads * CHUNKS_A_THREAD), 1)
        pointers = self._pointers.buffer_info()[0]
        record = array("Q", (kernel.address, pointers, 0, kernel.total, chunk, threads))
        place = record.buffer_info()[0]

        def launch(keeps: array[int] = record) -> None:
            run_native(place, 1, threads)

        return launch

    def best_seconds(self, kernel: Runnable, seconds: float, give_up: float = float("inf")) -> float:
        """The fastest of many runs; few if all of them take longer than `give_up`."""
        launch = self._launch(kernel)
        is_alone = min(thread_count(), kernel.total) < 2
        clock = time.thread_time if is_alone else time.perf_counter  # the former stops while others have the core
        best, count, end = float("inf"), 0, time.perf_counter() + seconds
        while count < LEAST_RUNS or (time.perf_counter() < end and count < MOST_RUNS):
            start = clock()
            launch()
            best = min(best, clock() - start)
            count += 1
            if count == LEAST_RUNS and best > give_up:
                break
        return best
