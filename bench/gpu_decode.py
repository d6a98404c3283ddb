"""One token of a model with the shape of Llama 8B on the device CUDA, beside PyTorch on the same GPU.

    python bench/gpu_decode.py                   milliseconds a token, kernels, bytes, and the kernels by time
    python bench/gpu_decode.py --compile         torch.compile too (its first call takes half a minute)
    python bench/gpu_decode.py --kind Q4_K       the same model with packed weights
    python bench/gpu_decode.py --products        products with packed weights alone (halves: gpu_few_rows.py)
    python bench/gpu_decode.py --check           a small model: the results of both sides, and nothing else

32 layers, 4096 wide, 32 heads and 8 of keys of 128, 14336 between, 128256 words, bfloat16, a cache of 1024 positions
that is full. Weights are random; every layer has memory of its own. A step runs from the token's number to the next
one's (greedy); ours is one CUDA graph, torch's is eager over the same static cache.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

import whit
from whit import Device, GlobalCounters, Tensor, TinyJit, Variable, dtypes
from whit.nn.state.gguf_blocks import KINDS, Kind

try:
    import torch
except ImportError:
    torch = None

RUNS, TURNS = 5, 6


@dataclass(frozen=True)
class Shape:
    """Sizes of a model."""

    layers: int = 32
    dim: int = 4096
    heads: int = 32
    shared: int = 8  # heads of keys and values
    size: int = 128  # of a head
    wide: int = 14336
    words: int = 128256
    context: int = 1024

    @property
    def nbytes(self) -> int:
        """What a step has to read: weights but for the embedding, keys and values."""
        attention = self.dim * self.size * (2 * self.heads + 2 * self.shared)
        cache = 2 * self.context * self.shared * self.size
        return 2 * (self.layers * (attention + 3 * self.dim * self.wide + cache) + self.words * self.dim)

    def weights(self) -> dict[str, tuple[int, ...]]:
        """The shapes of a layer's weights."""
        return {
            "norm1": (self.dim,),
            "qkv": ((self.heads + 2 * self.shared) * self.size, self.dim),
            "out": (self.dim, self.heads * self.size),
            "norm2": (self.dim,),
            "gate": (self.wide, self.dim),
            "up": (self.wide, self.dim),
            "down": (self.dim, self.wide),
        }


SMALL = Shape(2, 512, 4, 2, 64, 768, 1024, 128)
Weights = dict[str, Any]


# ---- the model, once for both sides


def step(n: Any, s: Shape, w: Weights, token: Any, position: Any) -> Any:
    """The number of the next word: (1,)."""
    return logits(n, s, w, token, position).argmax(-1)


def logits(n: Any, s: Shape, w: Weights, token: Any, position: Any) -> Any:
    """How likely each word is the next: (1, words)."""
    x = w["words"][token]  # (1, dim)
    cos, sin = w["cos"][position : position + 1], w["sin"][position : position + 1]  # (1, size / 2)

    def turned(heads: Any) -> Any:
        a, b = heads[..., : s.size // 2], heads[..., s.size // 2 :]
        return n.cat([a * cos - b * sin, b * cos + a * sin])

    for i in range(s.layers):
        y = n.norm(x, w[f"{i}.norm1"])
        qkv = n.linear(y, w[f"{i}.qkv"]).reshape(s.heads + 2 * s.shared, 1, s.size)
        q, k, v = qkv[: s.heads], qkv[s.heads : s.heads + s.shared], qkv[s.heads + s.shared :]
        keys, values = w[f"{i}.keys"], w[f"{i}.values"]  # (shared, context, size)
        keys[:, position : position + 1] = turned(k)
        values[:, position : position + 1] = v
        mixed = n.attention(turned(q), keys, values, position)
        x = x + n.linear(mixed.reshape(1, -1), w[f"{i}.out"])
        y = n.norm(x, w[f"{i}.norm2"])
        x = x + n.linear(n.silu(n.linear(y, w[f"{i}.gate"])) * n.linear(y, w[f"{i}.up"]), w[f"{i}.down"])
    return n.linear(n.norm(x, w["norm"]), w["head"])


class Ours:
    """The layers in whit."""

    cat = staticmethod(lambda parts: parts[0].cat(*parts[1:], dim=-1))
    silu = staticmethod(lambda x: x.silu())

    @staticmethod
    def linear(x: Tensor, w: Tensor | Packed) -> Tensor:
        return x.linear(w.T) if isinstance(w, Tensor) else (x.cast(dtypes.float32) @ w.unpacked().T).cast(x.dtype)

    @staticmethod
    def norm(x: Tensor, w: Tensor) -> Tensor:
        wide = x.cast(dtypes.float32)
        return (wide * (wide.square().mean(-1, keepdim=True) + 1e-5).rsqrt()).cast(x.dtype) * w

    @staticmethod
    def attention(q: Tensor, k: Tensor, v: Tensor, position: Any) -> Tensor:
        """Heads that share keys are like positions of one head, and every one sees the same."""
        seen = Tensor.arange(k.shape[1], device=q.device) <= position
        return q.reshape(k.shape[0], -1, k.shape[2]).scaled_dot_product_attention(k, v, seen)


class Theirs:
    """The layers in PyTorch."""

    cat = staticmethod(lambda parts: torch.cat(parts, -1))
    linear = staticmethod(lambda x, w: torch.nn.functional.linear(x, w))
    silu = staticmethod(lambda x: torch.nn.functional.silu(x))
    norm = staticmethod(lambda x, w: torch.nn.functional.rms_norm(x, w.shape, w, 1e-5))

    @staticmethod
    def attention(q: Any, k: Any, v: Any, position: int) -> Any:
        f = torch.nn.functional.scaled_dot_product_attention
        return f(q[None], k[None, :, : position + 1], v[None, :, : position + 1], enable_gqa=True)[0]


# ---- weights

OFFSETS = {"Q8_0": (0,), "Q4_0": (0,), "Q4_K": (0, 2), "Q6_K": (208,)}  # places of scales in a block


@dataclass(frozen=True)
class Packed:
    """A matrix as GGUF packs it."""

    kind: Kind
    raw: Tensor
    shape: tuple[int, ...]

    def unpacked(self) -> Tensor:
        """What becomes part of the kernel that multiplies it."""
        assert self.kind.unpack is not None
        return self.kind.unpack(self.raw).reshape(self.shape)


def packed_weights(name: str, shape: tuple[int, ...], device: str) -> Packed:
    """Random bytes with scales that are numbers: some rows again and again."""
    kind = next(kind for kind in KINDS.values() if kind.name == name)
    rows = next(rows for rows in (32, 16, 8) if shape[0] % rows == 0)
    blocks = rows * shape[1] // kind.elements
    raw = np.random.default_rng(0).integers(0, 256, (blocks, kind.nbytes), np.uint8)
    for place in OFFSETS[name]:
        raw[:, place : place + 2] = np.full((blocks, 1), 1e-4, np.float16).view(np.uint8)
    few = Tensor(raw, device=device).realize().reshape(1, blocks, kind.nbytes)
    return Packed(kind, few.expand(shape[0] // rows, -1, -1).reshape(-1, kind.nbytes).contiguous().realize(), shape)


def turns(s: Shape) -> tuple[np.ndarray, np.ndarray]:
    """Cosine and sine of every position."""
    angles = np.arange(s.context)[:, None] * 10000.0 ** (-np.arange(s.size // 2) / (s.size // 2))
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def all_weights(
    s: Shape,
    random: Callable[..., Any],
    copy: Callable[[Any], Any],
    ones: Callable[..., Any],
    matrix: Callable[..., Any] | None = None,
) -> Weights:
    """Of one side. The layers have the same numbers, each in memory of its own. `matrix`: of what is multiplied."""
    matrix = matrix or random
    first = {name: matrix(*shape) if len(shape) > 1 else ones(*shape) for name, shape in s.weights().items()}
    found = {"words": random(s.words, s.dim), "head": matrix(s.words, s.dim), "norm": ones(s.dim)}
    cache = random(s.shared, s.context, s.size)
    for i in range(s.layers):
        found |= {f"{i}.{name}": copy(value) for name, value in first.items()}
        found |= {f"{i}.{name}": copy(cache) for name in ("keys", "values")}
    return found


def our_weights(s: Shape, device: str, kind: str = "") -> Weights:
    """Random numbers; matrices packed, if a kind is given."""
    bf16 = dtypes.bfloat16

    def random(*shape: int) -> Tensor:
        return (Tensor.randn(*shape, device=device) * shape[-1] ** -0.5).cast(bf16).realize()  # type: ignore[no-any-return]

    def copy(value: Tensor | Packed) -> Tensor | Packed:
        return value.clone().realize() if isinstance(value, Tensor) else replace(value, raw=value.raw.clone().realize())

    def ones(*shape: int) -> Tensor:
        return Tensor.ones(*shape, device=device, dtype=bf16).realize()

    found = all_weights(s, random, copy, ones, (lambda *shape: packed_weights(kind, shape, device)) if kind else None)
    cos, sin = (Tensor(x, device=device).cast(bf16).realize() for x in turns(s))
    return found | {"cos": cos, "sin": sin}


def their_weights(s: Shape) -> Weights:
    """Random numbers."""
    options = {"device": "cuda", "dtype": torch.bfloat16}
    found = all_weights(
        s,
        lambda *shape: torch.randn(shape, **options) * shape[-1] ** -0.5,
        lambda value: value.clone(),
        lambda *shape: torch.ones(shape, **options),
    )
    cos, sin = (torch.from_numpy(x).to(**options) for x in turns(s))
    return found | {"cos": cos, "sin": sin}


def as_ours(given: Weights, device: str) -> Weights:
    """Their numbers."""
    return {
        name: Tensor(value.float().cpu().numpy(), device=device).cast(dtypes.bfloat16).realize()
        for name, value in given.items()
    }


# ---- the contest


def our_step(s: Shape, w: Weights) -> Callable[[Tensor, int], Tensor]:
    """A step under TinyJit, of a token and a position."""
    place = Variable("position", 0, s.context - 1)
    jitted = TinyJit(lambda token, position: step(Ours, s, w, token, position).realize())
    return lambda token, position: jitted(token, place.bind(position))


def seconds_of(run: Callable[[], Any]) -> float:
    """One run on our stream."""
    gpu = Device["CUDA"].gpu  # type: ignore[attr-defined]
    start = gpu.event()
    kept = [run() for _ in range(RUNS)]
    found = gpu.event().since(start) / RUNS
    del kept
    return float(found)


def their_seconds(run: Callable[[], Any]) -> float:
    """One run on their stream."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(RUNS):
        run()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / RUNS / 1e3


def check(s: Shape, device: str) -> None:
    """Logits of both sides, from the same numbers, for a few tokens, beside those of PyTorch in float32."""
    theirs = their_weights(s)
    for i in range(s.layers):
        for name in ("keys", "values"):
            theirs[f"{i}.{name}"].zero_()
    ours, exact = as_ours(theirs, device), {name: value.float() for name, value in theirs.items()}
    place = Variable("position", 0, s.context - 1)
    mine = TinyJit(lambda token, position: logits(Ours, s, ours, token, position).cast(dtypes.float32).realize())
    for position, token in enumerate((7, 501, 33, 200, 41)):
        got = mine(Tensor([token], device=device).realize(), place.bind(position)).numpy()
        with torch.no_grad():
            given = torch.tensor([token], device="cuda")
            other, right = (logits(Theirs, s, w, given, position).float().cpu().numpy() for w in (theirs, exact))
        errors = [float(np.sqrt(np.mean((x - right) ** 2) / np.mean(right**2))) for x in (got, other)]
        wrong = "" if errors[0] < 1.5 * errors[1] else "   WRONG"
        print(f"position {position}: error {errors[0]:.1e}, torch's {errors[1]:.1e}{wrong}", flush=True)


def contest(s: Shape, with_compile: bool, kind: str) -> None:
    """Prints a line for each, and the table of our kernels."""
    w = our_weights(s, "CUDA", kind)
    token = Tensor([7], device="CUDA").realize()
    mine = our_step(s, w)
    start = time.perf_counter()
    mine(token, s.context - 1).item()
    first = time.perf_counter() - start
    GlobalCounters.reset()
    mine(token, s.context - 1).item()
    kernels = GlobalCounters.kernel_count
    best = min(seconds_of(lambda: mine(token, s.context - 1)) for _ in range(TURNS))
    nbytes = s.nbytes - sum(2 * prod(x.shape) - x.raw.nbytes() for x in w.values() if isinstance(x, Packed))
    rate = f"{nbytes / 1e9:.2f} GB at {nbytes / best / 1e9:.0f} GB/s"
    print(
        f"whit {kind:8s} {best * 1e3:7.3f} ms a token, {kernels} kernels, {rate}, first call {first:.1f} s", flush=True
    )
    with whit.profile() as found:
        mine(token, s.context - 1)
    print(found, flush=True)
    if torch is None or kind:
        return
    theirs, number = their_weights(s), torch.tensor([7], device="cuda")
    with torch.no_grad():
        calls = {"torch eager": lambda: step(Theirs, s, theirs, number, s.context - 1)}
        if with_compile:
            compiled = torch.compile(lambda token: step(Theirs, s, theirs, token, s.context - 1))
            calls["torch.compile"] = lambda: compiled(number)
        for name, call in calls.items():
            call()  # type: ignore[no-untyped-call]
            best = min(their_seconds(call) for _ in range(TURNS))
            print(f"{name:13s} {best * 1e3:7.3f} ms a token, {s.nbytes / best / 1e9:.0f} GB/s", flush=True)


# ---- products with packed weights


def packed(name: str, depth: int, columns: int, count: int) -> None:
    """A chain of products in one graph: each waits for the one before, whose first numbers it reads, and no cache holds
    the weights; float32 between."""
    ws = [packed_weights(name, (columns, depth), "CUDA") for _ in range(count)]
    x = Tensor(np.random.default_rng(1).standard_normal((1, depth)).astype(np.float32), device="CUDA").realize()

    def chain(x: Tensor) -> list[Tensor]:
        found = []
        for w in ws:
            found.append((x @ w.unpacked().T).contiguous())
            x = found[-1][:, :depth] if columns >= depth else x
        return found

    few = Packed(ws[0].kind, ws[0].raw[: 8 * depth // ws[0].kind.elements], (8, depth))
    want = x.numpy() @ few.unpacked().numpy().T
    got = (x @ ws[0].unpacked().T).numpy()[:, :8]
    error = float(np.abs(got - want).max() / np.abs(want).max())
    jitted = TinyJit(chain)
    Tensor.realize(*jitted(x))
    seconds = min(_behind_another(lambda: jitted(x)) for _ in range(TURNS)) / count
    rate = f"{seconds * 1e6:7.1f} us {ws[0].raw.nbytes() / seconds / 1e9:5.0f} GB/s"
    print(f"  1 x {depth} x {columns} {name}  whit {rate}  difference {error:.0e}", flush=True)


def _behind_another(run: Callable[[], Any]) -> float:
    """One run, started while the GPU was busy: to hand out so many results takes longer than to compute them."""
    from gpu import keep_busy  # lazy: it needs torch

    for _ in range(2):
        keep_busy()()
    return seconds_of(run)


def all_products() -> None:
    """Those of a step."""
    for name in OFFSETS:
        for depth, columns, count in ((4096, 4096, 16), (4096, 14336, 8), (14336, 4096, 8), (4096, 128256, 2)):
            try:
                packed(name, depth, columns, count)
            except Exception as error:  # one that fails must not hide the others
                print(name, type(error).__name__, str(error)[-300:], flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compile", action="store_true", help="torch.compile too")
    parser.add_argument("--check", action="store_true", help="results of a small model alone")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--products", action="store_true", help="products with packed weights alone")
    parser.add_argument("--kind", default="", choices=("", *OFFSETS), help="how the weights are packed")
    options = parser.parse_args()
    if options.products:
        all_products()
    elif options.check:
        check(SMALL, "CUDA")
    else:
        contest(Shape(layers=options.layers), options.compile, options.kind)
