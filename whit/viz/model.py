"""What a trace file says, as objects: `load(path)` in `whit.viz.load` makes a `Trace`.

Numbers that name things (kernels, graphs, stacks, ...) are keys of dictionaries here, as they come from a file that
nobody vouches for. What a truncated file does not have is missing or empty, never an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from whit.engine.report.launch_words import merged
from whit.errors import MissingError

Counts = dict[int, list[int]]  # rule -> attempts, hits, nanoseconds
Steps = list[tuple[int, int, int]]  # rule, node before, node after


@dataclass(slots=True)
class Rule:
    """A rule of rewriting, and where it is written."""

    name: str
    file: str
    line: int
    source: str = ""

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(slots=True)
class Rewriting:
    """What rules did in one place."""

    steps: Steps = field(default_factory=list)
    counts: Counts = field(default_factory=dict)

    def hits(self) -> dict[int, int]:
        """How often each rule fired, the most often first."""
        found = {rule: count[1] for rule, count in self.counts.items() if count[1]}
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    @property
    def total_hits(self) -> int:
        return sum(count[1] for count in self.counts.values())


@dataclass(slots=True)
class Pass:
    """A pass over a kernel."""

    name: str
    why: str
    graph: int
    ns: int
    rewriting: Rewriting = field(default_factory=Rewriting)


@dataclass(slots=True)
class Kernel:
    """A kernel: what was compiled, and how often it ran."""

    id: int
    name: str
    graph: int
    passes: list[Pass] = field(default_factory=list)
    rendering: Rewriting = field(default_factory=Rewriting)  # while its source was written
    is_compiled: bool = False  # in this recording
    target: str = ""
    explanation: str = ""
    source: str = ""
    assembly: str = ""
    ops: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    total: int = 1
    code_bytes: int = 0
    render_ns: int = 0
    code_ns: int = 0
    stack: int = 0
    at: int = 0  # when its compilation ended
    durations: list[int] = field(default_factory=list)  # nanoseconds of each run
    names: dict[str, None] = field(default_factory=dict)  # the layers and lines that its launches compute

    @property
    def called(self) -> str:
        """What its launches compute, without lines: "blocks.*.attn softmax"; its own name where nobody knew."""
        return merged(name.partition("  ")[0] for name in self.names) or self.name

    @property
    def computes(self) -> str:
        """Those in short: "blocks.*.attn softmax  model.py:31"."""
        return merged(self.names)

    @property
    def nbytes(self) -> int:
        return self.bytes_read + self.bytes_written

    @property
    def compile_ns(self) -> int:
        return sum(step.ns for step in self.passes) + self.render_ns + self.code_ns

    @property
    def label(self) -> str:
        return f"k{self.id}"


@dataclass(slots=True)
class Schedule:
    """A graph that was scheduled: its kernels in order, and the memory of its temporaries."""

    id: int
    device: str
    graph: int
    linear: int
    calls: list[int]
    arena: int
    temporaries: list[tuple[int, int, int, int, str]]  # bytes, first and last call, offset, type
    ns: int
    stack: int
    at: int
    runs: int = 0
    names: list[str] = field(default_factory=list)  # what its calls compute, as of the last run so far
    rewriting: Rewriting = field(default_factory=Rewriting)
    launches: list[Launch] = field(
        default_factory=list
    )  # what is known of its calls besides, as of the last run so far

    @property
    def label(self) -> str:
        return f"s{self.id}"


@dataclass(slots=True)
class Launch:
    """What is known of one call of a schedule."""

    layer: str  # "blocks.3.attn"
    phase: str  # "forward", "backward", "step", or ""
    also: str  # what it computes beside what it is called after


@dataclass(slots=True)
class Layer:
    """A layer of the model that was recorded."""

    path: str
    kind: str  # its class
    parameters: list[tuple[str, str, list[int], int]] = field(default_factory=list)  # name, dtype, shape, bytes


@dataclass(slots=True)
class Run:
    """A schedule that ran: when each of its kernels began and ended."""

    schedule: int
    stack: int
    thread: int
    times: list[tuple[int, int]]
    queue: str = ""  # of the device, where it is not the thread
    names: list[str] = field(default_factory=list)  # what its calls compute; none where nobody knew
    launches: list[Launch] = field(default_factory=list)

    @property
    def queue_name(self) -> str:
        return self.queue or f"thread {self.thread}"


@dataclass(slots=True)
class Copy:
    """A copy to, from or inside a device that works by itself."""

    device: str
    what: str  # "host to device"
    nbytes: int
    stack: int
    start: int
    end: int


@dataclass(slots=True)
class Allocation:
    """A buffer from when it came to when it went; -1: it was there to the end."""

    number: int
    nbytes: int
    device: str
    start: int
    end: int
    stack: int
    maker: str
    type: str = ""


@dataclass(slots=True)
class Trace:
    """One recording."""

    path: str
    start: dict[str, Any] = field(default_factory=dict)
    graphs: dict[int, str] = field(default_factory=dict)
    digests: dict[int, str] = field(default_factory=dict)
    nodes: dict[int, str] = field(default_factory=dict)
    rules: dict[int, Rule] = field(default_factory=dict)
    stacks: dict[int, list[tuple[str, int, str]]] = field(default_factory=dict)
    texts: dict[int, list[str]] = field(default_factory=dict)  # the lines of each stack
    kernels: dict[int, Kernel] = field(default_factory=dict)
    schedules: dict[int, Schedule] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    layers: dict[str, Layer] = field(default_factory=dict)
    flows: dict[tuple[str, str], None] = field(default_factory=dict)  # from one layer to another, in the forward pass
    copies: list[Copy] = field(default_factory=list)
    allocations: list[Allocation] = field(default_factory=list)
    freed_before: list[tuple[int, str, int]] = field(default_factory=list)  # time, device, bytes: from before it began
    elsewhere: Rewriting = field(default_factory=Rewriting)
    events: list[dict[str, Any]] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    last: int = 0  # the latest moment that is known
    has_end: bool = False
    is_whole: bool = True

    def line(self, stack: int) -> str:
        """The innermost line of a stack: "train.py:12"."""
        frames = self.stacks.get(stack)
        if not frames:
            return ""
        file, number, _ = frames[0]
        return f"{file.replace(chr(92), '/').rpartition('/')[2]}:{number}"

    def find_kernel(self, wanted: str) -> Kernel:
        """A kernel by `k3`, `3`, its name, or what one of its launches is called."""
        number = wanted.removeprefix("k")
        if number.isdecimal() and len(number) < 10 and int(number) in self.kernels:
            return self.kernels[int(number)]
        known = self.kernels.values()
        named = [kernel for kernel in known if kernel.name == wanted]
        named = named or [k for k in known if any(name.partition("  ")[0] == wanted for name in k.names)]
        if len(named) == 1:
            return named[0]
        if named:
            listed = ", ".join(kernel.label for kernel in named[:20])
            raise MissingError(f"viz: {len(named)} kernels are called {wanted}", listed, "Name one by its number.")
        raise MissingError(
            f'viz: there is no kernel "{wanted}" in {self.path}', fix="`list` shows the kernels and their numbers."
        )
