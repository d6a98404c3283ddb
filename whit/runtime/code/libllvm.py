"""LLVM as functions of C: the library inside of llvmlite, without llvmlite's own Python.

    preload()                                     begins to load it, and returns at once
    context = library().LLVMPY_ContextCreate()    waits until it is loaded

`import llvmlite.binding` takes 14 ms of Python: it declares 300 functions, and loads what archives and packages are
read with. whit calls 27 functions, declared here as llvmlite 0.45 to 0.50 declare them (tests/runtime/test_libllvm.py
compares). Of another version, and where somebody has loaded `llvmlite.binding`, llvmlite's declarations are used: an
argument more or less is then an error, not a crash.

The library has 180 MB: linking it into the process and making its tables for x86 takes 8 ms, in which no Python runs,
so that is done on a thread while Python still writes the first kernel. It is no daemon: a process that ends meanwhile
waits for it, and so does a fork, since half a library is of no use to a child. What goes wrong in it is no error there:
`library` does the same again, and says what.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_void_p
from typing import Any

import llvmlite
from llvmlite.utils import get_library_name

KNOWN_VERSIONS = ((0, 45), (0, 50))  # of llvmlite, from and to: those whose declarations are the ones below

_ERROR = POINTER(c_char_p)  # a text that the caller disposes of
# What each returns and takes.
FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "SetCommandLine": (None, (c_char_p, c_char_p)),
    "InitializeNativeTarget": (None, ()),
    "InitializeNativeAsmPrinter": (None, ()),
    "InitializeAllTargetInfos": (None, ()),
    "InitializeAllTargets": (None, ()),
    "InitializeAllTargetMCs": (None, ()),
    "InitializeAllAsmPrinters": (None, ()),
    "DisposeString": (None, (c_void_p,)),
    "ContextCreate": (c_void_p, ()),
    "ContextDispose": (None, (c_void_p,)),
    "ParseAssembly": (c_void_p, (c_void_p, c_char_p, _ERROR)),
    "DisposeModule": (None, (c_void_p,)),
    "GetTargetFromTriple": (c_void_p, (c_char_p, _ERROR)),
    "CreateTargetMachine": (
        c_void_p,
        (c_void_p, c_char_p, c_char_p, c_char_p, c_int, c_char_p, c_char_p, c_int, c_int, c_char_p),
    ),
    "TargetMachineEmitToMemory": (c_void_p, (c_void_p, c_void_p, c_int, _ERROR)),
    "GetBufferStart": (c_void_p, (c_void_p,)),
    "GetBufferSize": (c_size_t, (c_void_p,)),
    "DisposeMemoryBuffer": (None, (c_void_p,)),
    "CreatePipelineTuningOptions": (c_void_p, ()),
    "CreatePassBuilder": (c_void_p, (c_void_p, c_void_p)),
    "DisposePassBuilder": (None, (c_void_p,)),
    "DisposePipelineTuningOptions": (None, (c_void_p,)),
    "DisposeTargetMachine": (None, (c_void_p,)),
    "CreateNewModulePassManager": (c_void_p, ()),
    "module_AddSROAPass": (None, (c_void_p,)),
    "RunNewModulePassManager": (None, (c_void_p, c_void_p, c_void_p)),
    "DisposeNewModulePassManger": (None, (c_void_p,)),  # spelled so in the library
}

_thread: threading.Thread | None = None


def preload() -> None:
    """Begins to load LLVM, unless it is loaded or that has begun."""
    global _thread  # noqa: PLW0603  there is one library in a process
    if _thread is None and os.name == "posix" and "llvmlite.binding" not in sys.modules:
        _thread = threading.Thread(target=_load, args=(_path(),), name="whit: loading LLVM")
        _thread.start()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=_thread.join)


@functools.cache
def library() -> Any:
    """LLVM's functions: `LLVMPY_` and a name of `FUNCTIONS`."""
    if _thread is not None:
        _thread.join()
    if _is_known(llvmlite.__version__) and "llvmlite.binding" not in sys.modules:
        try:
            return declared(ctypes.CDLL(_path()))
        except (OSError, AttributeError):  # another layout than the usual one
            pass
    from llvmlite import binding  # lazy: 14 ms

    return binding.ffi.lib


def declared(library: Any) -> Any:
    """A library whose functions know what they take and return."""
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, f"LLVMPY_{name}")
        function.restype, function.argtypes = result, arguments
    return library


def _path() -> str:
    return os.path.join(os.path.dirname(llvmlite.__file__), "binding", get_library_name())


def _is_known(version: str) -> bool:
    """Whether a version of llvmlite has the declarations above."""
    major, minor = (*version.split("."), "")[:2]
    least, most = KNOWN_VERSIONS
    return major.isdigit() and minor.isdigit() and least <= (int(major), int(minor)) <= most


def _load(path: str) -> None:
    """Loads the library and what it knows about this machine; all of it may be done again."""
    try:
        # `CDLL(path)` by itself would keep other threads from running Python meanwhile.
        open_library = ctypes.CDLL(None).dlopen
        open_library.argtypes, open_library.restype = (c_char_p, c_int), c_void_p
        open_library(os.fsencode(path), os.RTLD_NOW)
        functions = ctypes.CDLL(path)
        functions.LLVMPY_InitializeNativeTarget()
        functions.LLVMPY_InitializeNativeAsmPrinter()
    except (OSError, AttributeError):  # another layout of llvmlite than the usual one
        return
