"""`torch.nn.parameter`."""

from whit.nn import Parameter

__all__ = ["Parameter"]
