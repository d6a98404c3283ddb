"""`python -m whit viz FILE list|top|show|memory|compile|grep|compare`: questions about a recording (docs/viz.md)."""

from __future__ import annotations

import argparse

from whit.cli.answer import Answer
from whit.viz.cli import answer
from whit.viz.cli import configure as configure_questions
from whit.viz.report.table import printable


def configure(parser: argparse.ArgumentParser) -> None:
    """The file, and the question with its own arguments."""
    configure_questions(parser)


def run(options: argparse.Namespace) -> Answer:
    """What `python -m whit.viz` answers."""
    data, text = answer(options)
    return Answer(data, printable(text))
