"""`torch.nn`: the layers of `whit.nn`, under the path that programs for PyTorch import them by (`layers.py`)."""

import whit.torch.nn.functional
import whit.torch.nn.init
import whit.torch.nn.parameter
import whit.torch.nn.utils  # noqa: F401  # those of these names are this package's own files
from whit.nn import *  # noqa: F403  # the same names, all of them
from whit.torch.nn.layers import layers as _layers

_LAYERS = _layers()
globals().update(_LAYERS)
