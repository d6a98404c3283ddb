"""Products of matrices, equations, decompositions, Fourier transforms."""
