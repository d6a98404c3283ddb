"""Training steps on the CPU, beside PyTorch in the same run.

    python bench/train.py                  every model; torch eager and torch.compile where they are installed
    python bench/train.py --only mlp gpt   these
    python bench/train.py --no-compile     without torch.compile (its first calls take long)
    python bench/train.py --one-thread     one thread each, by the processor's time: for a machine that others use
    python bench/train.py --json           one JSON object instead of the table

A step is forward, loss, backward and the optimiser's update, on the same batch again and again. Contestants take turns;
a number is the least of many steps. "jit" is the step under TinyJit; "plain" builds and looks up its graph in Python
every time.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from whit import Context, GlobalCounters, Tensor, TinyJit, nn

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # no processes that are left over to disturb times
try:
    import torch
except ImportError:
    torch = None

TURN = 3  # steps of a contestant before the next
RNG = np.random.default_rng(0)
Step = Callable[[], Any]


# ---- whit


class MLP:
    def __init__(self) -> None:
        self.a, self.b = nn.Linear(784, 512), nn.Linear(512, 10)

    def __call__(self, x: Tensor) -> Tensor:
        return self.b(self.a(x).relu())


class ConvNet:
    def __init__(self) -> None:
        self.convs = [nn.Conv2d(1, 32, 5), nn.Conv2d(32, 32, 5), nn.Conv2d(32, 64, 3), nn.Conv2d(64, 64, 3)]
        self.norms = [nn.BatchNorm2d(32), nn.BatchNorm2d(64)]
        self.last = nn.Linear(576, 10)

    def __call__(self, x: Tensor) -> Tensor:
        a, b, c, d = self.convs
        x = self.norms[0](b(a(x).relu()).relu()).max_pool2d(2)
        x = self.norms[1](d(c(x).relu()).relu()).max_pool2d(2)
        return self.last(x.flatten(1))


class GPT:
    def __init__(self, layers: int = 4, dim: int = 128, heads: int = 4, time: int = 64, words: int = 96) -> None:
        self.words, self.places = nn.Embedding(words, dim), nn.Embedding(time, dim)
        self.blocks = [nn.TransformerBlock(dim, heads, 4 * dim) for _ in range(layers)]
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, words, bias=False)

    def __call__(self, x: Tensor) -> Tensor:
        h = self.words(x) + self.places(Tensor.arange(x.shape[1]))
        for block in self.blocks:
            h = block(h, is_causal=True)
        return self.head(self.norm(h)).flatten(0, 1)


class Basic:
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        self.a = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.b = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm_a, self.norm_b = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        is_same = stride == 1 and inputs == outputs
        self.short = [] if is_same else [nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)]

    def __call__(self, x: Tensor) -> Tensor:
        y = self.norm_b(self.b(self.norm_a(self.a(x)).relu()))
        return (y + x.sequential(self.short)).relu()  # type: ignore[no-any-return]


class ResNet:
    def __init__(self) -> None:
        self.first, self.norm = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64)
        sizes = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1)]
        self.blocks = [Basic(*size) for size in (*sizes, (256, 512, 2), (512, 512, 1))]
        self.last = nn.Linear(512, 10)

    def __call__(self, x: Tensor) -> Tensor:
        x = self.norm(self.first(x)).relu().sequential(self.blocks)
        return self.last(x.mean((2, 3)))


# ---- PyTorch


def torch_model(name: str) -> Any:
    n = torch.nn
    if name == "mlp":
        return n.Sequential(n.Linear(784, 512), n.ReLU(), n.Linear(512, 10))
    if name == "convnet":
        first = [n.Conv2d(1, 32, 5), n.ReLU(), n.Conv2d(32, 32, 5), n.ReLU(), n.BatchNorm2d(32), n.MaxPool2d(2)]
        second = [n.Conv2d(32, 64, 3), n.ReLU(), n.Conv2d(64, 64, 3), n.ReLU(), n.BatchNorm2d(64), n.MaxPool2d(2)]
        return n.Sequential(*first, *second, n.Flatten(), n.Linear(576, 10))
    return _torch_gpt() if name == "gpt" else _torch_resnet()


def _torch_gpt(layers: int = 4, dim: int = 128, heads: int = 4, time: int = 64, words: int = 96) -> Any:
    n, f = torch.nn, torch.nn.functional

    class Block(n.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = n.LayerNorm(dim), n.LayerNorm(dim)
            self.qkv, self.out = n.Linear(dim, 3 * dim), n.Linear(dim, dim)
            self.up, self.down = n.Linear(dim, 4 * dim), n.Linear(4 * dim, dim)

        def forward(self, x: Any) -> Any:
            size = (x.shape[0], x.shape[1], heads, dim // heads)
            q, k, v = (part.view(size).transpose(1, 2) for part in self.qkv(self.a(x)).chunk(3, -1))
            seen = f.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(seen.transpose(1, 2).reshape(x.shape))
            return x + self.down(f.gelu(self.up(self.b(x)), approximate="tanh"))

    class Model(n.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = n.Embedding(words, dim), n.Embedding(time, dim)
            self.blocks = n.Sequential(*(Block() for _ in range(layers)))
            self.norm, self.head = n.LayerNorm(dim), n.Linear(dim, words, bias=False)

        def forward(self, x: Any) -> Any:
            h = self.words(x) + self.places(torch.arange(x.shape[1]))
            return self.head(self.norm(self.blocks(h))).flatten(0, 1)

    return Model()


def _torch_resnet() -> Any:
    n = torch.nn

    class Block(n.Module):  # type: ignore[misc, name-defined]
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.a = n.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.b = n.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.norm_a, self.norm_b = n.BatchNorm2d(outputs), n.BatchNorm2d(outputs)
            is_same = stride == 1 and inputs == outputs
            short = [] if is_same else [n.Conv2d(inputs, outputs, 1, stride, bias=False), n.BatchNorm2d(outputs)]
            self.short = n.Sequential(*short)

        def forward(self, x: Any) -> Any:
            y = self.norm_b(self.b(self.norm_a(self.a(x)).relu()))
            return (y + self.short(x)).relu()

    sizes = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2)]
    first = [n.Conv2d(3, 64, 3, 1, 1, bias=False), n.BatchNorm2d(64), n.ReLU()]
    blocks = [Block(*size) for size in (*sizes, (512, 512, 1))]
    return n.Sequential(*first, *blocks, n.AdaptiveAvgPool2d(1), n.Flatten(), n.Linear(512, 10))


# ---- steps


def images(batch: int, *shape: int) -> tuple[np.ndarray, np.ndarray]:
    return RNG.standard_normal((batch, *shape)).astype(np.float32), RNG.integers(0, 10, batch)


WORKS: dict[str, tuple[str, Callable[[], Any], tuple[np.ndarray, np.ndarray], str]] = {
    "mlp": ("MLP 784-512-10, batch 128", MLP, images(128, 784), "Adam"),
    "convnet": ("MNIST convnet, batch 64", ConvNet, images(64, 1, 28, 28), "Adam"),
    "gpt": (
        "GPT 4 layers, d 128, 16 x 64",
        GPT,
        (RNG.integers(0, 96, (16, 64)), RNG.integers(0, 96, 16 * 64)),
        "Adam",
    ),
    "resnet": ("ResNet-18 on 32 x 32, batch 16", ResNet, images(16, 3, 32, 32), "SGD"),
}


def our_step(name: str, captured: bool) -> Step:
    _, make, (x, y), optimiser = WORKS[name]
    model = make()
    given, classes = Tensor(x).realize(), Tensor(y.astype(np.int32)).realize()
    parameters = nn.state.get_parameters(model)
    opt = nn.optim.Adam(parameters, lr=1e-3) if optimiser == "Adam" else nn.optim.SGD(parameters, lr=1e-3, momentum=0.9)

    def update(x: Tensor, y: Tensor) -> Tensor:
        opt.zero_grad()
        loss = model(x).cross_entropy(y).backward()
        opt.step()
        return loss  # type: ignore[no-any-return]

    run = TinyJit(update) if captured else update

    def step() -> float:
        with Tensor.train():
            return float(run(given, classes).item())

    return step


def their_step(name: str, compiled: bool) -> Step:
    _, _, (x, y), optimiser = WORKS[name]
    model = torch_model(name)
    given, classes = torch.from_numpy(x), torch.from_numpy(y)
    optimisers = {"Adam": lambda p: torch.optim.Adam(p, 1e-3), "SGD": lambda p: torch.optim.SGD(p, 1e-3, momentum=0.9)}
    opt = optimisers[optimiser](model.parameters())
    called = torch.compile(model) if compiled else model

    def step() -> float:
        opt.zero_grad()
        loss = torch.nn.functional.cross_entropy(called(given), classes)
        loss.backward()
        opt.step()
        return float(loss.item())

    return step


# ---- times


def measure(name: str, options: argparse.Namespace, clock: Callable[[], float]) -> dict[str, float]:
    """The least milliseconds of a step of each contestant."""
    steps: dict[str, Step] = {"jit": our_step(name, True), "plain": our_step(name, False)}
    if torch is not None:
        steps["torch"] = their_step(name, False)
        if not options.no_compile:
            steps["compile"] = their_step(name, True)
    times: dict[str, float] = {}
    for contestant, step in steps.items():
        start = clock()
        step()
        times[f"{contestant} first"] = clock() - start
        step()
    GlobalCounters.reset()
    steps["jit"]()
    count = GlobalCounters.kernel_count
    best = dict.fromkeys(steps, float("inf"))
    end = time.perf_counter() + options.seconds
    while time.perf_counter() < end:
        for contestant, step in steps.items():
            for _ in range(TURN):
                start = clock()
                step()
                best[contestant] = min(best[contestant], clock() - start)
    return {key: t * 1e3 for key, t in {**times, **best}.items()} | {"count": count}


def row(name: str, times: dict[str, float]) -> str:
    text = (
        f"{WORKS[name][0]:32} jit {times['jit']:8.2f} ms, plain {times['plain']:8.2f} ms, {times['count']:.0f} kernels"
    )
    others = {key: times[key] for key in ("torch", "compile") if key in times}
    text += "".join(f"  {key} {t:8.2f} ms {t / times['jit']:5.2f}x" for key, t in others.items())
    return text + f"  first step {times['jit first'] / 1e3:.1f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=WORKS, help="the models to train")
    parser.add_argument("--seconds", type=float, default=10.0, help="time for each model")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--one-thread", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.one_thread and torch is not None:
        torch.set_num_threads(1)
    found = {}
    with Context(THREADS=1 if options.one_thread else 0):
        for name in options.only or WORKS:
            found[name] = measure(name, options, time.thread_time if options.one_thread else time.perf_counter)
            if not options.json:
                print(row(name, found[name]), flush=True)
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
