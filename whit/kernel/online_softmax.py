"""Online softmax: contractions of contractions whose keys are seen once, and what sums are multiplied by on the way.

    m(i) = max over j of f(i, j)                    m grows from one block of keys to the next; what was summed with
    l(i) = sum over j of exp2(c * (f - m))          the old one is multiplied by exp2(c * (old - m))
    out  = sum over j of exp2(c * (f - m)) / l * W[j, e]
                                                    ->   the sum without / l, which is divided at the end

Goes in: the form of a kernel (`whit.kernel.attention_form`) of bfloat16 or float16 operands. Comes out: an
`OnlineSoftmax`, whose sums and products are scaled by one power each, or None if they are not of this form. Powers are
those of two: what `exp` is more exact than exp2(x/ln 2) is lost where the power is rounded to a half before it is
multiplied.
"""

from __future__ import annotations

from functools import reduce
from math import inf, log, nan
from operator import mul

from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.args import LARGEST_SLOT
from whit.ir.graph import topological
from whit.ir.uop import UOp, const, make
from whit.kernel.attention_form import AttentionForm, Product, Statistic, with_values
from whit.kernel.tensor_cores import FP8S
from whit.records import dataclass, replace

ARITHMETIC = frozenset({ops.ADD, ops.SUB, ops.MUL, ops.FDIV, ops.NEG, ops.MAX, ops.WHERE, ops.EXP})
LOG2_E = 1 / log(2)
OLD = UOp.param(LARGEST_SLOT, dtypes.float32, ())  # the largest score before
# of a tensor core, along depth and columns; the most columns of one, of all
ATOM_SIDE, MOST_COLUMNS, MOST_ALL_COLUMNS = 16, 256, 512


@dataclass(frozen=True, slots=True)
class RescaledSum:
    """A sum over keys, and what it is multiplied by when the largest score was OLD; None: nothing."""

    leaf: UOp
    value: UOp
    scale: UOp | None
    w: UOp | None = None  # the other factor of a product


@dataclass(frozen=True, slots=True)
class OnlineSoftmax:
    """Attention that sees its keys once."""

    dtype: DType  # of the operands
    top: Statistic | None
    sums: list[RescaledSum]
    products: list[RescaledSum]
    values: list[UOp]  # what is stored, over leaves


class _OtherForm(Exception):  # noqa: N818
    """Something in the kernel cannot be rescaled."""


def as_online_softmax(form: AttentionForm) -> OnlineSoftmax | None:
    """The form with rescaled sums; None where its sums cannot be rescaled by one power each."""
    dtype = _operand_dtype(form)
    if dtype is None or form.transposed or not _fits(form):
        return None
    try:
        return _Reader(form, dtype).online()
    except _OtherForm:
        return None


class _Reader:
    """The form of attention, and its largest score."""

    def __init__(self, form: AttentionForm, dtype: DType) -> None:
        self.form, self.dtype = form, dtype
        self.top = self.find_top()
        # The sums of float16 end at 65504, unless the largest power is 1.
        self.has_range = dtype is dtypes.bfloat16 or self.top is not None

    def online(self) -> OnlineSoftmax:
        """The whole."""
        sums = [self.sum_of(statistic) for statistic in self.form.statistics if statistic.op is not ops.MAX]
        totals = [part.leaf for part in sums]
        products, names = [], {}
        for product in self.form.products:
            part, names[product.leaf] = self.product_of(product, totals)
            products.append(part)
        values = [with_values(value, names) for value in self.form.values]
        if self.top is not None:
            values = self.guarded(values, [part.leaf for part in (*sums, *products)])
            sums, products = ([_scaled(part, self.top) for part in parts] for parts in (sums, products))
        return OnlineSoftmax(self.dtype, self.top, sums, products, values)

    def find_top(self) -> Statistic | None:
        """The largest score, if there is one: of scores that depend on no other statistic."""
        found = [statistic for statistic in self.form.statistics if statistic.op is ops.MAX]
        if not found:
            return None
        top = replace(found[0], value=unrounded(found[0].value, self.dtype))
        if len(found) > 1 or not _is_free(top.value, [statistic.leaf for statistic in self.form.statistics]):
            raise _OtherForm
        return top

    def sum_of(self, statistic: Statistic) -> RescaledSum:
        """A sum of powers, which depend on the largest score alone."""
        value = self.with_powers(statistic.value)
        others = [other.leaf for other in self.form.statistics if self.top is None or other.leaf is not self.top.leaf]
        if statistic.op is not ops.ADD or not _is_free(value, others):
            raise _OtherForm
        return RescaledSum(statistic.leaf, value, None)

    def product_of(self, product: Product, totals: list[UOp]) -> tuple[RescaledSum, UOp]:
        """A product without the factors that a row has once, as 1 / its sum is, and what it is times these."""
        inside = [self.form.keys, *(inner.leaf for inner in self.form.inner)]
        value, factor = _without_rows(self.with_powers(product.p), totals, inside)
        if (factor is not None and not self.has_range) or not _is_free(value, totals):
            raise _OtherForm
        value, number = times_number(value) if self.has_range else (value, None)
        factors = [each.cast(dtypes.float32) for each in (factor, number) if each is not None]
        return RescaledSum(product.leaf, value.cast(dtypes.float32), None, product.w), reduce(
            mul, factors, product.leaf
        )

    def with_powers(self, value: UOp) -> UOp:
        """A value with powers of two for all others, and without roundings."""
        return plain_powers(unrounded(value, self.dtype), None if self.top is None else self.top.leaf)

    def guarded(self, values: list[UOp], leaves: list[UOp]) -> list[UOp]:
        """Values that are NaN in rows that see nothing, unless these have sums of their own."""
        assert self.top is not None, "the largest score says which rows see nothing"
        if _is_guarded(self.form, self.top.leaf):
            return values
        nothing = self.top.leaf.eq(-inf)
        names = {leaf: nothing.where(leaf.constant(nan), leaf) for leaf in leaves}
        return [with_values(value, names) for value in values]


def _is_guarded(form: AttentionForm, largest: UOp) -> bool:
    """Whether a row that sees nothing has sums of its own, as in `scaled_dot_product_attention`. Else they are NaN."""
    test = largest.eq(-inf)
    roots = [part.value for part in form.statistics] + [part.p for part in form.products]
    return test in topological(roots)


def narrow(value: UOp, dtype: DType) -> UOp | None:
    """The value in the narrower dtype that it was cast up from, if it was: gate ? cast(x) : 0 -> gate ? x : 0. Halves
    hold every fp8."""
    source = value.src[0].dtype if value.op is ops.CAST else None
    if source is dtype or (source in dtypes.fp8s and dtype in dtypes.float16s):
        return value.src[0].cast(dtype)
    if value.op is ops.CONST and value.arg == 0:
        return const(dtype, 0.0)
    if value.op is not ops.WHERE:
        return value if value.dtype is dtype else None
    gate, yes, no = value.src
    chosen, otherwise = narrow(yes, dtype), narrow(no, dtype)
    return None if chosen is None or otherwise is None else gate.where(chosen, otherwise)


def byte_of(value: UOp) -> DType | None:
    """The fp8 that a value was cast up from, if tensor cores multiply it."""
    return next((dtype for dtype in FP8S if narrow(value, dtype) is not None), None)


def _operand_dtype(form: AttentionForm) -> DType | None:
    """The half that the scores are computed of. bfloat16 has the range of float32: other operands are rounded to it."""
    operands = [(inner.a, inner.b) for inner in form.inner]
    rest = [side for pair in operands for side in pair] + [product.w for product in form.products]
    for dtype in dtypes.float16s:
        if not any(narrow(a, dtype) is not None and narrow(b, dtype) is not None for a, b in operands):
            continue
        wide = [value for value in rest if narrow(value, dtype) is None]
        is_rounded = dtype is dtypes.bfloat16 and all(value.dtype is dtypes.float32 for value in wide)
        if not wide or is_rounded:
            return dtype
    return None


def _fits(form: AttentionForm) -> bool:
    """Whether sums are float32, and sizes such that tensor cores and registers hold them."""
    leaves = [inner.leaf for inner in form.inner] + [statistic.leaf for statistic in form.statistics]
    leaves += [product.leaf for product in form.products]
    if any(leaf.dtype is not dtypes.float32 for leaf in leaves) or any(len(inner.along) != 1 for inner in form.inner):
        return False
    columns = form.columns.size
    sizes = [inner.along[0].size for inner in form.inner] + [columns]
    known = all(isinstance(size, int) and size % ATOM_SIDE == 0 and size <= MOST_COLUMNS for size in sizes)
    return known and isinstance(columns, int) and columns * len(form.products) <= MOST_ALL_COLUMNS


def _is_free(value: UOp, leaves: list[UOp]) -> bool:
    return set(leaves).isdisjoint(topological((value,)))


def unrounded(root: UOp, dtype: DType) -> UOp:
    """cast(cast(x, half) * c, float32) -> x * c    what tensor cores multiply is rounded then, and not before"""
    wide = dtypes.float32
    done: dict[UOp, UOp] = {}
    for node in topological((root,)):
        src = node.src if node.op is ops.INDEX or node.op.opaque else tuple([done[s] for s in node.src])
        if node.op is ops.CAST and node.dtype in (dtype, wide) and src[0].dtype is wide:
            done[node] = src[0]
        elif node.dtype is dtype and node.op in ARITHMETIC:
            done[node] = make(node.op, tuple([s.cast(wide) if s.dtype is dtype else s for s in src]), node.arg)
        elif node.dtype is dtype and node.op is ops.CONST:
            done[node] = const(wide, node.arg)
        else:
            done[node] = node if src == node.src else make(node.op, src, node.arg)
    return done[root]


def plain_powers(root: UOp, largest: UOp | None = None) -> UOp:
    """exp(x) -> exp2(x/ln 2)
    where(hidden, 0, exp(where(hidden, -inf, x) - m)) -> without the outer choice, if m is finite
    """
    names: dict[UOp, UOp] = {}
    for node in topological((root,)):
        if node.op is ops.EXP:
            x = with_values(node.src[0], names)
            names[node] = power_of_two(_plain_difference(x, largest))
    value = with_values(root, names) if names else root
    if value.op is not ops.WHERE or not names:
        return value
    gate, yes, no = value.src
    hidden, none, power = (0, yes, no) if _is_zero(yes) else (1, no, yes)
    is_plain = _is_zero(none) and power in names.values()
    return power if is_plain and _is_hidden(power, gate, hidden) else value


def _plain_difference(x: UOp, largest: UOp | None) -> UOp:
    """where(f == inf, 0, f - m) -> f - m    an infinite score becomes NaN
    (f - m) - l -> f - (m + l)               if both are numbers of a row
    f - m -> f - where(m == -inf, 0, m)      if m is the largest so far, as nothing may have been seen yet
    """
    if x.op is ops.WHERE and _is_zero(x.src[1]) and x.src[2].op is ops.SUB and x.src[0] is x.src[2].src[0].eq(inf):
        x = x.src[2]
    if x.op is not ops.SUB:
        return x
    scores, top = x.src
    if top is largest:
        return scores - top.eq(-inf).where(top.constant(0.0), top)
    scores = _plain_difference(scores, largest)
    if scores.op is ops.SUB and _ranges(scores.src[1]) <= _ranges(top):
        return scores.src[0] - (scores.src[1] + top)
    return scores - top


def _ranges(value: UOp) -> set[UOp]:
    return {node for node in topological((value,)) if node.op is ops.RANGE}


def power_of_two(x: UOp) -> UOp:
    """exp2(x/ln 2): what `exp` would be without the part that makes it exact."""
    return (x * LOG2_E).exp2()


def times_number(value: UOp) -> tuple[UOp, UOp | None]:
    """x and c of x * c."""
    for x, number in (value.src, value.src[::-1]) if value.op is ops.MUL else ():
        if _is_number(number):
            return x, number
    return value, None


def _is_number(node: UOp) -> bool:
    """Whether this is a constant, or one that was made a parameter, which kernels read from memory."""
    node = node.src[0] if node.op is ops.CAST else node
    is_read = node.op is ops.INDEX and node.src[0].op is ops.PARAM and node.src[1].op is ops.CONST
    is_param = node.op is ops.PARAM and not node.shape and node.arg.slot < OLD.arg.slot
    return node.op is ops.CONST or is_read or is_param


def difference(power: UOp) -> tuple[UOp, UOp, UOp] | None:
    """f, m and c of exp2((f - m) * c)."""
    (scaled,) = power.src
    if scaled.op is not ops.MUL:
        return None
    for side, factor in (scaled.src, scaled.src[::-1]):
        if side.op is ops.SUB and _is_number(factor):
            scores, top = side.src
            return scores, top, factor
    return None


def _is_hidden(power: UOp, gate: UOp, side: int) -> bool:
    """Whether a power is 0 where the gate is true (or, for side 1, false): -inf minus something finite."""
    found = difference(power)
    if found is None:
        return False
    scores, top, _ = found
    is_finite = top.op is ops.WHERE and top.src[0] is top.src[2].eq(-inf) and _is_zero(top.src[1])
    if scores.op is not ops.WHERE or scores.src[0] is not gate or not is_finite:
        return False
    lowest = scores.src[1 + side]
    return lowest.op is ops.CONST and lowest.arg == -inf


def _is_zero(node: UOp) -> bool:
    return node.op is ops.CONST and node.arg == 0


def _without_rows(value: UOp, leaves: list[UOp], inside: list[UOp]) -> tuple[UOp, UOp | None]:
    """A value without the factors that a row has once, and the product of these; None: there are none. What is `inside`
    of a row differs from key to key."""
    if _is_free(value, leaves):
        return value, None
    if value.op is ops.CAST:
        return _without_rows(value.src[0], leaves, inside)
    if value.op is ops.FDIV and _is_free(value.src[1], inside):
        inner, factor = _without_rows(value.src[0], leaves, inside)
        divisor = value.src[1].cast(dtypes.float32)
        return inner, (const(dtypes.float32, 1.0) if factor is None else factor) / divisor
    if value.op is ops.MUL:
        for factor, other in (value.src, value.src[::-1]):
            if _is_free(factor, inside):
                inner, more = _without_rows(other, leaves, inside)
                once = factor.cast(dtypes.float32)
                return inner, once if more is None else once * more
    if value.op is ops.WHERE:
        gate, *sides = value.src
        found = [_without_rows(side, leaves, inside) for side in sides]
        for i, side in enumerate(sides):
            if _is_zero(side):
                inner, factor = found[1 - i]
                none = const(inner.dtype, 0.0)
                return gate.where(*((none, inner) if i == 0 else (inner, none))), factor
    return value, None


def _scaled(part: RescaledSum, top: Statistic) -> RescaledSum:
    """A sum with what it is multiplied by, if a factor does it."""
    powers = [node for node in topological((part.value,)) if node.op is ops.EXP2 and not _is_free(node, [top.leaf])]
    if not powers and _is_free(part.value, [top.leaf]):
        return part
    if len(powers) != 1 or not _is_multiple(part.value, powers[0], top.leaf):
        raise _OtherForm
    if not _is_difference(powers[0].src[0], top):
        raise _OtherForm
    return replace(part, scale=with_values(powers[0], {top.value: OLD}))


def _is_multiple(value: UOp, power: UOp, leaf: UOp) -> bool:
    """Whether a value is the power times what does not depend on the leaf, or 0."""
    if value is power:
        return True
    if value.op is ops.CAST or value.op is ops.NEG:
        return _is_multiple(value.src[0], power, leaf)
    if value.op is ops.FDIV:
        return _is_free(value.src[1], [leaf]) and _is_multiple(value.src[0], power, leaf)
    if value.op is ops.MUL:
        pairs = (value.src, value.src[::-1])
        return any(_is_free(other, [leaf]) and _is_multiple(side, power, leaf) for side, other in pairs)
    if value.op is ops.WHERE:
        gate, *sides = value.src
        rest = [side for side in sides if not _is_zero(side)]
        return _is_free(gate, [leaf]) and all(_is_multiple(side, power, leaf) for side in rest)
    return False


def _is_difference(value: UOp, top: Statistic) -> bool:
    """Whether this is c * (f - m), perhaps with a least value, and with something finite for infinities."""
    scores, leaf = top.value, top.leaf
    if value.op is ops.SUB:
        left, right = value.src
        is_guarded = right.op is ops.WHERE and right.src[0] is leaf.eq(-inf) and right.src[2] is leaf
        return left is scores and (right is leaf or is_guarded)
    if value.op in (ops.MUL, ops.MAX):
        pairs = (value.src, value.src[::-1])
        return any(_is_free(other, [leaf, scores]) and _is_difference(side, top) for side, other in pairs)
    if value.op is ops.WHERE:
        gate, yes, no = value.src
        return gate is scores.eq(inf) and yes.op is ops.CONST and _is_difference(no, top)
    return False
