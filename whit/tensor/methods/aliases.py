"""Methods that PyTorch or NumPy has under another name than ours: the table says which one each is.

    fix = same_as("trunc")          x.fix() is x.trunc(), with its arguments

What needs a word more than that is in `foreign_names.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast, overload

from whit.tensor.topic import Topic

Some = TypeVar("Some")


class Alias(Protocol):
    """A method that gives a tensor of the kind that it is called on."""

    @overload
    def __get__(self, instance: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, instance: Some, owner: type) -> Callable[..., Some]: ...


class PairAlias(Protocol):
    """A method that gives several."""

    @overload
    def __get__(self, instance: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, instance: Some, owner: type) -> Callable[..., tuple[Some, ...]]: ...


def same_as(name: str) -> Alias:
    """The method of that name under another one."""

    def method(self: Any, *args: Any, **given: Any) -> Any:
        return getattr(self, name)(*args, **given)

    method.__doc__ = f"The same as `{name}`."
    method.same_as = name  # type: ignore[attr-defined]  # whose arguments it takes (whit/tensor/tensor.py)
    return cast(Alias, method)


def several_as(name: str) -> PairAlias:
    """The same of a method that gives several tensors."""
    return cast(PairAlias, same_as(name))


class SameAs(Topic):
    """Other names."""

    __slots__ = ()

    # ---- PyTorch and NumPy

    absolute = same_as("abs")
    arccos = same_as("acos")
    arccosh = same_as("acosh")
    arcsin = same_as("asin")
    arcsinh = same_as("asinh")
    arctan = same_as("atan")
    arctan2 = same_as("atan2")
    arctanh = same_as("atanh")
    bitwise_left_shift = same_as("lshift")
    bitwise_right_shift = same_as("rshift")
    divide = same_as("div")
    fix = same_as("trunc")
    greater = same_as("gt")
    greater_equal = same_as("ge")
    less = same_as("lt")
    less_equal = same_as("le")
    multiply = same_as("mul")
    negative = same_as("neg")
    not_equal = same_as("ne")
    subtract = same_as("sub")
    trapz = same_as("trapezoid")
    true_divide = same_as("div")

    # ---- PyTorch

    conj_physical = same_as("conj")
    ger = same_as("outer")
    inverse = same_as("inv")
    ndimension = same_as("dim")
    pinverse = same_as("pinv")
    resolve_conj = same_as("positive")
    resolve_neg = same_as("positive")
    split_with_sizes = several_as("split")
    swapdims = same_as("transpose")
    unsafe_chunk = several_as("chunk")
    unsafe_split = several_as("split")
    unsafe_split_with_sizes = several_as("split")

    # ---- NumPy

    argwhere = same_as("nonzero")
    array_equal = same_as("equal")
    array_split = several_as("tensor_split")
    astype = same_as("cast")
    bitwise_invert = same_as("bitwise_not")
    conjugate = same_as("conj")
    copy = same_as("clone")
    cumulative_prod = same_as("cumprod")
    cumulative_sum = same_as("cumsum")
    degrees = same_as("rad2deg")
    expand_dims = same_as("unsqueeze")
    fabs = same_as("abs")
    invert = same_as("bitwise_not")
    left_shift = same_as("lshift")
    permute_dims = same_as("permute")
    power = same_as("pow")
    radians = same_as("deg2rad")
    right_shift = same_as("rshift")
    rint = same_as("round")
    around = same_as("round")
    unstack = several_as("unbind")
