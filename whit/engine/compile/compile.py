"""Kernels to machine code: each is compiled once, whatever the number of calls, graphs and processes.

Goes in: a FUNCTION over params, and a Target. Comes out: a `CompiledKernel`, linked into this process and ready to be
called, or for a machine that is not this one only compiled. In memory it is found under its body, the target and the
settings that change code; on disk under a digest of the text of the same, and of whit's own sources, so that a changed
compiler never finds old code. A process whose kernels are all on disk loads no compiler. Of several kernels at once,
the machine code of one is made by LLVM on a second core while this one writes the text of the next; many are compiled
by other processes (`elsewhere`). A tiling that a
search has found (`tune`, BEAM) is used wherever its kernel comes.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from whit.cache import RecentlyUsed, register_cache
from whit.config import BEAM, COMPILERS, DEBUG, NOOPT, TF32, THREADS
from whit.engine.compile import disk_cache
from whit.engine.compile.progress import note_kernels
from whit.engine.compile.sha256 import sha256
from whit.engine.compile.tune import store
from whit.engine.compile.tune.task import Task
from whit.engine.devices.device import Device, target_text
from whit.engine.report.show import announce
from whit.ir.text.write import to_text
from whit.ir.uop import UOp
from whit.recording import hooks
from whit.records import dataclass, fields
from whit.runtime.code.library import Library
from whit.runtime.code.link import load_object
from whit.runtime.pool import threads
from whit.runtime.pool.text import pool_text
from whit.target import Target, host_target, missing_features, parse_target

SHOWS_SOURCE = 3  # from this DEBUG on, and in recordings, kernels are compiled here: the disk has no text of them
# What machine code depends on: a change in any of these files makes new entries.
SOURCES = ("dtype.py", "target.py", "ir", "simplify", "kernel", "codegen", "render", "runtime")
POOL = "thread pool"
LARGE_GRAPH = 400  # nodes, from which on compilers are started while it is scheduled


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """A kernel in this process; without a library if it was not to be linked."""

    name: str
    total: int  # size of the range that cores share; 1 if there is none
    variables: tuple[str, ...]  # in the order in which their values are passed
    ops: int
    bytes_read: int
    bytes_written: int
    explanation: str
    library: Library | None = None  # keeps the code
    address: int = 0
    function: Any = None  # what Python calls: (buffers, variables, start, stop)
    graph: UOp | None = None  # the FUNCTION that it was made of


MOST_KERNELS = 4096  # that nobody uses now, or uses again soon
_kernels: RecentlyUsed[tuple[Any, ...], CompiledKernel] = RecentlyUsed("engine.kernels", MOST_KERNELS)
_helpers: dict[str, bytes] = {}  # machine code of whit itself, by name
register_cache(_helpers.clear, "engine.helpers")
_uses = 0  # how many wait for processes that compile
_lock = threading.RLock()


def get_kernel(function: UOp, target: Target, link: bool = True) -> CompiledKernel:
    """The kernel of a FUNCTION, compiled if it is not yet."""
    (body,) = function.src
    key = (body, target, code_settings(), link)
    found = _kernels.get(key)
    if found is None:
        with _lock:
            found = _kernels.get(key)
            if found is None:
                found = _enter(function, target, link, *_find_or_compile(function, target))
    return found


def _enter(function: UOp, target: Target, link: bool, header: dict[str, Any], code: bytes) -> CompiledKernel:
    library = _load(code, target) if link else None
    kernel = _kernels[function.src[0], target, code_settings(), link] = _kernel(header, library, function)
    return kernel


def get_kernels(functions: Sequence[UOp], target: Target, link: bool = True) -> tuple[CompiledKernel, ...]:
    """The kernels of FUNCTIONs. If several are not compiled yet, writing them and making machine code overlap."""
    with _lock:
        settings = code_settings()
        missing = {f.src[0]: f for f in functions if (f.src[0], target, settings, link) not in _kernels}
        is_shared = len(missing) > 1 or (bool(missing) and _compilers_wait())
        if is_shared and threads.thread_count() > 1 and BEAM.value == 0 and not shows_compiling():
            _find_or_compile_all(list(missing.values()), target, link)
        return tuple(get_kernel(function, target, link) for function in functions)


def _find_or_compile_all(functions: Sequence[UOp], target: Target, link: bool) -> None:
    """All but those that a search has tiled."""
    left: list[tuple[UOp, str]] = []
    for function in functions:
        choice, key = _choice_and_key(function, target)
        entry = disk_cache.find(key)
        if entry is not None:
            _enter(function, target, link, *entry)
        elif choice is None:
            left.append((function, key))
    if left:
        _compile_together(left, target, link)


def _compile_together(functions: list[tuple[UOp, str]], target: Target, link: bool) -> None:
    """Compiles kernels, each with what it is kept under: in other processes, if there are many."""
    from whit.engine.compile.elsewhere import compile_elsewhere, process_count  # lazy: as below

    if process_count(len(functions), target):
        compiled = 0

        def done(number: int, header: dict[str, Any], code: bytes) -> None:
            nonlocal compiled
            if number == len(functions):
                _keep_helper(POOL, code)
                return
            compiled += 1
            note_kernels(compiled, len(functions))
            function, key = functions[number]
            disk_cache.keep(key, header, code)
            _enter(function, target, link, header, code)

        sources = [pool_text(host_target())] if _known_helper(POOL) is None else []
        missed = compile_elsewhere([function for function, _ in functions], sources, target, done)
        functions = [functions[number] for number in missed if number < len(functions)]
    if functions:
        _compile_here(functions, target, link)


def _compile_here(functions: list[tuple[UOp, str]], target: Target, link: bool) -> None:
    """Compiles kernels in this process. LLVM has a thread of its own, where it needs no Python."""
    from concurrent.futures import ThreadPoolExecutor  # lazy: only when something has to be compiled

    with ThreadPoolExecutor(1) as worker:
        try:
            begun = []
            for number, (function, key) in enumerate(functions):
                note_kernels(number, len(functions))
                header, finish = _begin(function, target)
                begun.append((function, key, header, worker.submit(finish)))
            for function, key, header, code in begun:
                disk_cache.keep(key, header, code.result())
                _enter(function, target, link, header, code.result())
        except BaseException:  # also an interrupt: nobody waits for the rest
            worker.shutdown(wait=False, cancel_futures=True)
            raise


def prepare_compilers(nodes: int, device: str) -> None:
    """A graph of so many nodes will be scheduled, and its kernels compiled."""
    target = Device[device].target
    if nodes < LARGE_GRAPH or target is None or BEAM.value or COMPILERS.value == 0 or shows_compiling():
        return
    from whit.engine.compile.elsewhere import prepare  # lazy: it loads `subprocess`

    with _lock:
        if _uses:
            prepare(nodes, target)


def _compilers_wait() -> bool:
    elsewhere = sys.modules.get("whit.engine.compile.elsewhere")
    return elsewhere is not None and elsewhere.is_ready()


@contextlib.contextmanager
def using_compilers() -> Iterator[None]:
    """Processes that compile kernels inside wait for more up to the end of the outermost one."""
    global _uses  # noqa: PLW0603  of all threads: the last one ends them
    with _lock:
        _uses += 1
    try:
        yield
    finally:
        with _lock:
            _uses -= 1
            if not _uses and (elsewhere := sys.modules.get("whit.engine.compile.elsewhere")):
                elsewhere.let_go()


def linked_kernels() -> list[tuple[CompiledKernel, Target]]:
    """The kernels that this process has made or found so far to run them, in that order."""
    with _lock:
        return [(kernel, key[1]) for key, kernel in _kernels.items() if kernel.library is not None]


def code_settings() -> tuple[int | str, ...]:
    """The settings that change code."""
    return (BEAM.value, NOOPT.value, THREADS.value, TF32.value)


def _find_or_compile(function: UOp, target: Target) -> tuple[dict[str, Any], bytes]:
    choice, key = _choice_and_key(function, target)
    entry = None if shows_compiling() else disk_cache.find(key)
    if entry is None:
        entry = _compiled_as(choice, function, target)
        disk_cache.keep(key, *entry)
    return entry


def shows_compiling() -> bool:
    """Whether somebody wants to see how kernels are compiled."""
    return DEBUG >= SHOWS_SOURCE or hooks.recorder is not None


def _choice_and_key(function: UOp, target: Target) -> tuple[str | None, str]:
    """How a kernel is to be tiled, if a search has found that, and what it is kept under."""
    key = kernel_key(function, target)
    choice = _tuned_choice(function, target, key)
    return choice, key if choice is None else digest(key, choice)


def _compiled_as(choice: str | None, function: UOp, target: Target) -> tuple[dict[str, Any], bytes]:
    if choice is not None:
        from whit.codegen.strategy.record import UnfitError  # lazy: few kernels are tuned

        with contextlib.suppress(UnfitError):  # of another kernel: somebody has changed the file
            return compile_kernel(function, target, choice)
    return compile_kernel(function, target)


def _tuned_choice(function: UOp, target: Target, key: str) -> str | None:
    """How a search has found that the kernel is best tiled; under BEAM it is searched now, if it was not yet."""
    if NOOPT or target.is_gpu:
        return None
    found = store.find(digest(key, "tuned"))
    if BEAM > 0 and (found is None or found.beam < BEAM) and not missing_features(target):
        from whit.engine.compile.tune.search import search  # lazy: loads the compiler

        found = search(task_of(function, target), BEAM.value).tuned
    return None if found is None else found.choice


def known_tuning(function: UOp, target: Target) -> store.Tuned | None:
    """What a search has found about a kernel, if there was one."""
    return store.find(digest(kernel_key(function, target), "tuned"))


def task_of(function: UOp, target: Target) -> Task:
    """What a search has to know of a kernel."""

    def build(choice: str | None) -> CompiledKernel:
        header, code = compile_kernel(function, target, choice, is_shown=False)
        return _kernel(header, _load(code, target), function)

    prepare_pool()
    return Task(function, target, digest(kernel_key(function, target), "tuned"), build)


def code_of(function: UOp, device: str) -> tuple[dict[str, Any], bytes]:
    """What is kept of a kernel, and its object code, for a file of captured programs."""
    target = parse_target(target_text(device))
    choice, key = _choice_and_key(function, target)
    return disk_cache.find(key) or _compiled_as(choice, function, target)


def add_kernel(function: UOp, device: str, header: dict[str, Any], code: bytes) -> None:
    """Takes a kernel from such a file."""
    target = parse_target(target_text(device))
    key = (function.src[0], target, code_settings(), True)
    with _lock:
        if key not in _kernels:
            _enter(function, target, True, header, code)


def target_text_of(device: str) -> str:
    """Everything about the target of a device, the same in every process."""
    target = Device[device].target
    return device if target is None else _target_text(target)


def kernel_key(function: UOp, target: Target) -> str:
    """What the kernel is kept under on disk."""
    settings = repr(code_settings()[1:])  # what BEAM has found is added by whoever uses it
    return digest(to_text(function.src[0], types=False), _target_text(target), settings, sources_digest(SOURCES))


def digest(*parts: str) -> str:
    """What identifies texts."""
    return sha256("\0".join(parts).encode()).hex()


def _target_text(target: Target) -> str:
    """Everything about a target, the same in every process: sets have no order."""
    values = [getattr(target, part.name) for part in fields(target)]
    return repr([sorted(value) if isinstance(value, frozenset) else value for value in values])


@functools.cache
def sources_digest(parts: tuple[str, ...]) -> str:
    """Names, sizes and times of sources of whit, 0.6 ms for those of the compiler."""
    found = [line for part in parts for line in _source_lines(part)]
    return sha256("\n".join(sorted(found)).encode()).hex()


@functools.cache
def _source_lines(part: str) -> list[str]:
    """What is said about a file of whit, or about all files of a folder and of those in it."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.path.join(root, part)
    if os.path.isfile(path):
        return [_source_line(path, os.stat(path))]
    found, folders = [], [path] if os.path.isdir(path) else []
    while folders:
        with os.scandir(folders.pop()) as entries:  # `os.walk` takes twice as long
            for entry in entries:
                if entry.name.endswith(".py"):
                    found.append(_source_line(entry.path, entry.stat()))
                elif entry.name != "__pycache__" and entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
    return found


def _source_line(path: str, status: os.stat_result) -> str:
    return f"{path} {status.st_size} {status.st_mtime_ns}"


def _compiled(source: str, target: Target) -> bytes:
    if target.renderer == "C":
        from whit.runtime.code import gcc  # lazy: starts processes

        return gcc.compile_c(source, target)
    from whit.runtime.code import llvm  # lazy: loads LLVM

    return llvm.compile_llvm(source, target)


def _assembly(source: str, target: Target) -> str:
    if target.renderer == "C":
        from whit.runtime.code import gcc  # lazy: starts processes

        return gcc.assembly(source, target)
    from whit.runtime.code import llvm  # lazy: loads LLVM

    return llvm.assembly(source, target)


def compile_kernel(
    function: UOp, target: Target, choice: str | None = None, is_shown: bool = True
) -> tuple[dict[str, Any], bytes]:
    """What is kept of a kernel, and its object code. `choice` is how it is to be tiled (`codegen.strategy.choice`)."""
    header, finish = _begin(function, target, choice, is_shown)
    return header, finish()


def _begin(
    function: UOp, target: Target, choice: str | None = None, is_shown: bool = True
) -> tuple[dict[str, Any], Callable[[], bytes]]:
    """What is kept of a kernel, and what then makes its object code, in any thread if nothing is shown."""
    if target.renderer == "LLVM":
        from whit.runtime.code.libllvm import preload  # lazy: only when something has to be compiled

        preload()
    from whit.codegen import Choice, generate  # lazy: only when something has to be compiled
    from whit.render import render  # lazy: the same

    (body,) = function.src
    log = recorder.kernel(function, target) if is_shown and (recorder := hooks.recorder) is not None else None
    chosen = None if choice is None else Choice(choice)
    program = generate(body, target, observe=None if log is None else log.passed, choice=chosen)
    source = render({program.name: program.linear}, target)
    if log is not None:
        log.rendered(program, source)
    is_announced = is_shown and DEBUG >= SHOWS_SOURCE

    def finish() -> bytes:
        code = _compiled(source, target)
        if log is not None:
            log.compiled(code, lambda: _assembly(source, target))
        if is_announced:
            assembly = _assembly(source, target) if DEBUG >= 7 else ""
            announce(function, program.explanation, source, program.linear, assembly)
        return code

    header = {
        "name": program.name,
        "title": function.arg.name,  # for people: what computes the same under another name has the same entry
        "total": program.total,
        "variables": [variable.arg.name for variable in program.variables],
        "ops": program.ops,
        "bytes_read": program.bytes_read,
        "bytes_written": program.bytes_written,
        "explanation": program.explanation,
    }
    return header, finish


def _load(code: bytes, target: Target) -> Library:
    """Object code linked into this process."""
    if target.renderer != "C":
        return load_object(code)
    from whit.runtime.code.gcc import load_shared  # lazy: loaded by the kernels that need it

    return load_shared(code)


@functools.cache
def prepare_pool() -> None:
    """Finds the code of the thread pool on disk, or compiles and keeps it: 5 ms of LLVM in each process otherwise."""
    threads.use_pool_object(helper_object(POOL, threads.pool_object))


def helper_object(name: str, compile_it: Callable[[], bytes]) -> bytes:
    """Machine code that belongs to whit itself: from the disk, or compiled and kept."""
    known = _known_helper(name)
    return _keep_helper(name, compile_it()) if known is None else known


def _known_helper(name: str) -> bytes | None:
    """The machine code, if there is any."""
    if name not in _helpers:
        entry = disk_cache.find(_helper_key(name))
        if entry is None:
            return None
        _helpers[name] = entry[1]
    return _helpers[name]


def _keep_helper(name: str, code: bytes) -> bytes:
    disk_cache.keep(_helper_key(name), {"name": name}, code)
    _helpers[name] = code
    return code


def _helper_key(name: str) -> str:
    return sha256(f"{name} {_target_text(host_target())} {sources_digest(SOURCES)}".encode()).hex()


def _kernel(header: dict[str, Any], library: Library | None, graph: UOp) -> CompiledKernel:
    name = header["name"]
    return CompiledKernel(
        name=name,
        total=header["total"],
        variables=tuple(header["variables"]),
        ops=header["ops"],
        bytes_read=header["bytes_read"],
        bytes_written=header["bytes_written"],
        explanation=header["explanation"],
        library=library,
        address=library.address(name) if library is not None else 0,
        function=library.kernel(name) if library is not None else None,
        graph=graph,
    )


def _after_fork() -> None:
    global _lock, _uses  # noqa: PLW0603  a fork: nobody would release it
    _lock = threading.RLock()
    _uses = 0
    if elsewhere := sys.modules.get("whit.engine.compile.elsewhere"):
        elsewhere.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
