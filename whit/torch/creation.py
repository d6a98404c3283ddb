"""Tensors made of data and of shapes, with PyTorch's defaults: whole numbers are int64 unless a dtype is said.

torch.tensor([1, 2, 3]).dtype           int64, where Tensor([1, 2, 3]) is int32
torch.arange(5), torch.full((2,), 7)    int64; with a float among the numbers, the default float
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whit.dtype import DType, dtypes
from whit.errors import ArgumentError
from whit.tensor import Tensor
from whit.torch.generator import drawing
from whit.torch.rows import into, plain


def _whole_numbers(data: Any) -> bool:
    """Whether data of Python has whole numbers alone."""
    while isinstance(data, list | tuple):
        if not data:
            return False
        kinds = {type(each) for each in data}
        if kinds <= {int, bool}:
            return int in kinds
        if not kinds <= {list, tuple}:
            return all(_whole_numbers(each) for each in data)
        if len(data) > 1:
            return all(_whole_numbers(each) for each in data)
        data = data[0]
    return isinstance(data, int) and not isinstance(data, bool)


def _long(dtype: Any, *numbers: Any) -> Any:
    """The dtype that was asked for; int64 of whole numbers if none was."""
    return dtypes.int64 if dtype is None and all(_whole_numbers(number) for number in numbers) else dtype


def taking(tensor: Tensor, requires_grad: Any) -> Tensor:
    """A new tensor, that takes gradients or not: here they take none unless somebody says so."""
    tensor.requires_grad = bool(requires_grad) or None
    return tensor.requires_grad_(bool(requires_grad)) if tensor.dtype.is_float or requires_grad else tensor


def made(out: Any, method: Callable[..., Tensor], *args: Any, requires_grad: Any = False, **given: Any) -> Any:
    """What a constructor gives, or `out` with these elements."""
    found = method(*args, **given)
    return taking(found, requires_grad) if out is None else into(out, found)


def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
) -> Tensor:
    """A tensor of data: a copy."""
    found = Tensor(data, dtype=_long(dtype, data), device=device)
    return taking(found.detach().clone() if isinstance(data, Tensor) else found, requires_grad)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of data: the same one where it is a tensor of that dtype on that device, shared where it can be."""
    if isinstance(data, Tensor):
        moved = data if device is None else data.to(device)
        return moved if dtype is None else moved.cast(dtype)
    return taking(Tensor(data, dtype=_long(dtype, data), device=device, copy=False), False)


def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False
) -> Tensor:
    """The same, with the choice of a copy."""
    found = as_tensor(obj, dtype, device)
    found = found.clone() if copy and found is obj else found
    return taking(found, True) if requires_grad else found


def from_numpy(ndarray: Any) -> Tensor:
    """The tensor of an array, whose memory it shares."""
    if not hasattr(ndarray, "__array_interface__"):
        raise ArgumentError(f"from_numpy: {ndarray!r:.60} is no array of NumPy", fix="torch.tensor(data) takes others.")
    return taking(Tensor(ndarray, copy=False), False)


def from_dlpack(ext_tensor: Any) -> Tensor:
    """The tensor of another library's array, whose memory it shares."""
    return taking(Tensor.from_dlpack(ext_tensor), False)


def frombuffer(buffer: Any, *, dtype: DType, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """The numbers in bytes: a copy."""
    view = memoryview(buffer).cast("B")[offset:]
    size = len(view) // dtype.itemsize if count < 0 else count
    if size * dtype.itemsize > len(view) or size == 0:
        raise ArgumentError(
            f"frombuffer: {size} elements of {dtype.name} are not in {len(view)} bytes",
            fix="Give fewer, or another dtype.",
        )
    found = Tensor(bytes(view[: size * dtype.itemsize]), dtype=dtypes.uint8).bitcast(dtype)
    return taking(found, requires_grad)


def scalar_tensor(s: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """One number, a float unless a dtype is said."""
    return taking(Tensor(s, dtype=dtype or dtypes.default_float, device=device), False)


def _shaped(name: str) -> Callable[..., Tensor]:
    """zeros, ones, empty, rand, randn: of sizes, one by one or together, or by name."""
    method = getattr(Tensor, name)

    def function(*size: Any, **given: Any) -> Any:
        """See the method of Tensor."""
        out, generator, given = plain(given)
        if "size" in given:
            size = (given.pop("size"),)
        with drawing(generator):
            return made(out, method, *size, **given)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`Tensor.{name}(...)`: {method.__doc__ or ''}"
    return function


empty, ones, rand, randn, zeros = (_shaped(name) for name in ("empty", "ones", "rand", "randn", "zeros"))


def full(size: Any, fill_value: Any, *, dtype: Any = None, **given: Any) -> Any:
    """One number everywhere."""
    out, _, given = plain(given)
    return made(out, Tensor.full, size, fill_value, dtype=_long(dtype, fill_value), **given)


def full_like(input: Tensor, fill_value: Any, **given: Any) -> Tensor:
    """The same, in the shape and dtype of another tensor."""
    _, _, given = plain(given)
    requires_grad = given.pop("requires_grad", False)
    return taking(input.full_like(fill_value, **given), requires_grad)


def eye(n: int, m: int | None = None, **given: Any) -> Any:
    """Ones on the diagonal."""
    out, _, given = plain(given)
    return made(out, Tensor.eye, n, m, **given)


def arange(*numbers: Any, dtype: Any = None, **given: Any) -> Any:
    """(end), (start, end), (start, end, step): numbers at equal distances, without the end."""
    out, _, given = plain(given)
    start, end, step = (given.pop(name, None) for name in ("start", "end", "step"))
    if end is not None:
        numbers = (0 if start is None else start, end, *([] if step is None else [step]), *numbers)
    elif step is not None:
        numbers = (*numbers, step) if len(numbers) == 2 else (0, *numbers, step)
    return made(out, Tensor.arange, *numbers, dtype=_long(dtype, *numbers), **given)


def range_(start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None, **given: Any) -> Any:
    """The same, with the end: PyTorch calls it `range`."""
    first, last = (0, start) if end is None else (start, end)
    count = int((last - first) / step) + 1
    out, _, given = plain(given)
    values = Tensor.arange(count, dtype=dtype or dtypes.default_float, **given)
    return into(out, values * step + first)


def linspace(start: Any, end: Any, steps: int, **given: Any) -> Any:
    """Numbers at equal distances, with both ends."""
    out, _, given = plain(given)
    return made(out, Tensor.linspace, start, end, steps, **given)


def logspace(start: Any, end: Any, steps: int, base: float = 10.0, **given: Any) -> Any:
    """Powers of a base at equal distances, with both ends."""
    out, _, given = plain(given)
    return made(out, Tensor.logspace, start, end, steps, base, **given)


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = dtypes.int64, **given: Any) -> Tensor:
    """The places on and below a diagonal: two rows."""
    _, _, given = plain(given)
    return Tensor.tril_indices(row, col, offset, **given).cast(dtype)


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = dtypes.int64, **given: Any) -> Tensor:
    """The places on and above a diagonal."""
    _, _, given = plain(given)
    return Tensor.triu_indices(row, col, offset, **given).cast(dtype)


def complex(real: Tensor, imag: Tensor, *, out: Any = None) -> Any:
    """Complex numbers of two parts."""
    return into(out, Tensor.complex(real, imag))


def polar(abs: Tensor, angle: Tensor, *, out: Any = None) -> Any:
    """Complex numbers of a length and an angle."""
    return into(out, Tensor.polar(abs, angle))


# ---- random numbers


def randint(*numbers: Any, dtype: Any = dtypes.int64, **given: Any) -> Any:
    """(high, size) or (low, high, size): whole numbers from low on, below high."""
    out, generator, given = plain(given)
    if "size" in given:
        numbers = (*numbers, given.pop("size"))
    low, high = given.pop("low", None), given.pop("high", None)
    if high is not None:
        numbers = (0 if low is None else low, high, *numbers) if len(numbers) == 1 else (numbers[0], high, numbers[-1])
    if len(numbers) not in (2, 3) or not isinstance(numbers[-1], list | tuple):
        raise ArgumentError(
            f"torch.randint: {numbers!r:.60}",
            "it takes (high, size) or (low, high, size), and the size is a tuple",
            "As in torch.randint(10, (2, 3)).",
        )
    low, high = (0, numbers[0]) if len(numbers) == 2 else numbers[:2]
    with drawing(generator):
        return made(out, Tensor.randint, *numbers[-1], low=low, high=high, dtype=dtype, **given)


def randint_like(input: Tensor, low: int, high: int | None = None, *, dtype: Any = None, **given: Any) -> Tensor:
    """The same in the shape and dtype of another tensor."""
    low, high = (0, low) if high is None else (low, high)
    _, generator, _ = plain(given)
    with drawing(generator):
        return input.randint_like(low, high, dtype)


def randperm(n: int, *, dtype: Any = dtypes.int64, **given: Any) -> Any:
    """0 ... n - 1 in random order."""
    out, generator, given = plain(given)
    with drawing(generator):
        return made(out, Tensor.randperm, n, dtype=dtype, **given)


def normal(mean: Any, std: Any = 1.0, size: Any = None, **given: Any) -> Any:
    """Normal numbers around means, of which either may be a tensor; of a size, where both are numbers."""
    out, generator, given = plain(given)
    with drawing(generator):
        if isinstance(mean, Tensor) or isinstance(std, Tensor):
            shape = (mean + std).shape if isinstance(mean, Tensor) else std.shape
            return into(out, mean + std * Tensor.randn(*shape, **given))
        if size is None:
            raise ArgumentError("torch.normal: two numbers and no size", fix="Give size=(2, 3).")
        return made(out, Tensor.normal, *size, mean=mean, std=std, **given)


def bernoulli(input: Tensor, p: float | None = None, *, generator: Any = None, out: Any = None) -> Any:
    """1 with the probability that the input says, or p, else 0."""
    with drawing(generator):
        return into(out, (input if p is None else input.full_like(p)).bernoulli())


def poisson(input: Tensor, generator: Any = None) -> Tensor:
    """Counts of events where so many are expected: by arrivals, so for rates of up to some hundreds."""
    most = float(input.max().item()) if input.numel() else 0.0
    count = int(most + 10 * most**0.5 + 20)
    with drawing(generator):
        waiting = Tensor.rand(count, *input.shape, device=input.device).clamp(min_=1e-37).log().neg().cumsum(axis=0)
    return (waiting < input).sum(axis=0).cast(input.dtype)
