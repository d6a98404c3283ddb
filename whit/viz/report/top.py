"""`top`: the kernels that took the most time, moved the most bytes, or were compiled the longest."""

from __future__ import annotations

from collections.abc import Callable

from whit.viz.model import Kernel, Trace
from whit.viz.report.overview import kernel_data, kernels_text
from whit.viz.report.table import Data, amount, ms

MEASURES: dict[str, Callable[[Kernel], int]] = {
    "time": lambda kernel: sum(kernel.durations),
    "bytes": lambda kernel: kernel.nbytes * len(kernel.durations),
    "compile": lambda kernel: kernel.compile_ns,
}


def top_data(trace: Trace, by: str, count: int) -> Data:
    """The first `count` kernels by a measure, with their share of the whole."""
    measure = MEASURES[by]
    kernels = sorted(trace.kernels.values(), key=lambda kernel: (-measure(kernel), kernel.id))
    total = sum(measure(kernel) for kernel in kernels)
    shown = [
        {**kernel_data(kernel), "measure": measure(kernel), "share": measure(kernel) / total if total else 0.0}
        for kernel in kernels[:count]
    ]
    return {"by": by, "total": total, "kernels": shown}


def top_text(data: Data) -> str:
    """The same in words."""
    total = amount(data["total"]) if data["by"] == "bytes" else f"{ms(data['total'])} ms"
    lines = kernels_text(data["kernels"]).split("\n")
    shares = ["share", *(f"{kernel['share']:.1%}" for kernel in data["kernels"])]
    width = max(map(len, shares))
    rows = [f"{share:>{width}}  {line}" for share, line in zip(shares, lines, strict=True)]
    return "\n".join([f"by {data['by']}, {total} in all", *rows])
