"""What a new user's first programs cost, without a JIT: first calls, and steady steps beside PyTorch in eager mode.

    python bench/first_hour.py                  every program, each in a process of its own with nothing compiled before
    python bench/first_hour.py mlp lstm-64      some of them

Columns: the first step in milliseconds, of whit (with all compiling) and of PyTorch; then steady steps, the least of
many, whit's and PyTorch's in turns; PyTorch's time over whit's; and programs and kernels that whit has compiled.
`fixed` reads the same slice in every step, others the next one. `mlp` is that of PyTorch's quickstart, 784-512-512-10
with batches of 64; `small` is 784-256-10, where a step of PyTorch takes little more than half a millisecond.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

Step = Callable[[int], object]
BATCH = 64
SECONDS = 6.0  # of steady steps for each program
TURN = 0.06  # seconds of one library before the other: OpenMP's threads spin for 15 ms after their last work


def data(count: int, *shape: int) -> tuple[np.ndarray, np.ndarray]:
    """Random inputs and classes."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(count, *shape)).astype(np.float32), rng.integers(0, 10, count)


def torch_model(kind: str) -> object:
    """The same model in PyTorch."""
    from torch import nn

    if kind == "mlp":
        return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    if kind == "small":
        return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    first, second = nn.Conv2d(1, 16, 3), nn.Conv2d(16, 32, 3)
    pool = nn.MaxPool2d(2)
    return nn.Sequential(first, nn.ReLU(), pool, second, nn.ReLU(), pool, nn.Flatten(), nn.Linear(800, 10))


def our_model(kind: str) -> tuple[Callable[..., object], list[object]]:
    """A model, and its layers."""
    from whit import nn

    if kind == "mlp":
        one, two, three = nn.Linear(784, 512), nn.Linear(512, 512), nn.Linear(512, 10)
        return (lambda x: three(two(one(x).relu()).relu())), [one, two, three]
    if kind == "small":
        one, two = nn.Linear(784, 256), nn.Linear(256, 10)
        return (lambda x: two(one(x).relu())), [one, two]
    first, second, out = nn.Conv2d(1, 16, 3), nn.Conv2d(16, 32, 3), nn.Linear(800, 10)
    return (lambda x: out(second(first(x).relu().max_pool2d()).relu().max_pool2d().flatten(1))), [first, second, out]


def train(kind: str, is_moving: bool = True) -> tuple[Step, Step]:
    """A training loop over slices of a data set, un-jitted."""
    import torch

    from whit import Tensor, nn

    count = 40 * BATCH
    inputs, classes = data(count, *((1, 28, 28) if kind == "cnn" else (784,)))
    x, y = Tensor(inputs).realize(), Tensor(classes).realize()
    model, layers = our_model(kind)
    weights = nn.state.get_parameters(layers)
    Tensor.realize(*weights)
    opt = nn.optim.SGD(weights, lr=0.01)
    other = torch_model(kind)
    torch_opt = torch.optim.SGD(other.parameters(), lr=0.01)  # type: ignore[attr-defined]
    tx, ty = torch.from_numpy(inputs), torch.from_numpy(classes)

    def start(i: int) -> int:
        return i * BATCH % count if is_moving else 0

    def ours(i: int) -> object:
        at = start(i)
        with Tensor.train():
            opt.zero_grad()
            loss = model(x[at : at + BATCH]).cross_entropy(y[at : at + BATCH]).backward()  # type: ignore[attr-defined]
            opt.step()
            return loss.item()

    def theirs(i: int) -> object:
        at = start(i)
        torch_opt.zero_grad()
        loss = torch.nn.functional.cross_entropy(other(tx[at : at + BATCH]), ty[at : at + BATCH])  # type: ignore[operator]
        loss.backward()
        torch_opt.step()
        return loss.item()

    return ours, theirs


def evaluate(kind: str) -> tuple[Step, Step]:
    """How many of a slice are classified right."""
    import torch

    from whit import Tensor, nn

    count = 40 * BATCH
    inputs, classes = data(count, *((1, 28, 28) if kind == "cnn" else (784,)))
    x, y = Tensor(inputs).realize(), Tensor(classes).realize()
    model, layers = our_model(kind)
    Tensor.realize(*nn.state.get_parameters(layers))
    other = torch_model(kind)
    tx, ty = torch.from_numpy(inputs), torch.from_numpy(classes)

    def ours(i: int) -> object:
        at = i * BATCH % count
        return (model(x[at : at + BATCH]).argmax(1) == y[at : at + BATCH]).sum().item()  # type: ignore[attr-defined]

    def theirs(i: int) -> object:
        at = i * BATCH % count
        with torch.no_grad():
            return (other(tx[at : at + BATCH]).argmax(1) == ty[at : at + BATCH]).sum().item()  # type: ignore[operator]

    return ours, theirs


def lstm(steps: int) -> tuple[Step, Step]:
    """The outputs of an LSTM over time."""
    import torch

    from whit import Tensor, nn

    inputs, _ = data(steps, 4, 16)
    x, tx = Tensor(inputs).realize(), torch.from_numpy(inputs)
    layer, other = nn.LSTM(16, 32), torch.nn.LSTM(16, 32)
    Tensor.realize(*nn.state.get_parameters(layer))

    def theirs(i: int) -> object:
        with torch.no_grad():
            return other(tx)[0].numpy()

    return (lambda i: layer(x)[0].numpy()), theirs


def generate(is_variable: bool) -> tuple[Step, Step]:
    """The next token of a small transformer, from all tokens before it: no cache."""
    import torch

    from whit import Tensor, Variable, nn

    longest, dim, vocabulary = 256, 64, 256
    tokens = np.random.default_rng(0).integers(0, vocabulary, (1, longest))
    ids, torch_ids = Tensor(tokens).realize(), torch.from_numpy(tokens)
    embed, norms = nn.Embedding(vocabulary, dim), [nn.LayerNorm(dim) for _ in range(2)]
    qkv, out = [nn.Linear(dim, 3 * dim) for _ in range(2)], nn.Linear(dim, vocabulary)
    Tensor.realize(*nn.state.get_parameters([embed, norms, qkv, out]))
    length = Variable("length", 1, longest)
    t_embed, t_norms = torch.nn.Embedding(vocabulary, dim), [torch.nn.LayerNorm(dim) for _ in range(2)]
    t_qkv, t_out = [torch.nn.Linear(dim, 3 * dim) for _ in range(2)], torch.nn.Linear(dim, vocabulary)
    attend = torch.nn.functional.scaled_dot_product_attention

    def ours(i: int) -> object:
        n = i % (longest - 8) + 8
        x = embed(ids[:, : length.bind(n) if is_variable else n])
        for norm, layer in zip(norms, qkv, strict=True):
            q, k, v = layer(norm(x)).chunk(3, dim=-1)
            x = x + q.scaled_dot_product_attention(k, v, is_causal=True)
        return out(x[:, -1]).argmax().item()

    def theirs(i: int) -> object:
        n = i % (longest - 8) + 8
        with torch.no_grad():
            x = t_embed(torch_ids[:, :n])
            for norm, layer in zip(t_norms, t_qkv, strict=True):
                q, k, v = layer(norm(x)).chunk(3, dim=-1)
                x = x + attend(q, k, v, is_causal=True)
            return t_out(x[:, -1]).argmax().item()

    return ours, theirs


PROGRAMS: dict[str, Callable[[], tuple[Step, Step]]] = {
    "mlp-fixed": lambda: train("mlp", is_moving=False),
    "mlp": lambda: train("mlp"),
    "small-fixed": lambda: train("small", is_moving=False),
    "small": lambda: train("small"),
    "cnn-fixed": lambda: train("cnn", is_moving=False),
    "cnn": lambda: train("cnn"),
    "evaluate-mlp": lambda: evaluate("mlp"),
    "evaluate-cnn": lambda: evaluate("cnn"),
    "lstm-64": lambda: lstm(64),
    "lstm-256": lambda: lstm(256),
    "lstm-1024": lambda: lstm(1024),
    "generate": lambda: generate(is_variable=False),
    "generate-variable": lambda: generate(is_variable=True),
}


def timed(step: Step, number: int) -> float:
    """Milliseconds of one step."""
    start = time.perf_counter()
    step(number)
    return (time.perf_counter() - start) * 1e3


def measure(name: str) -> None:
    """One line about one program, of this process."""
    from whit.engine.compile import compile as compiler
    from whit.engine.plan import find_plan as plans

    ours, theirs = PROGRAMS[name]()
    programs, kernels = len(plans._plans), len(compiler._kernels)
    first, torch_first = timed(ours, 0), timed(theirs, 0)
    times: tuple[list[float], list[float]] = ([], [])
    end = time.perf_counter() + SECONDS
    number = 1
    while time.perf_counter() < end or number < 6:
        for step, found in zip((ours, theirs), times, strict=True):
            turn = time.perf_counter() + TURN
            while time.perf_counter() < turn:
                found.append(timed(step, number))
                number += 1
    least, torch_least = (min(found) for found in times)
    programs, kernels = len(plans._plans) - programs, len(compiler._kernels) - kernels
    print(
        f"| {name:17} | {first:9.1f} | {torch_first:9.1f} | {least:9.3f} | {torch_least:9.3f} | "
        f"{torch_least / least:5.2f} | {programs:4d} | {kernels:4d} |",
        flush=True,
    )


def main() -> None:
    names = sys.argv[1:] or list(PROGRAMS)
    if len(names) == 2 and names[0] == "--one":
        measure(names[1])
        return
    print(
        "| program           | first, ms | torch, ms | steady ms | torch, ms | ratio | programs | kernels |", flush=True
    )
    print("|---|---|---|---|---|---|---|---|", flush=True)
    environment = {**os.environ, "CACHE": "0", "PYTHONWARNINGS": "ignore"}
    for name in names:
        subprocess.run([sys.executable, __file__, "--one", name], env=environment, check=True)


if __name__ == "__main__":
    main()
