"""The derivatives of the functions in `decompose`, by the names under which they mark their results.

Goes in: the value y, its gradient dy, the matrix, and what else the function was of. Comes out: a gradient for each of
them. They are made of the same functions, so they can be differentiated again; where one of them is an inverse or a
solution it is computed at once, as in `decompose`. What has no rule here raises when its gradient is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whit.errors import NotSupportedError
from whit.ir.uop import UOp
from whit.tensor.tensor import Tensor
from whit.transform import derivative

Given = tuple[UOp | None, ...]
Rule = Callable[..., tuple[Any, ...]]


def _on_tensors(name: str) -> Callable[[Rule], Rule]:
    """Registers a rule that is written with tensors."""

    def register(rule: Rule) -> Rule:
        def gradient(y: UOp, dy: UOp, *operands: UOp) -> Given:
            found = rule(*(Tensor._make(node, node.device) for node in (y, dy, *operands)))
            pairs = zip(found, operands, strict=True)
            return tuple(None if part is None else part.uop.cast(operand.dtype) for part, operand in pairs)

        derivative(name)(gradient)
        return rule

    return register


def _transposed(x: Any) -> Any:
    """Of complex matrices, conjugated too: the gradients are those of PyTorch's convention."""
    return x.transpose(-2, -1).conj()


def _symmetric(x: Any) -> Any:
    return (x + _transposed(x)) * 0.5


def _also(value: Any, name: str, *operands: Any) -> Any:
    """Another result of the same function: its derivative is needed by the second one."""
    return Tensor._make(value.uop.formula(name, *(operand.uop for operand in operands)))


def _value(y: Any) -> Any:
    """A result without its derivative, as the rules of the other results have it."""
    return Tensor._make(y.uop.src[0])


def _each(x: Any) -> Any:
    """A number for each matrix, beside the matrix."""
    return x.unsqueeze(-1).unsqueeze(-1)


@_on_tensors("inv")
def _inv(y: Any, dy: Any, a: Any) -> tuple[Any, ...]:
    return (-(_transposed(y) @ dy @ _transposed(y)),)


@_on_tensors("solve")
def _solve(y: Any, dy: Any, a: Any, b: Any) -> tuple[Any, ...]:
    db = _transposed(a).solve(dy)
    return _summed(-(db @ _transposed(y)), a.shape), _summed(db, b.shape)


def _summed(x: Any, shape: tuple[int, ...]) -> Any:
    """The gradient of something that was broadcast."""
    lead = x.ndim - len(shape)
    x = x.sum(tuple(range(lead))) if lead else x
    repeated = tuple(i for i, size in enumerate(shape) if size == 1 and x.shape[i] != 1)
    return x.sum(repeated, keepdim=True) if repeated else x


@_on_tensors("det")
def _det(y: Any, dy: Any, a: Any) -> tuple[Any, ...]:
    return (_each(dy * y.conj()) * _transposed(a.inv()),)


@_on_tensors("logdet")
def _logdet(y: Any, dy: Any, a: Any) -> tuple[Any, ...]:
    return (_each(dy) * _transposed(a.inv()),)


@_on_tensors("cholesky")
def _cholesky(y: Any, dy: Any, a: Any) -> tuple[Any, ...]:
    """Half of the lower triangle's diagonal, between inverses of the factor; the gradient of a symmetric matrix."""
    product = (_transposed(y) @ dy).tril()
    halved = product - (product - product.tril(-1)) * 0.5
    inverse = y.inv()
    return (_symmetric(_transposed(inverse) @ halved @ inverse),)


@_on_tensors("eigh_values")
def _eigh_values(y: Any, dy: Any, a: Any, v: Any) -> tuple[Any, ...]:
    v = _also(v, "eigh_vectors", a, _value(y))
    return (v * dy.unsqueeze(-2)) @ _transposed(v), None


@_on_tensors("eigh_vectors")
def _eigh_vectors(y: Any, dy: Any, a: Any, w: Any) -> tuple[Any, ...]:
    """Infinite or NaN where two eigenvalues are equal: their vectors are not determined."""
    w = _also(w, "eigh_values", a, _value(y))
    gaps = w.unsqueeze(-2) - w.unsqueeze(-1)
    off = (Tensor.eye(w.shape[-1], dtype=w.dtype) < 0.5).where(gaps, 1.0)
    inside = (_transposed(y) @ dy) / off
    inside = inside - inside * Tensor.eye(w.shape[-1], dtype=w.dtype)
    return _symmetric(y @ inside @ _transposed(y)), None


@_on_tensors("svd_s")
def _svd_s(y: Any, dy: Any, a: Any, u: Any, vh: Any) -> tuple[Any, ...]:
    k = y.shape[-1]
    u, vh = _also(u, "svd_u", a), _also(vh, "svd_vh", a)
    return (u[..., :k] * dy.unsqueeze(-2)) @ vh[..., :k, :], None, None


@_on_tensors("qr_q")
def _qr_q(y: Any, dy: Any, a: Any, q: Any, r: Any) -> tuple[Any, ...]:
    q, r = y, _also(r, "qr_r", a, q, r)
    return _qr(q, r, dy, -(_transposed(dy) @ q)), None, None


@_on_tensors("qr_r")
def _qr_r(y: Any, dy: Any, a: Any, q: Any, r: Any) -> tuple[Any, ...]:
    q, r = _also(q, "qr_q", a, q, r), y
    return _qr(q, r, None, r @ _transposed(dy)), None, None


def _qr(q: Any, r: Any, dq: Any, m: Any) -> Any:
    """(dQ + Q S) R'^-1, S the symmetric matrix with the lower triangle of M."""
    if r.shape[-1] != r.shape[-2] or q.shape[-1] != r.shape[-1]:
        raise NotSupportedError(
            f"gradient: qr of a matrix that is wider than high, or complete: Q is {q.shape}, R is {r.shape}",
            fix='Use mode="reduced" and at least as many rows as columns, or detach it.',
        )
    below = m.tril(-1)
    symmetric = below + _transposed(below) + m.real.tril().triu()
    left = q @ symmetric if dq is None else dq + q @ symmetric
    return _transposed(r.solve(_transposed(left)))


def _missing(name: str, why: str) -> None:
    what = name.replace("_", ", ")

    def gradient(*nodes: UOp) -> Given:
        raise NotSupportedError(f"gradient: {what} has no gradient{why}", fix="Detach what should be constant.")

    derivative(name)(gradient)


_missing("svd_u", " yet; S has one")
_missing("svd_vh", " yet; S has one")
_missing("pinv", " yet")
_missing("lstsq", " yet; of full rank, (a.T @ a).solve(a.T @ b) has one")


@_on_tensors("det_sign")
def _det_sign(y: Any, dy: Any, a: Any) -> tuple[Any, ...]:
    """A step; of complex determinants, how the angle turns the sign."""
    if not y.dtype.is_complex:
        return (None,)
    turn = (dy.conj() * y).imag
    return (_each(turn * -1j) * _transposed(a.inv()),)


derivative("empty")(lambda *nodes: (None,))
