"""`jax.lax`: control flow, and the functions that `jax.numpy` is made of there; here both are methods of Tensor."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from whit.dtype import to_dtype
from whit.errors import ArgumentError, NotSupportedError
from whit.jax import tree
from whit.jax.transforms import stop_gradient as stop_gradient
from whit.numpy import fft as _fft
from whit.numpy.operands import tensor_of
from whit.tensor import Tensor
from whit.tensor.control import cond as cond
from whit.tensor.control import fori_loop as fori_loop
from whit.tensor.control import map as map
from whit.tensor.control import scan as scan
from whit.tensor.control import while_loop as while_loop

# Functions whose method has the same name, or the one that is said.
_SAME = """
    abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_not bitwise_or bitwise_xor ceil cos cosh digamma
    div eq erf erfc exp exp2 expm1 floor ge gt le lgamma log log1p logistic lt mul ne neg nextafter pow reciprocal rsqrt
    sign sin sinh sqrt square sub tan tanh reshape expand_dims squeeze transpose cumsum cumprod cummax cummin
    cumlogsumexp conj real imag
""".split()
_OTHERWISE = {
    "cumlogsumexp": "logcumsumexp",
    "erf_inv": "erfinv",
    "expand_dims": "unsqueeze",
    "integer_pow": "pow",
    "is_finite": "isfinite",
    "logistic": "sigmoid",
    "max": "maximum",
    "min": "minimum",
    "rem": "fmod",
    "rev": "flip",
    "shift_left": "lshift",
    "shift_right_arithmetic": "rshift",
    "transpose": "permute",
}


def _of(name: str) -> Callable[..., Any]:
    method = getattr(Tensor, _OTHERWISE.get(name, name))

    def function(x: Any, *args: Any, **given: Any) -> Any:
        """See the method of Tensor."""
        return method(tensor_of(x), *args, **given)

    function.__name__ = function.__qualname__ = name
    return function


def _cumulative(name: str) -> Callable[..., Any]:
    method = getattr(Tensor, _OTHERWISE.get(name, name))

    def function(operand: Tensor, axis: int = 0, reverse: bool = False) -> Tensor:
        """Along an axis, from either end."""
        found = method(operand.flip(axis) if reverse else operand, axis)
        found = found[0] if isinstance(found, tuple) else found
        result: Tensor = found.flip(axis) if reverse else found
        return result

    function.__name__ = function.__qualname__ = name
    return function


_CUMULATIVE = ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
_FUNCTIONS = {name: _of(name) for name in (*_SAME, *_OTHERWISE) if name not in _CUMULATIVE}
_FUNCTIONS |= {name: _cumulative(name) for name in _CUMULATIVE}
globals().update(_FUNCTIONS)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """The functions of the tables."""


# ---- control flow


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """One of several functions, by number; the first or last where there is none of that number."""
    if not isinstance(index, Tensor):
        place = builtins.min(builtins.max(int(index), 0), len(branches) - 1)
        return branches[place](*operands)
    found = branches[-1]
    for place in reversed(range(len(branches) - 1)):
        found = _either(index <= place, branches[place], found)
    return found(*operands)


def _either(first: Tensor, yes: Callable[..., Any], no: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *operands: cond(first, yes, no, *operands)


def associative_scan(fn: Callable[..., Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """fn of all up to each place, in a number of steps that grows with the logarithm of how many there are."""
    value = tree.map(lambda leaf: leaf.flip(axis), elems) if reverse else elems
    size = tree.leaves(value)[0].shape[axis]
    step = 1
    while step < size:
        early = tree.map(lambda leaf, step=step: leaf.narrow(axis, 0, size - step), value)
        late = tree.map(lambda leaf, step=step: leaf.narrow(axis, step, size - step), value)
        joined = fn(early, late)
        value = tree.map(lambda leaf, new, step=step: leaf.narrow(axis, 0, step).cat(new, dim=axis), value, joined)
        step *= 2
    return tree.map(lambda leaf: leaf.flip(axis), value) if reverse else value


def select(pred: Any, on_true: Any, on_false: Any) -> Tensor:
    """One of two for each element."""
    return tensor_of(pred).where(on_true, on_false)


def select_n(which: Any, *cases: Any) -> Tensor:
    """One of several for each element."""
    chosen = tensor_of(which)
    found = tensor_of(cases[0])
    for place, case in list(enumerate(cases))[1:]:
        found = (chosen.cast("int32") == place).where(case, found)
    return found


# ---- parts


def _starts(operand: Tensor, starts: Any, sizes: Sequence[int]) -> list[Tensor]:
    """Where windows begin: as far inside as they fit."""
    given = [tensor_of(start) for start in starts]
    pairs = zip(given, operand.shape, sizes, strict=True)
    return [start.cast("int32").clamp(0, whole - size) for start, whole, size in pairs]


def dynamic_slice(operand: Any, start_indices: Any, slice_sizes: Sequence[int]) -> Tensor:
    """A window, whose place is computed. It is moved inside where it would not fit."""
    x = tensor_of(operand)
    for axis, (start, size) in enumerate(zip(_starts(x, start_indices, slice_sizes), slice_sizes, strict=True)):
        x = x.index_select(axis, Tensor.arange(size) + start)
    return x


def dynamic_update_slice(operand: Any, update: Any, start_indices: Any) -> Tensor:
    """The same with other elements in a window."""
    x, new = tensor_of(operand), tensor_of(update)
    inside: Any = None
    moved = new
    for axis, start in enumerate(_starts(x, start_indices, new.shape)):
        shape = [-1 if each == axis else 1 for each in range(x.ndim)]
        place = Tensor.arange(x.shape[axis]) - start
        fits = ((place >= 0) & (place < new.shape[axis])).reshape(shape)
        inside = fits if inside is None else inside & fits
        moved = moved.index_select(axis, place.clamp(0, new.shape[axis] - 1))
    return x if inside is None else inside.where(moved, x)


def dynamic_slice_in_dim(operand: Tensor, start_index: Any, slice_size: int, axis: int = 0) -> Tensor:
    """The same along one axis."""
    start = tensor_of(start_index).cast("int32").clamp(0, operand.shape[axis] - slice_size)
    return operand.index_select(axis, Tensor.arange(slice_size) + start)


def dynamic_index_in_dim(operand: Tensor, index: Any, axis: int = 0, keepdims: bool = True) -> Tensor:
    """One place of an axis."""
    found = dynamic_slice_in_dim(operand, index, 1, axis)
    return found if keepdims else found.squeeze(axis)


def dynamic_update_slice_in_dim(operand: Tensor, update: Tensor, start_index: Any, axis: int) -> Tensor:
    """Other elements along one axis."""
    starts = [start_index if each == axis % operand.ndim else 0 for each in range(operand.ndim)]
    return dynamic_update_slice(operand, update, starts)


def dynamic_update_index_in_dim(operand: Tensor, update: Tensor, index: Any, axis: int) -> Tensor:
    """Other elements at one place of an axis."""
    given = tensor_of(update)
    whole = given.unsqueeze(axis) if given.ndim < operand.ndim else given
    return dynamic_update_slice_in_dim(operand, whole, index, axis)


def slice(operand: Tensor, start_indices: Any, limit_indices: Any, strides: Any = None) -> Tensor:
    """A window that is known."""
    steps = strides or [1] * operand.ndim
    parts = zip(start_indices, limit_indices, steps, strict=True)
    return operand[tuple(builtins.slice(*part) for part in parts)]


def slice_in_dim(operand: Tensor, start_index: Any, limit_index: Any, stride: int = 1, axis: int = 0) -> Tensor:
    """The same along one axis."""
    before = (builtins.slice(None, None, None),) * (axis % operand.ndim)
    return operand[(*before, builtins.slice(start_index, limit_index, stride))]


def index_in_dim(operand: Tensor, index: int, axis: int = 0, keepdims: bool = True) -> Tensor:
    """One place of an axis."""
    found = operand.select(axis, index)
    return found.unsqueeze(axis) if keepdims else found


def concatenate(operands: Any, dimension: int) -> Tensor:
    """One after another."""
    return Tensor.cat([tensor_of(each) for each in operands], dim=dimension)


def pad(operand: Tensor, padding_value: Any, padding_config: Any) -> Tensor:
    """More elements at the ends: (before, after, between) for each axis."""
    if any(between for _, _, between in padding_config):
        raise NotSupportedError("lax.pad: elements between others", fix="Use reshape and pad.")
    number = padding_value.item() if isinstance(padding_value, Tensor) else padding_value
    return operand.pad(tuple((before, after) for before, after, _ in padding_config), value=number)


def broadcast(operand: Any, sizes: Sequence[int]) -> Tensor:
    """More axes in front."""
    x = tensor_of(operand)
    return x.expand(*sizes, *x.shape)


def broadcast_in_dim(operand: Any, shape: Sequence[int], broadcast_dimensions: Sequence[int]) -> Tensor:
    """More axes, and where those that there are go."""
    x = tensor_of(operand)
    sizes = [1] * len(shape)
    for size, place in zip(x.shape, broadcast_dimensions, strict=True):
        sizes[place] = size
    return x.reshape(sizes).expand(*shape)


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Tensor:
    """One number everywhere."""
    return Tensor.full(shape, fill_value, dtype=dtype)


def full_like(x: Tensor, fill_value: Any, dtype: Any = None, shape: Any = None) -> Tensor:
    """The same, in the shape and dtype of another tensor."""
    return Tensor.full(x.shape if shape is None else shape, fill_value, dtype=dtype or x.dtype)


def iota(dtype: Any, size: int) -> Tensor:
    """0, 1, ..."""
    return Tensor.arange(size, dtype=to_dtype(dtype))


def broadcasted_iota(dtype: Any, shape: Sequence[int], dimension: int) -> Tensor:
    """The same along one axis."""
    sizes = [size if axis == dimension else 1 for axis, size in enumerate(shape)]
    return iota(dtype, shape[dimension]).reshape(sizes).expand(*shape)


def convert_element_type(operand: Any, new_dtype: Any) -> Tensor:
    """Another dtype."""
    return tensor_of(operand).cast(to_dtype(new_dtype))


def bitcast_convert_type(operand: Any, new_dtype: Any) -> Tensor:
    """The same bits, as another dtype."""
    return tensor_of(operand).bitcast(to_dtype(new_dtype))


def clamp(min: Any, x: Any, max: Any) -> Tensor:
    """Between two ends."""
    return tensor_of(x).clamp(min, max)


# ---- products, reductions, order


def dot(lhs: Any, rhs: Any, **options: Any) -> Tensor:
    """The product of matrices and vectors."""
    return tensor_of(lhs).dot(tensor_of(rhs))


def batch_matmul(lhs: Any, rhs: Any, **options: Any) -> Tensor:
    """The products of batches of matrices."""
    return tensor_of(lhs).matmul(tensor_of(rhs))


def dot_general(lhs: Any, rhs: Any, dimension_numbers: Any, **options: Any) -> Tensor:
    """The sum of products over some axes, for each place of others."""
    x, y = tensor_of(lhs), tensor_of(rhs)
    (sum_x, sum_y), (each_x, each_y) = dimension_numbers
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    of_x = [next(letters) for _ in range(x.ndim)]
    of_y = [""] * y.ndim
    for left, right in (*zip(sum_x, sum_y, strict=True), *zip(each_x, each_y, strict=True)):
        of_y[right] = of_x[left]
    of_y = [letter or next(letters) for letter in of_y]
    free_x = [letter for axis, letter in enumerate(of_x) if axis not in (*sum_x, *each_x)]
    free_y = [letter for axis, letter in enumerate(of_y) if axis not in (*sum_y, *each_y)]
    result = "".join([*(of_x[axis] for axis in each_x), *free_x, *free_y])
    return Tensor.einsum(f"{''.join(of_x)},{''.join(of_y)}->{result}", x, y)


def reduce(operands: Tensor, init_values: Any, computation: Callable[..., Any], dimensions: Sequence[int]) -> Tensor:
    """Sums, products, or the largest and smallest, along axes."""
    names = {"add": "sum", "mul": "prod", "max": "max", "min": "min"}
    name = getattr(computation, "__name__", "")
    if name not in names:
        raise ArgumentError(f"lax.reduce: of {name or computation!r:.40}", fix="It is lax.add, mul, max or min.")
    found = getattr(operands, names[name])(tuple(dimensions))
    return computation(found, init_values)  # type: ignore[no-any-return]


def argmax(operand: Tensor, axis: int, index_dtype: Any = "int32") -> Tensor:
    """Where the largest is."""
    return operand.argmax(axis).cast(to_dtype(index_dtype))


def argmin(operand: Tensor, axis: int, index_dtype: Any = "int32") -> Tensor:
    """Where the smallest is."""
    return operand.argmin(axis).cast(to_dtype(index_dtype))


def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """In order; of several tensors, all in the order of the first."""
    if isinstance(operand, Tensor):
        return operand.sort(dimension)[0]
    order = operand[0].argsort(dimension)
    return tuple(each.gather(dimension, order) for each in operand)


def top_k(operand: Tensor, k: int, **options: Any) -> tuple[Tensor, Tensor]:
    """The largest of the last axis, and where they are."""
    values, places = operand.topk(k)
    return values, places


def conv(lhs: Tensor, rhs: Tensor, window_strides: Any, padding: Any, **options: Any) -> Tensor:
    """Convolution of (batch, channels, ...) by (out, in, ...)."""
    return conv_general_dilated(lhs, rhs, window_strides, padding)


def conv_general_dilated(
    lhs: Tensor,
    rhs: Tensor,
    window_strides: Any,
    padding: Any,
    lhs_dilation: Any = None,
    rhs_dilation: Any = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    **options: Any,
) -> Tensor:
    """Convolution with axes in any order: dimension_numbers=("NHWC", "HWIO", "NHWC"), say."""
    plain = "NC" + "DHW"[-(lhs.ndim - 2) :], "OI" + "DHW"[-(lhs.ndim - 2) :]
    of_input, of_weight, of_result = dimension_numbers or (plain[0], plain[1], plain[0])
    x = lhs.permute(*[of_input.index(letter) for letter in plain[0]])
    for axis, step in enumerate(lhs_dilation or ()):
        x = _spread(x, axis + 2, step)
    weight = rhs.permute(*[of_weight.index(letter) for letter in plain[1]])
    dilation = rhs_dilation or (1,) * (lhs.ndim - 2)
    x = x.pad(((0, 0), (0, 0), *_padding(padding, x, weight, window_strides, dilation)))
    found = x.conv2d(weight, stride=tuple(window_strides), dilation=tuple(dilation), groups=feature_group_count)
    return found.permute(*[plain[0].index(letter) for letter in of_result])


def _spread(x: Tensor, axis: int, step: int) -> Tensor:
    """Zeros between the elements of an axis."""
    if step == 1:
        return x
    size = x.shape[axis]
    apart = x.unsqueeze(axis + 1).pad(tuple((0, step - 1 if each == axis + 1 else 0) for each in range(x.ndim + 1)))
    return apart.flatten(axis, axis + 1).narrow(axis, 0, (size - 1) * step + 1)


def _padding(padding: Any, x: Tensor, weight: Tensor, strides: Any, dilation: Any) -> list[tuple[int, int]]:
    """How many zeros at both ends of each axis."""
    if not isinstance(padding, str):
        return [tuple(each) for each in padding]
    if padding.upper() == "VALID":
        return [(0, 0)] * (x.ndim - 2)
    result = []
    for size, window, stride, apart in zip(x.shape[2:], weight.shape[2:], strides, dilation, strict=True):
        span = (window - 1) * apart + 1
        total = builtins.max((-(-size // stride) - 1) * stride + span - size, 0)
        result.append((total // 2, total - total // 2))
    return result


def reduce_window(
    operand: Tensor, init_value: Any, computation: Callable[..., Any], dimensions: Any, strides: Any, padding: Any
) -> Tensor:
    """Pools of (batch, ..., channels) or any order: windows of size 1 stay."""
    name = getattr(computation, "__name__", "")
    if name not in ("max", "min", "add"):
        raise ArgumentError(f"lax.reduce_window: of {name}", fix="It is lax.max, min or add.")
    x = operand if name != "min" else -operand
    least = 0.0 if name == "add" else -float("inf")
    if not isinstance(padding, str) or padding.upper() == "SAME":
        spans = zip(x.shape, dimensions, strides, strict=True)
        ends = [_ends(*each) for each in spans] if isinstance(padding, str) else [tuple(each) for each in padding]
        x = x.pad(tuple(ends), value=least)
    for axis, (size, step) in enumerate(zip(dimensions, strides, strict=True)):
        if size != 1 or step != 1:
            windows = x.unfold(axis, size, step)
            x = windows.sum(-1) if name == "add" else windows.max(-1)
    return x if name != "min" else -x


def _ends(size: int, window: int, stride: int) -> tuple[int, int]:
    total = builtins.max((-(-size // stride) - 1) * stride + window - size, 0)
    return total // 2, total - total // 2


def zeros_like_array(x: Tensor) -> Tensor:
    """0 in the shape of another tensor."""
    return x.zeros_like()


def optimization_barrier(operand: Any) -> Any:
    """The same: nothing is moved across a value that is stored."""
    return operand


# ---- by other names


def round(x: Any, rounding_method: Any = None) -> Tensor:
    """To the nearest whole number, halves to even ones."""
    return tensor_of(x).round()


def cbrt(x: Any) -> Tensor:
    """The cube root."""
    given = tensor_of(x)
    return given.sign() * given.abs().pow(1 / 3)


def complex(x: Any, y: Any) -> Tensor:
    """Complex numbers of two parts."""
    found: Tensor = Tensor.complex(tensor_of(x), tensor_of(y))
    return found


def polygamma(m: int, x: Any) -> Tensor:
    """The m-th derivative of digamma."""
    return tensor_of(x).polygamma(int(m))


def stack(operands: Any, axis: int = 0) -> Tensor:
    """Along a new axis."""
    return Tensor.stack([tensor_of(each) for each in operands], dim=axis)


def unstack(x: Tensor, axis: int = 0) -> tuple[Tensor, ...]:
    """The parts along an axis."""
    return x.unbind(axis)


def tile(operand: Tensor, reps: Any) -> Tensor:
    """Again and again."""
    return operand.tile(tuple(reps))


def split(operand: Tensor, sizes: Any, axis: int = 0) -> tuple[Tensor, ...]:
    """Parts of these sizes."""
    return operand.split(list(sizes), axis)


def collapse(operand: Tensor, start_dimension: int, stop_dimension: int | None = None) -> Tensor:
    """Several axes as one."""
    last = operand.ndim if stop_dimension is None else stop_dimension
    return operand.flatten(start_dimension, last - 1)


def sort_key_val(keys: Tensor, values: Tensor, dimension: int = -1, is_stable: bool = True) -> Any:
    """Keys in order, and the values with them."""
    return sort((keys, values), dimension)


def reduce_sum(operand: Tensor, axes: Sequence[int]) -> Tensor:
    """The sum along axes."""
    return operand.sum(tuple(axes))


def reduce_prod(operand: Tensor, axes: Sequence[int]) -> Tensor:
    """The product along axes."""
    return operand.prod(tuple(axes))


def reduce_max(operand: Tensor, axes: Sequence[int]) -> Tensor:
    """The largest along axes."""
    return operand.max(tuple(axes))


def reduce_min(operand: Tensor, axes: Sequence[int]) -> Tensor:
    """The smallest along axes."""
    return operand.min(tuple(axes))


def reduce_and(operand: Tensor, axes: Sequence[int]) -> Tensor:
    """Whether all along axes are true."""
    return operand.all(tuple(axes))


def reduce_or(operand: Tensor, axes: Sequence[int]) -> Tensor:
    """Whether any along axes is true."""
    return operand.any(tuple(axes))


conv_with_general_padding = conv_general_dilated


def approx_max_k(operand: Tensor, k: int, reduction_dimension: int = -1, **options: Any) -> tuple[Tensor, Tensor]:
    """The largest along an axis: exactly these."""
    values, places = operand.topk(k, reduction_dimension)
    return values, places


def approx_min_k(operand: Tensor, k: int, reduction_dimension: int = -1, **options: Any) -> tuple[Tensor, Tensor]:
    """The smallest along an axis: exactly these."""
    values, places = operand.topk(k, reduction_dimension, largest=False)
    return values, places


def bessel_i0e(x: Any) -> Tensor:
    """i0 times exp(-|x|)."""
    given = tensor_of(x)
    found: Tensor = given.i0() * (-given.abs()).exp()
    return found


def shift_right_logical(x: Any, y: Any) -> Tensor:
    """To the right, with zeros from the left."""
    given = tensor_of(x)
    name = given.dtype.name
    unsigned = given if name.startswith("u") else given.bitcast(to_dtype(f"u{name}"))
    return (unsigned >> tensor_of(y).cast(unsigned.dtype)).bitcast(given.dtype)


def population_count(x: Any) -> Tensor:
    """How many bits are 1."""
    given = tensor_of(x)
    bits = [shift_right_logical(given, place) & 1 for place in range(given.dtype.bitsize)]
    return sum(bits[1:], bits[0])


def clz(x: Any) -> Tensor:
    """How many bits are 0 before the first 1."""
    given = tensor_of(x)
    size = given.dtype.bitsize
    spread = given
    for step in (1, 2, 4, 8, 16, 32):
        spread = spread | shift_right_logical(spread, step) if step < size else spread
    found: Tensor = size - population_count(spread)
    return found


def reduce_precision(operand: Any, exponent_bits: int, mantissa_bits: int) -> Tensor:
    """As a narrower float has it: float16 or bfloat16."""
    known = {(5, 10): "float16", (8, 7): "bfloat16", (8, 23): "float32"}
    if (exponent_bits, mantissa_bits) not in known:
        raise NotSupportedError(f"lax.reduce_precision: of {exponent_bits}, {mantissa_bits} bits", fix="See dtypes.")
    given = tensor_of(operand)
    return given.cast(to_dtype(known[exponent_bits, mantissa_bits])).cast(given.dtype)


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape of elementwise work on tensors of these shapes."""
    tensors = [Tensor.empty(*shape) for shape in shapes]
    return tuple(tensors[0].broadcast_tensors(*tensors[1:])[0].shape) if tensors else ()


def empty(shape: Any, dtype: Any = None) -> Tensor:
    """Memory of any content."""
    return Tensor.empty(*shape, dtype=dtype)


def conv_transpose(
    lhs: Tensor,
    rhs: Tensor,
    strides: Sequence[int],
    padding: Any,
    rhs_dilation: Any = None,
    dimension_numbers: Any = None,
    **options: Any,
) -> Tensor:
    """A convolution of elements with zeros between them; axes as (batch, ..., channels) unless said."""
    spatial = "DHW"[-(lhs.ndim - 2) :]
    numbers = dimension_numbers or (f"N{spatial}C", f"{spatial}IO", f"N{spatial}C")
    apart = rhs_dilation or (1,) * (lhs.ndim - 2)
    pads = padding
    if isinstance(padding, str):
        windows = [rhs.shape[numbers[1].index(letter)] for letter in spatial]
        spans = [(window - 1) * step + 1 for window, step in zip(windows, apart, strict=True)]
        pairs = zip(spans, strides, strict=True)
        pads = [_transposed_padding(span, stride, padding.upper() == "SAME") for span, stride in pairs]
    ones = (1,) * (lhs.ndim - 2)
    return conv_general_dilated(lhs, rhs, ones, pads, strides, rhs_dilation, numbers)


def _transposed_padding(span: int, stride: int, is_same: bool) -> tuple[int, int]:
    """So much that a convolution with a stride is undone in shape."""
    total = span + stride - 2 if is_same else span + stride - 2 + builtins.max(span - stride, 0)
    before = (span - 1 if stride > span - 1 else -(-total // 2)) if is_same else span - 1
    return before, total - before


def mulhi(x: Any, y: Any) -> Tensor:
    """The upper half of the bits of a product, of integers of at most 32."""
    given = tensor_of(x)
    wide = to_dtype("uint64" if given.dtype.name.startswith("u") else "int64")
    return ((given.cast(wide) * tensor_of(y).cast(wide)) >> given.dtype.bitsize).cast(given.dtype)


def fft(x: Any, fft_type: Any, fft_lengths: Sequence[int]) -> Tensor:
    """ "fft", "ifft", "rfft" or "irfft" over the last axes."""
    name = str(getattr(fft_type, "name", fft_type)).lower()
    if name not in ("fft", "ifft", "rfft", "irfft"):
        raise ArgumentError(f"lax.fft: {fft_type!r}", fix='It is "fft", "ifft", "rfft" or "irfft".')
    found: Tensor = getattr(_fft, f"{name}n")(tensor_of(x), tuple(fft_lengths))
    return found


def reduce_xor(operand: Tensor, axes: Sequence[int]) -> Tensor:
    """Whether a number of bits along axes is odd, for each of them."""
    given = operand.movedim(tuple(axes), tuple(range(len(axes)))).flatten(0, len(axes) - 1)
    found = given[0]
    for place in range(1, given.shape[0]):
        found = found ^ given[place]
    return found
