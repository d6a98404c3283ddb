"""Tensors of random numbers: uniform, normal, integers, and the usual initial weights of layers.

    Tensor.manual_seed(42)
    Tensor.rand(2, 3); Tensor.randn(4, dtype="float16"); Tensor.randint(5, low=1, high=7)

Numbers are lazy like everything else: arithmetic on positions (`threefry`, `uniform`) that fuses into whatever uses
them. A program that draws the same shapes in the same order gets the same numbers, on any device, whatever is realised
when (docs/random.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self

from whit.dtype import DType, DTypeLike, convert, dtypes, part_dtype, round_float, to_dtype
from whit.engine.devices.device import usable
from whit.engine.programs.overlay import current
from whit.engine.realize.store_once import store_when_computed
from whit.errors import ArgumentError, DTypeError
from whit.ir.op import Shape
from whit.ir.sizes import settled, value_now
from whit.ir.uop import UOp, const
from whit.names import unknown_argument
from whit.tensor.batches import drawn
from whit.tensor.core import check_number, storable
from whit.tensor.graphs import uniform
from whit.tensor.graphs.complex_functions import complex_of
from whit.tensor.graphs.threefry import next_draw, seed_with, set_state, state, words
from whit.tensor.graphs.uniform import Words
from whit.tensor.methods.creation import _shape
from whit.tensor.topic import Topic


def _sizes(name: str, shape: tuple[Any, ...]) -> tuple[Any, ...]:
    sizes = _shape(name, shape)
    for size in sizes:
        if value_now(size) is None:
            raise ArgumentError(
                f"{name}: the size {size.expression(20)} has no value",
                fix="How many numbers are drawn decides which come next: bind its variables.",
            )
    return sizes


def _fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """Outputs and inputs of a weight."""
    return (shape[0] if shape else 1), math.prod(shape[1:])


class Sampling(Topic):
    """Constructors of random numbers."""

    __slots__ = ()

    @staticmethod
    def manual_seed(seed: int = 0) -> None:
        """Starts the random numbers of all devices over. Without it they start as after manual_seed(0)."""
        seed_with(seed)

    @classmethod
    def get_rng_state(cls) -> Self:
        """Where the random numbers are: the seed and how many were drawn, as a tensor that can be saved."""
        return cls(list(state()), dtype=dtypes.uint64, device="CPU")

    @staticmethod
    def set_rng_state(new_state: Any) -> None:
        """Random numbers go on as after a `get_rng_state`, in this process or in another one."""
        numbers = new_state.tolist() if hasattr(new_state, "tolist") else new_state
        is_state = isinstance(numbers, list | tuple) and len(numbers) == 2
        if not is_state or not all(isinstance(number, int) and 0 <= number < 2**64 for number in numbers):
            raise ArgumentError(
                f"set_rng_state: {new_state!r:.60} is no state", fix="Give what Tensor.get_rng_state() gave."
            )
        set_state(*numbers)

    @classmethod
    def _draw(cls, shape: tuple[int, ...], device: str | None, blocks: int = 1) -> list[Words]:
        """So many pairs of random words at every position."""

        def draw(shape: Shape) -> list[Words]:
            count = settled(math.prod(shape))
            source = next_draw(settled(blocks * count), usable(device))
            return [words(source, shape, offset=i * count) for i in range(blocks)]

        return drawn(shape, draw)

    @classmethod
    def _drawn_once(cls, uop: UOp, device: str | None, requires_grad: bool | None) -> Self:
        """Numbers that are stored with the first thing that is computed of them."""
        result = cls._fresh(uop, device, requires_grad)
        if current() is None:
            store_when_computed(result)
        return result

    @classmethod
    def _drawn(
        cls, name: str, shape: tuple[int, ...], dtype: DTypeLike | None, kw: dict[str, Any], value: _FloatsOf
    ) -> Self:
        """Floats made of words in float32 or float64, and rounded to the dtype."""
        wanted = _float_dtype(name, dtype)
        inner = wanted if wanted is dtypes.float64 else dtypes.float32
        device, requires_grad = _options(name, kw)
        return cls._drawn_once(value(cls, shape, device, inner).cast(wanted), device, requires_grad)

    @classmethod
    def _of_two(
        cls, draw: Callable[..., Any], shape: tuple[Any, ...], part: DType, kw: dict[str, Any], scale: float = 1.0
    ) -> Self:
        """Complex numbers of which each part is drawn."""
        device, requires_grad = _options(draw.__name__, kw)
        real, imaginary = (draw(*shape, dtype=part, device=device).uop * scale for _ in range(2))
        return cls._drawn_once(complex_of(real, imaginary), device, requires_grad)

    # ---- the three that everything else is made of

    @classmethod
    def rand(cls, *shape: Any, dtype: DTypeLike | None = None, **kw: Any) -> Self:
        """Uniform in [0, 1): every multiple of 2**-24 (float64: 2**-53, float16: 2**-11, ...) is equally likely."""
        if (parts := _parts_of(dtype)) is not None:
            return cls._of_two(cls.rand, shape, parts, kw)
        sizes = _sizes("rand", shape)
        wanted = _float_dtype("rand", dtype)
        device, requires_grad = _options("rand", kw)
        (pair,) = cls._draw(sizes, device)
        return cls._drawn_once(uniform.unit(pair, wanted), device, requires_grad)

    @classmethod
    def randn(cls, *shape: Any, dtype: DTypeLike | None = None, **kw: Any) -> Self:
        """Normal, of mean 0 and variance 1; of complex numbers, both parts together."""
        if (parts := _parts_of(dtype)) is not None:
            return cls._of_two(cls.randn, shape, parts, kw, scale=math.sqrt(0.5))
        return cls._drawn("randn", _sizes("randn", shape), dtype, kw, _normal)

    @classmethod
    def randint(
        cls, *shape: Any, low: int = 0, high: int = 10, dtype: DTypeLike | None = dtypes.int32, **kw: Any
    ) -> Self:
        """Integers in [low, high), of any range that fits the dtype. Probabilities are off by less than 2**-32 of
        themselves."""
        _check_bounds_last("randint", "low", "high", shape)
        sizes = _sizes("randint", shape)
        wanted = dtypes.default_int if dtype is None else storable("randint", dtype)
        if not wanted.is_int:
            raise DTypeError(f"randint: {wanted.name} is no integer dtype", fix="Use uniform() for floats.")
        for bound in (low, high):
            if isinstance(bound, bool) or not hasattr(bound, "__index__"):
                raise ArgumentError(f"randint: low={low!r}, high={high!r}", fix="Both are integers.")
        first, last = low.__index__(), high.__index__() - 1
        if first > last:
            raise ArgumentError(f"randint: low={low} is not below high={high}", fix="The range is [low, high).")
        if not wanted.min <= first <= last <= wanted.max:
            raise DTypeError(
                f"randint: [{low}, {high}) does not fit {wanted.name}",
                f"{wanted.name} holds {wanted.min} to {wanted.max}",
                "Use a wider dtype.",
            )
        device, requires_grad = _options("randint", kw)
        size = last - first + 1
        pair, *more = cls._draw(sizes, device, 2 if 2**32 < size < 2**64 else 1)
        number = uniform.below(size, pair, more[0] if more else None)
        if first:
            number = number + const(dtypes.uint64, first % 2**64)
        return cls._drawn_once(number.cast(wanted), device, requires_grad)

    # ---- made of them

    @classmethod
    def uniform(
        cls, *shape: Any, low: float = 0.0, high: float = 1.0, dtype: DTypeLike | None = None, **kw: Any
    ) -> Self:
        """Uniform in [low, high); of an integer dtype, the integers there."""
        _check_bounds_last("uniform", "low", "high", shape)
        check_number("uniform", "low", low)
        check_number("uniform", "high", high)
        wanted = dtypes.default_float if dtype is None else storable("uniform", dtype)
        if wanted.is_int and int(low) == low and int(high) == high:
            return cls.randint(*shape, low=int(low), high=int(high), dtype=wanted, **kw)
        sizes = _sizes("uniform", shape)
        _float_dtype("uniform", wanted)
        if not low < high or math.isinf(high - low):
            raise ArgumentError(f"uniform: low={low}, high={high}", fix="low is less than high, and both are finite.")
        inner = wanted if wanted is dtypes.float64 else dtypes.float32
        device, requires_grad = _options("uniform", kw)
        (pair,) = cls._draw(sizes, device)
        x = uniform.unit(pair, inner) * const(inner, high - low) + const(inner, low)
        # Rounding may reach the upper end, which is excluded.
        result = x.cast(wanted).minimum(const(wanted, _before(wanted, float(high), float(low))))
        return cls._drawn_once(result, device, requires_grad)

    @classmethod
    def normal(
        cls, *shape: Any, mean: float = 0.0, std: float = 1.0, dtype: DTypeLike | None = None, **kw: Any
    ) -> Self:
        """Normal, of this mean and standard deviation."""
        _check_bounds_last("normal", "mean", "std", shape)
        check_number("normal", "mean", mean)
        check_number("normal", "std", std)
        if not std >= 0:
            raise ArgumentError(f"normal: std={std}", fix="A standard deviation is 0 or more.")

        def scaled(cls: type[Sampling], shape: tuple[int, ...], device: str | None, dtype: DType) -> UOp:
            return _normal(cls, shape, device, dtype) * const(dtype, std) + const(dtype, mean)

        return cls._drawn("normal", _sizes("normal", shape), dtype, kw, scaled)

    @classmethod
    def exponential(cls, *shape: Any, rate: float = 1.0, dtype: DTypeLike | None = None, **kw: Any) -> Self:
        """The waiting time for an event that happens `rate` times in a unit of time; never 0."""
        check_number("exponential", "rate", rate)
        if not rate > 0:
            raise ArgumentError(f"exponential: rate={rate}", fix="A rate is more than 0.")

        def waiting(cls: type[Sampling], shape: tuple[int, ...], device: str | None, dtype: DType) -> UOp:
            (pair,) = cls._draw(shape, device)
            return uniform.minus_log(pair, dtype) * const(dtype, 1 / rate)

        return cls._drawn("exponential", _sizes("exponential", shape), dtype, kw, waiting)

    @classmethod
    def gumbel(cls, *shape: Any, dtype: DTypeLike | None = None, **kw: Any) -> Self:
        """-ln(-ln u): the argmax of x + gumbel is i with probability softmax(x)[i]."""

        def gumbel(cls: type[Sampling], shape: tuple[int, ...], device: str | None, dtype: DType) -> UOp:
            (pair,) = cls._draw(shape, device)
            return -uniform.log(uniform.minus_log(pair, dtype))

        return cls._drawn("gumbel", _sizes("gumbel", shape), dtype, kw, gumbel)

    def rand_like(self, dtype: DTypeLike | None = None, device: str | None = None, **kw: Any) -> Self:
        """`rand` in this shape, dtype and device."""
        return type(self).rand(*self.shape, dtype=dtype or self.dtype, device=device or self.device, **kw)

    def randn_like(self, dtype: DTypeLike | None = None, device: str | None = None, **kw: Any) -> Self:
        """`randn` in this shape, dtype and device."""
        return type(self).randn(*self.shape, dtype=dtype or self.dtype, device=device or self.device, **kw)

    # ---- initial weights, of shape (outputs, inputs, *window)

    @classmethod
    def scaled_uniform(cls, *shape: Any, **kw: Any) -> Self:
        """Uniform in [-1, 1) / sqrt(number of elements)."""
        sizes = _sizes("scaled_uniform", shape)
        return cls._symmetric(sizes, max(math.prod(sizes), 1) ** -0.5, kw)

    @classmethod
    def glorot_uniform(cls, *shape: Any, **kw: Any) -> Self:
        """Uniform up to sqrt(6 / (outputs + inputs)), which keeps variances in both directions."""
        sizes = _sizes("glorot_uniform", shape)
        return cls._symmetric(sizes, math.sqrt(6 / max(sum(_fans(sizes)), 1)), kw)

    @classmethod
    def kaiming_uniform(cls, *shape: Any, a: float = 0.01, **kw: Any) -> Self:
        """Uniform, with the variance that a leaky relu of slope `a` keeps."""
        check_number("kaiming_uniform", "a", a)
        sizes = _sizes("kaiming_uniform", shape)
        return cls._symmetric(sizes, math.sqrt(3) * _kaiming(sizes, a), kw)

    @classmethod
    def kaiming_normal(cls, *shape: Any, a: float = 0.01, **kw: Any) -> Self:
        """Normal, with the variance that a leaky relu of slope `a` keeps."""
        check_number("kaiming_normal", "a", a)
        sizes = _sizes("kaiming_normal", shape)
        return cls.normal(*sizes, std=_kaiming(sizes, a), **kw)

    @classmethod
    def _symmetric(cls, sizes: tuple[int, ...], bound: float, kw: dict[str, Any]) -> Self:
        return cls.uniform(*sizes, low=-bound, high=bound, **kw)


_FloatsOf = Callable[[type[Sampling], tuple[int, ...], str | None, DType], UOp]


def _normal(cls: type[Sampling], shape: tuple[int, ...], device: str | None, dtype: DType) -> UOp:
    if dtype is dtypes.float64:
        radius, angle = cls._draw(shape, device, 2)
        return uniform.normal(radius, angle, dtype)
    (pair,) = cls._draw(shape, device)
    return uniform.normal(pair, (pair[1], pair[0]), dtype)


def _kaiming(shape: tuple[int, ...], a: float) -> float:
    return math.sqrt(2 / (1 + a * a) / max(_fans(shape)[1], 1))


def _check_bounds_last(name: str, first: str, second: str, shape: tuple[Any, ...]) -> None:
    """`randint(0, 10, (3,))` is how PyTorch and NumPy have it; here sizes come first, as in `rand`."""
    if len(shape) > 1 and isinstance(shape[-1], tuple | list):
        *numbers, sizes = shape
        named = [f"{word}={number!r}" for word, number in zip((first, second), numbers, strict=False)]
        raise ArgumentError(
            f"{name}: {shape} are no sizes",
            fix=f"Sizes come first, and the rest by name: Tensor.{name}({', '.join([*map(repr, sizes), *named])}).",
        )


def _options(name: str, kw: dict[str, Any]) -> tuple[str | None, bool | None]:
    """device= and requires_grad=; contiguous= says nothing here: what is stored is the scheduler's choice."""
    unknown = set(kw) - {"device", "requires_grad", "contiguous"}
    if unknown:
        raise unknown_argument(name, min(unknown), ("dtype", "device", "requires_grad"))
    return kw.get("device"), kw.get("requires_grad")


def _parts_of(dtype: DTypeLike | None) -> DType | None:
    """The dtype of the parts, if complex numbers are asked for."""
    wanted = None if dtype is None else to_dtype(dtype)
    return part_dtype(wanted) if wanted is not None and wanted.is_complex else None


def _float_dtype(name: str, dtype: DTypeLike | None) -> DType:
    wanted = dtypes.default_float if dtype is None else storable(name, dtype)
    if not wanted.is_float:
        raise DTypeError(f"{name}: {wanted.name} is no float dtype", fix="Use randint() for integers.")
    return wanted


def _before(dtype: DType, high: float, low: float) -> float:
    """The largest float of the dtype that is less than high, or low if that is all there is."""
    step = 2.0 ** -(dtype.mantissa_bits + 1)
    found = float(convert(dtype, high))
    if found >= high:
        found = math.nextafter(high, low) if dtype is dtypes.float64 else round_float(dtype, high - abs(high) * step)
        if found >= high:
            found = round_float(dtype, high - abs(high) * 2 * step)
    return max(found, round_float(dtype, low))
