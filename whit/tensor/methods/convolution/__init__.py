"""Windows that slide over images: convolution, pooling, resizing."""

from whit.tensor.methods.convolution.conv import Convolutions
from whit.tensor.methods.convolution.pooling import Pooling
from whit.tensor.methods.convolution.resize import Resizing


class Convolution(Convolutions, Pooling, Resizing):
    """Windows that slide over images."""

    __slots__ = ()
