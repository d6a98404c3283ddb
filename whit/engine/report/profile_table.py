"""A profile as text: for each device its kernels and copies, the longest first, and how long it was idle.

    PROFILE: 0.135 s, 20 kernels and 0 copies on CPU
    ...
    CPU (this machine: 22.3 GB/s)
    total ms    share  calls  mean us  best us  GB/s  TFLOP/s  limit   % of roof  what       result         kernel
       8.120  100.0 %     20    406.0    390.2  11.8    0.003  memory         53  add  a.py  float32(60000,)  add_60000
    busy 8.120 of 8.402 ms from the first start to the last end, idle 0.282 ms; scheduling and compiling took 98.104 ms

A device that runs nothing has calls, operations and bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from whit.engine.report.kernel import spell_bytes
from whit.errors import WhitError

if TYPE_CHECKING:
    from whit.engine.report.profile import CopyTimes, KernelTimes, Profile, Times

MOST_KERNELS_SHOWN = 30  # kernels of a device
HEADS = (
    *("total ms", "share", "calls", "mean us", "best us", "GB/s", "TFLOP/s", "limit", "% of roof"),
    *("what", "result", "kernel"),
)
LEFT = ("limit", "what", "result", "kernel")  # columns of words

NOTHING = "nothing ran: work is done when a value is read or realised"
ONE_BY_ONE = "Kernels were started one by one to be timed: none ran beside another, and replays are faster as a whole."


def table(profile: Profile, most: int) -> str:
    """All devices, with at most `most` kernels of each."""
    kernels, copies = profile.kernels, profile.copies
    head = f"PROFILE: {profile.seconds:.3f} s"
    if not kernels and not copies:
        return f"{head}, {NOTHING}"
    devices = sorted({row.device for row in kernels} | {row.device for row in copies})
    ran, moved = sum(row.calls for row in kernels), sum(row.calls for row in copies)
    lines = [f"{head}, {_count(ran, 'kernel')} and {_count(moved, 'copy', 'copies')} on {', '.join(devices)}"]
    lines += [ONE_BY_ONE] if any(row.timed for row in kernels) else []
    for device in devices:
        here = [row for row in kernels if row.device == device]
        lines += ["", *_device(profile, device, here, [row for row in copies if row.device == device], most)]
    return "\n".join(lines)


def _device(profile: Profile, device: str, kernels: list[KernelTimes], copies: list[CopyTimes], most: int) -> list[str]:
    total = sum(row.seconds for row in (*kernels, *copies))
    rows = [_kernel(row, total) for row in kernels[:most]]
    if left := kernels[most:]:
        calls, seconds = sum(row.calls for row in left), sum(row.seconds for row in left)
        what = f"{_count(len(left), 'more kernel')}; PROFILE=2 shows them"
        rows.append([f"{seconds * 1e3:.3f}", _share(seconds, total), str(calls), *[""] * 6, what, "", ""])
    rows += [_copy(row, total) for row in copies]
    return [f"{device}{_limits(kernels)}", *_aligned(rows), *_moments(profile, device)]


def name_table(profile: Profile, most: int) -> str:
    """The launches of all devices by what they compute, whatever kernels do it."""
    launches = profile.launches
    if not launches:
        return f"PROFILE: {profile.seconds:.3f} s, {NOTHING}"
    total = sum(row.seconds for row in launches)
    rows = [[*_times(row, total), row.name, row.kernel] for row in launches[:most]]
    if left := launches[most:]:
        seconds = sum(row.seconds for row in left)
        calls = str(sum(row.calls for row in left))
        rows.append([f"{seconds * 1e3:.3f}", _share(seconds, total), calls, "", "", f"{len(left)} more", ""])
    return "\n".join(_aligned(rows, (*HEADS[:5], "what", "kernel")))


def _kernel(row: KernelTimes, total: float) -> list[str]:
    result = row.result + (f" of {row.largest}" if row.largest else "")
    what = [row.label, result, row.name] if row.label else [row.name, result, ""]
    if not row.timed:
        return ["", "", str(row.calls), *[""] * 6, what[0], f"{result}, {row.report.amounts}", what[2]]
    rates = [_rate(row.nbytes / 1e9, row.seconds), _rate(row.ops / 1e12, row.seconds)]
    roof = _roof(row)
    limit = ["", ""] if roof is None else [roof[0], f"{100 * roof[1]:.0f}"]
    return [*_times(row, total), *rates, *limit, *what]


def _copy(row: CopyTimes, total: float) -> list[str]:
    rate, what = _rate(row.nbytes / 1e9, row.seconds), f"copy {row.what}, {spell_bytes(row.nbytes)}"
    return [*_times(row, total), rate, "", "", "", what, "", ""]


def _times(row: Times, total: float) -> list[str]:
    mean, best = f"{row.mean_seconds * 1e6:.1f}", f"{row.best_seconds * 1e6:.1f}"
    return [f"{row.seconds * 1e3:.3f}", _share(row.seconds, total), str(row.calls), mean, best]


def _roof(row: KernelTimes) -> tuple[str, float] | None:
    try:
        return row.roof()
    except WhitError:  # a device that has failed says nothing about itself
        return None


def _limits(kernels: list[KernelTimes]) -> str:
    """What the device allows: the speed of its memory; that of its units differs by kernel."""
    for row in kernels:
        if _roof(row) is not None and row.report.roof is not None:
            return f" ({row.report.roof[1].partition(',')[0]})"
    return ""


def _moments(profile: Profile, device: str) -> list[str]:
    """How much of the time the device did something, and how long it was prepared for that."""
    spans, preparing = profile.spans.get(device), profile.preparing.get(device)
    found = []
    if spans is not None:
        busy, whole = spans.busy() * 1e-6, (spans.last - spans.first) * 1e-6
        idle = max(whole - busy, 0.0)
        found.append(f"busy {busy:.3f} of {whole:.3f} ms from the first start to the last end, idle {idle:.3f} ms")
    if preparing is not None:
        found.append(f"scheduling and compiling took {preparing.seconds * 1e3:.3f} ms")
    return ["; ".join(found)] if found else []


def _aligned(rows: list[list[str]], heads: tuple[str, ...] = HEADS) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(heads, *rows, strict=True)]
    lines = []
    for row in (heads, *rows):
        cells = zip(heads, row, widths, strict=True)
        lines.append("  ".join([f"{c:<{w}}" if head in LEFT else f"{c:>{w}}" for head, c, w in cells]).rstrip())
    return lines


def _share(seconds: float, total: float) -> str:
    return f"{100 * seconds / total:.1f} %" if total else ""


def _rate(amount: float, seconds: float) -> str:
    rate = amount / seconds if seconds else 0.0
    return f"{rate:.1f}" if rate >= 10 else f"{rate:.3f}"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
