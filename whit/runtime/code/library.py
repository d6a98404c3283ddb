"""Machine code in this process: a `Library` gives the addresses of its functions and keeps them valid."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from typing import Any

from whit.errors import BackendError, MissingError, nearest
from whit.target import Target

# void name(void **buffers, const int64_t *variables, int64_t start, int64_t stop)
KERNEL_TYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class Library:
    """Functions by name. They may be called as long as this object lives."""

    def __init__(self, addresses: Mapping[str, int], owner: Any) -> None:
        self._addresses = dict(addresses)
        self._owner = owner  # whatever unmaps the code when it goes

    def __repr__(self) -> str:
        return f"<Library of {', '.join(self.names)}>"

    @property
    def names(self) -> tuple[str, ...]:
        """The functions, in the order of the object code."""
        return tuple(self._addresses)

    def address(self, name: str) -> int:
        """Where a function begins."""
        found = self._addresses.get(name)
        if found is None:
            raise MissingError(
                f'library: there is no function "{name}".{nearest(name, self._addresses)}',
                f"known: {', '.join(self._addresses)}",
            )
        return found

    def kernel(self, name: str) -> Any:
        """A function as something Python can call: (buffers, variables, start, stop)."""
        function: Any = KERNEL_TYPE(self.address(name))
        function.library = self  # the code stays while the function is held
        return function


def compile_error(compiler: str, target: Target, text: str, ending: str, log: str) -> BackendError:
    """A compiler refused its input: its log, and where the input was saved."""
    import tempfile  # lazy: it loads a dozen modules, and failures are rare

    descriptor, path = tempfile.mkstemp(ending, "whit-")
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    return BackendError(
        f"compile: {compiler} refuses the code for {target}",
        f"{log.strip()}\nthe source is in {path}",
        "This is a bug in the renderer, or in a kernel written by hand.",
    )
