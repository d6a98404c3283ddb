"""Reads the text form of the IR (see `whit.ir.text.write`) back into nodes.

    >>> parse("x = variable \\"x\\", 0..1000\\n%1 = mul x, 3")
    <UOp x*3>

Text goes in, the very nodes it was printed from come out. What does not read raises a `ParseError` with the line, the
place in it and what was expected there; what reads but cannot be built raises one with the builder's message.

Each line is first tried against the shapes that nearly all lines have, with names, constants and arguments that were
met before; whatever does not fit exactly is left to the readers below, which know the whole grammar and report the
mistakes.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

from whit.dtype import DType, dtypes, to_dtype
from whit.errors import ParseError, UserError
from whit.ir import ops
from whit.ir.args import ENUMS, RECORDS, BufferArg, FunctionArg, ParamArg, StoreArg
from whit.ir.op import OPS, Op
from whit.ir.shapes import split_symbolic
from whit.ir.text.parse_line import Line, Names, ReadValue, Scope
from whit.ir.text.spell import ARGUMENT_FIELD, RECORD_TYPES
from whit.ir.uop import UOp, make
from whit.records import MISSING, fields


def parse(text: str) -> UOp:
    """The one root of the text."""
    roots = parse_all(text)
    if len(roots) != 1:
        raise ParseError(
            f"parse: the text has {len(roots)} roots", text.rstrip().rpartition("\n")[2], "Use parse_all for several."
        )
    return roots[0]


def parse_all(text: str) -> tuple[UOp, ...]:
    """The roots of the text: those its last line names, or the node of the last line."""
    reader = _Reader()
    for number, line in enumerate(text.split("\n"), start=1):
        reader.read(number, line)
    return reader.finish()


# 12 us -> 2.5 us a line where the node exists, -> 6 us where it is built (a chain of 200,000 additions)
_PLAIN_LINE = re.compile(r' *(%[1-9][0-9]*) = ([a-z][a-z0-9]*) ([^=#"({]*[^=#"({ ])(?: *#.*)?\Z')
_LINE_WITH_FIELDS = re.compile(
    r' *(%[1-9][0-9]*|[a-z]+[0-9]+) = ([a-z][a-z0-9]*) ([^=#"({, ]+(?:, [^=#"({, ]+)*), '
    r'([a-z]+=[^#"{]*[^#"{ ])(?: *#.*)?\Z'
)
# 24 us -> 13 us a line of a schedule (399 calls of 59 kernels), with ranges and calls above
_MEMORY_LINE = re.compile(
    r" *([pb][0-9]+) = (param|buffer) ([0-9]{1,18}), ([a-z0-9]+)(?:\(([0-9]{1,18}(?:, [0-9]{1,18})*),?\))?\Z"
)


class _Reader:
    """Takes the lines one by one; holds the names, and the function whose block is open."""

    def __init__(self) -> None:
        self.functions: Names = {}
        self.outer = self.scope = Scope()
        self.open: Line | None = None  # the line that opened the block
        self.open_as = ""  # the name before its equals sign
        self.open_name = ""  # the name of the function itself
        self.open_params: tuple[ParamArg, ...] | None = None
        self.arguments: dict[tuple[str, str], Any] = {}  # (op, its fields) -> the argument they were read as
        self.last_function: UOp | None = None  # if the last line of the text closed a block

    def read(self, number: int, text: str) -> None:
        match = _PLAIN_LINE.match(text) or _LINE_WITH_FIELDS.match(text)
        if match is not None and self._read_known(*match.groups()):
            return
        memory = None if match is not None else _MEMORY_LINE.match(text)
        if memory is not None and self._read_memory(*memory.groups()):
            return
        line = Line(number, text, self.scope, self.functions)
        if line.at_end():
            return
        if self.scope.roots is not None and line.peek() != "}":
            line.fail("a line after the roots", "the roots to be the last line")
        try:
            self._read_line(line)
        except ParseError:
            raise
        except UserError as error:
            raise ParseError(
                f"parse: line {number}: {error.what}", "\n".join(filter(None, [text.strip(), error.details])), error.fix
            ) from error
        if match is not None:
            self._remember_argument(*match.groups())

    def _read_known(self, name: str, op_name: str, operands: str, fields: str = "") -> bool:
        """Reads a line if everything in it was met before and fits; otherwise changes nothing."""
        scope = self.scope
        names = scope.names
        op = OPS.get(op_name)
        if op is None or name in names or scope.roots is not None:
            return False
        try:
            arg = self.arguments[op_name, fields] if op.arg_type is not None or fields else None
            first, *others = operands.split(", ")
            known = names if first in names else self.functions
            node = make(op, (known[first], *[names[operand] for operand in others]), arg)
        except (KeyError, UserError):  # not a mistake if it is a new constant or a new argument
            return False
        names[name] = node
        scope.nodes.append(node)
        self.last_function = None
        return True

    def _read_memory(self, name: str, op_name: str, place: str, dtype: str, sizes: str | None) -> bool:
        """Reads a param or a buffer of a known shape, if that can be; otherwise changes nothing."""
        scope = self.scope
        if name in scope.names or scope.roots is not None:
            return False
        shape = () if sizes is None else tuple([int(size) for size in sizes.split(", ")])
        make_memory = UOp.param if op_name == "param" else UOp.buffer
        try:
            node = make_memory(int(place), to_dtype(dtype), shape)
        except UserError:
            return False
        scope.names[name] = node
        scope.nodes.append(node)
        self.last_function = None
        return True

    def _remember_argument(self, name: str, op_name: str, operands: str, fields: str = "") -> None:
        """Keeps the argument of the line just read under its text, if all the sources stand before the fields."""
        node = self.scope.nodes[-1]
        if len(node.src) == operands.count(", ") + 1:
            self.arguments[op_name, fields] = node.arg

    def _read_line(self, line: Line) -> None:
        if line.peek() == "}":
            line.take()
            self._close_function(line)
            return
        if line.peek() == "roots" and line.peek(1) != "=":
            line.take()
            roots = tuple(_operands(line))
            line.expect_end()
            self.scope.roots = roots
            return
        name = ""
        if line.peek(1) == "=":
            name = line.definition()
        op = line.op()
        if op is ops.FUNCTION:
            self._open_function(line, name)
            return
        node = READERS[op](line, op) if op in READERS else _read_by_type(line, op)
        line.expect_end()
        if name:
            self.scope.names[name] = node
        self.scope.nodes.append(node)
        self.last_function = None

    def _open_function(self, line: Line, name: str) -> None:
        if self.open is not None:
            line.fail("a function inside a function", "its block to come before the block that calls it")
        if name in self.functions:
            line.fail(f"{name} is defined already", "each function to have a name of its own", back=3)
        self.open_name, self.open_params = line.string(), None
        if line.peek() == ",":
            line.take()
            line.expect("params")
            line.expect("=")
            self.open_params = FIELD_READERS["tuple[ParamArg, ...]"](line)
        line.expect("{")
        line.expect_end()
        self.open, self.open_as = line, name
        self.scope = Scope(self.outer.constants)

    def _close_function(self, line: Line) -> None:
        line.expect_end()
        if self.open is None:
            line.fail("nothing to close", "a line `f = function ... {` before it", back=1)
        roots = self._roots_of_scope(line)
        if len(roots) != 1:
            line.fail(f"a body of {len(roots)} roots", "a function to have one; group them", back=1)
        (body,) = roots
        if self.open_params is None:
            function = body.function(self.open_name)
        else:
            function = make(ops.FUNCTION, (body,), FunctionArg(self.open_name, self.open_params))
        if self.open_as:
            self.functions[self.open_as] = function
        self.open, self.scope, self.last_function = None, self.outer, function

    def _roots_of_scope(self, line: Line) -> tuple[UOp, ...]:
        if self.scope.roots is not None:
            return self.scope.roots
        if not self.scope.nodes:
            line.fail("nothing is defined", "at least one node")
        return (self.scope.nodes[-1],)

    def finish(self) -> tuple[UOp, ...]:
        if self.open is not None:
            self.open.fail("the block is never closed", "a line `}` after its last node", back=1)
        if self.last_function is not None and self.outer.roots is None:
            return (self.last_function,)
        return self._roots_of_scope(Line(1, "", self.scope, self.functions))


# How the fields of argument records are read, by what their type says.
FIELD_READERS: dict[str, ReadValue] = {
    "int": Line.integer,
    "bool": Line.truth,
    "str": Line.string,
    "DType": Line.dtype,
    "Op": Line.op,
    "int | None": lambda line: line.or_none(Line.integer),
    "str | None": lambda line: line.or_none(Line.string),
    "Op | None": lambda line: line.or_none(Line.op),
    "tuple[int, ...]": lambda line: line.tuple_of(Line.integer),
    "tuple[int | None, ...]": lambda line: line.tuple_of(FIELD_READERS["int | None"]),
    "tuple[ParamArg, ...]": lambda line: line.tuple_of(FIELD_READERS["ParamArg"]),
    "tuple[Mode, ...]": lambda line: line.tuple_of(FIELD_READERS["Mode"]),
    "tuple[AxisArg, ...]": lambda line: line.tuple_of(FIELD_READERS["AxisArg"]),
    "tuple[MoveArg, ...]": lambda line: line.tuple_of(FIELD_READERS["MoveArg"]),
}


def _read_record(line: Line, cls: type[Any]) -> Any:
    """Layout(order=(1, 0), padding=8)"""
    line.expect(cls.__name__)
    line.expect("(")
    record = _filled_record(line, cls, _read_fields(line, _fields_of(cls)))
    line.expect(")")
    return record


FIELD_READERS.update({name: functools.partial(Line.member_of, choices=choices) for name, choices in ENUMS.items()})
FIELD_READERS.update({name: functools.partial(_read_record, cls=cls) for name, cls in RECORDS.items()})


def _fields_of(record: type[Any]) -> dict[str, ReadValue]:
    return {field.name: FIELD_READERS[str(field.type)] for field in fields(record)}


def _read_fields(line: Line, fields: dict[str, ReadValue]) -> dict[str, Any]:
    """`field=value` up to the end of the line, or to a closing parenthesis."""
    found: dict[str, Any] = {}
    while not line.at_end() and line.peek() != ")":
        name = line.peek()
        if name not in fields:
            line.unexpected("one of " + ", ".join(fields) if fields else "the end of the line")
        if name in found:
            line.fail(f"{name} is given twice", "each field once")
        line.take()
        line.expect("=")
        found[name] = fields[name](line)
        if line.peek() != ")" and not line.comma():
            break
    return found


def _filled_record(line: Line, cls: type[Any], found: dict[str, Any]) -> Any:
    for field in fields(cls):
        if field.name not in found and field.default is MISSING:
            line.fail(f"{field.name} is missing", f"{field.name}=...")
    return cls(**found)


def _operands(line: Line, most: int | None = None) -> list[UOp]:
    """Operands with commas between them, up to the end of the line or a `field=`, and the comma before it."""
    found: list[UOp] = []
    while not line.at_end() and line.peek(1) != "=" and len(found) != most:
        found.append(line.operand())
        if not line.comma():
            break
    return found


# ---- one op


def _read_by_type(line: Line, op: Op) -> UOp:
    """Any op without a reader of its own: operands, then the argument as its type says."""
    if op.arg_type is None:
        return make(op, tuple(_operands(line)))
    if op.arg_type in RECORD_TYPES:
        src = tuple(_operands(line))
        return make(op, src, _filled_record(line, op.arg_type, _read_fields(line, _fields_of(op.arg_type))))
    src = tuple(_operands(line, most=op.least))
    return make(op, src, line.dtype() if op.arg_type is DType else line.string())


def _read_const(line: Line, op: Op) -> UOp:
    return line.constant()


def _read_variable(line: Line, op: Op) -> UOp:
    name = line.string()
    line.expect(",")
    low = line.integer()
    line.expect("..")
    high = line.integer()
    dtype = line.dtype() if line.comma() else dtypes.weakint
    return UOp.variable(name, low, high, dtype)


def _read_memory(line: Line, op: Op) -> UOp:
    place = line.integer()
    line.expect(",")
    dtype = line.dtype()
    shape = line.tuple_of(Line.size) if line.peek() == "(" else ()
    fields = _fields_of(ParamArg if op is ops.PARAM else BufferArg)
    rest: dict[str, Any] = {}
    if line.comma():
        rest = _read_fields(line, {name: fields[name] for name in fields if name in ("device", "memory")})
    return UOp.param(place, dtype, shape, **rest) if op is ops.PARAM else UOp.buffer(place, dtype, shape, **rest)


def _read_movement(line: Line, op: Op) -> UOp:
    field = ARGUMENT_FIELD[op]
    (value,) = _operands(line, most=1) or (line.unexpected("an operand"),)
    given = _read_fields(line, {field: Line.sizes})
    if field not in given:
        line.fail(f"{field} is missing", f"{field}=...")
    known, symbolic = split_symbolic(given[field])
    return make(op, (value, *symbolic), known)


def _read_shuffle(line: Line, op: Op) -> UOp:
    src = tuple(_operands(line))
    given = _read_fields(line, {"lanes": FIELD_READERS["tuple[int, ...]"]})
    if "lanes" not in given:
        line.fail("lanes is missing", "lanes=...")
    return make(op, src, given["lanes"])


def _read_item(line: Line, op: Op) -> UOp:
    src = tuple(_operands(line))
    given = _read_fields(line, {"member": Line.integer})
    if "member" not in given:
        line.fail("member is missing", "member=...")
    return make(op, src, given["member"])


def _read_access(line: Line, op: Op) -> UOp:
    """index, load and store."""
    src = tuple(_operands(line))
    fields: dict[str, ReadValue] = {"gate": Line.operand}
    if op is ops.LOAD:
        fields["width"] = Line.integer
    if op is ops.STORE:
        fields |= {"combine": Line.op, "streaming": Line.truth, "asynchronous": Line.truth}
    given = _read_fields(line, fields)
    is_gated = "gate" in given
    if is_gated:
        src += (given["gate"],)
    if op is ops.LOAD:
        return make(op, src, given.get("width", 1))
    if op is ops.INDEX:
        return make(op, src, is_gated)
    how = (given.get("streaming", False), given.get("asynchronous", False))
    return make(op, src, StoreArg(given.get("combine"), is_gated, *how))


def _read_linear(line: Line, op: Op) -> UOp:
    if line.peek() != "...":
        return make(op, tuple(_operands(line)))
    line.take()
    return make(op, tuple(dict.fromkeys(node for node in line.scope.nodes if node.op is not ops.CONST)))


READERS: dict[Op, Callable[[Line, Op], UOp]] = {
    ops.CONST: _read_const,
    ops.VARIABLE: _read_variable,
    ops.PARAM: _read_memory,
    ops.BUFFER: _read_memory,
    **dict.fromkeys(ops.MOVEMENT, _read_movement),
    ops.SHUFFLE: _read_shuffle,
    ops.ITEM: _read_item,
    ops.INDEX: _read_access,
    ops.LOAD: _read_access,
    ops.STORE: _read_access,
    ops.LINEAR: _read_linear,
}
