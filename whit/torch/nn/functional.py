"""`torch.nn.functional`."""

from whit.nn.functional import *  # noqa: F403  # the same names, all of them
