"""Loops and choices: scan -> Scan, while_loop -> Loop, cond -> If. Bodies read what is around them by its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.uop import UOp
from whit.onnx.types import BOOL, INT64
from whit.onnx.writing import wire
from whit.onnx.writing.sheet import OUTSIDE, Sheet

if TYPE_CHECKING:
    from whit.onnx.writing.translate import Translator


def write_loop(to: Translator, node: UOp) -> tuple[str, ...]:
    """The results of a loop."""
    arg = node.arg
    functions, operands = node.src[: arg.functions], node.src[arg.functions :]
    if arg.kind == "scan" and arg.length is None:
        operands = operands[:-1]
    names = [to.name(operand) for operand in operands]
    if arg.kind == "cond":
        return _choice(to, functions, names)
    if arg.kind == "while":
        return _while(to, functions, names, arg.carries)
    return _scan(to, node, names)


class _Inside:
    """A graph inside another: the body of a loop, or a branch."""

    def __init__(self, to: Translator) -> None:
        self.sheet = Sheet(to.sheet)
        self.to = to
        self.inputs: list[bytes] = []
        self.outputs: list[bytes] = []
        self.results: list[str] = []

    def takes(self, like: str, element: int, shape: Sequence[object]) -> str:
        """An input."""
        name = self.sheet.new_name(like)
        self.inputs.append(wire.port(name, element, _known(shape)))
        return name

    def gives(self, name: str, element: int, shape: Sequence[object]) -> None:
        """An output, by a name of its own."""
        name = self.sheet.add("Identity", name)
        if name in self.results:
            name = self.sheet.add_many("Identity", (name,), 1)[0]
        self.results.append(name)
        self.outputs.append(wire.port(name, element, _known(shape)))

    def body(self, function: UOp, names: Sequence[str]) -> tuple[tuple[UOp, ...], tuple[str, ...]]:
        """What a function makes of named values: its results as nodes, and their names."""
        group = function.src[0]
        params = {n: names[n.arg.slot] for n in group.topological() if n.op is ops.PARAM}
        found = self.to.inside(self.sheet, params).write(group)
        return group.src, found if isinstance(found, tuple) else (found,)

    def attributes(self, name: str) -> dict[str, object]:
        """The graph as an attribute, and what it reads from around it."""
        data = self.sheet.graph(name, self.inputs, self.outputs, self.results)
        return {name: wire.Subgraph(data), OUTSIDE: self.sheet.reads(self.results)}


def _known(shape: Sequence[object]) -> tuple[int | None, ...]:
    return tuple(size if isinstance(size, int) else None for size in shape)


def _choice(to: Translator, functions: Sequence[UOp], names: Sequence[str]) -> tuple[str, ...]:
    """The first function where the bool is true."""
    condition, *operands = names
    attributes: dict[str, object] = {}
    reads: tuple[str, ...] = ()
    count = 0
    for branch, function in zip(("then_branch", "else_branch"), functions, strict=True):
        inside = _Inside(to)
        nodes, found = inside.body(function, operands)
        for node, name in zip(nodes, found, strict=True):
            inside.gives(name, to.element(node), node.shape)
        given = inside.attributes(branch)
        reads += tuple(given.pop(OUTSIDE))  # type: ignore[arg-type]
        attributes |= given
        count = len(found)
    return to.sheet.add_many("If", (condition,), count, **attributes, **{OUTSIDE: reads})


def _while(to: Translator, functions: Sequence[UOp], names: Sequence[str], carries: int) -> tuple[str, ...]:
    """A body as long as a test is true, which is asked once before."""
    body, test = functions
    states, constants = names[:carries], names[carries:]
    params = {n: names[n.arg.slot] for n in test.src[0].topological() if n.op is ops.PARAM}
    first = to.inside(to.sheet, params).write(test.src[0])
    inside = _Inside(to)
    inside.takes("step", INT64, ())
    inside.takes("goes_on", BOOL, ())
    members = body.src[0].src
    taken = [inside.takes("state", to.element(n), n.shape) for n in members]
    nodes, found = inside.body(body, [*taken, *constants])
    _, (goes_on, *_) = inside.body(test, [*found, *constants])
    inside.gives(goes_on, BOOL, ())
    for node, name in zip(nodes, found, strict=True):
        inside.gives(name, to.element(node), node.shape)
    condition = first[0] if isinstance(first, tuple) else first
    return to.sheet.add_many("Loop", ("", condition, *states), carries, **inside.attributes("body"))


def _scan(to: Translator, node: UOp, names: Sequence[str]) -> tuple[str, ...]:
    """States and parts of inputs to states and parts of outputs; without inputs a Loop of so many rounds."""
    arg = node.arg
    carries, end = arg.carries, arg.carries + arg.inputs
    function, members = node.src[0], node.src[0].src[0].src
    outputs = len(members) - carries
    inside = _Inside(to)
    if not arg.inputs:
        inside.takes("step", INT64, ())
        goes_on = inside.takes("goes_on", BOOL, ())
    operands = node.src[1:]
    taken = [inside.takes("state", to.element(n), n.shape) for n in operands[:carries]]
    taken += [inside.takes("part", to.element(n), n.shape[1:]) for n in operands[carries:end]]
    nodes, found = inside.body(function, [*taken, *names[end:]])
    if not arg.inputs:
        inside.gives(goes_on, BOOL, ())
    for member, name in zip(nodes, found, strict=True):
        inside.gives(name, to.element(member), member.shape)
    given = inside.attributes("body")
    if not arg.inputs:
        if arg.is_reversed:
            raise to.error(node, "a loop without inputs goes forward")
        rounds = to.number(dtypes.int64, arg.length) if arg.length is not None else to.name(node.src[-1])
        return to.sheet.add_many("Loop", (rounds, "", *names[:carries]), carries + outputs, **given)
    directions: dict[str, tuple[int, ...]] = {}
    if arg.is_reversed:
        directions["scan_input_directions"] = (1,) * arg.inputs
        directions["scan_output_directions"] = (1,) * outputs
    if not outputs:
        directions.pop("scan_output_directions", None)
    return to.sheet.add_many("Scan", names[:end], carries + outputs, **given, num_scan_inputs=arg.inputs, **directions)
