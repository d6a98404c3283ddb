"""The language in which rules are written: algebra over placeholders.

    x, c0, c1 = anything("x"), constant("c0"), constant("c1")
    (x * c0) // c1                      # a pattern: matches that tree, binds x, c0 and c1
    (c1 > 0) & divides(c1, c0)          # a condition: computed from what was bound
    x * (c0 // c1)                      # a replacement: `c0 // c1` is computed, the rest is built

Operators build patterns as they build nodes; `node(op, ...)` is there for ops that have no operator. A part made of
constants alone is a number, computed in Python when the rule fires; everything else is a node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from whit.errors import RuleError
from whit.ir import ops
from whit.ir.op import Op, spelled
from whit.records import dataclass

Operand = "Pattern | int | float | bool"


@dataclass(frozen=True, eq=False, repr=False)
class Pattern:
    """A tree of placeholders, numbers and ops. Compared by identity."""

    def __add__(self, other: Any) -> Pattern:
        return node(ops.ADD, self, other)

    def __radd__(self, other: Any) -> Pattern:
        return node(ops.ADD, other, self)

    def __sub__(self, other: Any) -> Pattern:
        return node(ops.SUB, self, other)

    def __rsub__(self, other: Any) -> Pattern:
        return node(ops.SUB, other, self)

    def __mul__(self, other: Any) -> Pattern:
        return node(ops.MUL, self, other)

    def __rmul__(self, other: Any) -> Pattern:
        return node(ops.MUL, other, self)

    def __truediv__(self, other: Any) -> Pattern:
        return node(ops.FDIV, self, other)

    def __rtruediv__(self, other: Any) -> Pattern:
        return node(ops.FDIV, other, self)

    def __floordiv__(self, other: Any) -> Pattern:
        return node(ops.FLOORDIV, self, other)

    def __rfloordiv__(self, other: Any) -> Pattern:
        return node(ops.FLOORDIV, other, self)

    def __mod__(self, other: Any) -> Pattern:
        return node(ops.FLOORMOD, self, other)

    def __rmod__(self, other: Any) -> Pattern:
        return node(ops.FLOORMOD, other, self)

    def __pow__(self, other: Any) -> Pattern:
        return node(ops.POW, self, other)

    def __rpow__(self, other: Any) -> Pattern:
        return node(ops.POW, other, self)

    def __and__(self, other: Any) -> Pattern:
        return node(ops.AND, self, other)

    def __rand__(self, other: Any) -> Pattern:
        return node(ops.AND, other, self)

    def __or__(self, other: Any) -> Pattern:
        return node(ops.OR, self, other)

    def __ror__(self, other: Any) -> Pattern:
        return node(ops.OR, other, self)

    def __xor__(self, other: Any) -> Pattern:
        return node(ops.XOR, self, other)

    def __rxor__(self, other: Any) -> Pattern:
        return node(ops.XOR, other, self)

    def __lshift__(self, other: Any) -> Pattern:
        return node(ops.SHL, self, other)

    def __rlshift__(self, other: Any) -> Pattern:
        return node(ops.SHL, other, self)

    def __rshift__(self, other: Any) -> Pattern:
        return node(ops.SHR, self, other)

    def __rrshift__(self, other: Any) -> Pattern:
        return node(ops.SHR, other, self)

    def __lt__(self, other: Any) -> Pattern:
        return node(ops.LT, self, other)

    def __le__(self, other: Any) -> Pattern:
        return node(ops.LE, self, other)

    def __gt__(self, other: Any) -> Pattern:
        return node(ops.LT, other, self)

    def __ge__(self, other: Any) -> Pattern:
        return node(ops.LE, other, self)

    def __neg__(self) -> Pattern:
        return node(ops.NEG, self)

    def __invert__(self) -> Pattern:
        return node(ops.NOT, self)

    def __bool__(self) -> NoReturn:
        raise RuleError(
            f"pattern: {spell(self)} is neither true nor false before something is matched",
            "`and`, `or`, `not` and a < b < c ask a pattern for its truth.",
            "Combine conditions with & | ~.",
        )

    def __repr__(self) -> str:
        return spell(self)


@dataclass(frozen=True, eq=False, repr=False)
class Anything(Pattern):
    """Matches any node."""

    name: str


@dataclass(frozen=True, eq=False, repr=False)
class Constant(Pattern):
    """Matches a constant; in conditions and computed parts it stands for the number."""

    name: str


@dataclass(frozen=True, eq=False, repr=False)
class Literal(Pattern):
    """Matches one number."""

    value: int | float | bool


@dataclass(frozen=True, eq=False, repr=False)
class Tree(Pattern):
    """Matches an op over patterns; operands of a commutative op match in either order."""

    op: Op
    src: tuple[Pattern, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Computed(Pattern):
    """A Python function of what was bound: constants are passed as numbers, placeholders as nodes."""

    name: str
    function: Callable[..., Any]
    src: tuple[Pattern, ...]


def anything(name: str) -> Pattern:
    """A placeholder for any node."""
    return Anything(name)


def constant(name: str) -> Pattern:
    """A placeholder for a constant."""
    return Constant(name)


def as_pattern(value: Any) -> Pattern:
    """A pattern, or a Python number as one."""
    if isinstance(value, Pattern):
        return value
    if isinstance(value, bool | int | float):
        return Literal(value)
    raise RuleError(
        f"pattern: {value!r} is neither a pattern nor a number", fix="Use anything(), constant() or a number."
    )


def node(op: Op, *src: Any) -> Pattern:
    """A pattern of any op."""
    return Tree(op, tuple(as_pattern(s) for s in src))


def computed(name: str) -> Callable[[Callable[..., Any]], Callable[..., Pattern]]:
    """Decorator: a Python function becomes one that can be used in conditions and replacements."""

    def wrap(function: Callable[..., Any]) -> Callable[..., Pattern]:
        return lambda *src: Computed(name, function, tuple(as_pattern(s) for s in src))

    return wrap


@computed("divides")
def divides(divisor: int, number: int) -> bool:
    """Whether divisor is not zero and number is a multiple of it."""
    return divisor != 0 and number % divisor == 0


@computed("equal")
def equal(left: Any, right: Any) -> bool:
    """Whether two numbers are equal."""
    return bool(left == right)


def children(pattern: Pattern) -> tuple[Pattern, ...]:
    """The parts of a pattern."""
    return pattern.src if isinstance(pattern, Tree | Computed) else ()


def parts(pattern: Pattern) -> Iterator[Pattern]:
    """The pattern and everything in it."""
    stack = [pattern]
    while stack:
        part = stack.pop()
        yield part
        stack.extend(children(part))


def names(pattern: Pattern) -> set[str]:
    """The placeholders in it."""
    return {part.name for part in parts(pattern) if isinstance(part, Anything | Constant)}


def is_number(pattern: Pattern) -> bool:
    """Whether it is made of constants alone, so that it can be computed."""
    if isinstance(pattern, Computed):
        return True
    if isinstance(pattern, Tree):
        return all(is_number(s) for s in pattern.src)
    return isinstance(pattern, Constant | Literal)


def spell(pattern: Pattern) -> str:
    """As people write it."""
    match pattern:
        case Anything(name) | Constant(name):
            return name
        case Literal(value):
            return str(value)
        case Tree(op, src):
            return spelled(op, [spell(s) for s in src], [s.op if isinstance(s, Tree) else None for s in src])
        case Computed(name, _, src):
            return f"{name}({', '.join(spell(s) for s in src)})"
    raise RuleError(f"pattern: {type(pattern).__name__} is no kind of pattern")
