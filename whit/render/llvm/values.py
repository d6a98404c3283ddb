"""Types, numbers and names of LLVM IR, and a writer that keeps track of them."""

from __future__ import annotations

import re
import struct
from typing import Any

from whit.dtype import DType, dtypes, encode
from whit.errors import InternalError
from whit.ir import ops
from whit.ir.uop import UOp
from whit.target import Target

_SCALARS = {
    dtypes.bool: "i1",
    **{dtype: f"i{dtype.bitsize}" for dtype in (*dtypes.ints, *dtypes.fp8s, dtypes.float16, dtypes.bfloat16)},
    dtypes.float32: "float",
    dtypes.float64: "double",
    dtypes.weakint: "i64",  # constants only: positions
}
_SHORT = {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}
_PLAIN_NAME = re.compile(r"[A-Za-z$._][A-Za-z0-9$._]*")
_VECTOR = re.compile(r"<(\d+) x (\w+)>")


def scalar_type(dtype: DType) -> str:
    """The LLVM type of one value."""
    kind = _SCALARS.get(dtype)
    if kind is None:
        raise InternalError(f"render LLVM: there are no values of {dtype.name}")
    return kind


def memory_type(dtype: DType) -> str:
    """The LLVM type of one value in memory."""
    return "i8" if dtype.is_bool else scalar_type(dtype)


def vector_of(scalar: str, count: int) -> str:
    """The type of that many lanes; of one, the scalar."""
    return scalar if count == 1 else f"<{count} x {scalar}>"


def lane_count(node: UOp) -> int:
    """Lanes of a value; 1 for a scalar."""
    return int(node.shape[0]) if node.shape else 1


def type_of(node: UOp) -> str:
    """The LLVM type of a value."""
    return vector_of(scalar_type(node.dtype), lane_count(node))


def suffix(kind: str) -> str:
    """A type as it stands in the name of an intrinsic: <8 x float> is v8f32."""
    found = _VECTOR.fullmatch(kind)
    if found:
        return f"v{found[1]}{_SHORT.get(found[2], found[2])}"
    return _SHORT.get(kind, kind)


def number(dtype: DType, value: Any) -> str:
    """A constant, bit by bit."""
    if dtype.is_bool:
        return "true" if value else "false"
    if dtype.is_float:
        if dtype.bitsize < 32:
            return str(encode(dtype, value))
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}" if _is_odd(value) else repr(value)
    return str(value)


def _is_odd(value: float) -> bool:
    """Whether LLVM has to be given the bits: it reads decimals only where they are exact."""
    return not (value == value and abs(value) < 2.0**20 and value * 256 == int(value * 256))


def quoted(name: str) -> str:
    """A name as LLVM reads it."""
    if _PLAIN_NAME.fullmatch(name):
        return name
    return '"' + "".join(c if c.isalnum() or c in " ._-$" else f"\\{ord(c):02X}" for c in name) + '"'


class LlvmWriter:
    """The lines of one function, and what its values are called."""

    def __init__(self, target: Target, declarations: dict[str, str]) -> None:
        self.target = target
        self.declarations = declarations  # of the module: name -> text
        self.lines: list[str] = []
        self.names: dict[UOp, str] = {}
        self.ends: dict[UOp, tuple[str, str]] = {}  # RANGE or IF -> its name and where it ends
        self.label = "entry"  # of the basic block that is being written
        self.count = 0
        self.splats: list[dict[tuple[str, int], str]] = [{}]  # scalars as vectors, for each open block

    def fresh(self) -> int:
        """A number that names nothing yet."""
        self.count += 1
        return self.count

    def line(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def named(self, name: str, text: str) -> str:
        self.lines.append(f"  %{name} = {text}")
        return f"%{name}"

    def value(self, prefix: str, text: str) -> str:
        """Writes an instruction under a new name."""
        self.count += 1
        name = f"%{prefix}.{self.count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def start_block(self, label: str) -> None:
        """A new basic block on the level of the one before."""
        self.lines.append(f"{label}:")
        self.label = label

    def open_block(self, label: str) -> None:
        """A basic block whose values are unknown after `close_block`."""
        self.start_block(label)
        self.splats.append({})

    def close_block(self, label: str) -> None:
        self.splats.pop()
        self.start_block(label)

    def operand(self, node: UOp, count: int = 0) -> str:
        """The text of a value; a scalar is repeated where `count` lanes are wanted."""
        is_wide = count > 1 and not node.shape
        if node.op is ops.CONST:
            text = number(node.dtype, node.arg)
            return f"splat ({scalar_type(node.dtype)} {text})" if is_wide else text
        name = self.names[node]
        return self.splat(name, scalar_type(node.dtype), count) if is_wide else name

    def splat(self, name: str, scalar: str, count: int) -> str:
        """A scalar in every lane of a vector."""
        for known in self.splats:
            if (name, count) in known:
                return known[name, count]
        kind = vector_of(scalar, count)
        first = self.value("lane", f"insertelement {kind} poison, {scalar} {name}, i64 0")
        text = f"shufflevector {kind} {first}, {kind} poison, <{count} x i32> zeroinitializer"
        result = self.splats[-1][name, count] = self.value("splat", text)
        return result

    def constant(self, dtype: DType, value: Any, count: int) -> str:
        """A number in every lane."""
        text = number(dtype, value)
        return text if count == 1 else f"splat ({scalar_type(dtype)} {text})"

    def suffix(self, kind: str) -> str:
        return suffix(kind)

    def intrinsic(self, name: str, result: str, *arguments: tuple[str, str]) -> str:
        """Calls an intrinsic of LLVM on (type, text) pairs, and declares it."""
        self.declarations[name] = f"declare {result} @llvm.{name}({', '.join(kind for kind, _ in arguments)})"
        call = f"call {result} @llvm.{name}({', '.join(f'{kind} {text}' for kind, text in arguments)})"
        if result == "void":
            self.line(call)
            return ""
        return self.value(name.partition(".")[0], call)
