"""Writes docs/tour.md: one small computation at each stage of the compiler, then the tools that work on it.

What the page shows is made here, by running it: the graphs are interpreted and compared with NumPy before they are
printed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from errno import EACCES
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from pages import publish

from whit import Tensor, UOp, dtypes
from whit.codegen import generate
from whit.codegen.pipeline import Pass
from whit.errors import BackendError, InternalError, JitError, UserError, WhitError
from whit.ir import Stage, ops
from whit.ir.check.rules import check_decreasing, check_rules
from whit.ir.check.verify import verify
from whit.ir.interpret import run
from whit.ir.op import op_named
from whit.ir.pattern import anything
from whit.ir.rewrite import rewrite, tracing
from whit.ir.rules import INTS, Rule, Rules
from whit.ir.text.diff import diff
from whit.ir.text.parse import parse
from whit.ir.text.write import to_text
from whit.render import render
from whit.runtime.buffer import OutOfMemoryError
from whit.runtime.disk import file_error
from whit.schedule import schedule
from whit.simplify import SIMPLIFY, bounds, index_dtype, simplify
from whit.target import parse_target

FLOAT = dtypes.float32
TARGET = parse_target("CPU:LLVM:haswell")  # not this machine's: the page must not depend on where it is made
LEFT = np.arange(16, dtype=np.float32).reshape(4, 4) % 5 - 2
RIGHT = np.arange(16, dtype=np.float32).reshape(4, 4) % 3 - 1


def expected() -> Any:
    hidden = np.maximum(LEFT @ RIGHT, 0)
    weights = np.exp(hidden - hidden.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


# ---- the graphs


def tensor_graph() -> UOp:
    """What a Tensor program builds, its buffers as params, and where the result goes."""
    left, right = (Tensor(UOp.param(slot, FLOAT, (4, 4))) for slot in range(2))
    return UOp.group(UOp.param(2, FLOAT, (4, 4)).store((left @ right).relu().softmax().uop))


def value_of(graph: UOp) -> Any:
    """The 4x4 result, by the interpreter: what the graph writes into param 2."""
    arrays = {0: LEFT, 1: RIGHT, 2: np.zeros((4, 4), np.float32)}
    nodes = graph.topological()
    run(graph, {node: arrays[node.arg.slot] for node in nodes if node.op is ops.PARAM})
    return arrays[2]


@dataclass(frozen=True)
class Section:
    """A graph, and what a reader should notice in its text."""

    title: str
    explanation: str
    graph: UOp

    def text(self) -> str:
        return f"## {self.title}\n\n{self.explanation}\n\n{block(to_text(self.graph))}"


def stages() -> str:
    """The tensor graph, its schedule, and the passes that each kernel goes through."""
    graph = tensor_graph()
    linear = schedule(graph)
    for found in (value_of(graph), value_of(linear)):
        if not np.allclose(found, expected(), atol=1e-6):
            raise SystemExit(f"make_tour: the graph computes\n{found}")
    parts = [
        Section(
            "TENSOR: what was asked for",
            "Whole arrays. A line is one node; sources stand before their users; what follows a `#` is for the reader.",
            graph,
        ),
        Section(
            "SCHEDULE: which kernels run, on which memory",
            f"""\
`whit.schedule` has chosen {len(linear.src)} kernels. The product of the matrices is needed several times by the
softmax, so it is kept, with its relu. The softmax is one kernel: the largest element and the sum of a row are
reductions over ranges of their own, inside the range of the rows. Movement ops have become positions.""",
            linear,
        ),
    ]
    text = "\n".join(part.text() for part in parts)
    for call in linear.src:
        text += "\n" + passes_of(call)
    return text


def passes_of(call: UOp) -> str:
    """A kernel after every pass, down to the text that LLVM gets."""
    function = call.src[0]
    name = function.arg.name
    sections: list[str] = [f"## `{name}` through the code generator\n"]
    previous = function.src[0]

    def observe(step: Pass, graph: UOp) -> None:
        nonlocal previous
        same = graph is previous
        previous = graph
        text = "Nothing to do here.\n" if same else block(to_text(graph))
        sections.append(f"### {step.name}\n\n{step.why[0].upper()}{step.why[1:]}.\n\n{text}")

    program = generate(function.src[0], TARGET, name, observe)
    sections.append(f"The tiling was chosen because:\n\n{block(program.explanation or 'there is nothing to tile')}")
    source = render({name: program.linear}, TARGET)
    lines = source.splitlines()
    shown = "\n".join(lines[:60]) + ("\n; ..." if len(lines) > 60 else "")
    sections.append(f"### render\n\nThe first lines of what LLVM is given.\n\n{block(shown, 'llvm')}")
    return "\n".join(sections)


# ---- the tools


def block(text: str, language: str = "text") -> str:
    return f"```{language}\n{text.rstrip()}\n```\n"


def index_expression() -> UOp:
    """Where element r0, r1, r2 of a (4, 4, 4) array lies after it was flattened and seen as rows of 4 again."""
    flat = UOp.range(4, 0) * 16 + UOp.range(4, 1) * 4 + UOp.range(4, 2)
    return flat // 4 % 4 * 4 + flat % 4


def simplification() -> str:
    before = index_expression()
    with tracing() as steps:
        after = simplify(before)
    rows = [
        f"{step.before.expression()}  ->  {step.after.expression()}    [{step.rule.name}, {file_of(step.rule.where)}]"
        for step in steps
    ]
    return "\n".join([before.expression(), "", *rows, "", after.expression()])


def file_of(where: str) -> str:
    return where.rpartition("/")[2].partition(":")[0]


def table_of_bounds() -> str:
    r0, n = UOp.range(4, 0), UOp.variable("n", 1, 64)
    rows = [r0, r0 * 16 + 3, r0 - n, (r0 + n) % 8, (r0 < n), index_expression(), UOp.param(0, dtypes.int8)]
    return "\n".join(f"{bounds(node)!s:<12} {node.expression()}" for node in rows)


# ---- errors

X, Y = anything("x"), anything("y")


def wrong_shape() -> None:
    _ = UOp.buffer(0, FLOAT, (4, 3)) + UOp.buffer(1, FLOAT, (4, 2))


def wrong_dtype() -> None:
    _ = UOp.buffer(0, FLOAT, (4,)) + UOp.buffer(1, dtypes.int32, (4,))


def wrong_argument() -> None:
    UOp.variable("n", 8, 1)


def wrong_position() -> None:
    UOp.buffer(0, FLOAT, (4, 3)).index(1, 3)


def two_devices() -> None:
    _ = UOp.buffer(0, FLOAT, (4,), "CPU") + UOp.buffer(1, FLOAT, (4,), "CUDA:0")


def missing_file() -> None:
    Tensor(Path("/no/such/weights"))


def folder() -> None:
    Tensor(Path("/"))


def read_only_file() -> None:
    raise file_error("written", "/data/weights", PermissionError(EACCES, "as if it were so"))


def not_shared() -> None:
    np.from_dlpack(Tensor([1.0], device="NULL"))


def unknown_op() -> None:
    op_named("floordvi")


def wrong_text() -> None:
    parse('x = variable "x", 0..9\n%1 = mul x 3')


def too_large() -> None:
    index_dtype(UOp.variable("n", 0, 2**40) * 2**40)


def no_such_part() -> None:
    _ = UOp.variable("n", 0, 9).size


def broken_graph() -> None:
    verify(UOp.param(0, FLOAT, (4,)).store(UOp.param(1, FLOAT, (4,)).index(UOp.range(4, 0)), 0), Stage.KERNEL)


def unsound_rule() -> None:
    check_rules(Rules("mine", [Rule(X + Y, X, on=INTS, where="mine.py:3")]))


def growing_rule() -> None:
    check_decreasing(Rule(X + Y, Y + X, on=INTS, where="mine.py:3"))


def endless_rules() -> None:
    swap = Rules("mine", [Rule(X + Y, Y + X, on=INTS, where="mine.py:3")])
    rewrite(UOp.variable("n", 0, 9) + UOp.variable("m", 0, 9), swap)


ERRORS: tuple[Callable[[], None], ...] = (
    wrong_shape,
    wrong_dtype,
    wrong_argument,
    wrong_position,
    two_devices,
    missing_file,
    folder,
    read_only_file,
    not_shared,
    unknown_op,
    wrong_text,
    too_large,
    broken_graph,
    unsound_rule,
    growing_rule,
    endless_rules,
    no_such_part,
)
NOT_SHOWN = (BackendError, JitError, OutOfMemoryError)  # what they say depends on the machine, or on a program


def messages() -> str:
    caught: list[WhitError] = []
    for mistake in ERRORS:
        try:
            mistake()
        except WhitError as error:
            caught.append(error)
        else:
            raise SystemExit(f"make_tour: {mistake.__name__} is no mistake")
    shown = {type(error) for error in caught}
    kinds = {kind for kind in subclasses(WhitError) if kind not in (UserError, InternalError, *NOT_SHOWN)}
    if shown != kinds:
        raise SystemExit(f"make_tour: no message of {sorted(kind.__name__ for kind in kinds - shown)}")
    return "\n\n".join(f"{type(error).__name__}: {error}" for error in caught)


def subclasses(kind: type) -> list[type]:
    direct: list[type] = kind.__subclasses__()
    return [inner for sub in direct for inner in (sub, *subclasses(sub))]


# ---- the page

PAGE = Template("""\
# A tour

This page is generated: `make docs` runs everything on it (`docs/make_tour.py`), and a test fails when it is out of
date. It follows `(a @ b).relu().softmax()` of two 4x4 matrices from the tensor graph to the text that LLVM gets,
through every pass, then shows the tools that work at every stage. The tensor graph and its schedule were interpreted
on the same two matrices, and gave what NumPy gives:

$result
$stages
## The text reads back

`whit.ir.text.parse` gives the very node that was printed: equal nodes are one object.

$reading_back
## Simplifying, step by step

Index arithmetic is done in unbounded integers. A flattened array that is seen as rows again has the index in the first
line below; the last line is what is left of it. `whit.ir.rewrite.tracing` collects every step with its rule: the name
of a function, or the rule itself where it is data.

$simplification
`whit.ir.text.diff` shows the same as one change:

$difference
## Bounds

`whit.simplify.bounds`: the interval of every integer and boolean node, from the intervals of its sources.

$bounds
## Rules become Python

A rule set is compiled for each op and dtype that it meets. `SIMPLIFY.source(ops.SHL, dtypes.weakint)` is

$source
`src[1] is literal_2` compares with the number 0: constants are interned, so identity is equality. How rules are written
and checked is in [rules.md](rules.md).

## When something is wrong

Errors say what failed, with what, and what to do. Building a node checks it, so mistakes show where they are made. The
first eight below are a caller's mistake, the last four a mistake in a pass or a rule.

$messages
## Further

[ops.md](ops.md) lists the ops, [semantics.md](semantics.md) says what they mean for every value,
[dtypes.md](dtypes.md) has the dtypes, [adding-an-op.md](adding-an-op.md) adds an op from start to end.
""")


def page() -> str:
    before = index_expression()
    return PAGE.substitute(
        result=block(str(expected().round(4))),
        stages=stages(),
        reading_back=block(reading_back(), "python"),
        simplification=block(simplification()),
        difference=block(diff(before, simplify(before)), "diff"),
        bounds=block(table_of_bounds()),
        source=block(SIMPLIFY.source(ops.SHL, dtypes.weakint)),
        messages=block(messages()),
    )


def reading_back() -> str:
    graph = tensor_graph()
    if parse(to_text(graph)) is not graph:
        raise SystemExit("make_tour: the graph does not read back")
    return "assert parse(to_text(graph)) is graph"


if __name__ == "__main__":
    publish("tour.md", page())
