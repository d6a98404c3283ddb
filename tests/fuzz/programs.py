"""Random programs of tensors, of what GPUs have kernels of their own for: `make_program(seed)` is always the same one.

Most compute with small whole numbers, whose sums are exact in any order; the others say how far results may be off.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from whit import Tensor
from whit.dtype import DType, dtypes
from whit.ir.interpret import numpy_dtype

SIZES = (1, 2, 3, 5, 8, 16, 17, 31, 32, 33, 63, 64, 65, 96, 100, 127, 128, 129, 200)
HALF_PRECISION = (dtypes.float16, dtypes.bfloat16)
MOST_ELEMENTS = 40_000
UNIT = {dtypes.float32: 1e-5, dtypes.float16: 4e-3, dtypes.bfloat16: 3e-2}  # relative to the largest element


@dataclass(frozen=True, slots=True)
class Program:
    """A function of tensors, and arrays for them."""

    name: str
    build: Callable[..., Tensor]
    arrays: tuple[np.ndarray, ...]
    tolerance: float = 0.0  # 0: every bit

    def run(self, device: str) -> np.ndarray:
        """Its result, computed on a device."""
        return self.build(*(Tensor(array, device=device) for array in self.arrays)).numpy()


class Source:
    """Random choices, and arrays of small whole numbers."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)

    def one(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def size(self, most: int = SIZES[-1]) -> int:
        return int(self.random.choice([size for size in SIZES if size <= most]))

    def shape(self) -> tuple[int, ...]:
        shape = [self.size() for _ in range(self.one(1, 2, 2, 3))]
        while np.prod(shape) > MOST_ELEMENTS:
            shape[self.random.randrange(len(shape))] = self.size(16)
        return tuple(shape)

    def array(self, shape: tuple[int, ...], dtype: DType = dtypes.float32) -> np.ndarray:
        return self.numbers.integers(0 if dtype.is_unsigned else -4, 5, shape).astype(numpy_dtype(dtype))

    def normal(self, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
        return self.numbers.standard_normal(shape).astype(numpy_dtype(dtype))


def product(s: Source) -> Program:
    """Plain, turned or cut operands, with something before and after."""
    dtype = s.one(*HALF_PRECISION, *HALF_PRECISION, dtypes.float32, dtypes.int8, *dtypes.fp8s)
    m, n, k = s.size(), s.size(), s.size()
    batch = (s.one(2, 3),) if s.one(0, 0, 1) else ()
    turns, starts, before, after = s.one(0, 1, 2, 3), s.one(0, 0, 1, 8), s.one("", "", "scale"), s.one(*AFTER)
    shapes = ((k, m + starts) if turns & 1 else (m + starts, k), (n, k) if turns & 2 else (k, n))

    def build(a: Tensor, b: Tensor) -> Tensor:
        a, b = (a.transpose(-1, -2) if turns & 1 else a), (b.transpose(-1, -2) if turns & 2 else b)
        a = a[..., starts:, :]
        result = (a * 2 if before else a) @ b
        return AFTER[after](result)

    name = f"product {dtype.name} {(*batch, m, n, k)} turns {turns} from {starts} {before} {after}"
    return Program(name, build, tuple(s.array((*batch, *shape), dtype) for shape in shapes))


AFTER: dict[str, Callable[[Tensor], Tensor]] = {
    "": lambda x: x,
    "relu": lambda x: (x + 1).relu() * 2,
    "wider": lambda x: x.cast(dtypes.float32) + 0.5,
    "columns": lambda x: x + x[..., :1, :],
    "turned": lambda x: x.transpose(-1, -2).contiguous(),
    "sum": lambda x: x.cast(dtypes.float32).sum(-1),
    "largest": lambda x: x.max(-2),
}


def convolution(s: Source) -> Program:
    """A convolution or one of its gradients."""
    dtype, groups, window = s.one(dtypes.float32, *HALF_PRECISION), s.one(1, 1, 2), s.one(1, 2, 3)
    stride, padding, which = s.one(1, 1, 2), s.one(0, 1), s.one(0, 0, 1, 2)
    channels, out, size = groups * s.one(1, 3, 8, 16), groups * s.one(1, 5, 8, 32), s.one(5, 8, 14, 17)

    def build(x: Tensor, w: Tensor) -> Tensor:
        y = x.conv2d(w, groups=groups, stride=stride, padding=padding)
        return (y.cast(dtypes.float32) * y.detach().sign()).sum().gradient(x, w)[which - 1] if which else y

    arrays = (s.one(1, 2), channels, size, size + 1), (out, channels // groups, window, window)
    name = f"convolution {dtype.name} {arrays} groups {groups} stride {stride} padding {padding} gradient {which}"
    return Program(name, build, tuple(s.array(shape, dtype) for shape in arrays))


def reduction(s: Source) -> Program:
    """Along some of the axes, and what is left against what was there."""
    dtype, shape = s.one(dtypes.float32, *HALF_PRECISION, dtypes.int32, dtypes.int64, dtypes.uint8), s.shape()
    axes = tuple(axis for axis in range(len(shape)) if s.one(0, 1)) or (s.random.randrange(len(shape)),)
    how, again = s.one("sum", "max", "min", "argmax", "any"), s.one(0, 0, 1)

    def build(x: Tensor) -> Tensor:
        if how == "argmax":
            return x.argmax(axes[0])
        if how == "any":
            return (x > 3).any(axes)
        return x - getattr(x, how)(axes, keepdim=True) if again else getattr(x, how)(axes)

    return Program(f"{how} {dtype.name} {shape} along {axes} again {again}", build, (s.array(shape, dtype),))


def scan(s: Source) -> Program:
    """From one end or the other, of something that may be turned."""
    dtype, shape = s.one(dtypes.float32, dtypes.bfloat16, dtypes.int32, dtypes.int64), s.shape()
    if s.one(0, 0, 1):
        shape = (s.one(1, 2), s.one(1000, 3001, 9000))
    axis, how, flips = s.random.randrange(len(shape)), s.one("cumsum", "cummax"), s.one(0, 1)

    def build(x: Tensor) -> Tensor:
        x = x.flip(axis) if flips else x
        found = getattr(x.cast(dtypes.float32) if dtype is dtypes.bfloat16 else x, how)(axis)
        return found[0] if isinstance(found, tuple) else found

    return Program(f"{how} {dtype.name} {shape} along {axis} flips {flips}", build, (s.array(shape, dtype),))


def order(s: Source) -> Program:
    """Sorting, and the largest few."""
    dtype, shape = s.one(dtypes.float32, dtypes.int32, dtypes.int8, dtypes.float16), s.shape()
    axis, largest, count = s.random.randrange(len(shape)), s.one(True, False), s.one(0, 1, 3)

    def build(x: Tensor) -> Tensor:
        if count:
            return x.topk(min(count, shape[axis]), axis, largest)[0]
        values, places = x.sort(axis, largest)
        return values + places

    return Program(f"order {dtype.name} {shape} along {axis} {largest} {count}", build, (s.array(shape, dtype),))


def rows_by_number(s: Source) -> Program:
    """Rows taken, written or added by their numbers."""
    dtype, how = s.one(dtypes.float32, *HALF_PRECISION, dtypes.int32), s.one("take", "gradient", "sum", "amax", "set")
    rows, columns, count = s.size(), s.size(), s.size()
    numbers = s.numbers.integers(0, rows, count).astype(np.int32)

    def build(x: Tensor, y: Tensor, i: Tensor) -> Tensor:
        if how == "take":
            return x[i] * 2 + y
        if how == "gradient":
            x = x.cast(dtypes.float32)
            return (x[i] * y.cast(dtypes.float32)).sum().gradient(x)[0]
        if how == "set":
            held = x.contiguous().realize()
            held[i[:1]] = y[:1]
            return held
        return x.scatter_reduce(0, i.reshape(count, 1).expand(count, columns), y, how)

    arrays = (s.array((rows, columns), dtype), s.array((count, columns), dtype), numbers)
    return Program(f"rows {how} {dtype.name} {(rows, columns, count)}", build, arrays)


def movement(s: Source) -> Program:
    """Axes in another order, cut, filled up and joined."""
    dtype, shape = s.one(dtypes.float32, dtypes.bfloat16, dtypes.bool, dtypes.int64, dtypes.uint8), s.shape()
    axes = list(range(len(shape)))
    s.random.shuffle(axes)
    cut, pad = s.one(0, 0, 1), s.one(0, 0, 2)

    def build(x: Tensor) -> Tensor:
        x = x.permute(*axes)[..., cut:]
        return x.pad(tuple((pad, 1) for _ in axes)).contiguous() if pad else x.contiguous().cat(x)

    return Program(f"movement {dtype.name} {shape} by {axes} cut {cut} pad {pad}", build, (s.array(shape, dtype),))


def attention(s: Source) -> Program:
    """Attention, or a gradient of it."""
    dtype, is_causal, which = s.one(*HALF_PRECISION, dtypes.float32), s.one(True, False), s.one(0, 0, 1, 2, 3)
    heads, queries, depth = (s.one(1, 2), s.one(1, 3)), s.one(16, 40, 64, 70, 128), s.one(16, 32, 64, 80)
    keys = queries if is_causal else s.one(33, 64, 96)

    def build(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out = q.scaled_dot_product_attention(k, v, is_causal=is_causal)
        if not which:
            return out
        return out.gradient(q, k, v, gradient=q.detach())[which - 1]

    shapes = (*heads, queries, depth), (*heads, keys, depth), (*heads, keys, depth)
    name = f"attention {dtype.name} {shapes[:2]} causal {is_causal} gradient {which}"
    return Program(name, build, tuple(s.normal(shape, dtype) for shape in shapes), UNIT[dtype])


def rows_of_numbers(s: Source) -> Program:
    """Functions of whole rows."""
    dtype, how = (
        s.one(dtypes.float32, *HALF_PRECISION),
        s.one("softmax", "log_softmax", "logsumexp", "layernorm", "std"),
    )
    shape = (s.size(64), s.one(7, 32, 64, 100, 257, 768, 1025, 4097))
    build: Callable[[Tensor], Tensor] = lambda x: x.layernorm() if how == "layernorm" else getattr(x, how)(-1)  # noqa: E731
    return Program(f"{how} {dtype.name} {shape}", build, (s.normal(shape, dtype),), UNIT[dtype])


KINDS = (*(product,) * 3, convolution, reduction, scan, order, rows_by_number, movement, attention, rows_of_numbers)


def make_program(seed: int) -> Program:
    """The program of that number."""
    source = Source(seed)
    kind: Callable[[Source], Program] = source.one(*KINDS)
    return kind(source)


def difference(program: Program, expected: np.ndarray, found: np.ndarray) -> str:
    """What differs, or nothing."""
    if (expected.shape, expected.dtype) != (found.shape, found.dtype):
        return f"{found.dtype}{found.shape} instead of {expected.dtype}{expected.shape}"
    a, b = expected.astype(np.float64), found.astype(np.float64)
    allowed = program.tolerance * max(float(np.abs(a).max(initial=0.0)), 1.0)
    bad = ~((np.abs(a - b) <= allowed) | (a == b) | (np.isnan(a) & np.isnan(b)))
    if not bad.any():
        return ""
    where = tuple(int(k[0]) for k in np.nonzero(bad))
    return f"{int(bad.sum())} of {bad.size} differ, first at {where}: {found[where]!r} instead of {expected[where]!r}"
