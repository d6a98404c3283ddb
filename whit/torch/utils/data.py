"""`torch.utils.data`."""

from whit.nn.data import *  # noqa: F403  # the same names, all of them
