"""C text to machine code, through the C compiler of the machine, if it has one.

    code = compile_c(text, target)      bytes of a shared library
    library = load_shared(code)         loaded into this process
    assembly(text, target)              what the compiler made, to be read

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

from whit.cache import register_cache
from whit.errors import BackendError, MissingError
from whit.runtime.code.library import Library, compile_error
from whit.target import Target, host_target

_FLAGS = (
    *("-std=c11", "-w"),
    "-ffp-contract=off",  # a product and a sum are rounded each
    "-fno-math-errno",  # so that sqrt is one instruction
    "-fno-trapping-math",  # so that choices between floats become vector instructions
    "-fno-strict-aliasing",  # one piece of memory may be seen under two dtypes
    # Loops over lanes become vectors. Level 3 would write them out first, lane by lane, and then look for vectors in
    # that: a softmax took gcc 12 100 s so, and 1 s at level 2, which has 431 vector instructions where that had 32.
    *("-ftree-loop-vectorize", "-fno-tree-slp-vectorize"),
)


@functools.cache
def find_compiler() -> str | None:
    """The path of the C compiler, if there is one."""
    return next((path for name in ("cc", "gcc", "clang") if (path := shutil.which(name))), None)


register_cache(find_compiler.cache_clear, "runtime.gcc.compiler")


def compile_c(text: str, target: Target, level: int = 2) -> bytes:
    """A shared library with the functions of a C file, optimised at that level of the compiler."""
    return _run_compiler(text, target, "kernel.so", f"-O{level}", "-shared", "-fPIC", "-lm")


def assembly(text: str, target: Target) -> str:
    """The same as assembly text, for people."""
    return _run_compiler(text, target, "kernel.s", "-O2", "-S", "-fno-asynchronous-unwind-tables").decode()


def _run_compiler(text: str, target: Target, result: str, *options: str) -> bytes:
    """What the compiler makes of a C file, named `result`."""
    compiler = _compiler_for(target)
    with tempfile.TemporaryDirectory(prefix="whit-") as folder:
        source, made = os.path.join(folder, "kernel.c"), os.path.join(folder, result)
        with open(source, "w") as file:
            file.write(text)
        command = (compiler, *_flags(target), source, "-o", made, *options)
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise BackendError(
                f"compile: {compiler} cannot be started", str(error), 'Install a C compiler, or use "CPU".'
            ) from None
        if done.returncode != 0:
            raise _refused(compiler, target, text, done.stderr)
        with open(made, "rb") as output:
            return output.read()


def _compiler_for(target: Target) -> str:
    compiler = find_compiler()
    if compiler is None:
        raise BackendError(
            f"compile: there is no C compiler for {target}",
            "looked for cc, gcc and clang on the path",
            'Install one (on Debian and Ubuntu: apt install gcc), or use "CPU", which needs none.',
        )
    if target.family != host_target().family:
        raise BackendError(
            f"compile: {compiler} makes no code for {target}",
            fix=f'Use the renderer LLVM, as in "NULL:LLVM:{target.arch}", which does.',
        )
    return compiler


def _flags(target: Target) -> tuple[str, ...]:
    if target.family == "x86_64":
        return (*_FLAGS, *(f"-m{feature}" for feature in sorted(target.features)))
    return _FLAGS if target.cpu == "generic" else (*_FLAGS, f"-mcpu={target.cpu}")


def _refused(compiler: str, target: Target, text: str, log: str) -> BackendError:
    """The compiler's own words, and the source; a compiler older than the processor does not know its options."""
    name = os.path.basename(compiler)
    if any(words in log for words in ("unrecognized command", "unknown argument", "unknown value")):
        return BackendError(
            f"compile: {name} does not know {target}",
            log.strip(),
            'Install a newer compiler, name an older architecture, as in "CPU:C:x86-64-v3", or use "CPU".',
        )
    return compile_error(name, target, text, ".c", log)


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
