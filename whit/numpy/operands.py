"""What a function is given, as tensors; and functions that are methods of Tensor, made by table.

sin = unary("sin")            # sin(x) is x.sin(), of a tensor, an array, a list or a number
add = binary("add")           # add(x1, x2) is x1.add(x2); one of them may be a Python number, which is weak
kron = function("kron")       # kron(a, ...) is a.kron(...), with the method's own arguments
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final, TypeVar, cast

from whit.dtype import DType, least_upper_dtype, resolve_weak, weak_dtype
from whit.tensor import Tensor

NUMBERS: Final = (bool, int, float, complex)

Named = TypeVar("Named", bound=Callable[..., Any])
Unary = Callable[[Any], Tensor]
Binary = Callable[[Any, Any], Tensor]


def tensor_of(value: Any, dtype: DType | None = None) -> Tensor:
    """A tensor as it is; anything else that one can be made of; of a list with tensors in it their stack."""
    if isinstance(value, Tensor):
        return value if dtype is None or dtype is value.dtype else value.cast(dtype)
    if within(value):
        return stacked([tensor_of(each, dtype) for each in value])
    return Tensor(value, dtype=dtype)


def within(value: Any) -> bool:
    """Whether a tensor stands in nested lists."""
    stack: list[Any] = [value]
    while stack:
        each = stack.pop()
        if isinstance(each, list | tuple):
            stack += each
        elif isinstance(each, Tensor):
            return True
    return False


def stacked(parts: list[Tensor], axis: int = 0) -> Tensor:
    """Tensors of one shape along a new axis, in their common dtype."""
    first, *rest = parts
    return first.stack(*rest, dim=axis)


def listed(arrays: Any) -> list[Tensor]:
    """Several tensors, given as a list, or as one whose first axis counts them."""
    return [tensor_of(each) for each in arrays]


def dtype_beside(number: Any, dtype: DType) -> DType:
    """The dtype in which a Python number and a tensor of this dtype meet."""
    return resolve_weak(least_upper_dtype(dtype, weak_dtype(number)))


def number_beside(number: Any, tensor: Tensor) -> Tensor:
    """A Python number as the tensor that meets another one."""
    return Tensor.full((), number, dtype_beside(number, tensor.dtype), requires_grad=False)


def pair(x1: Any, x2: Any) -> tuple[Tensor, Any]:
    """Two operands, the first one as a tensor."""
    if isinstance(x1, Tensor):
        return x1, x2
    if isinstance(x2, Tensor) and isinstance(x1, NUMBERS):
        return number_beside(x1, x2), x2
    return tensor_of(x1), x2


def tensors(x1: Any, x2: Any) -> tuple[Tensor, Tensor]:
    """Two operands as tensors."""
    left, right = pair(x1, x2)
    if isinstance(right, NUMBERS):
        return left, number_beside(right, left)
    return left, tensor_of(right)


def unary(method: str) -> Unary:
    """The function of one array that is the method of this name."""

    def call(x: Any, /) -> Tensor:
        return getattr(tensor_of(x), method)()  # type: ignore[no-any-return]

    return named(call, method, method)


def binary(method: str, name: str = "", turned: str = "") -> Binary:
    """The function of two arrays that is the method of this name. `turned` is the one that a number on the left needs:
    a comparison with a number that the other dtype does not hold has an answer."""

    def call(x1: Any, x2: Any, /) -> Tensor:
        if turned and isinstance(x1, NUMBERS) and isinstance(x2, Tensor):
            return getattr(x2, turned)(x1)  # type: ignore[no-any-return]
        left, right = pair(x1, x2)
        return getattr(left, method)(right)  # type: ignore[no-any-return]

    return named(call, method, name or method)


def function(method: str, name: str = "") -> Callable[..., Any]:
    """The function whose first argument is what the method is called on; the others are the method's."""

    def call(x: Any, /, *args: Any, **given: Any) -> Any:
        return getattr(tensor_of(x), method)(*args, **given)

    found = named(call, method, name or method)
    parameters = list(inspect.signature(getattr(Tensor, method)).parameters.values())
    names = {parameter.name for parameter in parameters}
    first = parameters[0].replace(name="a" if "x" in names else "x", kind=inspect.Parameter.POSITIONAL_ONLY)
    found.__signature__ = inspect.Signature([first, *parameters[1:]])  # type: ignore[attr-defined]
    return found


def constructor(method: str, name: str = "") -> Callable[..., Any]:
    """The function that is a class method."""

    def call(*args: Any, **given: Any) -> Any:
        return getattr(Tensor, method)(*args, **given)

    found = named(call, method, name or method)
    found.__signature__ = inspect.signature(getattr(Tensor, method))  # type: ignore[attr-defined]
    return found


def named(call: Named, method: str, name: str) -> Named:
    """A function with the name and the documentation of a method."""
    made = cast(FunctionType, call)
    made.__name__ = made.__qualname__ = name
    made.__code__ = made.__code__.replace(co_name=name)  # what messages call it
    made.__module__ = "whit.numpy"
    made.__doc__ = getattr(Tensor, method).__doc__
    return call
