"""`torch.nn.init`."""

from whit.nn.init import *  # noqa: F403  # the same names, all of them
