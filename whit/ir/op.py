"""What an op is: one record, and the rules its fields are made of.

Goes in: the facts of an op (arity, dtype and shape rule, meaning, bounds, expansion, spelling, stages, one line of
documentation). Comes out: an `Op`, registered in `OPS` under its name. The interpreter, the verifier, the rewriter,
the text form, the documentation and the generated tests all read these records; see `ops.py` for the table itself.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from whit.dtype import DType, complex_dtype, dtypes, part_dtype
from whit.errors import ArgumentError, DTypeError, MissingError, ShapeError, nearest
from whit.ir.batching import aligned
from whit.ir.gradients.pointwise import pointwise
from whit.records import dataclass, field

if TYPE_CHECKING:
    from whit.ir.uop import UOp

Size = "int | UOp"
Shape = tuple[Any, ...]  # of Size: a Python int, or an index-typed UOp where the size is symbolic
Sources = tuple["UOp", ...]
Interval = tuple[int, int]

DTypeRule = Callable[["Op", Sources, Any], DType]
GradientRule = Callable[["UOp", "UOp"], "tuple[UOp | None, ...]"]
TangentRule = Callable[["UOp", "tuple[UOp | None, ...]"], "UOp | None"]
# (node, its sources over a batch, which of them have the axis of the batch in front, its size)
BatchRule = Callable[["UOp", Sources, "tuple[bool, ...]", Any], "UOp"]
ShapeRule = Callable[["Op", Sources, Any], Shape]
Stable = Callable[[Any, "UOp"], "UOp"]  # stable(f, x) with f the functions of nodes, which lie above this package


class Stage(enum.Flag):
    """Where in the pipeline an op may appear."""

    TENSOR = enum.auto()  # whole arrays: what the user wrote
    KERNEL = enum.auto()  # scalars under ranges: one loop nest, not yet ordered
    PROGRAM = enum.auto()  # an ordered list of instructions: what a renderer prints
    SCHEDULE = enum.auto()  # an ordered list of kernel calls and copies


TENSOR, KERNEL, PROGRAM, SCHEDULE = Stage.TENSOR, Stage.KERNEL, Stage.PROGRAM, Stage.SCHEDULE
EVERYWHERE = TENSOR | KERNEL | PROGRAM | SCHEDULE


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Op:
    """One operation of the IR. Compared by identity; the field order is the order of reading."""

    name: str
    least: int  # fewest sources
    most: int | None  # most sources; None: any number
    dtype: DTypeRule
    shape: ShapeRule
    doc: str
    stages: Stage
    python: Callable[..., Any] | None = None  # meaning: python(xp, *values) with xp numpy or whit.ir.scalar
    bounds: Callable[..., Interval | None] | None = None  # interval of the result from the intervals of the sources
    expand: Callable[[UOp], UOp] | None = None  # the same value in simpler ops, exactly
    grad: GradientRule | None = None  # (node, dy) -> a gradient for each source; None: there is no rule
    tangent: TangentRule | None = None  # (node, tangents of its sources, None where there is none) -> its tangent
    batch: BatchRule | None = None  # the node over a batch, whose axis comes first
    stable: Mapping[str, Stable] = field(default_factory=dict)  # expressions of the result y that have a better form
    operations: int = 1  # what it costs: the ops that it becomes, EXP2 and LOG2 as one
    spelling: str = ""  # how an expression shows it to people: "({0} + {1})"
    elementwise: bool = False
    commutative: bool = False
    associative: bool = False  # exactly so: never for floats
    identity: Callable[[DType], Any] | None = None  # what a reduction by this op starts from
    arg_type: Any = None  # type of the argument; None: there is none
    check: Callable[[Op, Sources, Any], None] | None = None  # raises when sources and argument do not fit
    opaque: bool = False  # rewrites and searches do not enter the sources unless asked

    def __repr__(self) -> str:
        return self.name.upper()

    def __reduce__(self) -> tuple[Callable[[str], Op], tuple[str]]:
        return op_named, (self.name,)


class OpTable(dict[str, Op]):
    """The ops by name. Closed when ops.py has filled it: rule sets, renderers and tests are made of all ops there are,
    and would never hear of a later one."""

    is_closed = False

    def close(self) -> None:
        """From now on, `define` refuses."""
        self.is_closed = True


OPS = OpTable()


def define(
    name: str,
    *,
    arity: int | tuple[int, int | None],
    dtype: DTypeRule,
    doc: str,
    stages: Stage,
    shape: ShapeRule | None = None,
    **fields: Any,
) -> Op:
    """Registers an op. Without a shape rule the op is elementwise."""
    if OPS.is_closed:
        raise ArgumentError(
            f"define: the op table is closed, and {name!r} comes too late",
            "The simplifier and the renderers are made of the ops that were there when they were imported.",
            "Put the record into whit/ir/ops.py; docs/adding-an-op.md shows how.",
        )
    if name in OPS:
        raise ArgumentError(f"define: the op {name!r} exists already", fix="Choose another name.")
    least, most = arity if isinstance(arity, tuple) else (arity, arity)
    if shape is None:
        fields.setdefault("batch", aligned)
        if fields.get("grad") is not None:
            fields.setdefault("tangent", pointwise)
    fields.setdefault(
        "spelling", f"{name}(" + ", ".join(f"{{{i}}}" for i in range(least)) + ")" if least == most else ""
    )
    op = Op(name, least, most, dtype, shape or broadcast_scalars, doc, stages, elementwise=shape is None, **fields)
    OPS[name] = op
    return op


def op_named(name: str) -> Op:
    """The op of that name."""
    op = OPS.get(name)
    if op is None:
        raise MissingError(f"op: there is no op {name!r}.{nearest(name, OPS)}", fix="whit/ir/ops.py lists the ops.")
    return op


# dtype rules: (op, sources, argument) -> dtype, or a DTypeError that names the op and every operand


def dtype_error(op: Op, src: Sources, rule: str, fix: str) -> DTypeError:
    """A three-part error about operands of the wrong dtype."""
    found = ", ".join(s.dtype.name for s in src)
    return DTypeError(f"{op.name}: {rule}, but the operands are ({found})", where_made(src), fix)


def none_of_complex(op: Op) -> DTypeError:
    """An op of real numbers, or one that needs an order."""
    return DTypeError(f"{op.name}: complex numbers have none", fix="Use real numbers: z.real, z.imag, z.abs().")


def where_made(src: Sources) -> str:
    """The operands in short, for error messages."""
    return "\n".join(f"operand {i}: {s.short()}" for i, s in enumerate(src))


def same(op: Op, src: Sources, arg: Any) -> DType:
    """All operands have one numeric dtype, and so has the result."""
    dtype = src[0].dtype
    for s in src:
        if s.dtype is not dtype:
            raise dtype_error(op, src, "operands must have the same dtype", "Cast one of them.")
    if dtype.is_complex:
        raise none_of_complex(op)
    if not (dtype.is_int or dtype.is_float):
        raise dtype_error(op, src, "operands must be numbers", "Cast them, or use and/or/xor for booleans.")
    return dtype


def same_number(op: Op, src: Sources, arg: Any) -> DType:
    """All operands have one numeric or complex dtype, and so has the result."""
    return src[0].dtype if _are_complex(src) else same(op, src, arg)


def same_field(op: Op, src: Sources, arg: Any) -> DType:
    """All operands have one float or complex dtype, and so has the result."""
    return src[0].dtype if _are_complex(src) else same_float(op, src, arg)


def _are_complex(src: Sources) -> bool:
    dtype = src[0].dtype
    return dtype.is_complex and all(s.dtype is dtype for s in src)


def part_of(op: Op, src: Sources, arg: Any) -> DType:
    """The float dtype of the parts of a complex number."""
    if not src[0].dtype.is_complex:
        raise dtype_error(op, src, "the operand must be complex", "Cast it to complex64 or complex128.")
    return part_dtype(src[0].dtype)


def of_parts(op: Op, src: Sources, arg: Any) -> DType:
    """The complex dtype of two parts of one dtype, float32 or float64."""
    dtype = src[0].dtype
    for s in src:
        if s.dtype is not dtype or dtype not in (dtypes.float32, dtypes.float64):
            raise dtype_error(op, src, "both parts must be float32, or both float64", "Cast them.")
    return complex_dtype(dtype)


def same_float(op: Op, src: Sources, arg: Any) -> DType:
    """All operands have one float dtype, and so has the result."""
    dtype = src[0].dtype
    if dtype.is_complex:
        raise none_of_complex(op)
    for s in src:
        if s.dtype is not dtype or not dtype.is_float:
            raise dtype_error(op, src, "operands must have the same float dtype", "Cast them to a float dtype.")
    return dtype


def same_int(op: Op, src: Sources, arg: Any) -> DType:
    """All operands have one integer dtype, and so has the result."""
    dtype = src[0].dtype
    for s in src:
        if s.dtype is not dtype or not dtype.is_int:
            raise dtype_error(op, src, "operands must have the same integer dtype", "Cast them to an integer dtype.")
    return dtype


def same_bits(op: Op, src: Sources, arg: Any) -> DType:
    """All operands have one integer or boolean dtype, and so has the result."""
    dtype = src[0].dtype
    for s in src:
        if s.dtype is not dtype or not (dtype.is_int or dtype.is_bool):
            raise dtype_error(op, src, "operands must have the same integer or bool dtype", "Cast them.")
    return dtype


def equality(op: Op, src: Sources, arg: Any) -> DType:
    """Both operands have one dtype; the result is bool."""
    left, right = src
    if left.dtype is not right.dtype or left.dtype is dtypes.void:
        raise dtype_error(op, src, "both sides must have the same dtype", "Cast one of them.")
    return dtypes.bool


def comparison(op: Op, src: Sources, arg: Any) -> DType:
    """The same, of what has an order: complex numbers have none."""
    if src[0].dtype.is_complex:
        raise none_of_complex(op)
    return equality(op, src, arg)


def counted(op: Op, src: Sources, arg: Any) -> DType:
    """Integers; the result is bool."""
    if any(not s.dtype.is_int for s in src):
        raise dtype_error(op, src, "operands must be integers", "Count the iterations.")
    return dtypes.bool


def choice(op: Op, src: Sources, arg: Any) -> DType:
    """A bool that chooses between two values of one dtype."""
    condition, yes, no = src
    if condition.dtype is not dtypes.bool:
        raise dtype_error(op, src, "the condition must be bool", "Compare it with something.")
    if yes.dtype is not no.dtype or yes.dtype is dtypes.void:
        raise dtype_error(op, src, "both values must have the same dtype", "Cast one of them.")
    return yes.dtype


def of_argument(op: Op, src: Sources, arg: Any) -> DType:
    """The argument is the dtype, or has it in its field `dtype`."""
    return arg if isinstance(arg, DType) else arg.dtype


def of_first(op: Op, src: Sources, arg: Any) -> DType:
    """The dtype of the first source."""
    return src[0].dtype


def of_all(op: Op, src: Sources, arg: Any) -> DType:
    """The one dtype of all sources."""
    for s in src:
        if s.dtype is not src[0].dtype:
            raise dtype_error(op, src, "all sources must have the same dtype", "Cast them.")
    return src[0].dtype


def index_typed(op: Op, src: Sources, arg: Any) -> DType:
    """The unbounded integer of index arithmetic, made of such."""
    for s in src:
        if s.dtype is not dtypes.weakint:
            raise dtype_error(op, src, "sizes and positions are index-typed (weakint)", "Cast them to dtypes.weakint.")
    return dtypes.weakint


def nothing(op: Op, src: Sources, arg: Any) -> DType:
    """An effect, or a group: no value of its own."""
    return dtypes.void


# shape rules: (op, sources, argument) -> shape, or a ShapeError


def broadcast_scalars(op: Op, src: Sources, arg: Any) -> Shape:
    """All shapes are equal; a scalar (shape ()) goes with any of them."""
    shape: Shape = ()
    for s in src:
        other = s.shape
        if other is not shape and other and other != shape:
            if shape:
                raise shape_mismatch(op, src)
            shape = other
    return shape


def shape_mismatch(op: Op, src: Sources) -> ShapeError:
    """Which axis of which operands differ."""
    shapes = [s.shape for s in src if s.shape]
    listed = " and ".join(spell_shape(s) for s in shapes)
    first = shapes[0]
    other = next(s for s in shapes if s != first)
    if len(first) != len(other):
        why = f"one has {len(first)} axes, another {len(other)}"
    else:
        axis = next(i for i, (a, b) in enumerate(zip(first, other, strict=True)) if a is not b and a != b)
        why = f"axis {axis} is {spell_size(first[axis])} in one and {spell_size(other[axis])} in another"
    return ShapeError(
        f"{op.name}: shapes {listed} differ: {why}",
        where_made(src),
        "Shapes must be equal, or scalar. Reshape and expand first.",
    )


def scalar(op: Op, src: Sources, arg: Any) -> Shape:
    """One number, or no value at all."""
    return ()


def shape_of_first(op: Op, src: Sources, arg: Any) -> Shape:
    """The shape of the first source."""
    return src[0].shape


# bits; Python refuses to convert integers of many thousand digits, so longer ones are in hex
LONGEST_DECIMAL_BITS = 1000


def spell_int(value: int) -> str:
    """An integer of any size, as text."""
    return str(value) if value.bit_length() <= LONGEST_DECIMAL_BITS else hex(value)


def spell_size(size: Any) -> str:
    """A size for people: 4, or the expression of a symbolic one."""
    return spell_int(size) if isinstance(size, int) else str(size.expression())


def spell_shape(shape: Shape) -> str:
    """A shape for people: (4, n*2)."""
    inside = ", ".join(spell_size(s) for s in shape)
    return f"({inside},)" if len(shape) == 1 else f"({inside})"


TIGHT = ("mul", "floordiv", "floormod", "pow")  # written without parentheses of their own
PREFIX = ("neg", "not", "reciprocal")  # written before their operand


def spelled(op: Op, parts: list[str], kinds: list[Op | None]) -> str:
    """The op's spelling over its operands, which are `parts` and made by `kinds`.

    An operand that binds as tightly as the op gets parentheses, where it could be read otherwise; operands of a
    call lose theirs.
    """
    names = [kind.name if kind is not None else "" for kind in kinds]
    if op.name in TIGHT:
        (left, right), (first, second) = parts, names
        if first in ("neg", "pow", "bind"):
            left = f"({left})"
        if second in (*TIGHT, "neg", "reciprocal", "bind"):
            right = f"({right})"
        parts = [left, right]
    elif op.name in PREFIX:
        if names[0] in (*TIGHT, "reciprocal", "bind"):
            parts = [f"({parts[0]})"]
    elif op.spelling.startswith(f"{op.name}("):
        parts = [without_parentheses(part) for part in parts]
    return op.spelling.format(*parts)


def without_parentheses(text: str) -> str:
    """x + 1 of (x + 1); anything else as it is."""
    if not text.startswith("("):
        return text
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[1:-1] if i == len(text) - 1 else text
    return text
