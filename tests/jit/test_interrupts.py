"""An interrupt at any line of a capture or of a replay: what comes later is right."""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from whit import Tensor, TinyJit
from whit.engine.programs.overlay import current
from whit.jit import jit

pytestmark = pytest.mark.slow

FOLDER = str(Path(jit.__file__).parent)
FILES = frozenset(
    f"{FOLDER}/{name}.py"
    for name in (
        "capture",
        "captured",
        "jit",
        "library_calls",
        "overlay",
        "ownership",
        "program",
        "replayer",
        "submit",
        "trace",
    )
)
EVERY = int(os.environ.get("INTERRUPT_EVERY", 6))  # lines; 1 takes a minute, and is for changes of these files
Line = tuple[str, int, str]


class Tracer:
    """Notes the lines that are run, or raises at one of them."""

    def __init__(self, at: Line | None = None, skip: int = 0) -> None:
        self.lines: dict[Line, int] = {}
        self._at, self._skip = at, skip

    def __call__(self, frame: types.FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename not in FILES:
            return None
        if event == "line":
            line = (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
            self.lines[line] = self.lines.get(line, 0) + 1
            if line == self._at and self.lines[line] == self._skip + 1:
                self._at = None
                raise KeyboardInterrupt
        return self


def run(tracer: Tracer, call: Callable[[], Any]) -> bool:
    """Whether the call came to its end."""
    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        call()
    except KeyboardInterrupt:
        return False
    finally:
        sys.settrace(before)
    return True


class Program:
    """A function that reads, writes in place and in new memory, draws numbers and returns views."""

    def __init__(self) -> None:
        self.count, self.turned = Tensor([0.0, 0.0]).realize(), Tensor([1.0, 2.0]).realize()
        self.scale, self.made = 2, {}
        self.jit = TinyJit(self.step)

    def step(self, x: Tensor) -> Tensor:
        if "first" not in self.made:
            self.made["first"] = x * 0
        self.count.assign(self.count + 1)
        self.turned.assign(self.turned.flip(0) + 0)
        return x * self.scale + self.count + self.made["first"]

    def check(self, most: int) -> None:
        """Whatever was interrupted: eager programs are right, and so are later calls."""
        assert current() is None
        eager = Tensor([1.0, 2.0]) * 3
        assert eager.tolist() == [3.0, 6.0] and (self.count + 0).shape == (2,)
        before = self.count.tolist()[0]
        assert before <= most and self.turned.tolist() == ([1.0, 2.0] if before % 2 == 0 else [2.0, 1.0])
        if "first" in self.made and before == 0:  # made by a capture that did not come to its end
            del self.made["first"]
        for number in (1, 2, 3):
            assert self.jit(Tensor([1.0, 5.0])).tolist() == [2 + before + number, 10 + before + number]
            assert self.count.tolist() == [before + number] * 2
        fresh = TinyJit(lambda x: x + self.scale)
        assert fresh(Tensor([1.0])).tolist() == [3.0]


def interrupted(calls_before: int) -> list[str]:
    """The lines of the next call where an interrupt leaves something wrong."""

    def prepared() -> Program:
        program = Program()
        for _ in range(calls_before):
            program.jit(Tensor([1.0, 5.0]))
        return program

    program, noted = prepared(), Tracer()
    x = Tensor([1.0, 5.0]).realize()
    assert run(noted, lambda: program.jit(x))
    failures = []
    for number, (line, times) in enumerate(noted.lines.items()):
        is_central = Path(line[0]).stem in ("jit", "overlay", "library_calls")
        if number % EVERY and not is_central:
            continue
        for skip in {0, times - 1} if is_central else {0}:
            program = prepared()
            run(Tracer(line, skip), lambda program=program: program.jit(x))  # type: ignore[misc]
            try:
                program.check(calls_before + 1)
            except BaseException as error:
                failures.append(f"{Path(line[0]).name}:{line[1]} {line[2]} +{skip}: {error!r:.200}")
    assert len(noted.lines) > 50
    return failures


@pytest.mark.parametrize("calls_before", [0, 1, 2, 3], ids=["first", "capture", "replay", "replay again"])
def test_an_interrupt_leaves_nothing_wrong(calls_before: int) -> None:
    assert interrupted(calls_before) == []
