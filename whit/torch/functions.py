"""Functions of PyTorch whose arguments, or results, are not those of the method of Tensor that does the work."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from whit.dtype import DType, dtypes, least_upper_dtype
from whit.numpy.slopes import gradient as _gradient
from whit.tensor import Tensor
from whit.tensor.results import ValuesAndIndices
from whit.torch.rows import into, like, not_a_tensor

# ---- the largest and the smallest: of all, along an axis with positions, of two tensors


def _extreme(name: str, positions: str, of_two: str) -> Callable[..., Any]:
    def function(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None, out: Any = None) -> Any:
        """Of all elements; along an axis, with positions; of two tensors, at each place."""
        if not isinstance(input, Tensor):
            raise not_a_tensor(f"torch.{name}", input)
        other = dim if isinstance(dim, Tensor) else other
        if other is not None:
            return into(out, getattr(input, of_two)(other))
        if dim is None:
            return into(out, getattr(input, name)())
        values = getattr(input, name)(dim, keepdim=keepdim)
        return into(out, ValuesAndIndices(values, getattr(input, positions)(dim, keepdim=keepdim)))

    function.__name__ = function.__qualname__ = name
    return function


max = _extreme("max", "argmax", "maximum")
min = _extreme("min", "argmin", "minimum")


# ---- choosing


def where(condition: Tensor, input: Any = None, other: Any = None, *, out: Any = None) -> Any:
    """`condition.where(input, other)`; of a condition alone, the places where it holds: a tensor for each axis."""
    if not isinstance(condition, Tensor):
        raise not_a_tensor("torch.where", condition)
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    return into(out, condition.where(input, other))


def nonzero(input: Tensor, *, as_tuple: bool = False, out: Any = None) -> Any:
    """The places of what is not 0: a row for each, or a tensor for each axis."""
    found = input.nonzero()
    return tuple(found.unbind(1)) if as_tuple else into(out, found)


def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """Each value once, in order."""
    return input.unique(return_inverse, return_counts, dim)


def searchsorted(
    sorted_sequence: Tensor,
    values: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
    out: Any = None,
) -> Any:
    """Where values belong in sorted rows."""
    rows = sorted_sequence if sorter is None else sorted_sequence.gather(-1, sorter)
    given = values if isinstance(values, Tensor) else like(values, (rows,))
    found = rows.searchsorted(given, side=side or "left", right=right)
    return into(out, found if out_int32 else found.cast(dtypes.int64))


def histogram(
    input: Tensor, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False
) -> tuple[Tensor, Tensor]:
    """Counts of bins, and their edges."""
    return input.histogram(bins, range, weight, density)


def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether each element is among others."""
    given = elements if isinstance(elements, Tensor) else like(elements, (test_elements,))
    return given.isin(test_elements, assume_unique, invert)


def bucketize(input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False, out: Any = None) -> Any:
    """Between which boundaries each value lies."""
    given = input if isinstance(input, Tensor) else like(input, (boundaries,))
    return into(out, given.bucketize(boundaries, out_int32=out_int32, right=right))


# ---- arithmetic


def polygamma(n: int, input: Tensor, *, out: Any = None) -> Any:
    """The n-th derivative of digamma."""
    return into(out, input.polygamma(n))


def rsub(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """other - alpha * input."""
    result: Tensor = (input * -alpha) + other
    return result


def gradient(input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """Slopes by differences of neighbours, along each axis: a tuple."""
    steps = tuple(spacing) if isinstance(spacing, list | tuple) else (spacing,)
    found = _gradient(input, *steps, axis=dim, edge_order=edge_order)
    return found if isinstance(found, tuple) else (found,)


def einsum(equation: Any, *operands: Any) -> Tensor:
    """Products and sums by a formula, or by lists of axes after each operand."""
    given = operands[0] if len(operands) == 1 and isinstance(operands[0], list | tuple) else operands
    if isinstance(equation, Tensor):
        formula, tensors = _formula_of((equation, *given))
        return Tensor.einsum(formula, *tensors)
    return Tensor.einsum(equation, *given)


def _formula_of(operands: Sequence[Any]) -> tuple[str, list[Any]]:
    """A formula of letters for tensors that are followed by lists of numbers."""

    def letters(axes: Any) -> str:
        return "".join("..." if axis is Ellipsis else chr(ord("a" if axis < 26 else "A") + axis % 26) for axis in axes)

    pairs = len(operands) // 2
    tensors = [operands[2 * i] for i in builtins.range(pairs)]
    left = ",".join(letters(operands[2 * i + 1]) for i in builtins.range(pairs))
    right = f"->{letters(operands[-1])}" if len(operands) % 2 else ""
    return left + right, tensors


# ---- complex numbers


def real(input: Tensor) -> Tensor:
    """The real part."""
    return input.real


def imag(input: Tensor) -> Tensor:
    """The imaginary part."""
    return input.imag


# ---- matrices


class SVD(NamedTuple):
    """input = U @ diag(S) @ V.T."""

    U: Tensor
    S: Tensor
    V: Tensor


class QR(NamedTuple):
    """input = Q @ R."""

    Q: Tensor
    R: Tensor


def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> SVD:
    """Singular values, and vectors in columns; `linalg.svd` gives those on the right in rows."""
    left, values, right = input.svd(full_matrices=not some)
    return SVD(left, values, right.transpose(-2, -1))


def qr(input: Tensor, some: bool = True) -> QR:
    """An orthogonal matrix and a triangle."""
    return QR(*input.qr("reduced" if some else "complete"))


# ---- shapes


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape of elementwise work on tensors of these shapes."""
    tensors = [Tensor.empty(*((shape,) if isinstance(shape, int) else shape)) for shape in shapes]
    return tuple(tensors[0].broadcast_tensors(*tensors[1:])[0].shape) if tensors else ()


def _each(name: str) -> Callable[..., Any]:
    method = getattr(Tensor, name)

    def function(*tensors: Any) -> Any:
        """Of one tensor, or of each of several."""
        if len(tensors) == 1 and isinstance(tensors[0], Tensor):
            return method(tensors[0])
        given = tensors[0] if len(tensors) == 1 else tensors
        return tuple(method(tensor) for tensor in given)

    function.__name__ = function.__qualname__ = name
    return function


atleast_1d, atleast_2d, atleast_3d = (_each(f"atleast_{count}d") for count in (1, 2, 3))


# ---- networks


def dropout(input: Tensor, p: float = 0.5, train: bool = True) -> Tensor:
    """Some elements 0, the others larger, while training."""
    if not train:
        return input
    with Tensor.train():
        return input.dropout(p)


# ---- questions


def is_tensor(obj: Any) -> bool:
    """Whether something is a tensor."""
    return isinstance(obj, Tensor)


def result_type(tensor1: Any, tensor2: Any) -> DType:
    """The dtype of arithmetic with both."""
    if not isinstance(tensor1, Tensor) and not isinstance(tensor2, Tensor):
        tensor1 = Tensor(tensor1)
    found: Tensor = tensor1 + tensor2
    return found.dtype


def promote_types(type1: DType, type2: DType) -> DType:
    """The least dtype that both go into."""
    return least_upper_dtype(type1, type2)


def can_cast(from_: DType, to: DType) -> bool:
    """Whether a kind goes into another: floats not into integers, numbers not into bools."""

    def rank(dtype: DType) -> int:
        return 0 if dtype is dtypes.bool else 1 if not dtype.is_float else 2

    return rank(from_) <= rank(to) and not (rank(from_) == 1 and rank(to) == 0)


def typename(obj: Any) -> str:
    """The name of a type."""
    return "torch.Tensor" if isinstance(obj, Tensor) else type(obj).__name__


def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """`x.copy_(functional.rrelu(x))`."""
    slope = (lower + upper) / 2
    if training:
        slope_of_each = Tensor.uniform(*input.shape, low=lower, high=upper, device=input.device)
        return input.copy_((input < 0).where(input * slope_of_each, input))
    return input.copy_((input < 0).where(input * slope, input))


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """What is not above a threshold becomes a value."""
    return input.copy_((input > threshold).where(input, value))


def svd_lowrank(A: Tensor, q: int = 6, niter: int = 2, M: Tensor | None = None) -> SVD:  # noqa: N803
    """The q largest singular values, and their vectors: exact here."""
    left, values, right = svd(A if M is None else A - M)
    return SVD(left[..., :q], values[..., :q], right[..., :q])


def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> SVD:  # noqa: N803
    """The q largest of columns whose means are taken away."""
    count = builtins.min(6, *A.shape[-2:]) if q is None else q
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, count)
