"""`torch.nn.utils`."""

from whit.nn.utils import *  # noqa: F403  # the same names, all of them
