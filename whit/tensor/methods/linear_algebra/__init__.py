"""Products of matrices, equations, decompositions, Fourier transforms."""

from whit.tensor.methods.linear_algebra.decompose import Decompositions
from whit.tensor.methods.linear_algebra.einsum import Einsum
from whit.tensor.methods.linear_algebra.fourier import Fourier
from whit.tensor.methods.linear_algebra.linear import Products


class LinearAlgebra(Products, Einsum, Decompositions, Fourier):
    """Products, equations, decompositions, transforms."""

    __slots__ = ()
