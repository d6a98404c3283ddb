"""What an un-jitted step costs in Python once everything is compiled, in microseconds of processor time.

    python bench/realize.py

Rows: a tiny op from building its graph to the result in memory; the parts of that; long chains, an op each.
Processor time, not wall-clock time: other programs on the machine do not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from whit.dtype import dtypes
from whit.engine.devices.device import Device
from whit.engine.memory.storage import new_buffer
from whit.engine.plan.find_plan import _plans
from whit.engine.realize.parametrise import below, parametrise
from whit.engine.realize.realize import realize
from whit.ir.uop import UOp
from whit.runtime.buffer import Buffer


def best(function: Callable[[], object], number: int = 2000, repeat: int = 7) -> float:
    """Microseconds a call, the best of several rounds."""
    function()
    rounds = []
    for _ in range(repeat):
        start = time.process_time()
        for _ in range(number):
            function()
        rounds.append(time.process_time() - start)
    return min(rounds) / number * 1e6


def chain(x: UOp, length: int) -> UOp:
    """x * 0.3 + 0.7, so many times."""
    for i in range(length // 2):
        x = x * (0.3 + i / 1000) + 0.7
    return x


def main() -> None:
    """Prints the table."""
    a = new_buffer(dtypes.float32, (16,), "CPU")
    rows = [
        ("a + 0.3: graph, realize, free", best(lambda: realize([a + 0.3]))),
        ("of which building the graph", best(lambda: a + 0.3)),
    ]
    root = a + 0.3
    order, _ = below([root])
    normalised = parametrise([root], order)
    loaded = next(plan for key, plan in _plans.items() if key[0] is normalised.graph)
    buffers = [Buffer("CPU", 64), Buffer("CPU", 64), Buffer("CPU", 64)]
    rows += [
        ("normalise", best(lambda: parametrise([root], below([root])[0]))),
        ("new buffer", best(lambda: new_buffer(dtypes.float32, (16,), "CPU"))),
        ("launch", best(lambda: Device["CPU"].run(loaded, buffers, {}))),
    ]
    for length in (100, 10_000):
        end = chain(a, length)
        kept = parametrise([end], below([end])[0])  # as the cache of schedules does: equal nodes exist already
        each = best(lambda end=end: parametrise([end], below([end])[0]), 5, 3) / length  # type: ignore[misc]
        rows.append((f"normalise a chain of {length} ops, each", each))
        del kept
    for name, microseconds in rows:
        print(f"{name:44s} {microseconds:8.2f} us")


if __name__ == "__main__":
    main()
