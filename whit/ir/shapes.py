"""Shape, dtype and argument rules of the ops that are not elementwise.

Goes in: sources and argument of a node about to be built. Comes out: its shape, or an error that says which axis and
what to do. Sizes are Python ints or index-typed UOps; an argument holds `None` where a size is symbolic, and the
symbolic sizes follow in the sources (`filled`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import Any

from whit.dtype import DType, dtypes
from whit.errors import ArgumentError, DTypeError, OutOfRangeError, ShapeError, user_line
from whit.ir.assumed import fits, is_size_now
from whit.ir.op import Op, Shape, Sources, broadcast_scalars, dtype_error, spell_shape, spell_size, where_made
from whit.ir.record import Record
from whit.ir.sizes import reach, same_size, settled, value_now


def filled(arg: Iterable[Any], symbolic: Iterable[Any]) -> tuple[Any, ...]:
    """The argument with each None replaced by the next symbolic size: (4, None), [n] -> (4, n)."""
    return _fill(arg, iter(symbolic))


# A function of its own, as `_split` below: one that calls itself from inside another is a reference cycle, and would
# keep the nodes alive until the garbage collector comes.
def _fill(parts: Iterable[Any], rest: Iterator[Any]) -> tuple[Any, ...]:
    return tuple(
        next(rest) if part is None else _fill(part, rest) if isinstance(part, tuple) else part for part in parts
    )


def split_symbolic(sizes: Iterable[Any]) -> tuple[tuple[Any, ...], Sources]:
    """The inverse of `filled`: (4, n) -> (4, None), (n,)."""
    symbolic: list[Any] = []
    known = tuple(_split(part, symbolic) for part in sizes)
    return known, tuple(symbolic)


def _split(part: Any, symbolic: list[Any]) -> Any:
    if isinstance(part, tuple):
        return tuple(_split(p, symbolic) for p in part)
    if isinstance(part, int):
        return part
    symbolic.append(part)
    return None


def settled_sizes(sizes: Iterable[Any]) -> tuple[Any, ...]:
    """Sizes, or pairs of them, in the form that equal ones have."""
    return tuple(settled_sizes(size) if isinstance(size, tuple) else settled(size) for size in sizes)


def _sizes(op: Op, src: Sources, arg: Any, parts: int) -> tuple[Any, ...]:
    """The argument of a movement op, checked: one entry an axis, each an int or symbolic (or a pair of such)."""
    symbolic = src[1:]
    flat = [p for part in arg for p in (part if parts == 2 else (part,))]
    if sum(p is None for p in flat) != len(symbolic):
        raise ArgumentError(
            f"{op.name}: {len(symbolic)} symbolic sizes for {arg}", where_made(src), "Give one for each None."
        )
    for size in symbolic:
        if size.dtype is not dtypes.weakint or size.shape:
            raise dtype_error(op, src, "symbolic sizes are scalars of dtype weakint", "Cast them to dtypes.weakint.")
    for p in flat:
        if p is not None and type(p) is not int:
            raise ArgumentError(
                f"{op.name}: {p!r} is not an integer", f"argument {arg}", "Use Python integers or UOps."
            )
    return filled(arg, map(settled, symbolic)) if symbolic else tuple(arg)


def _axes_fit(op: Op, src: Sources, count: int) -> None:
    shape = src[0].shape
    if count != len(shape):
        raise ShapeError(
            f"{op.name}: {count} entries for the {len(shape)} axes of shape {spell_shape(shape)}",
            where_made(src[:1]),
            "Give one entry for each axis.",
        )


def _not_negative(op: Op, sizes: Iterable[Any], src: Sources, is_product: bool = False, is_room: bool = False) -> None:
    """Refuses sizes that may be negative; of products that were multiplied out, those that always are; of the room
    beside something, what is negative now."""
    for size in sizes:
        if isinstance(size, int):
            if size < 0:
                raise ShapeError(f"{op.name}: a size is {size}", where_made(src[:1]), "Sizes are zero or more.")
        elif isinstance(size, Record) and not _can_be_size(size, is_product, is_room):
            now = value_now(size)
            known = f"is {now} now" if now is not None and now < 0 else f"may be as small as {reach(size)[0]}"
            raise ShapeError(
                f"{op.name}: a size is {spell_size(size)}, which {known}",
                where_made(src[:1]),
                "Sizes are zero or more. Bind other values, or give the variables other bounds.",
            )


def _can_be_size(size: Any, is_product: bool, is_room: bool) -> bool:
    if is_product:
        now = value_now(size)
        return (reach(size)[1] or 0) >= 0 and (now is None or now >= 0)
    return fits(0, size) if is_room else is_size_now(size)


def _product(shape: Shape) -> Any:
    """Number of elements, settled: (2*n,) has as many as (2, n), and (n + 1, 4) as (4*n + 4,)."""
    return settled(prod(shape))


def of_argument(op: Op, src: Sources, arg: Any) -> Shape:
    """The shape in the argument, its symbolic sizes from the sources."""
    if sum(size is None for size in arg.shape) != len(src):
        raise ArgumentError(
            f"{op.name}: {len(src)} symbolic sizes for the shape {arg.shape}",
            where_made(src),
            "Give one for each None.",
        )
    for size in src:
        if size.dtype is not dtypes.weakint or size.shape:
            raise dtype_error(op, src, "symbolic sizes are scalars of dtype weakint", "Cast them to dtypes.weakint.")
    shape = filled(arg.shape, map(settled, src)) if src else tuple(arg.shape)
    _not_negative(op, shape, src, is_product=True)
    return shape


def arange_dtype(op: Op, src: Sources, arg: Any) -> DType:
    """An integer dtype that holds every position."""
    dtype = arg.dtype
    if not dtype.is_int or (arg.size is not None and dtype.max is not None and arg.size - 1 > dtype.max):
        raise DTypeError(
            f"arange: {dtype.name} does not hold the positions below {arg.size}",
            where_made(src),
            "Use a wider integer dtype, and cast the result.",
        )
    return dtype  # type: ignore[no-any-return]


def arange(op: Op, src: Sources, arg: Any) -> Shape:
    """One axis, its size from the argument or from the source."""
    if (arg.size is None) != bool(src):
        raise ArgumentError(
            f"arange: {len(src)} symbolic sizes for {arg}", where_made(src), "Give a size, or None and one source."
        )
    for size in src:
        if size.dtype is not dtypes.weakint or size.shape:
            raise dtype_error(op, src, "symbolic sizes are scalars of dtype weakint", "Cast them to dtypes.weakint.")
    shape = (settled(src[0]),) if src else (arg.size,)
    _not_negative(op, shape, src)
    return shape


def reshape(op: Op, src: Sources, arg: Any) -> Shape:
    """As many elements as before."""
    shape = _sizes(op, src, arg, 1)
    old = src[0].shape
    _not_negative(op, shape, src, is_product=True)
    if not same_size(_product(old), _product(shape)):
        counts = [spell_size(_product(sizes)) for sizes in (old, shape)]
        raise ShapeError(
            f"reshape: {spell_shape(old)} has {counts[0]} elements and {spell_shape(shape)} has {counts[1]}",
            where_made(src[:1]),
            "The number of elements must stay the same.",
        )
    return shape


def permute(op: Op, src: Sources, arg: Any) -> Shape:
    """Every axis once."""
    (value,) = src
    if sorted(arg) != list(range(len(value.shape))):
        raise ShapeError(
            f"permute: {arg} is not an order of the {len(value.shape)} axes of {spell_shape(value.shape)}",
            where_made(src),
            "Name each axis once.",
        )
    return tuple(value.shape[axis] for axis in arg)


def expand(op: Op, src: Sources, arg: Any) -> Shape:
    """Axes of size 1 may grow; the others stay."""
    shape = _sizes(op, src, arg, 1)
    _axes_fit(op, src, len(shape))
    _not_negative(op, shape, src)
    for axis, (old, new) in enumerate(zip(src[0].shape, shape, strict=True)):
        if not same_size(old, new) and old != 1:
            raise ShapeError(
                f"expand: axis {axis} of {spell_shape(src[0].shape)} cannot become {spell_size(new)}",
                where_made(src[:1]),
                "Only axes of size 1 can be expanded.",
            )
    return shape


def pad(op: Op, src: Sources, arg: Any) -> Shape:
    """before + size + after on each axis. Where these are negative, for values that variables never have, nothing is
    read that is outside."""
    pads = _sizes(op, src, arg, 2)
    _axes_fit(op, src, len(pads))
    _not_negative(op, (p for pair in pads for p in pair), src, is_product=True)
    shape = tuple(settled(before + size + after) for size, (before, after) in zip(src[0].shape, pads, strict=True))
    _not_negative(op, shape, src)
    return shape


def shrink(op: Op, src: Sources, arg: Any) -> Shape:
    """A window (start, size) that lies inside each axis: for all values of its variables, or else now (`assumed`)."""
    parts = _sizes(op, src, arg, 2)
    _axes_fit(op, src, len(parts))
    _not_negative(op, (start for start, _ in parts), src, is_room=True)
    _not_negative(op, (size for _, size in parts), src)
    for axis, (old, (start, size)) in enumerate(zip(src[0].shape, parts, strict=True)):
        if isinstance(old, int) and isinstance(start, int) and isinstance(size, int):
            is_inside = start + size <= old
        else:
            is_inside = fits(start + size, old)
        if not is_inside:
            raise _outside(src, axis, start, settled(start + size))
    return tuple(size for start, size in parts)


def _outside(src: Sources, axis: int, start: Any, end: Any) -> ShapeError:
    old = src[0].shape[axis]
    fix = "start + size must not exceed the size of the axis."
    if not (isinstance(start, int) and isinstance(end, int) and isinstance(old, int)):
        now = value_now(end)
        known = f"may go up to {reach(end)[1]}" if now is None else f"goes up to {now} now"
        fix = f"It {known}, and must stay inside. Bind values that fit, or change the bounds of the variables."
    return ShapeError(
        f"shrink: {spell_size(start)}..{spell_size(end)} is not inside axis {axis} of {spell_shape(src[0].shape)}",
        where_made(src[:1]),
        fix,
    )


def flip(op: Op, src: Sources, arg: Any) -> Shape:
    """Existing axes, each at most once."""
    (value,) = src
    _axes_exist(op, src, arg)
    if len(set(arg)) != len(arg):
        raise ShapeError(f"flip: {arg} names an axis twice", where_made(src), "Name axes once.")
    return value.shape


def _axes_exist(op: Op, src: Sources, axes: Iterable[int]) -> None:
    shape = src[0].shape
    for axis in axes:
        if not 0 <= axis < len(shape):
            valid = f"Its axes are 0 to {len(shape) - 1}." if len(shape) > 1 else "Its only axis is 0."
            raise OutOfRangeError(
                f"{op.name}: there is no axis {axis} in shape {spell_shape(shape)}",
                where_made(src[:1]),
                valid if shape else "A scalar has no axes.",
            )


def _check_reducer(op: Op, value: Any, by: Any) -> None:
    if not isinstance(by, Op) or by.identity is None:
        raise ArgumentError(f"{op.name}: {by} cannot combine elements", fix="Use ADD, MUL, MAX, MIN, AND or OR.")
    if value.dtype.is_complex and by.name != "add":
        raise DTypeError(
            f"{op.name}: complex numbers are combined by add, not {by.name}", fix="Use real numbers: z.real, z.abs()."
        )
    by.dtype(by, (value, value), None)


def check_reduce(op: Op, src: Sources, arg: Any) -> None:
    """A combining op, existing axes, ranges that are ranges."""
    value, *ranges = src
    _check_reducer(op, value, arg.op)
    if ranges and arg.axes:
        raise ArgumentError("reduce: both axes and ranges are given", fix="Axes before ranges exist, ranges after.")
    check_ranges(op, src, arg)


def reduce(op: Op, src: Sources, arg: Any) -> Shape:
    """The shape without the reduced axes."""
    shape, axes = src[0].shape, arg.axes
    _axes_exist(op, src, axes)
    if tuple(sorted(set(axes))) != axes:
        raise ShapeError(f"reduce: the axes {axes} are out of order", where_made(src[:1]), "Name axes once, in order.")
    return tuple(size for axis, size in enumerate(shape) if axis not in axes) if axes else shape


def check_scan(op: Op, src: Sources, arg: Any) -> None:
    """A combining op, and either an axis or a range."""
    value, *ranges = src
    _check_reducer(op, value, arg.op)
    if (arg.axis is None) != bool(ranges):
        raise ArgumentError("scan: give either an axis or a range", fix="An axis before ranges exist, a range after.")
    if arg.exclusive and arg.axis is not None:
        raise ArgumentError("scan: only over a range can it leave out the element itself", fix="Shift the result.")
    if arg.axis is not None:
        _axes_exist(op, src, (arg.axis,))
    check_ranges(op, src, arg)


def sort_dtype(op: Op, src: Sources, arg: Any) -> DType:
    """The dtype of what is put in order."""
    return src[1].dtype


def check_sort(op: Op, src: Sources, arg: Any) -> None:
    """Keys and what goes with them, and either an axis, or a range, a position and memory to work in."""
    key, value, *rest = src
    if key.dtype.is_complex:
        raise DTypeError("sort: complex numbers have no order", fix="Sort by their abs(), or by a part.")
    if (arg.axis is None) != bool(rest):
        raise ArgumentError("sort: give either an axis or a range", fix="An axis before ranges exist, a range after.")
    if rest and (len(rest) < 2 or rest[0].op.name != "range" or not rest[1].dtype.is_int):
        raise ArgumentError("sort: no range and position follow the value", where_made(src), "Give a RANGE, an index.")
    if arg.axis is not None and (len(src) != 2 or key.shape != value.shape):
        shapes = f"{spell_shape(key.shape)} and {spell_shape(value.shape)}"
        raise ShapeError(f"sort: keys and values have shapes {shapes}", where_made(src), "Give them one shape.")


def sort(op: Op, src: Sources, arg: Any) -> Shape:
    """The shape with the axis as long as what is kept of it."""
    shape: Shape = src[1].shape
    if arg.axis is None:
        return shape
    _axes_exist(op, src, (arg.axis,))
    size = shape[arg.axis]
    if not isinstance(size, int) or not 0 <= arg.count <= size:
        raise OutOfRangeError(
            f"sort: {arg.count} of an axis of size {spell_size(size)}",
            where_made(src),
            "At most all of it, and its size is known.",
        )
    return (*shape[: arg.axis], arg.count, *shape[arg.axis + 1 :])


def check_range(op: Op, src: Sources, arg: Any) -> None:
    """One number, which is not negative."""
    (size,) = src
    if size.shape:
        raise ShapeError(
            f"range: the size has shape {spell_shape(size.shape)}", where_made(src), "The size of a range is a scalar."
        )
    if size.op.name == "const":
        _not_negative(op, (size.arg,), src)


def check_ranges(op: Op, src: Sources, arg: Any) -> None:
    """All sources but the first are ranges, each once."""
    ranges = src[1:]
    for r in ranges:
        if r.op.name != "range":
            raise ArgumentError(
                f"{op.name}: {r.short()} is not a range", where_made(src), "Sources after the first are RANGE nodes."
            )
    if len(set(ranges)) != len(ranges):
        raise ArgumentError(f"{op.name}: a range is named twice", where_made(src), "Name each range once.")


def stage(op: Op, src: Sources, arg: Any) -> Shape:
    """The sizes of the ranges, then the shape of the value."""
    value, *ranges = src
    return tuple(r.size for r in ranges) + value.shape


def check_index(op: Op, src: Sources, arg: Any) -> None:
    """Integer positions, no more than there are axes; the gate is bool."""
    value, *positions = src
    if arg:
        gate = positions.pop()
        if gate.dtype is not dtypes.bool:
            raise DTypeError(f"index: the gate is {gate.dtype.name}", where_made(src), "A gate is bool.")
    if len(positions) > len(value.shape):
        raise ShapeError(
            f"index: {len(positions)} positions for shape {spell_shape(value.shape)}",
            where_made(src),
            "Give at most one position for each axis.",
        )
    for axis, position in enumerate(positions):
        if not position.dtype.is_int:
            raise DTypeError(
                f"index: the position on axis {axis} is {position.dtype.name}",
                where_made(src),
                "Positions are integers.",
            )
        size = value.shape[axis]
        if position.op.name == "const" and isinstance(size, int) and not arg and not 0 <= position.arg < size:
            raise OutOfRangeError(
                f"index: position {spell_size(position.arg)} is outside axis {axis} of {spell_shape(value.shape)}",
                where_made(src),
                f"Positions go from 0 to {size - 1}.",
            )


def index(op: Op, src: Sources, arg: Any) -> Shape:
    """The common shape of the positions, then the axes that are not indexed."""
    value, *positions = src
    picked = broadcast_scalars(op, tuple(positions), None)
    count = len(positions) - bool(arg)
    return picked + value.shape[count:]


def check_load(op: Op, src: Sources, arg: Any) -> None:
    """A position in a buffer, a width, perhaps a gate."""
    _, position, *gate = src
    if not position.dtype.is_int:
        raise DTypeError(f"load: the position is {position.dtype.name}", where_made(src), "Positions are integers.")
    if arg < 1 or (arg > 1 and position.shape):
        raise ArgumentError(
            f"load: width {arg} at a position of shape {position.shape}", where_made(src), "Use width 1."
        )
    if gate and gate[0].dtype is not dtypes.bool:
        raise DTypeError(f"load: the gate is {gate[0].dtype.name}", where_made(src), "A gate is bool.")


def load(op: Op, src: Sources, arg: Any) -> Shape:
    """A scalar, `width` neighbours, or one element for each lane of the position."""
    return (arg,) if arg > 1 else src[1].shape


def check_store(op: Op, src: Sources, arg: Any) -> None:
    """The value fits the target."""
    target, value, *positions = src
    if target.dtype is not value.dtype:
        raise DTypeError(
            f"store: a {value.dtype.name} value into a {target.dtype.name} target", where_made(src), "Cast the value."
        )
    if arg.combine is not None:
        _check_reducer(op, value, arg.combine)
    if arg.gated and (not positions or positions[-1].dtype is not dtypes.bool):
        raise DTypeError("store: the last source of a gated store must be bool", where_made(src), "A gate is bool.")
    for position in positions[: len(positions) - arg.gated]:
        if not position.dtype.is_int:
            raise DTypeError(f"store: a position is {position.dtype.name}", where_made(src), "Positions are integers.")
    count = len(positions) - arg.gated
    if count > max(1, len(target.shape)) or (count == 0 and value.shape and value.shape != target.shape):
        raise ShapeError(
            f"store: a value of shape {spell_shape(value.shape)} at {count} positions of {spell_shape(target.shape)}",
            where_made(src),
            "Without positions the shapes must be equal, or the value scalar; with them, name at most every axis.",
        )
    if arg.gated and count == 0 and positions[-1].shape not in ((), target.shape):
        raise ShapeError(
            f"store: a gate of shape {spell_shape(positions[-1].shape)} for {spell_shape(target.shape)}",
            where_made(src),
            "Without positions a gate has the shape of the target.",
        )


def mma_dtype(op: Op, src: Sources, arg: Any) -> DType:
    """a and b share a dtype; the accumulator gives the result's."""
    a, b, c = src
    if a.dtype is not b.dtype:
        raise dtype_error(op, src, "a and b must have the same dtype", "Cast one of them.")
    return c.dtype


def mma(op: Op, src: Sources, arg: Any) -> Shape:
    """(m, k) @ (k, n) + (m, n)."""
    a, b, c = src
    wanted = ((arg.m, arg.k), (arg.k, arg.n), (arg.m, arg.n))
    if (a.shape, b.shape, c.shape) != wanted:
        found = ", ".join(spell_shape(s.shape) for s in src)
        raise ShapeError(
            f"mma: operands {found} do not fit a tile of {wanted}", where_made(src), "They are (m, k), (k, n), (m, n)."
        )
    return c.shape


def dot_dtype(op: Op, src: Sources, arg: Any) -> DType:
    """That of the sum: int32 of bytes, float32 of bfloat16."""
    x, y, z = src
    if x.dtype is not dtypes.int32 or y.dtype is not dtypes.int32:
        raise dtype_error(op, src, "operands must be int32, four bytes each", "Put the bytes together.")
    is_float = arg.left.is_float
    if is_float != arg.right.is_float or z.dtype is not (dtypes.float32 if is_float else dtypes.int32):
        raise dtype_error(op, src, "sums of bytes are int32 and those of bfloat16 float32", "Cast what is added to.")
    return z.dtype


def stack(op: Op, src: Sources, arg: Any) -> Shape:
    """A new first axis before the one shape of all sources."""
    for s in src:
        if s.shape != src[0].shape:
            raise ShapeError(
                f"stack: shapes {spell_shape(src[0].shape)} and {spell_shape(s.shape)} differ",
                where_made(src),
                "All sources need one shape.",
            )
    return (len(src), *src[0].shape)


def check_shuffle(op: Op, src: Sources, arg: Any) -> None:
    """Vectors of one size, and lanes that exist."""
    for s in src:
        if len(s.shape) != 1 or s.shape != src[0].shape or not isinstance(s.shape[0], int):
            raise ShapeError(f"shuffle: {spell_shape(s.shape)} is not a vector like the other", where_made(src))
    lanes = len(src) * src[0].shape[0]
    if not arg or any(not 0 <= lane < lanes for lane in arg):
        raise OutOfRangeError(
            f"shuffle: {arg} are not among the {lanes} lanes", where_made(src), "Name existing lanes."
        )


def shuffle(op: Op, src: Sources, arg: Any) -> Shape:
    """One lane for each entry of the argument."""
    return (len(arg),)


def _member(op: Op, src: Sources, arg: Any) -> Any:
    (node,) = src
    if node.op.name in ("call", "loop"):
        node = node.src[0].src[0]
    elif node.op.name == "formula":
        node = node.src[0]
    if node.op.name != "group" or not 0 <= arg < len(node.src):
        raise OutOfRangeError(f"item: {src[0].short()} has no member {arg}", fix="Take a member of a group or a call.")
    return node.src[arg]


def item_dtype(op: Op, src: Sources, arg: Any) -> DType:
    """The dtype of the member."""
    return _member(op, src, arg).dtype  # type: ignore[no-any-return]


def item(op: Op, src: Sources, arg: Any) -> Shape:
    """The shape of the member; of what a loop returns for each step, with an axis of steps in front."""
    shape = _member(op, src, arg).shape
    (node,) = src
    if node.op.name != "loop" or node.arg.kind != "scan" or arg < node.arg.carries:
        return shape  # type: ignore[no-any-return]
    return (settled(node.src[-1]) if node.arg.length is None else node.arg.length, *shape)


def check_loop(op: Op, src: Sources, arg: Any) -> None:
    """Functions that fit the operands and one another."""
    functions, operands = src[: arg.functions], src[arg.functions :]
    if arg.length is None:
        *operands, size = operands  # type: ignore[assignment]
        if size.dtype is not dtypes.weakint or size.shape:
            raise dtype_error(op, (size,), "a length is a scalar of dtype weakint", "Cast it to dtypes.weakint.")
    given = operands[1:] if arg.kind == "cond" else operands
    for function in functions:
        if function.op.name != "function" or function.src[0].op.name != "group":
            raise ArgumentError(f"loop: {function.short()} is no function of several values", fix="Give a FUNCTION.")
        for param in function.arg.params:
            _check_operand(src, param, given, arg)
    for operand, result in zip(operands[: arg.carries], functions[0].src[0].src, strict=False):
        if (operand.dtype, operand.shape) != (result.dtype, result.shape):
            raise ShapeError(
                f"loop: a state is {operand.dtype.name}{spell_shape(operand.shape)}, and after a step "
                f"{result.dtype.name}{spell_shape(result.shape)}",
                where_made(src),
                "A step returns states as it gets them.",
            )


def _check_operand(src: Sources, param: Any, given: Sequence[Any], arg: Any) -> None:
    """An operand is what a param stands for, or has it as parts."""
    operand = given[param.slot] if param.slot < len(given) else None
    is_input = arg.carries <= param.slot < arg.carries + arg.inputs
    shape = None if operand is None else operand.shape[1:] if is_input else operand.shape
    if operand is None or shape != param.shape or operand.dtype is not param.dtype:
        raise ShapeError(
            f"loop: the operand in place {param.slot} is {'missing' if operand is None else operand.short()}",
            where_made(src),
            f"Pass what the param is: {param.dtype.name}{param.shape}.",
        )


def check_call(op: Op, src: Sources, arg: Any) -> None:
    """A function, and an argument of the right dtype and shape for each of its params."""
    function, *arguments = src
    if function.op.name != "function":
        raise ArgumentError(f"call: {function.short()} is not a function", fix="Make one with UOp.function.")
    for param in function.arg.params:
        if param.slot >= len(arguments):
            raise ArgumentError(
                f"call: {function.arg.name} needs an argument in place {param.slot} and gets {len(arguments)}",
                fix="Pass one argument for each param.",
            )
        given = arguments[param.slot]
        fits = param.shape == given.shape or (
            len(given.shape) == len(param.shape)
            and all(
                wanted is None or same_size(wanted, size) for wanted, size in zip(param.shape, given.shape, strict=True)
            )
        )
        if given.dtype is not param.dtype or not fits:
            raise ShapeError(
                f"call: argument {param.slot} of {function.arg.name} is {given.dtype.name}{spell_shape(given.shape)}, "
                f"and the param is {param.dtype.name}{param.shape}",
                where_made(src),
                "Pass an argument of the param's dtype and shape.",
            )


def check_bind(op: Op, src: Sources, arg: Any) -> None:
    """A variable and a constant between its bounds."""
    variable, value = src
    if variable.op.name != "variable" or value.op.name != "const":
        raise ArgumentError("bind: needs a variable and a constant", where_made(src), "Use variable.bind(3).")
    name, low, high = variable.arg.name, variable.arg.low, variable.arg.high
    if not low <= value.arg <= high:
        raise OutOfRangeError(
            f"bind: {name} = {spell_size(value.arg)} is outside [{spell_size(low)}, {spell_size(high)}]",
            f"called at {user_line()}",
            f"Bind {name} to a value between its bounds, or give the variable other bounds.",
        )


def check_cast(op: Op, src: Sources, arg: Any) -> None:
    """From a value to a value."""
    if src[0].dtype is dtypes.void or arg is dtypes.void:
        raise DTypeError("cast: an effect has no value to cast", where_made(src), "Cast the value, not the effect.")


def check_bitcast(op: Op, src: Sources, arg: Any) -> None:
    """Dtypes of one size."""
    old = src[0].dtype
    if old.is_complex or arg.is_complex:
        raise DTypeError(
            f"bitcast: {old.name} as {arg.name}: complex numbers are no bits", fix="Take their parts, z.view_as_real()."
        )
    if old.bitsize != arg.bitsize or dtypes.void in (old, arg) or dtypes.weakint in (old, arg):
        raise DTypeError(
            f"bitcast: {old.name} has {old.bitsize} bits and {arg.name} {arg.bitsize}",
            where_made(src),
            "Both dtypes must have the same number of bits.",
        )


def if_dtype(op: Op, src: Sources, arg: Any) -> DType:
    """The condition is bool."""
    if src[0].dtype is not dtypes.bool:
        raise dtype_error(op, src, "the condition must be bool", "Compare it with something.")
    return dtypes.void


def check_end(op: Op, src: Sources, arg: Any) -> None:
    """What is closed was opened."""
    if src[0].op.name not in ("range", "if"):
        raise ArgumentError(f"end: {src[0].short()} opens nothing", fix="END closes a RANGE or an IF.")
