"""`jax.random`: random numbers of keys. The same key gives the same numbers, and the numbers are those of JAX.

    key = random.key(0)
    key, one = random.split(key)
    random.normal(one, (2, 3))

A key is two words of 32 bits: a tensor of shape (2,), and (n, 2) of n keys. Nothing is counted, so that draws can be
mapped, captured and repeated; the draws of `Tensor.manual_seed` are others. The bits are those of Threefry-2x32 at the
places 0, 1, ... (docs/random.md), as JAX has them with `jax_threefry_partitionable`, its default.
"""

from __future__ import annotations

import math
from typing import Any

from whit.dtype import DType, dtypes, to_dtype
from whit.errors import ArgumentError, ShapeError
from whit.ir.uop import UOp
from whit.tensor import Tensor
from whit.tensor.core import broadcast_scalar
from whit.tensor.graphs.threefry import block

_WORD = 2**32 - 1


def key(seed: Any, *, impl: Any = None) -> Tensor:
    """The key of a seed."""
    if isinstance(seed, Tensor):
        seed = int(seed.item())
    if isinstance(seed, bool) or not hasattr(seed, "__index__"):
        raise ArgumentError(f"random.key: {seed!r:.60} is no seed", fix="Use an integer.")
    number = seed.__index__()
    high = number >> 32 & _WORD if number >= 2**31 or number < -(2**31) else 0
    return Tensor([high, number & _WORD], dtype=dtypes.uint32)


PRNGKey = key


def key_data(keys: Tensor) -> Tensor:
    """The words of keys: here they are nothing else."""
    return keys


wrap_key_data = key_data


def _halves(key: Tensor, high: UOp, low: UOp) -> tuple[UOp, UOp]:
    if not isinstance(key, Tensor) or key.shape != (2,) or key.dtype is not dtypes.uint32:
        what = f"shape {key.shape}" if isinstance(key, Tensor) else f"{key!r:.60}"
        raise ShapeError(f"random: {what} is no key", fix="Use random.key(0), or one row of random.split(key).")
    first, second = (key.uop.shrink([(i, 1)]).reshape(()) for i in range(2))
    return block(first, second, high, low)


def _places(shape: tuple[int, ...]) -> tuple[UOp, UOp]:
    """The numbers of the elements, as two words."""
    count = math.prod(shape)
    if count > _WORD:
        raise ShapeError(f"random: {count} numbers of one key", fix="Split the key.")
    low = UOp.arange(count, dtypes.uint32).reshape(shape)
    return broadcast_scalar(low.constant(0), shape), low


def _words(key: Tensor, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    high, low = _halves(key, *_places(shape))
    return key._wrap(high), key._wrap(low)


def split(key: Tensor, num: Any = 2) -> Tensor:
    """So many new keys: a tensor whose rows they are."""
    shape = (num,) if isinstance(num, int) else tuple(num)
    high, low = _words(key, shape)
    return high.stack(low, dim=-1)


def fold_in(key: Tensor, data: Any) -> Tensor:
    """A new key of a key and a number."""
    number = data.cast(dtypes.uint32) if isinstance(data, Tensor) else Tensor(int(data) & _WORD, dtype=dtypes.uint32)
    high, low = _halves(key, number.uop.constant(0), number.uop)
    return key._wrap(high).stack(key._wrap(low), dim=-1)


def _shape(shape: Any) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def bits(key: Tensor, shape: Any = (), dtype: Any = dtypes.uint32) -> Tensor:
    """Random bits."""
    wanted = to_dtype(dtype)
    high, low = _words(key, _shape(shape))
    if wanted.itemsize == 8:
        return (high.cast(dtypes.uint64) << 32) | low.cast(dtypes.uint64)
    return (high ^ low).cast(wanted)


# ---- floats


def _float(dtype: Any) -> DType:
    found = dtypes.default_float if dtype is None else to_dtype(dtype)
    if not found.is_float:
        raise ArgumentError(f"random: {found.name} is no float", fix="As in dtype=jnp.float32.")
    return found


def uniform(key: Tensor, shape: Any = (), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0) -> Tensor:
    """From minval on, below maxval."""
    wanted = _float(dtype)
    if wanted is dtypes.float64:
        mantissa = (bits(key, shape, dtypes.uint64) >> 12) | 0x3FF0000000000000
        unit = mantissa.bitcast(dtypes.float64) - 1.0
    else:
        unit = ((bits(key, shape) >> 9) | 0x3F800000).bitcast(dtypes.float32) - 1.0
    least = minval if isinstance(minval, Tensor) else Tensor(minval, dtype=unit.dtype)
    result: Tensor = (unit * (maxval - least) + least).maximum(least).cast(wanted)
    return result


def normal(key: Tensor, shape: Any = (), dtype: Any = None) -> Tensor:
    """Of mean 0 and variance 1."""
    wanted = _float(dtype)
    least = -0.9999999999999999 if wanted is dtypes.float64 else -0.99999994
    exact = wanted if wanted is dtypes.float64 else dtypes.float32
    return (uniform(key, shape, exact, least, 1.0).erfinv() * math.sqrt(2)).cast(wanted)


def truncated_normal(key: Tensor, lower: Any, upper: Any, shape: Any = None, dtype: Any = None) -> Tensor:
    """The same, between two limits."""
    wanted = _float(dtype)
    low, high = (math.erf(float(limit) / math.sqrt(2)) for limit in (lower, upper))
    found = uniform(key, () if shape is None else shape, wanted, low, high).erfinv() * math.sqrt(2)
    inside = 1 - 1e-7
    return found.clamp(float(lower) * inside, float(upper) * inside)


def exponential(key: Tensor, shape: Any = (), dtype: Any = None) -> Tensor:
    """Waiting times, of mean 1."""
    return -(-uniform(key, shape, dtype)).log1p()


def gumbel(key: Tensor, shape: Any = (), dtype: Any = None, mode: Any = None) -> Tensor:
    """The largest of many."""
    return -(-uniform(key, shape, dtype, 1.1754943508222875e-38, 1.0).log()).log()


def laplace(key: Tensor, shape: Any = (), dtype: Any = None) -> Tensor:
    """Two exponential tails."""
    found = uniform(key, shape, dtype, -0.99999994, 1.0)
    return found.sign() * (-found.abs()).log1p()


def logistic(key: Tensor, shape: Any = (), dtype: Any = None) -> Tensor:
    """The logit of uniform numbers."""
    found = uniform(key, shape, dtype, 1.1754943508222875e-38, 1.0)
    return (found / (1 - found)).log()


def cauchy(key: Tensor, shape: Any = (), dtype: Any = None) -> Tensor:
    """The tangent of a uniform angle."""
    return ((uniform(key, shape, dtype, 1.1920929e-07, 1.0) - 0.5) * math.pi).tan()


def rademacher(key: Tensor, shape: Any = (), dtype: Any = dtypes.int32) -> Tensor:
    """-1 or 1."""
    return (bernoulli(key, 0.5, shape).cast(dtypes.int32) * 2 - 1).cast(to_dtype(dtype))


def multivariate_normal(key: Tensor, mean: Tensor, cov: Tensor, shape: Any = (), dtype: Any = None) -> Tensor:
    """Normal vectors of a mean and a covariance."""
    triangle = cov.cholesky()
    drawn = normal(key, (*_shape(shape or ()), mean.shape[-1]), dtype)
    return mean + drawn @ triangle.mT


# ---- whole numbers and choices


def bernoulli(key: Tensor, p: Any = 0.5, shape: Any = None, *, mode: str = "low") -> Tensor:
    """True with the probability p."""
    size = shape if shape is not None else p.shape if isinstance(p, Tensor) else ()
    result: Tensor = uniform(key, size) < p
    return result


def randint(key: Tensor, shape: Any, minval: Any, maxval: Any, dtype: Any = dtypes.int32) -> Tensor:
    """From minval on, below maxval."""
    wanted = to_dtype(dtype)
    one, other = split(key)
    high, low = bits(one, shape), bits(other, shape)
    if isinstance(minval, int) and isinstance(maxval, int):
        span = Tensor(max(maxval - minval, 1) & _WORD, dtype=dtypes.uint32)
    else:
        wide = Tensor(maxval) if not isinstance(maxval, Tensor) else maxval
        span = (wide - minval).maximum(1).cast(dtypes.uint32)
    factor = (Tensor(2**16, dtype=dtypes.uint32) % span) ** 2 % span
    offset = ((high % span) * factor + low % span) % span
    result: Tensor = offset.cast(wanted) + minval
    return result


def permutation(key: Tensor, x: Any, axis: int = 0, independent: bool = False) -> Tensor:
    """0 ... x - 1, or the parts of x along an axis, in random order."""
    if isinstance(x, int):
        return _shuffled(key, Tensor.arange(x, dtype=dtypes.int32))
    order = _shuffled(key, Tensor.arange(x.shape[axis], dtype=dtypes.int32))
    result: Tensor = x.index_select(axis, order)
    return result


def _shuffled(key: Tensor, x: Tensor) -> Tensor:
    """Sorted by random numbers, so often that equal ones do not matter."""
    count = max(1, x.numel())
    for _ in range(math.ceil(3 * math.log(count) / math.log(_WORD)) if count > 1 else 0):
        key, one = split(key)
        x = x[bits(one, x.shape).argsort()]
    return x


def choice(
    key: Tensor, a: Any, shape: Any = (), replace: bool = True, p: Any = None, axis: int = 0, mode: Any = None
) -> Tensor:
    """Some of 0 ... a - 1, or of the parts of a."""
    size = a if isinstance(a, int) else a.shape[axis]
    wanted = _shape(shape)
    count = math.prod(wanted)
    if not replace and count > size:
        raise ArgumentError(f"random.choice: {count} of {size} without replacement", fix="Use replace=True.")
    if p is not None and replace:
        sums = p.cumsum(axis=0)
        places = sums.searchsorted(sums[-1] * (1 - uniform(key, wanted)))
    elif p is not None:
        places = (-gumbel(key, (size,)) - p.log()).argsort()[:count].reshape(wanted)
    elif replace:
        places = randint(key, wanted, 0, size)
    else:
        places = permutation(key, size)[:count].reshape(wanted)
    result: Tensor = (
        places if isinstance(a, int) else a.index_select(axis, places.flatten()).reshape(*wanted, *a.shape[1:])
    )
    return result


def categorical(key: Tensor, logits: Tensor, axis: int = -1, shape: Any = None, **options: Any) -> Tensor:
    """Positions, with probabilities of softmax(logits)."""
    axis = axis - logits.ndim if axis >= 0 else axis
    rest = tuple(size for place, size in enumerate(logits.shape) if place != axis % logits.ndim)
    wanted = rest if shape is None else _shape(shape)
    extra = wanted[: len(wanted) - len(rest)]
    drawn = gumbel(key, (*extra, *logits.shape), logits.dtype)
    return (drawn + logits).argmax(axis)


def poisson(key: Tensor, lam: Any, shape: Any = None, dtype: Any = dtypes.int32) -> Tensor:
    """Counts, by arrivals: not the numbers of JAX."""
    rate = lam if isinstance(lam, Tensor) else Tensor(float(lam))
    size = rate.shape if shape is None else _shape(shape)
    most = float(rate.max().item())
    waiting = exponential(key, (int(most + 10 * most**0.5 + 20), *size)).cumsum(axis=0)
    return (waiting < rate).sum(axis=0).cast(to_dtype(dtype))


def dirichlet(key: Tensor, alpha: Tensor, shape: Any = None, dtype: Any = None) -> Tensor:
    """Shares that sum to 1: not the numbers of JAX."""
    drawn = gamma(key, alpha, None if shape is None else (*_shape(shape), alpha.shape[-1]), dtype)
    return drawn / drawn.sum(-1, keepdim=True)


def gamma(key: Tensor, a: Any, shape: Any = None, dtype: Any = None) -> Tensor:
    """Gamma numbers by Marsaglia and Tsang's method, eight tries each: not the numbers of JAX, and no gradient by a."""
    given = a if isinstance(a, Tensor) else Tensor(float(a))
    size = given.shape if shape is None else _shape(shape)
    keys = split(key, 3)
    boosted = (given < 1).where(given + 1, given).expand(*size)
    d = boosted - 1 / 3
    x = normal(keys[0], (8, *size))
    v = (1 + x / (9 * d).sqrt()) ** 3
    u = uniform(keys[1], (8, *size), None, 1e-38, 1.0)
    fits = (v > 0) & (u.log() < 0.5 * x * x + d - d * v + d * v.clamp(min_=1e-38).log())
    first = fits.cast(dtypes.int32).argmax(0, keepdim=True)
    found = (d * v).gather(0, first).squeeze(0)
    power = uniform(keys[2], size, None, 1e-38, 1.0) ** (1 / given)
    return (given < 1).where(found * power, found)


def beta(key: Tensor, a: Any, b: Any, shape: Any = None, dtype: Any = None) -> Tensor:
    """Of two gamma numbers, the share of one: not the numbers of JAX."""
    one, other = split(key)
    x, y = gamma(one, a, shape), gamma(other, b, shape)
    return x / (x + y)


def lognormal(key: Tensor, sigma: Any = 1.0, shape: Any = (), dtype: Any = None) -> Tensor:
    """Whose logarithm is normal."""
    result: Tensor = (normal(key, shape, dtype) * sigma).exp()
    return result


def rayleigh(key: Tensor, scale: Any, shape: Any = (), dtype: Any = None) -> Tensor:
    """The length of two normal numbers."""
    found: Tensor = (uniform(key, shape, dtype).log() * -2).sqrt() * scale
    return found


def pareto(key: Tensor, b: Any, shape: Any = (), dtype: Any = None) -> Tensor:
    """A power of uniform numbers."""
    result: Tensor = (exponential(key, shape, dtype) / b).exp()
    return result


def weibull_min(key: Tensor, scale: Any, concentration: Any, shape: Any = (), dtype: Any = None) -> Tensor:
    """A power of waiting times."""
    found: Tensor = (-(-uniform(key, shape, dtype)).log1p()) ** (1.0 / concentration) * scale
    return found


def geometric(key: Tensor, p: Any, shape: Any = (), dtype: Any = dtypes.int32) -> Tensor:
    """How many tries until one succeeds."""
    found = (-uniform(key, shape)).log1p() / (-tensor_or(p)).log1p()
    return (found.floor() + 1).cast(to_dtype(dtype))


def tensor_or(value: Any) -> Tensor:
    """A number as a tensor."""
    return value if isinstance(value, Tensor) else Tensor(float(value))


def clone(key: Tensor) -> Tensor:
    """The same key."""
    return key


# ---- made of the others: not the numbers of JAX


def chisquare(key: Tensor, df: Any, shape: Any = None, dtype: Any = None) -> Tensor:
    """A sum of squares of normal numbers."""
    return gamma(key, tensor_or(df) / 2, shape, dtype) * 2


def t(key: Tensor, df: Any, shape: Any = (), dtype: Any = None) -> Tensor:
    """Student's distribution."""
    one, other = split(key)
    found: Tensor = normal(one, shape, dtype) / (chisquare(other, df, shape) / df).sqrt()
    return found


def f(key: Tensor, dfnum: Any, dfden: Any, shape: Any = None, dtype: Any = None) -> Tensor:
    """A ratio of two mean squares."""
    one, other = split(key)
    found: Tensor = (chisquare(one, dfnum, shape) / dfnum) / (chisquare(other, dfden, shape) / dfden)
    return found


def loggamma(key: Tensor, a: Any, shape: Any = None, dtype: Any = None) -> Tensor:
    """The logarithm of gamma numbers."""
    return gamma(key, a, shape, dtype).log()


def maxwell(key: Tensor, shape: Any = (), dtype: Any = None) -> Tensor:
    """The length of three normal numbers."""
    return normal(key, (*_shape(shape), 3), dtype).square().sum(-1).sqrt()


def double_sided_maxwell(key: Tensor, loc: Any, scale: Any, shape: Any = (), dtype: Any = None) -> Tensor:
    """The same, with a sign."""
    one, other = split(key)
    found: Tensor = maxwell(one, shape, dtype) * rademacher(other, shape) * scale + loc
    return found


def generalized_normal(key: Tensor, p: float, shape: Any = (), dtype: Any = None) -> Tensor:
    """Whose density falls as exp(-|x|^p)."""
    one, other = split(key)
    return gamma(one, 1 / p, shape, dtype).pow(1 / p) * rademacher(other, shape)


def ball(key: Tensor, d: int, p: float = 2, shape: Any = (), dtype: Any = None) -> Tensor:
    """Points of a ball."""
    one, other = split(key)
    found = generalized_normal(one, p, (*_shape(shape), d), dtype)
    spread = found.abs().pow(p).sum(-1) + exponential(other, shape, dtype)
    return found / spread.pow(1 / p).unsqueeze(-1)


def triangular(key: Tensor, left: float, mode: float, right: float, shape: Any = (), dtype: Any = None) -> Tensor:
    """Between two ends, most often at a mode."""
    found = uniform(key, shape, dtype)
    share = (mode - left) / (right - left)
    below = (found * (right - left) * (mode - left)).sqrt() + left
    above = right - ((1 - found) * (right - left) * (right - mode)).sqrt()
    return (found < share).where(below, above)


def wald(key: Tensor, mean: Any, shape: Any = (), dtype: Any = None) -> Tensor:
    """When a drifting walk first reaches 1."""
    one, other = split(key)
    square = normal(one, shape, dtype).square()
    root = (4 * mean * square + (mean * square) ** 2).sqrt()
    small = mean + mean * mean * square / 2 - mean / 2 * root
    result: Tensor = (uniform(other, shape) <= mean / (mean + small)).where(small, mean * mean / small)
    return result


def binomial(key: Tensor, n: int, p: Any, shape: Any = None, dtype: Any = None) -> Tensor:
    """How often of n times."""
    share = tensor_or(p)
    size = share.shape if shape is None else _shape(shape)
    return (uniform(key, (int(n), *size)) < share).sum(0).cast(_float(dtype))


def multinomial(key: Tensor, n: int, p: Tensor, shape: Any = None, dtype: Any = None) -> Tensor:
    """How often each class came, of n times."""
    drawn = categorical(key, p.log(), shape=(int(n), *p.shape[:-1]))
    return (drawn.unsqueeze(-1) == Tensor.arange(p.shape[-1])).sum(0).cast(_float(dtype))


def orthogonal(key: Tensor, n: int, shape: Any = (), dtype: Any = None, m: int | None = None) -> Tensor:
    """Matrices of orthogonal columns, or rows."""
    rows, columns = n, n if m is None else m
    q, r = normal(key, (*_shape(shape), max(rows, columns), min(rows, columns)), dtype).qr()
    q = q * r.diagonal(0, -2, -1).sign().unsqueeze(-2)
    return q if rows >= columns else q.mT
