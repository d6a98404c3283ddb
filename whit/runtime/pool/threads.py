"""Runs kernels, on one thread or on many: a persistent pool of native threads, with no Python between two kernels.

    launch = Launch(kernel=address, buffers=pointers, variables=numbers, total=1000, chunk=64, threads=4)
    run_launches((Launch * 1)(launch), 1)

A list of launches is one native call, during which Python's lock is released: what a JIT replays. How work is shared is
told in `text`. The pool comes into being when a launch first wants more than one thread. After a fork the child
makes its own. Workers take no signals, and end with the process. Without Linux everything runs on the calling thread.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from array import array
from typing import Any

from whit.config import THREADS
from whit.runtime.blocks import HUGE_PAGE_BYTES
from whit.runtime.code.library import Library
from whit.runtime.code.link import load_object
from whit.runtime.pages import Pages, c_library
from whit.runtime.pool.text import POOL_BYTES, SPINS, pool_text
from whit.target import available_cores, host_target

# Almost 1 ms: longer than what Python takes between two calls. A worker that sleeps comes 50 us late:
# 50 -> 23 us for 1 x 512 x 1000, 851 -> 769 us for 512 x 512 x 512 (bench/cpu.py), called from Python on two cores.
SPIN_COUNT = 20_000
STACK_BYTES = 16 << 20  # of a worker; a kernel's panels lie there
MOST_WORKERS = 255
COPY_CHUNK_BYTES = 1 << 18  # bytes that a thread copies at once
COPY_THREADS = 16  # that copy together: 10 GB/s by one, 37 by 8, 55 by 16 of an H200's machine


class Launch(ctypes.Structure):
    """One kernel to run over the range 0 .. total, in chunks, on at most `threads` threads. Fields are addresses."""

    _fields_ = (
        ("kernel", ctypes.c_void_p),
        ("buffers", ctypes.c_void_p),  # void **
        ("variables", ctypes.c_void_p),  # int64_t *
        ("total", ctypes.c_int64),
        ("chunk", ctypes.c_int64),
        ("threads", ctypes.c_int64),
    )


def thread_count() -> int:
    """How many threads a kernel may use: the setting THREADS, or one for each core of this process."""
    return max(THREADS.value, 1) if THREADS.value else available_cores()


def run_launches(launches: ctypes.Array[Launch], count: int) -> None:
    """Runs a list of launches in order, in one native call."""
    most = 1
    for i in range(count):
        if launches[i].threads > most:
            most = launches[i].threads
    run_native(ctypes.addressof(launches), count, most)


def run_native(launches: int, count: int, threads: int) -> None:
    """The same for launches at an address, of which none wants more than `threads`: nothing is looked at in Python."""
    run, *arguments = native_call(launches, count, threads)
    run(*arguments)


def native_call(launches: int, count: int, threads: int) -> tuple[Any, int, int, int]:
    """The call itself: a function and its arguments, for a caller who must not be interrupted after it."""
    pool = _pool or _start_pool()
    if threads > pool.threads:
        pool.grow(threads)
    return pool.run, pool.address, launches, count


def copy_memory(target: int, source: int, nbytes: int) -> None:
    """Copies bytes, large ones by several threads. In very large ones each takes a huge page at once: the page may be
    new, and is then made by one thread and not by several (34 GB/s instead of 17)."""
    if nbytes < 2 * COPY_CHUNK_BYTES:
        ctypes.memmove(target, source, nbytes)
        return
    threads = min(thread_count(), COPY_THREADS, nbytes // COPY_CHUNK_BYTES)
    chunk = HUGE_PAGE_BYTES if nbytes >= threads * HUGE_PAGE_BYTES else COPY_CHUNK_BYTES
    pointers = array("Q", (target, source))
    words = native_kernel("whit_copy"), pointers.buffer_info()[0], 0, nbytes, chunk, threads
    launch = array("Q", words)
    run_native(launch.buffer_info()[0], 1, threads)


def native_kernel(name: str) -> int:
    """The address of a kernel that the pool itself has: `whit_copy`, `whit_group`."""
    return own_library().address(name)


@functools.cache
def call_each() -> Any:
    """A native loop of calls, `whit_each`: (function, records of three words, count) -> the first result but 0."""
    signature = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    return signature(own_library().address("whit_each"))


class _Pool:
    """The workers of this process and the memory through which they are told what to do."""

    def __init__(self) -> None:
        self.memory = Pages(POOL_BYTES)
        self.address = self.memory.address
        ctypes.c_int32.from_address(self.address + SPINS).value = SPIN_COUNT
        self.library = own_library()
        signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
        self.run: Any = signature(self.library.address("whit_run"))
        self.threads = 1  # the caller
        self.lock = threading.Lock()

    def grow(self, threads: int) -> None:
        """Starts workers until that many threads can work together, or as many as the system gives."""
        if host_target().system != "linux":
            return
        with self.lock:
            wanted = min(threads, MOST_WORKERS + 1)
            while self.threads < wanted and self.start_worker():
                self.threads += 1
            self.threads = max(self.threads, threads)  # so that a system that gives no more is not asked again

    def start_worker(self) -> bool:
        """One more native thread, which takes no signals: they belong to Python's threads."""
        import signal  # lazy: 0.4 ms, and small kernels start no thread

        library = c_library()
        attributes, handle = ctypes.create_string_buffer(128), ctypes.c_void_p()
        library.pthread_attr_init(attributes)
        library.pthread_attr_setstacksize(attributes, ctypes.c_size_t(STACK_BYTES))
        library.pthread_attr_setdetachstate(attributes, 1)
        worker = ctypes.c_void_p(self.library.address("whit_worker"))
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            failed = library.pthread_create(ctypes.byref(handle), attributes, worker, ctypes.c_void_p(self.address))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            library.pthread_attr_destroy(attributes)
        return not failed


@functools.cache
def pool_object() -> bytes:
    """The pool's machine code; a cache on disk may keep it for `use_pool_object` in another process."""
    from whit.runtime.code.llvm import (
        compile_llvm,  # lazy: loads LLVM, which a process with everything on disk never needs
    )

    return compile_llvm(pool_text(host_target()), host_target())


_given_object: bytes | None = None


def use_pool_object(code: bytes) -> None:
    """Takes the pool's machine code from elsewhere, before the pool is first used."""
    global _given_object  # noqa: PLW0603  set once, before the pool starts
    _given_object = code


@functools.cache
def own_library() -> Library:
    """The machine code of whit itself."""
    return load_object(_given_object or pool_object(), frozenset({"syscall"}))


_pool: _Pool | None = None
_start_lock = threading.Lock()


def _start_pool() -> _Pool:
    global _pool  # noqa: PLW0603  one pool a process
    with _start_lock:
        if _pool is None:
            _pool = _Pool()
        return _pool


def _forget_pool() -> None:
    """In a child process: its parent's workers are not here, and its locks may be held by nobody."""
    global _pool, _start_lock  # noqa: PLW0603  a child of a fork has neither
    _pool = None
    _start_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
