"""Parts of expressions, as `whit.tensor.graphs.restate` looks for them.

    logit(1 / (1 + exp(-x)))  ->  x          shares(exp(x) / sum(exp(x)))  ->  x, axes          None of anything else

Goes in: a node. Comes out: what is asked for, or None. Casts between floats are looked through, and so is what an
inner part was restated as.
"""

from __future__ import annotations

from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.op import Op
from whit.ir.uop import UOp, make
from whit.tensor.graphs.softmax import SHIFT, kept_shape, log_of_shares, logsumexp
from whit.transform.formulas import RESTATED

MOVES = frozenset({ops.RESHAPE, ops.EXPAND, ops.PERMUTE, ops.SHRINK, ops.FLIP})
MOST_SQUARES = 100  # nodes of a sum that are looked at


def written(node: UOp) -> UOp:
    """The expression as it was written."""
    while node.op is ops.FORMULA and node.arg.name == RESTATED:
        node = node.src[1]
    return node


def unrounded(node: UOp) -> UOp:
    """What was written, before it became another float."""
    node = written(node)
    while node.op is ops.CAST and node.src[0].dtype.is_float:
        node = written(node.src[0])
    return node


def computed(node: UOp) -> UOp:
    """What is computed, restated or not, before it became another float."""
    while written(node) is not node or (node.op is ops.CAST and node.src[0].dtype.is_float):
        node = node.src[0]
    return node


def unmoved(node: UOp) -> UOp:
    """What a node is a reshape of."""
    while node.op is ops.RESHAPE:
        node = node.src[0]
    return node


def operand_of(node: UOp, name: str) -> UOp | None:
    """x of name(x)."""
    node = unrounded(node)
    if node.op is ops.FORMULA:
        return node.src[1] if node.arg.name == name else None
    return node.src[0] if node.op.name == name else None


def function_of(node: UOp) -> tuple[Op, UOp] | None:
    """The op and x of op(x), as far as its record has better forms of expressions of it; a sigmoid may be written as
    a quotient."""
    x = logit(node)
    if x is not None:
        return ops.SIGMOID, x
    x = operand_of(node, "exp")
    return None if x is None else (ops.EXP, x)


def is_logarithm(node: UOp) -> bool:
    """Whether it is log(x) or log1p(x)."""
    return operand_of(node, "log") is not None or operand_of(node, "log1p") is not None


def is_number(node: UOp, value: float) -> bool:
    """Whether it is a constant of that value."""
    return node.op is ops.CONST and node.arg == value


def negated(x: UOp) -> UOp:
    """-x; x of -x."""
    return x.src[0] if x.op is ops.NEG else -x


def is_opposite(x: UOp, y: UOp) -> bool:
    """Whether y is -x."""
    if x is negated(y) or y is negated(x):
        return True
    if x.op is not ops.MUL or y.op is not ops.MUL or x.src[0] is not y.src[0]:
        return False
    a, b = x.src[1], y.src[1]
    return a.op is ops.CONST and b.op is ops.CONST and bool(a.arg == -b.arg)


def wide(x: UOp, user: UOp) -> UOp:
    """An operand in the dtype of its computation: its own or its user's, whichever is larger, float32 at least."""
    dtype: DType = max(x.dtype, user.dtype, dtypes.float32, key=lambda d: d.itemsize)
    return x.cast(dtype)


def one_and(node: UOp, op: Op = ops.ADD) -> UOp | None:
    """y of 1 + y, or of 1 - y."""
    node = unrounded(node)
    if node.op is not op:
        return None
    left, right = node.src
    if is_number(left, 1.0):
        return right
    return left if op is ops.ADD and is_number(right, 1.0) else None


def one_and_exp(node: UOp) -> UOp | None:
    """x of 1 + exp(x)."""
    other = one_and(node)
    return None if other is None else operand_of(other, "exp")


def quotient(node: UOp) -> tuple[UOp, UOp] | None:
    """x and y of x / y; 1/y is one too."""
    if node.op is ops.FDIV:
        return node.src[0], node.src[1]
    return (node.constant(1.0), node.src[0]) if node.op is ops.RECIPROCAL else None


def logit(node: UOp) -> UOp | None:
    """x of sigmoid(x), 1 / (1 + exp(-x)) or exp(x) / (1 + exp(x))."""
    node = unrounded(node)
    x = operand_of(node, "sigmoid")
    parts = quotient(node) if x is None else None
    if parts is None:
        return x
    over, under = parts
    exponent = one_and_exp(under)
    if exponent is None:
        return None
    if is_number(over, 1.0):
        return negated(exponent)
    return exponent if operand_of(over, "exp") is exponent else None


def shares(node: UOp) -> tuple[UOp, tuple[int, ...]] | None:
    """x and the axes of exp(x) / sum(exp(x)), the sum being spread along the axes again."""
    parts = quotient(unrounded(node))
    x = operand_of(parts[0], "exp") if parts is not None else None
    if parts is None or x is None:
        return None
    total = parts[1]
    whole = total.src[0].shape if total.op is ops.EXPAND else total.shape
    while total.op in (ops.EXPAND, ops.RESHAPE) or total.op is ops.CAST:
        total = total.src[0]
    if total.op is not ops.REDUCE or total.arg.op is not ops.ADD or operand_of(total.src[0], "exp") is not x:
        return None
    axes: tuple[int, ...] = total.arg.axes
    fits = whole == kept_shape(x, axes) or (not whole and len(axes) == len(x.shape))
    return (x, axes) if fits and total.src[0].shape == x.shape else None


def shares_of_row(node: UOp) -> tuple[UOp, UOp] | None:
    """p and x of p = softmax(x) along the last axis, the node being p, or what steps make of it."""
    node = computed(node)
    while (inner := unmultiplied(node)) is not None:
        node = computed(inner)
    found = shares(node)
    if found is None or found[1] != (len(node.shape) - 1,):
        return None
    x = found[0]
    if x.op is ops.FORMULA and x.arg.name == SHIFT:
        return node, x.src[1]
    is_of_row = is_shifted(x) and x.op is ops.SUB and _is_of_row(x.src[1])
    return node, x.src[0] if is_of_row else x


def steps_to(node: UOp, x: UOp) -> list[UOp]:
    """The multiplications from x down to a node."""
    steps: list[UOp] = []
    x = computed(x)
    while x is not node and (inner := unmultiplied(x)) is not None:
        steps.append(x)
        x = computed(inner)
    return steps


def unmultiplied(node: UOp) -> UOp | None:
    """x of a step: where(c, x, 0), as dropout is, x * c or x / c, c having no gradient."""
    if node.op is ops.WHERE:
        _, yes, no = node.src
        return yes if is_number(no, 0.0) else no if is_number(yes, 0.0) else None
    if node.op is ops.MUL or node.op is ops.FDIV:
        left, right = node.src
        if _has_no_gradient(right):
            return left
        return right if node.op is ops.MUL and _has_no_gradient(left) else None
    return None


def multiplied(x: UOp, step: UOp) -> UOp:
    """The step of another x."""
    inner = unmultiplied(step)
    others = [source if source.dtype.is_bool else source.cast(x.dtype) for source in step.src]
    return make(step.op, tuple(x if old is inner else other for old, other in zip(step.src, others, strict=True)))


def _has_no_gradient(node: UOp) -> bool:
    while node.op in MOVES:
        node = node.src[0]
    return node.op is ops.CONST or (node.op is ops.CAST and not node.src[0].dtype.is_float)


def logs_of_shares(node: UOp) -> tuple[UOp, tuple[int, ...]] | None:
    """x and the axes of x - logsumexp(x), or of log_softmax(x)."""
    node = computed(node)
    if node.op is not ops.SUB or node.src[1].op is not ops.EXPAND:
        return None
    x, spread = node.src
    kept, *_ = spread.src  # behind it stand sizes, where they are symbolic
    axes = tuple(axis for axis, size in enumerate(kept.shape) if size == 1 and x.shape[axis] != 1)
    if not axes:
        return None
    if x.op is ops.FORMULA and x.arg.name == SHIFT:
        return (x.src[1], axes) if node is log_of_shares(x, axes) else None
    total = computed(unmoved(computed(kept)))
    right = logsumexp(wide(x, total), axes, keepdim=len(total.shape) == len(x.shape))
    return (x, axes) if total is right else None


def _is_of_row(node: UOp) -> bool:
    """Whether all elements along the last axis are the same."""
    return node.op is ops.EXPAND and node.src[0].shape[-1] == 1


def is_shifted(x: UOp) -> bool:
    """Whether the largest was taken away already, so that exponentials do not overflow."""
    if x.op is ops.FORMULA:
        return bool(x.arg.name == SHIFT)
    if x.op is not ops.SUB:
        return False
    values, top = unrounded(x.src[0]), x.src[1]
    while top.op in (ops.EXPAND, ops.RESHAPE, ops.DETACH, ops.CAST):
        top = top.src[0]
    return top.op is ops.REDUCE and top.arg.op is ops.MAX and unrounded(top.src[0]) is values


def is_sum_of_squares(node: UOp) -> bool:
    """Whether a node is a sum of squares, or of powers of magnitudes: if it is 0, so is its gradient."""
    todo = [node]
    for _ in range(MOST_SQUARES):
        if not todo:
            return True
        part = unrounded(todo.pop())
        if part.op is ops.ADD:
            todo += part.src
        elif part.op in MOVES or (part.op is ops.REDUCE and part.arg.op is ops.ADD):
            todo.append(part.src[0])
        elif _unscaled(part) is not part:
            todo.append(_unscaled(part))
        elif not (_is_square(part) or _is_power_of_magnitude(part)):
            return False
    return False


def _is_square(node: UOp) -> bool:
    return node.op is ops.MUL and _unscaled(node.src[0]) is _unscaled(node.src[1])


def _unscaled(node: UOp) -> UOp:
    """x of c * x, c being a positive constant."""
    node = unrounded(node)
    while node.op is ops.MUL or node.op is ops.FDIV:
        left, right = node.src if node.op is ops.FDIV or node.src[1].op is ops.CONST else node.src[::-1]
        if right.op is not ops.CONST or not right.arg >= 0:
            break
        node = unrounded(left)
    return node


def _is_power_of_magnitude(node: UOp) -> bool:
    if node.op is not ops.POW or node.src[1].op is not ops.CONST:
        return False
    exponent = node.src[1].arg
    return bool(exponent > 0 and (node.src[0].op is ops.ABS or exponent % 2 == 0))
