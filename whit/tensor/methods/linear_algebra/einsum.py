"""`einsum`, and the products that are one formula of it. Sums are made as in `dot`: wide, and rounded once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import Any, Self

from whit.dtype import DTypeLike
from whit.errors import ArgumentError, ShapeError
from whit.ir.op import spell_shape
from whit.ir.uop import UOp
from whit.tensor.core import Core, storable, whole
from whit.tensor.graphs.linear_algebra.contract import Labels, Sizes, evaluate, ordered
from whit.tensor.graphs.mixing import restate_mix
from whit.tensor.methods.reduction.reduce import sum_dtype
from whit.tensor.topic import Topic

_TERM = r"[A-Za-z]*(\.\.\.)?[A-Za-z]*"
_FIX = 'Write one term of letters for each operand: "ij,jk->ik".'


class Einsum(Topic):
    """Products over named axes."""

    __slots__ = ()

    @classmethod
    def einsum(cls, formula: str, *operands: Any, dtype: DTypeLike | None = None) -> Self:
        """Tensor.einsum("ij,jk->ik", a, b): the sum of products over all letters that are not on the right.

        A letter twice in a term is a diagonal, `...` stands for axes that broadcast; without an arrow the letters that
        stand once are the result's, in the order of the alphabet. More than two operands are multiplied in the order
        that takes the fewest multiplications.
        """
        given = operands
        if len(given) == 1 and isinstance(given[0], list | tuple):
            given = tuple(given[0])
        first = next((operand for operand in given if isinstance(operand, cls)), None)
        if not isinstance(formula, str) or first is None:
            raise ArgumentError("einsum: needs a formula and tensors", fix='Tensor.einsum("ij,jk->ik", a, b)')
        tensors = [first._operand("einsum", operand) for operand in given]
        terms, out = _parsed(formula, tensors)
        sizes = _sizes(formula, terms, tensors)
        for label in out:
            if label not in sizes:
                raise ArgumentError(f"einsum: {label!r} stands only on the right of {formula!r}", fix=_FIX)
        return first._summed_product("einsum", tensors, terms, out, sizes, dtype)

    def _summed_product(
        self,
        name: str,
        tensors: Sequence[Self],
        terms: list[Labels],
        out: Labels,
        sizes: Sizes,
        dtype: DTypeLike | None,
    ) -> Self:
        same = tensors[0]._together(name, tuple(tensors[1:]))
        narrow = same[0].dtype if dtype is None else storable(name, dtype)
        wide = narrow if narrow.is_bool else sum_dtype(narrow)
        total = evaluate([(t.uop.cast(wide), term) for t, term in zip(same, terms, strict=True)], out, sizes)
        result = total.cast(narrow) if narrow.is_float or dtype is not None else total
        return self._wrap(_mixed(result, [(t.uop, term) for t, term in zip(same, terms, strict=True)], out, sizes))

    def tensordot(self, other: Any, dims: Any = 2) -> Self:
        """The sum of products over pairs of axes: the last n of self and the first n of other, or two lists of axes."""
        right = self._operand("tensordot", other)
        if isinstance(dims, int):
            pairs = [list(range(self.ndim - dims, self.ndim)), list(range(dims))]
        else:
            pairs = [[axes] if isinstance(axes, int) else list(axes) for axes in dims]
        mine, theirs = (
            [t._axis("tensordot", axis, scalars=False) for axis in axes]
            for t, axes in zip((self, right), pairs, strict=True)
        )
        if len(mine) != len(theirs) or any(self.shape[a] != right.shape[b] for a, b in zip(mine, theirs, strict=False)):
            raise ShapeError(
                f"tensordot: axes {mine} of {spell_shape(self.shape)} and {theirs} of {spell_shape(right.shape)}",
                f"left {self._made()}, right {right._made()}",
                "Give pairs of axes of equal sizes.",
            )
        left_term = [f"l{axis}" for axis in range(self.ndim)]
        right_term = [f"r{axis}" for axis in range(right.ndim)]
        for a, b in zip(mine, theirs, strict=True):
            right_term[b] = left_term[a]
        shared = {left_term[a] for a in mine}
        out = tuple(label for label in (*left_term, *right_term) if label not in shared)
        sizes = dict(zip(left_term, self.shape, strict=True)) | dict(zip(right_term, right.shape, strict=True))
        terms = [tuple(left_term), tuple(right_term)]
        return self._summed_product("tensordot", [self, right], terms, out, sizes, None)

    def inner(self, other: Any) -> Self:
        """The sum of products over the last axes; with a single number, the product."""
        right = self._operand("inner", other)
        return self.tensordot(right, ([-1], [-1])) if self.ndim and right.ndim else self * right

    def vdot(self, other: Any) -> Self:
        """The sum of products of all elements, of the conjugates of self."""
        right = self._operand("vdot", other)
        return self.conj().ravel().dot(right.ravel())

    def outer(self, other: Any) -> Self:
        """Every element of one times every element of the other."""
        right = self._operand("outer", other)
        return self.reshape((self.numel(), 1)) * right.reshape((1, right.numel()))

    def kron(self, other: Any) -> Self:
        """Kronecker's product: a copy of other for every element of self, times that element."""
        right = self._operand("kron", other)
        rank = max(self.ndim, right.ndim)
        a, b = ((1,) * (rank - t.ndim) + t.shape for t in (self, right))
        left = self.reshape(tuple(chain.from_iterable((size, 1) for size in a)))
        product = left * right.reshape(tuple(chain.from_iterable((1, size) for size in b)))
        return product.reshape(tuple(m * n for m, n in zip(a, b, strict=True)))

    def cross(self, other: Any, dim: int = -1) -> Self:
        """The vector at right angles to two, along an axis of size 3."""
        right = self._operand("cross", other)
        axes = [t._axis("cross", dim, scalars=False) for t in (self, right)]
        if self.shape[axes[0]] != 3 or right.shape[axes[1]] != 3:
            raise ShapeError(
                f"cross: axis {dim} of {spell_shape(self.shape)} and {spell_shape(right.shape)} is not 3",
                f"left {self._made()}, right {right._made()}",
                "Name an axis of size 3.",
            )
        (a, b), (u, v) = ((t.roll(-1, axis), t.roll(-2, axis)) for t, axis in zip((self, right), axes, strict=True))
        return a * v - b * u

    def newton_schulz(self, steps: int, params: Sequence[float], eps: float = 1e-07) -> Self:
        """Near the orthogonal matrix closest to this one: x <- (p0 + p1 x x' + p2 (x x')**2 + ...) x, `steps` times.

        x starts as the matrix divided by its Frobenius norm plus eps; axes before the last two are a batch.
        """
        if whole("newton_schulz", "steps", steps, self._made()) < 0:
            raise ArgumentError(f"newton_schulz: {steps} steps", self._made(), "Ask for zero or more.")
        if self.ndim < 2 or not isinstance(params, tuple | list) or not params:
            raise ShapeError(
                f"newton_schulz: of {spell_shape(self.shape)} with params {params!r:.60}",
                self._made(),
                "Use matrices, and at least one coefficient.",
            )
        is_tall = self.shape[-2] > self.shape[-1]
        x = self.transpose(-2, -1) if is_tall else self
        x = x / (x.norm(2, (-2, -1), keepdim=True) + eps)
        *lower, highest = params
        for _ in range(steps):
            square = x.dot(x.transpose(-2, -1))
            total = x * highest
            for factor in reversed(lower):
                total = square.dot(total) + x * factor
            x = total
        return x.transpose(-2, -1) if is_tall else x


def _mixed(result: UOp, operands: list[tuple[UOp, Labels]], out: Labels, sizes: Sizes) -> UOp:
    """The result, as `@` would have it if one operand is a softmax: "bhqk,bkhd->bqhd" is "bhqk,bhkd->bhqd" too."""
    for (x, left), (y, right) in (operands, operands[::-1]) if len(operands) == 2 else ():
        columns = tuple(label for label in right if label not in left)
        if len(left) < 2 or len(columns) != 1:
            continue
        *batch, row, key = left
        of_values, of_result = (*batch, key, *columns), (*batch, row, *columns)
        if sorted(right) != sorted(of_values) or sorted(out) != sorted(of_result) or len(set(left)) != len(left):
            continue
        plain = ordered(result, out, of_result, sizes)
        mixed = restate_mix(plain, x, ordered(y, right, of_values, sizes), y)
        if mixed is not plain:
            return ordered(mixed, of_result, out, sizes)
    return result


def _parsed(formula: str, tensors: Sequence[Core]) -> tuple[list[Labels], Labels]:
    """The labels of each operand and of the result; axes under `...` are labelled by their place from the end."""
    left, arrow, right = formula.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(tensors):
        raise ArgumentError(f"einsum: {formula!r} has {len(terms)} terms for {len(tensors)} operands", fix=_FIX)
    for term in (*terms, right):
        if not re.fullmatch(_TERM, term):
            raise ArgumentError(f"einsum: {term!r} in {formula!r} is no term", fix=_FIX)
    labels: list[Labels] = []
    most = 0
    for term, tensor in zip(terms, tensors, strict=True):
        dots = tensor.ndim - len(term.replace("...", ""))
        if dots < 0 or (dots and "..." not in term):
            raise ShapeError(
                f"einsum: {term!r} in {formula!r} is for {tensor.ndim - dots} axes, not {spell_shape(tensor.shape)}",
                tensor._made(),
                "Use one letter for each axis, or ....",
            )
        most = max(most, dots)
        labels.append(_expand_ellipsis(term, dots))
    if arrow:
        out = _expand_ellipsis(right, most) if "..." in right else tuple(right)
        if len(set(out)) != len(out):
            raise ArgumentError(f"einsum: a letter stands twice on the right of {formula!r}", fix="Name it once.")
        return labels, out
    letters = left.replace("...", "").replace(",", "")
    once = sorted(letter for letter in set(letters) if letters.count(letter) == 1)
    return labels, (*_expand_ellipsis("...", most), *once)


def _expand_ellipsis(term: str, dots: int) -> Labels:
    before, _, after = term.partition("...")
    return (*before, *(f".{place}" for place in range(dots, 0, -1)), *after) if "..." in term else tuple(term)


def _sizes(formula: str, terms: list[Labels], tensors: Sequence[Core]) -> Sizes:
    """The size of each label; axes of size 1 broadcast."""
    sizes: Sizes = {}
    for term, tensor in zip(terms, tensors, strict=True):
        own: Sizes = {}
        for label, size in zip(term, tensor.shape, strict=True):
            if own.setdefault(label, size) != size:
                raise ShapeError(
                    f"einsum: {label!r} is {own[label]} and {size} in one term of {formula!r}",
                    tensor._made(),
                    "A diagonal needs axes of one size.",
                )
            known = sizes.setdefault(label, size)
            if known == 1:
                sizes[label] = size
            elif size not in (1, known):
                name = "..." if label.startswith(".") else label
                raise ShapeError(
                    f"einsum: {name!r} is {known} and {size} in {formula!r}", tensor._made(), "Its axes must be equal."
                )
    return sizes
