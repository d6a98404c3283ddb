"""Pages of memory from the operating system, for machine code and for what native threads share."""

from __future__ import annotations

import ctypes
import functools
import mmap
import weakref

from whit.errors import BackendError


@functools.cache
def c_library() -> ctypes.CDLL:
    """The C library of this process."""
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
    library.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    library.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return library


class Pages:
    """Zeroed memory at `address`, aligned to a page. It is given back when nobody refers to this object, but never
    while the interpreter ends, when native threads may still be running in it."""

    __slots__ = ("__weakref__", "address", "size")

    def __init__(self, size: int) -> None:
        self.size = (max(size, 1) + mmap.PAGESIZE - 1) // mmap.PAGESIZE * mmap.PAGESIZE
        protection, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        address = c_library().mmap(None, self.size, protection, flags, -1, 0)
        if address is None or address == ctypes.c_void_p(-1).value:
            raise _refused("allocated", self.size)
        self.address: int = address
        weakref.finalize(self, c_library().munmap, self.address, self.size).atexit = False

    def make_executable(self, writable: bool) -> None:
        """From now on the processor may run what is in the pages, and nobody may change it unless `writable`."""
        protection = mmap.PROT_READ | mmap.PROT_EXEC | (mmap.PROT_WRITE if writable else 0)
        if c_library().mprotect(self.address, self.size, protection) != 0:
            raise _refused("made executable", self.size)


def _refused(what: str, size: int) -> BackendError:
    return BackendError(
        f"memory: {size} bytes could not be {what}",
        f"error {ctypes.get_errno()} of the operating system",
        "There may be too little memory, or a rule of the system against making code while a program runs.",
    )
