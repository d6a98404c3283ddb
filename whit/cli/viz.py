"""`python -m whit viz FILE ...`: questions about a recording, or all of it as a page (docs/viz.md)."""

from __future__ import annotations

import argparse

from whit.cli.answer import Answer, UsageError
from whit.viz.cli import answer, mistake
from whit.viz.cli import configure as configure_questions
from whit.viz.report.table import printable


def configure(parser: argparse.ArgumentParser) -> None:
    """The file, and the question with its own arguments."""
    configure_questions(parser)


def run(options: argparse.Namespace) -> Answer:
    """What `python -m whit.viz` answers."""
    if problem := mistake(options):
        raise UsageError(problem)
    data, text = answer(options)
    return Answer(data, printable(text))
