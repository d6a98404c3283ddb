"""Checks data rules mechanically: is each one true, and does rewriting with them end?

Soundness. A rule is compiled and applied to instances of its left side: operands in every order, constants and values
random or nasty (zero, one, extremes, -0.0, infinities, NaN, subnormals, numbers beyond int64). Wherever it fires, both
sides must have the same value by the meanings of the op table, to the bit (any NaN equals any NaN). A rule that never
fires is refused too.

Termination. Every right side must be smaller than its left side in one order of terms: the lexicographic path order
over the precedence below, in which constants are smallest. That order is well-founded and closed under substitution,
so no sequence of such rewrites goes on for ever. Rules that are functions are covered by the loop detection of the
driver and by the fuzzing of the simplifier.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from whit.dtype import DType, convert, decode, dtypes, encode, wrap
from whit.errors import RuleError
from whit.ir import ops, scalar
from whit.ir.graph import topological
from whit.ir.op import Op
from whit.ir.pattern import Anything, Constant, Literal, Pattern, Tree, is_number, parts
from whit.ir.rules import FunctionRule, Rule, Rules, compile_rules
from whit.ir.uop import UOp, const, make

# From small to large: a rule may replace an op by ops that stand before it. An op without a place here is larger than
# all that have one, and no two of them can be compared.
PRECEDENCE: tuple[Op, ...] = (
    ops.ADD,
    ops.MUL,
    ops.NEG,
    ops.SUB,
    ops.FMA,
    ops.FDIV,
    ops.RECIPROCAL,
    ops.FLOORMOD,
    ops.FLOORDIV,
    ops.CMOD,
    ops.CDIV,
    ops.ABS,
    ops.MAX,
    ops.MIN,
    ops.TRUNC,
    ops.FLOOR,
    ops.CEIL,
    ops.ROUND,
    ops.SQRT,
    ops.EXP2,
    ops.LOG2,
    ops.EXP,
    ops.LOG,
    ops.SIGMOID,
    ops.TANH,
    ops.ERF,
    ops.SIN,
    ops.COS,
    ops.POW,
    ops.NOT,
    ops.AND,
    ops.OR,
    ops.XOR,
    ops.SHL,
    ops.SHR,
    ops.LT,
    ops.LE,
    ops.EQ,
    ops.NE,
    ops.WHERE,
)
_RANK = {op: rank for rank, op in enumerate(PRECEDENCE)}


@dataclass(frozen=True, slots=True)
class Report:
    """What was checked."""

    sound: int  # data rules tested
    instances: int  # times they fired
    values: int  # pairs of values compared
    decreasing: int  # data rules shown to make terms smaller
    functions: int  # rules that are functions

    def __str__(self) -> str:
        return (
            f"{self.sound} data rules sound on {self.values} values of {self.instances} instances, "
            f"{self.decreasing} decreasing; {self.functions} function rules (fuzzed elsewhere)"
        )


def check_rules(rules: Rules, seed: int = 0, tries: int = 60) -> Report:
    """Checks every data rule; raises a RuleError with a counter-example at the first that fails."""
    data = [rule for rule in rules.rules if isinstance(rule, Rule)]
    instances = values = 0
    for number, rule in enumerate(data):
        fired, compared = check_sound(rule, random.Random(seed + number), tries)
        instances += fired
        values += compared
        check_decreasing(rule)
    functions = sum(isinstance(rule, FunctionRule) for rule in rules.rules)
    return Report(len(data), instances, values, len(data), functions)


# ---- soundness


def nasty_values(dtype: DType, rng: random.Random) -> list[Any]:
    """Values at which rules go wrong, and a few random ones."""
    if dtype.is_bool:
        return [False, True]
    if dtype is dtypes.weakint:
        far = [rng.randint(-(10**6), 10**6), rng.randint(-(2**70), 2**70), 2**31, -(2**63), 10**20]
        return [*range(-9, 10), *far]
    if dtype.is_int:
        edges = [dtype.min, dtype.min + 1, dtype.max - 1, dtype.max, 0, 1, 2, 3, 7]
        signed = [-1, -2, -3, -7] if not dtype.is_unsigned else []
        return [*edges, *signed, *(rng.randint(dtype.min, dtype.max) for _ in range(6))]
    special = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, math.inf, -math.inf, math.nan]
    if dtype is dtypes.weakfloat:
        return [*special, *(rng.uniform(-1e3, 1e3) for _ in range(6))]
    codes = [1, 2 ** (dtype.bitsize - 1) + 1, *(rng.getrandbits(dtype.bitsize) for _ in range(10))]
    return [convert(dtype, v) for v in special] + [decode(dtype, code) for code in codes]


def operand_dtypes(rule: Rule, dtype: DType) -> list[dict[str, DType]]:
    """The dtypes that the rule's placeholders can have when the first operand has this one."""
    root = rule.before
    assert isinstance(root, Tree), "a data rule starts with an op"
    choices = [dtypes.weakint, dtypes.int32, dtypes.float32, dtypes.bool] if root.op is ops.WHERE else [dtype]
    found = []
    for value_dtype in choices:
        bound: dict[str, DType] = {}
        if all(_assign(s, _source_dtype(root.op, i, dtype, value_dtype), bound) for i, s in enumerate(root.src)):
            found.append(bound)
    return found


def _source_dtype(op: Op, position: int, dtype: DType, value_dtype: DType) -> DType:
    if op is ops.WHERE:
        return dtypes.bool if position == 0 else value_dtype
    return dtype


def _assign(pattern: Pattern, dtype: DType, bound: dict[str, DType]) -> bool:
    """Gives each placeholder its dtype; False where a literal or a second use does not allow it."""
    match pattern:
        case Literal(bool()):
            return dtype.is_bool
        case Anything(name) | Constant(name):
            return bound.setdefault(name, dtype) is dtype
        case Tree(op, src):
            return all(_assign(s, _source_dtype(op, i, dtype, dtype), bound) for i, s in enumerate(src))
    return not dtype.is_bool


def _instances(pattern: Pattern, dtype: DType, leaves: dict[str, UOp]) -> list[UOp]:
    """The left side over these leaves, commutative operands in every order."""
    match pattern:
        case Literal(value):
            return [const(dtype, value)]
        case Anything(name) | Constant(name):
            return [leaves[name]]
        case Tree(op, src):
            value_dtype = next((leaves[p.name].dtype for p in src[1:] if isinstance(p, Anything)), dtypes.bool)
            parts = [_instances(s, _source_dtype(op, i, dtype, value_dtype), leaves) for i, s in enumerate(src)]
            built = [make(op, combination) for combination in itertools.product(*parts)]
            swapped = [make(op, n.src[::-1]) for n in built] if op.commutative else []
            return [*built, *swapped]
    raise RuleError(f"rule: {pattern} cannot stand on the left side")


def scalar_value(root: UOp, values: dict[UOp, Any]) -> Any:
    """The value of an elementwise graph over scalar leaves."""
    known: dict[UOp, Any] = dict(values)
    for node in topological((root,)):
        if node in known:
            continue
        if node.op is ops.CONST:
            known[node] = node.arg
            continue
        assert node.op.python is not None, "a data rule is made of ops with a meaning in Python"
        result = node.op.python(scalar, *(known[s] for s in node.src))
        known[node] = round_to(node.dtype, result)
    return known[root]


def round_to(dtype: DType, value: Any) -> Any:
    """A computed value as one of the dtype."""
    if dtype.is_int:
        return wrap(dtype, int(value))
    return bool(value) if dtype.is_bool else convert(dtype, float(value))


def same_value(dtype: DType, left: Any, right: Any) -> bool:
    """Equal to the bit; any NaN equals any NaN."""
    if not dtype.is_float:
        return bool(left == right)
    if left != left or right != right:
        return bool(left != left and right != right)
    if dtype is dtypes.weakfloat:
        return bool(left == right and math.copysign(1, left) == math.copysign(1, right))
    return encode(dtype, left) == encode(dtype, right)


def check_sound(rule: Rule, rng: random.Random, tries: int) -> tuple[int, int]:
    """Instances on which the rule fired, and values compared; a RuleError with a counter-example if they differ."""
    fired = compared = 0
    for dtype in sorted(rule.on - {dtypes.void}, key=lambda d: d.name):
        assignments = operand_dtypes(rule, dtype)
        if not assignments:
            continue
        apply = compile_rules("check", [rule], rule.ops[0], dtype)[1]
        for _ in range(max(tries // len(assignments), 4)):
            for placeholders in assignments:
                leaves = _leaves(rule, placeholders, rng)
                for before in _instances(rule.before, dtype, leaves):
                    after = apply(before, None)
                    if after is not None:
                        fired += 1
                        compared += _compare(rule, before, after, leaves, rng)
    if fired == 0:
        raise RuleError(f"rule {rule.name}: never fires", rule.where, "Widen its condition or remove it.")
    return fired, compared


def _leaves(rule: Rule, placeholders: dict[str, DType], rng: random.Random) -> dict[str, UOp]:
    from_constant = {p.name for p in parts(rule.before) if isinstance(p, Constant)}
    leaves: dict[str, UOp] = {}
    for slot, (name, dtype) in enumerate(sorted(placeholders.items())):
        if name in from_constant:
            leaves[name] = const(dtype, rng.choice(nasty_values(dtype, rng)))
        else:
            leaves[name] = UOp.param(slot, dtype)
    return leaves


def _compare(rule: Rule, before: UOp, after: UOp, leaves: dict[str, UOp], rng: random.Random) -> int:
    if after.dtype is not before.dtype:
        raise RuleError(f"rule {rule.name}: turns {before.dtype.name} into {after.dtype.name}", rule.where)
    free = [leaf for leaf in leaves.values() if leaf.op is ops.PARAM]
    choices: Sequence[list[Any]] = [nasty_values(leaf.dtype, rng) for leaf in free]
    total = math.prod(len(c) for c in choices)
    picks: Iterable[Sequence[Any]] = itertools.product(*choices)
    if total > 64:
        picks = ([rng.choice(c) for c in choices] for _ in range(64))
    count = 0
    for pick in picks:
        values = dict(zip(free, pick, strict=True))
        left, right = scalar_value(before, values), scalar_value(after, values)
        count += 1
        if not same_value(before.dtype, left, right):
            given = ", ".join(f"{name} = {_shown(leaf, values)}" for name, leaf in leaves.items())
            names = {leaf: name for name, leaf in leaves.items() if leaf in values}
            sides = [f"{side.expression(names=names)} is {value!r}" for side, value in ((before, left), (after, right))]
            raise RuleError(
                f"rule {rule.name}: wrong for {before.src[0].dtype.name}",
                f"with {given}: {', '.join(sides)}\n{rule.where}",
                "Add a condition, restrict the dtypes, or remove the rule.",
            )
    return count


def _shown(leaf: UOp, values: dict[UOp, Any]) -> str:
    return repr(values.get(leaf, leaf.arg))


# ---- termination


def check_decreasing(rule: Rule) -> None:
    """Raises unless the right side is smaller than the left side."""
    if is_larger(rule.before, rule.after):
        return
    details = f"in the lexicographic path order over {', '.join(op.name for op in PRECEDENCE)}"
    fix = "Turn the rule around, or write it so that it removes something."
    unplaced = _unplaced(rule.after) - {op.name for op in rule.ops}
    if unplaced:
        names = " and ".join(sorted(unplaced))
        details += f"\nwithout a place in it, so larger than all that have one: {names}"
        fix += f" Or give {names} a place in PRECEDENCE (whit/ir/check/rules.py)."
    raise RuleError(f"rule {rule.name}: the right side is not smaller than the left", f"{details}\n{rule.where}", fix)


def _unplaced(pattern: Pattern) -> set[str]:
    """The ops in it that the order does not know. What is computed does not count."""
    if not isinstance(pattern, Tree) or is_number(pattern):
        return set()
    below = {name for s in pattern.src for name in _unplaced(s)}
    return below if pattern.op in _RANK else below | {pattern.op.name}


def is_larger(left: Pattern, right: Pattern) -> bool:
    """left > right in the lexicographic path order."""
    if not isinstance(left, Tree) or is_number(left):
        return False
    if is_number(right):
        return True
    if any(_at_least(s, right) for s in left.src):
        return True
    if not isinstance(right, Tree) or not all(is_larger(left, s) for s in right.src):
        return False
    if left.op is right.op:
        return _lexicographic(left.src, right.src)
    return _rank(left.op) > _rank(right.op)


def _rank(op: Op) -> int:
    return _RANK.get(op, len(_RANK))


def _at_least(left: Pattern, right: Pattern) -> bool:
    return _equal(left, right) or is_larger(left, right)


def _equal(left: Pattern, right: Pattern) -> bool:
    """Equal in the order: the same placeholder, any two numbers, or the same op over equal parts."""
    if is_number(left) and is_number(right):
        return True
    match left, right:
        case Anything(a), Anything(b):
            return a == b
        case Tree(f, src), Tree(g, other):
            return f is g and all(_equal(s, t) for s, t in zip(src, other, strict=True))
    return False


def _lexicographic(left: tuple[Pattern, ...], right: tuple[Pattern, ...]) -> bool:
    for s, t in zip(left, right, strict=True):
        if is_larger(s, t):
            return True
        if not _equal(s, t):
            return False
    return False
