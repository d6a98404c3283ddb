"""Data in and out, and writing: what a tensor is built from, what it gives, what it becomes."""

from whit.tensor.methods.data.assign import Assignment
from whit.tensor.methods.data.exchange import Exchange
from whit.tensor.methods.data.in_place import InPlace
from whit.tensor.methods.data.questions import Questions
from whit.tensor.methods.data.standard import Standard
from whit.tensor.methods.data.values import Values


class Data(Values, Exchange, Assignment, InPlace, Questions, Standard):
    """Values in and out, memory shared with others, writing."""

    __slots__ = ()
