"""Registers, constants and names of PTX, and a writer that keeps track of them.

A value of n lanes is n registers. Which register a dtype is kept in:

    bool                                  .pred     in memory a byte
    integers and floats below 32 bits     .b32      extended to 32 bits by their sign, or by zeros
    int32, uint32                         .b32
    int64, uint64                         .b64
    float32, float64                      .f32, .f64
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from whit.dtype import DType, dtypes, encode
from whit.errors import InternalError
from whit.ir import ops
from whit.ir.op import Op
from whit.ir.uop import UOp
from whit.target import parse_target


def register_type(dtype: DType) -> str:
    """The type of the registers that hold a dtype."""
    if dtype.is_bool:
        return "pred"
    if dtype is dtypes.weakint:  # constants only: positions
        return "b64"
    if not dtype.bitsize:
        raise InternalError(f"render PTX: there are no values of {dtype.name}")
    if dtype.is_float and dtype.bitsize >= 32:
        return f"f{dtype.bitsize}"
    return "b64" if dtype.bitsize == 64 else "b32"


def arithmetic_type(dtype: DType) -> str:
    """The type that instructions name: by sign, and at least 32 bits wide."""
    if dtype.is_float and dtype.bitsize >= 32:
        return f"f{dtype.bitsize}"
    wide = 64 if dtype is dtypes.weakint or dtype.bitsize == 64 else 32
    is_signed = not dtype.is_float and not dtype.is_unsigned and not dtype.is_bool
    return f"{'s' if is_signed else 'u'}{wide}"


def memory_type(dtype: DType) -> str:
    """The type of loads and stores."""
    if dtype.is_bool:
        return "u8"
    if dtype.is_float and dtype.bitsize >= 32:
        return f"f{dtype.bitsize}"
    is_signed = not dtype.is_float and not dtype.is_unsigned
    return f"{'s' if is_signed else 'u'}{dtype.bitsize}"


def number(dtype: DType, value: Any) -> str:
    """A constant, bit by bit. There are none of bool."""
    if dtype is dtypes.float32:
        return f"0f{encode(dtype, value):08X}"
    if dtype is dtypes.float64:
        return f"0d{encode(dtype, value):016X}"
    if dtype.is_float:
        return str(encode(dtype, value))
    if dtype is dtypes.uint64:
        return f"{value}U"
    return str(value)


def lane_count(node: UOp) -> int:
    """Lanes of a value; 1 for a scalar."""
    return int(node.shape[0]) if node.shape else 1


@dataclass(frozen=True, slots=True)
class RegisterPart:
    """Some bits of a register."""

    whole: str
    size: int  # bits of that which mean something
    start: int
    bits: int
    is_signed: bool = False

    @property
    def is_half(self) -> bool:
        """Whether these are the lower or the upper 16 bits."""
        return (self.size, self.bits) == (32, 16)


@dataclass(frozen=True, slots=True)
class Words:
    """A vector of bytes, four in each register. A byte has no other bits than those of the mask, if it is clean."""

    names: list[str]
    mask: int = 255
    is_clean: bool = True


class PtxWriter:
    """The lines of one function, and the registers of its values."""

    exp2 = "ex2.approx.f32"  # 2 ulps off at most
    halves: Mapping[tuple[Op, DType], str] = {}  # op, dtype -> what computes two at once
    target = parse_target("CUDA:PTX:sm_80")  # what it may use; a function's own stands here in its place

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[UOp, list[str]] = {}  # one register for each lane
        self.registers: dict[str, list[str]] = {}  # by type
        self.parts: dict[str, RegisterPart] = {}  # registers that have some bits of another
        self.lane_lines: dict[str, int] = {}  # registers with one of two lanes -> which of the lines writes them
        self.masks: dict[tuple[str, str], tuple[str, ...]] = {}  # comparisons of two lanes -> what makes a mask of both
        self.shifted: dict[str, str] = {}  # registers -> what they are 256 times
        self.joined: dict[str, tuple[str, str]] = {}  # registers -> those that have some bits of them each
        self.offsets: dict[str, tuple[str, float]] = {}  # floats -> what they are, and how much less
        self.constants: dict[str, str] = {}  # numbers -> the registers that have them from the beginning on
        self.words: dict[UOp, Words | None] = {}  # vectors of bytes, where they are such (`ptx.words`)
        self.depth = 1
        self.count = 0
        self.reciprocal = "rcp.rn.f32"

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def note(self, text: str) -> None:
        """A comment on what follows."""
        self.line(f"// {text}")

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def register(self, kind: str, prefix: str) -> str:
        """A register that nothing uses yet."""
        self.count += 1
        name = f"%{prefix}{self.count}"
        self.registers.setdefault(kind, []).append(name)
        return name

    def value(self, kind: str, prefix: str, instruction: str, *operands: str) -> str:
        """Writes an instruction whose result is a new register."""
        name = self.register(kind, prefix)
        self.line(f"{instruction} {', '.join((name, *operands))};")
        return name

    def in_register(self, kind: str, x: str) -> str:
        """An operand of an instruction that takes no numbers."""
        return x if x.startswith("%") else self.value(kind, "n", f"mov.{kind}", x)

    def operand(self, node: UOp, lane: int = 0) -> str:
        """The text of one lane; a scalar is the same for all of them."""
        if node.op is ops.CONST:
            return self.constant(node.dtype, node.arg)
        lanes = self.names[node]
        return lanes[lane] if len(lanes) > 1 else lanes[0]

    def constant(self, dtype: DType, value: Any) -> str:
        """A number; true and false have to be computed."""
        if dtype.is_bool:
            return self.value("pred", "true" if value else "false", "setp.ne.u32", "1" if value else "0", "0")
        return number(dtype, value)

    def kept(self, text: str) -> str:
        """A number that stays in a register, beside another that is part of the instruction."""
        if text not in self.constants:
            self.constants[text] = self.register("b32", "kept")
        return self.constants[text]

    def first_lines(self) -> list[str]:
        """What the registers of numbers get. The assembler would move a number that it knows before each use of it; it
        does not know that threads have numbers below 1024."""
        if not self.constants:
            return []
        none = self.register("b32", "none")
        lines = [f"  mov.u32 {none}, %tid.x;", f"  shr.u32 {none}, {none}, 16;"]
        return lines + [f"  add.s32 {name}, {none}, {text};" for text, name in self.constants.items()]

    def declarations(self) -> list[str]:
        """The registers, a few in a line."""
        texts = []
        for kind, names in sorted(self.registers.items()):
            for i in range(0, len(names), 12):
                texts.append(f"  .reg .{kind} {', '.join(names[i : i + 12])};")
        return texts
