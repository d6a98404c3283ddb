"""What every node is checked for while it is built, and what is said when it does not fit.

Goes in: op, sources and argument of a node about to be made, or the number of a constant. Comes out: nothing, or the
number as its dtype holds it; and an error about the node where something does not fit. What one op asks for besides
stands in its record (`Op.check`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import index
from typing import Any, NoReturn

from whit.cache import register_cache
from whit.dtype import DType, convert, dtypes, round_float
from whit.errors import ArgumentError, DeviceError, DTypeError, UserError
from whit.ir import ops
from whit.ir.args import ENUMS, RECORDS
from whit.ir.op import Op, Sources, spell_int, where_made
from whit.ir.record import Record
from whit.ir.text.spell import spell_value
from whit.records import fields


def check_node(op: Op, src: Sources, arg: Any) -> None:
    """Raises unless sources and argument are what the op takes. Arity, dtype and shape are not looked at here."""
    if op is ops.CONST:
        raise ArgumentError("const: constants need a dtype", fix="Use UOp.const(dtype, value).")
    for s in src:
        if not isinstance(s, Record):
            raise TypeError("a source is no UOp")  # `explain` says which
    if op.arg_type is None and arg is not None:
        raise ArgumentError(f"{op.name}: takes no argument, and gets {shown(arg)}", fix="Leave it out.")
    if op.arg_type is not None and (not isinstance(arg, op.arg_type) or (op.arg_type is int and type(arg) is bool)):
        raise ArgumentError(
            f"{op.name}: the argument {shown(arg)} is a {type(arg).__name__}",
            fix=f"It must be a {op.arg_type.__name__}.",
        )
    if arg is not None and _good.get(id(arg)) is not arg:
        _check_parts(op, arg)
    if op.check is not None:
        op.check(op, src, arg)


MOST_GOOD = 30_000
# Arguments whose parts were looked at, by identity: nodes are mostly made of others' arguments. Not those that may be
# referred to weakly: something ends when they do.
_good: dict[int, Any] = {}
register_cache(_good.clear, "ir.checked arguments")


def _check_parts(op: Op, arg: Any) -> None:
    for name, part, allowed in _parts(op, arg):
        if type(part) not in allowed:
            kinds = " or ".join(kind.__name__ for kind in allowed if kind is not type(None))
            what = f"{op.name}: {part!r} in {name} is a {type(part).__name__}"
            raise ArgumentError(what, f"argument {shown(arg)}", f"It must be a {kinds}.")
    if len(_good) > MOST_GOOD:
        _good.clear()
    if not type(arg).__weakrefoffset__:
        _good[id(arg)] = arg


_KINDS: dict[str, type] = {
    **{kind.__name__: kind for kind in (bool, int, str, DType, Op)},
    "None": type(None),
    **RECORDS,
    **ENUMS,
}
_SIZE_KINDS: frozenset[type] = frozenset({int, type(None)})


def _kinds(annotation: str) -> frozenset[type]:
    """The types in an annotation, `int | None` or `tuple[int | None, ...]`: of the value, or of its elements."""
    return frozenset(_KINDS[name] for name in annotation.removeprefix("tuple[").removesuffix(", ...]").split(" | "))


_FIELDS = {cls: [(field.name, _kinds(str(field.type))) for field in fields(cls)] for cls in RECORDS.values()}


def _parts(op: Op, arg: Any) -> Iterator[tuple[str, Any, frozenset[type]]]:
    """The parts of an argument with the types each may have. Exactly these: an argument with True or 1.0 in the place
    of 1 would be found under the same key, and stand in for it."""
    if op.arg_type is tuple:
        for part in arg:
            for inner in part if type(part) is tuple else (part,):
                yield "the argument", inner, _SIZE_KINDS
    for name, allowed in _FIELDS.get(type(arg), ()):
        value = getattr(arg, name)
        for part in value if type(value) is tuple else (value,):
            yield name, part, allowed


def shown(arg: Any) -> str:
    """An argument that may be of any kind, for messages."""
    return spell_value(arg) if type(arg) in _FIELDS or type(arg) is int else repr(arg)


def wrong_arity(op: Op, src: Sources) -> NoReturn:
    """Raises about the number of sources."""
    if op.most is None:
        wanted = f"at least {op.least}"
    elif op.least == op.most:
        wanted = f"{op.least}"
    else:
        wanted = f"{op.least} to {op.most}"
    raise ArgumentError(f"{op.name}: takes {wanted} sources, and gets {len(src)}", where_made(src), op.doc)


def two_devices(op: Op, src: Sources) -> NoReturn:
    """Raises about sources that live on different devices."""
    names = " and ".join(dict.fromkeys(str(s.device) for s in src if s.device is not None))
    raise DeviceError(f"{op.name}: operands are on {names}", where_made(src), "Copy one of them with copy_to(device).")


def explain(op: Op, src: Any, arg: Any, error: Exception) -> NoReturn:
    """Turns what went wrong inside a rule into an error about the node."""
    if isinstance(error, UserError):
        raise error
    if not isinstance(op, Op):
        raise ArgumentError(f"{op!r} is not an op", fix="Use one of whit.ir.ops.") from error
    if type(src) is not tuple or any(not isinstance(s, Record) for s in src):
        kinds = ", ".join(type(s).__name__ for s in src) if isinstance(src, Iterable) else type(src).__name__
        raise ArgumentError(
            f"{op.name}: sources must be a tuple of UOps, not ({kinds})", fix="Wrap numbers with UOp.const."
        ) from error
    raise ArgumentError(
        f"{op.name}: the argument {shown(arg)} does not fit: {error}", where_made(src), op.doc
    ) from error


# ---- the numbers of constants


def float_value(dtype: DType, value: Any) -> float:
    """A number rounded to a float dtype."""
    if isinstance(value, float):
        return round_float(dtype, float(value))
    try:
        return float(convert(dtype, index(value)))  # integers of any size are rounded once
    except TypeError:
        if hasattr(value, "__float__"):
            return round_float(dtype, float(value))
    raise DTypeError(f"const: {value!r} is no {dtype.name}", fix="Give a number.")


def complex_value(dtype: DType, value: Any) -> complex:
    """A number as one of a complex dtype, both parts rounded."""
    if isinstance(value, complex | float | int):
        return complex(convert(dtype, value))
    if hasattr(value, "__complex__"):
        return complex(convert(dtype, complex(value)))
    raise DTypeError(f"const: {value!r} is no {dtype.name}", fix="Give a number.")


def int_value(dtype: DType, value: Any) -> int | bool:
    """A number as one of an integer or boolean dtype, which it must fit."""
    if dtype is dtypes.void:
        raise DTypeError("const: there is no constant of dtype void", fix="Choose another dtype.")
    if dtype.is_bool:
        if value is True or value is False or (isinstance(value, int) and value in (0, 1)):
            return bool(value)
    elif isinstance(value, int) or (hasattr(value, "__index__")):
        number = int(value)
        if dtype is dtypes.weakint or dtype.min <= number <= dtype.max:
            return number
        raise DTypeError(
            f"const: {spell_int(number)} is outside {dtype.name}",
            f"{dtype.name} holds {dtype.min} to {dtype.max}",
            "Wrap it first.",
        )
    raise DTypeError(f"const: {shown(value)} is no {dtype.name}", fix="Cast it first.")
