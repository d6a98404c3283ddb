"""`python -m whit replay FILE`: schedules and compiles a graph that an error saved, and runs it on zeros."""

from __future__ import annotations

import argparse
import traceback

from whit.cli.answer import PROBLEM, Answer, UsageError
from whit.engine.devices.device import canonicalize, usable
from whit.engine.report.replay import replay
from whit.errors import UserError


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments."""
    parser.description = """\
Schedules and compiles a saved graph, and runs it on zeros. When compiling fails inside whit, the error names a file
with the graph: this command shows the failure again, with its traceback."""
    parser.add_argument("file", help="a graph in text form, as in /tmp/graph-x1.whit")
    parser.add_argument("device", nargs="?", default="CPU", help="where to run it; CPU")


def run(options: argparse.Namespace) -> Answer:
    """The command."""
    try:
        device = usable(canonicalize(options.device))
    except UserError as error:
        raise UsageError(error.what) from None
    data = {"file": options.file, "device": device}
    try:
        replay(options.file, device)
    except (UserError, OSError):  # no such file, or not a graph
        raise
    except Exception as error:  # what the command is there to show
        shown = "".join(traceback.format_exception(error))
        text = f"{shown}\n{options.file}: fails on {device}"
        return Answer({**data, "failed": True, "failure": f"{type(error).__name__}: {error}"}, text, PROBLEM)
    return Answer({**data, "failed": False, "failure": None}, f"{options.file}: no failure on {device}")
