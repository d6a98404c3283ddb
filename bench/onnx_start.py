"""How long models take from the start of a process to the first result, and how much memory they need.

    python bench/onnx_start.py model.onnx other.onnx --size '*=320'
    python bench/onnx_models.py --fetch --start

Each number is that of a process of its own: `cold` has an empty cache folder, `second` comes after it, and `ort` is
onnxruntime. Milliseconds go from before the process is started to its first result, with the import of NumPy; CPU time
is that of the process and of those that it started; the peak is VmHWM of the process itself. Inputs lie in files.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MEGABYTE = 1 << 20

WHIT = """
import sys
import numpy as np
from whit import onnx
inputs = {name: np.load(path) for name, path in zip(sys.argv[2::2], sys.argv[3::2])}
for value in onnx.load(sys.argv[1])(inputs).values():
    np.asarray(value)
"""
ONNXRUNTIME = """
import sys
import numpy as np
import onnxruntime
onnxruntime.set_default_logger_severity(4)
inputs = {name: np.load(path) for name, path in zip(sys.argv[2::2], sys.argv[3::2])}
onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"]).run(None, inputs)
"""
REPORT = """
print("ready", flush=True)
import json, resource
own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
cpu = own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps([cpu, int(peak.split()[1]) * 1024]))
"""


@dataclass(frozen=True)
class Start:
    """One process: seconds to the first result, seconds of CPU time, bytes at its peak."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int


@dataclass(frozen=True)
class Starts:
    """The processes of one model."""

    model: str
    cold: Start
    second: Start
    onnxruntime: Start

    @property
    def memory_ratio(self) -> float:
        """The peak of the second process, as a multiple of onnxruntime's."""
        return self.second.peak_bytes / self.onnxruntime.peak_bytes


def sizes_of(model: Any, given: dict[str, int]) -> dict[str, int]:
    """A size for each name; "*" stands for all that are not named. The first axis is the batch."""
    found = dict(given)
    for port in model.inputs:
        for axis, size in enumerate(port.type.shape or ()):
            if not isinstance(size, int):
                found.setdefault(str(size), 1 if axis == 0 else given.get("*", 1))
    return found


def start(program: str, path: Path, inputs: list[str], environment: dict[str, str]) -> Start:
    """Runs a process up to its first result."""
    command = [sys.executable, "-c", program + REPORT, str(path), *inputs]
    begin = time.perf_counter()
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        seconds = time.perf_counter() - begin
        rest = process.stdout.read()
    if first != "ready\n" or process.returncode:
        raise RuntimeError(f"{path}: the process failed")
    cpu, peak = json.loads(rest)
    return Start(seconds, cpu, peak)


def measure_start(path: Path, inputs: dict[str, Any], rounds: int = 3) -> Starts:
    """The processes of a model; of the warm ones the best."""
    import numpy as np

    with tempfile.TemporaryDirectory() as folder:
        given: list[str] = []
        for number, (name, array) in enumerate(inputs.items()):
            place = os.path.join(folder, f"{number}.npy")
            np.save(place, array)
            given += [name, place]
        cache = os.path.join(folder, "cache")
        paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "CACHE_DIR": cache, "PYTHONPATH": paths}
        cold = start(WHIT, path, given, environment)
        second = [start(WHIT, path, given, environment) for _ in range(rounds)]
        others = [start(ONNXRUNTIME, path, given, environment) for _ in range(rounds)]
    quickest = [min(found, key=lambda each: each.seconds) for found in (second, others)]
    return Starts(path.name, cold, *quickest)


HEAD = (
    f"{'model':34} {'cold ms':>8} {'cpu':>6} {'MB':>5} {'second':>7} {'cpu':>5} {'MB':>5} "
    f"{'ort ms':>7} {'cpu':>5} {'MB':>5} {'memory':>6}"
)


def spell(line: Starts) -> str:
    """A line of the table."""
    cold, second, other = line.cold, line.second, line.onnxruntime
    parts = [f"{line.model[:34]:34}"]
    for each, widths in ((cold, (8, 6, 5)), (second, (7, 5, 5)), (other, (7, 5, 5))):
        numbers = (1e3 * each.seconds, 1e3 * each.cpu_seconds, each.peak_bytes / MEGABYTE)
        parts += [f"{number:{width}.0f}" for number, width in zip(numbers, widths, strict=True)]
    return " ".join([*parts, f"{line.memory_ratio:6.2f}"])


def main() -> None:
    """The table."""
    from whit import onnx
    from whit.onnx.examples import example_inputs

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--size", action="append", default=[], metavar="NAME=N")
    options = parser.parse_args()
    sizes = {name: int(size) for name, _, size in (text.rpartition("=") for text in options.size)}
    print(HEAD)
    for path in options.files:
        model = onnx.load(path)
        print(spell(measure_start(path, example_inputs(model.inputs, sizes_of(model, sizes)))), flush=True)


if __name__ == "__main__":
    main()
