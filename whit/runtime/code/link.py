"""Object code into this process, by whatever linker the machine needs.

On Linux with x86-64 that is `elf`: 0.2 ms and no LLVM. Elsewhere it is LLVM's own linker (`orc`).
"""

from __future__ import annotations

from whit.runtime.code.elf import load_elf
from whit.runtime.code.library import Library
from whit.target import host_target


def load_object(code: bytes, allowed: frozenset[str] = frozenset()) -> Library:
    """The functions of an object, ready to be called.

    The code may call what LLVM itself calls of the C and mathematical libraries (`elf.KNOWN_SYMBOLS`) and the functions
    that `allowed` names. Any other unknown name is a BackendError.
    """
    host = host_target()
    if host.family == "x86_64" and host.system == "linux":
        return load_elf(code, allowed)
    from whit.runtime.code.orc import load_by_llvm  # lazy: loads LLVM

    return load_by_llvm(code, allowed)
