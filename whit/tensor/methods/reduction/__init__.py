"""Many elements into few."""

from whit.tensor.methods.reduction.reduce import Reductions as Reductions
