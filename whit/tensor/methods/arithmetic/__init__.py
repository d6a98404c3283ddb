"""Operators, elementwise: arithmetic, comparison, bits, choice."""

from whit.tensor.methods.arithmetic.compare import Comparisons as Comparisons
from whit.tensor.methods.arithmetic.elementwise import Elementwise as Elementwise
from whit.tensor.methods.arithmetic.operators import Operators


class Arithmetic(Operators, Comparisons):
    """Operators on one element of each operand, by name and by sign."""

    __slots__ = ()
