"""The speed of two commits, side by side: `python bench/against.py COMMIT`, the working tree against that commit.

    python bench/against.py main~1                          cpu.py, train.py and jit.py, four rounds
    python bench/against.py main~1 --only jit --rounds 8    one of them, more often
    python bench/against.py main~1 --slower 1.05            lists what is slower than by 5 percent

Each round runs the benchmarks of both, one after the other, in processes of their own; a number is the least of all
rounds. Both use their own files of `bench/`, so that a commit before files were moved can be measured. Without PyTorch.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from math import exp, log
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
Times = dict[str, float]  # milliseconds, by the name of a line

COMMANDS = {
    "cpu": ("bench/cpu.py", "--json", "--no-compile", "--seconds", "0.5"),
    "train": ("bench/train.py", "--json", "--no-compile", "--seconds", "4"),
    "jit": ("bench/jit.py",),
}
COUNTED = ("jit", "whit", "plain")  # of the contestants of a line; "one" thread and first steps are noise here


def unpack(commit: str, folder: Path) -> Path:
    """The package and the benchmarks of a commit."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), "archive", commit, "whit", "bench"], capture_output=True, check=False
    )
    if done.returncode:
        raise SystemExit(f'against: there is no commit "{commit}" with whit/ and bench/')
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
        tar.extractall(folder, filter="data")
    return folder


def run(name: str, checkout: Path) -> Times:
    """The lines of one benchmark of a checkout."""
    # Nothing of PyTorch: where it is installed, its threads would spin beside ours.
    hidden = "import sys; sys.modules['torch'] = None; import runpy; sys.argv = sys.argv[1:]; "
    script, *options = COMMANDS[name]
    code = f"{hidden}sys.path.insert(0, 'bench'); runpy.run_path(sys.argv[0], run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", code, script, *options],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"against: {script} failed in {checkout}\n{done.stderr[-2000:]}")
    return table_times(done.stdout) if name == "jit" else json_times(json.loads(done.stdout.splitlines()[-1]))


def json_times(found: dict[str, Times]) -> Times:
    """One number for each work and contestant of ours."""
    return {f"{work}, {name}": times[name] for work, times in found.items() for name in COUNTED if name in times}


def table_times(text: str) -> Times:
    """The last column of a Markdown table, in microseconds, by the first."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return {f"replay of {row[0]}": float(row[-1]) / 1e3 for row in rows[2:]}


def least(rounds: list[Times]) -> Times:
    """The least of each line."""
    return {name: min(times[name] for times in rounds if name in times) for name in rounds[0]}


def report(before: Times, after: Times, slower: float) -> list[str]:
    """A Markdown table of the lines of both, and what is slower."""
    lines = ["| line | before, ms | after, ms | after / before |", "|---|--:|--:|--:|"]
    ratios = {name: after[name] / before[name] for name in before if name in after}
    for name, ratio in ratios.items():
        lines.append(f"| {name} | {before[name]:.4g} | {after[name]:.4g} | {ratio:.3f} |")
    mean = exp(sum(map(log, ratios.values())) / max(len(ratios), 1))
    above = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items() if ratio > slower)
    return [*lines, "", f"geometric mean {mean:.3f} of {len(ratios)} lines; above {slower}: {above or 'none'}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit")
    parser.add_argument("--only", choices=COMMANDS, action="append", help="these benchmarks")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--slower", type=float, default=1.03, help="the ratio from which on a line is named")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="against-") as folder:
        checkouts = unpack(options.commit, Path(folder)), ROOT
        found: tuple[list[Times], list[Times]] = ([], [])
        for turn in range(options.rounds):
            for side in (0, 1) if turn % 2 == 0 else (1, 0):
                times: Times = {}
                for name in options.only or COMMANDS:
                    times.update(run(name, checkouts[side]))
                found[side].append(times)
    print("\n".join(report(least(found[0]), least(found[1]), options.slower)))


if __name__ == "__main__":
    main()
