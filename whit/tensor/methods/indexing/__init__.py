"""Parts of tensors: `x[...]`, positions, scatter, sort."""

from whit.tensor.methods.indexing.replace import Replacement
from whit.tensor.methods.indexing.sets import Sets
from whit.tensor.methods.indexing.updates import Updates


class Indexing(Updates, Replacement, Sets):
    """Elements by their positions, by a mask, or by their order."""

    __slots__ = ()
