"""The same elements in another shape or order."""

from whit.tensor.methods.movement.arrange import Arrangement
from whit.tensor.methods.movement.diagonals import Diagonals
from whit.tensor.methods.movement.joining import Joining
from whit.tensor.methods.movement.padding import Padding
from whit.tensor.methods.movement.views import Views as Views


class Movement(Views, Padding, Arrangement, Joining, Diagonals):
    """The same elements in another shape or order, or with others around them."""

    __slots__ = ()
