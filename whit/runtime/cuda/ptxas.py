"""PTX to machine code without a GPU, by NVIDIA's assembler, where it is installed (`pip install "whit[ptx]"`).

    code, uses = assemble(text, target)         uses["kernel"].registers

Nothing runs what comes out: it says whether a kernel assembles, and what it would take of a multiprocessor.
"""

from __future__ import annotations

import functools
import glob
import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from dataclasses import dataclass

from whit.cache import register_cache
from whit.errors import BackendError
from whit.runtime.code.library import compile_error
from whit.target import Target

# what `ptxas -v` says about a function
_USE = re.compile(
    r"Compiling entry function '(?P<name>\w+)'.*?(?P<spilled>\d+) bytes spill stores.*?"
    r"Used (?P<registers>\d+) registers(?P<more>[^\n]*)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Use:
    """What a function takes of a multiprocessor."""

    registers: int  # of a thread
    spilled: int  # bytes of a thread
    shared: int  # bytes of a block, of those that the function declares


@functools.cache
def find_ptxas() -> str | None:
    """The path of the assembler, if there is one: on the path, or among Python's packages."""
    packages = glob.glob(os.path.join(sysconfig.get_path("purelib"), "nvidia", "*", "bin"))
    return shutil.which("ptxas") or shutil.which("ptxas", path=os.pathsep.join(sorted(packages, reverse=True)))


register_cache(find_ptxas.cache_clear, "runtime.ptxas")


def assemble(text: str, target: Target) -> tuple[bytes, dict[str, Use]]:
    """Machine code for a target, and what each function uses. There must be an assembler."""
    ptxas = find_ptxas()
    assert ptxas is not None, "callers ask find_ptxas() first"
    with tempfile.TemporaryDirectory(prefix="whit-") as folder:
        source, made = os.path.join(folder, "kernel.ptx"), os.path.join(folder, "kernel.cubin")
        with open(source, "w") as file:
            file.write(text)
        command = (ptxas, "-v", f"-arch={target.arch}", source, "-o", made)
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise BackendError(f"compile: {ptxas} cannot be started", str(error), "Install whit[ptx] anew.") from None
        said = done.stdout + done.stderr
        if done.returncode != 0:
            raise compile_error("ptxas", target, text, ".ptx", said)
        with open(made, "rb") as output:
            return output.read(), _uses(said)


def _uses(said: str) -> dict[str, Use]:
    found = {}
    for match in _USE.finditer(said):
        shared = re.search(r"(\d+) bytes smem", match["more"])
        use = Use(int(match["registers"]), int(match["spilled"]), int(shared[1]) if shared else 0)
        found[match["name"]] = use
    return found
