"""Random numbers."""

from whit.tensor.methods.random.distributions import Distributions


class Random(Distributions):
    """Tensors of random numbers, and chance applied to tensors."""

    __slots__ = ()
