"""How arguments are written: what stands behind the operands on a line of the text form, and in messages.

    ReduceArg(ADD, (2,))                    op=add, axes=(2,)
    BufferArg(3, float32, (4, None))        3, float32(4, n)
    (4, None) of a reshape                  shape=(4, n)

An argument goes in, with the texts of the symbolic sizes that stand in the places of its Nones; its parts come out.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.args import RECORDS
from whit.ir.op import Op, spell_int
from whit.records import fields

RECORD_TYPES = frozenset(RECORDS.values())

# The field that an argument which is no record is shown under.
ARGUMENT_FIELD = {
    ops.RESHAPE: "shape",
    ops.PERMUTE: "order",
    ops.EXPAND: "shape",
    ops.PAD: "pads",
    ops.SHRINK: "parts",
    ops.FLIP: "axes",
    ops.SHUFFLE: "lanes",
    ops.LOAD: "width",
    ops.ITEM: "member",
}

# From which source on the sources are the symbolic sizes of the argument.
FIRST_SIZE: dict[Op, int] = {ops.PARAM: 0, ops.BUFFER: 0, **dict.fromkeys(ops.MOVEMENT, 1)}

# The ops whose argument tells dtype and shape.
TELLS_TYPE = frozenset({ops.VARIABLE, ops.PARAM, ops.BUFFER, ops.FUNCTION})


def spell_argument(op: Op, arg: Any, symbolic: Iterable[str] = ()) -> list[str]:
    """The parts in which a node's argument is written; `symbolic` has the texts of its symbolic sizes."""
    if op.arg_type is None:
        return []
    special = _SPECIAL.get(op)
    if special is not None:
        return special(arg, iter(symbolic))
    if op.arg_type is tuple:
        return [f"{ARGUMENT_FIELD[op]}={_spell_sizes(arg, iter(symbolic))}"]
    return spell_fields(arg) if op.arg_type in RECORD_TYPES else [spell_value(arg)]


def spell_fields(record: Any, always: tuple[str, ...] = ("kind", "memory")) -> list[str]:
    """`field=value` for each field of a record that is not at its default, and for those always shown."""
    return [
        f"{field.name}={spell_value(getattr(record, field.name))}"
        for field in fields(record)
        if field.name in always or getattr(record, field.name) != field.default
    ]


def spell_text(text: str) -> str:
    """A text in quotes, as in JSON."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    import json  # lazy: 1 ms, and names are plain

    return json.dumps(text)


def spell_value(value: Any) -> str:
    """A part of an argument: number, string, dtype, op, enum, tuple, record or none."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return spell_int(value)
    if isinstance(value, str):
        return spell_text(value)
    if isinstance(value, DType | Op):
        return value.name
    if isinstance(value, enum.Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return _in_parentheses([spell_value(part) for part in value])
    if type(value) in RECORD_TYPES:
        return f"{type(value).__name__}({', '.join(spell_fields(value, always=()))})"
    return repr(value)


def _in_parentheses(parts: list[str]) -> str:
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _spell_sizes(sizes: tuple[Any, ...], symbolic: Iterator[str]) -> str:
    """A shape, or pairs of sizes, with the symbolic ones in the places of the Nones."""
    parts = []
    for size in sizes:
        if isinstance(size, tuple):
            parts.append(_spell_sizes(size, symbolic))
        else:
            parts.append(next(symbolic) if size is None else spell_int(size))
    return _in_parentheses(parts)


# ---- arguments with a form of their own


def _variable(arg: Any, symbolic: Iterator[str]) -> list[str]:
    dtype = [] if arg.dtype is dtypes.weakint else [arg.dtype.name]
    return [spell_text(arg.name), f"{spell_int(arg.low)}..{spell_int(arg.high)}", *dtype]


def _memory(arg: Any, place: int, symbolic: Iterator[str]) -> list[str]:
    """0, float32(4, n), device="CPU" """
    shape = _spell_sizes(arg.shape, symbolic) if arg.shape else ""
    rest = [text for text in spell_fields(arg, always=()) if text.startswith(("device=", "memory="))]
    return [spell_int(place), f"{arg.dtype.name}{shape}", *rest]


def _store(arg: Any, symbolic: Iterator[str]) -> list[str]:
    """The gate shows on the source that is one."""
    combine = [] if arg.combine is None else [f"combine={arg.combine.name}"]
    return [*combine, *(f"{how}=true" for how in ("streaming", "asynchronous") if getattr(arg, how))]


_SPECIAL: dict[Op, Callable[[Any, Iterator[str]], list[str]]] = {
    ops.VARIABLE: _variable,
    ops.PARAM: lambda arg, symbolic: _memory(arg, arg.slot, symbolic),
    ops.BUFFER: lambda arg, symbolic: _memory(arg, arg.id, symbolic),
    ops.ITEM: lambda arg, symbolic: [f"member={spell_int(arg)}"],
    ops.INDEX: lambda arg, symbolic: [],
    ops.LOAD: lambda arg, symbolic: [] if arg == 1 else [f"width={arg}"],
    ops.STORE: _store,
    ops.FUNCTION: lambda arg, symbolic: [spell_text(arg.name)],
}
