"""The table of commands, and what they share.

    main(["doctor", "--json"])      the exit code; the answer is on standard output

A command is one row of `COMMANDS` and one module, which is loaded when the command is called. The module has

    configure(parser)               adds its arguments to an argparse parser; --json is there already
    run(options) -> Answer          does it

Standard output carries the answer and nothing else, progress and errors go to standard error.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import whit
from whit.cli.answer import OK, PROBLEM, STOPPED, USAGE, Answer, UsageError
from whit.errors import WhitError, nearest

SCHEMA = 1  # of what --json prints; a change that breaks readers makes it 2
PROGRAM = "python -m whit"


@dataclass(frozen=True, slots=True)
class Command:
    """One command: its name, where it is, and what it does in a line."""

    name: str
    module: str
    summary: str


COMMANDS = (
    Command("info", "whit.cli.info", "what whit finds on this machine, and a short self-check; the default"),
    Command("doctor", "whit.cli.doctor", "looks for what is wrong or slow here, and says what to do"),
    Command("bench", "whit.cli.bench", "times common kernels, checked first, against what this machine can do"),
    Command("tune", "whit.cli.tune", "searches for faster kernels for a program, and keeps what it finds"),
    Command("cache", "whit.cli.cache", "lists, measures or clears the compiled kernels on disk"),
    Command("replay", "whit.cli.replay", "runs a graph that an error message saved"),
    Command("onnx", "whit.cli.onnx", "what is in an ONNX model; runs it, and compares it with onnxruntime"),
    Command("llm", "whit.cli.llm", "runs a language model: writes what follows a text, answers a message, chats"),
    Command("viz", "whit.cli.viz", "answers questions about a recording (VIZ=file): kernels, memory, rewrites"),
)

EXIT_CODES = f"exit codes: {OK} ok, {PROBLEM} a problem was found, {USAGE} wrong usage, {STOPPED} stopped by Ctrl-C"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line, the process's own if none is given; the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    code = OK
    try:
        try:
            code = _run(given)
        except SystemExit as ended:  # how argparse ends after help and wrong usage
            code = ended.code if isinstance(ended.code, int) else USAGE
        except KeyboardInterrupt:
            _complain("stopped")
            code = STOPPED
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        _forget_reader()
    except OSError as error:  # standard output is a full disk
        _complain(f"the answer cannot be written: {error}")
        _forget_reader()
        code = PROBLEM
    return code


def _run(given: list[str]) -> int:
    name = next((argument for argument in given if not argument.startswith("-")), None)
    if name is None:
        command = COMMANDS[0]
        parser = _top_parser()
    else:
        found = find_command(name)
        if found is None:
            _complain(_unknown(name))
            return USAGE
        command = found
        given.remove(name)
        parser = _parser(command)
    as_json = "--json" in given
    try:
        answer = _ask(command, parser, given)
    except UsageError as error:
        parser.error(str(error))
    except BrokenPipeError:
        raise
    except (WhitError, OSError, ImportError) as error:
        if isinstance(error, ImportError) and (error.name or "").startswith("whit"):
            raise  # a bug
        text = error_text(error)
        _complain(text)
        answer = Answer({"error": {"kind": type(error).__name__, "message": text}}, "", PROBLEM)
    _print(command.name, answer, as_json)
    return answer.code


def _ask(command: Command, parser: argparse.ArgumentParser, given: list[str]) -> Answer:
    module = importlib.import_module(command.module)  # lazy: a command loads what it needs, and no other command
    module.configure(parser)
    options = parser.parse_args(given)
    # What DEBUG prints on the way is not part of an answer that a program reads.
    with contextlib.redirect_stdout(sys.stderr) if options.json else contextlib.nullcontext():
        answer: Answer = module.run(options)
    return answer


def find_command(name: str) -> Command | None:
    """The row of a command."""
    return next((command for command in COMMANDS if command.name == name), None)


def _print(name: str, answer: Answer, as_json: bool) -> None:
    if as_json:
        document: dict[str, Any] = {"command": name, "schema": SCHEMA, "whit": whit.__version__, **answer.data}
        print(json.dumps(document, indent=2, allow_nan=False))
    elif answer.text:
        print(answer.text)


def error_text(error: BaseException) -> str:
    """The message of an error. Where in the user's program it happened is left out: that is whit itself."""
    if isinstance(error, ImportError):
        return f"{error}\n  `{PROGRAM} doctor` says what is missing."
    if not isinstance(error, WhitError):
        return str(error) or type(error).__name__
    parts = (line for part in (error.details, error.fix) for line in part.splitlines())
    notes = getattr(error, "__notes__", ())
    return "\n".join([error.what, *(f"  {line}" for line in parts), *(f"  {note}" for note in notes)])


# ---- parsers and help


def _parser(command: Command) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"{PROGRAM} {command.name}",
        description=f"{command.summary[0].upper()}{command.summary[1:]}.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_json(parser)
    return parser


def _top_parser() -> argparse.ArgumentParser:
    """The parser where no command is named: that of the first one, with help about all."""
    width = max(len(command.name) for command in COMMANDS)
    rows = "\n".join(f"  {command.name:{width}}  {command.summary}" for command in COMMANDS)
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        usage=f"{PROGRAM} [COMMAND] [-h] [--json] ...",
        description="whit, a deep-learning stack in Python that can be read.\n\ncommands:\n" + rows,
        epilog=f"`{PROGRAM} COMMAND -h` says what a command takes.\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"whit {whit.__version__}", help="print the version")
    _add_json(parser)
    return parser


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object in place of text")


def _unknown(name: str) -> str:
    names = [command.name for command in COMMANDS]
    return (
        f'there is no command "{name}".{nearest(name, names)}\n'
        f"  commands: {', '.join(names)}\n  `{PROGRAM} -h` says what they do."
    )


# ---- the edges of a process


def _complain(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # nobody listens there either
        print(f"whit: {text}", file=sys.stderr, flush=True)


def _forget_reader() -> None:
    """Nobody reads standard output any more (`| head`): what Python still wants to flush at the end goes nowhere."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
