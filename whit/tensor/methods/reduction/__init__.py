"""Many elements into few."""

from whit.tensor.methods.reduction.ignoring_nan import IgnoringNaN
from whit.tensor.methods.reduction.steps import Steps


class Reductions(IgnoringNaN, Steps):
    """Sums, extremes, moments, norms, running sums, differences."""

    __slots__ = ()
