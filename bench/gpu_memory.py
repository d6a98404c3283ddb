"""Kernels that memory limits, on the device CUDA beside a copy and PyTorch on the same GPU, in one process.

python bench/gpu_memory.py                            a table of milliseconds and GB/s
python bench/gpu_memory.py --only softmax cumsum      what has one of these words in its name
python bench/gpu_memory.py --eager                    without torch.compile, which takes seconds for each row

Times are of kernels alone, the best of many, by events, in turns; they are started while the device is busy with
something long, else Python is measured where they are short. Results are compared with PyTorch's. GB/s counts what the
work has to read and write once. A copy of a GiB by the driver, in the same run, is what there is to reach.
"""

# mypy: disable-error-code="misc"
from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gpu import keep_busy, kernels_of

from whit import Device, Tensor, dtypes

REPEATS, IN_A_ROW = 12, 4
GIB = 1 << 30
CHECKED = 1 << 20  # elements of a result that are compared
F = torch.nn.functional
Case = tuple[str, int, Callable[[], Tensor], Callable[[], Any]]  # name, bytes, ours, theirs


def seconds_of(run: Callable[[], Any]) -> float:
    """Of one run, on PyTorch's stream."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(2_000_000)  # cycles
    begin.record()
    for _ in range(IN_A_ROW):
        run()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / IN_A_ROW / 1e3


def our_seconds_of(run: Callable[[], Any]) -> float:
    """The same on ours."""
    gpu = Device["CUDA"].gpu  # type: ignore[attr-defined]
    keep_busy()()
    start = gpu.event()
    for _ in range(IN_A_ROW):
        run()
    return float(gpu.event().since(start)) / IN_A_ROW


def best_of(ours: Callable[[], Any], *theirs: Callable[[], Any]) -> list[float]:
    """The best of many of each, in turns, since a busy chip lowers its clock."""
    for run in (ours, *theirs):
        run()
    torch.cuda.synchronize()
    found = [float("inf")] * (1 + len(theirs))
    for _ in range(REPEATS):
        found[0] = min(found[0], our_seconds_of(ours))
        found[1:] = [min(best, seconds_of(run)) for best, run in zip(found[1:], theirs, strict=True)]
    return found


def error_of(result: Tensor, expected: Any) -> float:
    """How far a result is from PyTorch's, relative to the largest element, of the first ones."""
    got = result.reshape(-1)[:CHECKED].cast(dtypes.float32).numpy()
    right = expected.reshape(-1)[:CHECKED].float().cpu().numpy()
    return float(np.abs(got - right).max() / max(np.abs(right).max(), 1e-30)) if got.size else 0.0


def rate(nbytes: int, seconds: float) -> str:
    return f"{seconds * 1e3:8.3f} ms {nbytes / seconds / 1e9:6.0f} GB/s"


def copy_rate() -> float:
    """GB/s of a copy by the driver, counting reads and writes."""
    one, other = (torch.zeros(GIB, dtype=torch.uint8, device="cuda") for _ in range(2))
    return 2 * GIB / min(seconds_of(lambda: one.copy_(other)) for _ in range(REPEATS)) / 1e9


def table(cases: list[Case], words: list[str], is_compiled: bool) -> int:
    """Prints a line for each; how many were wrong."""
    copy = copy_rate()
    print(f"copy of a GiB: {copy:.0f} GB/s")
    wrong = 0
    for name, nbytes, ours, theirs in cases:
        if words and not any(word in name for word in words):
            continue
        try:
            result, run = kernels_of(ours)
            error = error_of(result, theirs())
            them = [theirs, torch.compile(theirs, dynamic=False)] if is_compiled else [theirs]
            mine, *others = best_of(run, *them)
            beside = "   ".join(
                f"{label} {rate(nbytes, seconds)} {seconds / mine:5.2f}x"
                for label, seconds in zip(("torch", "compile"), others, strict=False)
            )
            most = 0.2 if "cumsum" in name and "bf16" in name else 2e-2  # PyTorch rounds every sum to bfloat16
            verdict = "" if error < most else f"   WRONG: {error:.1e}"
            wrong += bool(verdict)
            share = nbytes / mine / 1e9 / copy
            print(f"{name:36s} {rate(nbytes, mine)} {share:5.2f} of copy   {beside}{verdict}", flush=True)
        except Exception as error:  # a table with a hole is better than none
            wrong += 1
            print(f"{name:36s} {type(error).__name__}: {str(error)[-300:]}", flush=True)
    return wrong


def pair(*shape: int, of: tuple[Tensor, Any], half: bool = False) -> tuple[Tensor, Any]:
    """The first elements of the numbers of both, in a shape; as bfloat16."""
    count = int(np.prod(shape))
    x, t = of[0][:count].reshape(*shape), of[1][:count].view(*shape)
    return (x.bfloat16().realize(), t.bfloat16()) if half else (x.realize(), t)


def repeated(x: Any) -> Any:
    """Many operations on each element: arithmetic limits this."""
    y = x
    for _ in range(32):
        x = x * 0.5 + y
    return x


def wanted() -> list[Case]:
    """All rows."""
    cases: list[Case] = []
    flat = torch.randn(1 << 28, device="cuda")
    both = Tensor(flat.cpu().numpy(), device="CUDA").realize(), flat
    (x, t), f = both, 4 << 28

    def add(name: str, nbytes: int, ours: Callable[[], Tensor], theirs: Callable[[], Any]) -> None:
        cases.append((name, nbytes, ours, theirs))

    add("x * 2 + 1, 2^28 f32", 2 * f, lambda: x * 2 + 1, lambda: t * 2 + 1)
    add("gelu(x*2+1)*x, 2^28 f32", 2 * f, lambda: (x * 2 + 1).gelu() * x,
        lambda: F.gelu(t * 2 + 1, approximate="tanh") * t)  # fmt: skip
    add("sum of 2^28 f32", f, lambda: x.sum(), lambda: t.sum())
    h, th = pair(1 << 24, of=both, half=True)
    add("x = x*0.5+y 32 times, 2^24 bf16", 4 << 24, lambda: repeated(h), lambda: repeated(th))
    for half in (False, True):
        kind, size = ("bf16", 2) if half else ("f32", 4)
        rows_of(add, kind, size, *pair(16384, 8192, of=both, half=half))
        a, ta = pair(32768, 4096, of=both, half=half)
        w, tw = pair(4096, of=both, half=half)
        m = size * 32768 * 4096
        add(f"layer norm, 32768x4096 {kind}", 2 * m, lambda a=a, w=w: a.layernorm() * w + w,
            lambda ta=ta, tw=tw: F.layer_norm(ta, (4096,), tw, tw))  # fmt: skip
        add(f"rms norm, 32768x4096 {kind}", 2 * m,
            lambda a=a, w=w: (a.float() * (a.float().square().mean(-1, keepdim=True) + 1e-6).rsqrt()).cast(a.dtype) * w,
            lambda ta=ta, tw=tw: F.rms_norm(ta, (4096,), tw, 1e-6))  # fmt: skip
        b, tb = pair(4096, 8192, of=both, half=half)
        add(f"cumsum of rows, 4096x8192 {kind}", 2 * size * 4096 * 8192, lambda b=b: b.cumsum(1),
            lambda tb=tb: tb.cumsum(1))  # fmt: skip
        gathers(add, kind, size, *pair(50257, 768, of=both, half=half))
        c, tc = pair(16384, 768, of=both, half=half)
        add(f"layer norm, 16384x768 {kind}", 2 * size * 16384 * 768, lambda c=c: c.layernorm(),
            lambda tc=tc: F.layer_norm(tc, (768,)))  # fmt: skip
    scatters(add, both)
    permutes(add, both)
    sorts(add, both)
    return cases


def rows_of(add: Callable[..., None], kind: str, size: int, x: Tensor, t: Any) -> None:
    """Of a large matrix."""
    rows, columns = x.shape
    m, shape = size * rows * columns, f"{rows}x{columns} {kind}"
    add(f"sum of rows, {shape}", m, lambda: x.sum(1), lambda: t.sum(1))
    add(f"sum of columns, {shape}", m, lambda: x.sum(0), lambda: t.sum(0))
    add(f"softmax, {shape}", 2 * m, lambda: x.softmax(-1), lambda: t.softmax(-1))
    add(f"log softmax, {shape}", 2 * m, lambda: x.log_softmax(-1), lambda: t.log_softmax(-1))
    add(f"transpose, {shape}", 2 * m, lambda: x.transpose(0, 1).contiguous(), lambda: t.t().contiguous())
    add(f"cumsum of rows, {shape}", 2 * m, lambda: x.cumsum(1), lambda: t.cumsum(1))
    add(f"cumsum of columns, {shape}", 2 * m, lambda: x.cumsum(0), lambda: t.cumsum(0))
    if size == 4:
        count = rows * (columns - 1)
        o, to = x.reshape(-1)[:count].reshape(rows, columns - 1).realize(), t.view(-1)[:count].view(rows, columns - 1)
        m, shape = 4 * count, f"{rows}x{columns - 1} {kind}"
        add(f"softmax, {shape}", 2 * m, lambda: o.softmax(-1), lambda: to.softmax(-1))
        add(f"transpose, {shape}", 2 * m, lambda: o.transpose(0, 1).contiguous(), lambda: to.t().contiguous())
        add(f"cumsum of rows, {shape}", 2 * m, lambda: o.cumsum(1), lambda: to.cumsum(1))


def positions(count: int, size: int) -> tuple[Tensor, Any]:
    """Random positions."""
    found = torch.randint(0, size, (count,), device="cuda")
    return Tensor(found.int().cpu().numpy(), device="CUDA").realize(), found


def gathers(add: Callable[..., None], kind: str, size: int, table: Tensor, t: Any) -> None:
    """Rows of a table of words."""
    for count in (16384, 131072):
        p, tp = positions(count, 50257)
        add(f"gather {count} rows of 768 {kind}", 2 * size * count * 768, lambda p=p: table[p], lambda tp=tp: t[tp])


def scatters(add: Callable[..., None], both: tuple[Tensor, Any]) -> None:
    """What is added at positions."""
    for half in (False, True):
        kind, size = ("bf16", 2) if half else ("f32", 4)
        (x, t), (p, tp) = pair(16384, 768, of=both, half=half), positions(16384, 50257)
        wide, tw = p.reshape(16384, 1).expand(16384, 768), tp.view(16384, 1).expand(16384, 768)
        zeros, tz = Tensor.zeros(50257, 768, dtype=x.dtype, device="CUDA"), torch.zeros(50257, 768, device="cuda").to(t)
        add(f"embedding gradient, 16384x768 {kind}", size * (16384 + 50257) * 768,
            lambda zeros=zeros, wide=wide, x=x: zeros.scatter_add(0, wide, x),
            lambda tz=tz, tw=tw, t=t: tz.scatter_add(0, tw, t))  # fmt: skip
    (x, t), (p, tp) = pair(1 << 20, of=both), positions(1 << 20, 50257)
    counts, ones = (Tensor(np.ones(k, np.int32), device="CUDA").realize() for k in (50257, 1 << 20))
    tc, to = torch.ones(50257, device="cuda").int(), torch.ones(1 << 20, device="cuda").int()
    floats, tf = counts.float().realize(), tc.float()
    add("bincount of 2^20 in 50257", 4 << 20, lambda: counts.scatter_add(0, p, ones), lambda: tc.scatter_add(0, tp, to))
    add("scatter-add f32, 2^20 in 50257", 8 << 20, lambda: floats.scatter_add(0, p, x),
        lambda: tf.scatter_add(0, tp, t))  # fmt: skip
    single_scatters(add, both)


def single_scatters(add: Callable[..., None], both: tuple[Tensor, Any]) -> None:
    """Many single numbers, and short rows, in few places and in many."""
    for power, size in ((20, 1), (24, 1000), (26, 1000), (24, 10**6), (26, 10**6), (20, 1 << 24), (24, 1 << 24)):
        (x, t), (p, tp) = pair(1 << power, of=both), positions(1 << power, size)
        zeros, tz = Tensor.zeros(size, device="CUDA").contiguous().realize(), torch.zeros(size, device="cuda")
        add(f"scatter-add f32, 2^{power} in {size}", (8 << power) + 4 * size,
            lambda zeros=zeros, p=p, x=x: zeros.scatter_add(0, p, x),
            lambda tz=tz, tp=tp, t=t: tz.scatter_add(0, tp, t))  # fmt: skip
    for half, columns in ((False, 4), (False, 16), (False, 64), (True, 16)):
        count = 1 << 18
        (x, t), (p, tp) = pair(count, columns, of=both, half=half), positions(count, 50000)
        zeros = Tensor.zeros(50000, columns, dtype=x.dtype, device="CUDA").contiguous().realize()
        tz = torch.zeros(50000, columns, device="cuda").to(t)
        nbytes = x.dtype.itemsize * columns * (count + 50000)
        add(f"index_add of 2^18 rows of {columns} {'bf16' if half else 'f32'}", nbytes,
            lambda zeros=zeros, p=p, x=x: zeros.index_add(0, p, x),
            lambda tz=tz, tp=tp, t=t: tz.index_add(0, tp, t))  # fmt: skip
    (x, t), (p, tp) = pair(1 << 20, of=both), positions(1 << 20, 50257)
    floats, tf = Tensor.zeros(50257, device="CUDA").contiguous().realize(), torch.zeros(50257, device="cuda")
    add("scatter amax f32, 2^20 in 50257", 8 << 20, lambda: floats.scatter_reduce(0, p, x, "amax"),
        lambda: tf.scatter_reduce(0, tp, t, "amax"))  # fmt: skip
    add("gradient of x[i], 2^20 of 50257 f32", 8 << 20, lambda: (floats[p] * x).sum().gradient(floats)[0],
        lambda: torch.zeros_like(tf).index_put_((tp,), t, accumulate=True))  # fmt: skip


def permutes(add: Callable[..., None], both: tuple[Tensor, Any]) -> None:
    """Other orders of axes, and one long row."""
    (h, th), (b, tb) = pair(16, 1024, 12, 64, of=both), pair(64, 768, 1024, of=both)
    add("permute(0, 2, 1, 3) of 16x1024x12x64", 8 * 16 * 1024 * 768, lambda: h.permute(0, 2, 1, 3).contiguous(),
        lambda: th.permute(0, 2, 1, 3).contiguous())  # fmt: skip
    add("permute(0, 2, 1) of 64x768x1024", 8 * 64 * 768 * 1024, lambda: b.permute(0, 2, 1).contiguous(),
        lambda: tb.permute(0, 2, 1).contiguous())  # fmt: skip
    x, t = both
    add("cumsum of one row of 2^28", 8 << 28, lambda: x.cumsum(0), lambda: t.cumsum(0))


def together(pair: tuple[Tensor, Tensor]) -> Tensor:
    """The first of two that are computed at once."""
    return pair[0].realize(pair[1])


def sorts(add: Callable[..., None], both: tuple[Tensor, Any]) -> None:
    """Values and positions; the bytes are those of keys, values and positions of 32 bits, once."""
    for rows, size in ((1, 1 << 20), (1, 1 << 24), (32, 50257), (4096, 1024), (65536, 64)):
        x, t = pair(rows, size, of=both)
        add(f"sort of {rows}x{size} f32", 12 * rows * size, lambda x=x: together(x.sort()), lambda t=t: t.sort()[0])
    for rows in (1, 32):
        x, t = pair(rows, 50257, of=both)
        add(f"top 50 of {rows}x50257 f32", 4 * rows * 50257, lambda x=x: together(x.topk(50)),
            lambda t=t: t.topk(50)[0])  # fmt: skip
    x, t = pair(32, 50257, of=both)
    add("cumsum of rows, 32x50257 f32", 8 * 32 * 50257, lambda: x.cumsum(1), lambda: t.cumsum(1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], help="words")
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    given = parser.parse_args()
    print(f"{Device['CUDA'].gpu.name}, {Device['CUDA'].target}; torch {torch.__version__}")  # type: ignore[attr-defined]
    sys.exit(bool(table(wanted(), given.only, not given.eager)))
