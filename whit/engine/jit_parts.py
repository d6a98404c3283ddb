"""What TinyJit is made of, loaded together when the first function is captured."""

from whit.engine.capture import NeedsViewsError, capture
from whit.engine.jit_check import check
from whit.engine.jit_files import LoadedJit, load, save
from whit.engine.library_calls import refusing_calls
from whit.engine.replayer import MISSED
from whit.engine.signature import result_of
from whit.engine.watch import Watch

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
