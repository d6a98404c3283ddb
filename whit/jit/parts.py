"""What TinyJit is made of, loaded together when the first function is captured."""

from whit.jit.capture import NeedsViewsError, capture
from whit.jit.check import check
from whit.jit.files.jit import LoadedJit, load, save
from whit.jit.guards import Watch
from whit.jit.library_calls import refusing_calls
from whit.jit.replayer import MISSED
from whit.jit.signature import result_of

__all__ = [
    "MISSED",
    "LoadedJit",
    "NeedsViewsError",
    "Watch",
    "capture",
    "check",
    "load",
    "refusing_calls",
    "result_of",
    "save",
]
