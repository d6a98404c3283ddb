"""An ONNX model over many sizes: programs, kernels, seconds of the first call of each new size, steady calls.

    python bench/onnx_sizes.py model.onnx "1,320..960/32,320..960/32" --count 20 --json FILE

Sizes are those of the model's named dimensions, in the order in which its inputs have them: numbers, or ranges
`first..last/step` of which `--count` are drawn. The folder of compiled kernels is a new, empty one. onnxruntime is
measured beside it where it is installed (`--alone` leaves it out). `--memory N` runs N sizes instead, and prints what
the process has in memory on the way.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from whit import onnx
from whit.engine.compile.compile import linked_kernels
from whit.onnx.examples import example_inputs

CALLS = 5  # of which the best counts


@dataclass(frozen=True)
class Line:
    """One size; times in milliseconds."""

    sizes: tuple[int, ...]
    programs: int  # new ones
    kernels: int  # new ones
    first: float
    processor: float  # time of the first call on all cores
    steady: float
    onnxruntime_first: float
    onnxruntime: float
    worst: float  # difference, as a part of the largest value


def drawn(given: str, count: int) -> list[tuple[int, ...]]:
    """Different sizes, the same in every run."""
    parts = []
    for part in given.split(","):
        found = re.fullmatch(r"(\d+)\.\.(\d+)(?:/(\d+))?", part)
        if found is None:
            parts.append([int(part)])
        else:
            first, last, step = found.groups()
            parts.append(list(range(int(first), int(last) + 1, int(step or 1))))
    choose = random.Random(0)
    result: dict[tuple[int, ...], None] = {}
    for _ in range(100 * count):
        if len(result) == count:
            break
        result[tuple(choose.choice(part) for part in parts)] = None
    return list(result)


def inputs_of(model: onnx.Model, sizes: tuple[int, ...]) -> dict[str, Any]:
    """Random inputs; dimensions after the last size have that one, too."""
    names = [str(size) for port in model.inputs for size in port.type.shape or () if not isinstance(size, int)]
    every = list(dict.fromkeys(names))
    given = (*sizes, *[sizes[-1]] * len(every))[: len(every)]
    return example_inputs(model.inputs, dict(zip(every, given, strict=True)))


def timed(run: Any) -> tuple[float, Any]:
    """Milliseconds of a call, and what it gives."""
    start = time.perf_counter()
    found = run()
    return 1e3 * (time.perf_counter() - start), found


def measure(model: onnx.Model, session: Any, sizes: tuple[int, ...]) -> Line:
    """One size, new to both."""
    given = inputs_of(model, sizes)

    def ours() -> list[Any]:
        return [np.asarray(value) for value in model(given).values()]

    programs, kernels, processor = model.captures, len(linked_kernels()), time.process_time()
    first, found = timed(ours)
    processor = 1e3 * (time.process_time() - processor)
    made = model.captures - programs, len(linked_kernels()) - kernels
    steady = min(timed(ours)[0] for _ in range(CALLS))
    if session is None:
        return Line(sizes, *made, first, processor, steady, 0.0, 0.0, 0.0)
    beside, expected = timed(lambda: session.run(None, given))
    best = min(timed(lambda: session.run(None, given))[0] for _ in range(CALLS))
    worst = max(map(difference, found, expected))
    return Line(sizes, *made, first, processor, steady, beside, best, worst)


def difference(found: Any, expected: Any) -> float:
    """The largest, as a part of the largest value; infinity of other shapes."""
    if found.shape != expected.shape:
        return float("inf")
    left, right = found.astype(np.float64), expected.astype(np.float64)
    return float(np.abs(left - right).max() / max(np.abs(right).max(), 1e-6)) if left.size else 0.0


def resident() -> float:
    """MiB of this process in memory."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def table(lines: list[Line]) -> None:
    """Prints what was measured."""
    print(f"{'sizes':>16} {'programs':>8} {'kernels':>7} {'first ms':>9} {'processor':>9} {'steady':>8}", end="")
    print(f" {'ort first':>9} {'ort':>8} {'ratio':>6} {'worst':>8}")
    for line in lines:
        name = "x".join(map(str, line.sizes))
        print(f"{name:>16} {line.programs:>8} {line.kernels:>7} {line.first:>9.1f} {line.processor:>9.1f}", end="")
        ratio = line.onnxruntime / line.steady
        print(f" {line.steady:>8.1f} {line.onnxruntime_first:>9.1f} {line.onnxruntime:>8.1f} {ratio:>6.2f}", end="")
        print(f" {line.worst:>8.1e}")
    total = sum(line.programs for line in lines), sum(line.kernels for line in lines)
    first = sum(line.first for line in lines) / 1e3
    print(f"{len(lines)} sizes: {total[0]} programs, {total[1]} kernels, first calls {first:.1f} s together")


def main() -> None:
    """Measures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("sizes")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--memory", type=int, default=0)
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CACHE_DIR"] = folder
        model = onnx.load(options.model)
        if options.memory:
            every = drawn(options.sizes, options.memory)
            for number, sizes in enumerate(every):
                for value in model(inputs_of(model, sizes)).values():
                    np.asarray(value)
                if number % max(len(every) // 10, 1) == 0:
                    print(f"{number:>6} sizes: {model.captures} programs, {resident():.0f} MiB", flush=True)
            print(f"{len(every):>6} sizes: {model.captures} programs, {resident():.0f} MiB")
            return
        session = None if options.alone else session_of(options.model)
        lines = [measure(model, session, sizes) for sizes in drawn(options.sizes, options.count)]
    table(lines)
    if options.json:
        options.json.write_text(json.dumps([asdict(line) for line in lines], indent=1))


def session_of(path: Path) -> Any:
    """onnxruntime's session; None where it is not installed."""
    try:
        import onnxruntime
    except ImportError:
        return None
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), quiet, providers=["CPUExecutionProvider"])


if __name__ == "__main__":
    main()
