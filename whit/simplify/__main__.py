"""Questions about the simplifier's rules, from the command line.

    python -m whit.simplify --check                 is every data rule sound, and does it make terms smaller?
    python -m whit.simplify --unused tests/graphs   which rules change nothing in a folder of graphs?
    python -m whit.simplify --source add weakint    the Python code that the rules for one op and dtype become
    python -m whit.simplify --trace 'x = variable "x", 0..9; %1 = mul x, 0'

Graphs are in the text form of `whit.ir.text.write`. A file may hold several, with an empty line between them.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from whit.dtype import to_dtype
from whit.errors import MissingError, WhitError
from whit.ir.check.rules import check_rules
from whit.ir.op import op_named
from whit.ir.rewrite import tracing
from whit.ir.rules import AnyRule, Rules, short_location
from whit.ir.text.parse import parse
from whit.ir.text.write import to_text
from whit.ir.uop import UOp
from whit.simplify.rules import SIMPLIFY, simplify

DEFAULT_FOLDER = Path("tests/graphs")


@dataclass(frozen=True, slots=True)
class Use:
    """What one rule does for a corpus of graphs."""

    rule: AnyRule
    fired: int  # how often it was applied
    needed: int  # how many graphs come out differently without it

    @property
    def name(self) -> str:
        return f"{self.rule.name}  [{short_location(self.rule.where)}]"


def read_graphs(folder: Path) -> list[UOp]:
    """Every graph of every .uop file in a folder."""
    files = sorted(folder.glob("*.uop"))
    if not files:
        raise MissingError(f"simplify: {folder} has no .uop files", fix="Name a folder of graphs in text form.")
    return [parse(block) for file in files for block in file.read_text().split("\n\n") if block.strip()]


def uses(graphs: Sequence[UOp], rules: Rules = SIMPLIFY) -> list[Use]:
    """What each rule does for these graphs. Only those where it fired can come out differently without it."""
    results = {}
    fired_in: dict[AnyRule, list[UOp]] = {rule: [] for rule in rules.rules}
    fired: Counter[AnyRule] = Counter()
    for graph in graphs:
        with tracing() as steps:
            results[graph] = simplify(graph, rules)
        fired.update(step.rule for step in steps)
        for rule in dict.fromkeys(step.rule for step in steps):
            fired_in[rule].append(graph)
    found = []
    for rule in rules.rules:
        others = _without(rules, rule)
        needed = sum(_simplified(graph, others) is not results[graph] for graph in fired_in[rule])
        found.append(Use(rule, fired[rule], needed))
    return found


def _without(rules: Rules, rule: AnyRule) -> Rules:
    """The rules but for one; what is compiled for the ops and dtypes that it has nothing to do with stays."""
    others = rules.without(rule)
    for op, by_dtype in others.compiled.items():
        for dtype, function in rules.compiled[op].items():
            if op not in rule.ops or dtype not in rule.on:
                by_dtype[dtype] = function
    return others


def _simplified(graph: UOp, rules: Rules) -> UOp | None:
    """The simplified graph; None where the rules depend on the one that is missing, and fail without it."""
    try:
        return simplify(graph, rules)
    except (ArithmeticError, LookupError, TypeError, ValueError, WhitError):
        return None


def print_uses(folder: Path) -> None:
    """The table of --unused."""
    graphs = read_graphs(folder)
    table = uses(graphs)
    print(f"{len(table)} rules over {len(graphs)} graphs")
    print(f"{'fired':>7} {'needed by':>10}  rule")
    for use in sorted(table, key=lambda use: (use.needed, use.fired)):
        print(f"{use.fired:7} {use.needed:10}  {use.name}")
    unused = [use for use in table if not use.needed]
    print(f"needed by no graph: {len(unused)}")
    for use in unused:
        print(f"  {use.name}")


def print_trace(text: str) -> None:
    """Every step from a graph to its simplified form; `;` may stand for the end of a line."""
    root = parse(_lines(text))
    with tracing() as steps:
        result = simplify(root)
    for number, step in enumerate(steps, start=1):
        print(f"{number:4}  {step}")
    print(to_text(result))


def _lines(text: str) -> str:
    r"""Line ends typed on a command line, as `;` or `\n`."""
    return "\n".join(line.strip() for line in text.replace("\\n", "\n").replace(";", "\n").split("\n"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m whit.simplify",
        description="Questions about the rules of the simplifier.",
        epilog='Graphs are in text form, one node a line: x = variable "x", 0..9',
    )
    question = parser.add_mutually_exclusive_group(required=True)
    question.add_argument("--check", action="store_true", help="check that the rules are sound and end")
    question.add_argument(
        "--unused",
        nargs="?",
        type=Path,
        const=DEFAULT_FOLDER,
        metavar="FOLDER",
        help=f"how often each rule fires over the .uop files of a folder ({DEFAULT_FOLDER}), and which graphs need it",
    )
    question.add_argument(
        "--source", nargs=2, metavar=("OP", "DTYPE"), help="the compiled Python source of the rules for an op and dtype"
    )
    question.add_argument("--trace", metavar="TEXT", help="simplify a graph given as text (`-`: read it), step by step")
    options = parser.parse_args(arguments)
    try:
        if options.check:
            print(check_rules(SIMPLIFY))
        elif options.unused is not None:
            print_uses(options.unused)
        elif options.source is not None:
            print(SIMPLIFY.source(op_named(options.source[0]), to_dtype(options.source[1])), end="")
        else:
            print_trace(sys.stdin.read() if options.trace == "-" else options.trace)
    except WhitError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
