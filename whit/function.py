"""`from whit.function import function`: see `whit.tensor.calls`."""

from whit.tensor.calls import function

__all__ = ["function"]
