"""What went wrong on a GPU, in words: which kernels were started last, where their source is, what to do.

The driver says that a kernel has failed when it is asked for something else, later. So the error names the kernels that
were started since everything was last waited for, and their PTX goes to a file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence

from whit.errors import BackendError
from whit.runtime.cuda.driver import DriverError

FAULTS_OF_KERNELS = {
    700: "a kernel accessed memory that is not its own",
    702: "a kernel took so long that the system has stopped it",
    714: "a kernel has used up its stack",
    715: "a kernel has an instruction that the device does not know",
    716: "a kernel accessed memory at an address that is not aligned",
    717: "a kernel accessed memory of another kind than its instruction does",
    718: "a kernel has lost its way",
    719: "a kernel failed",
}
FAULTS_OF_DEVICES = {
    46: "the device is not available",
    101: "the device is gone",
    214: "the memory of the device has an error that cannot be corrected",
    220: "the connection of the device has an error that cannot be corrected",
    226: "the memory of the device has an error",
    709: "the driver has ended the work of this process",
    999: "the driver does not know what went wrong",
}
FAULTS_OF_LAUNCHES = {
    1: "a kernel cannot be started",
    701: "a kernel cannot be started: it needs more registers or shared memory than the device has",
}
STICKY = frozenset({*FAULTS_OF_KERNELS, *FAULTS_OF_DEVICES})  # nothing works in this process after these

Started = tuple[str, Sequence[Callable[[], bytes]]]  # a kernel or a graph of them: the name, and what has the PTX


def failure(error: DriverError, recent: Iterable[Started]) -> BackendError:
    """The error about what a function of the driver has returned."""
    started = dict(recent)
    names = ", ".join(started) or "none since everything was last waited for"
    details = f"{error}\nstarted last: {names}"
    if error.code in FAULTS_OF_KERNELS:
        details += _sources(started.values())
        what = FAULTS_OF_KERNELS[error.code]
        fix = "Run it under Context(CHECK_OOB=1), which proves every access before it runs, or on the device PYTHON."
    elif error.code in FAULTS_OF_LAUNCHES and started:
        name, sources = list(started.items())[-1]
        details = f"{error}\nit is {name}{_sources([sources])}"
        what = FAULTS_OF_LAUNCHES[error.code]
        fix = "This is a bug in whit: NOOPT=1 makes simpler kernels. Others can be started."
    else:
        what = FAULTS_OF_DEVICES.get(error.code, "the device failed")
        fix = "See what nvidia-smi and the log of the system say, and start a new process."
    return BackendError(f"CUDA: {what}: {error.name}", details, fix)


def _sources(groups: Iterable[Sequence[Callable[[], bytes]]]) -> str:
    """Writes the PTX of kernels to a file; a line that says where."""
    sources = dict.fromkeys(source for group in groups for source in group)
    return "\n" + write_source(b"\n".join(source() for source in sources)) if sources else ""


def write_source(source: bytes) -> str:
    """Writes PTX, or machine code, to a file; the words that say where."""
    import tempfile  # lazy: it loads a dozen modules, and failures are rare

    try:
        descriptor, path = tempfile.mkstemp(".cubin" if source.startswith(b"\x7fELF") else ".ptx", "whit-")
        with os.fdopen(descriptor, "wb") as file:
            file.write(source)
    except OSError as problem:
        return f"the source could not be saved: {problem}"
    return f"the source is in {path}"
