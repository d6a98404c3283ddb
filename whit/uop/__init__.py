"""Nodes and sizes under the path that programs for tinygrad import them by."""

from whit.uop.ops import UOp, resolve, sint

__all__ = ["UOp", "resolve", "sint"]
