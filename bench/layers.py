"""First call of a GPT with 2, 12 and 48 equal layers: tracing, scheduling and compiling, with and without @function.

    python bench/layers.py                  one process for each line, with an empty cache; then 12 layers from the disk
    python bench/layers.py --train          the same for a training step
    python bench/layers.py --cpu            by the processor's time: for a machine that others use

Each line is a fresh process, so nothing is compiled before. The first number is the whole first call; the second is
what is left of it without the Python of the model, which builds the graph, and without running the kernels:
normalising, scheduling and compiling.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

LAYERS = (2, 12, 48)


def measure(layers: int, is_function: bool, trains: bool, clock: Callable[[], float]) -> None:
    """The child process: prints seconds of the first call, and of what comes between building and running."""
    from whit import Tensor, function, nn
    from whit.engine.devices.device import Device
    from whit.nn import optim

    backend: Any = Device["CPU"]
    run = backend.run
    runs: list[float] = []

    def timed(*args: Any) -> None:
        begin = clock()
        run(*args)
        runs.append(clock() - begin)

    class Model:
        def __init__(self) -> None:
            self.embed = nn.Embedding(64, 128)
            self.blocks = [nn.TransformerBlock(128, 4) for _ in range(layers)]
            self.norm, self.out = nn.LayerNorm(128), nn.Linear(128, 64, bias=False)

        def __call__(self, x: Tensor) -> Tensor:
            y = self.embed(x)
            for block in self.blocks:
                y = (function(block) if is_function else block)(y, is_causal=True)
            return self.out(self.norm(y))

    Tensor.manual_seed(1)
    model = Model()
    weights = nn.state.get_parameters(model)
    Tensor.realize(*weights)
    x = Tensor.randint(4, 64, high=64).realize()
    optimizer = optim.SGD(weights, lr=0.01) if trains else None
    backend.run = timed
    start = clock()
    if optimizer is None:
        result = model(x)
        built = clock()
        result.realize()
    else:
        with Tensor.train():
            model(x).flatten(0, 1).cross_entropy(x.flatten()).backward()
            changed = optimizer.schedule_step()
            built = clock()
            Tensor.realize(*changed)
    end = clock()
    print(f"{end - start:.3f} {end - built - sum(runs):.3f}")


def child(layers: int, is_function: bool, trains: bool, cache: str) -> tuple[float, float]:
    """One line: seconds of the call, and of what comes between building and running."""
    clock = "--cpu" if "--cpu" in sys.argv else ""
    command = [sys.executable, __file__, "--one", str(layers), str(int(is_function)), str(int(trains)), clock]
    environment = {**os.environ, "CACHE_DIR": cache}
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    whole, rest = output.split()[-2:]
    return float(whole), float(rest)


def main() -> None:
    """The table."""
    trains = "--train" in sys.argv
    print(f"first {'training step' if trains else 'call'} of a GPT (128 wide, 4 heads, 4 x 64 characters)")
    for is_function in (True, False):
        first = (0.0, 0.0)
        for layers in LAYERS:
            with tempfile.TemporaryDirectory() as cache:
                whole, rest = child(layers, is_function, trains, cache)
                first = first if first[0] else (whole, rest)
                name = "@function" if is_function else "plain"
                line = f"{name:9} {layers:3} layers  {whole:6.2f} s, {whole / first[0]:5.2f} x"
                line += f"  scheduling and compiling {rest:6.2f} s, {rest / first[1]:5.2f} x"
                if layers == 12:
                    line += f"; second process {child(layers, is_function, trains, cache)[0]:.2f} s"
                print(line, flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        clock = time.process_time if "--cpu" in sys.argv else time.perf_counter
        measure(int(sys.argv[2]), bool(int(sys.argv[3])), bool(int(sys.argv[4])), clock)
    else:
        main()
