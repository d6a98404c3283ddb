"""Products of matrices and their decompositions as graphs."""
