"""Parts of tensors: `x[...]`, positions, scatter, sort."""

from whit.tensor.methods.indexing.scatter import Scattering
from whit.tensor.methods.indexing.sort import Sorting
from whit.tensor.methods.indexing.subscript import Subscripts


class Indexing(Subscripts, Scattering, Sorting):
    """Elements by their positions, by a mask, or by their order."""

    __slots__ = ()
