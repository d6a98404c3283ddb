"""One line of the text form of the IR: its tokens, and the values that stand on it.

    line = Line(3, "%2 = mul x, 3", scope, functions)
    line.definition(), line.op(), line.operand()        ("%2", MUL, the node x)

Text goes in, and what has been defined above it; names, ops, nodes and the parts of arguments come out, from left to
right. What does not fit raises a `ParseError` that shows the line, the place in it and what was expected there. Which
parts a line has, op by op, is known to `whit.ir.text.parse`.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from typing import Any, NoReturn

from whit.dtype import DType, decode, dtypes, encode, to_dtype
from whit.errors import ParseError, nearest
from whit.ir.op import OPS, Op
from whit.ir.text.write import RESERVED
from whit.ir.uop import UOp, const, const_from_bits

ReadValue = Callable[["Line"], Any]
Names = dict[str, UOp]


class Scope:
    """What has been defined so far in the text, or in the body of one function."""

    def __init__(self, constants: Names | None = None) -> None:
        self.constants: Names = {} if constants is None else constants  # of the whole text, under their own
        self.names: Names = dict(self.constants)
        self.nodes: list[UOp] = []  # one for each line
        self.roots: tuple[UOp, ...] | None = None  # once a `roots` line was read


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


class Line:
    """The tokens of one line, read from left to right. Reading past what fits raises."""

    def __init__(self, number: int, text: str, scope: Scope, functions: Names) -> None:
        self.number, self.text = number, text
        self.scope, self.functions = scope, functions
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
        if name in self.scope.names:
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
        node = self.scope.names.get(name)
        if node is None:
            node = self.functions.get(name)
        if node is None:
            known = {**self.functions, **self.scope.names}
            self.fail(f"{name} is not defined.{nearest(name, known)}", "a name defined on a line above", back=1)
        return node

    def constant(self) -> UOp:
        kind, text = self.kind(), self.peek()
        if kind != "constant" and text not in ("true", "false"):
            self.unexpected("a constant, as 3 or 1.5:float32")
        known = self.scope.names.get(text)
        if known is None:
            known = self.scope.names[text] = self.scope.constants[text] = self._new_constant(text)
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
        if dtype.is_complex:
            return self._complex(dtype, sign + digits)
        if is_float:
            return _float(dtype, sign + digits)
        if dtype.is_bool or dtype.is_float:
            self.unexpected("true, false, or a number with a point" if dtype.is_bool else "a number with a point")
        return const(dtype, self._int(sign + digits))

    def _int(self, digits: str) -> int:
        try:
            return int(digits, 16 if "x" in digits else 10)
        except ValueError:
            self.fail("a decimal number of too many digits", "hexadecimal, as 0xff")

    def _complex(self, dtype: DType, digits: str) -> UOp:
        if not digits.startswith("0x") or int(digits, 16) >= 1 << dtype.bitsize:
            self.unexpected("the bits of a complex number, as 0x3f800000:complex64")
        return const_from_bits(dtype, int(digits, 16))

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
        return self.tuple_of(lambda line: line.tuple_of(Line.size) if line.peek() == "(" else line.size())

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


def _float(dtype: DType, digits: str) -> UOp:
    """A number with a point; an infinity by its bits, as converting one could saturate."""
    number = float(digits)
    if dtype.has_inf and dtype.bitsize and "inf" in digits:
        return const_from_bits(dtype, encode(dtype, number))
    return const(dtype, number)
