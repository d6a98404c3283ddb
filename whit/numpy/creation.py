"""Arrays from data and from nothing.

asarray([[1, 2], [3, 4]]); asarray(tensor); asarray(numpy_array, copy=False)
arange(0, 10, 2); linspace(0, 1, 5, endpoint=False); eye(3, k=1); zeros((2, 3), dtype=int32)
"""

from __future__ import annotations

from typing import Any

from whit.dtype import DType, DTypeLike, dtypes, part_dtype, to_dtype
from whit.errors import ArgumentError, DTypeError
from whit.numpy.operands import NUMBERS, listed, tensor_of, within
from whit.tensor import Tensor

__all__ = [
    "arange",
    "array",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]


def asarray(
    obj: Any, /, dtype: DTypeLike | None = None, *, device: str | None = None, copy: bool | None = None
) -> Tensor:
    """An array of a number, nested lists, another library's array, or a tensor, which stays the same one if it can.

    With `copy` always a copy; with copy=False never one: what needs one is an error.
    """
    wanted = None if dtype is None else to_dtype(dtype)
    if isinstance(obj, Tensor):
        result = obj
    elif copy is False:
        result = _shared(obj)
    else:
        return _made(obj, wanted, device)
    placed = result if device is None else result.to(device)
    found = placed if wanted is None or wanted is placed.dtype else placed.cast(wanted)
    if copy is False and found is not result:
        raise ArgumentError(
            f"asarray: as {found.dtype.name} on {found.device} it is a copy, and copy is False",
            f"what is given is {result.dtype.name} on {result.device}",
            "Use copy=None.",
        )
    return found.clone() if copy and found is obj else found


def _shared(obj: Any) -> Tensor:
    """A tensor on the memory of another library's array."""
    is_strided = hasattr(obj, "flags") and not obj.flags["C_CONTIGUOUS"]
    if is_strided or isinstance(obj, (*NUMBERS, list, tuple, range)):
        what = "an array that is not row-major" if is_strided else f"a {type(obj).__name__}"
        raise ArgumentError(f"asarray: {what} has no memory to share, and copy is False", fix="Use copy=None.")
    return Tensor(obj, copy=False)


def _made(obj: Any, dtype: DType | None, device: str | None) -> Tensor:
    """A tensor of data. Integers beyond the default dtype are int64."""
    if within(obj):
        found = tensor_of(obj, dtype)
        return found if device is None else found.to(device)
    try:
        return Tensor(obj, device, dtype)
    except DTypeError:
        if dtype is not None:
            raise
        return Tensor(obj, device, dtypes.int64)


def array(
    object: Any, /, dtype: DTypeLike | None = None, *, device: str | None = None, copy: bool | None = True
) -> Tensor:
    """The same as `asarray`, and a copy unless copy says otherwise (NumPy)."""
    return asarray(object, dtype, device=device, copy=copy)


def from_dlpack(x: Any, /, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """A tensor on the memory of another library's array, by DLPack; with `copy` a copy."""
    if isinstance(x, Tensor):
        return asarray(x, device=device, copy=copy)
    found = Tensor.from_dlpack(x) if device is None or copy is False else Tensor.from_dlpack(x).to(device)
    if device is not None and found.to(device) is not found:
        raise ArgumentError(
            f"from_dlpack: on {device} it is a copy, and copy is False", f"it is on {found.device}", "Use copy=None."
        )
    return found.clone() if copy else found


# ---- constants


def empty(shape: Any, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Memory of arbitrary content."""
    return Tensor.empty(shape, dtype=dtype, device=device)


def full(shape: Any, fill_value: Any, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """One number everywhere; of the dtype of that number if none is given, int64 if it is beyond the default int."""
    default = dtypes.default_int
    if dtype is None and type(fill_value) is int and not default.min <= fill_value <= default.max:
        dtype = dtypes.int64
    return Tensor.full(shape, fill_value, dtype, device)


def ones(shape: Any, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Ones, of the default float if no dtype is given."""
    return Tensor.full(shape, 1, dtype or dtypes.default_float, device)


def zeros(shape: Any, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Zeros, of the default float if no dtype is given."""
    return Tensor.full(shape, 0, dtype or dtypes.default_float, device)


def empty_like(x: Any, /, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Memory of arbitrary content, in the shape, dtype and place of another array."""
    return tensor_of(x).empty_like(dtype=dtype, device=device)


def full_like(x: Any, /, fill_value: Any, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """One number everywhere, in the shape, dtype and place of another array."""
    return tensor_of(x).full_like(fill_value, dtype=dtype, device=device)


def ones_like(x: Any, /, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Ones in the shape, dtype and place of another array."""
    return tensor_of(x).full_like(1, dtype=dtype, device=device)


def zeros_like(x: Any, /, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Zeros in the shape, dtype and place of another array."""
    return tensor_of(x).full_like(0, dtype=dtype, device=device)


# ---- counting


def arange(
    start: Any,
    /,
    stop: Any = None,
    step: Any = 1,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Tensor:
    """start, start + step, ... before stop; arange(n) counts from 0."""
    return Tensor.arange(start, stop, step, dtype, device)


def linspace(
    start: Any,
    stop: Any,
    /,
    num: int = 50,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    endpoint: bool = True,
) -> Tensor:
    """`num` numbers at equal distances from start to stop, which is left out if `endpoint` says so."""
    if isinstance(start, complex) or isinstance(stop, complex) or (dtype is not None and to_dtype(dtype).is_complex):
        return _complex_line(complex(start), complex(stop), num, dtype, device, endpoint)
    wanted = dtypes.default_float if dtype is None else to_dtype(dtype)
    inner = dtypes.float64 if wanted.is_int else wanted  # whole numbers of a line of floats
    count = num if endpoint or num < 1 else num + 1
    line = Tensor.linspace(start, stop, count, inner, device)
    line = line if count == num else line[:num]
    return line if wanted is inner else line.cast(wanted)


def _complex_line(
    start: complex, stop: complex, num: int, dtype: DTypeLike | None, device: str | None, endpoint: bool
) -> Tensor:
    """A line in the plane."""
    wanted = dtypes.default_complex if dtype is None else to_dtype(dtype)
    real = part_dtype(wanted)
    across = linspace(start.real, stop.real, num, dtype=real, device=device, endpoint=endpoint)
    up = linspace(start.imag, stop.imag, num, dtype=real, device=device, endpoint=endpoint)
    return Tensor.complex(across, up)  # type: ignore[no-any-return]


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Tensor:
    """Ones on a diagonal, k places above the one in the middle; zeros elsewhere."""
    if not k:
        return Tensor.eye(n_rows, n_cols, dtype, device)
    row = Tensor.arange(n_rows, dtype=dtypes.int64, device=device).unsqueeze(1)
    column = Tensor.arange(n_rows if n_cols is None else n_cols, dtype=dtypes.int64, device=device)
    return (row + k).eq(column).cast(dtype or dtypes.default_float)


def meshgrid(*arrays: Any, indexing: str = "xy") -> tuple[Tensor, ...]:
    """All combinations of the elements of several rows, the first one along the columns unless indexing is "ij"."""
    given = listed(arrays)
    return given[0].meshgrid(*given[1:], indexing=indexing) if given else ()


def tril(x: Any, /, k: int = 0) -> Tensor:
    """The elements on and below a diagonal, zeros above it."""
    return tensor_of(x).tril(k)


def triu(x: Any, /, k: int = 0) -> Tensor:
    """The elements on and above a diagonal, zeros below it."""
    return tensor_of(x).triu(k)
