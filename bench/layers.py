"""First call of a GPT with 2, 12 and 48 equal layers: tracing, scheduling and compiling, with and without @function.

    python bench/layers.py                  one process for each line, with an empty cache; then 12 layers from the disk
    python bench/layers.py --train          the same for a training step

Each line is a fresh process, so nothing is compiled before. Seconds are of the whole first call; kernels are those
that were compiled.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

LAYERS = (2, 12, 48)


def measure(layers: int, is_function: bool, trains: bool) -> None:
    """The child process: prints seconds of the first call."""
    from whit import Tensor, function, nn
    from whit.nn import optim

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
    start, processor = time.perf_counter(), time.process_time()
    if optimizer is None:
        model(x).realize()
    else:
        with Tensor.train():
            model(x).flatten(0, 1).cross_entropy(x.flatten()).backward()
            optimizer.step()
    print(f"{time.perf_counter() - start:.3f} {time.process_time() - processor:.3f}")


def child(layers: int, is_function: bool, trains: bool, cache: str) -> tuple[float, float]:
    """One line: seconds of the clock, and of the processor."""
    command = [sys.executable, __file__, "--one", str(layers), str(int(is_function)), str(int(trains))]
    environment = {**os.environ, "CACHE_DIR": cache}
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    wall, processor = output.split()[-2:]
    return float(wall), float(processor)


def main() -> None:
    """The table."""
    trains = "--train" in sys.argv
    print(f"first {'training step' if trains else 'call'} of a GPT (128 wide, 4 heads, 4 x 64 characters)")
    for is_function in (True, False):
        first = 0.0
        for layers in LAYERS:
            with tempfile.TemporaryDirectory() as cache:
                wall, processor = child(layers, is_function, trains, cache)
                first = first or processor
                line = (
                    f"{'@function' if is_function else 'plain':9} {layers:3} layers  {wall:6.2f} s, {processor:6.2f} s"
                )
                line += f" of processor, {processor / first:5.2f} x"
                if layers == 12:
                    again, _ = child(layers, is_function, trains, cache)
                    line += f"; second process {again:.2f} s"
                print(line, flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        measure(int(sys.argv[2]), bool(int(sys.argv[3])), bool(int(sys.argv[4])))
    else:
        main()
