"""How long a process takes to start: `import whit`, and the first `a + b` with nothing compiled before.

    python bench/start.py                        this checkout
    python bench/start.py ../before .            several, in turns: what disturbs the machine disturbs all of them
    python bench/start.py --rounds 30

Columns: milliseconds of wall-clock, each the least of all rounds (fresh processes; modules are compiled to .pyc before,
in a folder of this benchmark), and modules of whit and of others that are loaded by then.

    import      `import whit`
    nn          `from whit import nn`, after that
    first       `(Tensor([1.0, 2.0]) + Tensor([3.0, 4.0])).realize()` after the import, with an empty cache folder
    again       the same in the next process, which finds schedule and kernel in that folder
    process     the whole process of `first`; beside it, in the line "pass", one that runs `pass`
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict

PROGRAM = """
import sys, time
def spent(since): return (time.perf_counter() - since) * 1e3
def modules(): return sum(name.startswith("whit") for name in sys.modules), len(sys.modules)
start = time.perf_counter()
import whit
print("import", spent(start), *modules())
start = time.perf_counter()
{}
"""
FIRST = """
(whit.Tensor([1.0, 2.0]) + whit.Tensor([3.0, 4.0])).realize()
print("{}", spent(start), *modules())
"""
NN = """
from whit import nn
print("nn", spent(start), *modules())
"""
COLUMNS = ("import", "nn", "first", "again", "process")

Row = dict[str, tuple[float, int, int]]  # column -> milliseconds, modules of whit, all modules


def run(program: str, checkout: str, folder: str, pyc: str) -> Row:
    """What a program prints in a process whose whit is that of a checkout; and how long the process took."""
    settings = {**os.environ, "CACHE_DIR": folder, "PYTHONPYCACHEPREFIX": pyc, "CACHE": "1"}
    settings.pop("PYTHONDONTWRITEBYTECODE", None)
    start = time.perf_counter()
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=checkout, env=settings, capture_output=True, text=True, check=True)
    rows: Row = {"process": ((time.perf_counter() - start) * 1e3, 0, 0)}
    for line in done.stdout.splitlines():
        column, spent, ours, all_modules = line.split()
        rows[column] = float(spent), int(ours), int(all_modules)
    return rows


def one_round(checkout: str, pyc: str) -> Row:
    """All columns of a checkout once."""
    with tempfile.TemporaryDirectory() as folder:
        first = run(PROGRAM.format(FIRST.format("first")), checkout, folder, pyc)
        again = run(PROGRAM.format(FIRST.format("again")), checkout, folder, pyc)
        with_nn = run(PROGRAM.format(NN), checkout, folder, pyc)
    return {**again, **with_nn, **first}


def main() -> None:
    """Prints a line for each checkout."""
    parser = argparse.ArgumentParser(description="How long a process takes to start.")
    parser.add_argument("checkouts", nargs="*", default=[os.path.join(os.path.dirname(__file__), "..")])
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    least: dict[str, Row] = defaultdict(dict)
    with tempfile.TemporaryDirectory() as pyc:
        for number in range(arguments.rounds + 1):
            for name in ("pass", *arguments.checkouts):
                checkout = os.path.abspath("." if name == "pass" else name)
                found = run("pass", checkout, pyc, pyc) if name == "pass" else one_round(checkout, pyc)
                for column, value in found.items() if number > 0 else ():  # the first makes .pyc
                    least[name][column] = min(value, least[name].get(column, value))
    print(f"{'':24}" + "".join(f"{column:>10}" for column in COLUMNS) + "   modules of whit (all): import, first")
    for name, row in least.items():
        times = "".join(f"{row[column][0]:10.1f}" if column in row else f"{'':10}" for column in COLUMNS)
        loaded = ", ".join(f"{row[column][1]} ({row[column][2]})" for column in ("import", "first") if column in row)
        print(f"{name:24}{times}   {loaded}")


if __name__ == "__main__":
    main()
