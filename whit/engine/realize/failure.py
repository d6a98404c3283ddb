"""When compiling a graph fails inside whit: the graph goes to a file, and the error says how to see it again."""

from __future__ import annotations

import os

from whit.errors import InternalError, WhitError
from whit.ir.text.write import to_text
from whit.ir.uop import UOp


def explain_failure(graph: UOp, device: str, error: Exception) -> InternalError:
    """An InternalError about whatever went wrong, with the graph saved."""
    what = error.what if isinstance(error, WhitError) else f"{type(error).__name__}: {error}"
    details = error.details if isinstance(error, WhitError) else ""
    kind = type(error) if isinstance(error, InternalError) else InternalError
    import tempfile  # lazy: it loads a dozen modules, and failures are rare

    try:
        descriptor, path = tempfile.mkstemp(".whit", "graph-")
        with os.fdopen(descriptor, "w") as file:
            file.write(to_text(graph) + "\n")
        replay = f"The graph is in {path}. To see the failure again: python -m whit replay {path} {device}"
    except OSError as problem:
        replay = f"The graph could not be saved: {problem}"
    return kind(f"realize on {device}: {what}", details, f"This is a bug in whit. {replay}")
