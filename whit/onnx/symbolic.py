"""Operators of numbers that depend on variables, on the host: the arithmetic of shapes in a program for many sizes.

    evaluate(node, [Sizes, array])      the outputs; None if this is for a device

Most of it is that of `whit.onnx.host` on arrays of nodes. What compares is decided for all values, or not at all.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from whit.ir.sizes import larger, settled, smaller
from whit.ir.uop import UOp
from whit.onnx import host
from whit.onnx.operators.registry import Node
from whit.onnx.sizes import Sizes, Undecided, is_below, is_same, of_numbers
from whit.onnx.tensors import Array

WHOLE: Final = "biu"


def evaluate(node: Node, inputs: list[Any]) -> tuple[Any, ...] | None:
    """The outputs of a node of which the host knows all inputs; None: this is for a device."""
    function = OPERATORS.get(node.op_type) if node.domain == "" else None
    if function is None:
        return None
    dtypes = [None if value is None else value.dtype for value in inputs]
    arrays = [_objects(value) if place in _numbers(node) else _plain(value) for place, value in enumerate(inputs)]
    if any(value is NotImplemented for value in arrays):
        return None
    found = function(node, *arrays)
    if found is None:
        return None
    results = found if isinstance(found, list) else [found]
    dtype = _dtype(node, dtypes)
    return tuple(of_numbers(result, dtype) if result.dtype.kind == "O" else result for result in results)


def _numbers(node: Node) -> tuple[int, ...]:
    """The positions of inputs that may depend on variables; the others say where, and must be plain."""
    return _DATA.get(node.op_type, tuple(range(256)))


_DATA: Final[Mapping[str, tuple[int, ...]]] = {
    **dict.fromkeys(
        ("Gather", "Slice", "Squeeze", "Unsqueeze", "Reshape", "Expand", "Split", "Tile", "ReduceProd", "ReduceSum"),
        (0,),
    ),
    **dict.fromkeys(("CumSum", "Cast"), (0,)),
    "ScatterND": (0, 2),
    "Where": (1, 2),
}


def _objects(value: Any) -> Any:
    if isinstance(value, Sizes):
        return value.array
    return None if value is None else value.astype(object)


def _plain(value: Any) -> Any:
    return NotImplemented if isinstance(value, Sizes) else value


def _dtype(node: Node, dtypes: list[Any]) -> Any:
    if node.op_type == "Cast":
        return host.CASTS[int(node.get("to"))]
    return dtypes[1] if node.op_type == "Where" else dtypes[0]


def _spread(function: Callable[..., Any], *inputs: Array) -> Array:
    """A function of numbers, on arrays that are broadcast."""
    result = np.empty(np.broadcast_shapes(*[x.shape for x in inputs]), object)
    wide = [np.broadcast_to(x, result.shape).reshape(-1) for x in inputs]
    flat = result.reshape(-1)
    for place, numbers in enumerate(zip(*wide, strict=True)):
        flat[place] = function(*numbers)
    return flat.reshape(result.shape)


def _each(function: Callable[..., Any]) -> Callable[..., Any]:
    """An operator of any number of arrays."""
    return lambda node, *inputs: functools.reduce(lambda a, b: _spread(function, a, b), inputs)


def _question(function: Callable[..., bool]) -> Callable[..., Any]:
    def answer(left: Any, right: Any) -> bool:
        return function(_number(left), _number(right))

    return lambda node, left, right: _spread(answer, left, right).astype(np.bool_)


def _number(value: Any) -> Any:
    """A number that a node can be combined with: an int, or a float that is one."""
    if isinstance(value, UOp | int):
        return value
    if not float(value).is_integer():
        raise Undecided(f"arithmetic of sizes with {value}")
    return int(value)


def _arithmetic(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def combine(left: Any, right: Any) -> Any:
        if isinstance(left, UOp) or isinstance(right, UOp):
            return settled(function(_number(left), _number(right)))
        return function(left, right)

    return _each(combine)


def _quotient(left: Any, right: Any) -> Any:
    """Cut off toward zero, which is rounding down of what is not negative."""
    if isinstance(left, int) and isinstance(right, int):
        return int(abs(left) // abs(right)) * (1 if (left < 0) == (right < 0) else -1)
    if is_below(left, 0) or is_below(right, 1):
        raise Undecided(f"the quotient of {left} and {right}")
    return left // right


def _divide(node: Node, left: Array, right: Array) -> Array | None:
    exact = node.type_of(0) in (1, 10, 11)  # of floats: nothing is cut off

    def combine(a: Any, b: Any) -> Any:
        a, b = _number(a), _number(b)
        if exact and not is_same(settled(a % b), 0):
            raise Undecided(f"{a} / {b}")
        return settled(_quotient(a, b))

    return _spread(combine, left, right)


def _modulo(node: Node, left: Array, right: Array) -> Array | None:
    def combine(a: Any, b: Any) -> Any:
        if is_below(a, 0) or is_below(b, 1):
            raise Undecided(f"the remainder of {a} and {b}")
        return settled(a % b)

    return _spread(combine, left, right)


def _cast(node: Node, x: Array) -> Array | None:
    """Between numbers. Floats that depend on variables are whole, as those of the host that have become nodes."""
    target = host.CASTS.get(int(node.get("to")))
    if target is None or target is np.bool_:
        raise Undecided("a size as a truth")
    return x if np.dtype(target).kind == "f" else _spread(_number, x)


def _whole(node: Node, x: Array) -> Array:
    """Floor, Ceil, Round: of whole numbers the same."""
    return _spread(_number, x)


_SAME: Final = (  # elements go elsewhere
    "Concat",
    "CumSum",
    "Expand",
    "Gather",
    "Identity",
    "Reshape",
    "ScatterND",
    "Slice",
    "Split",
    "Squeeze",
)
OPERATORS: Final[Mapping[str, Callable[..., Any]]] = {
    **{name: host.OPERATORS[name] for name in (*_SAME, "Tile", "Transpose", "Unsqueeze", "Where", "Shape", "Size")},
    "Add": _arithmetic(lambda a, b: a + b),
    "Cast": _cast,
    "Ceil": _whole,
    "Div": _divide,
    "Equal": _question(is_same),
    "Floor": _whole,
    "Greater": _question(lambda a, b: is_below(b, a)),
    "GreaterOrEqual": _question(lambda a, b: not is_below(a, b)),
    "Less": _question(is_below),
    "LessOrEqual": _question(lambda a, b: not is_below(b, a)),
    "Max": _each(larger),
    "Min": _each(smaller),
    "Mod": _modulo,
    "Mul": _arithmetic(lambda a, b: a * b),
    "Neg": lambda node, x: _spread(lambda a: settled(-a), x),
    "ReduceProd": host.OPERATORS["ReduceProd"],
    "ReduceSum": host.OPERATORS["ReduceSum"],
    "Round": _whole,
    "Sub": _arithmetic(lambda a, b: a - b),
}
