"""`python -m whit.viz FILE command ...`: questions about a recording, answered as text, or as JSON with --json.

    VIZ=run.trace python train.py                   records
    python -m whit.viz run.trace list               schedules and kernels
    python -m whit.viz run.trace layers             the model, layer by layer: parameters, time, memory
    python -m whit.viz run.trace top --by bytes     the most expensive kernels: time, bytes or compile
    python -m whit.viz run.trace show k3 --all      a kernel's life: graph, passes, diffs, rules, source, roofline
    python -m whit.viz run.trace memory             over time, the peak and what holds it
    python -m whit.viz run.trace compile            compile time by pass and rule
    python -m whit.viz run.trace rule flatten       what a rule says, and how often it fired
    python -m whit.viz run.trace grep 'mul .*, 3'   nodes of graphs; with --rewrites, rewrites
    python -m whit.viz old.trace compare new.trace  kernel by kernel
    python -m whit.viz run.trace --serve            all of it as a page in the browser
    python -m whit.viz run.trace --html run.html    the same in one file
    python -m whit.viz run.trace --perfetto run.json    its timeline, for https://ui.perfetto.dev and chrome://tracing

The command may also come first: `python -m whit.viz compare old.trace new.trace`. docs/viz.md has examples.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence

from whit.errors import WhitError
from whit.viz.load import load
from whit.viz.model import Trace
from whit.viz.page.documents import Documents
from whit.viz.page.export import write_html
from whit.viz.page.serve import serve
from whit.viz.perfetto import write_perfetto
from whit.viz.report.changes import changes_data, changes_text
from whit.viz.report.effort import effort_data, effort_text
from whit.viz.report.layers import layers_data, layers_text
from whit.viz.report.life import PARTS, life_data, life_text
from whit.viz.report.memory import memory_data, memory_text
from whit.viz.report.overview import overview_data, overview_text
from whit.viz.report.rules import rules_data, rules_text
from whit.viz.report.search import search_data, search_text
from whit.viz.report.table import Data, amount, plural, printable
from whit.viz.report.top import MEASURES, top_data, top_text

COMMANDS = ("list", "layers", "top", "show", "memory", "compile", "rule", "grep", "compare")
Answer = tuple[Data, str]


def main(argv: Sequence[str] | None = None) -> int:
    """The command; gives the exit status: 0, 1 where the question has no answer, 2 where it is not one."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if len(arguments) > 1 and arguments[0] in COMMANDS and not os.path.exists(arguments[0]):
        arguments[:2] = arguments[1], arguments[0]
    parser = _parser()
    options = parser.parse_args(arguments)
    if problem := mistake(options):
        parser.error(problem)
    try:
        data, text = answer(options)
    except WhitError as error:
        print(error, file=sys.stderr)
        return 1
    try:
        print(json.dumps(data) if "json" in options else printable(text), flush=True)
    except BrokenPipeError:  # `| head` has seen enough; Python would complain about it at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def answer(options: argparse.Namespace) -> Answer:
    """What a command answers, as data and in words."""
    trace = load(options.file)
    if options.serve:
        serve(Documents(trace), options.port, not options.no_open)
        return {"served": options.file}, ""
    if options.html:
        left_out = write_html(Documents(trace), options.html)
        said = f"{options.html}: {amount(os.path.getsize(options.html))}"
        missing = f"\n{plural(len(left_out), 'document')} did not fit, rewrites first" if left_out else ""
        return {"html": options.html, "left_out": left_out}, said + missing
    if options.perfetto:
        count = write_perfetto(trace, options.perfetto)
        return {"perfetto": options.perfetto, "events": count}, f"{options.perfetto}: {plural(count, 'event')}"
    match options.command:
        case "list":
            data = overview_data(trace)
            return data, overview_text(data)
        case "layers":
            data = layers_data(trace)
            return data, layers_text(data)
        case "top":
            data = top_data(trace, options.by, options.count)
            return data, top_text(data)
        case "show":
            return _show(trace, options)
        case "memory":
            data = memory_data(trace, options.parts, options.count)
            return data, memory_text(data)
        case "compile":
            kernel = trace.find_kernel(options.kernel) if options.kernel else None
            data = effort_data(trace, kernel, options.count)
            return data, effort_text(data)
        case "rule":
            data = rules_data(trace, options.pattern, options.count)
            return data, rules_text(data)
        case "grep":
            data = search_data(trace, options.pattern, options.rewrites, options.count)
            return data, search_text(data)
        case _:
            data = changes_data(trace, load(options.other), options.diff)
            return data, changes_text(data)


def _show(trace: Trace, options: argparse.Namespace) -> Answer:
    parts = [part for part in PARTS if options.all or getattr(options, part)]
    data = life_data(trace, trace.find_kernel(options.kernel), parts)
    return data, life_text(data)


def mistake(options: argparse.Namespace) -> str:
    """What is wrong with arguments that argparse accepts."""
    files = ("--html", options.html), ("--perfetto", options.perfetto)
    wanted = [name for name, given in (("--serve", options.serve), *files) if given]
    wanted += [options.command] if options.command else []
    if not wanted:
        return f"say what you want to know: {', '.join(COMMANDS)}, or see the page with --serve or --html"
    return f"{wanted[0]} and {wanted[1]} do not go together" if len(wanted) > 1 else ""


def _port(text: str) -> int:
    value = int(text)
    if not 0 <= value <= 65535:
        raise ValueError
    return value


def _count(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 1_000_000:
        raise ValueError
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m whit.viz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    configure(parser)
    return parser


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments, for a parser that may belong to another command line."""
    parser.add_argument("file", help="what VIZ=file or whit.trace(file) has written")
    parser.add_argument("--serve", action="store_true", help="show it as a page in the browser, until Ctrl-C")
    parser.add_argument("--port", type=_port, default=0, help="of --serve; any that is free")
    parser.add_argument("--no-open", action="store_true", help="--serve opens no browser, and says where the page is")
    parser.add_argument("--html", default="", metavar="OUT", help="write the page with all its data into one file")
    parser.add_argument("--perfetto", default="", metavar="OUT", help="write its timeline as JSON for ui.perfetto.dev")
    commands = parser.add_subparsers(dest="command", metavar="command")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="answer with JSON")
    counted = argparse.ArgumentParser(add_help=False)
    counted.add_argument("-n", "--count", type=_count, default=20, help="how many are shown (20)")
    commands.add_parser("list", parents=[shared], help="schedules and kernels")
    commands.add_parser("layers", parents=[shared], help="the model as layers: parameters, time and memory of each")
    top = commands.add_parser("top", parents=[shared, counted], help="the most expensive kernels")
    top.add_argument("--by", choices=sorted(MEASURES), default="time", help="(time)")
    show = commands.add_parser("show", parents=[shared], help="the life of a kernel")
    show.add_argument("kernel", help="k3, or its name")
    for part in PARTS:
        show.add_argument(f"--{part}", action="store_true", help=_PART_HELP[part])
    show.add_argument("--all", action="store_true", help="all of these")
    memory = commands.add_parser("memory", parents=[shared, counted], help="over time, the peak, its holders")
    memory.add_argument("--parts", type=_count, default=12, help="in how many parts the time is shown (12)")
    effort = commands.add_parser("compile", parents=[shared, counted], help="compile time by pass and rule")
    effort.add_argument("--kernel", default="", help="of this kernel only")
    rule = commands.add_parser("rule", parents=[shared, counted], help="rules that match: what they say and did")
    rule.add_argument("pattern")
    grep = commands.add_parser("grep", parents=[shared, counted], help="nodes that match a regular expression")
    grep.add_argument("pattern")
    grep.add_argument("--rewrites", action="store_true", help="search the rewrites instead: rule, before, after")
    compare = commands.add_parser("compare", parents=[shared], help="kernel by kernel with another trace")
    compare.add_argument("other", help="the trace that is newer")
    compare.add_argument("--diff", action="store_true", help="differences of tiling, graph and source")


_PART_HELP = {
    "graph": "its graph",
    "passes": "its graph after each pass",
    "diff": "what each pass changed",
    "rules": "the rules that fired in each pass",
    "rewrites": "every rewrite",
    "source": "the text that was compiled",
    "assembly": "the machine code, as assembly",
}
