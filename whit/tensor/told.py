"""What functions of tensors were called, for who writes them in another language: a file of ONNX has operators for
whole functions, and should not find them again among their parts.

    with listening() as calls:
        y = x.gelu()
    calls[y.uop]                    Call("gelu", (x.uop,), {"approximate": "tanh"})

A function that is made of others tells of its result last, so that the outermost counts. Nobody listens but exports.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from whit.ir.uop import UOp
from whit.records import dataclass
from whit.tensor.core import Core


@dataclass(frozen=True, slots=True)
class Call:
    """A function, and what it was called with. An operand that was left out is None."""

    name: str
    operands: tuple[UOp | None, ...]
    attributes: dict[str, Any]


Result = TypeVar("Result", bound=Core)
_calls: ContextVar[dict[UOp, Call] | None] = ContextVar("whit_calls", default=None)


@contextmanager
def listening() -> Iterator[dict[UOp, Call]]:
    """The calls of this block, by the node of the result."""
    found: dict[UOp, Call] = {}
    token = _calls.set(found)
    try:
        yield found
    finally:
        _calls.reset(token)


def told(name: str, result: Result, *operands: Any, **attributes: Any) -> Result:
    """The result, which a function of this name has made of these operands."""
    calls = _calls.get()  # 40 ns
    if calls is not None and not any(each is not None and each.uop is result.uop for each in operands):
        nodes = tuple(None if each is None else each.uop for each in operands)
        calls[result.uop] = Call(name, nodes, attributes)
    return result
