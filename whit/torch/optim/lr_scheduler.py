"""`torch.optim.lr_scheduler`."""

from whit.nn.optim.lr_scheduler import *  # noqa: F403  # the same names, all of them
