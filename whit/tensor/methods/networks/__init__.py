"""What networks are made of: activations, attention, losses."""

from whit.tensor.methods.networks.activations import Activations
from whit.tensor.methods.networks.attention import Attention
from whit.tensor.methods.networks.losses import Losses


class Networks(Activations, Attention, Losses):
    """What stands between the layers of networks, and at their end."""

    __slots__ = ()
