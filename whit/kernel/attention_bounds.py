"""Which keys the rows of a block of attention may see: those for which the matrix P is not 0.

    where(j <= i, x, 0)      rows i0 .. i1 see the keys 0 .. i1

Goes in: the form of attention. Comes out: bounds on j for rows, as far as all statistics and products agree on them.
What decides is a condition with a neutral element on one side: -inf for a maximum, 0 for a sum and for a factor.
"""

from __future__ import annotations

from functools import reduce
from operator import and_

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.uop import UOp, as_index, const
from whit.kernel.attention_form import AttentionForm
from whit.records import dataclass
from whit.simplify.sums import linear_form

Hidden = tuple[UOp, bool]  # a condition, and the value of it for which nothing is seen


@dataclass(frozen=True, slots=True)
class Bounds:
    """Rows i see the keys i + after <= j <= i + before; None: there is no such bound."""

    after: int | None = None
    before: int | None = None

    @property
    def are_open(self) -> bool:
        """Whether all keys are seen."""
        return self.after is None and self.before is None

    def of_rows(self, first: UOp, last: UOp, n: int) -> tuple[UOp, UOp]:
        """The first key that some of these rows see, and the one after the last."""
        begin = as_index(0) if self.after is None else (first + self.after).maximum(0).minimum(n)
        end = as_index(n) if self.before is None else (last + (self.before + 1)).maximum(0).minimum(n)
        return begin, end

    def all_see(self, first: UOp, last: UOp, rows: tuple[UOp, UOp]) -> UOp | None:
        """Whether all of these rows see all of these keys; None: they always do."""
        tests: list[UOp] = []
        if self.before is not None:
            tests.append(last <= rows[0] + self.before)
        if self.after is not None:
            tests.append(rows[1] + self.after <= first)
        return reduce(and_, tests) if tests else None

    def pairs(self, rows: int, keys: int) -> int:
        """How many keys the rows see, all together."""
        after = -rows if self.after is None else self.after
        before = keys if self.before is None else self.before
        return sum(max(min(i + before, keys - 1) - max(i + after, 0) + 1, 0) for i in range(rows))

    def __str__(self) -> str:
        if self.are_open:
            return "all of them seen"
        first, last = (
            None if bound is None else f"i{bound:+d}" if bound else "i" for bound in (self.after, self.before)
        )
        if first is None:
            return f"row i sees those up to {last}"
        return f"row i sees those from {first} {'on' if last is None else f'to {last}'}"


def find_bounds(form: AttentionForm) -> Bounds:
    """What all statistics and products agree on."""
    bounds = Bounds()
    for condition, value in _common(form):  # in any order: bounds only get tighter
        bounds = _tighter(bounds, _bound(condition, value, form))
    return bounds


def inside_of_bounds(form: AttentionForm) -> dict[UOp, UOp]:
    """Conditions that hold, or do not, for all keys inside of the bounds of a row: condition -> its value."""
    known = [pair for pair in _common(form) if not _bound(*pair, form).are_open]
    return {condition: const(dtypes.bool, not value) for condition, value in known}


def _common(form: AttentionForm) -> set[Hidden]:
    """The conditions under which no statistic and no product sees anything."""
    found: set[Hidden] | None = None
    for statistic in form.statistics:
        assert statistic.op.identity is not None, "a statistic is a reduction by an op with an identity"
        mine = _hidden(statistic.value, statistic.op.identity(statistic.leaf.dtype))
        found = mine if found is None else found & mine
    for product in (*form.products, *form.transposed):
        mine = _hidden(product.p, 0)
        found = mine if found is None else found & mine
    return found or set()


def _hidden(value: UOp, neutral: float) -> set[Hidden]:
    """The conditions under which a value is the neutral element."""
    if value.op is ops.WHERE:
        condition, yes, no = value.src
        if _is(yes, neutral):
            return _parts(condition, True) | _hidden(no, neutral)
        if _is(no, neutral):
            return _parts(condition, False) | _hidden(yes, neutral)
        return _hidden(yes, neutral) & _hidden(no, neutral)
    if value.op is ops.CAST or value.op is ops.NEG:
        return _hidden(value.src[0], neutral) if neutral == 0 or value.op is ops.CAST else set()
    if value.op is ops.MUL and neutral == 0:
        return _hidden(value.src[0], 0) | _hidden(value.src[1], 0)
    if value.op is ops.FDIV and neutral == 0:
        return _hidden(value.src[0], 0)
    return set()


def _parts(condition: UOp, value: bool) -> set[Hidden]:
    """The comparisons of which one is enough for a condition to have this value."""
    if condition.op is ops.NOT:
        return _parts(condition.src[0], not value)
    if condition.op is (ops.OR if value else ops.AND):
        return _parts(condition.src[0], value) | _parts(condition.src[1], value)
    return {(condition, value)}


def _is(node: UOp, number: float) -> bool:
    return node.op is ops.CONST and node.arg == number


def _bound(condition: UOp, value: bool, form: AttentionForm) -> Bounds:
    """What a comparison of positions says about where something is seen."""
    if condition.op not in (ops.LT, ops.LE):
        return Bounds()
    left, right = (_offset(side, form) for side in condition.src)
    if left is None or right is None or {left[0], right[0]} != {form.rows, form.keys}:
        return Bounds()
    low, high, gap = left, right, int(condition.op is ops.LT)
    if value:  # hidden where left < right: seen where right <= left
        low, high, gap = right, left, 1 - gap
    distance = high[1] - low[1] - gap  # seen where low <= high + distance
    return Bounds(before=distance) if low[0] is form.keys else Bounds(after=-distance)


def _offset(side: UOp, form: AttentionForm) -> tuple[UOp, int] | None:
    """A position plus a number."""
    terms, number = linear_form(side)
    if len(terms) != 1:
        return None
    (base,) = terms
    if terms[base] != 1:
        return None
    while base.op is ops.CAST and not base.dtype.is_float:
        base = base.src[0]
    if base.op is not ops.RANGE and base.dtype is dtypes.weakint:
        inner = _offset(base, form)
        return None if inner is None else (inner[0], inner[1] + int(number))
    return (base, int(number)) if base in (form.rows, form.keys) else None


def _tighter(a: Bounds, b: Bounds) -> Bounds:
    after = max((x for x in (a.after, b.after) if x is not None), default=None)
    before = min((x for x in (a.before, b.before) if x is not None), default=None)
    return Bounds(after, before)
