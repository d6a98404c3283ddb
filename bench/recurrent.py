"""LSTMs by `whit.scan` and by `nn.LSTM` against `torch.nn.LSTM`: forward, and a training step.

    python bench/recurrent.py                       the table
    python bench/recurrent.py --cpu-time            one thread, time of the processor: on a busy machine

Both are measured in turns, in processes of their own that wait for each other; the least of many runs counts. `first`
is the first call in a process without a cache on disk: graph, schedule, kernels, and one run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

SIZES = ((10, 32, 256), (100, 32, 256), (1000, 32, 256), (10, 16, 128), (100, 16, 128), (1000, 16, 128))
SECONDS = 2.0  # for each number


def least(run: Callable[[], Any], clock: Callable[[], float], seconds: float) -> float:
    """The time of the fastest run, in milliseconds."""
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end or best == float("inf"):
        start = clock()
        run()
        best = min(best, clock() - start)
    return best * 1e3


def of_whit(steps: int, batch: int, hidden: int, kind: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Forward, and a training step, as captured functions."""
    import numpy as np

    import whit
    from whit import Tensor, TinyJit, nn

    random = np.random.default_rng(0)
    x = Tensor(random.normal(size=(steps, batch, hidden)).astype("f")).realize()
    model = nn.LSTM(hidden, hidden)
    names, weights = zip(*nn.state.get_state_dict(model).items(), strict=True)
    Tensor.realize(*weights)

    def by_layer(x: Tensor, *weights: Tensor) -> Tensor:
        output: Tensor = nn.state.functional_call(model, dict(zip(names, weights, strict=True)), x)[0]
        return output

    def by_scan(x: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor) -> Tensor:
        def step(state: Any, part: Tensor) -> Any:
            h, c = state
            take, forget, new, give = (part + h @ w_hh.T).chunk(4, dim=-1)
            c = forget.sigmoid() * c + take.sigmoid() * new.tanh()
            h = give.sigmoid() * c.tanh()
            return (h, c), h

        zeros = Tensor.zeros(batch, hidden)
        output: Tensor = whit.scan(step, (zeros, zeros), x @ w_ih.T + b_ih + b_hh)[1]
        return output

    run = by_layer if kind == "nn.LSTM" else by_scan
    forward = TinyJit(lambda *given: run(*given).realize())
    slopes = whit.grad(lambda *given: (run(*given) ** 2).mean(), argnums=tuple(range(5)))
    train = TinyJit(lambda *given: [slope.realize() for slope in slopes(*given)])
    return lambda: forward(x, *weights), lambda: train(x, *weights)


def of_torch(steps: int, batch: int, hidden: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """The same."""
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    model, x = torch.nn.LSTM(hidden, hidden), torch.randn(steps, batch, hidden, requires_grad=True)

    def forward() -> None:
        with torch.no_grad():
            model(x)

    def train() -> None:
        model.zero_grad()
        x.grad = None
        (model(x)[0] ** 2).mean().backward()

    return forward, train


def child(kind: str, size: tuple[int, int, int], cpu_time: bool) -> None:
    """Prints first and least times of forward and training, in milliseconds."""
    clock = time.process_time if cpu_time else time.perf_counter
    made = of_torch(*size) if kind == "torch" else of_whit(*size, kind)
    for run in made:
        start = clock()
        run()
        first = (clock() - start) * 1e3
        run()
        print(first, least(run, clock, SECONDS))


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--child", nargs=4)
    parser.add_argument("--torch", default=sys.executable, help="a Python that has torch")
    options = parser.parse_args()
    if options.child:
        kind, *size = options.child
        steps, batch, hidden = map(int, size)
        child(kind, (steps, batch, hidden), options.cpu_time)
        return
    threads = "1" if options.cpu_time else str(len(os.sched_getaffinity(0)))
    print(f"{threads} threads, {'processor time' if options.cpu_time else 'time'}; ms")
    print(f"{'steps x batch x hidden':24}{'':10}{'torch':>9}{'scan':>9}{'nn.LSTM':>9}{'times':>7}{'first':>9}")
    for size in SIZES:
        rows = {}
        for kind in ("torch", "scan", "nn.LSTM"):
            with tempfile.TemporaryDirectory() as cache:
                python = options.torch if kind == "torch" else sys.executable
                flags = ["--cpu-time"] if options.cpu_time else []
                environment = os.environ | {"OMP_NUM_THREADS": threads, "THREADS": threads, "XDG_CACHE_HOME": cache}
                command = [python, __file__, *flags, "--child", kind, *map(str, size)]
                done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            rows[kind] = [tuple(map(float, line.split())) for line in done.stdout.splitlines()]
        for number, what in enumerate(("forward", "training")):
            theirs, scan, layer = (rows[kind][number][1] for kind in ("torch", "scan", "nn.LSTM"))
            name = " x ".join(map(str, size)) if not number else ""
            first = rows["scan"][number][0]
            print(f"{name:24}{what:10}{theirs:9.2f}{scan:9.2f}{layer:9.2f}{theirs / min(scan, layer):7.2f}{first:9.0f}")


if __name__ == "__main__":
    main()
