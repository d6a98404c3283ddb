"""Raw memory of the machine: blocks that are 64-byte aligned, kept for reuse when they are given back.

Goes in: a number of bytes. Comes out: a `MemoryBlock` with an address.

    block = take(1000)      # 1024 bytes, from the cache of freed blocks if it has such
    give_back(block)        # into the cache; what is too much there goes back to the system

Small blocks are cut from slabs of 1 MiB and never leave the process. Large ones are mappings of their own, those of
2 MiB and more at addresses and with advice that let Linux use huge pages: a first write to fresh memory costs a page
fault for each page, 0.25 us for 4 KiB or 2 MiB alike.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import threading
from typing import Any

from whit.cache import register_cache

ALIGNMENT = 64
KiB = 1024
MiB = 1024 * KiB
SLAB_BYTES = 1 * MiB
LARGEST_IN_SLAB_BYTES = 64 * KiB
HUGE_PAGE_BYTES = 2 * MiB


class MemoryBlock:
    """A piece of memory. `size` is at least what was asked for."""

    __slots__ = ("address", "mapping", "size")

    def __init__(self, address: int, size: int, mapping: Any) -> None:
        self.address = address
        self.size = size
        self.mapping = mapping  # None: part of a slab


def size_class(nbytes: int) -> int:
    """The size of the block for `nbytes`: at most a quarter more, and huge pages in whole.

    >>> size_class(1), size_class(1000), size_class(1025), size_class(5 * MiB) // MiB
    (64, 1024, 1280, 6)
    """
    if nbytes <= ALIGNMENT:
        return ALIGNMENT
    if nbytes > HUGE_PAGE_BYTES:
        return -(-nbytes // HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES
    step = max(1 << ((nbytes - 1).bit_length() - 3), ALIGNMENT)  # four classes between two powers of two
    return -(-nbytes // step) * step


def _cache_limit() -> int:
    """How many freed bytes are kept: an eighth of the machine's memory, at most 2 GiB."""
    try:
        physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        physical = 4096 * MiB
    return min(physical // 8, 2048 * MiB)


_lock = threading.RLock()  # a buffer may be freed by the garbage collector while this thread is in here
_free: dict[int, list[MemoryBlock]] = {}  # size -> blocks, the warmest last
_cached = 0  # bytes in `_free` that the system could have back
_limit = _cache_limit()
_slab = [0, 0]  # where the next small block is cut, and how much is left there
_slabs: list[Any] = []  # keeps the mappings


def take(nbytes: int) -> MemoryBlock:
    """A block of at least `nbytes`; its content is arbitrary. MemoryError if there is none."""
    global _cached  # noqa: PLW0603  a counter on a hot path
    size = size_class(nbytes)
    free = _free.get(size)
    if free:
        try:
            block = free.pop()  # atomic, so no lock
        except IndexError:
            pass
        else:
            if block.mapping is not None:
                with _lock:
                    _cached -= size
            return block
    with _lock:
        if size <= LARGEST_IN_SLAB_BYTES:
            return _cut(size)
        try:
            return _map(size)
        except (OSError, OverflowError, ValueError, MemoryError):
            release()
        try:
            return _map(size)
        except (OSError, OverflowError, ValueError, MemoryError):
            raise MemoryError(f"{size} bytes") from None


def give_back(block: MemoryBlock) -> None:
    """The block may be taken again."""
    global _cached  # noqa: PLW0603  a counter on a hot path
    size = block.size
    with _lock:
        if block.mapping is not None:
            if size > _limit:
                block.mapping.close()
                return
            _cached += size
        _free.setdefault(size, []).append(block)
        if _cached > _limit:
            _shrink(_limit // 2)


def release() -> None:
    """Gives all freed memory back to the system."""
    with _lock:
        _shrink(0)


register_cache(release, "runtime.blocks")


def cached_bytes() -> int:
    """How many freed bytes are kept for reuse."""
    return _cached


def _shrink(wanted: int) -> None:
    """Drops the largest and coldest cached mappings until `wanted` bytes are left."""
    global _cached  # noqa: PLW0603  a counter on a hot path
    for size in sorted(_free, reverse=True):  # a copy: the garbage collector may give back a block meanwhile
        if size <= LARGEST_IN_SLAB_BYTES:
            break
        blocks = _free[size]
        while blocks and _cached > wanted:
            blocks.pop(0).mapping.close()
            _cached -= size


def _cut(size: int) -> MemoryBlock:
    address, left = _slab
    if left < size:
        mapping = _anonymous(SLAB_BYTES)
        _slabs.append(mapping)
        address, left = _address(mapping), SLAB_BYTES
    _slab[:] = address + size, left - size
    return MemoryBlock(address, size, None)


def _map(size: int) -> MemoryBlock:
    # address space only: pages that nobody touches cost nothing
    extra = HUGE_PAGE_BYTES if size >= HUGE_PAGE_BYTES else 0
    mapping = _anonymous(size + extra)
    address = _address(mapping)
    if extra:
        aligned = -(-address // HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES
        _advise(mapping, aligned - address, size)
        address = aligned
    return MemoryBlock(address, size, mapping)


def _anonymous(size: int) -> mmap.mmap:
    """Memory of this process. Python's default is memory that a child of `fork` would write to as well."""
    if hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return mmap.mmap(-1, size)


def _advise(mapping: mmap.mmap, start: int, size: int) -> None:
    advice = getattr(mmap, "MADV_HUGEPAGE", None)
    if advice is not None:
        with contextlib.suppress(OSError):  # a kernel without huge pages
            mapping.madvise(advice, start, size)


def _address(mapping: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(mapping))


def _after_fork() -> None:
    """A child process has its own copies of all blocks; only the lock may be in a bad state."""
    global _lock  # noqa: PLW0603  a fork: nobody would release it
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
