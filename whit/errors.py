"""Everything whit raises, split by whose fault it is.

`UserError` is the caller's: a shape, a dtype, a name, a device. Its subclasses are also the builtin exceptions that
Python users already catch. `BackendError` is a vendor's compiler or driver. `InternalError` is a bug in whit.

A message has up to three parts, each on its own lines: what failed, with what, and what to do about it. A `UserError`
knows the line of the user's program that was running: the second part ends with it, unless it names lines already.

    >>> print(ShapeError("add: shapes (4, 3) and (4, 2) do not broadcast", "left made at train.py:12", "Reshape one."))
    add: shapes (4, 3) and (4, 2) do not broadcast
      left made at train.py:12
      Reshape one.
"""

import os
import sys
import warnings
from collections.abc import Iterable
from types import FrameType


class WhitError(Exception):
    """The base of every error that whit raises on purpose."""

    def __init__(self, what: str, details: str = "", fix: str = "") -> None:
        super().__init__(what, details, fix)  # `args` is what pickle calls the class with
        self.what = what
        self.details = details
        self.fix = fix

    def __str__(self) -> str:
        lines = self.what.splitlines()
        for part in (self.details, self._where(), self.fix):
            lines += [f"  {line}" for line in part.splitlines()]
        return "\n".join(lines)

    def _where(self) -> str:
        """The user's line, where a message needs it."""
        return ""


# Where users come in. A message about IR or about dtypes alone stays as it is.
_ENTRANCES = (
    "whit.tensor",
    "whit.nn",
    "whit.numpy",
    "whit.names",
    "whit.config",
    "whit.engine.devices.device",
    "whit.helpers",
    "whit.onnx.writing",
)


class UserError(WhitError, ValueError, RuntimeError):
    """The caller asked for something that has no meaning, or that whit cannot do: NumPy raises ValueError, PyTorch
    RuntimeError.

    `method` is what the user called, "" for operators; `line` is where: "train.py:12", or "".
    """

    def __init__(self, what: str, details: str = "", fix: str = "") -> None:
        super().__init__(what, details, fix)
        module, name, line = _user_call()
        self.method = "" if name.startswith(("_", "<")) or name.isupper() else name
        self.line = line if module.startswith(_ENTRANCES) else ""

    def _where(self) -> str:
        is_inner = self.method not in ("", self.what.partition(":")[0])  # the method is made of what failed
        if not self.line or ("made at " in self.details and not is_inner):
            return ""
        return f"in {self.method}, called at {self.line}" if is_inner else f"called at {self.line}"


class ShapeError(UserError, RuntimeError):
    """Shapes do not fit together."""


class DTypeError(UserError, TypeError):
    """A dtype does not exist, or is not accepted here."""


class ArgumentError(UserError, TypeError):
    """An argument is missing, unknown or of the wrong kind."""


class AbsentError(ArgumentError, AttributeError):
    """A thing of this kind has no such part: `hasattr` is False."""


class OutOfRangeError(UserError, IndexError):
    """An index or an axis lies outside what it indexes."""


class DeviceError(UserError, RuntimeError):
    """A device does not exist or cannot be opened, or operands live on different ones."""


class MissingError(UserError, KeyError):
    """A name was looked up and is not there."""


class ParseError(UserError):
    """Text that should be IR, a model file or a setting does not read as one."""

    def _where(self) -> str:
        return ""  # the mistake is in the text


class NotSupportedError(UserError, NotImplementedError):
    """The request has a meaning, but this device, dtype or version of whit cannot do it."""


class JitError(UserError, RuntimeError):
    """A function cannot be captured, or is called in a way that its capture does not cover."""


class FileError(UserError, OSError):
    """A file cannot be read or written; `errno` and `filename` are the operating system's."""


class FileMissingError(FileError, FileNotFoundError):
    """A file is not there."""


class FileReadOnlyError(FileError, PermissionError):
    """A file may not be opened, or not be written."""


class BackendError(WhitError, RuntimeError):
    """A compiler, driver or device outside whit failed; the details carry its log and where the source is."""


class InternalError(WhitError, RuntimeError):
    """A bug in whit; the details carry the pass, the node and how to replay it."""


class VerifyError(InternalError):
    """A graph breaks a rule of the IR."""


class RuleError(InternalError):
    """A rewrite rule is unsound, malformed or never ends."""


_PACKAGE_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep


def user_line() -> str:
    """Where the user's code called into whit: "train.py:12", or "" if every frame belongs to whit."""
    return _user_call()[2]


def _user_call() -> tuple[str, str, str]:
    """Module and name of the function or class of whit that the user's code called, and the line where.

    The innermost such call: a function that the user hands to whit is the user's code again.
    """
    frame: FrameType | None = sys._getframe(2)
    called: FrameType | None = None
    while frame is not None and _is_ours(frame):
        frame, called = frame.f_back, frame
    if frame is None:
        return "", "", ""
    line = f"{frame.f_code.co_filename.rpartition(os.sep)[2]}:{frame.f_lineno}"
    if called is None:
        return "", "", line
    name = called.f_code.co_name
    if name in ("__init__", "__call__"):  # a class, as Tensor, or a layer, as nn.Linear(3, 4)(x)
        name = type(called.f_locals.get("self")).__name__
    return str(called.f_globals.get("__name__")), name, line


def _is_ours(frame: FrameType) -> bool:
    path = frame.f_code.co_filename
    if path.startswith(_PACKAGE_FOLDER):
        return True
    # Generated code (compiled rules, the methods of dataclasses) has no file, but has the globals of its module.
    return path.startswith("<") and str(frame.f_globals.get("__name__")).partition(".")[0] == "whit"


def warn(message: str) -> None:
    """Warns, at the user's line, about something that whit works without.

    Where warnings are errors (`python -W error`) it is printed instead: nothing fails for want of it.
    """
    depth, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame):
        depth, frame = depth + 1, frame.f_back
    try:
        warnings.warn(message, RuntimeWarning, stacklevel=depth - 1)
    except RuntimeWarning:
        print(f"RuntimeWarning: {message}", file=sys.stderr)


def nearest(name: str, candidates: Iterable[str]) -> str:
    """The end of a message about an unknown name: ' Did you mean "x"?', or "" if nothing is close.

    >>> nearest("DEBGU", ["BEAM", "DEBUG"])
    ' Did you mean "DEBUG"?'
    """
    # Case is the most common mistake, so it does not count as a difference.
    by_lower_case = {candidate.lower(): candidate for candidate in candidates}
    import difflib  # lazy: for a message alone

    matches = difflib.get_close_matches(name.lower(), by_lower_case, n=1)
    return f' Did you mean "{by_lower_case[matches[0]]}"?' if matches else ""
