"""How fast nodes are built and simplified; beside tinygrad, when it is installed, in the same run.

    python bench/rewrite.py              the chain, and where the time goes
    python bench/rewrite.py --large      also graphs of up to 10**6 nodes: time and memory of everything
    python bench/rewrite.py --steps N    a chain of N steps instead of 20000

The chain is y = (y*3 + i) % 977 for odd i and y // 2 + x for even i, over a variable x in [0, 1000]. Contestants
alternate, each run in a process of its own; each number is the least of several runs.
"""

from __future__ import annotations

import argparse
import cProfile
import functools
import gc
import json
import pickle
import pstats
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

from whit.dtype import dtypes
from whit.ir import UOp
from whit.ir.text.parse import parse
from whit.ir.text.write import to_text
from whit.ir.uop import live_nodes
from whit.simplify import simplify


def chain(x: Any, steps: int) -> Any:
    """The same Python for both contestants: only operators."""
    y = x
    for i in range(steps):
        y = (y * 3 + i) % 977 if i % 2 else (y // 2) + x
    return y


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and result, collected garbage out of the way."""
    gc.collect()
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def run_whit(steps: int, name: str) -> tuple[float, float, int, int]:
    """Seconds to build and to simplify, nodes before and after."""
    x = UOp.variable(name, 0, 1000)
    build, graph = timed(lambda: chain(x, steps))
    seconds, result = timed(lambda: simplify(graph))
    return build, seconds, len(graph.topological()), len(result.topological())


def run_tinygrad(steps: int, name: str) -> tuple[float, float, int, int]:
    """The same with tinygrad's UOp, graph_rewrite and symbolic."""
    from tinygrad.uop.ops import UOp as TinyUOp
    from tinygrad.uop.ops import graph_rewrite
    from tinygrad.uop.symbolic import symbolic

    x = TinyUOp.variable(name, 0, 1000)
    build, graph = timed(lambda: chain(x, steps))
    seconds, result = timed(lambda: graph_rewrite(graph, symbolic))
    return build, seconds, len(graph.toposort()), len(result.toposort())


CONTESTANTS = {"whit": run_whit, "tinygrad": run_tinygrad}


def in_own_process(name: str, steps: int) -> tuple[float, float, int, int]:
    """One run, in a process of its own: no run finds what another has left in memory."""
    command = [sys.executable, __file__, "--only", name, "--steps", str(steps)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    build, seconds, before, after = json.loads(output)
    return build, seconds, before, after


def has_tinygrad() -> bool:
    try:
        import tinygrad  # noqa: F401
    except ImportError:
        return False
    return True


def compare(steps: int, repeats: int) -> None:
    """The table of both contestants."""
    contestants = ["whit", "tinygrad"] if has_tinygrad() else ["whit"]
    best: dict[str, list[float]] = {name: [float("inf"), float("inf")] for name in contestants}
    sizes: dict[str, tuple[int, int]] = {}
    for _ in range(repeats):
        for name in contestants:
            build, seconds, before, after = in_own_process(name, steps)
            best[name] = [min(best[name][0], build / before), min(best[name][1], seconds / before)]
            sizes[name] = before, after
    print(f"{'':10} {'build us/node':>14} {'simplify us/node':>17} {'nodes':>8} {'simplified':>11}")
    for name in contestants:
        build, seconds = best[name]
        before, after = sizes[name]
        print(f"{name:10} {build * 1e6:14.2f} {seconds * 1e6:17.2f} {before:8} {after:11}")
    if "tinygrad" in best:
        ratios = [theirs / ours for theirs, ours in zip(best["tinygrad"], best["whit"], strict=True)]
        print(f"{'ratio':10} {ratios[0]:13.1f}x {ratios[1]:16.1f}x")
    else:
        print("tinygrad is not installed: pip install whit[bench-tinygrad] to compare")


def profile(steps: int) -> None:
    """Where the time of simplification goes."""
    graph = chain(UOp.variable("x", 0, 1000), steps)
    profiler = cProfile.Profile()
    profiler.enable()
    simplify(graph)
    profiler.disable()
    rows = pstats.Stats(profiler).stats.items()  # type: ignore[attr-defined]
    total = sum(row[2] for _, row in rows)
    print("\nwhere simplification spends its time (by profiler, own time):")
    for (file, _, function), row in sorted(rows, key=lambda item: -item[1][2])[:12]:
        place = file.rsplit("/", 1)[-1]
        print(f"  {row[2] / total:6.1%} {row[0]:8} calls  {function} ({place})")


def deep(n: int) -> UOp:
    """A chain of n nodes."""
    y = x = UOp.variable("x", 0, 1000)
    for i in range(n // 3):
        y = (y * 3 + x) % (i + 977)
    return y


def long_sum(n: int) -> UOp:
    """A sum of n different terms, not in their order."""
    total = UOp.const(dtypes.weakint, 0)
    for i in range(n):
        total = total + UOp.variable(f"v{i * 7919 % n}", 0, 9)
    return total


def wide(n: int) -> UOp:
    """n nodes in many short expressions under one group."""
    x = UOp.variable("x", 0, 1000)
    return UOp.group(*((x * i + 5) // 4 + x % (i + 2) for i in range(1, n // 6)))


def large() -> None:
    """Everything that can be done with a large graph, at two sizes: time must be linear."""
    header = ("nodes", "build", "simplify", "print", "parse", "pickle", "unpickle", "free", "bytes/node")
    print("\n" + f"{'us a node':12}" + "".join(f"{h:>11}" for h in header))
    for name, make, sizes in (
        ("deep chain", deep, (100_000, 200_000)),
        ("long sum", long_sum, (25_000, 50_000)),
        ("wide", wide, (500_000, 1_000_000)),
    ):
        for size in sizes:
            print(f"{name:12}" + measure_large(make, size))


def measure_large(make: Callable[[int], UOp], size: int) -> str:
    """One row of the table."""
    build, graph = timed(lambda: make(size))
    count = len(graph.topological())
    times = [build]
    simplified, result = timed(lambda: simplify(graph))
    del result
    printed, text = timed(lambda: to_text(graph))
    pickled, data = timed(lambda: pickle.dumps(graph))
    parsed, again = timed(functools.partial(parse, text))
    assert again is graph
    unpickled, other = timed(functools.partial(pickle.loads, data))
    assert other is graph
    del again, other, text, data
    holder = [graph]
    del graph
    freed, _ = timed(holder.clear)
    times += [simplified, printed, parsed, pickled, unpickled, freed]
    tracemalloc.start()
    before, nodes = tracemalloc.get_traced_memory()[0], live_nodes()
    graph = make(size)
    used = (tracemalloc.get_traced_memory()[0] - before) / (live_nodes() - nodes)
    tracemalloc.stop()
    return f"{count:11}" + "".join(f"{t / count * 1e6:11.2f}" for t in times) + f"{used:11.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--only", choices=CONTESTANTS, help="one run of one contestant, as JSON")
    options = parser.parse_args()
    if options.only:
        run = CONTESTANTS[options.only]
        run(50, "warm")  # compiles rules
        print(json.dumps(run(options.steps, "x")))
        return
    compare(options.steps, options.repeats)
    profile(options.steps)
    if options.large:
        large()


if __name__ == "__main__":
    main()
