"""BUFFERs without memory, which stand for something: for tensors while a function is traced, and after that for values
that are gone. Who asks for the value of one is told why there is none.
"""

from __future__ import annotations

from typing import Any

from whit.errors import ArgumentError, JitError, UserError, user_line
from whit.ir.op import spell_shape
from whit.ir.placeholder import is_placeholder, is_stand_in, new_placeholder
from whit.ir.uop import UOp

__all__ = ["escaped", "given_away", "gradient_used_up", "is_placeholder", "new_placeholder"]

_used_up: set[int] = set()  # numbers of placeholders that stand for gradients
_given_away: set[int] = set()  # numbers of placeholders that stand for arguments whose memory a result has got


def given_away(dtype: Any, shape: Any, device: str) -> UOp:
    """What a donated argument is after a call."""
    node = new_placeholder(dtype, shape, device)
    _given_away.add(node.arg.id)
    return node


def gradient_used_up(dtype: Any, shape: Any, device: str) -> UOp:
    """What `.grad` of a tensor is after a captured step that has used it."""
    node = new_placeholder(dtype, shape, device)
    _used_up.add(node.arg.id)
    return node


def escaped(node: UOp) -> UserError:
    """What a placeholder without memory means to somebody who asks for its value."""
    if is_stand_in(node):
        return ArgumentError(
            "the value of a tensor is asked for that stands for each example of a batch, step of a loop, or tangent",
            f"it is made of one that is {node.dtype.name}{spell_shape(node.shape)}",
            "A function that is mapped or looped runs once, without values: choose with where() in place of if, and "
            "return what is to be read outside.",
        )
    if node.arg.id in _used_up:
        return JitError(
            "the gradients of a captured step are not kept: the function has used them to change their tensors",
            f"asked for at {user_line()}" if user_line() else "",
            "Return them from the function, or call backward() and step() in two of them.",
        )
    if node.arg.id in _given_away:
        return JitError(
            "the tensor was donated to a captured function, and a result has its memory now",
            f"asked for at {user_line()}" if user_line() else "",
            "Use the result, or leave the argument out of donate=.",
        )
    return JitError(
        "a tensor that was made while a function was captured has no value afterwards",
        f"it depends on {node.short()}" + (f", and is used at {user_line()}" if user_line() else ""),
        "Return it from the function: what a captured function keeps elsewhere is not computed when it is replayed.",
    )
