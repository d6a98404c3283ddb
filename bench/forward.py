"""Forward passes of whole models on the CPU, beside PyTorch in the same run.

    python bench/forward.py                   every model; torch eager and torch.compile where they are installed
    python bench/forward.py --only gpt2       those with this in their names
    python bench/forward.py --no-compile      without torch.compile (its first calls take long)
    python bench/forward.py --json            one JSON object instead of the table

A model is one function over weights and a namespace of layers: both sides compute the same from the same random
weights. Outputs are compared first. Contestants take turns; a number is the least of many runs. "jit" is
the model under TinyJit, "first" the seconds of its first call: tracing, scheduling, compiling and running.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from whit import Tensor, TinyJit, Variable

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # no processes that are left over to disturb times
try:
    import torch
except ImportError:
    torch = None

RNG = np.random.default_rng(0)
Weights = dict[str, Any]
TURN, WARM = 3, 4  # runs of a contestant before the next, and before any is timed


# ---- the layers, once for each side


def our_layers() -> SimpleNamespace:
    def norm(x: Tensor, mean: Tensor, var: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return x.batchnorm(weight, bias, mean, (var + 1e-5).rsqrt())

    def attention(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
        return q.scaled_dot_product_attention(k, v, is_causal=causal)

    return SimpleNamespace(
        linear=lambda x, w, b=None: x.linear(w.T, b),
        layer_norm=lambda x, w, b: x.layernorm() * w + b,
        rms_norm=lambda x, w: x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * w,
        batch_norm=norm,
        attention=attention,
        conv=lambda x, w, stride=1, padding=0: x.conv2d(w, stride=stride, padding=padding),
        pool=lambda x: x.max_pool2d(3, 2, padding=1),
        gelu=lambda x: x.gelu(),
        silu=lambda x: x.silu(),
        relu=lambda x: x.relu(),
        cat=lambda parts: parts[0].cat(*parts[1:], dim=-1),
    )


def their_layers() -> SimpleNamespace:
    f = torch.nn.functional
    return SimpleNamespace(
        linear=f.linear,
        layer_norm=lambda x, w, b: f.layer_norm(x, w.shape, w, b),
        rms_norm=lambda x, w: f.rms_norm(x, w.shape, w, 1e-5),
        batch_norm=lambda x, mean, var, weight, bias: f.batch_norm(x, mean, var, weight, bias),
        attention=lambda q, k, v, causal: f.scaled_dot_product_attention(q, k, v, is_causal=causal),
        conv=lambda x, w, stride=1, padding=0: f.conv2d(x, w, stride=stride, padding=padding),
        pool=lambda x: f.max_pool2d(x, 3, 2, 1),
        gelu=lambda x: f.gelu(x, approximate="tanh"),
        silu=f.silu,
        relu=torch.relu,
        cat=lambda parts: torch.cat(parts, -1),
    )


# ---- the models


@dataclass
class Model:
    """A function of layers, weights and inputs. `position` counts the calls where the model has a cache."""

    name: str
    function: Callable[..., Any]
    weights: dict[str, np.ndarray]
    inputs: list[np.ndarray]
    context: int = 0
    times: dict[str, float] = field(default_factory=dict)


def matrix(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) / np.sqrt(np.prod(shape[1:]) if len(shape) > 1 else shape[0])).astype(np.float32)  # type: ignore[no-any-return]


def block_weights(layers: int, dim: int) -> dict[str, np.ndarray]:
    """Of transformer blocks with norms, biases and a four times wider layer."""
    found: dict[str, np.ndarray] = {}
    for i in range(layers):
        for name, shape in {
            "qkv": (3 * dim, dim),
            "out": (dim, dim),
            "up": (4 * dim, dim),
            "down": (dim, 4 * dim),
        }.items():
            found[f"{i}.{name}"], found[f"{i}.{name}.bias"] = matrix(*shape), matrix(shape[0])
        for name in ("norm1", "norm2"):
            found[f"{i}.{name}"], found[f"{i}.{name}.bias"] = np.ones(dim, np.float32), matrix(dim)
    return found


def heads_of(x: Any, heads: int) -> Any:
    return x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def mix(n: Any, w: Weights, i: int, x: Any, heads: int, causal: bool) -> Any:
    """Attention of block i."""
    dim = x.shape[2]
    qkv = n.linear(x, w[f"{i}.qkv"], w[f"{i}.qkv.bias"])
    q, k, v = (heads_of(qkv[:, :, j * dim : (j + 1) * dim], heads) for j in range(3))
    mixed = n.attention(q, k, v, causal).transpose(1, 2).reshape(*x.shape)
    return n.linear(mixed, w[f"{i}.out"], w[f"{i}.out.bias"])


def feed(n: Any, w: Weights, i: int, x: Any) -> Any:
    hidden = n.gelu(n.linear(x, w[f"{i}.up"], w[f"{i}.up.bias"]))
    return n.linear(hidden, w[f"{i}.down"], w[f"{i}.down.bias"])


def gpt2(layers: int = 12, dim: int = 768, heads: int = 12, words: int = 50257, length: int = 64) -> Model:
    """Norms before, causal, a head that shares the embedding."""

    def function(n: Any, w: Weights, tokens: Any) -> Any:
        x = w["words"][tokens] + w["places"]
        for i in range(layers):
            x = x + mix(n, w, i, n.layer_norm(x, w[f"{i}.norm1"], w[f"{i}.norm1.bias"]), heads, True)
            x = x + feed(n, w, i, n.layer_norm(x, w[f"{i}.norm2"], w[f"{i}.norm2.bias"]))
        return n.linear(n.layer_norm(x, w["norm"], w["norm.bias"]), w["words"])

    weights = {"words": matrix(words, dim), "places": matrix(length, dim), **block_weights(layers, dim)}
    weights |= {"norm": np.ones(dim, np.float32), "norm.bias": matrix(dim)}
    return Model("gpt2 124M, 64 tokens", function, weights, [RNG.integers(0, words, (1, length))])


def bert(layers: int = 12, dim: int = 768, heads: int = 12, words: int = 30522, length: int = 128) -> Model:
    """Norms after, no mask, hidden states as the result."""

    def function(n: Any, w: Weights, tokens: Any) -> Any:
        x = n.layer_norm(w["words"][tokens] + w["places"], w["norm"], w["norm.bias"])
        for i in range(layers):
            x = n.layer_norm(x + mix(n, w, i, x, heads, False), w[f"{i}.norm1"], w[f"{i}.norm1.bias"])
            x = n.layer_norm(x + feed(n, w, i, x), w[f"{i}.norm2"], w[f"{i}.norm2.bias"])
        return x

    weights = {"words": matrix(words, dim), "places": matrix(length, dim), **block_weights(layers, dim)}
    weights |= {"norm": np.ones(dim, np.float32), "norm.bias": matrix(dim)}
    return Model("bert base, 128 tokens", function, weights, [RNG.integers(0, words, (1, length))])


def resnet18(batch: int) -> Model:
    """On images of 224 x 224, with statistics of norms as in evaluation."""
    weights: dict[str, np.ndarray] = {}
    steps: list[tuple[str, int, bool]] = []  # a block: name, stride, whether it has a shortcut

    def conv(name: str, outputs: int, inputs: int, size: int) -> None:
        weights[name] = matrix(outputs, inputs, size, size)
        weights[f"{name}.mean"], weights[f"{name}.bias"] = matrix(outputs), matrix(outputs)
        weights[f"{name}.var"], weights[f"{name}.scale"] = np.ones((2, outputs), np.float32)

    conv("first", 64, 3, 7)
    width = 64
    for stage, wide in enumerate((64, 128, 256, 512)):
        for i in range(2):
            stride, name = (2 if stage and not i else 1), f"{stage}.{i}"
            conv(f"{name}.a", wide, width, 3)
            conv(f"{name}.b", wide, wide, 3)
            if width != wide:
                conv(f"{name}.short", wide, width, 1)
            steps.append((name, stride, width != wide))
            width = wide
    weights["last"], weights["last.bias"] = matrix(1000, 512), matrix(1000)

    def normed(n: Any, w: Weights, name: str, x: Any, stride: int, padding: int) -> Any:
        y = n.conv(x, w[name], stride, padding)
        return n.batch_norm(y, *(w[f"{name}.{part}"] for part in ("mean", "var", "scale", "bias")))

    def function(n: Any, w: Weights, x: Any) -> Any:
        x = n.pool(n.relu(normed(n, w, "first", x, 2, 3)))
        for name, stride, is_wider in steps:
            y = n.relu(normed(n, w, f"{name}.a", x, stride, 1))
            y = normed(n, w, f"{name}.b", y, 1, 1)
            x = n.relu(y + (normed(n, w, f"{name}.short", x, stride, 0) if is_wider else x))
        return n.linear(x.mean((2, 3)), w["last"], w["last.bias"])

    images = RNG.standard_normal((batch, 3, 224, 224)).astype(np.float32)
    return Model(f"resnet18, batch {batch}", function, weights, [images])


def decode(layers: int = 12, dim: int = 768, heads: int = 12, wide: int = 2048, words: int = 32000) -> Model:
    """One token of a Llama-like model, with a cache of keys and values that grows by one position."""
    context, size = 1024, dim // heads

    def turned(n: Any, x: Any, cos: Any, sin: Any) -> Any:
        a, b = x[:, :, :, : size // 2], x[:, :, :, size // 2 :]
        return n.cat([a * cos - b * sin, b * cos + a * sin])

    def function(n: Any, w: Weights, token: Any, position: Any) -> Any:
        x = w["words"][token]
        cos, sin = w["cos"][position : position + 1], w["sin"][position : position + 1]
        for i in range(layers):
            y = n.rms_norm(x, w[f"{i}.norm1"])
            q, k, v = (heads_of(n.linear(y, w[f"{i}.{name}"]), heads) for name in "qkv")
            keys, values = w[f"{i}.keys"], w[f"{i}.values"]
            keys[:, :, position : position + 1] = turned(n, k, cos, sin)
            values[:, :, position : position + 1] = v
            q = turned(n, q, cos, sin)
            mixed = n.attention(q, keys[:, :, : position + 1], values[:, :, : position + 1], False)
            x = x + n.linear(mixed.transpose(1, 2).reshape(1, 1, dim), w[f"{i}.out"])
            y = n.rms_norm(x, w[f"{i}.norm2"])
            x = x + n.linear(n.silu(n.linear(y, w[f"{i}.gate"])) * n.linear(y, w[f"{i}.up"]), w[f"{i}.down"])
        return n.linear(n.rms_norm(x, w["norm"]), w["head"])

    angles = np.arange(context)[:, None] * 10000.0 ** (-np.arange(size // 2) / (size // 2))
    weights = {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}
    weights |= {"words": matrix(words, dim), "head": matrix(words, dim), "norm": np.ones(dim, np.float32)}
    for i in range(layers):
        weights |= {f"{i}.{name}": matrix(dim, dim) for name in ("q", "k", "v", "out")}
        weights |= {f"{i}.gate": matrix(wide, dim), f"{i}.up": matrix(wide, dim), f"{i}.down": matrix(dim, wide)}
        weights |= {f"{i}.{name}": np.ones(dim, np.float32) for name in ("norm1", "norm2")}
        weights |= {f"{i}.{name}": np.zeros((1, heads, context, size), np.float32) for name in ("keys", "values")}
    return Model("llm decode, 12 layers", function, weights, [RNG.integers(0, words, (1, 1))], context)


MODELS: dict[str, Callable[[], Model]] = {
    "resnet18-1": lambda: resnet18(1),
    "resnet18-8": lambda: resnet18(8),
    "gpt2": gpt2,
    "bert": bert,
    "decode": decode,
}


# ---- the contest


def contestants(model: Model, with_compile: bool) -> dict[str, Callable[[int], Any]]:
    """What to call for each, with the number of the call."""
    ours = {name: Tensor(value).realize() for name, value in model.weights.items()}
    tensors, layers = [Tensor(x).realize() for x in model.inputs], our_layers()
    last = Variable("position", 0, model.context - 1) if model.context else None
    jitted = TinyJit(lambda *given: model.function(layers, ours, *given).realize())
    found: dict[str, Callable[[int], Any]] = {
        "jit": lambda i: jitted(*tensors, *([last.bind(i)] if last is not None else []))
    }
    if torch is not None:
        theirs = {name: torch.from_numpy(value.copy()) for name, value in model.weights.items()}
        given, their = [torch.from_numpy(x) for x in model.inputs], their_layers()
        found["torch"] = lambda i: model.function(their, theirs, *given, *([i] if last is not None else []))
        if with_compile:
            compiled = torch.compile(lambda *a: model.function(their, theirs, *a))
            found["compile"] = lambda i: compiled(*given, *([i] if last is not None else []))
    return found


def measure(model: Model, seconds: float, with_compile: bool) -> None:
    """Fills model.times with milliseconds, and the seconds of our first call."""
    calls = contestants(model, with_compile)
    start = time.perf_counter()
    results = {}
    for name, call in calls.items():
        results[name] = call(0).numpy()
        model.times.setdefault("first", time.perf_counter() - start)
        for i in range(1, WARM):  # torch.compile makes another program of a position that changes
            call(i)
    for name, found in results.items():
        error = np.max(np.abs(found - results["jit"])) / np.max(np.abs(found))
        if not error < 1e-3:
            raise SystemExit(f"{model.name}: jit and {name} differ by {error}")
    best = dict.fromkeys(calls, float("inf"))
    end, number = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        number += TURN
        for name, call in calls.items():
            for i in range(TURN):
                start = time.perf_counter()
                call((number + i) % model.context if model.context else 0)
                best[name] = min(best[name], time.perf_counter() - start)
    model.times |= {name: t * 1e3 for name, t in best.items()}


def row(model: Model) -> str:
    times = {name: t for name, t in model.times.items() if name != "first"}
    others = [t for name, t in times.items() if name != "jit"]
    text = f"{model.name:24}first {model.times['first']:6.2f} s  "
    text += "".join(f"{name} {t:9.3f} ms  " for name, t in times.items())
    return text + (f"{min(others) / times['jit']:5.2f}x" if others else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help=", ".join(MODELS))
    parser.add_argument("--seconds", type=float, default=10.0, help="time for each model")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if torch is not None:
        torch.set_grad_enabled(False)
    found = {}
    for name, build in MODELS.items():
        if options.only and not any(part in name for part in options.only):
            continue
        model = build()
        measure(model, options.seconds, not options.no_compile)
        found[model.name] = model.times
        if not options.json:
            print(row(model), flush=True)
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
