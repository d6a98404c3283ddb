"""Rules and rule sets.

A rule is data (`Rule(before, after, when=...)`) or a named function (`@function_rule(ops.ADD)`). A rule set is an
ordered tuple of rules; `+` joins two. For every op and operand dtype it compiles the rules that can apply into one
Python function, on first use:

    Rule((x * c0) // c1, x * (c0 // c1), when=(c1 > 0) & divides(c1, c0), on=INDEX)

becomes, in the function for floordiv of weakint (see `Rules.source`),

    a0, a1 = node.src
    if a0.op is MUL and a1.op is CONST:
        b0, b1 = a0.src
        if b1.op is CONST and ...:
            return make(MUL, (b0, const(dtype, b1.arg // a1.arg)))
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from typing import Any

from whit.dtype import DType, dtypes, wrap
from whit.errors import RuleError
from whit.ir import ops
from whit.ir.op import Op
from whit.ir.pattern import (
    Anything,
    Computed,
    Constant,
    Literal,
    Pattern,
    Tree,
    as_pattern,
    is_number,
    names,
    parts,
    spell,
)
from whit.ir.uop import UOp, const, make
from whit.records import dataclass, field

INDEX = frozenset({dtypes.weakint})  # unbounded: no wrap-around, so division theory holds
INTS = frozenset({dtypes.weakint, *dtypes.ints})
BOOLS = frozenset({dtypes.bool})
FLOATS = frozenset({dtypes.weakfloat, *dtypes.floats})
NUMBERS = INTS | FLOATS
ANY = NUMBERS | BOOLS | frozenset({dtypes.void})

RuleFunction = Callable[..., "UOp | None"]


@dataclass(frozen=True, eq=False)
class Rule:
    """`before` becomes `after` where `when` holds, for operands of the dtypes `on`."""

    before: Pattern
    after: Any
    when: Any = True
    on: frozenset[DType] = ANY
    where: str = field(default="", compare=False)  # file:line of the rule

    def __post_init__(self) -> None:
        object.__setattr__(self, "after", as_pattern(self.after))
        object.__setattr__(self, "when", as_pattern(self.when))
        if not self.where:
            frame = sys._getframe(2)
            object.__setattr__(self, "where", f"{frame.f_code.co_filename}:{frame.f_lineno}")
        if not isinstance(self.before, Tree):
            raise RuleError(f"rule: {spell(self.before)} matches everything", fix="Start with an op.")
        unbound = (names(self.after) | names(self.when)) - names(self.before)
        if unbound:
            listed = " and ".join(sorted(unbound))
            raise RuleError(
                f"rule {self.name}: {listed} {'is' if len(unbound) == 1 else 'are'} not on the left side",
                self.where,
                "A rule can only use what it has matched.",
            )

    @property
    def name(self) -> str:
        """The rule as text, which is also its name."""
        when = "" if isinstance(self.when, Literal) else f" when {spell(self.when)}"
        return f"{spell(self.before)} -> {spell(self.after)}{when}"

    @property
    def ops(self) -> tuple[Op, ...]:
        """The ops at whose nodes it is tried."""
        assert isinstance(self.before, Tree), "a data rule starts with an op"
        return (self.before.op,)


@dataclass(frozen=True, eq=False)
class FunctionRule:
    """A rule that needs code: a function from a node to its replacement, or None."""

    function: RuleFunction
    ops: tuple[Op, ...]
    on: frozenset[DType]
    wants_context: bool

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def where(self) -> str:
        code = self.function.__code__
        return f"{code.co_filename}:{code.co_firstlineno}"


AnyRule = Rule | FunctionRule


def function_rule(*where: Op, on: frozenset[DType] = ANY) -> Callable[[RuleFunction], FunctionRule]:
    """Decorator: a function of (node) or (node, context) as a rule for these ops. Its docstring: before -> after."""

    def wrap_function(function: RuleFunction) -> FunctionRule:
        return FunctionRule(function, where, on, function.__code__.co_argcount > 1)

    return wrap_function


Compiled = Callable[[UOp, Any], "UOp | None"]


class Rules:
    """An ordered set of rules, compiled per op and operand dtype."""

    def __init__(self, name: str, rules: Iterable[AnyRule]) -> None:
        self.name = name
        self.rules = tuple(rules)
        self._by_op: dict[Op, list[AnyRule]] = {}
        for rule in self.rules:
            for op in rule.ops:
                self._by_op.setdefault(op, []).append(rule)
        self.compiled: dict[Op, dict[DType, Compiled | None]] = {op: {} for op in self._by_op}

    def __add__(self, other: Rules) -> Rules:
        return Rules(f"{self.name}+{other.name}", self.rules + other.rules)

    def without(self, *left_out: AnyRule) -> Rules:
        """The same rules but for these."""
        return Rules(self.name, (rule for rule in self.rules if rule not in left_out))

    def applicable(self, op: Op, dtype: DType) -> list[AnyRule]:
        """The rules tried at a node of this op whose first source has this dtype."""
        return [rule for rule in self._by_op.get(op, ()) if dtype in rule.on]

    def compile(self, op: Op, dtype: DType) -> Compiled | None:
        """The function for this op and dtype, or None where no rule applies; kept."""
        rules = self.applicable(op, dtype)
        function = compile_rules(self.name, rules, op, dtype)[1] if rules else None
        self.compiled[op][dtype] = function
        return function

    def source(self, op: Op, dtype: DType) -> str:
        """The Python source that `compile` runs."""
        return compile_rules(self.name, self.applicable(op, dtype), op, dtype)[0]


def compile_rules(
    name: str, rules: list[AnyRule], op: Op, dtype: DType, observe: Callable[[AnyRule, UOp, UOp], None] | None = None
) -> tuple[str, Compiled]:
    """Source and function. With `observe`, every rule that fires is reported: (rule, before, after)."""
    writer = _Writer(dtype, observe is not None)
    source = writer.function(rules, op)
    environment: dict[str, Any] = {
        "__name__": "whit.ir.rules",
        "make": make,
        "const": const,
        "wrap": wrap,
        "dtype": dtype,
        "observe": observe,
        **{o.name.upper(): o for o in ops.OPS.values()},
        **writer.names,
    }
    exec(compile(source, f"<rules {name}: {op.name} of {dtype.name}>", "exec"), environment)
    return source, environment["rewrite"]


# how a computed part is spelled in Python, where that differs from the op's own spelling
_PYTHON = {ops.AND: "({0} and {1})", ops.OR: "({0} or {1})", ops.NOT: "(not {0})", ops.SUB: "({0} - {1})"}


class _Writer:
    """Writes the source of one function."""

    def __init__(self, dtype: DType, observed: bool) -> None:
        self.dtype = dtype
        self.observed = observed
        self.names: dict[str, Any] = {}  # literals, functions and rules that the source refers to
        self.lines: list[str] = []
        self.fresh = 0

    def function(self, rules: list[AnyRule], op: Op) -> str:
        self.lines = ["def rewrite(node, context):"]
        if any(isinstance(rule, Rule) for rule in rules):
            self.line(1, "src = node.src")
        for rule in rules:
            self.line(1, f"# {rule.name}")
            if isinstance(rule, Rule):
                self.data_rule(rule)
            else:
                self.function_rule(rule)
        self.line(1, "return None")
        return "\n".join(self.lines) + "\n"

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def keep(self, prefix: str, value: Any) -> str:
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    def result(self, depth: int, rule: AnyRule, text: str) -> None:
        if not self.observed:
            self.line(depth, f"return {text}")
            return
        name = self.keep("rule_", rule)
        self.line(depth, f"result = {text}")
        self.line(depth, f"observe({name}, node, result)")
        self.line(depth, "return result")

    def function_rule(self, rule: FunctionRule) -> None:
        name = self.keep(f"{rule.name}_", rule.function)
        self.line(1, f"found = {name}(node{', context' if rule.wants_context else ''})")
        self.line(1, "if found is not None and found is not node:")
        self.result(2, rule, "found")

    def data_rule(self, rule: Rule) -> None:
        assert isinstance(rule.before, Tree), "a data rule starts with an op"
        for order in self.orders(rule.before, rule):
            pairs = [(part, f"src[{i}]") for part, i in zip(rule.before.src, order, strict=True)]
            self.match(1, pairs, {}, rule)

    def orders(self, tree: Tree, rule: Rule) -> list[tuple[int, ...]]:
        """The orders in which operands can match: both for a commutative op, unless nothing tells them apart."""
        uses = [part.name for part in parts(rule.before) if isinstance(part, Anything)]
        is_symmetric = all(isinstance(s, Anything) and uses.count(s.name) == 1 for s in tree.src)
        if not tree.op.commutative or is_symmetric or tree.src[0] is tree.src[1]:
            return [tuple(range(len(tree.src)))]
        return [(0, 1), (1, 0)]

    def match(self, depth: int, todo: list[tuple[Pattern, str]], bound: dict[str, str], rule: Rule) -> None:
        """Tests the pairs (pattern, expression) in turn; then the condition; then returns the replacement."""
        if not todo:
            self.finish(depth, bound, rule)
            return
        # cheap tests first: numbers and ops of leaves before whole trees
        todo = sorted(todo, key=lambda pair: isinstance(pair[0], Tree))
        (pattern, text), rest = todo[0], todo[1:]
        match pattern:
            case Literal(value):
                self.line(depth, f"if {text} is {self.literal(value)}:")
                self.match(depth + 1, rest, bound, rule)
            case Anything(name) | Constant(name) if name in bound:
                self.line(depth, f"if {text} is {bound[name]}:")
                self.match(depth + 1, rest, bound, rule)
            case Anything(name):
                self.match(depth, rest, {**bound, name: text}, rule)
            case Constant(name):
                self.line(depth, f"if {text}.op is CONST:")
                self.match(depth + 1, rest, {**bound, name: text}, rule)
            case Tree(op, src):
                self.fresh += 1
                local = f"n{self.fresh}"
                self.line(depth, f"{local} = {text}")
                self.line(depth, f"if {local}.op is {op.name.upper()}:")
                self.line(depth + 1, f"s{local} = {local}.src")
                for order in self.orders(pattern, rule):
                    pairs = [(part, f"s{local}[{i}]") for part, i in zip(src, order, strict=True)]
                    self.match(depth + 1, rest + pairs, bound, rule)
            case _:
                raise RuleError(f"rule {rule.name}: {spell(pattern)} cannot stand on the left side")

    def literal(self, value: int | float | bool) -> str:
        """The constant node itself: interned, so that a match is an identity test."""
        dtype = dtypes.bool if isinstance(value, bool) else self.dtype
        if dtype.is_bool and not isinstance(value, bool):
            raise RuleError(f"rule: the number {value} in a rule for {dtype.name}", fix="Restrict the rule with on=.")
        return self.keep("literal_", const(dtype, value))

    def finish(self, depth: int, bound: dict[str, str], rule: Rule) -> None:
        if not isinstance(rule.when, Literal):
            self.line(depth, f"if {self.value(rule.when, bound)}:")
            depth += 1
        self.result(depth, rule, self.build(rule.after, bound, "node.dtype"))

    def value(self, pattern: Pattern, bound: dict[str, str]) -> str:
        """Python source of a computed part."""
        match pattern:
            case Literal(value):
                return repr(value)
            case Constant(name):
                return f"{bound[name]}.arg"
            case Anything(name):
                return bound[name]
            case Computed(name, function, src):
                arguments = ", ".join(self.value(s, bound) for s in src)
                return f"{self.keep(f'{name}_', function)}({arguments})"
            case Tree(op, src):
                spelling = _PYTHON.get(op, f"({op.spelling})")
                return spelling.format(*(self.value(s, bound) for s in src))
        raise RuleError(f"rule: {spell(pattern)} cannot be computed")

    def build(self, pattern: Pattern, bound: dict[str, str], dtype: str) -> str:
        """Python source that builds a part of the replacement; `dtype` is the dtype that its constants get."""
        match pattern:
            case Anything(name) | Constant(name):
                return bound[name]
            case Literal(bool() as truth):
                return self.literal(truth)
        if is_number(pattern):
            value = self.value(pattern, bound)
            owner = next((n for n in sorted(names(pattern)) if n in bound), None)
            dtype = f"{bound[owner]}.dtype" if owner else dtype
            fixed = not (self.dtype is dtypes.weakint or self.dtype.is_float)
            return f"const({dtype}, wrap({dtype}, {value}))" if fixed else f"const({dtype}, {value})"
        assert isinstance(pattern, Tree), "a pattern that is no name and no number is a tree"
        inner = dtype
        if pattern.op in (ops.LT, ops.LE, ops.EQ, ops.NE):
            inner = "dtype"
        built = [self.build(s, bound, inner) for s in pattern.src]
        return f"make({pattern.op.name.upper()}, ({', '.join(built)},))"


@functools.cache
def short_location(where: str) -> str:
    """file.py:12 of a longer path."""
    return where.rsplit("/", 1)[-1]
