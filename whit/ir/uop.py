"""UOp: the only node type, from the tensor graph down to the instruction.

    x = UOp.variable("x", 0, 9)
    y = (x * 3 + 1) // 2          # nodes; nothing is computed, nothing is simplified
    y is (x * 3 + 1) // 2         # equal nodes are one object

A node is `(op, dtype, src, arg)`. It is immutable and interned (hash-consing): building a node that exists returns the
one that exists, so `is` is equality and a cache is a dictionary. Dtype, shape and device follow from the op's record,
and what does not fit raises while the node is being built. The table that interns them holds weak references, so a node
lives exactly as long as somebody refers to it. Building is safe from several threads.
"""

from __future__ import annotations

import itertools
import weakref
from _weakref import _remove_dead_weakref  # type: ignore[attr-defined]
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from whit.cache import register_cache
from whit.dtype import DType, decode, dtypes, encode
from whit.errors import AbsentError, ArgumentError, DTypeError
from whit.ir import ops
from whit.ir.args import (
    ArangeArg,
    BufferArg,
    FormulaArg,
    FunctionArg,
    LeafArg,
    Memory,
    ParamArg,
    RangeArg,
    RangeKind,
    ReduceArg,
    ScanArg,
    SortArg,
    StageArg,
    StoreArg,
    VariableArg,
)
from whit.ir.check.nodes import check_node, complex_value, explain, float_value, int_value, two_devices, wrong_arity
from whit.ir.graph import expression, flatten, pack_number, topological, unpack_number
from whit.ir.nesting import Owner
from whit.ir.op import Op, Shape, Sources, spell_int, spell_shape, where_made
from whit.ir.record import Record
from whit.ir.shapes import filled, settled_sizes, split_symbolic
from whit.ir.sizes import decided, is_size
from whit.ir.text.spell import FIRST_SIZE, TELLS_TYPE, spell_argument, spell_value


class _Entry(weakref.ref["UOp"]):
    """The table's weak hold on a node, with the key it stands under."""

    __slots__ = ("key",)
    key: tuple[Any, ...]


_table: dict[tuple[Any, ...], _Entry] = {}


def _forget(entry: _Entry) -> None:
    # _remove_dead_weakref tests and deletes in one step, so a node that another thread has just put under the same
    # key stays; WeakValueDictionary does the same.
    _remove_dead_weakref(_table, entry.key)


_new = object.__new__
# Asked before the value of a bound variable is read: who replays graphs with other values forbids it meanwhile.
before_unbind: list[Callable[[str], None]] = []


def _seal(key: tuple[Any, ...], op: Op, dtype: DType, src: Sources, arg: Any, shape: Shape, device: str | None) -> UOp:
    """Makes the node and enters it in the table; if another thread was first, returns that one."""
    node: Any = _new(Record)
    node.op = op
    node.dtype = dtype
    node.src = src
    node.arg = arg
    node.shape = shape
    node.device = device
    node.known_bounds = None
    node.known_digest = None
    node.__class__ = UOp
    entry = _Entry(node, _forget)
    entry.key = key
    while True:
        found = _table.setdefault(key, entry)
        if found is entry:
            return node  # type: ignore[no-any-return]
        other = found()
        if other is not None:
            return other
        _remove_dead_weakref(_table, key)


_dtype_of_scalars: dict[tuple[Op, DType, DType], DType] = {}  # of elementwise ops: a small table, never cleared


MOST_MOVED_NODES = 30_000
_MOVEMENT = frozenset(ops.MOVEMENT)
# (movement op, shape of its source, argument) -> its shape, once all of it was checked: 6.5 us -> 2.1 us a node
_moved: dict[tuple[Op, Shape, Any], Shape] = {}
register_cache(_moved.clear, "ir.moved")


def _are_numbers(parts: Iterable[Any]) -> bool:
    """Whether sizes, or pairs of them, are all plain integers: True is equal to 1, and no size."""
    for part in parts:
        if type(part) is not int and not (type(part) is tuple and all(type(p) is int for p in part)):
            return False
    return True


def make(op: Op, src: Sources = (), arg: Any = None) -> UOp:  # complex: every node is made here, calls are what costs
    """The node of this op over these sources. Everything but constants is built here."""
    key = (op, src, arg)
    try:
        entry = _table.get(key)
    except TypeError as error:  # a list, among the sources or in the argument
        explain(op, src, arg, error)
    if entry is not None:
        node = entry()
        if node is not None:
            return node
    try:
        count = len(src)
        if count == 2 and arg is None:  # two scalars, as in index arithmetic: 1.32 us -> 1.18 us (bench/rewrite.py)
            a, b = src
            if not a.shape and not b.shape and a.device is None and b.device is None:
                known = _dtype_of_scalars.get((op, a.dtype, b.dtype))
                if known is not None:
                    return _seal(key, op, known, src, None, (), None)
        elif count == 1 and op in _MOVEMENT:
            (a,) = src
            moved = _moved.get((op, a.shape, arg))
            if moved is not None and _are_numbers(arg):
                return _seal(key, op, a.dtype, src, arg, moved, a.device)
        if count != op.least and (count < op.least or (op.most is not None and count > op.most)):
            wrong_arity(op, src)
        if op.elementwise and arg is None:
            dtype = op.dtype(op, src, arg)
            shape = op.shape(op, src, arg)
            device = _common_device(op, src)
            if count == 2:
                _dtype_of_scalars[op, src[0].dtype, src[1].dtype] = dtype
        else:
            check_node(op, src, arg)
            dtype = op.dtype(op, src, arg)
            shape = op.shape(op, src, arg)
            device = _device_of(op, src, arg)
            if count == 1 and op in _MOVEMENT and _are_numbers(src[0].shape):
                if len(_moved) > MOST_MOVED_NODES:
                    _moved.clear()
                _moved[op, src[0].shape, arg] = shape
    except (AttributeError, TypeError, ValueError) as error:
        explain(op, src, arg, error)
    return _seal(key, op, dtype, src, arg, shape, device)


def _common_device(op: Op, src: Sources) -> str | None:
    """The one device of all sources that have one."""
    device = None
    for s in src:
        if s.device is not None:
            if device is not None and s.device != device:
                two_devices(op, src)
            device = s.device
    return device


def _device_of(op: Op, src: Sources, arg: Any) -> str | None:
    if op is ops.COPY:
        return str(arg)
    if op is ops.PARAM or op is ops.BUFFER:
        return arg.device  # type: ignore[no-any-return]
    if op in (ops.FUNCTION, ops.GROUP, ops.LINEAR):  # members of a group may live apart
        return None
    if op is ops.FORMULA or op is ops.RECOMPUTE:
        return src[0].device
    if op is ops.AFTER:  # an effect elsewhere may have to come first; a constant is where its new elements are
        return src[0].device or _common_device(op, src[1:])
    if op is ops.ITEM and src[0].op not in (ops.CALL, ops.LOOP):
        group: UOp = src[0] if src[0].op is ops.GROUP else src[0].src[0]
        member: UOp = group.src[arg]
        return member.device
    return _common_device(op, src)


_CONST, _ADD, _MUL, _WEAKINT = ops.CONST, ops.ADD, ops.MUL, dtypes.weakint


def const(dtype: DType, value: Any) -> UOp:
    """The constant of this dtype; floats are rounded to it, integers must fit it."""
    if dtype is _WEAKINT and type(value) is int:  # index arithmetic is full of them
        entry = _table.get((_CONST, _WEAKINT, value))
        known = None if entry is None else entry()
        if known is not None:
            return known
    try:
        is_float = dtype.is_float
    except AttributeError:
        raise DTypeError(f"const: {dtype!r} is no dtype", fix="Use dtypes.float32 and the like, or to_dtype.") from None
    if is_float:
        if type(value) is not float or dtype is not dtypes.float64:
            value = float_value(dtype, value)
    elif dtype.is_complex:
        value = complex_value(dtype, value)
    elif type(value) is not int or dtype is not dtypes.weakint:
        value = int_value(dtype, value)
    return _intern_const(dtype, value)


def const_from_bits(dtype: DType, bits: int) -> UOp:
    """The constant that is stored as these bits; an infinity of fp8e5m2 too, which no conversion gives."""
    value = decode(dtype, bits)
    if encode(dtype, value) != bits:
        raise DTypeError(
            f"const: no constant of {dtype.name} has the bits {bits:#x}",
            "It is a signalling NaN: arithmetic gives only quiet ones, and so do constants."
            if value != value
            else f"The number they stand for is {value!r}.",
            f"Use the bits {encode(dtype, value):#x}, or a bitcast of the integer.",
        )
    return _intern_const(dtype, value)


def _intern_const(dtype: DType, value: Any) -> UOp:
    """The constant of a value that the dtype has."""
    key = (ops.CONST, dtype, pack_number(value))
    entry = _table.get(key)
    if entry is not None:
        node = entry()
        if node is not None:
            return node
    return _seal(key, ops.CONST, dtype, (), value, (), None)


_buffer_fields = [vars(BufferArg)[name].__set__ for name in ("id", "dtype", "shape", "device", "memory")]


def fresh_buffer(id: int, dtype: DType, shape: tuple[int, ...], device: str | None) -> UOp:
    """A BUFFER whose number no other one has had: there is nothing to look up. 8.3 us -> 1.5 us (bench/jit.py)."""
    arg: BufferArg = _new(BufferArg)
    for set_field, value in zip(_buffer_fields, (id, dtype, shape, device, Memory.GLOBAL), strict=True):
        set_field(arg, value)
    return _seal((ops.BUFFER, (), arg), ops.BUFFER, dtype, (), arg, shape, device)


class UOp(Record):
    """A node of the graph. See the module's docstring."""

    __slots__ = ()

    def __new__(cls, op: Op, dtype: DType | None = None, src: Sources = (), arg: Any = None) -> UOp:
        if op is ops.CONST:
            if dtype is None or src:
                raise ArgumentError("const: needs a dtype and no sources", fix="Use UOp.const(dtype, value).")
            return const(dtype, arg)
        node = make(op, src, arg)
        if dtype is not None and node.dtype is not dtype:
            raise DTypeError(
                f"{op.name}: gives {node.dtype.name}, not {dtype.name}", where_made(src), "Leave dtype out."
            )
        return node

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"UOp: nodes are immutable; build another one instead of setting {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"UOp: nodes are immutable; {name!r} cannot be deleted")

    # ---- leaves

    @staticmethod
    def const(dtype: DType, value: Any) -> UOp:
        """A constant."""
        return const(dtype, value)

    @staticmethod
    def const_from_bits(dtype: DType, bits: int) -> UOp:
        """The constant that is stored as these bits."""
        return const_from_bits(dtype, bits)

    def constant(self, value: Any) -> UOp:
        """A constant of this node's dtype."""
        return const(self.dtype, value)

    @staticmethod
    def variable(name: str, low: int, high: int, dtype: DType = dtypes.weakint) -> UOp:
        """A named integer in [low, high]."""
        if low > high:
            raise ArgumentError(
                f"variable: the bounds [{spell_int(low)}, {spell_int(high)}] of {name!r} are empty",
                fix="low must be <= high.",
            )
        if not dtype.is_int or (dtype.min is not None and not dtype.min <= low <= high <= dtype.max):
            raise DTypeError(
                f"variable: {name!r} in [{spell_int(low)}, {spell_int(high)}] does not fit {dtype.name}",
                fix="Use dtypes.weakint.",
            )
        return make(ops.VARIABLE, (), VariableArg(name, low, high, dtype))

    @staticmethod
    def range(size: int | UOp, id: int, kind: RangeKind = RangeKind.LOOP, owner: Owner = Owner.OUTPUT) -> UOp:
        """The integers 0 .. size-1: loops nest by their owners, and those of one owner by their ids."""
        return make(ops.RANGE, (as_index(size),), RangeArg(id, kind, owner))

    def resized(self, size: int | UOp) -> UOp:
        """This range with another size."""
        return make(ops.RANGE, (as_index(size),), self.arg)

    @staticmethod
    def param(slot: int, dtype: DType, shape: Shape = (), device: str | None = None) -> UOp:
        """The parameter in place `slot`."""
        known, symbolic = split_symbolic(shape)
        return make(ops.PARAM, symbolic, ParamArg(slot, dtype, known, device))

    @staticmethod
    def buffer(id: int, dtype: DType, shape: Shape, device: str | None = None, memory: Memory = Memory.GLOBAL) -> UOp:
        """A piece of memory."""
        known, symbolic = split_symbolic(shape)
        return make(ops.BUFFER, symbolic, BufferArg(id, dtype, known, device, memory))

    @staticmethod
    def arange(size: int | UOp, dtype: DType = dtypes.weakint) -> UOp:
        """The integers 0 .. size-1 along one axis."""
        if isinstance(size, UOp):
            return make(ops.ARANGE, (size,), ArangeArg(None, dtype))
        return make(ops.ARANGE, (), ArangeArg(size, dtype))

    def bind(self, value: int) -> UOp:
        """This variable with a value."""
        return make(ops.BIND, (self, const(dtypes.weakint, value)))

    def unbind(self) -> tuple[UOp, int]:
        """The variable and the value of a bound one."""
        if self.op is not ops.BIND:
            raise ArgumentError(f"unbind: {self.short()} is no bound variable", fix="Use variable.bind(3).")
        for check in before_unbind:
            check("unbind")
        variable, value = self.src
        return variable, int(value.arg)

    @property
    def val(self) -> int:
        """The value of a bound variable."""
        return self.unbind()[1]

    @property
    def expr(self) -> str:
        """The name of a variable."""
        return str(self._variable("expr").arg.name)

    @property
    def vmin(self) -> int:
        """The smallest value that a variable may have."""
        return int(self._variable("vmin").arg.low)

    @property
    def vmax(self) -> int:
        """The largest value that a variable may have."""
        return int(self._variable("vmax").arg.high)

    def _variable(self, asked: str) -> UOp:
        """This variable, without its value."""
        found = self.src[0] if self.op is ops.BIND else self
        if found.op is not ops.VARIABLE:
            raise AbsentError(f"{asked}: {self.short()} is no variable", fix="Ask the variables that it is made of.")
        return found

    # ---- elementwise

    def _operand(self, other: Any) -> UOp:
        return other if isinstance(other, UOp) else const(self.dtype, other)

    def __add__(self, other: Any) -> UOp:
        return make(_ADD, (self, other)) if type(other) is UOp else _with_number(_ADD, self, other)

    def __radd__(self, other: Any) -> UOp:
        return make(ops.ADD, (const(self.dtype, other), self))

    def __sub__(self, other: Any) -> UOp:
        return _with_number(ops.SUB, self, other)

    def __rsub__(self, other: Any) -> UOp:
        return make(ops.SUB, (const(self.dtype, other), self))

    def __mul__(self, other: Any) -> UOp:
        return make(_MUL, (self, other)) if type(other) is UOp else _with_number(_MUL, self, other)

    def __rmul__(self, other: Any) -> UOp:
        return make(ops.MUL, (const(self.dtype, other), self))

    def __truediv__(self, other: Any) -> UOp:
        return _with_number(ops.FDIV, self, other)

    def __rtruediv__(self, other: Any) -> UOp:
        return make(ops.FDIV, (const(self.dtype, other), self))

    def __floordiv__(self, other: Any) -> UOp:
        return make(ops.FLOORDIV, (self, other)) if type(other) is UOp else _with_number(ops.FLOORDIV, self, other)

    def __rfloordiv__(self, other: Any) -> UOp:
        return make(ops.FLOORDIV, (const(self.dtype, other), self))

    def __mod__(self, other: Any) -> UOp:
        return make(ops.FLOORMOD, (self, other)) if type(other) is UOp else _with_number(ops.FLOORMOD, self, other)

    def __rmod__(self, other: Any) -> UOp:
        return make(ops.FLOORMOD, (const(self.dtype, other), self))

    def __pow__(self, other: Any) -> UOp:
        return _with_number(ops.POW, self, other)

    def __rpow__(self, other: Any) -> UOp:
        return make(ops.POW, (const(self.dtype, other), self))

    def __and__(self, other: Any) -> UOp:
        return _with_number(ops.AND, self, other)

    def __rand__(self, other: Any) -> UOp:
        return make(ops.AND, (const(self.dtype, other), self))

    def __or__(self, other: Any) -> UOp:
        return _with_number(ops.OR, self, other)

    def __ror__(self, other: Any) -> UOp:
        return make(ops.OR, (const(self.dtype, other), self))

    def __xor__(self, other: Any) -> UOp:
        return _with_number(ops.XOR, self, other)

    def __rxor__(self, other: Any) -> UOp:
        return make(ops.XOR, (const(self.dtype, other), self))

    def __lshift__(self, other: Any) -> UOp:
        return _with_number(ops.SHL, self, other)

    def __rlshift__(self, other: Any) -> UOp:
        return make(ops.SHL, (const(self.dtype, other), self))

    def __rshift__(self, other: Any) -> UOp:
        return _with_number(ops.SHR, self, other)

    def __rrshift__(self, other: Any) -> UOp:
        return make(ops.SHR, (const(self.dtype, other), self))

    def __neg__(self) -> UOp:
        return make(ops.NEG, (self,))

    def __invert__(self) -> UOp:
        return make(ops.NOT, (self,))

    def __abs__(self) -> UOp:
        return make(ops.ABS, (self,))

    def __lt__(self, other: Any) -> UOp:
        return _with_number(ops.LT, self, other)

    def __le__(self, other: Any) -> UOp:
        return _with_number(ops.LE, self, other)

    def __gt__(self, other: Any) -> UOp:
        return _with_number(ops.LT, self, other, swapped=True)

    def __ge__(self, other: Any) -> UOp:
        return _with_number(ops.LE, self, other, swapped=True)

    def eq(self, other: Any) -> UOp:
        """self == other, elementwise. (`==` itself is identity, so that nodes can be keys.)"""
        return make(ops.EQ, (self, self._operand(other)))

    def ne(self, other: Any) -> UOp:
        """self != other, elementwise."""
        return make(ops.NE, (self, self._operand(other)))

    def cdiv(self, other: Any) -> UOp:
        """Integer division rounded toward zero."""
        return make(ops.CDIV, (self, self._operand(other)))

    def cmod(self, other: Any) -> UOp:
        """The remainder of `cdiv`."""
        return make(ops.CMOD, (self, self._operand(other)))

    def maximum(self, other: Any) -> UOp:
        """The larger."""
        return make(ops.MAX, (self, self._operand(other)))

    def minimum(self, other: Any) -> UOp:
        """The smaller."""
        return make(ops.MIN, (self, self._operand(other)))

    def where(self, yes: Any, no: Any) -> UOp:
        """yes where self holds, no elsewhere; one of them may be a Python number."""
        if not isinstance(yes, UOp):
            if not isinstance(no, UOp):
                raise ArgumentError(f"where: {yes!r} and {no!r} have no dtype", fix="Make one of them a UOp.")
            yes = const(no.dtype, yes)
        return make(ops.WHERE, (self, yes, no if isinstance(no, UOp) else const(yes.dtype, no)))

    def fma(self, factor: UOp, addend: UOp) -> UOp:
        """self * factor + addend, rounded once."""
        return make(ops.FMA, (self, factor, addend))

    def alu(self, op: Op, *others: UOp) -> UOp:
        """Any elementwise op with this node as its first operand."""
        return make(op, (self, *others))

    def reciprocal(self) -> UOp:
        """1 / self."""
        return make(ops.RECIPROCAL, (self,))

    def sqrt(self) -> UOp:
        """Square root."""
        return make(ops.SQRT, (self,))

    def exp2(self) -> UOp:
        """Two to the power self."""
        return make(ops.EXP2, (self,))

    def log2(self) -> UOp:
        """Logarithm to base 2."""
        return make(ops.LOG2, (self,))

    def sin(self) -> UOp:
        """Sine."""
        return make(ops.SIN, (self,))

    def cos(self) -> UOp:
        """Cosine."""
        return make(ops.COS, (self,))

    def trunc(self) -> UOp:
        """Rounded toward zero."""
        return make(ops.TRUNC, (self,))

    def floor(self) -> UOp:
        """Rounded down."""
        return make(ops.FLOOR, (self,))

    def ceil(self) -> UOp:
        """Rounded up."""
        return make(ops.CEIL, (self,))

    def round(self) -> UOp:
        """Rounded to the nearest, halves to even."""
        return make(ops.ROUND, (self,))

    def cast(self, dtype: DType) -> UOp:
        """Converted to another dtype."""
        return self if dtype is self.dtype else make(ops.CAST, (self,), dtype)

    def bitcast(self, dtype: DType) -> UOp:
        """The bits read as another dtype."""
        return self if dtype is self.dtype else make(ops.BITCAST, (self,), dtype)

    # ---- movement

    def _move(self, op: Op, sizes: Iterable[Any]) -> UOp:
        sizes = tuple(sizes)
        if _are_numbers(sizes):
            return make(op, (self,), sizes)
        known, symbolic = split_symbolic(settled_sizes(sizes))
        return make(op, (self, *symbolic), known)

    def reshape(self, shape: Shape) -> UOp:
        """Another shape for the same elements."""
        return self._move(ops.RESHAPE, shape)

    def expand(self, shape: Shape) -> UOp:
        """Axes of size 1 repeated."""
        return self._move(ops.EXPAND, shape)

    def permute(self, order: tuple[int, ...]) -> UOp:
        """Axes in another order."""
        return make(ops.PERMUTE, (self,), tuple(order))

    def pad(self, pads: Iterable[tuple[Any, Any]]) -> UOp:
        """Zeros (before, after) each axis."""
        return self._move(ops.PAD, (tuple(pair) for pair in pads))

    def shrink(self, parts: Iterable[tuple[Any, Any]]) -> UOp:
        """A window (start, size) of each axis."""
        return self._move(ops.SHRINK, (tuple(pair) for pair in parts))

    def flip(self, axes: tuple[int, ...]) -> UOp:
        """Axes back to front."""
        return make(ops.FLIP, (self,), tuple(axes))

    # ---- reductions, memory, functions

    def reduce(self, op: Op, axes: tuple[int, ...] = (), ranges: Sources = ()) -> UOp:
        """Combined by `op` along axes, or over ranges."""
        return make(ops.REDUCE, (self, *ranges), ReduceArg(op, tuple(axes)))

    def scan(
        self,
        op: Op,
        axis: int | None = None,
        range: UOp | None = None,
        reverse: bool = False,
        exclusive: bool = False,
    ) -> UOp:
        """Running combination along an axis, or over a range."""
        return make(ops.SCAN, (self,) if range is None else (self, range), ScanArg(op, axis, reverse, exclusive))

    def sort(self, values: UOp, axis: int, count: int, descending: bool = False) -> UOp:
        """The first `count` of the values along an axis, in the order of this node's elements."""
        return make(ops.SORT, (self, values), SortArg(count, axis, descending))

    def index(self, *positions: UOp | int, gate: UOp | None = None) -> UOp:
        """The elements at these positions of the first axes; 0 where the gate is false."""
        places = tuple(as_index(p) for p in positions)
        return make(ops.INDEX, (self, *places) if gate is None else (self, *places, gate), gate is not None)

    def load(self, position: UOp | int, width: int = 1, gate: UOp | None = None) -> UOp:
        """`width` elements of this buffer from a flat position on."""
        place = as_index(position)
        return make(ops.LOAD, (self, place) if gate is None else (self, place, gate), width)

    def store(
        self,
        value: UOp,
        *positions: UOp | int,
        combine: Op | None = None,
        gate: UOp | None = None,
        asynchronous: bool = False,
    ) -> UOp:
        """The effect of writing value here, at these positions."""
        places = tuple(as_index(p) for p in positions)
        src = (self, value, *places) if gate is None else (self, value, *places, gate)
        return make(ops.STORE, src, StoreArg(combine, gate is not None, asynchronous=asynchronous))

    def stage(self, *ranges: UOp, arg: StageArg | None = None) -> UOp:
        """Kept in memory over these ranges."""
        return make(ops.STAGE, (self, *ranges), arg or StageArg())

    def after(self, *effects: UOp) -> UOp:
        """This value once the effects have happened."""
        return make(ops.AFTER, (self, *effects)) if effects else self

    def copy_to(self, device: str) -> UOp:
        """This value on another device."""
        return make(ops.COPY, (self,), device)

    def detach(self) -> UOp:
        """This value, where no gradient flows."""
        return make(ops.DETACH, (self,))

    def leaf(self) -> UOp:
        """This value as one of its own: no other node is equal to it."""
        return make(ops.LEAF, (self,), LeafArg(next(_leaves)))

    def formula(self, name: str, *operands: UOp) -> UOp:
        """This value, known as the function `name` of the operands."""
        return make(ops.FORMULA, (self, *operands), FormulaArg(name))

    def recompute(self, *known: UOp) -> UOp:
        """This value, for what is to be computed once more, after these are known."""
        return make(ops.RECOMPUTE, (self, *known))

    def item(self, i: int) -> UOp:
        """Member i of a group or of what a call returns."""
        return make(ops.ITEM, (self,), i)

    @property
    def member(self) -> UOp | None:
        """What an ITEM of a group, or of a FORMULA of one, is; None for one of a call."""
        if self.op is not ops.ITEM:
            raise AbsentError(f"member: {self.short()} is no item", fix="Only an ITEM of a group has one.")
        (group,) = self.src
        if group.op is ops.FORMULA:
            group = group.src[0]
        return group.src[self.arg] if group.op is ops.GROUP else None

    @staticmethod
    def stack(*values: UOp) -> UOp:
        """The values along a new first axis."""
        return make(ops.STACK, values)

    @staticmethod
    def group(*members: UOp) -> UOp:
        """Several nodes as one."""
        return make(ops.GROUP, members)

    @staticmethod
    def linear(*nodes: UOp) -> UOp:
        """An ordered list of nodes."""
        return make(ops.LINEAR, nodes)

    def end(self) -> UOp:
        """Closes this RANGE or IF."""
        return make(ops.END, (self,))

    def function(self, name: str) -> UOp:
        """This graph over params as a function."""
        params = {node.arg for node in self.topological() if node.op is ops.PARAM}
        if len({param.slot for param in params}) != len(params):
            listed = "\n".join(sorted(map(spell_value, params)))
            raise ArgumentError(f"function: {name!r} has two different params in one slot", listed, "Renumber them.")
        return make(ops.FUNCTION, (self,), FunctionArg(name, tuple(sorted(params, key=lambda p: p.slot))))

    def call(self, *arguments: UOp) -> UOp:
        """This function applied."""
        return make(ops.CALL, (self, *arguments))

    # ---- questions

    @property
    def size(self) -> int | UOp:
        """The size of a RANGE."""
        if self.op is not ops.RANGE:
            raise AbsentError(f"size: {self.short()} is no range", fix="Only a RANGE has one; others have a shape.")
        (size,) = self.src
        return int(size.arg) if size.op is ops.CONST else size

    @property
    def sizes(self) -> tuple[Any, ...]:
        """The argument of a movement op, symbolic sizes filled in."""
        if self.op not in ops.MOVEMENT:
            raise AbsentError(
                f"sizes: {self.short()} moves nothing", fix="Only a movement op has them; others have a shape."
            )
        return filled(self.arg, self.src[1:])

    def __bool__(self) -> bool:
        """Of sizes and their comparisons: what holds for all values of their variables."""
        found = decided(self) if is_size(self) else None
        if found is not None:
            return found
        if is_size(self):
            raise ArgumentError(
                f"bool: {self.expression(20)} depends on the value of a variable",
                fix="A program is one for all values: choose with condition.where(yes, no), or use a plain integer.",
            )
        raise ArgumentError(
            f"bool: {self.short()} is a node, and neither true nor false before it is computed",
            f"the expression: {self.expression(20)}",
            "Choose with condition.where(yes, no), combine with & | ~, and test `is None` or `.is_const`.",
        )

    @property
    def is_const(self) -> bool:
        """Whether this is a constant."""
        return self.op is ops.CONST

    def topological(self, enter_functions: bool = False) -> list[UOp]:
        """Every node below and including this one, sources before users."""
        return topological((self,), enter_functions)

    def replace(self, src: Sources | None = None, arg: Any = None) -> UOp:
        """This node with other sources or another argument."""
        if self.op is ops.CONST:
            return self if arg is None else const(self.dtype, arg)
        return make(self.op, self.src if src is None else src, self.arg if arg is None else arg)

    def substitute(self, replacements: dict[UOp, UOp]) -> UOp:
        """This graph with nodes replaced, sources first; functions are not entered."""
        done = dict(replacements)
        for node in topological((self,), stop=replacements):
            if node not in done:
                src = tuple(done[s] for s in node.src) if not node.op.opaque else node.src
                done[node] = node if src == node.src else make(node.op, src, node.arg)
        return done[self]

    # ---- showing, copying, pickling

    def short(self) -> str:
        """One line about this node, for messages."""
        op, dtype = self.op, self.dtype
        if op is ops.CONST:
            argument = spell_int(self.arg) if dtype.is_int else str(self.arg)
        else:
            sizes = self.src[FIRST_SIZE.get(op, len(self.src)) :]
            argument = ", ".join(spell_argument(op, self.arg, [size.expression(20) for size in sizes]))
        if len(argument) > 100:
            argument = f"{argument[:100]}..."
        text = f"{op.name} {argument}".rstrip()
        if op in TELLS_TYPE or dtype is dtypes.void:
            return text
        return f"{text} ({dtype.name}{spell_shape(self.shape) if self.shape else ''})"

    def expression(self, limit: int = 200, names: Mapping[UOp, str] | None = None) -> str:
        """The value as people write it: x*3 + 1. Cut off below `limit` nodes; `names` are used where given."""
        return expression(self, limit, names)

    def __repr__(self) -> str:
        """Of sizes the expression, as shapes are full of them; of all else one line."""
        is_plain = self.dtype is dtypes.weakint and self.op is not ops.VARIABLE and self.op is not ops.CONST
        return f"<UOp {self.expression(20)}>" if is_plain and is_size(self) else f"<UOp {self.short()}>"

    def __copy__(self) -> UOp:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> UOp:
        return self

    def __reduce__(self) -> tuple[Callable[..., UOp], tuple[Any, ...]]:
        return unflatten, (flatten(self),)


_leaves = itertools.count()


def _with_number(op: Op, node: UOp, other: Any, swapped: bool = False) -> UOp:
    """A node with another, or with a number. What takes no part in NumPy's arithmetic, as tensors, answers itself."""
    if type(other) is not UOp:
        if getattr(other, "__array_ufunc__", other) is None:
            return NotImplemented  # type: ignore[no-any-return]
        other = const(node.dtype, other)
    return make(op, (other, node) if swapped else (node, other))


def as_index(value: int | UOp) -> UOp:
    """A position or size as a node."""
    return value if isinstance(value, UOp) else const(dtypes.weakint, value)


def unflatten(rows: list[tuple[Any, ...]]) -> UOp:
    """The inverse of `flatten`."""
    nodes: list[UOp] = []
    for op, dtype, src, arg in rows:
        if op is ops.CONST:
            nodes.append(_intern_const(dtype, unpack_number(arg)))
        else:
            nodes.append(make(op, tuple(nodes[i] for i in src), arg))
    return nodes[-1]


def live_nodes() -> int:
    """How many nodes exist in this process."""
    return len(_table)
