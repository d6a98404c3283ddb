"""How long the first step of training takes in a fresh process: nothing compiled before, and from the disk cache.

    python bench/first_step.py                  the models of training_models.py
    python bench/first_step.py gpt2             GPT-2 of 124 million parameters (and a head of its own): a forward pass
                                                of 64 tokens, and a training step with AdamW

Columns: seconds of wall-clock and of processor time, kernels in a step, and how many different ones are compiled. A
step is everything from the first Tensor to the new weights; making random weights comes before that, and is "init".
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

SMALL, LARGE = ("mlp", "convnet", "gpt"), ("gpt2-forward", "gpt2")


def gpt2() -> tuple[Callable[[], object], Callable[[], object]]:
    """The forward pass, and the step."""
    from training_models import GPT, Training

    from whit import Tensor, nn
    from whit.nn import optim

    Tensor.manual_seed(1)
    model = GPT(layers=12, dim=768, heads=12, time=64, vocabulary=50257)
    weights = nn.state.get_parameters(model)
    x, y = (Tensor.randint(1, 64, high=50257) for _ in range(2))
    Tensor.realize(x, y, *weights)
    training = Training(model, optim.AdamW(weights), x, y)
    training.loss = lambda: model(x).flatten(0, 1).cross_entropy(y.flatten())  # type: ignore[method-assign]
    return lambda: model(x).realize(), training.step


def measure(name: str) -> None:
    """One line about one step, of this process."""
    from training_models import MODELS

    from whit import GlobalCounters
    from whit.engine.compile import compile as compiler

    start = time.perf_counter()
    if name in LARGE:
        step = gpt2()[LARGE.index(name)]
    else:
        step = MODELS[name]().step
    init = time.perf_counter() - start
    before = len(compiler._kernels)
    GlobalCounters.reset()
    wall, processor = time.perf_counter(), time.process_time()
    step()
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    different = len(compiler._kernels) - before
    print(f"{init:8.2f} {wall:8.2f} {processor:8.2f} {GlobalCounters.kernel_count:8d} {different:10d}")


def main() -> None:
    """Prints a table; each line is a process of its own."""
    if sys.argv[1:2] == ["--one"]:
        measure(sys.argv[2])
        return
    unknown = set(sys.argv[1:]) - {*SMALL, *LARGE}
    if unknown:
        raise SystemExit(f"{', '.join(sorted(unknown))}: no such model; there are {', '.join((*SMALL, *LARGE))}")
    print(f"{'model':12s} {'cache':6s} {'init s':>8s} {'wall s':>8s} {'cpu s':>8s} {'kernels':>8s} {'different':>10s}")
    for name in LARGE if sys.argv[1:] == ["gpt2"] else sys.argv[1:] or SMALL:
        with tempfile.TemporaryDirectory() as folder:
            for state in ("empty", "full"):
                settings = {**os.environ, "CACHE_DIR": folder}
                command = [sys.executable, __file__, "--one", name]
                result = subprocess.run(command, check=True, capture_output=True, text=True, env=settings)
                print(f"{name:12s} {state:6s} {result.stdout.rstrip()}", flush=True)


if __name__ == "__main__":
    main()
