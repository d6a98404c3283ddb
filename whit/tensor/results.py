"""Results of several tensors that have names, as in PyTorch: `x.sort().values`. They unpack like other tuples."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

Some = TypeVar("Some")


class ValuesAndIndices(NamedTuple, Generic[Some]):
    """Elements, and the positions they came from."""

    values: Some
    indices: Some


class SmallestAndLargest(NamedTuple, Generic[Some]):
    """Both ends."""

    min: Some
    max: Some


class MantissaAndExponent(NamedTuple, Generic[Some]):
    """mantissa * 2**exponent."""

    mantissa: Some
    exponent: Some


class SignAndLogarithm(NamedTuple, Generic[Some]):
    """sign * exp(logabsdet)."""

    sign: Some
    logabsdet: Some
