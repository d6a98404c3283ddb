"""LLVM's library into memory, on a thread of its own, while Python finds out what is to be compiled.

    preload()       begins, and returns at once
    wait()          before anybody calls into LLVM

The library has 180 MB: linking it into the process and making its tables for x86 takes 8 ms, in which no Python runs;
the first `a + b` of a process takes 60 -> 54 ms by it (bench/start.py). The thread imports nothing and calls only what
has no arguments, so it holds no lock that a fork would leave locked. It is no daemon: a process that ends meanwhile
waits for it. What goes wrong in it is no error here: `import llvmlite.binding` does the same again, and says what.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading

import llvmlite
from llvmlite.utils import get_library_name

_thread: threading.Thread | None = None


def preload() -> None:
    """Begins to load LLVM, unless it is loaded or that has begun."""
    global _thread  # noqa: PLW0603  there is one library in a process
    if _thread is None and "llvmlite.binding" not in sys.modules:
        path = os.path.join(os.path.dirname(llvmlite.__file__), "binding", get_library_name())
        _thread = threading.Thread(target=_load, args=(path,), name="whit: loading LLVM")
        _thread.start()


def wait() -> None:
    """Returns when the thread has done its work, if there is one."""
    if _thread is not None:
        _thread.join()


def _load(path: str) -> None:
    """Loads the library and what it knows about this machine; all of it may be done again."""
    try:
        # `CDLL(path)` by itself would keep other threads from running Python meanwhile.
        open_library = ctypes.CDLL(None).dlopen
        open_library.argtypes, open_library.restype = (ctypes.c_char_p, ctypes.c_int), ctypes.c_void_p
        open_library(os.fsencode(path), os.RTLD_NOW)
        library = ctypes.CDLL(path)
        library.LLVMPY_InitializeNativeTarget()
        library.LLVMPY_InitializeNativeAsmPrinter()
    except (OSError, AttributeError):  # another layout of llvmlite than the usual one
        return
