"""Reads the text form of the IR (see `whit.ir.text`) back into nodes.

    >>> parse("x = variable \\"x\\", 0..1000\\n%1 = mul x, 3")
    <UOp mul (weakint)>

Text goes in, the very nodes it was printed from come out. What does not read raises a `ParseError` with the line, the
place in it and what was expected there; what reads but cannot be built raises one with the builder's message.

Each line is first tried against the shapes that nearly all lines have, with names, constants and arguments that were
met before; whatever does not fit exactly is left to `_Line`, which knows the whole grammar and reports the mistakes.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import struct
from collections.abc import Callable
from typing import Any, NoReturn

from whit.dtype import DType, decode, dtypes, to_dtype
from whit.errors import ParseError, UserError, nearest
from whit.ir import ops
from whit.ir.args import ENUMS, RECORDS, BufferArg, FunctionArg, ParamArg, StoreArg
from whit.ir.op import OPS, Op
from whit.ir.text import ARGUMENT_FIELD, RECORD_TYPES, RESERVED
from whit.ir.uop import UOp, const, make

ReadValue = Callable[["_Line"], Any]
Names = dict[str, UOp]


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


class _Scope:
    """What has been defined so far in the text, or in the body of one function."""

    def __init__(self) -> None:
        self.names: Names = {}  # also the constants met so far, under their text
        self.nodes: list[UOp] = []  # one for each line
        self.roots: tuple[UOp, ...] | None = None  # once a `roots` line was read


# 12 us -> 2.5 us a line where the node exists, -> 6 us where it is built (a chain of 200,000 additions)
_PLAIN_LINE = re.compile(r' *(%[1-9][0-9]*) = ([a-z][a-z0-9]*) ([^=#"({]*[^=#"({ ])(?: *#.*)?\Z')
_LINE_WITH_FIELDS = re.compile(
    r' *(%[1-9][0-9]*) = ([a-z][a-z0-9]*) ([^=#"({, ]+(?:, [^=#"({, ]+)*), ([a-z]+=[^#"{]*[^#"{ ])(?: *#.*)?\Z'
)


class _Reader:
    """Takes the lines one by one; holds the names, and the function whose block is open."""

    def __init__(self) -> None:
        self.functions: Names = {}
        self.outer = self.scope = _Scope()
        self.open: _Line | None = None  # the line that opened the block
        self.open_name = ""
        self.open_params: tuple[ParamArg, ...] | None = None
        self.arguments: dict[tuple[str, str], Any] = {}  # (op, its fields) -> the argument they were read as
        self.last_function: UOp | None = None  # if the last line of the text closed a block

    def read(self, number: int, text: str) -> None:
        match = _PLAIN_LINE.match(text) or _LINE_WITH_FIELDS.match(text)
        if match is not None and self._read_known(*match.groups()):
            return
        line = _Line(self, number, text)
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
            node = make(op, tuple([names[operand] for operand in operands.split(", ")]), arg)
        except (KeyError, UserError):  # not a mistake if it is a new constant, a new argument or a function
            return False
        names[name] = node
        scope.nodes.append(node)
        self.last_function = None
        return True

    def _remember_argument(self, name: str, op_name: str, operands: str, fields: str = "") -> None:
        """Keeps the argument of the line just read under its text, if all the sources stand before the fields."""
        node = self.scope.nodes[-1]
        if len(node.src) == operands.count(", ") + 1:
            self.arguments[op_name, fields] = node.arg

    def _read_line(self, line: _Line) -> None:
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

    def _open_function(self, line: _Line, name: str) -> None:
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
        self.open, line.name = line, name
        self.scope = _Scope()

    def _close_function(self, line: _Line) -> None:
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
        if self.open.name:
            self.functions[self.open.name] = function
        self.open, self.scope, self.last_function = None, self.outer, function

    def _roots_of_scope(self, line: _Line) -> tuple[UOp, ...]:
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
        return self._roots_of_scope(_Line(self, 1, ""))

    def look_up(self, name: str) -> UOp | None:
        found = self.scope.names.get(name)
        return found if found is not None else self.functions.get(name)


_TOKEN = re.compile(
    r"""\s*(?:
    (?P<string>"(?:[^"\\]|\\.)*")
    |(?P<constant>-?(?:0x[0-9a-fA-F]+|[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?|(?:inf|nan(?:\(0x[0-9a-fA-F]+\))?)(?![\w.]))
        (?::[A-Za-z]\w*)?)
    |(?P<name>%[0-9]+|[A-Za-z_]\w*(?:\.[0-9]+)?)
    |(?P<mark>\.\.\.|\.\.|[=,(){}])
    |(?P<comment>\#.*)
    |(?P<bad>\S)
    )""",
    re.VERBOSE | re.ASCII,
)
_CONSTANT = re.compile(r"(-?)(nan|inf|[^:(]+)(?:\((\w+)\))?(?::(\w+))?\Z")


class _Line:
    """The tokens of one line, read from left to right. Reading past what fits raises."""

    def __init__(self, reader: _Reader, number: int, text: str) -> None:
        self.reader, self.number, self.text = reader, number, text
        self.name = ""  # of the function whose block this line opens
        self.tokens: list[tuple[str, str, int]] = []  # kind, text, column
        self.position = 0
        for match in _TOKEN.finditer(text):
            kind = match.lastgroup or "bad"
            if kind != "comment":
                self.tokens.append((kind, match[kind], match.start(kind)))

    def at_end(self) -> bool:
        return self.position == len(self.tokens)

    def peek(self, ahead: int = 0) -> str:
        """The text of a token to come; "" after the last, and for strings, which could look like anything."""
        place = self.position + ahead
        if place >= len(self.tokens) or self.tokens[place][0] == "string":
            return ""
        return self.tokens[place][1]

    def kind(self) -> str:
        return "end" if self.at_end() else self.tokens[self.position][0]

    def take(self) -> str:
        text = self.tokens[self.position][1]
        self.position += 1
        return text

    def fail(self, what: str, expected: str, back: int = 0) -> NoReturn:
        """Raises about the token `back` places before the next one."""
        place = self.position - back
        column = self.tokens[place][2] if place < len(self.tokens) else len(self.text.rstrip())
        raise ParseError(f"parse: line {self.number}: {what}", f"{self.text}\n{' ' * column}^", f"Expected {expected}.")

    def unexpected(self, expected: str) -> NoReturn:
        found = "the line ends" if self.at_end() else f"unexpected {self.tokens[self.position][1]!r}"
        self.fail(found, expected)

    def expect(self, text: str) -> None:
        if self.peek() != text:
            self.unexpected(f"`{text}`")
        self.position += 1

    def comma(self) -> bool:
        """Takes the comma before another part of the line; False at the end of the line."""
        if self.at_end():
            return False
        if self.peek() != ",":
            self.unexpected("`,` or the end of the line")
        self.take()
        if self.at_end():
            self.unexpected("something after the comma")
        return True

    def expect_end(self) -> None:
        if not self.at_end():
            self.unexpected("the end of the line")

    # ---- values

    def definition(self) -> str:
        """The name before an equals sign."""
        if self.kind() != "name" or self.peek() in RESERVED:
            self.unexpected("a name, as %1 or x")
        name = self.take()
        if name in self.reader.scope.names:
            self.fail(f"{name} is defined already", "each name to be defined once", back=1)
        self.expect("=")
        return name

    def op(self) -> Op:
        if self.kind() != "name":
            self.unexpected("an op")
        name = self.take()
        op = OPS.get(name)
        if op is None:
            self.fail(f"there is no op {name!r}.{nearest(name, OPS)}", "an op of whit/ir/ops.py", back=1)
        return op

    def operand(self) -> UOp:
        """A name, or a constant."""
        kind = self.kind()
        if kind == "constant" or self.peek() in ("true", "false"):
            return self.constant()
        if kind != "name":
            self.unexpected("a name or a constant")
        name = self.take()
        node = self.reader.look_up(name)
        if node is None:
            known = {**self.reader.functions, **self.reader.scope.names}
            self.fail(f"{name} is not defined.{nearest(name, known)}", "a name defined on a line above", back=1)
        return node

    def constant(self) -> UOp:
        kind, text = self.kind(), self.peek()
        if kind != "constant" and text not in ("true", "false"):
            self.unexpected("a constant, as 3 or 1.5:float32")
        known = self.reader.scope.names.get(text)
        if known is None:
            known = self.reader.scope.names[text] = self._new_constant(text)
        self.position += 1
        return known

    def _new_constant(self, text: str) -> UOp:
        if text in ("true", "false"):
            return const(dtypes.bool, text == "true")
        match = _CONSTANT.match(text)
        if match is None:
            self.unexpected("a constant, as 3 or 1.5:float32")
        sign, digits, payload, dtype_name = match.groups()
        is_float = not digits.startswith("0x") and not digits.isdecimal()
        dtype = to_dtype(dtype_name) if dtype_name else dtypes.weakfloat if is_float else dtypes.weakint
        if payload:
            if not dtype.is_float or sign:
                self.unexpected("a float dtype and no sign with the bits of a NaN")
            return const(dtype, self._nan(dtype, int(payload, 16)))
        if is_float:
            return const(dtype, float(sign + digits))
        if dtype.is_bool or dtype.is_float:
            self.unexpected("true, false, or a number with a point" if dtype.is_bool else "a number with a point")
        return const(dtype, self._int(sign + digits))

    def _int(self, digits: str) -> int:
        try:
            return int(digits, 16 if "x" in digits else 10)
        except ValueError:
            self.fail("a decimal number of too many digits", "hexadecimal, as 0xff")

    def _nan(self, dtype: DType, bits: int) -> float:
        is_double = dtype in (dtypes.float64, dtypes.weakfloat)
        width = 64 if is_double else dtype.bitsize
        value: float = 0.0
        if bits < 1 << width:
            value = struct.unpack(">d", bits.to_bytes(8, "big"))[0] if is_double else decode(dtype, bits)
        if value == value:
            self.fail(f"{bits:#x} is no NaN of {dtype.name}", "the bits of a NaN")
        return value

    def integer(self) -> int:
        text = self.peek()
        digits = text.removeprefix("-")
        if self.kind() != "constant" or not (digits.isdecimal() or digits.startswith("0x")) or ":" in digits:
            self.unexpected("an integer")
        number = self._int(text)
        self.position += 1
        return number

    def size(self) -> int | UOp:
        """A number is a size by itself; a name, or a constant with its dtype, is a node."""
        if self.kind() == "constant" and ":" not in self.peek():
            return self.integer()
        return self.operand()

    def sizes(self) -> tuple[Any, ...]:
        """A tuple of sizes, or of tuples of sizes."""
        return self.tuple_of(lambda line: line.tuple_of(_Line.size) if line.peek() == "(" else line.size())

    def string(self) -> str:
        if self.kind() != "string":
            self.unexpected("a string in double quotes")
        try:
            text: str = json.loads(self.tokens[self.position][1])
        except ValueError:
            self.unexpected("a string with JSON's escapes")
        self.position += 1
        return text

    def truth(self) -> bool:
        if self.peek() not in ("true", "false"):
            self.unexpected("true or false")
        return self.take() == "true"

    def dtype(self) -> DType:
        if self.kind() != "name":
            self.unexpected("a dtype")
        return to_dtype(self.take())

    def tuple_of(self, read: ReadValue) -> tuple[Any, ...]:
        self.expect("(")
        parts = []
        while self.peek() != ")":
            parts.append(read(self))
            if self.peek() == ",":
                self.take()
            elif self.peek() != ")":
                self.unexpected("`,` or `)`")
        self.take()
        return tuple(parts)

    def or_none(self, read: ReadValue) -> Any:
        if self.peek() == "none":
            self.take()
            return None
        return read(self)

    def member_of(self, choices: Any) -> Any:
        values = [member.value for member in choices]
        if self.peek() not in values:
            self.unexpected("one of " + ", ".join(values))
        return choices(self.take())


# How the fields of argument records are read, by what their type says.
FIELD_READERS: dict[str, ReadValue] = {
    "int": _Line.integer,
    "bool": _Line.truth,
    "str": _Line.string,
    "DType": _Line.dtype,
    "Op": _Line.op,
    "int | None": lambda line: line.or_none(_Line.integer),
    "str | None": lambda line: line.or_none(_Line.string),
    "Op | None": lambda line: line.or_none(_Line.op),
    "tuple[int, ...]": lambda line: line.tuple_of(_Line.integer),
    "tuple[int | None, ...]": lambda line: line.tuple_of(FIELD_READERS["int | None"]),
    "tuple[ParamArg, ...]": lambda line: line.tuple_of(FIELD_READERS["ParamArg"]),
}


def _read_record(line: _Line, cls: type[Any]) -> Any:
    """Layout(order=(1, 0), padding=8)"""
    line.expect(cls.__name__)
    line.expect("(")
    record = _filled_record(line, cls, _read_fields(line, _fields_of(cls)))
    line.expect(")")
    return record


FIELD_READERS.update({name: functools.partial(_Line.member_of, choices=choices) for name, choices in ENUMS.items()})
FIELD_READERS.update({name: functools.partial(_read_record, cls=cls) for name, cls in RECORDS.items()})


def _fields_of(record: type[Any]) -> dict[str, ReadValue]:
    return {field.name: FIELD_READERS[str(field.type)] for field in dataclasses.fields(record)}


def _read_fields(line: _Line, fields: dict[str, ReadValue]) -> dict[str, Any]:
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


def _filled_record(line: _Line, cls: type[Any], found: dict[str, Any]) -> Any:
    for field in dataclasses.fields(cls):
        if field.name not in found and field.default is dataclasses.MISSING:
            line.fail(f"{field.name} is missing", f"{field.name}=...")
    return cls(**found)


def _operands(line: _Line, most: int | None = None) -> list[UOp]:
    """Operands with commas between them, up to the end of the line or a `field=`, and the comma before it."""
    found: list[UOp] = []
    while not line.at_end() and line.peek(1) != "=" and len(found) != most:
        found.append(line.operand())
        if not line.comma():
            break
    return found


# ---- one op


def _read_by_type(line: _Line, op: Op) -> UOp:
    """Any op without a reader of its own: operands, then the argument as its type says."""
    if op.arg_type is None:
        return make(op, tuple(_operands(line)))
    if op.arg_type in RECORD_TYPES:
        src = tuple(_operands(line))
        return make(op, src, _filled_record(line, op.arg_type, _read_fields(line, _fields_of(op.arg_type))))
    src = tuple(_operands(line, most=op.least))
    return make(op, src, line.dtype() if op.arg_type is DType else line.string())


def _read_const(line: _Line, op: Op) -> UOp:
    return line.constant()


def _read_variable(line: _Line, op: Op) -> UOp:
    name = line.string()
    line.expect(",")
    low = line.integer()
    line.expect("..")
    high = line.integer()
    dtype = line.dtype() if line.comma() else dtypes.weakint
    return UOp.variable(name, low, high, dtype)


def _read_memory(line: _Line, op: Op) -> UOp:
    place = line.integer()
    line.expect(",")
    dtype = line.dtype()
    shape = line.tuple_of(_Line.size) if line.peek() == "(" else ()
    fields = _fields_of(ParamArg if op is ops.PARAM else BufferArg)
    rest: dict[str, Any] = {}
    if line.comma():
        rest = _read_fields(line, {name: fields[name] for name in fields if name in ("device", "memory")})
    return UOp.param(place, dtype, shape, **rest) if op is ops.PARAM else UOp.buffer(place, dtype, shape, **rest)


def _read_movement(line: _Line, op: Op) -> UOp:
    field = ARGUMENT_FIELD[op]
    (value,) = _operands(line, most=1) or (line.unexpected("an operand"),)
    given = _read_fields(line, {field: _Line.sizes})
    if field not in given:
        line.fail(f"{field} is missing", f"{field}=...")
    move: Callable[[UOp, Any], UOp] = getattr(UOp, op.name)
    return move(value, given[field])


def _read_item(line: _Line, op: Op) -> UOp:
    src = tuple(_operands(line))
    given = _read_fields(line, {"member": _Line.integer})
    if "member" not in given:
        line.fail("member is missing", "member=...")
    return make(op, src, given["member"])


def _read_access(line: _Line, op: Op) -> UOp:
    """index, load and store."""
    src = tuple(_operands(line))
    fields: dict[str, ReadValue] = {"gate": _Line.operand}
    if op is ops.LOAD:
        fields["width"] = _Line.integer
    if op is ops.STORE:
        fields["combine"] = _Line.op
    given = _read_fields(line, fields)
    is_gated = "gate" in given
    if is_gated:
        src += (given["gate"],)
    if op is ops.LOAD:
        return make(op, src, given.get("width", 1))
    return make(op, src, is_gated if op is ops.INDEX else StoreArg(given.get("combine"), is_gated))


def _read_linear(line: _Line, op: Op) -> UOp:
    if line.peek() != "...":
        return make(op, tuple(_operands(line)))
    line.take()
    return make(op, tuple(dict.fromkeys(node for node in line.reader.scope.nodes if node.op is not ops.CONST)))


READERS: dict[Op, Callable[[_Line, Op], UOp]] = {
    ops.CONST: _read_const,
    ops.VARIABLE: _read_variable,
    ops.PARAM: _read_memory,
    ops.BUFFER: _read_memory,
    **dict.fromkeys(ops.MOVEMENT, _read_movement),
    ops.ITEM: _read_item,
    ops.INDEX: _read_access,
    ops.LOAD: _read_access,
    ops.STORE: _read_access,
    ops.LINEAR: _read_linear,
}
