"""Discrete Fourier transforms, by the names and arguments of NumPy and PyTorch.

    spectrum = x.rfft()                 # float32 (..., n) -> complex64 (..., n // 2 + 1)
    spectrum.irfft(n=n)                 # and back

Inside, a complex number is a last axis of two, as it lies in memory: a transform is a product of real matrices.

A transform of n1 * n2 values is n2 transforms of n1, a multiplication by powers of the n-th root of unity, and n1
transforms of n2 (Cooley and Tukey). Up to 32 values, and for primes up to 128, it is a product with a matrix; larger
primes become a convolution, which is a product of transforms of a length with small factors (Bluestein). A factor is
two kernels. Roots of unity are computed once, in long double, and kept.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, Self

from whit.cache import register_cache
from whit.dtype import DType, complex_dtype, dtypes, least_upper_float, part_dtype
from whit.errors import ArgumentError, ShapeError
from whit.ir import ops
from whit.ir.op import spell_shape
from whit.ir.uop import UOp, const, make
from whit.tensor.core import either
from whit.tensor.engine import from_numpy
from whit.tensor.graphs.complex_functions import as_parts, from_parts
from whit.tensor.topic import Topic

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

DIRECT_LENGTH = 32  # lengths up to this are one product with a matrix
MOST_RADIX = 16  # longer ones are cut into factors of at most this
LARGEST_PRIME = 128  # a prime factor beyond this is a convolution
MOST_TABLES = 200

_tables: dict[tuple[Any, ...], UOp] = {}
register_cache(_tables.clear, "tensor.fourier")


# ---- roots of unity


def _kept(key: tuple[Any, ...], dtype: DType, device: str, make_table: Callable[[], Array]) -> UOp:
    """A table of the dtype on a device, made once."""
    full = (*key, dtype, device)
    found = _tables.get(full)
    if found is None:
        if len(_tables) >= MOST_TABLES:
            _tables.pop(next(iter(_tables)))
        table = make_table().astype("float64" if dtype is dtypes.float64 else "float32")
        found = _tables[full] = from_numpy(table, device)
    return found


def _roots(powers: Array, n: int, sign: int) -> Array:
    """e ** (sign * 2 pi i * power / n) with its parts on a new last axis; quarters of a turn are exact."""
    import numpy as np  # lazy: `import whit` must not load it

    powers = powers % n
    turn = np.where(2 * powers > n, powers - n, powers).astype(np.longdouble) / n
    angle = turn * (8 * sign * np.arctan(np.longdouble(1)))
    parts = np.stack([np.cos(angle), np.sin(angle)], -1)
    return np.where((4 * powers % n == 0)[..., None], np.round(parts), parts)


def _matrix(n: int, sign: int, parts: int) -> Array:
    """(n * parts, n * 2): the transform of n numbers of one or two parts."""
    import numpy as np  # lazy: `import whit` must not load it

    j = np.arange(n)
    real, imaginary = np.moveaxis(_roots(np.outer(j, j), n, sign), -1, 0)  # (j, k)
    from_real = np.stack([real, imaginary], -1)
    from_imaginary = np.stack([-imaginary, real], -1)
    return np.stack([from_real, from_imaginary][:parts], 1).reshape(n * parts, n * 2)


def _factors(complex_numbers: Array) -> Array:
    """(..., 2) -> (2, ..., 2): what a number and its swapped parts are multiplied by, to multiply complex numbers."""
    import numpy as np  # lazy: `import whit` must not load it

    real, imaginary = np.moveaxis(complex_numbers, -1, 0)
    return np.stack([np.stack([real, real], -1), np.stack([-imaginary, imaginary], -1)])


def _twiddles(n1: int, n2: int, sign: int) -> Array:
    """(2, n2, n1, 2): the powers j2 * k1 of the root of n1 * n2."""
    import numpy as np  # lazy: `import whit` must not load it

    return _factors(_roots(np.outer(np.arange(n2), np.arange(n1)), n1 * n2, sign))


def _chirp(n: int, sign: int) -> Array:
    """(2, n, 2): e ** (sign * pi i j**2 / n)."""
    import numpy as np  # lazy: `import whit` must not load it

    return _factors(_roots(np.arange(n) ** 2, 2 * n, sign))


def _filter(n: int, m: int, sign: int) -> Array:
    """(2, m, 2): the transform of the opposite chirp, around 0, over m places; divided by m for the way back."""
    import numpy as np  # lazy: `import whit` must not load it

    chirp = np.zeros((m, 2))
    chirp[:n] = _roots(np.arange(n) ** 2, 2 * n, -sign)
    chirp[m - n + 1 :] = chirp[1:n][::-1]
    spectrum = np.fft.fft(chirp[:, 0] + 1j * chirp[:, 1]) / m
    return _factors(np.stack([spectrum.real, spectrum.imag], -1))


# ---- the transform


def _multiplied(x: UOp, table: UOp) -> UOp:
    """(batch, ..., 2) times the complex numbers of a table (2, ..., 2)."""
    shape = x.shape
    direct, swapped = (
        table.shrink([(i, 1), *((0, n) for n in table.shape[1:])]).reshape((1, *shape[1:])).expand(shape)
        for i in range(2)
    )
    return x * direct + x.flip((len(shape) - 1,)) * swapped


def _split(n: int) -> int:
    """The factor of n to transform first: the largest small one, else the smallest prime; n if it is prime."""
    for factor in range(MOST_RADIX, 1, -1):
        if n % factor == 0:
            return factor
    factor = MOST_RADIX + 1
    while factor * factor <= n:
        if n % factor == 0:
            return factor
        factor += 1
    return n


def transform(x: UOp, sign: int, device: str) -> UOp:
    """(batch, n, parts) -> (batch, n, 2), one or two parts, without a scale; sign -1 is forward."""
    batch, n, parts = x.shape
    n1 = n if n <= DIRECT_LENGTH else _split(n)
    if n1 == n:
        if n > LARGEST_PRIME:
            return _convolved(x, sign, device)
        matrix = _kept(("matrix", n, sign, parts), x.dtype, device, lambda: _matrix(n, sign, parts))
        return _times(x.reshape((batch, n * parts)), matrix).reshape((batch, n, 2))
    n2 = n // n1
    columns = x.reshape((batch, n1, n2, parts)).permute((0, 2, 1, 3)).reshape((batch * n2, n1, parts))
    inner = transform(columns, sign, device).reshape((batch, n2, n1, 2))
    twiddles = _kept(("twiddles", n1, n2, sign), x.dtype, device, lambda: _twiddles(n1, n2, sign))
    rows = _multiplied(inner.stage(), twiddles).permute((0, 2, 1, 3)).reshape((batch * n1, n2, 2))
    outer = transform(rows.stage(), sign, device).reshape((batch, n1, n2, 2))
    return outer.permute((0, 2, 1, 3)).reshape((batch, n, 2))


def _times(x: UOp, matrix: UOp) -> UOp:
    (rows, inner), (_, columns) = x.shape, matrix.shape
    full = (rows, columns, inner)
    left = x.reshape((rows, 1, inner)).expand(full)
    right = matrix.permute((1, 0)).reshape((1, columns, inner)).expand(full)
    return make(ops.MUL, (left, right)).reduce(ops.ADD, (2,))


def _convolved(x: UOp, sign: int, device: str) -> UOp:
    """2jk = j**2 + k**2 - (k - j)**2: a convolution with a chirp, between two multiplications by it."""
    batch, n, parts = x.shape
    m = 1 << (2 * n - 2).bit_length()
    if parts == 1:
        x = x.pad([(0, 0), (0, 0), (0, 1)])
    chirp = _kept(("chirp", n, sign), x.dtype, device, lambda: _chirp(n, sign))
    filtered = _kept(("filter", n, m, sign), x.dtype, device, lambda: _filter(n, m, sign))
    padded = _multiplied(x, chirp).pad([(0, 0), (0, m - n), (0, 0)]).stage()
    spectrum = _multiplied(transform(padded, -1, device).stage(), filtered).stage()
    back = transform(spectrum, 1, device).stage().shrink([(0, batch), (0, n), (0, 2)])
    return _multiplied(back, chirp)


def _whole_spectrum(x: UOp, n: int) -> UOp:
    """(batch, n // 2 + 1, 2) -> (batch, n, 2): the conjugates of all but the first (and of an even n the last)."""
    batch, known, _ = x.shape
    if n < 3:
        return x.shrink([(0, batch), (0, n), (0, 2)])
    rest = x.shrink([(0, batch), (1, n - known), (0, 2)]).flip((1,))
    signs = UOp.stack(const(x.dtype, 1.0), const(x.dtype, -1.0)).reshape((1, 1, 2)).expand(rest.shape)
    return x.pad([(0, 0), (0, n - known), (0, 0)]) + (rest * signs).pad([(0, 0), (known, 0), (0, 0)])


def _scaled(name: str, x: UOp, norm: str | None, inverse: bool) -> UOp:
    """The transform divided by n, its root, or nothing."""
    powers = {None: inverse, "backward": inverse, "ortho": 0.5, "forward": not inverse}
    if norm not in powers:
        raise ArgumentError(f"{name}: there is no norm {norm!r}", fix='Use "backward", "ortho" or "forward".')
    power = float(powers[norm])
    return x * const(x.dtype, x.shape[1] ** -power) if power else x


class Fourier(Topic):
    """Of one axis, of two, of several. Results are complex128 of float64 and complex128, else complex64; where a signal
    is real, float64 or float32."""

    __slots__ = ()

    def _prepared(self, name: str, n: Any, place: int, is_pair: bool) -> tuple[UOp, tuple[int, ...]]:
        """(batch, n, parts) with the axis at `place` last, cut or padded to n; and the sizes of the other axes. Real
        numbers have one part, unless a pair is wanted."""
        self._require(name, not self.dtype.is_bool, "bools are not numbers here", "Cast it.")
        count = self.shape[place] if n is None else n
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ArgumentError(f"{name}: a transform of {count!r} values", self._made(), "n is 1 or more.")
        part = part_dtype(complex_dtype(least_upper_float(self.dtype)))
        if self.dtype.is_complex or is_pair:
            x = as_parts(self.uop.cast(complex_dtype(part)))
        else:
            x = self.uop.cast(part).reshape((*self.shape, 1))
        rank = len(x.shape) - 1
        order = [i for i in range(rank) if i != place]
        others = tuple(x.shape[i] for i in order)
        x = x.permute((*order, place, rank)).reshape((prod(others), x.shape[place], x.shape[rank]))
        batch, size, parts = x.shape
        if size > count:
            return x.shrink([(0, batch), (0, count), (0, parts)]), others
        return x.pad([(0, 0), (0, count - size), (0, 0)]) if size < count else x, others

    def _restored(self, x: UOp, place: int, others: tuple[int, ...]) -> Self:
        """(batch, n, parts) -> the axes in the order of the operand: complex numbers of two parts, real ones of one."""
        x = x.reshape((*others, *x.shape[1:]))
        rank = len(others)
        x = x.permute((*range(place), rank, *range(place, rank), rank + 1))
        return self._wrap(from_parts(x) if x.shape[-1] == 2 else x.reshape(x.shape[:-1]))

    def _axis_of(self, name: str, dim: Any, axis: Any) -> int:
        """The axis to transform; the last one if none is named."""
        named = either(name, axis, dim)
        return self._axis(name, -1 if named is None else named, scalars=False)

    # ---- one axis

    def fft(self, n: int | None = None, dim: Any = None, norm: str | None = None, axis: Any = None) -> Self:
        """The sum over j of x[j] * e ** (-2 pi i j k / n) at every k. `n` cuts or pads the axis."""
        return self._complex("fft", n, self._axis_of("fft", dim, axis), norm, inverse=False)

    def ifft(self, n: int | None = None, dim: Any = None, norm: str | None = None, axis: Any = None) -> Self:
        """The inverse of `fft`."""
        return self._complex("ifft", n, self._axis_of("ifft", dim, axis), norm, inverse=True)

    def _complex(self, name: str, n: int | None, place: int, norm: str | None, inverse: bool) -> Self:
        x, others = self._prepared(name, n, place, is_pair=False)
        result = transform(x, 1 if inverse else -1, self.device)
        return self._restored(_scaled(name, result, norm, inverse), place, others)

    def rfft(self, n: int | None = None, dim: Any = None, norm: str | None = None, axis: Any = None) -> Self:
        """The first n // 2 + 1 values of the transform of real numbers; the others are their conjugates."""
        return self._half("rfft", n, self._axis_of("rfft", dim, axis), norm)

    def _half(self, name: str, n: int | None, place: int, norm: str | None, inverse: bool = False) -> Self:
        fix = "Use fft(), or its real part."
        self._require(name, not self.dtype.is_complex, "it is of real numbers", fix)
        x, others = self._prepared(name, n, place, is_pair=False)
        batch, count, _ = x.shape
        result = _scaled(name, transform(x, 1 if inverse else -1, self.device), norm, inverse)
        return self._restored(result.shrink([(0, batch), (0, count // 2 + 1), (0, 2)]), place, others)

    def irfft(self, n: int | None = None, dim: Any = None, norm: str | None = None, axis: Any = None) -> Self:
        """The inverse of `rfft`: n real numbers, 2 * (size - 1) if n is not given."""
        return self._real("irfft", n, self._axis_of("irfft", dim, axis), norm, inverse=True)

    def _real(self, name: str, n: int | None, place: int, norm: str | None, inverse: bool) -> Self:
        count = 2 * (self.shape[place] - 1) if n is None else n
        known = count // 2 + 1 if isinstance(count, int) and count > 0 else count
        x, others = self._prepared(name, known, place, is_pair=True)
        whole = transform(_whole_spectrum(x, count), 1 if inverse else -1, self.device)
        result = _scaled(name, whole, norm, inverse)
        return self._restored(result.shrink([(0, x.shape[0]), (0, count), (0, 1)]), place, others)

    def hfft(self, n: int | None = None, dim: Any = None, norm: str | None = None, axis: Any = None) -> Self:
        """The transform of a signal of which half is given, the rest being its conjugate: n real numbers."""
        return self._real("hfft", n, self._axis_of("hfft", dim, axis), norm, inverse=False)

    def ihfft(self, n: int | None = None, dim: Any = None, norm: str | None = None, axis: Any = None) -> Self:
        """The inverse of `hfft`: the first n // 2 + 1 values."""
        return self._half("ihfft", n, self._axis_of("ihfft", dim, axis), norm, inverse=True)

    # ---- several axes

    def _sizes_and_axes(self, name: str, s: Any, axes: Any, known: Any = None) -> list[tuple[int | None, int]]:
        """For each axis the number of values there, None where all are taken."""
        if axes is None:
            axes = known if known is not None else range(self.ndim) if s is None else range(-len(s), 0)
        places = [self._axis(name, axis, scalars=False) for axis in axes]
        sizes = [None] * len(places) if s is None else [None if size in (None, -1) else size for size in s]
        if len(sizes) != len(places) or len(set(places)) != len(places) or not places:
            raise ShapeError(
                f"{name}: s={s!r:.60} along axes {tuple(axes)} of {spell_shape(self.shape)}",
                self._made(),
                "Name different axes, and give a size for each, or none.",
            )
        return list(zip(sizes, places, strict=True))

    def fftn(self, s: Any = None, dim: Any = None, norm: str | None = None, axes: Any = None) -> Self:
        """`fft` along several axes, all if none are named; `s` has the number of values of each."""
        return self._along_all("fftn", s, either("fftn", axes, dim), norm, inverse=False)

    def ifftn(self, s: Any = None, dim: Any = None, norm: str | None = None, axes: Any = None) -> Self:
        """The inverse of `fftn`."""
        return self._along_all("ifftn", s, either("ifftn", axes, dim), norm, inverse=True)

    def fft2(self, s: Any = None, dim: Any = None, norm: str | None = None, axes: Any = None) -> Self:
        """`fft` over two axes, the last ones if none are named."""
        return self._along_all("fft2", s, either("fft2", axes, dim), norm, inverse=False, known=(-2, -1))

    def ifft2(self, s: Any = None, dim: Any = None, norm: str | None = None, axes: Any = None) -> Self:
        """The inverse of `fft2`."""
        return self._along_all("ifft2", s, either("ifft2", axes, dim), norm, inverse=True, known=(-2, -1))

    def _along_all(self, name: str, s: Any, axes: Any, norm: str | None, inverse: bool, known: Any = None) -> Self:
        result = self
        for size, place in reversed(self._sizes_and_axes(name, s, axes, known)):
            result = result._complex(name, size, place, norm, inverse)
        return result

    def rfftn(self, s: Any = None, dim: Any = None, norm: str | None = None, axes: Any = None) -> Self:
        """`rfft` along the last of several axes, then `fft` along the others."""
        return self._half_of_all("rfftn", s, either("rfftn", axes, dim), norm)

    def rfft2(self, s: Any = None, dim: Any = None, norm: str | None = None, axes: Any = None) -> Self:
        """`rfftn` over two axes, the last ones if none are named."""
        return self._half_of_all("rfft2", s, either("rfft2", axes, dim), norm, (-2, -1))

    def _half_of_all(self, name: str, s: Any, axes: Any, norm: str | None, known: Any = None) -> Self:
        *rest, (size, place) = self._sizes_and_axes(name, s, axes, known)
        result = self._half(name, size, place, norm)
        for other_size, other in reversed(rest):
            result = result._complex(name, other_size, other, norm, inverse=False)
        return result

    def irfftn(self, s: Any = None, dim: Any = None, norm: str | None = None, axes: Any = None) -> Self:
        """The inverse of `rfftn`."""
        return self._real_of_all("irfftn", s, either("irfftn", axes, dim), norm)

    def irfft2(self, s: Any = None, dim: Any = None, norm: str | None = None, axes: Any = None) -> Self:
        """The inverse of `rfft2`."""
        return self._real_of_all("irfft2", s, either("irfft2", axes, dim), norm, (-2, -1))

    def _real_of_all(self, name: str, s: Any, axes: Any, norm: str | None, known: Any = None) -> Self:
        *rest, (size, place) = self._sizes_and_axes(name, s, axes, known)
        result = self
        for other_size, other in rest:
            result = result._complex(name, other_size, other, norm, inverse=True)
        return result._real(name, size, place, norm, inverse=True)

    # ---- frequencies

    def fftshift(self, dim: Any = None, axes: Any = None) -> Self:
        """The frequency 0 in the middle of each axis, or of those that are named."""
        return self._shifted_by("fftshift", either("fftshift", axes, dim), lambda size: size // 2)

    def ifftshift(self, dim: Any = None, axes: Any = None) -> Self:
        """The inverse of `fftshift`."""
        return self._shifted_by("ifftshift", either("ifftshift", axes, dim), lambda size: -(size // 2))

    def _shifted_by(self, name: str, axes: Any, shift: Callable[[int], int]) -> Self:
        places = self._axes(name, axes)
        return self.roll([shift(self.shape[place]) for place in places], list(places)) if places else self

    @classmethod
    def fftfreq(cls, n: int, d: float = 1.0, **kw: Any) -> Self:
        """The frequencies of `fft` in cycles a unit, samples being `d` apart: 0, 1, ... and then the negative ones."""
        return ((cls.arange(n, **kw) + n // 2) % n - n // 2) * (1 / (n * d))

    @classmethod
    def rfftfreq(cls, n: int, d: float = 1.0, **kw: Any) -> Self:
        """The frequencies of `rfft`."""
        return cls.arange(n // 2 + 1, **kw) * (1 / (n * d))
