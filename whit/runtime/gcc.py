"""C text to machine code, through the C compiler of the machine, if it has one.

    code = compile_c(text, target)      bytes of a shared library
    library = load_shared(code)         loaded into this process

The compiler is `cc`, `gcc` or `clang`, whichever is found first.
"""

from __future__ import annotations

import _ctypes
import ctypes
import functools
import os
import shutil
import subprocess
import tempfile
import weakref

from whit.errors import BackendError, MissingError
from whit.runtime.library import Library, compile_error
from whit.target import Target, host_target

_FLAGS = (
    *("-std=c11", "-shared", "-fPIC", "-w"),
    "-ffp-contract=off",  # a product and a sum are rounded each
    "-fno-math-errno",  # so that sqrt is one instruction
    "-fno-trapping-math",  # so that choices between floats become vector instructions
    "-fno-strict-aliasing",  # one piece of memory may be seen under two dtypes
)


@functools.cache
def find_compiler() -> str | None:
    """The path of the C compiler, if there is one."""
    return next((path for name in ("cc", "gcc", "clang") if (path := shutil.which(name))), None)


def _flags(target: Target) -> tuple[str, ...]:
    if target.family == "x86_64":
        return (*_FLAGS, *(f"-m{feature}" for feature in sorted(target.features)))
    return _FLAGS if target.cpu == "generic" else (*_FLAGS, f"-mcpu={target.cpu}")


def compile_c(text: str, target: Target, level: int = 3) -> bytes:
    """A shared library with the functions of a C file, optimised at that level of the compiler."""
    compiler = find_compiler()
    if compiler is None:
        raise BackendError(
            f"compile: there is no C compiler for {target}",
            "looked for cc, gcc and clang on the path",
            'Install one, or use "CPU:LLVM", which needs none.',
        )
    if target.family != host_target().family:
        raise BackendError(
            f"compile: {compiler} makes no code for {target}", fix=f'Use "CPU:LLVM:{target.arch}", which can.'
        )
    with tempfile.TemporaryDirectory(prefix="whit-") as folder:
        source, result = os.path.join(folder, "kernel.c"), os.path.join(folder, "kernel.so")
        with open(source, "w") as file:
            file.write(text)
        command = (compiler, f"-O{level}", *_flags(target), source, "-o", result, "-lm")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise compile_error(os.path.basename(compiler), target, text, ".c", done.stderr)
        with open(result, "rb") as library:
            return library.read()


class SharedLibrary(Library):
    """A library that the system's loader has opened."""

    def __init__(self, path: str) -> None:
        self._opened = ctypes.CDLL(path)
        super().__init__({}, self._opened)
        weakref.finalize(self, _ctypes.dlclose, self._opened._handle).atexit = False

    def address(self, name: str) -> int:
        """Where a function begins."""
        try:
            found = ctypes.cast(getattr(self._opened, name), ctypes.c_void_p).value
        except AttributeError:
            found = None
        if not found:
            raise MissingError(f'library: there is no function "{name}"', f"in {self._opened._name}")
        return found


def load_shared(code: bytes) -> Library:
    """Loads a shared library into this process."""
    descriptor, path = tempfile.mkstemp(".so", "whit-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(code)
        return SharedLibrary(path)
    except OSError as error:
        raise BackendError("link: the shared library cannot be loaded", str(error)) from None
    finally:
        os.unlink(path)  # the mapping stays
