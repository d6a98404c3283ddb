"""How near a kernel comes to the machine: operations and bytes a second, against the best that this trace has seen.

The roofs are those of the trace, not of a data sheet: the kernels with the most bytes, and the most operations, a
second. A kernel has to move its bytes and to do its operations, so its time is at least the larger of bytes / (best
bytes a second) and operations / (best operations a second); `efficiency` is that bound over its best time.
"""

from __future__ import annotations

from whit.viz.model import Kernel, Trace
from whit.viz.report.table import Data


def roofs(trace: Trace) -> tuple[float, float]:
    """The best operations and bytes a nanosecond."""
    ran = [(kernel, min(kernel.durations)) for kernel in trace.kernels.values() if kernel.durations]
    ops = max((kernel.ops / max(best, 1) for kernel, best in ran), default=0.0)
    nbytes = max((kernel.nbytes / max(best, 1) for kernel, best in ran), default=0.0)
    return ops, nbytes


def roofline_data(trace: Trace, kernel: Kernel) -> Data | None:
    """The numbers of a kernel that ran; None for one that did not, or of which no bytes are known."""
    if not kernel.durations or not kernel.nbytes:
        return None
    best_ops, best_bytes = roofs(trace)
    best = max(min(kernel.durations), 1)
    for_bytes = kernel.nbytes / best_bytes if best_bytes else 0.0
    for_ops = kernel.ops / best_ops if best_ops else 0.0
    return {
        "ops_per_byte": kernel.ops / kernel.nbytes,
        "gflops": kernel.ops / best,
        "gbytes": kernel.nbytes / best,
        "best_gflops": best_ops,
        "best_gbytes": best_bytes,
        "bound": "bytes" if for_bytes >= for_ops else "operations",
        "efficiency": max(for_bytes, for_ops) / best,
    }


def roofline_text(data: Data | None) -> str:
    """The same in words."""
    if data is None:
        return "roofline: it did not run, or its bytes are not known"
    return (
        f"roofline: {data['ops_per_byte']:.2f} operations a byte, {data['gflops']:.2f} GFLOP/s, "
        f"{data['gbytes']:.2f} GB/s\n"
        f"  bound by {data['bound']}: {data['efficiency']:.0%} of what the best kernels of this trace would allow "
        f"({data['best_gflops']:.2f} GFLOP/s, {data['best_gbytes']:.2f} GB/s)"
    )
