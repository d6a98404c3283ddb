"""Weights that stay orthogonal while they are trained: `torch.nn.utils.parametrizations.orthogonal`.

A matrix of n rows and k <= n columns is made of the trained one, x (one of more columns than rows is taken transposed):

    matrix_exp     the first k columns of exp(a), where a = l - l.T and l is the lower triangle of x
    cayley         the same of (1 + a / 2) (1 - a / 2)^-1
    householder    a product of reflections, whose directions are below the diagonal of x

By default that is multiplied with a `base` that is kept, so that training begins at the weight as it is.
"""

from __future__ import annotations

from typing import Any

from whit.errors import ArgumentError, ShapeError
from whit.ir.op import spell_shape
from whit.nn.module import Module
from whit.nn.utils.parametrize import register_parametrization
from whit.nn.utils.weight_norms import _tensor_of
from whit.tensor import Tensor

MAPS = ("matrix_exp", "cayley", "householder")


def orthogonal(
    module: Any, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Any:
    """The last two axes of a tensor of a module are orthogonal matrices from now on. Returns the module.

    `orthogonal_map`: "matrix_exp" (by default of square ones), "cayley" or "householder". `use_trivialization=False`
    keeps no base: less memory, and for "householder" alone the weight as it is.
    """
    weight = _tensor_of("orthogonal", module, name)
    if weight.ndim < 2:
        raise ShapeError(
            f"orthogonal: {name} of {type(module).__name__} is {spell_shape(weight.shape)}",
            fix="It has two axes at least.",
        )
    chosen = orthogonal_map or ("matrix_exp" if weight.shape[-2] == weight.shape[-1] else "householder")
    if chosen not in MAPS:
        raise ArgumentError(f"orthogonal: orthogonal_map={orthogonal_map!r}", fix=f"It is one of {', '.join(MAPS)}.")
    return register_parametrization(module, name, _Orthogonal(weight, chosen, use_trivialization), unsafe=True)


class _Orthogonal(Module):
    base: Tensor

    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool) -> None:
        self.orthogonal_map, self.shape = orthogonal_map, tuple(weight.shape)
        self.has_base = use_trivialization

    @property
    def _is_wide(self) -> bool:
        return bool(self.shape[-2] < self.shape[-1])

    def __call__(self, original: Tensor) -> Tensor:
        x = original.mT if self._is_wide else original
        found = _reflections(x) if self.orthogonal_map == "householder" else self._rotation(x)
        if self.has_base:
            found = self.base @ found
        return found.mT if self._is_wide else found

    def _rotation(self, x: Tensor) -> Tensor:
        """By a map of matrices with a = -a.T."""
        n, k = x.shape[-2:]
        lower = x.tril().pad(((0, 0),) * (x.ndim - 1) + ((0, n - k),))
        a = lower - lower.mT
        if self.orthogonal_map == "matrix_exp":
            return a.matrix_exp()[..., :k]
        one = Tensor.eye(n, dtype=x.dtype, device=x.device)
        return (one - a / 2).solve((one + a / 2).expand(*a.shape))[..., :k]

    def right_inverse(self, value: Tensor) -> Tensor:
        """What gives this value, or the orthogonal matrix that QR makes of it."""
        if tuple(value.shape) != self.shape:
            raise ShapeError(f"orthogonal: a value of shape {spell_shape(value.shape)} for {spell_shape(self.shape)}")
        q = value.detach().mT if self._is_wide else value.detach()
        if self.has_base:
            return self._start_at(q, value)
        if self.orthogonal_map != "householder":
            raise ArgumentError(
                f"orthogonal: {self.orthogonal_map} has no inverse here",
                fix='Use use_trivialization=True, or orthogonal_map="householder".',
            )
        packed, tau = q.geqrf()
        signs = packed.diagonal(dim1=-2, dim2=-1).sign() * (tau == 0).where(-1.0, 1.0)
        n, k = packed.shape[-2:]
        diagonal = Tensor.eye(n, k, dtype=q.dtype, device=q.device) > 0
        found = diagonal.where(signs.unsqueeze(-2), packed)
        return found.mT if self._is_wide else found

    def _start_at(self, q: Tensor, value: Tensor) -> Tensor:
        """Keeps the base, a square matrix that begins with the columns of q; its original gives the identity."""
        n, k = q.shape[-2:]
        if n != k:
            more = Tensor.randn(*q.shape[:-1], n - k, dtype=q.dtype, device=q.device)
            q = q.cat(more, dim=-1)
        base, r = q.qr()
        base = (base * r.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)).realize()
        if "base" in vars(self):
            self.base.assign(base).realize()
        else:
            self.base = base
            self.base.requires_grad = False
        rows, columns = value.shape[-2:]
        return -Tensor.eye(rows, columns, dtype=value.dtype, device=value.device).expand(*value.shape)


def _reflections(x: Tensor) -> Tensor:
    """The first columns of the product of the reflections I - tau v v.T, with v = 1 at the diagonal and x below it."""
    tau = 2 / (1 + x.tril(-1).square().sum(-2))
    signs = x.detach().diagonal(dim1=-2, dim2=-1).trunc()
    return x.orgqr(tau) * signs.unsqueeze(-2)
