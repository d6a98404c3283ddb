"""`python -m whit bench`: the public benchmark. A result is compared with NumPy before its time counts."""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass

import numpy as np

from whit.cli.answer import OK, PROBLEM, Answer, UsageError, columns
from whit.cli.bench_works import Work, works
from whit.cli.check import relative_error
from whit.engine.devices.device import usable
from whit.engine.report.roofline import best_seconds, measure_roofline
from whit.errors import UserError, WhitError, nearest
from whit.kernel.cost import Cost
from whit.kernel.rates import Rates
from whit.progress import tqdm
from whit.tensor import Tensor

SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured of one work; without a time if the result was wrong."""

    name: str
    ok: bool
    error: float | None  # against NumPy, as a part of the largest element; None: there is no result
    tolerance: float
    failure: str | None  # the message of an error, if there was one
    ms: float | None
    gflops: float | None
    gbs: float | None
    limit: str  # "memory" or "compute": what would stop a perfect kernel
    roof_percent: float | None  # the least time that this machine's limits allow, as a part of the time


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments."""
    parser.description = """\
Times elementwise work, sums, softmax, layer norm, matrix products, a convolution and a training step. Each result is
compared with NumPy first: what is wrong has no time. A time is the least of many runs.

"% of roof" compares the time with the least that this machine allows: the bytes at the speed of a copy, or the products
at the speed of multiply-adds in registers, both measured at the start. A kernel that only reads can be above 100 %."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="only works with one of these in their name")
    parser.add_argument("--seconds", type=_seconds, default=SECONDS, metavar="S", help=f"for each work; {SECONDS:g}")
    parser.add_argument("--device", default="CPU", help="where whit computes, as in CPU:C; CPU")
    parser.add_argument("--quick", action="store_true", help="tiny inputs, few runs: whether it works, not how fast")


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 3600:
        raise argparse.ArgumentTypeError(f'"{text}" is no number of seconds from 0 to 3600')
    return number


def run(options: argparse.Namespace) -> Answer:
    """The command."""
    chosen = _chosen(options.names, works(options.quick))
    try:
        device = usable(options.device)
    except UserError as error:
        raise UsageError(error.what) from None
    if device.partition(":")[0] not in ("CPU", "PYTHON"):
        raise UsageError(f"--device: {device} computes nothing that could be compared")
    seconds = 0.0 if options.quick else options.seconds
    results = []
    bar: tqdm[Work] = tqdm(desc="bench: roof", total=len(chosen) + 1)
    with bar:
        roof = measure_roofline(min(seconds, 1.0), 1 << 16 if options.quick else 1 << 27)
        bar.update()
        for work in chosen:
            bar.set_description(f"bench: {work.name}")
            results.append(measure(work, roof, seconds, device))
            bar.update()
        bar.set_description("bench")
    data = {
        "device": device,
        "quick": options.quick,
        "roof": {
            "copy_gbs": roof.bytes_per_second / 1e9,
            "peak_gflops": roof.flops_per_second / 1e9,
            "threads": roof.threads,
        },
        "results": [asdict(result) for result in results],
    }
    is_ok = all(result.ok for result in results)
    return Answer(data, _table(results, roof, device, options.quick), OK if is_ok else PROBLEM)


def _chosen(names: list[str], known: list[Work]) -> list[Work]:
    for name in names:
        if not any(name in work.name for work in known):
            words = {work.name.partition(" ")[0] for work in known}
            raise UsageError(f'no work has "{name}" in its name.{nearest(name, sorted(words))}')
    return [work for work in known if not names or any(name in work.name for name in names)]


def measure(work: Work, roof: Rates, seconds: float, device: str) -> Result:
    """Compares the work with NumPy; if it is right, times it."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in work.shapes]
    cost = Cost(work.flops, work.moved)  # whether its bytes are read or written, a copy is as fast
    floor, limit = cost.seconds(roof), cost.limit(roof)
    error, failure = None, None
    try:
        inputs = [Tensor(array, device=device).realize() for array in arrays]
        error = _error(work, inputs, arrays)
    except WhitError as caught:
        failure = caught.what
    if error is None or not error <= work.tolerance:
        finite = error if error is not None and error < float("inf") else None
        return Result(work.name, False, finite, work.tolerance, failure, None, None, None, limit, None)
    time = best_seconds(lambda: Tensor.realize(*work.ours(*inputs)), seconds)
    return Result(
        name=work.name,
        ok=True,
        error=error,
        tolerance=work.tolerance,
        failure=None,
        ms=time * 1e3,
        gflops=work.flops / time / 1e9 if work.flops else None,
        gbs=work.moved / time / 1e9,
        limit=limit,
        roof_percent=100 * floor / time,
    )


def _error(work: Work, inputs: list[Tensor], arrays: list[np.ndarray]) -> float:
    """The largest error of the results."""
    found = work.ours(*inputs)
    Tensor.realize(*found)
    wanted = work.reference(*(array.astype(np.float64) for array in arrays))
    return max(relative_error(ours.numpy(), theirs) for ours, theirs in zip(found, wanted, strict=True))


def _table(results: list[Result], roof: Rates, device: str, quick: bool) -> str:
    rows = [("work", "ms", "GFLOP/s", "GB/s", "limit", "% of roof", "error")]
    for result in results:
        if result.ms is None:
            rows.append((result.name, "WRONG", "", "", "", "", _number(result.error, ".0e")))
            continue
        rows.append(
            (
                result.name,
                f"{result.ms:.3f}",
                _number(result.gflops, ".1f"),
                _number(result.gbs, ".1f"),
                result.limit,
                _number(result.roof_percent, ".0f"),
                _number(result.error, ".0e"),
            )
        )
    copy, peak = roof.bytes_per_second / 1e9, roof.flops_per_second / 1e9
    both = f"copy {copy:.1f} GB/s, multiply-adds {peak:.1f} GFLOP/s"
    lines = [f"{device}, {roof.threads} threads; roof: {both}", "", *columns(rows, right=(1, 2, 3, 5, 6), indent="")]
    lines += [f"{result.name}: {result.failure}" for result in results if result.failure]
    if quick:
        lines += ["", "Tiny inputs: the speeds mean nothing."]
    return "\n".join(lines)


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
