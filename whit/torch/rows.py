"""Which functions of PyTorch are methods of Tensor: tables, and what makes functions of their rows.

    sin = functions("sin")["sin"]
    sin(x), sin(input=x), sin(x, out=y)         x.sin(), x.sin(), y.copy_(x.sin())

A row is a name that the method and the function share, with one meaning and one order of arguments. What has another
order, or other results, is a function of `functions.py`, in terms of methods too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from whit.errors import ArgumentError
from whit.tensor import Tensor
from whit.torch.generator import drawing

Function = Callable[..., Any]

# Functions of one tensor and more: the method has the same name, and takes the rest.
ELEMENTWISE: Final = """
    abs absolute acos acosh add addcdiv addcmul angle arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh
    atan atan2 atanh bitwise_not ceil celu clamp clamp_max clamp_min clip conj conj_physical copysign cos cosh deg2rad
    digamma div divide eq erf erfc erfinv exp exp2 expm1 fix floor floor_divide fmax fmin fmod frac frexp gcd ge
    greater greater_equal gt hardshrink heaviside hypot i0 isclose isfinite isin isinf isnan isneginf isposinf isreal
    lcm ldexp le lerp less less_equal lgamma log log10 log1p log2 logaddexp logaddexp2 logical_and logical_not
    logical_or logical_xor logit lt maximum minimum mul multiply mvlgamma nan_to_num ne neg negative nextafter
    not_equal positive prelu rad2deg reciprocal relu round rsqrt selu sgn sigmoid sign signbit sin sinc sinh sqrt
    square sub subtract tan tanh true_divide trunc
"""
REDUCTIONS: Final = """
    all allclose amax amin aminmax any argmax argmin count_nonzero cummax cummin cumprod cumsum cumulative_trapezoid
    dist equal logcumsumexp logsumexp mean median mode nanmean nanmedian nanquantile nansum norm prod quantile std
    std_mean sum trapezoid trapz var var_mean
"""
ORDER: Final = """
    argsort argwhere bincount bucketize corrcoef cov histc kthvalue msort nonzero_static renorm sort topk
    unique_consecutive unravel_index
"""
PRODUCTS: Final = """
    addbmm addmm addmv addr adjoint baddbmm bmm cdist cholesky cholesky_inverse cholesky_solve cross det dot ger inner
    inverse kron logdet matmul matrix_exp matrix_power mm mv outer pdist pinverse slogdet tensordot trace vander vdot
"""
SHAPES: Final = """
    broadcast_to chunk combinations diag diag_embed diagflat diagonal diagonal_scatter diff dsplit flatten flip fliplr
    flipud hsplit moveaxis movedim narrow narrow_copy permute ravel repeat_interleave reshape roll rot90 select
    select_scatter slice_scatter split split_with_sizes squeeze swapaxes swapdims t tensor_split tile transpose tril
    triu unbind unflatten unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze vsplit
"""
POSITIONS: Final = """
    gather index_add index_copy index_fill index_put index_reduce index_select masked_fill masked_scatter masked_select
    put scatter scatter_add scatter_reduce take take_along_dim
"""
LIKE: Final = "empty_like ones_like rand_like randn_like zeros_like"
OTHERS: Final = """
    clone detach fill view_as_complex view_as_real
    get_device is_complex is_conj is_floating_point is_inference is_neg is_nonzero is_same_size
    is_signed istft log_softmax multinomial numel resolve_conj resolve_neg softmax stft
"""
METHODS: Final = " ".join((ELEMENTWISE, REDUCTIONS, ORDER, PRODUCTS, SHAPES, POSITIONS, LIKE, OTHERS)).split()

# Functions of methods that write, of the same name.
IN_PLACE: Final = """
    abs_ acos_ acosh_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_ asin_ asinh_ atan_ atanh_ addmv_ ceil_ clamp_
    clamp_max_ clamp_min_ clip_ conj_physical_ cos_ cosh_ deg2rad_ detach_ dropout_ erf_ erfc_ exp2_ exp_ expm1_ fill_
    fix_ floor_ frac_ gcd_ i0_ index_put_ lcm_ ldexp_ log10_ log1p_ log2_ log_ logit_ nan_to_num_ neg_ negative_
    rad2deg_ reciprocal_ relu_ round_ rsqrt_ selu_ celu_ sigmoid_ sin_ sinc_ sinh_ sqrt_ square_ tan_ tanh_ trunc_
    xlogy_ zero_
""".split()

# The first operand, or the second, may be a number.
OF_NUMBERS: Final = """
    bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor float_power pow remainder xlogy
""".split()

# Functions of several tensors, in a list or one by one: the method of the first.
OF_LISTS: Final = """
    block_diag broadcast_tensors cartesian_prod cat chain_matmul column_stack concat concatenate dstack hstack meshgrid
    row_stack stack vstack
""".split()

# Copies of views, that PyTorch's compiler has: the view will do, as no write through it is expected.
COPIES: Final = """
    alias detach diagonal expand permute select split split_with_sizes squeeze t transpose unbind unfold unsqueeze
    view
""".split()

# Accepted, and without a meaning here: the compiler chooses how tensors lie in memory, and copies are queued.
IGNORED: Final = frozenset({"memory_format", "layout", "pin_memory", "non_blocking"})


def functions(names: Iterable[str], prefix: str = "torch") -> dict[str, Function]:
    """Functions that call the methods of these names."""
    return {name: of_method(name, name, prefix) for name in names}


def renamed(pairs: dict[str, str], prefix: str = "torch") -> dict[str, Function]:
    """The same of functions that are called otherwise: {their name: the method}."""
    return {name: of_method(name, method, prefix) for name, method in pairs.items()}


def of_numbers(names: Iterable[str]) -> dict[str, Function]:
    """The same, where a number may come first."""
    return {name: of_method(name, name, "torch", takes_numbers=True) for name in names}


def of_lists(names: Iterable[str]) -> dict[str, Function]:
    """Functions of several tensors."""
    return {name: _of_list(name) for name in names}


def of_method(name: str, method: str, prefix: str, takes_numbers: bool = False) -> Function:
    """A function that calls a method of its first argument."""
    found = getattr(Tensor, method)

    def function(*args: Any, **given: Any) -> Any:
        """See the method."""
        out, generator, given = plain(given)
        if not args and "input" in given:
            args = (given.pop("input"),)
        first = args[0] if args else None
        if not isinstance(first, Tensor):
            others = [*args[1:], *given.values()]
            if not takes_numbers or not isinstance(first, int | float):
                raise not_a_tensor(f"{prefix}.{name}", first)
            args = (like(first, others), *args[1:])
        with drawing(generator):
            result = found(*args, **given)
        return into(out, result)

    return _called(function, name, method, prefix)


def _of_list(name: str) -> Function:
    found = getattr(Tensor, name)

    def function(*args: Any, **given: Any) -> Any:
        """See the method."""
        out, _, given = plain(given)
        if not args and "tensors" in given:
            args = (given.pop("tensors"),)
        first = args[0] if args else None
        if not isinstance(first, Tensor | list | tuple):
            raise not_a_tensor(f"torch.{name}", first)
        if isinstance(first, list | tuple):
            inside = [each for each in first if not isinstance(each, Tensor)]
            if inside or not first:
                raise not_a_tensor(f"torch.{name}", inside[0] if inside else first)
            if name in ("cat", "concat", "concatenate", "stack"):
                return into(out, found(list(first), *args[1:], **given))
            args = (*first, *args[1:])
        return into(out, found(*args, **given))

    return _called(function, name, name, "torch")


def _called(function: Function, name: str, method: str, prefix: str) -> Function:
    function.__name__ = function.__qualname__ = name
    function.__module__ = f"whit.{prefix}"
    function.__doc__ = f"`x.{method}(...)`: {getattr(Tensor, method).__doc__ or ''}"
    return function


# ---- arguments that all functions share


def plain(given: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    """`out=`, `generator=`, and the other arguments without those that mean nothing here."""
    if not given:
        return None, None, given
    kept = {name: value for name, value in given.items() if name not in IGNORED}
    return kept.pop("out", None), kept.pop("generator", None), kept


def into(out: Any, result: Any) -> Any:
    """A result, written into the tensors that the caller gave for it."""
    if out is None:
        return result
    if isinstance(out, Tensor):
        return out.copy_(result)
    for target, value in zip(out, result, strict=True):
        target.copy_(value)
    return out


def like(number: float, others: Iterable[Any]) -> Tensor:
    """A number as a tensor that promotes as a number does."""
    tensor = next((each for each in others if isinstance(each, Tensor)), None)
    if tensor is None:
        return Tensor(number)
    is_kept = tensor.dtype.is_float or not isinstance(number, float)
    return Tensor(number, dtype=tensor.dtype if is_kept else None, device=tensor.device)


def not_a_tensor(name: str, given: Any) -> ArgumentError:
    """The error of a call without a tensor."""
    return ArgumentError(f"{name}: {given!r:.60} is no tensor", fix="Make one of it: torch.tensor(data).")
