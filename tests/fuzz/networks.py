"""Random parts of networks: products with much before and after them, heads, 1 x 1 convolutions, attention by hand.

`make_part(seed)` is always the same program. As in `programs.py`, most compute with small whole numbers, exactly.
"""

from __future__ import annotations

from collections.abc import Callable

from fuzz.programs import HALF_PRECISION, UNIT, Program, Source
from whit import Tensor
from whit.dtype import dtypes

FLOATS = (dtypes.float32, *HALF_PRECISION)
INTEGERS = (dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.int32)

# What is done to an operand before a product: (rows, depth) and one number for each place along the depth.
BEFORE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "": lambda x, _: x,
    "scaled": lambda x, _: x * 2,
    "plus a row": lambda x, row: x + row,
    "times a column": lambda x, _: x * x[..., :1],
    "some": lambda x, row: (row > 0).where(x, 0),
    "largest": lambda x, row: x.maximum(row),
    "padded": lambda x, row: x[..., :-1].pad(((0, 0),) * (x.ndim - 1) + ((1, 0),)) if x.shape[-1] > 1 else x,
}


def linear(s: Source) -> Program:
    """A product of two operands that are computed on the way, and what becomes of it."""
    dtype = s.one(*FLOATS, *HALF_PRECISION, *INTEGERS)
    m, n, k = s.one(1, 2, 4, 7, 16, 40, 64, 130), s.size(), s.size()
    if s.one(0, 0, 1):  # few rows, and a matrix of many
        m, n, k = s.one(2, 3, 8, 17, 33, 64), s.one(512, 513, 640, 1024), s.one(16, 64, 72, 200, 512)
    left, right, after = s.one(*BEFORE), s.one("", "", *BEFORE), s.one("", "residual", "gate", "sum", "bias", "twice")

    def build(a: Tensor, b: Tensor, c: Tensor, row: Tensor) -> Tensor:
        x, w = BEFORE[left](a, row), BEFORE[right](b, row)
        y = x @ w.T
        match after:
            case "residual":
                return (y + c).relu()
            case "gate":
                return (y > 0).where(y, 1) * (x @ (w + 1).T).sign()
            case "sum":
                return y + c.sum(0)
            case "bias":
                return y * 2 + row[:1]
            case "twice":
                return y + x @ w.flip(0).T
        return y

    arrays = tuple(s.array(shape, dtype) for shape in ((m, k), (n, k), (m, n), (k,)))
    return Program(f"linear {dtype.name} {(m, n, k)} of {left!r} and {right!r}, {after!r}", build, arrays)


def packed(s: Source) -> Program:
    """Weights of few bits, unpacked and scaled on the way to a product of few rows."""
    dtype, bits, rows = s.one(*FLOATS), s.one(4, 8), s.one(1, 1, 2, 3, 5, 16)
    n, k, group = s.one(1, 5, 32, 64, 100), 32 * s.one(1, 2, 3, 8), s.one(8, 32)
    weights = s.numbers.integers(0, 256, (n, k * bits // 8)).astype("uint8")

    def build(x: Tensor, w: Tensor, scales: Tensor) -> Tensor:
        whole = w.bitcast(dtypes.int8) if bits == 8 else (w & 15).stack(w >> 4, dim=-1).reshape(n, k)
        scaled = (whole.cast(dtype) - (8 if bits == 4 else 0)).reshape(n, k // group, group) * scales.reshape(n, -1, 1)
        return (x.cast(dtypes.float32) @ scaled.reshape(n, k).cast(dtypes.float32).T).cast(dtype)

    scales = 2.0 ** s.numbers.integers(-2, 2, (n, k // group))
    arrays = s.array((rows, k), dtype), weights, scales.astype(s.array((), dtype).dtype)
    return Program(f"packed {dtype.name} {(rows, n, k)} of {bits} bits by {group}", build, arrays)


def heads(s: Source) -> Program:
    """Parts of rows that become rows of their own, turned, joined and put back."""
    dtype = s.one(dtypes.float32, *HALF_PRECISION, dtypes.int8, dtypes.int64)
    batch, length, count, depth = s.one(1, 2, 3), s.one(1, 5, 8, 33), s.one(1, 2, 3, 8), 2 * s.one(1, 2, 3, 4, 8, 12)
    how = s.one("split", "merged", "rotated", "joined", "padded", "interleaved")

    def build(x: Tensor, row: Tensor) -> Tensor:
        q, k = (part.reshape(batch, length, count, depth).permute(0, 2, 1, 3) for part in x.chunk(2, -1))
        match how:
            case "split":
                return q.contiguous() + k
            case "merged":
                return (q.contiguous() * 2).permute(0, 2, 1, 3).reshape(batch, length, count * depth) + row
            case "rotated":
                one, two = q.chunk(2, -1)
                c, d = row[: depth // 2], row[depth // 2 : depth]
                return (one * c - two * d).cat(one * d + two * c, dim=-1)
            case "joined":
                return k.cat(q + 1, k[:, :, :1], dim=2)
            case "padded":
                return q.pad(((0, 0), (0, 0), (1, 2), (2, 0))).contiguous()
        return q.stack(k, dim=-1).reshape(batch, count, length, 2 * depth)

    arrays = s.array((batch, length, 2 * count * depth), dtype), s.array((count * depth,), dtype)
    return Program(f"heads {dtype.name} {(batch, length, count, depth)} {how}", build, arrays)


def pointwise(s: Source) -> Program:
    """A convolution of 1 x 1, which is a product of matrices, between others; or one of its gradients."""
    dtype, stride, which = s.one(*FLOATS, dtypes.bfloat16), s.one(1, 1, 2), s.one(0, 0, 1, 2)
    channels, out, size = s.one(3, 8, 16, 40, 64), s.one(4, 8, 24, 64), s.one(1, 2, 5, 8, 14)
    window, after = s.one(1, 1, 1, 3), s.one("", "residual", "norm", "again")

    def build(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
        y = x.conv2d(w, bias, stride=stride, padding=window // 2)
        if after == "residual":
            y = (y + y.flip(-1)).relu()
        elif after == "norm":
            y = y * bias.reshape(1, -1, 1, 1) - y.max((0, 2, 3), keepdim=True)
        elif after == "again":
            y = y.relu().clamp(0, 4).conv2d(w.reshape(out, -1)[:, :1].reshape(1, out, 1, 1))
        return (y.cast(dtypes.float32) * y.detach().sign()).sum().gradient(x, w)[which - 1] if which else y

    shapes = (s.one(1, 2, 4), channels, size, size + 1), (out, channels, window, window), (out,)
    name = f"pointwise {dtype.name} {shapes[:2]} stride {stride} {after!r} gradient {which}"
    # Not exact: sums of halves that were rounded before, gradients that equal maxima share.
    exact = after != "norm" if dtype is dtypes.float32 else not (which or after)
    return Program(name, build, tuple(s.array(shape, dtype) for shape in shapes), 0.0 if exact else UNIT[dtype])


def attention_by_hand(s: Source) -> Program:
    """Heads of one array, scores, a mask, a softmax: written out; and a gradient of it."""
    dtype, batch, count, groups = s.one(*FLOATS, dtypes.bfloat16), s.one(1, 2), s.one(1, 2, 4), s.one(1, 1, 2)
    length, depth = s.one(1, 16, 33, 64, 100), s.one(8, 16, 32, 64)
    mask, which = s.one("", "causal", "bias", "window"), s.one(0, 0, 0, 1)

    def build(x: Tensor, other: Tensor) -> Tensor:
        rows = x.reshape(batch, length, 3 * count * groups, depth).permute(0, 2, 1, 3)
        q, k, v = (part.contiguous() if groups == 1 else part for part in rows.chunk(3, 1))
        if groups > 1:
            k, v = (part[:, :count].repeat_interleave(groups, dim=1) for part in (k, v))
        scores = q @ k.transpose(-1, -2) * (depth**-0.5)
        i, j = Tensor.arange(length, device=x.device).reshape(-1, 1), Tensor.arange(length, device=x.device)
        if mask == "bias":
            scores = scores + other[:length, :length]
        elif mask:
            seen = j <= i if mask == "causal" else (j <= i) & (j > i - 20)
            scores = seen.where(scores, -float("inf"))
        y = (scores.softmax(-1) @ v).permute(0, 2, 1, 3).reshape(batch, length, -1)
        return (y * x[..., : y.shape[-1]].detach()).sum().gradient(x)[0] if which else y

    arrays = s.normal((batch, length, 3 * count * groups * depth), dtype), s.normal((100, 100), dtype)
    name = f"attention by hand {dtype.name} {(batch, count, groups, length, depth)} {mask!r} gradient {which}"
    return Program(name, build, arrays, 2 * UNIT[dtype])


def layer(s: Source) -> Program:
    """A norm, two products with an activation between them, and what was there before."""
    dtype, rows, width, hidden = s.one(*FLOATS), s.one(1, 5, 32, 100), s.one(16, 64, 96), s.one(24, 64, 200)
    norm, act, which = s.one("layernorm", "rms", ""), s.one("gelu", "silu", "relu"), s.one(0, 0, 1, 2)

    def build(x: Tensor, up: Tensor, down: Tensor) -> Tensor:
        h = x.layernorm() if norm == "layernorm" else x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
        y = x + getattr((h if norm else x) @ up, act)() @ down
        return y.square().sum().gradient(x, up)[which - 1] if which else y

    shapes = (rows, width), (width, hidden), (hidden, width)
    arrays = tuple(s.normal(shape, dtype) / 4 for shape in shapes)
    return Program(f"layer {dtype.name} {shapes[:2]} {norm} {act} gradient {which}", build, arrays, 3 * UNIT[dtype])


KINDS = (linear, linear, packed, heads, heads, pointwise, pointwise, attention_by_hand, layer)


def make_part(seed: int) -> Program:
    """The program of that number."""
    source = Source(seed)
    kind: Callable[[Source], Program] = source.one(*KINDS)
    return kind(source)
