"""Products of matrices, equations, decompositions, Fourier transforms."""

from whit.tensor.methods.linear_algebra.blends import Blends
from whit.tensor.methods.linear_algebra.distances import Distances
from whit.tensor.methods.linear_algebra.einsum import Einsum
from whit.tensor.methods.linear_algebra.linear import Products
from whit.tensor.methods.linear_algebra.matrices import Matrices
from whit.tensor.methods.linear_algebra.packed import Packed
from whit.tensor.methods.linear_algebra.spectrogram import Spectrogram


class LinearAlgebra(Products, Blends, Einsum, Packed, Matrices, Distances, Spectrogram):
    """Products, equations, decompositions, distances, transforms."""

    __slots__ = ()
