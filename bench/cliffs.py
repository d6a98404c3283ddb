"""Where a copy that the user writes makes a program faster: what the scheduler should have stored by itself.

    python bench/cliffs.py                     on one core, by the processor's time: others may use the machine
    python bench/cliffs.py --threads 2         by the clock
    python bench/cliffs.py --only rotary       programs whose names contain this
    python bench/cliffs.py --all               every line, not only where a copy helps

A program names its intermediate values: `keep(x)`. It is timed as it is, with `.contiguous()` after each of them in
turn, and after all. Contestants take turns; a number is the least of many runs, in milliseconds. A line is a cliff if a
copy makes the program 1.3 times as fast.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from whit import Context, GlobalCounters, Tensor, TinyJit

CLIFF = 1.3
ALL = -1  # values that are copied
SECONDS = 0.4  # for all contestants of a program together, at least
Keep = Callable[[Tensor], Tensor]
Program = Callable[..., Tensor]

RNG = np.random.default_rng(0)
B, T, H, D = 4, 128, 4, 64
WIDE = H * D
PROGRAMS: dict[str, tuple[Program, tuple[Any, ...]]] = {}


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def integers(high: int, *shape: int) -> np.ndarray:
    return RNG.integers(0, high, shape).astype(np.int32)


def program(name: str, *arrays: Any) -> Callable[[Program], Program]:
    def enter(function: Program) -> Program:
        PROGRAMS[name] = function, arrays
        return function

    return enter


HEADS = normal(B, T, H, D), normal(B, T, H, D), normal(B, T, H, D)
ROWS, MATRIX = normal(B * T, WIDE), normal(WIDE, WIDE)
IMAGES, TAPS = normal(2, 16, 32, 32), normal(32, 16, 3, 3)
ANGLES = np.arange(T)[:, None] * 10000.0 ** (-np.arange(0, D, 2) / D)[None]
COS, SIN = (f(ANGLES).astype(np.float32).reshape(1, T, 1, D // 2) for f in (np.cos, np.sin))


def attend(keep: Keep, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = True) -> Tensor:
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return keep(q.scaled_dot_product_attention(k, v, attn_mask=mask, is_causal=causal))


def interleaved(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x[..., ::2], x[..., 1::2]
    return Tensor.stack(a * cos - b * sin, a * sin + b * cos, dim=-1).reshape(x.shape)


def halves(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x[..., : D // 2], x[..., D // 2 :]
    return (a * cos - b * sin).cat(a * sin + b * cos, dim=-1)


# ---- attention


@program("rotary interleaved, attention", *HEADS, COS, SIN)
def _(keep: Keep, q: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return attend(keep, keep(interleaved(q, cos, sin)), keep(interleaved(k, cos, sin)), v)


@program("rotary halves, attention", *HEADS, COS, SIN)
def _(keep: Keep, q: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return attend(keep, keep(halves(q, cos, sin)), keep(halves(k, cos, sin)), v)


@program("rotary of a part of each head, attention", *HEADS, COS[..., :16], SIN[..., :16])
def _(keep: Keep, q: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    q, k = (keep(interleaved(x[..., :32], cos, sin).cat(x[..., 32:], dim=-1)) for x in (q, k))
    return attend(keep, q, k, v)


@program("norms of queries and keys, attention", *HEADS)
def _(keep: Keep, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k = (keep(x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt()) for x in (q, k))
    return attend(keep, q, k, v)


@program("projections, rotary, attention", ROWS, normal(WIDE, 3 * WIDE), COS, SIN)
def _(keep: Keep, x: Tensor, w: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    q, k, v = keep(x @ w).reshape(B, T, 3, H, D).permute(2, 0, 1, 3, 4)
    return attend(keep, keep(interleaved(q, cos, sin)), keep(interleaved(k, cos, sin)), v)


@program("few heads of keys, repeated, attention", HEADS[0], normal(B, T, 2, D), normal(B, T, 2, D))
def _(keep: Keep, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return attend(keep, q, keep(k.repeat_interleave(2, 2)), keep(v.repeat_interleave(2, 2)))


@program("linear biases (ALiBi), attention", *HEADS, normal(H))
def _(keep: Keep, q: Tensor, k: Tensor, v: Tensor, slopes: Tensor) -> Tensor:
    far = Tensor.arange(T).reshape(1, T) - Tensor.arange(T).reshape(T, 1)
    bias = keep(slopes.reshape(1, H, 1, 1) * far.float().reshape(1, 1, T, T))
    return attend(keep, q, k, v, bias, causal=False)


@program("relative positions by a table, attention", *HEADS, normal(2 * T, H))
def _(keep: Keep, q: Tensor, k: Tensor, v: Tensor, table: Tensor) -> Tensor:
    far = Tensor.arange(T).reshape(1, T) - Tensor.arange(T).reshape(T, 1) + T
    bias = keep(table[far].permute(2, 0, 1).reshape(1, H, T, T))
    return attend(keep, q, k, v, bias, causal=False)


@program("windows of rolled images, attention", normal(2, 32, 32, 3 * 64))
def _(keep: Keep, x: Tensor) -> Tensor:
    x = keep(x.roll((-4, -4), (1, 2)))
    x = keep(x.reshape(2, 4, 8, 4, 8, 192).permute(0, 1, 3, 2, 4, 5).reshape(32, 64, 3, 2, 32))
    q, k, v = x.permute(2, 0, 1, 3, 4)
    return attend(keep, q, k, v, causal=False)


@program("dropout of weights, attention by hand", *HEADS)
def _(keep: Keep, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    weights = keep((q @ k.transpose(2, 3) * 0.125).softmax())
    chance = keep((Tensor.arange(B * H * T * T).reshape(B, H, T, T) * 1103515245 + 12345) & 1023)
    return keep((chance < 900).where(weights, 0.0) @ v)


@program("masks by lengths, attention", *HEADS, integers(T, B))
def _(keep: Keep, q: Tensor, k: Tensor, v: Tensor, lengths: Tensor) -> Tensor:
    mask = keep((Tensor.arange(T).reshape(1, 1, 1, T) <= lengths.reshape(B, 1, 1, 1)).expand(B, 1, T, T))
    return attend(keep, q, k, v, mask, causal=False)


@program("linear attention", *HEADS)
def _(keep: Keep, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (x.transpose(1, 2) for x in (keep(q.elu() + 1), keep(k.elu() + 1), v))
    return (q @ keep(k.transpose(2, 3) @ v)) / keep((q * k.sum(2, keepdim=True)).sum(-1, keepdim=True))


@program("keys joined with a cache, attention", HEADS[0], normal(B, 64, H, D), normal(B, 64, H, D), *HEADS[1:])
def _(keep: Keep, q: Tensor, old_k: Tensor, old_v: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return attend(keep, q, keep(old_k.cat(k, dim=1)), keep(old_v.cat(v, dim=1)), causal=False)


# ---- products and norms


@program("layer norm, product, gelu, product", ROWS, normal(WIDE, 4 * WIDE), normal(4 * WIDE, WIDE))
def _(keep: Keep, x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return keep(keep(keep(x.layernorm()) @ a).gelu()) @ b


@program("norm by root mean square, gated products", ROWS, MATRIX, MATRIX, MATRIX)
def _(keep: Keep, x: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    x = keep(x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt())
    return keep((x @ a).silu() * (x @ b)) @ c


@program("softmax, product", ROWS, MATRIX)
def _(keep: Keep, x: Tensor, w: Tensor) -> Tensor:
    return keep(x.softmax()) @ w


@program("cumulative sum, product", ROWS, MATRIX)
def _(keep: Keep, x: Tensor, w: Tensor) -> Tensor:
    return keep(x.cumsum(1)) @ w


@program("gathered rows, product", normal(1000, WIDE), integers(1000, B * T), MATRIX)
def _(keep: Keep, table: Tensor, rows: Tensor, w: Tensor) -> Tensor:
    return keep(table[rows]) @ w


@program("embedding, norm, product", normal(1000, WIDE), integers(1000, B * T), MATRIX)
def _(keep: Keep, table: Tensor, rows: Tensor, w: Tensor) -> Tensor:
    return keep(keep(table[rows]).layernorm()) @ w


@program("one-hot, product", integers(200, B * T), normal(200, WIDE))
def _(keep: Keep, rows: Tensor, w: Tensor) -> Tensor:
    return keep(rows.one_hot(200).float()) @ w


@program("quantised and back, product", ROWS, MATRIX)
def _(keep: Keep, x: Tensor, w: Tensor) -> Tensor:
    scale = keep(w.abs().max(0, keepdim=True) / 127)
    return x @ keep((w / scale).round().clip(-127, 127) * scale)


@program("weights normalised by columns, product", ROWS, MATRIX)
def _(keep: Keep, x: Tensor, w: Tensor) -> Tensor:
    return x @ keep(w / w.square().sum(0, keepdim=True).sqrt())


@program("low rank beside a product", ROWS, MATRIX, normal(WIDE, 8), normal(8, WIDE))
def _(keep: Keep, x: Tensor, w: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return x @ keep(w + keep(a @ b))


@program("outer products, used twice", normal(512), normal(512))
def _(keep: Keep, a: Tensor, b: Tensor) -> Tensor:
    outer = keep((a.reshape(512, 1) * b.reshape(1, 512)).tanh())
    return outer.sum(0) + outer.sum(1) + (outer @ a.reshape(512, 1)).reshape(512)


@program("distances of all pairs, nearest", normal(512, 16), normal(512, 16))
def _(keep: Keep, a: Tensor, b: Tensor) -> Tensor:
    far = keep((a.reshape(512, 1, 16) - b.reshape(1, 512, 16)).square().sum(-1))
    return far.min(1) + far.min(0)


@program("einsum of three", normal(8, 64, 64), normal(8, 64, 64), normal(8, 64, 64))
def _(keep: Keep, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return Tensor.einsum("bik,bkl->bil", keep(Tensor.einsum("bij,bjk->bik", a, b)), c)


@program("product of a product turned round", ROWS, MATRIX)
def _(keep: Keep, x: Tensor, w: Tensor) -> Tensor:
    y = keep((x @ w).tanh())
    return y.T @ y


@program("experts, weighted", ROWS, normal(WIDE, 4), normal(4, WIDE, 64))
def _(keep: Keep, x: Tensor, gate: Tensor, w: Tensor) -> Tensor:
    weights = keep((x @ gate).softmax())
    each = keep(x.reshape(1, B * T, WIDE) @ w)
    return (each * weights.T.reshape(4, B * T, 1)).sum(0)


@program("masks, product", ROWS, MATRIX)
def _(keep: Keep, x: Tensor, w: Tensor) -> Tensor:
    return keep((x > 0).where(x.exp(), x.sin())) @ keep(w.tril())


@program("circulant matrix by positions, product", ROWS, normal(WIDE))
def _(keep: Keep, x: Tensor, w: Tensor) -> Tensor:
    place = (Tensor.arange(WIDE).reshape(WIDE, 1) - Tensor.arange(WIDE).reshape(1, WIDE)) % WIDE
    return x @ keep(w[place])


@program("Fourier transform as a matrix", ROWS)
def _(keep: Keep, x: Tensor) -> Tensor:
    turn = Tensor.arange(WIDE).reshape(WIDE, 1) * Tensor.arange(WIDE).reshape(1, WIDE) % WIDE
    angle = turn.float() * (2 * np.pi / WIDE)
    return (x @ keep(angle.cos())).square() + (x @ keep(angle.sin())).square()


# ---- images


@program("padded by reflection, convolution", IMAGES, TAPS)
def _(keep: Keep, x: Tensor, w: Tensor) -> Tensor:
    return keep(x.pad((1, 1, 1, 1), mode="reflect")).conv2d(w)


@program("joined, convolution", IMAGES, IMAGES, normal(32, 32, 3, 3))
def _(keep: Keep, x: Tensor, y: Tensor, w: Tensor) -> Tensor:
    return keep(x.relu().cat(y.tanh(), dim=1)).conv2d(w, padding=1)


@program("enlarged (nearest), convolution", IMAGES, TAPS)
def _(keep: Keep, x: Tensor, w: Tensor) -> Tensor:
    return keep(x.interpolate((64, 64), mode="nearest")).conv2d(w, padding=1)


@program("enlarged (linear), convolution", IMAGES, TAPS)
def _(keep: Keep, x: Tensor, w: Tensor) -> Tensor:
    return keep(x.interpolate((64, 64), mode="linear")).conv2d(w, padding=1)


@program("pixel shuffle, convolution", normal(2, 64, 16, 16), TAPS)
def _(keep: Keep, x: Tensor, w: Tensor) -> Tensor:
    x = keep(x.reshape(2, 16, 2, 2, 16, 16).permute(0, 1, 4, 2, 5, 3).reshape(2, 16, 32, 32))
    return x.conv2d(w, padding=1)


@program("group norm, silu, convolution", IMAGES, TAPS)
def _(keep: Keep, x: Tensor, w: Tensor) -> Tensor:
    x = keep(x.reshape(2, 4, -1).layernorm().reshape(x.shape).silu())
    return x.conv2d(w, padding=1)


@program("convolution, norm of the batch, pooling", IMAGES, TAPS)
def _(keep: Keep, x: Tensor, w: Tensor) -> Tensor:
    y = keep(x.conv2d(w, padding=1))
    mean, spread = y.mean((0, 2, 3), keepdim=True), y.var((0, 2, 3), keepdim=True)
    return keep(keep((y - mean) * (spread + 1e-5).rsqrt()).relu()).max_pool2d((2, 2))  # type: ignore[no-any-return]


@program("pooling, convolution", normal(2, 16, 64, 64), TAPS)
def _(keep: Keep, x: Tensor, w: Tensor) -> Tensor:
    return keep(x.max_pool2d((2, 2))).conv2d(w, padding=1)


@program("depthwise, pointwise convolution", IMAGES, normal(16, 1, 3, 3), normal(32, 16, 1, 1))
def _(keep: Keep, x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return keep(keep(x.conv2d(a, groups=16, padding=1)).relu6()).conv2d(b)


@program("squeeze and excite", IMAGES, normal(4, 16, 1, 1), normal(16, 4, 1, 1), TAPS)
def _(keep: Keep, x: Tensor, a: Tensor, b: Tensor, w: Tensor) -> Tensor:
    gate = keep(keep(x.mean((2, 3), keepdim=True).conv2d(a).silu()).conv2d(b).sigmoid())
    return keep(x * gate).conv2d(w, padding=1)


@program("gradient of a strided convolution", normal(4, 16, 32, 32), TAPS)
def _(keep: Keep, x: Tensor, w: Tensor) -> Tensor:
    return keep(x.conv2d(w, stride=2, padding=1).relu()).square().sum().gradient(x)[0]


@program("transposed convolution", normal(4, 16, 32, 32), normal(16, 32, 3, 3))
def _(keep: Keep, x: Tensor, w: Tensor) -> Tensor:
    return keep(x.relu()).conv_transpose2d(w, stride=2, padding=1)


@program("patches, product", normal(8, 3, 64, 64), normal(192, WIDE))
def _(keep: Keep, x: Tensor, w: Tensor) -> Tensor:
    return keep(x.reshape(8, 3, 8, 8, 8, 8).permute(0, 2, 4, 1, 3, 5).reshape(512, 192)) @ w


# ---- losses, scans and sums


@program("cross entropy of a product", ROWS, normal(WIDE, 1000), integers(1000, B * T))
def _(keep: Keep, x: Tensor, w: Tensor, labels: Tensor) -> Tensor:
    return keep(x @ w).sparse_categorical_crossentropy(labels)


@program("contrastive loss", ROWS, normal(B * T, WIDE))
def _(keep: Keep, a: Tensor, b: Tensor) -> Tensor:
    a, b = (keep(x / x.square().sum(-1, keepdim=True).sqrt()) for x in (a, b))
    scores = keep(a @ b.T)
    same = Tensor.arange(B * T)
    return scores.sparse_categorical_crossentropy(same) + scores.T.sparse_categorical_crossentropy(same)


@program("gradient of norm, product and gelu", ROWS, MATRIX)
def _(keep: Keep, x: Tensor, w: Tensor) -> Tensor:
    h = keep(keep(keep(x.layernorm()) @ w).gelu())
    return h.square().mean().gradient(w)[0]


@program("decay by cumulative products", normal(B, T, WIDE), normal(B, T, WIDE))
def _(keep: Keep, x: Tensor, gate: Tensor) -> Tensor:
    decay = keep(gate.sigmoid().log().cumsum(1))
    return keep((x * (-decay).exp()).cumsum(1)) * decay.exp()


@program("softmax of softmax", ROWS)
def _(keep: Keep, x: Tensor) -> Tensor:
    return keep(keep(x.softmax() * 8).softmax() * 8).softmax()


@program("variance of exponentials, both ways", normal(512, 512))
def _(keep: Keep, x: Tensor) -> Tensor:
    y = keep(x.exp())
    return keep(y / y.sum(0, keepdim=True)).std(1) + keep(y / y.sum(1, keepdim=True)).std(0)


# ---- timing


def copying(copied: int | None, seen: list[Tensor]) -> Keep:
    """Notes the values of a program, and copies one of them, or all."""

    def keep(x: Tensor) -> Tensor:
        seen.append(x)
        return x.contiguous() if copied in (ALL, len(seen) - 1) else x

    return keep


def contestant(function: Program, arrays: tuple[Any, ...], copied: int | None) -> tuple[Callable[[], Any], int, int]:
    """The program with a copy of one of its values or of all, how many values it has, and how many kernels."""
    tensors = [Tensor(array).realize() for array in arrays]
    seen: list[Tensor] = []
    found = function(copying(copied, seen), *tensors)
    GlobalCounters.reset()
    found.realize()
    kernels = GlobalCounters.kernel_count
    jitted = TinyJit(lambda *given: function(copying(copied, []), *given).realize())
    for _ in range(3):
        jitted(*tensors)
    return lambda: jitted(*tensors), len(seen), kernels


def least(runs: list[Callable[[], Any]], clock: Callable[[], float]) -> list[float]:
    """Milliseconds of each, which take turns."""
    best = [float("inf")] * len(runs)
    until = time.perf_counter() + SECONDS
    turns = 0
    while time.perf_counter() < until or turns < 3:
        turns += 1
        for i, run in enumerate(runs):
            run()
            start = clock()
            run()
            best[i] = min(best[i], (clock() - start) * 1e3)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="a part of the name")
    parser.add_argument("--all", action="store_true", help="every line, not only cliffs")
    options = parser.parse_args()
    clock = time.process_time if options.threads == 1 else time.perf_counter
    print(
        "| program | as it is, ms | kernels | with a copy | kernels | of value | times |\n|---|--:|--:|--:|--:|--:|--:|"
    )
    cliffs = count = 0
    with Context(THREADS=options.threads):
        for name, (function, arrays) in PROGRAMS.items():
            if options.only not in name:
                continue
            plain, values, kernels = contestant(function, arrays, None)
            choices = [*range(values), ALL]
            others = [contestant(function, arrays, choice) for choice in choices]
            now, *copied = least([plain, *(run for run, _, _ in others)], clock)
            best = min(range(len(choices)), key=copied.__getitem__)
            which = "all" if choices[best] == ALL else best
            times = now / copied[best]
            count, cliffs = count + 1, cliffs + (times > CLIFF)
            if options.all or times > CLIFF:
                cells = name, f"{now:.3f}", kernels, f"{copied[best]:.3f}", others[best][2], which, f"{times:.2f}"
                print("|", " | ".join(map(str, cells)), "|", flush=True)
    print(f"\n{cliffs} cliffs in {count} programs")


if __name__ == "__main__":
    main()
