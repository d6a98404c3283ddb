"""Methods that write what another one computes into the tensor itself: `x.relu_()` is `x.assign(x.relu())`.

    sqrt_ = written("sqrt")         x.sqrt_()        the root of x, in the memory of x, and so in all views of it
    t_ = renamed("t")               x.t_()           x becomes the name of its transpose, with the elements shared

The value is computed as by the method without the line, and cast to the tensor's dtype if that is of its kind or a
higher one (bool, unsigned, signed, float), as by `+=`. What is lazy and was made before keeps the old elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, Self, TypeVar, cast, overload

from whit.tensor.methods.data.assign import Assignment
from whit.tensor.topic import Topic

Some = TypeVar("Some")


class Written(Protocol):
    """A method that takes what another one takes, and gives the tensor that it was called on."""

    @overload
    def __get__(self, instance: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, instance: Some, owner: type) -> Callable[..., Some]: ...


def written(name: str, target: str = "") -> Written:
    """The method that writes the value of another one; its name is that with a line, or the target."""
    title = target or f"{name}_"

    def write(self: Assignment, *args: Any, **given: Any) -> Any:
        return self._become(title, getattr(self, name)(*args, **given))

    return _named(write, title, name, f"`{title[:-1]}`, written into this tensor (PyTorch).")


def renamed(name: str) -> Written:
    """The method that makes the tensor another name of a view of it."""

    def rename(self: Assignment, *args: Any, **given: Any) -> Any:
        self._become_view(getattr(self, name)(*args, **given))
        return self

    return _named(
        rename, f"{name}_", name, f"This tensor becomes its own `{name}`; the elements stay shared (PyTorch)."
    )


def _named(function: Callable[..., Any], title: str, name: str, doc: str) -> Written:
    function.__name__ = title
    function.__doc__ = doc
    function.same_as = name  # type: ignore[attr-defined]  # whose arguments it takes (whit/tensor/tensor.py)
    return cast(Written, function)


class InPlace(Topic):
    """The methods of PyTorch that end in a line."""

    __slots__ = ()

    # ---- of one element

    abs_ = written("abs")
    absolute_ = written("absolute")
    acos_ = written("acos")
    acosh_ = written("acosh")
    arccos_ = written("arccos")
    arccosh_ = written("arccosh")
    arcsin_ = written("arcsin")
    arcsinh_ = written("arcsinh")
    arctan_ = written("arctan")
    arctanh_ = written("arctanh")
    asin_ = written("asin")
    asinh_ = written("asinh")
    atan_ = written("atan")
    atanh_ = written("atanh")
    bitwise_not_ = written("bitwise_not")
    ceil_ = written("ceil")
    celu_ = written("celu")
    clamp_ = written("clamp")
    clamp_max_ = written("clamp_max")
    clamp_min_ = written("clamp_min")
    clip_ = written("clip")
    conj_physical_ = written("conj_physical")
    cos_ = written("cos")
    cosh_ = written("cosh")
    deg2rad_ = written("deg2rad")
    digamma_ = written("digamma")
    dropout_ = written("dropout")
    elu_ = written("elu")
    erf_ = written("erf")
    erfc_ = written("erfc")
    erfinv_ = written("erfinv")
    exp2_ = written("exp2")
    exp_ = written("exp")
    expm1_ = written("expm1")
    fix_ = written("fix")
    floor_ = written("floor")
    frac_ = written("frac")
    hardtanh_ = written("hardtanh")
    i0_ = written("i0")
    leaky_relu_ = written("leaky_relu")
    lgamma_ = written("lgamma")
    log10_ = written("log10")
    log1p_ = written("log1p")
    log2_ = written("log2")
    log_ = written("log")
    logical_not_ = written("logical_not")
    logit_ = written("logit")
    mvlgamma_ = written("mvlgamma")
    nan_to_num_ = written("nan_to_num")
    neg_ = written("neg")
    negative_ = written("negative")
    polygamma_ = written("polygamma")
    rad2deg_ = written("rad2deg")
    reciprocal_ = written("reciprocal")
    relu6_ = written("relu6")
    relu_ = written("relu")
    round_ = written("round")
    rsqrt_ = written("rsqrt")
    selu_ = written("selu")
    sgn_ = written("sgn")
    sigmoid_ = written("sigmoid")
    sign_ = written("sign")
    sin_ = written("sin")
    sinc_ = written("sinc")
    sinh_ = written("sinh")
    sqrt_ = written("sqrt")
    square_ = written("square")
    tan_ = written("tan")
    tanh_ = written("tanh")
    trunc_ = written("trunc")

    # ---- of two

    add_ = written("add")
    arctan2_ = written("arctan2")
    atan2_ = written("atan2")
    bitwise_and_ = written("bitwise_and")
    bitwise_left_shift_ = written("bitwise_left_shift")
    bitwise_or_ = written("bitwise_or")
    bitwise_right_shift_ = written("bitwise_right_shift")
    bitwise_xor_ = written("bitwise_xor")
    copysign_ = written("copysign")
    div_ = written("div")
    divide_ = written("divide")
    eq_ = written("eq")
    float_power_ = written("float_power")
    floor_divide_ = written("floor_divide")
    fmod_ = written("fmod")
    gcd_ = written("gcd")
    ge_ = written("ge")
    greater_ = written("greater")
    greater_equal_ = written("greater_equal")
    gt_ = written("gt")
    heaviside_ = written("heaviside")
    hypot_ = written("hypot")
    lcm_ = written("lcm")
    ldexp_ = written("ldexp")
    le_ = written("le")
    lerp_ = written("lerp")
    less_ = written("less")
    less_equal_ = written("less_equal")
    logical_and_ = written("logical_and")
    logical_or_ = written("logical_or")
    logical_xor_ = written("logical_xor")
    lt_ = written("lt")
    mul_ = written("mul")
    multiply_ = written("multiply")
    ne_ = written("ne")
    nextafter_ = written("nextafter")
    not_equal_ = written("not_equal")
    pow_ = written("pow")
    remainder_ = written("remainder")
    sub_ = written("sub")
    subtract_ = written("subtract")
    true_divide_ = written("true_divide")
    xlogy_ = written("xlogy")

    # ---- products

    addbmm_ = written("addbmm")
    addcdiv_ = written("addcdiv")
    addcmul_ = written("addcmul")
    addmm_ = written("addmm")
    addmv_ = written("addmv")
    addr_ = written("addr")
    baddbmm_ = written("baddbmm")

    # ---- of an axis, of positions

    cumprod_ = written("cumprod")
    cumsum_ = written("cumsum")
    fill_diagonal_ = written("_with_diagonal", "fill_diagonal_")
    index_add_ = written("index_add")
    index_copy_ = written("index_copy")
    index_fill_ = written("index_fill")
    index_put_ = written("index_put")
    index_reduce_ = written("index_reduce")
    masked_fill_ = written("masked_fill")
    masked_scatter_ = written("masked_scatter")
    put_ = written("_with_put", "put_")
    renorm_ = written("renorm")
    scatter_ = written("scatter")
    scatter_add_ = written("scatter_add")
    scatter_reduce_ = written("scatter_reduce")
    tril_ = written("tril")
    triu_ = written("triu")

    # ---- the same elements

    detach_ = renamed("detach")
    squeeze_ = renamed("squeeze")
    swapaxes_ = renamed("swapaxes")
    swapdims_ = renamed("swapdims")
    t_ = renamed("t")
    transpose_ = renamed("transpose")
    unsqueeze_ = renamed("unsqueeze")

    def copy_(self, x: Any, non_blocking: bool = False) -> Self:
        """`self[...] = x`: cast, moved and repeated to fit (PyTorch)."""
        self[...] = x.to(self.device) if isinstance(x, Topic) else x
        return self

    def fill_(self, value: Any) -> Self:
        """One number everywhere (PyTorch)."""
        return self.copy_(value)

    def zero_(self) -> Self:
        """0 everywhere (PyTorch)."""
        return self.copy_(0)

    def fill(self, value: Any) -> None:
        """One number everywhere (NumPy)."""
        self.copy_(value)
