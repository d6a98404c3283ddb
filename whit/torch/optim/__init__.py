"""`torch.optim`: the optimisers of `whit.nn`, under the path that programs for PyTorch import them by."""

from whit.nn.optim import *  # noqa: F403  # the same names, all of them
