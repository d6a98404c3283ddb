"""What DEBUG prints.

    DEBUG=1   a line for each schedule that is made ready: device, target, kernels, memory, time
    DEBUG=2   a line for each launch: number, device, what it computes, result, time, GFLOP/s, GB/s, memory in use, the
              user's line, the kernel
    DEBUG=3   why values are stored between kernels; how each new kernel is tiled, and why
    DEBUG=4   its source text
    DEBUG=5   the graphs: what is realised, its schedule, each kernel
    DEBUG=6   the linear program
    DEBUG=7   machine code as assembly

Each level prints what the lower ones do. From 3 on, what is printed about a kernel is printed when it is compiled, so
kernels are not taken from disk. Colours only where a person looks: on a terminal. docs/debug.md has examples.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from whit.config import DEBUG
from whit.engine.report.counters import Counts, GlobalCounters
from whit.engine.report.why_stored import Stored, stored_lines
from whit.ir.op import spell_shape
from whit.ir.text.write import to_text
from whit.ir.uop import UOp

if TYPE_CHECKING:
    from whit.engine.report.launch_words import LaunchName

COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")

NAME_COLUMNS = 50  # of DEBUG=2
UNTILED = "loops as they are, on one core: no range suits vector lanes, and there is too little work for more cores"


def colored(text: str, color: str | None, background: bool = False) -> str:
    """The text in a colour (upper case: bright), wherever it is printed."""
    if color is None or color.lower() not in COLOURS:
        return text
    code = COLOURS.index(color.lower()) + (90 if color.isupper() else 30) + (10 if background else 0)
    return f"\033[{code}m{text}\033[0m"


def _shown(text: str, color: str) -> str:
    return colored(text, color) if sys.stdout.isatty() else text


def time_to_str(seconds: float, width: int = 8) -> str:
    """A duration with a unit that suits it: "12.34ms"."""
    for unit, scale in (("s ", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 10 or unit == "us":
            return f"{seconds * scale:{width}.2f}{unit}"
    raise AssertionError("unreachable")


def show_load(device: str, target: object, kernels: int, arena_bytes: int, seconds: float) -> None:
    """The line of DEBUG=1."""
    count = f"{kernels} kernel{'' if kernels == 1 else 's'}"
    temporaries = f"{arena_bytes / 1e6:.2f} MB of temporaries"
    print(f"=== {device} ({target}): {count}, {temporaries}, ready in {time_to_str(seconds, 0)}", flush=True)


def show_kernel(
    device: str, kernel: str, outputs: Sequence[UOp], counts: Counts, seconds: float, launch: LaunchName
) -> None:
    """The line of DEBUG=2: first what the launch computes, last the user's line and the name of the kernel."""
    number = GlobalCounters.kernel_count
    first = outputs[0] if outputs else None
    result = "" if first is None else f"{first.dtype.name}{spell_shape(first.shape)}"
    flops = counts.global_ops / max(seconds, 1e-9) / 1e9
    bandwidth = counts.global_mem / max(seconds, 1e-9) / 1e9
    used = GlobalCounters.mem_used / 1e6
    name = _shown(f"{launch.name or kernel:{NAME_COLUMNS}s}", "cyan")
    line = f"*** {device:7s} {number:4d} {name} {result:22s} tm {time_to_str(seconds)}"
    line = f"{line} {flops:9.1f} GFLOP/s {bandwidth:7.1f} GB/s  mem {used:9.2f} MB"
    end = "  ".join([_shown(launch.line, "green"), kernel] if launch.line else [kernel] if launch else [])
    print(f"{line}  {end}" if end else line, flush=True)


def show_stored(calls: Iterable[tuple[str, Stored]]) -> None:
    """The part of DEBUG=3 that belongs to a schedule, once when it is made: of equal kernels once."""
    for name, stored in dict.fromkeys(calls):
        for reason in stored_lines(stored):
            print(f"{name}: {_shown(reason, 'yellow')}")


def announce(function: UOp, explanation: str = "", source: str = "", linear: UOp | None = None, code: str = "") -> None:
    """The parts of DEBUG=3 and up that belong to a kernel, once when it is compiled."""
    level = int(DEBUG)
    if level >= 3 and source:
        for reason in explanation.splitlines() or [UNTILED]:
            print(f"{function.arg.name}: {_shown(reason, 'yellow')}")
    if level >= 5:
        show_graph(f"kernel {function.arg.name}", function)
    if level >= 6 and linear is not None:
        show_graph(f"program of {function.arg.name}", linear)
    if level >= 4 and source:
        _show_text(f"source of {function.arg.name}", source)
    if level >= 7 and code:
        _show_text(f"machine code of {function.arg.name}", code)


def show_graph(title: str, node: UOp) -> None:
    """A graph with a heading."""
    _show_text(title, to_text(node))


def _show_text(title: str, text: str) -> None:
    print(_shown(f"--- {title}", "green"))
    print(text.rstrip("\n"), flush=True)
