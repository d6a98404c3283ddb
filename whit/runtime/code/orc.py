"""LLVM's own linker, for machines that `elf` does not know. Importing this module loads LLVM."""

from __future__ import annotations

import functools
import itertools
import threading
from typing import Any

import llvmlite.binding as llvm

from whit.runtime.code.elf import check_symbols, defined_functions
from whit.runtime.code.library import Library

_lock = threading.Lock()
_numbers = itertools.count()


@functools.cache
def _linker() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.create_lljit_compiler()


def load_by_llvm(code: bytes, allowed: frozenset[str] = frozenset()) -> Library:
    """Links object code through ORC; about 1 ms."""
    check_symbols(code, allowed)  # LLVM would leave a call to address 0
    names = defined_functions(code)
    with _lock:
        builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        for name in names:
            builder.export_symbol(name)
        tracker = builder.link(_linker(), f"whit{next(_numbers)}")
    return Library({name: tracker[name] for name in names}, tracker)
