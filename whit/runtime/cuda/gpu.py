"""One NVIDIA GPU: its memory, its stream of work, modules of PTX, events.

    gpu = open_gpu(0)
    address = gpu.take(1024)            # from the pool, or from the driver
    gpu.transfers.upload(address, source, 1024)
    gpu.launch(function, 8, 256, parameters, ("kernel", (lambda: ptx,)))
    gpu.transfers.download(target, address, 1024)       # waits

Work of a GPU goes to one stream, in the order in which it was given, so memory that is given back can be taken again at
once: what used it runs before what uses it next. A process that forks after its first use of a GPU has none in the
child.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from whit.errors import BackendError, DeviceError
from whit.runtime.blocks import size_class
from whit.runtime.cuda import transfers as cuda_transfers
from whit.runtime.cuda.driver import (
    OUT_OF_MEMORY,
    Driver,
    DriverError,
    load_driver,
)
from whit.runtime.cuda.failure import STICKY, Started, failure, write_source
from whit.runtime.cuda.times import Times
from whit.runtime.cuda.transfers import NO_TIMING, NON_BLOCKING, Transfers

SMALLEST_BLOCK_BYTES = 512  # bytes of a block of memory
MEMORY_TYPE = 2  # what the driver is asked about an address
JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES = 5, 6
PTX = 1  # a kind of what is linked
COMPUTE_MAJOR, COMPUTE_MINOR, MULTIPROCESSORS = 75, 76, 16
SHARED_BYTES, LOCAL_BYTES, REGISTERS, MOST_SHARED_BYTES = 1, 3, 4, 8  # attributes of a function
REMEMBERED_KERNELS = 8  # kernels that an error names


class CudaMemoryError(MemoryError):
    """The device has no memory left."""


_current = threading.local()  # the GPU of each thread


class Gpu:
    """An open device."""

    def __init__(self, driver: Driver, ordinal: int) -> None:
        self.driver = driver
        self.ordinal = ordinal
        self.lock = threading.RLock()
        self.is_lost = ""  # why nothing can be done any more
        self.pool: dict[int, list[int]] = {}  # size -> addresses
        self.sizes: dict[int, int] = {}  # of blocks that are in use or in the pool
        self.recent: deque[Started] = deque(maxlen=REMEMBERED_KERNELS)
        self._leaving: deque[tuple[Any, Any]] = deque()  # memory of others, each with the event after which it may go
        self._is_ending = sys.is_finalizing  # bound here: when Python ends, the names of modules go first
        self._used: dict[int, Any] = {}  # large blocks, and events after all that used them before they were given back
        device = self.number("cuDeviceGet", ctypes.c_int, ordinal)
        self.device = device
        self.label = f"CUDA:{ordinal}" if ordinal else "CUDA"  # the name of the device in whit
        name = ctypes.create_string_buffer(100)
        driver.cuDeviceGetName(name, 100, device)
        self.name = name.value.decode()
        self.compute = (self.attribute(COMPUTE_MAJOR), self.attribute(COMPUTE_MINOR))
        self.multiprocessors = self.attribute(MULTIPROCESSORS)
        self.context = self.number("cuDevicePrimaryCtxRetain", ctypes.c_void_p, device)
        self.use()
        self.stream = self.number("cuStreamCreate", ctypes.c_void_p, NON_BLOCKING)
        self.has_graphs = hasattr(driver.library, "cuGraphAddKernelNode_v2")  # drivers of CUDA 12 and newer
        self.starts_early = self.compute >= (9, 0) and hasattr(driver.library, "cuGraphAddDependencies_v2")
        self.times = Times(self)
        self.transfers = Transfers(self)

    def number(self, function: str, kind: Any, *arguments: Any) -> Any:
        """The result of a function that fills in its first argument."""
        result = kind()
        self.checked(getattr(self.driver, function), ctypes.byref(result), *arguments)
        return result.value

    def attribute(self, which: int) -> int:
        """A fact about the device."""
        return int(self.number("cuDeviceGetAttribute", ctypes.c_int, which, self.device))

    @property
    def is_gone(self) -> bool:
        """Whether what goes need not be given back: the device is lost, or Python ends."""
        return bool(self.is_lost) or self._is_ending()

    def use(self) -> None:
        """Makes this the GPU of the calling thread; an error if it cannot be used any more."""
        if self.is_lost:
            raise _lost(self.is_lost)
        if getattr(_current, "gpu", None) is not self:
            self.driver.cuCtxSetCurrent(self.context)
            _current.gpu = self

    @contextmanager
    def visited(self) -> Iterator[None]:
        """The same for a short while, inside something that may be done with another GPU: as when memory goes."""
        before = getattr(_current, "gpu", None)
        self.use()
        try:
            yield
        finally:
            if before is not None and not before.is_lost:
                before.use()

    # ---- memory

    def take(self, nbytes: int) -> int:
        """The address of `nbytes` of memory; their content is arbitrary. CudaMemoryError if there are none."""
        self.use()
        size = max(size_class(nbytes), SMALLEST_BLOCK_BYTES)
        with self.lock:
            free = self.pool.get(size)
            if free:
                return free.pop()
            try:
                address = self._allocate(size)
            except CudaMemoryError:
                self.release()
                address = self._allocate(size)
            self.sizes[address] = size
            return address

    def _allocate(self, size: int) -> int:
        try:
            return int(self.number("cuMemAlloc_v2", ctypes.c_uint64, size))
        except DriverError as error:
            if error.code != OUT_OF_MEMORY:
                raise
            raise CudaMemoryError(f"{size} bytes") from None

    def give_back(self, address: int) -> None:
        """The memory may be taken again."""
        if self.is_gone:
            return
        with self.lock:
            size = self.sizes[address]
            if size >= cuda_transfers.LARGE_BYTES:
                with self.visited(), suppress(BackendError):  # somebody else will see the error
                    if address not in self._used:
                        self._used[address] = self.number("cuEventCreate", ctypes.c_void_p, NO_TIMING)
                    self.checked(self.driver.cuEventRecord, self._used[address], self.stream)
            self.pool.setdefault(size, []).append(address)

    def last_use(self, address: int) -> Any:
        """The event after all that used a large block before it was given back; None if nothing did."""
        return self._used.get(address)

    def release(self) -> None:
        """Gives all memory that nobody uses back to the driver."""
        if self.is_lost:
            return
        self.synchronize()
        with self.lock:
            for addresses in self.pool.values():
                for address in addresses:
                    self.driver.cuMemFree_v2(address)
                    del self.sizes[address]
                    if address in self._used:
                        self.driver.cuEventDestroy_v2(self._used.pop(address))
            self.pool.clear()

    def memory_type(self, address: int) -> int | None:
        """1: memory of the machine that the driver knows, 2: of a GPU; None: it does not know it."""
        kind = ctypes.c_uint()
        failed = self.driver.function("cuPointerGetAttribute")(ctypes.byref(kind), MEMORY_TYPE, address)
        return None if failed else kind.value

    def keep_until_done(self, owner: Any) -> None:
        """Keeps what somebody else may take back when all that was started so far is done."""
        with self.lock:
            event = self.number("cuEventCreate", ctypes.c_void_p, NO_TIMING)
            self.checked(self.driver.cuEventRecord, event, self.stream)
            self._leaving.append((event, owner))
            self.let_go()

    def let_go(self) -> None:
        """Lets go of what is no longer needed of that."""
        while self._leaving and not self.driver.function("cuEventQuery")(self._leaving[0][0]):
            event, _owner = self._leaving.popleft()
            self.driver.cuEventDestroy_v2(event)

    def free_bytes(self) -> tuple[int, int]:
        """Memory that the driver has left, and all there is."""
        self.use()
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    # ---- code

    def assemble(self, text: bytes) -> bytes:
        """Machine code of PTX, made by the driver for this device. Several threads may do this at once."""
        self.use()
        driver, state = self.driver, ctypes.c_void_p()
        log, options, values = _error_log()
        driver.cuLinkCreate_v2(2, options, values, ctypes.byref(state))
        try:
            driver.cuLinkAddData_v2(state, PTX, text, len(text) + 1, b"kernel", 0, None, None)
            code, size = ctypes.c_void_p(), ctypes.c_size_t()
            driver.cuLinkComplete(state, ctypes.byref(code), ctypes.byref(size))
            return ctypes.string_at(code, size.value)
        except DriverError as error:
            raise self._refusal(error, log, text) from None
        finally:
            driver.cuLinkDestroy(state)

    def load_module(self, code: bytes) -> Module:
        """PTX, or machine code for this device."""
        self.use()
        log, options, values = _error_log()
        try:
            try:
                handle = self.number("cuModuleLoadDataEx", ctypes.c_void_p, code, 2, options, values)
            except DriverError as error:
                if error.code != OUT_OF_MEMORY:
                    raise
                self.release()
                handle = self.number("cuModuleLoadDataEx", ctypes.c_void_p, code, 2, options, values)
        except DriverError as error:
            raise self._refusal(error, log, code) from None
        return Module(self, handle)

    def _refusal(self, error: DriverError, log: Any, code: bytes) -> BackendError:
        """What to raise where the driver does not take code."""
        if error.code in STICKY:
            return self._failure(error)
        details = f"{error}\n{log.value.decode()}".strip()
        return BackendError("CUDA: the driver does not take a kernel", f"{details}\n{write_source(code)}")

    def usage_of(self, function: Any, threads: int, shared: int) -> FunctionUsage:
        """What a kernel takes of a multiprocessor, launched so."""
        self.use()
        own, spilled, registers = (
            self.number("cuFuncGetAttribute", ctypes.c_int, which, function)
            for which in (SHARED_BYTES, LOCAL_BYTES, REGISTERS)
        )
        blocks = self.number("cuOccupancyMaxActiveBlocksPerMultiprocessor", ctypes.c_int, function, threads, shared)
        return FunctionUsage(blocks, registers, own + shared, spilled)

    def launch(
        self, function: Any, blocks: int, threads: int, parameters: Any, started: Started, shared: int = 0
    ) -> None:
        """Starts a kernel; `parameters` are pointers to its arguments, which are copied."""
        self.recent.append(started)
        try:
            self.driver.cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, shared, self.stream, parameters, None)
        except DriverError as error:
            raise self._failure(error) from None

    def synchronize(self) -> None:
        """Returns when everything that was started has finished."""
        self.use()
        self.checked(self.driver.cuStreamSynchronize, self.stream)
        self.recent.clear()
        self.let_go()

    def checked(self, function: Any, *arguments: Any) -> None:
        """Calls a function of the driver, whose error may be that of an earlier kernel."""
        try:
            function(*arguments)
        except DriverError as error:
            if error.code not in STICKY:
                raise
            raise self._failure(error) from None

    def check(self, function: str, code: int) -> None:
        """An error if a function of the driver that was called by itself has returned one."""
        if code:
            raise self._failure(self.driver.error(function, code)) from None

    def _failure(self, error: DriverError) -> BackendError:
        """The error about what the driver has returned; after most of them every call is one."""
        if error.code in STICKY:
            self.is_lost = self.is_lost or f"an earlier kernel failed with {error.name}"
        return failure(error, self.recent)

    # ---- time

    def event(self) -> Event:
        """A point in the stream of work."""
        self.use()
        return Event(self, self.number("cuEventCreate", ctypes.c_void_p, 0))


@dataclass(frozen=True, slots=True)
class FunctionUsage:
    """What a kernel takes of a multiprocessor."""

    blocks: int  # that run there at once
    registers: int  # of a thread
    shared: int  # bytes of a block
    spilled: int  # bytes of a thread


class Module:
    """Code on a GPU."""

    def __init__(self, gpu: Gpu, handle: Any) -> None:
        self.gpu = gpu
        self.handle = handle

    def function(self, name: str, shared: int = 0) -> Any:
        """A kernel by its name, which will be launched with `shared` bytes of shared memory."""
        found = ctypes.c_void_p()
        self.gpu.driver.cuModuleGetFunction(ctypes.byref(found), self.handle, name.encode())
        if shared:
            self.gpu.driver.cuFuncSetAttribute(found, MOST_SHARED_BYTES, shared)
        return found


class Event:
    """A point in the stream of work: how far it is from another, in seconds."""

    def __init__(self, gpu: Gpu, handle: Any) -> None:
        self.gpu = gpu
        self.handle = handle
        gpu.checked(gpu.driver.cuEventRecord, handle, gpu.stream)

    def since(self, start: Event) -> float:
        """Seconds after another event; waits for this one."""
        self.gpu.checked(self.gpu.driver.cuEventSynchronize, self.handle)
        milliseconds = ctypes.c_float()
        self.gpu.driver.cuEventElapsedTime(ctypes.byref(milliseconds), start.handle, self.handle)
        return milliseconds.value / 1e3

    def __del__(self) -> None:
        if not self.gpu.is_gone:
            self.gpu.driver.cuEventDestroy_v2(self.handle)


def _error_log() -> tuple[Any, Any, Any]:
    """Where the driver writes what is wrong with code, and the options that say so."""
    log = ctypes.create_string_buffer(8192)
    options = (ctypes.c_int * 2)(JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES)
    return log, options, (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))


_open: dict[int, Gpu] = {}
FORKED = "the process was forked after it had used the GPU"
_forked = ""  # why no GPU can be opened


@functools.cache
def device_count() -> int:
    """How many GPUs there are."""
    count = ctypes.c_int()
    load_driver().cuDeviceGetCount(ctypes.byref(count))
    return count.value


def open_gpu(ordinal: int) -> Gpu:
    """The GPU of that number, opened once."""
    found = _open.get(ordinal)
    if found is None:
        if _forked:
            raise _lost(_forked)
        if ordinal >= device_count():
            last = f' to "CUDA:{device_count() - 1}"' if device_count() > 1 else ""
            raise DeviceError(
                f"CUDA: there is no GPU {ordinal}",
                f"this machine has {device_count()}, counted from 0",
                f'Use "CUDA"{last}, or "CPU". CUDA_VISIBLE_DEVICES may hide others.',
            )
        found = _open[ordinal] = Gpu(load_driver(), ordinal)
    return found


def _lost(why: str) -> DeviceError:
    if why is FORKED:
        fix = 'Fork before CUDA is used, or start processes anew: multiprocessing.get_context("spawn").'
        return DeviceError(f"CUDA: {why}", fix=fix)
    return DeviceError(f"CUDA: {why}", fix="Start a new process.")


def _after_fork() -> None:
    global _forked  # noqa: PLW0603  a process is forked once
    if _open or load_driver.cache_info().currsize:  # the driver works only where it was initialised
        _forked = FORKED
    for gpu in _open.values():
        gpu.is_lost = _forked
        gpu.lock = threading.RLock()  # another thread may have had it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
