"""Layers of `whit.nn` beside PyTorch's: the forward pass, and forward with gradients of parameters and input.

    python bench/nn.py                      all layers; needs PyTorch
    python bench/nn.py --only attention     those with a word in their name
    python bench/nn.py --threads 1          one thread each

Weights and inputs are the same, and so is what comes from above, which is random. whit's calls are captured
(`TinyJit`), PyTorch's are eager. Rounds alternate, a number is the least of all: other programs make a round slower.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from whit import Context, Tensor, TinyJit, nn

Make = Callable[[Any], Any]
Shape = tuple[int, ...]
numbers = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    return np.asarray(numbers.standard_normal(shape), "float32")


def classes(high: int, *shape: int) -> np.ndarray:
    return numbers.integers(0, high, shape)


def _attend(layer: Any, x: Any) -> Any:
    return layer(x, x, x, need_weights=False)[0]


def _plain(layer: Any, *inputs: Any) -> Any:
    return layer(*inputs)


# name -> (how it is made, its inputs, how it is called)
LAYERS: dict[str, tuple[Make, list[np.ndarray], Callable[..., Any]]] = {
    "Linear(512, 512), batch 256": (lambda n: n.Linear(512, 512), [floats(256, 512)], _plain),
    "Conv1d(64, 64, 3), length 512": (lambda n: n.Conv1d(64, 64, 3, padding=1), [floats(8, 64, 512)], _plain),
    "Conv2d(64, 64, 3), 28 x 28": (lambda n: n.Conv2d(64, 64, 3, padding=1), [floats(8, 64, 28, 28)], _plain),
    "Conv2d depthwise, 28 x 28": (
        lambda n: n.Conv2d(64, 64, 3, padding=1, groups=64),
        [floats(8, 64, 28, 28)],
        _plain,
    ),
    "ConvTranspose2d(64, 32, 4, 2), 14 x 14": (
        lambda n: n.ConvTranspose2d(64, 32, 4, 2, 1),
        [floats(8, 64, 14, 14)],
        _plain,
    ),
    "MultiheadAttention(256, 8), 4 x 128": (
        lambda n: n.MultiheadAttention(256, 8, batch_first=True),
        [floats(4, 128, 256)],
        _attend,
    ),
    "TransformerEncoderLayer(256, 8), 4 x 128": (
        lambda n: n.TransformerEncoderLayer(256, 8, 1024, 0.0, batch_first=True),
        [floats(4, 128, 256)],
        _plain,
    ),
    "TransformerDecoderLayer(256, 8), 4 x 128": (
        lambda n: n.TransformerDecoderLayer(256, 8, 1024, 0.0, batch_first=True),
        [floats(4, 128, 256), floats(4, 128, 256)],
        _plain,
    ),
    "Embedding(10000, 256), 32 x 64": (lambda n: n.Embedding(10_000, 256), [classes(10_000, 32, 64)], _plain),
    "EmbeddingBag(10000, 128), 256 x 16": (lambda n: n.EmbeddingBag(10_000, 128), [classes(10_000, 256, 16)], _plain),
    "BatchNorm2d(64), 8 x 28 x 28": (lambda n: n.BatchNorm2d(64), [floats(8, 64, 28, 28)], _plain),
    "GroupNorm(8, 64), 8 x 28 x 28": (lambda n: n.GroupNorm(8, 64), [floats(8, 64, 28, 28)], _plain),
    "InstanceNorm2d(64), 8 x 28 x 28": (lambda n: n.InstanceNorm2d(64), [floats(8, 64, 28, 28)], _plain),
    "LayerNorm(512), 1024": (lambda n: n.LayerNorm(512), [floats(1024, 512)], _plain),
    "RMSNorm(512), 1024": (lambda n: n.RMSNorm(512, eps=1e-6), [floats(1024, 512)], _plain),
    "LocalResponseNorm(5), 8 x 28 x 28": (lambda n: n.LocalResponseNorm(5), [floats(8, 64, 28, 28)], _plain),
    "MaxPool2d(2), 8 x 56 x 56": (lambda n: n.MaxPool2d(2), [floats(8, 64, 56, 56)], _plain),
    "MaxPool2d(3, 2), 8 x 56 x 56": (lambda n: n.MaxPool2d(3, 2, padding=1), [floats(8, 64, 56, 56)], _plain),
    "AvgPool2d(2), 8 x 56 x 56": (lambda n: n.AvgPool2d(2), [floats(8, 64, 56, 56)], _plain),
    "AdaptiveAvgPool2d(7), 8 x 56 x 56": (lambda n: n.AdaptiveAvgPool2d(7), [floats(8, 64, 56, 56)], _plain),
    "GELU, 1 million": (lambda n: n.GELU(), [floats(1024, 1024)], _plain),
    "Softmax, 1024 x 1024": (lambda n: n.Softmax(-1), [floats(1024, 1024)], _plain),
    "PReLU, 1 million": (lambda n: n.PReLU(), [floats(1024, 1024)], _plain),
    "PixelShuffle(2), 8 x 64 x 28 x 28": (lambda n: n.PixelShuffle(2), [floats(8, 64, 28, 28)], _plain),
    "Upsample(2, bilinear), 8 x 32 x 28 x 28": (
        lambda n: n.Upsample(scale_factor=2, mode="bilinear"),
        [floats(8, 32, 28, 28)],
        _plain,
    ),
    "CrossEntropyLoss, 512 x 10000": (
        lambda n: n.CrossEntropyLoss(),
        [floats(512, 10_000), classes(10_000, 512)],
        _plain,
    ),
    "BCEWithLogitsLoss, 1 million": (
        lambda n: n.BCEWithLogitsLoss(),
        [floats(1024, 1024), classes(2, 1024, 1024).astype("float32")],
        _plain,
    ),
    "MSELoss, 1 million": (lambda n: n.MSELoss(), [floats(1024, 1024), floats(1024, 1024)], _plain),
    "SmoothL1Loss, 1 million": (lambda n: n.SmoothL1Loss(), [floats(1024, 1024), floats(1024, 1024)], _plain),
    "KLDivLoss, 512 x 1000": (
        lambda n: n.KLDivLoss(reduction="batchmean"),
        [floats(512, 1000), np.abs(floats(512, 1000))],
        _plain,
    ),
    "TripletMarginLoss, 1024 x 128": (
        lambda n: n.TripletMarginLoss(),
        [floats(1024, 128), floats(1024, 128), floats(1024, 128)],
        _plain,
    ),
    "CTCLoss, 50 x 16 x 20": (
        lambda n: n.CTCLoss(),
        [floats(50, 16, 20), classes(19, 16, 10) + 1, np.full(16, 50), np.full(16, 10)],
        _plain,
    ),
}


def ours(
    make: Make, inputs: list[np.ndarray], call: Callable[..., Any], state: dict[str, Any], above: np.ndarray
) -> list[Any]:
    """Captured calls: forward, and with gradients."""
    layer = make(nn).train()
    if hasattr(layer, "load_state_dict"):
        layer.load_state_dict({name: Tensor(value) for name, value in state.items()})
    given = [Tensor(array).realize() for array in inputs]
    slope = Tensor(above).realize()

    @TinyJit
    def forward(*tensors: Tensor) -> Any:
        return call(layer, *tensors)

    @TinyJit
    def training(slope: Tensor, *tensors: Tensor) -> Any:
        result = call(layer, *tensors)
        wanted = [*list(layer.parameters()), *[x for x in tensors[:1] if x.is_floating_point()]]
        return (result * slope).sum().gradient(*wanted)

    return [lambda: forward(*given), lambda: training(slope, *given)]


def theirs(layer: Any, inputs: list[np.ndarray], call: Callable[..., Any], above: np.ndarray) -> list[Any]:
    """Eager calls."""
    given = [torch.from_numpy(array) for array in inputs]

    def forward() -> Any:
        with torch.no_grad():
            return call(layer, *given)

    first = given[0].clone().requires_grad_() if given[0].is_floating_point() else given[0]
    wanted = [*layer.parameters(), *([first] if first.is_floating_point() else [])]

    slope = torch.from_numpy(above)

    def training() -> Any:
        return torch.autograd.grad(call(layer, first, *given[1:]), wanted, slope)

    return [forward, training]


def least(pairs: list[tuple[Callable[[], Any], Callable[[], Any]]], seconds: float) -> list[tuple[float, float]]:
    """Milliseconds of the quickest call of both, in turns."""
    result = []
    for pair in pairs:
        best = [float("inf"), float("inf")]
        for run in pair:
            for _ in range(3):
                run()
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            for place, run in enumerate(pair):
                for _ in range(5):
                    start = time.perf_counter()
                    run()
                    best[place] = min(best[place], time.perf_counter() - start)
        result.append((best[0] * 1000, best[1] * 1000))
    return result


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="a part of the names")
    parser.add_argument("--threads", type=int, default=0, help="how many; 0: all cores")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each number")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    print(
        "| layer | forward ms | PyTorch | ratio | with gradients ms | PyTorch | ratio |\n|---|---|---|---|---|---|---|"
    )
    with Context(THREADS=options.threads):
        for name, (make, inputs, call) in LAYERS.items():
            if options.only.lower() not in name.lower():
                continue
            other = make(torch.nn)
            state = {key: value.numpy().copy() for key, value in other.state_dict().items()}
            above = floats(*call(other, *map(torch.from_numpy, inputs)).shape)
            pairs = zip(ours(make, inputs, call, state, above), theirs(other, inputs, call, above), strict=True)
            cells = []
            for here, there in least(list(pairs), options.seconds):
                cells += [f"{here:.3f}", f"{there:.3f}", f"{there / here:.2f}"]
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
