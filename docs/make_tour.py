"""Writes docs/tour.md: one small computation at each stage of the compiler, then the tools that work on it.

What the page shows is made here, by running it: each graph is verified, interpreted and compared with NumPy before it
is printed. A pass that lowers one stage to the next replaces the hand-written graph in `STAGES` by its result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from string import Template
from typing import Any

import numpy as np
from pages import publish

from whit import UOp, dtypes
from whit.errors import BackendError, InternalError, JitError, UserError, WhitError
from whit.ir import Stage, ops
from whit.ir.args import Memory, RangeKind
from whit.ir.check import check_decreasing, check_rules
from whit.ir.diff import diff
from whit.ir.interpret import evaluate, run
from whit.ir.op import op_named
from whit.ir.parse import parse
from whit.ir.pattern import anything
from whit.ir.rewrite import rewrite, tracing
from whit.ir.rules import INTS, Rule, Rules
from whit.ir.text import to_text
from whit.ir.verify import verify
from whit.simplify import SIMPLIFY, bounds, index_dtype, simplify

FLOAT = dtypes.float32
LEFT = np.arange(16, dtype=np.float32).reshape(4, 4) % 5 - 2
RIGHT = np.arange(16, dtype=np.float32).reshape(4, 4) % 3 - 1
EXPECTED = np.maximum(LEFT @ RIGHT, 0)


# ---- the graphs


def tensor_graph() -> UOp:
    left, right = UOp.buffer(0, FLOAT, (4, 4)), UOp.buffer(1, FLOAT, (4, 4))
    rows = left.reshape((4, 1, 4)).expand((4, 4, 4))
    columns = right.permute((1, 0)).reshape((1, 4, 4)).expand((4, 4, 4))
    return (rows * columns).reduce(ops.ADD, (2,)).maximum(0.0)


def kernel() -> UOp:
    left, right, result = (UOp.param(slot, FLOAT, (4, 4)) for slot in range(3))
    row, column = UOp.range(4, 0), UOp.range(4, 1)
    inner = UOp.range(4, 2, RangeKind.REDUCE)
    product = left.index(row, inner) * right.index(inner, column)
    return result.store(product.reduce(ops.ADD, ranges=(inner,)).maximum(0.0), row, column)


def schedule() -> UOp:
    buffers = (UOp.buffer(slot, FLOAT, (4, 4)) for slot in range(3))
    return UOp.linear(kernel().function("matmul_relu").call(*buffers))


def program() -> UOp:
    left, right, result = (UOp.param(slot, FLOAT, (4, 4)) for slot in range(3))
    total = UOp.buffer(0, FLOAT, (1,), memory=Memory.REGISTER)
    row, column = UOp.range(4, 0), UOp.range(4, 1)
    inner = UOp.range(4, 2, RangeKind.REDUCE)
    start = total.store(UOp.const(FLOAT, 0.0), 0)
    left_place, right_place = row * 4 + inner, inner * 4 + column
    loads = left.load(left_place), right.load(right_place)
    product = loads[0] * loads[1]
    before = total.after(start)
    so_far = before.load(0)
    sum_ = so_far + product
    update = total.store(sum_, 0)
    loop_end = inner.end()
    after = total.after(update, loop_end)
    summed = after.load(0)
    relu = summed.maximum(0.0)
    place = row * 4 + column
    write = result.store(relu, place)
    instructions = [
        *(left, right, result, total),
        *(row, row * 4, column, start, before, inner),
        *(left_place, loads[0], inner * 4, right_place, loads[1], product, so_far, sum_, update),
        *(loop_end, after, summed, relu, place, write),
        *(column.end(), row.end()),
    ]
    return UOp.linear(*instructions)


def value_of(graph: UOp) -> Any:
    """The 4x4 result, by the interpreter: the value of a tensor graph, or what an effect writes into memory 2."""
    arrays = {0: LEFT, 1: RIGHT, 2: np.zeros((4, 4), np.float32)}
    params = {node: arrays[node.arg.slot] for node in graph.topological() if node.op is ops.PARAM}
    buffers = {node: node.arg.id for node in graph.topological() if node.op is ops.BUFFER}
    matrices = {node: arrays[number] for node, number in buffers.items() if node.arg.memory is Memory.GLOBAL}
    inputs = params | matrices
    if graph.dtype is not dtypes.void:
        return evaluate(graph, inputs)
    run(graph, inputs)
    return arrays[2]


# ---- the stages


@dataclass(frozen=True)
class Section:
    """A stage, what a reader should notice in its text, and the graph."""

    title: str
    explanation: str
    stage: Stage
    graph: UOp

    def text(self) -> str:
        verify(self.graph, self.stage)
        found = value_of(self.graph)
        if not np.array_equal(found, EXPECTED):
            raise SystemExit(f"make_tour: {self.title} computes\n{found}")
        return f"## {self.title}\n\n{self.explanation}\n\n{block(to_text(self.graph))}"


STAGES = (
    Section(
        "TENSOR: what was asked for",
        """\
Whole arrays. Rows and columns are lined up by movement ops, multiplied, and summed along axis 2. A line is one node;
sources stand before their users; what follows a `#` is for the reader.""",
        Stage.TENSOR,
        tensor_graph(),
    ),
    Section(
        "KERNEL: one loop nest, not yet ordered",
        """\
Every axis is a range, and movement ops have become positions: row `r0` and column `r2` of the left matrix, `r2` and
`r1` of the right one. The sum is over a range. Buffers have become params, so the kernel can be called with others.""",
        Stage.KERNEL,
        kernel(),
    ),
    Section(
        "SCHEDULE: which kernels run, on which memory",
        "An ordered list of calls. The kernel is a function, and rewrites do not enter it unless they ask to.",
        Stage.SCHEDULE,
        schedule(),
    ),
    Section(
        "PROGRAM: the kernel as a list of instructions",
        """\
Loops open and close (`end`), positions are flat, and the sum lives in a register, `b0`. `after` says which effects come
before a read: the accumulator is read after it was cleared, and once more when its loop has ended.""",
        Stage.PROGRAM,
        program(),
    ),
)


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


def unknown_op() -> None:
    op_named("floordvi")


def wrong_text() -> None:
    parse('x = variable "x", 0..9\n%1 = mul x 3')


def too_large() -> None:
    index_dtype(UOp.variable("n", 0, 2**40) * 2**40)


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
    unknown_op,
    wrong_text,
    too_large,
    broken_graph,
    unsound_rule,
    growing_rule,
    endless_rules,
)
NOT_RAISED_YET = (BackendError, JitError)  # by anything that exists


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
    kinds = {kind for kind in subclasses(WhitError) if kind not in (UserError, InternalError, *NOT_RAISED_YET)}
    if shown != kinds:
        raise SystemExit(f"make_tour: no message of {sorted(kind.__name__ for kind in kinds - shown)}")
    return "\n\n".join(f"{type(error).__name__}: {error}" for error in caught)


def subclasses(kind: type) -> list[type]:
    return [inner for sub in kind.__subclasses__() for inner in (sub, *subclasses(sub))]


# ---- the page

PAGE = Template("""\
# A tour

This page is generated: `make docs` runs everything on it (`docs/make_tour.py`), and a test fails when it is out of
date. It follows `relu(a @ b)` of two 4x4 matrices through the stages of the compiler, then shows the tools that work
at every stage.

The four graphs below are written by hand: the passes that will turn each into the next do not exist yet. The language
in which they are written does, with its verifier and its interpreter. Each of the four was verified for its stage and
interpreted on the same two matrices, and each gave exactly what NumPy gives:

$result
$stages
## The text reads back

`whit.ir.parse` gives the very node that was printed: equal nodes are one object.

$reading_back
## Simplifying, step by step

Index arithmetic is done in unbounded integers. A flattened array that is seen as rows again has the index in the first
line below; the last line is what is left of it. `whit.ir.rewrite.tracing` collects every step with its rule: the name
of a function, or the rule itself where it is data.

$simplification
`whit.ir.diff` shows the same as one change:

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
        result=block(str(EXPECTED)),
        stages="\n".join(section.text() for section in STAGES),
        reading_back=block(reading_back(), "python"),
        simplification=block(simplification()),
        difference=block(diff(before, simplify(before)), "diff"),
        bounds=block(table_of_bounds()),
        source=block(SIMPLIFY.source(ops.SHL, dtypes.weakint)),
        messages=block(messages()),
    )


def reading_back() -> str:
    if parse(to_text(kernel())) is not kernel():
        raise SystemExit("make_tour: the kernel does not read back")
    return "assert parse(to_text(kernel)) is kernel"


if __name__ == "__main__":
    publish("tour.md", page())
