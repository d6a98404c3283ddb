"""`torch.utils`: data, and checkpoints of activations."""

from whit.torch.utils import checkpoint, data

__all__ = ["checkpoint", "data"]
