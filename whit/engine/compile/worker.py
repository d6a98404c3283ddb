"""A process that compiles kernels for another one (`elsewhere`): texts of functions come in, machine code goes out.

    stdin     {"target": "CPU:LLVM:znver5", "settings": {"TF32": false, ...}}      {"function": "f = function ..."} ...
    stdout                                                    {"name": "f", "total": 8, ...} and machine code   ...

It ends when nothing more can be read.
"""

from __future__ import annotations

import gc
import os
import signal
import sys

from whit.config import Context
from whit.engine.compile.compile import compile_kernel
from whit.engine.compile.messages import receive, send
from whit.ir.text.parse import parse
from whit.runtime.code.llvm import compile_llvm
from whit.target import parse_target


def main() -> None:
    """What the process does."""

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other process gets it too, and ends this one
    gc.freeze()  # all that was loaded stays
    source, target = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what somebody prints is no message
    begin = receive(source)
    if begin is None:
        return
    with Context(**begin[0]["settings"]):
        machine = parse_target(begin[0]["target"])
        while (message := receive(source)) is not None:
            task = message[0]
            if "source" in task:
                send(target, {}, compile_llvm(task["source"], machine))
            else:
                send(target, *compile_kernel(parse(task["function"]), machine, is_shown=False))
