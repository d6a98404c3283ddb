"""NumPy's functions beyond the standard: by table where a method of that name has that meaning, else in a few words.

docs/names/numpy.txt has the whole list, and says how the methods differ where they do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whit.dtype import DTypeLike
from whit.errors import ArgumentError
from whit.numpy.creation import asarray
from whit.numpy.operands import binary, constructor, function, listed, named, tensor_of, unary
from whit.tensor import Tensor

__all__ = [
    "absolute",
    "allclose",
    "amax",
    "amin",
    "angle",
    "append",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "argpartition",
    "argwhere",
    "around",
    "array_equal",
    "array_equiv",
    "array_split",
    "asanyarray",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "average",
    "bartlett",
    "bincount",
    "bitwise_count",
    "bitwise_not",
    "blackman",
    "block",
    "cbrt",
    "choose",
    "column_stack",
    "compress",
    "conjugate",
    "convolve",
    "copy",
    "corrcoef",
    "correlate",
    "cov",
    "cumulative_trapezoid",
    "deg2rad",
    "degrees",
    "delete",
    "diag",
    "diagflat",
    "diagonal",
    "digitize",
    "divmod",
    "dot",
    "dsplit",
    "dstack",
    "ediff1d",
    "einsum",
    "exp2",
    "extract",
    "fabs",
    "fill_diagonal",
    "fix",
    "flatnonzero",
    "fliplr",
    "flipud",
    "float_power",
    "fmax",
    "fmin",
    "fmod",
    "frexp",
    "fromiter",
    "gcd",
    "geomspace",
    "hamming",
    "hanning",
    "heaviside",
    "histogram",
    "histogram_bin_edges",
    "hsplit",
    "hstack",
    "i0",
    "identity",
    "indices",
    "inner",
    "insert",
    "interp",
    "intersect1d",
    "invert",
    "isclose",
    "iscomplex",
    "isin",
    "isneginf",
    "isposinf",
    "isreal",
    "kaiser",
    "kron",
    "lcm",
    "ldexp",
    "left_shift",
    "lexsort",
    "logaddexp2",
    "logspace",
    "matvec",
    "median",
    "mod",
    "modf",
    "nan_to_num",
    "nanargmax",
    "nanargmin",
    "nancumprod",
    "nancumsum",
    "nanmax",
    "nanmean",
    "nanmedian",
    "nanmin",
    "nanpercentile",
    "nanprod",
    "nanquantile",
    "nanstd",
    "nansum",
    "nanvar",
    "ndim",
    "packbits",
    "pad",
    "partition",
    "percentile",
    "place",
    "polyval",
    "power",
    "ptp",
    "put",
    "put_along_axis",
    "putmask",
    "quantile",
    "rad2deg",
    "radians",
    "ravel",
    "ravel_multi_index",
    "right_shift",
    "rint",
    "rollaxis",
    "rot90",
    "setdiff1d",
    "setxor1d",
    "shape",
    "sinc",
    "size",
    "spacing",
    "split",
    "swapaxes",
    "trace",
    "transpose",
    "trapezoid",
    "tri",
    "tril_indices",
    "tril_indices_from",
    "trim_zeros",
    "triu_indices",
    "triu_indices_from",
    "true_divide",
    "union1d",
    "unique",
    "unpackbits",
    "unravel_index",
    "unwrap",
    "vander",
    "vdot",
    "vecmat",
    "vsplit",
    "vstack",
]

absolute = unary("absolute")
arccos = unary("arccos")
arccosh = unary("arccosh")
arcsin = unary("arcsin")
arcsinh = unary("arcsinh")
arctan = unary("arctan")
arctanh = unary("arctanh")
bitwise_count = unary("bitwise_count")
bitwise_not = unary("bitwise_not")
cbrt = unary("cbrt")
conjugate = unary("conjugate")
copy = unary("copy")
deg2rad = unary("deg2rad")
degrees = unary("degrees")
diagflat = unary("diagflat")
ediff1d = unary("ediff1d")
exp2 = unary("exp2")
fabs = unary("fabs")
fix = unary("fix")
flatnonzero = unary("flatnonzero")
fliplr = unary("fliplr")
flipud = unary("flipud")
frexp = unary("frexp")
i0 = unary("i0")
invert = unary("invert")
iscomplex = unary("iscomplex")
isneginf = unary("isneginf")
isposinf = unary("isposinf")
isreal = unary("isreal")
modf = unary("modf")
rad2deg = unary("rad2deg")
radians = unary("radians")
ravel = unary("ravel")
rint = unary("rint")
sinc = unary("sinc")
spacing = unary("spacing")

append = function("append")
arctan2 = binary("arctan2")
float_power = binary("float_power")
fmax = binary("fmax")
fmin = binary("fmin")
fmod = binary("fmod")
gcd = binary("gcd")
heaviside = binary("heaviside")
inner = binary("inner")
kron = binary("kron")
lcm = binary("lcm")
ldexp = binary("ldexp")
left_shift = binary("left_shift")
logaddexp2 = binary("logaddexp2")
matvec = binary("matvec")
mod = binary("mod")
power = binary("power")
right_shift = binary("right_shift")
true_divide = binary("true_divide")
vdot = binary("vdot")
vecmat = binary("vecmat")

allclose = function("allclose")
amax = function("amax")
amin = function("amin")
angle = function("angle")
argpartition = function("argpartition")
argwhere = function("argwhere")
around = function("around")
array_equal = function("array_equal")
array_equiv = function("array_equiv")
array_split = function("array_split")
average = function("average")
bincount = function("bincount")
choose = function("choose")
convolve = function("convolve")


def corrcoef(x: Any, y: Any = None, rowvar: bool = True) -> Tensor:
    """How the rows of x, and of y, go along with each other, between -1 and 1."""
    return _rows(x, y, rowvar).corrcoef()


correlate = function("correlate")


def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
) -> Tensor:
    """The covariances of the rows of m, and of y."""
    correction = (0 if bias else 1) if ddof is None else ddof
    return _rows(m, y, rowvar).cov(correction=correction, fweights=fweights, aweights=aweights)


def _rows(x: Any, y: Any, rowvar: bool) -> Tensor:
    """Variables in rows."""
    parts = [tensor_of(each) for each in (x, y) if each is not None]
    rows = [part if rowvar or part.ndim < 2 else part.transpose(0, 1) for part in parts]
    if len(rows) == 1:
        return rows[0]
    return Tensor.cat([row.unsqueeze(0) if row.ndim == 1 else row for row in rows], dim=0)


cumulative_trapezoid = function("cumulative_trapezoid")
delete = function("delete")
diag = function("diag")
diagonal = function("diagonal")
digitize = function("digitize")
divmod = function("divmod")
dot = function("dot")
dsplit = function("dsplit")
fill_diagonal = function("fill_diagonal")
histogram = function("histogram")
histogram_bin_edges = function("histogram_bin_edges")
hsplit = function("hsplit")
insert = function("insert")
interp = function("interp")
intersect1d = function("intersect1d")
isclose = function("isclose")
isin = function("isin")
lexsort = function("lexsort")
nan_to_num = function("nan_to_num")
nanargmax = function("nanargmax")
nanargmin = function("nanargmin")
nancumprod = function("nancumprod")
nancumsum = function("nancumsum")
nanmax = function("nanmax")
nanmean = function("nanmean")
nanmin = function("nanmin")
nanpercentile = function("nanpercentile")
nanprod = function("nanprod")
nanquantile = function("nanquantile")
nanstd = function("nanstd")
nansum = function("nansum")
nanvar = function("nanvar")
packbits = function("packbits")


_PADDING = {"edge": "replicate", "wrap": "circular"}


def pad(array: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0, **given: Any) -> Tensor:
    """More elements at the ends: a number for all, (before, after), or such a pair for each axis."""
    x = tensor_of(array)
    width = pad_width if isinstance(pad_width, list | tuple) else (pad_width, pad_width)
    pairs = [width] * x.ndim if not isinstance(width[0], list | tuple) else list(width)
    pairs = pairs * x.ndim if len(pairs) == 1 else pairs
    return x.pad(tuple(tuple(pair) for pair in pairs), mode=_PADDING.get(mode, mode), value=constant_values, **given)


partition = function("partition")
percentile = function("percentile")
place = function("place")
polyval = function("polyval")
ptp = function("ptp")
put = function("put")
put_along_axis = function("put_along_axis")
putmask = function("putmask")
quantile = function("quantile")
ravel_multi_index = function("ravel_multi_index")
rollaxis = function("rollaxis")
rot90 = function("rot90")
setdiff1d = function("setdiff1d")
setxor1d = function("setxor1d")
swapaxes = function("swapaxes")
trace = function("trace")
trapezoid = function("trapezoid")
trim_zeros = function("trim_zeros")
union1d = function("union1d")
unpackbits = function("unpackbits")
unravel_index = function("unravel_index")
unwrap = function("unwrap")
vander = function("vander")
vsplit = function("vsplit")

bartlett = constructor("bartlett")
blackman = constructor("blackman")
einsum = constructor("einsum")
geomspace = constructor("geomspace")
hamming = constructor("hamming")
hanning = constructor("hanning")
identity = constructor("identity")
indices = constructor("indices")
kaiser = constructor("kaiser")
logspace = constructor("logspace")
tri = constructor("tri")


def _joining(name: str) -> Callable[[Any], Tensor]:
    """The function of a list of arrays that is the method of this name."""

    def call(arrays: Any, /) -> Tensor:
        first, *rest = listed(arrays)
        return getattr(first, name)(*rest)  # type: ignore[no-any-return]

    return named(call, name, name)


column_stack = _joining("column_stack")
dstack = _joining("dstack")
hstack = _joining("hstack")
vstack = _joining("vstack")


# ---- questions


def shape(x: Any, /) -> tuple[int, ...]:
    """The sizes of the axes."""
    return tensor_of(x).shape


def ndim(x: Any, /) -> int:
    """The number of axes."""
    return tensor_of(x).ndim


def size(x: Any, /, axis: int | None = None) -> int:
    """The number of elements, or the size of an axis."""
    given = tensor_of(x)
    return given.numel() if axis is None else given.shape[given._axis("size", axis)]  # type: ignore[no-any-return]


# ---- where the method of that name means something else


def median(x: Any, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """The element in the middle, or the mean of the two; NaN if there is one."""
    return tensor_of(x).quantile(0.5, axis, keepdims)


def nanmedian(x: Any, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """`median` of those that are not NaN."""
    return tensor_of(x).nanquantile(0.5, axis, keepdims)


def transpose(x: Any, /, axes: Any = None) -> Tensor:
    """The axes in another order; back to front if none is given."""
    given = tensor_of(x)
    return given.permute(tuple(reversed(range(given.ndim))) if axes is None else tuple(axes))


def split(x: Any, indices_or_sections: Any, /, axis: int = 0) -> tuple[Tensor, ...]:
    """Parts along an axis: so many equal ones, or cut before each of the positions."""
    given = tensor_of(x)
    count = indices_or_sections
    if isinstance(count, int) and (count < 1 or given.shape[given._axis("split", axis)] % count):
        raise ArgumentError(
            f"split: axis {axis} of {given.shape} has no {count} equal parts", given._made(), "array_split() cuts any."
        )
    return given.tensor_split(count, axis)


def unique(
    x: Any,
    /,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
) -> Any:
    """The different elements in order, or slices of an axis, all NaNs being one; and where, which, and how often."""
    return tensor_of(x).unique(return_inverse, return_counts, axis, return_index=return_index)


def compress(condition: Any, x: Any, /, axis: int | None = None) -> Tensor:
    """The positions of an axis at which a condition holds."""
    return tensor_of(x).compress(condition, axis)


def extract(condition: Any, x: Any, /) -> Tensor:
    """The elements for which a condition holds, in a row."""
    return tensor_of(x).extract(condition)


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Tensor, ...]:
    """The positions on and below a diagonal of an n by m matrix, a row for each axis."""
    return tuple(Tensor.tril_indices(n, m, k))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Tensor, ...]:
    """The positions on and above a diagonal of an n by m matrix, a row for each axis."""
    return tuple(Tensor.triu_indices(n, m, k))


def tril_indices_from(x: Any, /, k: int = 0) -> tuple[Tensor, ...]:
    """`tril_indices` of the shape of a matrix."""
    return tuple(tensor_of(x).tril_indices_from(k))


def triu_indices_from(x: Any, /, k: int = 0) -> tuple[Tensor, ...]:
    """`triu_indices` of the shape of a matrix."""
    return tuple(tensor_of(x).triu_indices_from(k))


def block(arrays: Any, /) -> Tensor:
    """Nested lists of blocks joined: the innermost along the last axis, the next ones along the axis before it."""
    depth = _depth(arrays)
    return _joined(arrays, depth, max(depth, _most_axes(arrays)))


def _depth(arrays: Any) -> int:
    return 1 + _depth(arrays[0]) if isinstance(arrays, list) else 0


def _most_axes(arrays: Any) -> int:
    return max(map(_most_axes, arrays)) if isinstance(arrays, list) else tensor_of(arrays).ndim


def _joined(arrays: Any, depth: int, rank: int) -> Tensor:
    if not isinstance(arrays, list):
        given = tensor_of(arrays)
        return given.reshape((*(1,) * (rank - given.ndim), *given.shape))
    first, *rest = (_joined(each, depth - 1, rank) for each in arrays)
    return first.cat(*rest, dim=-depth) if rest else first


def atleast_1d(*arrays: Any) -> Any:
    """One axis or more."""
    return _each("atleast_1d", arrays)


def atleast_2d(*arrays: Any) -> Any:
    """Two axes or more."""
    return _each("atleast_2d", arrays)


def atleast_3d(*arrays: Any) -> Any:
    """Three axes or more."""
    return _each("atleast_3d", arrays)


def _each(method: str, arrays: tuple[Any, ...]) -> Any:
    found = tuple(getattr(tensor_of(each), method)() for each in arrays)
    return found[0] if len(found) == 1 else found


def asanyarray(x: Any, /, dtype: DTypeLike | None = None) -> Tensor:
    """The same as `asarray`."""
    return asarray(x, dtype)


def fromiter(iterable: Any, /, dtype: DTypeLike | None = None, count: int = -1) -> Tensor:
    """A row of the numbers that come."""
    numbers = list(iterable)
    return asarray(numbers if count < 0 else numbers[:count], dtype)
