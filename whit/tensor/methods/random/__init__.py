"""Random numbers."""

from whit.tensor.methods.random.fill import Filling


class Random(Filling):
    """Tensors of random numbers, and chance applied to tensors."""

    __slots__ = ()
