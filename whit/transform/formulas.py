"""Derivatives of functions that are several ops: what a FORMULA node gives its operands.

    @derivative("sigmoid")
    def sigmoid(y, dy, x): return (dy * y * (1 - y),)

The ops of a formula are chosen for the accuracy of its value (polynomials, branches, bits); the gradient of the
function itself is shorter, and finite where theirs would not be. A rule gets the node, dy and the operands, and gives
one gradient for each operand. The functions of `whit.tensor` register theirs here when they are defined; the rule of a
function that a user wrote belongs to the argument of its node (`own_rule`), and goes with it.

The value of a formula may be a GROUP: a function of several results, whose ITEMs users see. Its rule gets a tuple of
gradients, None for results that nobody used.
"""

from __future__ import annotations

import enum
import itertools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from whit.errors import InternalError
from whit.ir.args import FormulaArg

if TYPE_CHECKING:
    from whit.ir.uop import UOp

Derivative = Callable[..., "tuple[UOp | None, ...]"]  # (y, dy, *operands) -> a gradient for each operand


class Form(enum.Enum):
    """What other transforms may take from a rule and from the value that it belongs to."""

    POINTWISE = enum.auto()  # of each element alone: the rule gives tangents too, and knows no axes
    LEADING = enum.auto()  # the rule counts axes from the end; the tangent is that of the value's ops
    COMPOSED = enum.auto()  # the rule knows its axes; the tangent is that of the value's ops
    OPAQUE = enum.auto()  # the rule knows its axes; the tangent is the transpose of the rule, which is linear in dy


FORMULAS: dict[str, Derivative] = {}
_forms: dict[str, Form] = {}
RESTATED = "restated"  # a FORMULA of a better value, the expression as it was written, and the operands of both
_own: weakref.WeakKeyDictionary[FormulaArg, Derivative] = weakref.WeakKeyDictionary()
_numbers = itertools.count()


def derivative(name: str, form: Form = Form.OPAQUE) -> Callable[[Derivative], Derivative]:
    """Registers the derivative of the function of that name."""

    def register(rule: Derivative) -> Derivative:
        if name in FORMULAS:
            raise InternalError(f"derivative: {name!r} has one already")
        FORMULAS[name] = rule
        _forms[name] = form
        return rule

    return register


def form_of(arg: FormulaArg) -> Form:
    """What is known about the rule of a formula; of a user's, nothing."""
    return _forms.get(arg.name, Form.OPAQUE)


HOLOMORPHIC = frozenset({"mul", "fdiv", "reciprocal"})  # ops of which a rule multiplies by more than real numbers
_holomorphic: set[str] = set()


def complex_derivative(name: str) -> Callable[[Derivative], Derivative]:
    """Registers the derivative of a function of complex numbers: a rule for dy times its complex derivative."""
    _holomorphic.add(name)
    return derivative(name, Form.POINTWISE)


def is_holomorphic(node: UOp) -> bool:
    """Whether the rule of a node multiplies dy by complex derivatives, of which a gradient needs the conjugates."""
    return node.arg.name in _holomorphic if isinstance(node.arg, FormulaArg) else node.op.name in HOLOMORPHIC


def own_rule(name: str, rule: Derivative) -> FormulaArg:
    """The argument of a FORMULA with a rule of its own, which lives as long as nodes with this argument do."""
    arg = FormulaArg(f"{name} {next(_numbers)}")
    _own[arg] = rule
    return arg


def formula_gradients(node: UOp, dy: Any) -> tuple[UOp | None, ...]:
    """The gradients of a FORMULA node's sources: its first one is the value, and gets none. `dy` is a tuple if the
    value is a GROUP."""
    return (None, *rule_of(node)(node, dy, *node.src[1:]))


def rule_of(node: UOp) -> Derivative:
    """The rule of a FORMULA node."""
    rule = FORMULAS.get(node.arg.name) or _own.get(node.arg)
    if rule is None:
        raise InternalError(f"gradient: the rule of {node.arg.name!r} is gone", node.short())
    return rule
