"""What is compared: graphs and kernels as text, and programs by name.

`graphs.xz` has what the test suite schedules and which kernels it makes by hand, one JSON object a line: its kind, the
test that made it first, its text (and its older text, for commits that cannot read that), and whether it is part of the
sample that is compared by default. To make it anew:

    python -m tools.replay.corpus --record          runs the tests, which takes as long as that takes
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
GRAPHS = HERE / "graphs.xz"
BENCH = HERE.parents[1] / "bench"
PROGRAM = re.compile(r'^@program\("([^"]+)"(, sample=False)?\)', re.MULTILINE)

TARGETS = (
    "CPU:LLVM:x86-64",  # SSE2
    "CPU:LLVM:haswell",  # AVX2
    "CPU:LLVM:znver4",  # AVX-512 with bfloat16 products
    "CPU:C:haswell",
    "CUDA:PTX:sm_75",
    "CUDA:PTX:sm_80",
    "CUDA:PTX:sm_90a",
)


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of the corpus."""

    kind: str  # graph, kernel or program
    name: str
    text: str
    in_sample: bool = True
    older: str = ""  # the same for checkouts that have no op for exp and its like: the steps that they made of it

    @property
    def key(self) -> str:
        """What results are kept under."""
        return hashlib.sha256(f"{self.kind}\0{self.text}".encode()).hexdigest()[:32]


def read_corpus() -> list[Item]:
    """Programs first: the longest works should not come last."""
    return [*_programs(), *_graphs(GRAPHS)]


def _programs() -> list[Item]:
    """The text of a program is that of its name and of all files that programs are made of."""
    sources = [HERE / "programs.py", *sorted(BENCH.glob("*_models.py")), *sorted(BENCH.glob("*_works.py"))]
    sources += [BENCH / "forward.py", BENCH / "model_shapes.py", BENCH / "gpu_decode.py"]
    contents = [path.read_text("utf-8") for path in sources if path.exists()]
    digest = hashlib.sha256("\0".join(contents).encode()).hexdigest()
    declared = PROGRAM.findall((HERE / "programs.py").read_text("utf-8"))
    return [Item("program", name, f"{name} {digest}", not rest) for name, rest in declared]


def _graphs(path: Path) -> list[Item]:
    if not path.exists():
        return []
    with lzma.open(path, "rt", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    numbers: dict[str, int] = {}
    found = []
    for line in lines:
        number = numbers[line["test"]] = numbers.get(line["test"], 0) + 1
        name = line["test"] if number == 1 else f"{line['test']} #{number}"
        found.append(Item(line["kind"], name, line["text"], line["sample"], line.get("older", "")))
    return found


# ---- making it


def write_graphs(path: Path, recorded: Iterable[Path]) -> int:
    """Merges the files that `record` wrote; how many texts there are."""
    texts: dict[tuple[str, str], str] = {}  # kind and text -> test
    for file in sorted(recorded):
        for line in file.read_text("utf-8").splitlines():
            entry = json.loads(line)
            key = entry["kind"], entry["text"]
            texts[key] = min(texts.get(key, entry["test"]), entry["test"])
    order = sorted(texts.items(), key=lambda pair: (pair[1], pair[0]))
    with lzma.open(path, "wt", encoding="utf-8", preset=9) as out:
        for (kind, text), test in order:
            is_sample = int(hashlib.sha256(text.encode()).hexdigest(), 16) % 4 == 0
            out.write(json.dumps({"kind": kind, "test": test, "sample": is_sample, "text": text}) + "\n")
    return len(order)


def main() -> None:
    """Records the corpus."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="run the tests and record what they schedule")
    parser.add_argument("--merge", nargs="+", type=Path, help="folders that were recorded before")
    parser.add_argument("tests", nargs="*", default=["tests"], help="which tests, and other arguments of pytest")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folders = options.merge or [Path(folder)]
        if options.record:
            plugin = ["-p", "tools.replay.record", "--record-graphs", folder]
            subprocess.run([sys.executable, "-m", "pytest", "-q", "-n", "auto", *plugin, *options.tests], check=False)
        count = write_graphs(GRAPHS, [file for each in folders for file in each.glob("*.jsonl")])
    print(f"{count:,} graphs and kernels, {GRAPHS.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
