"""The debug mode of the JIT: a call runs plainly too, and both must leave the same.

With JIT_CHECK=10 every tenth call of a captured function runs as if it were not captured; then all tensors are put back
to where they were, and the captured program runs. Results, and tensors that were written, are compared. It finds what
a capture cannot see: numbers that Python computes from the time, from files, or from objects that are not watched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whit.config import Context
from whit.engine.memory.holders import Kept, renew
from whit.engine.memory.values import to_numpy
from whit.engine.realize.realize import realize
from whit.errors import JitError
from whit.ir.uop import UOp
from whit.jit.signature import MISSED, result_of
from whit.tensor.core import all_leaves
from whit.tensor.graphs.threefry import generator

TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}  # kernels may round in another order


class Snapshot:
    """What all tensors are. Memory that it refers to is not written while it lives."""

    def __init__(self) -> None:
        self.tensors = [(t, t.uop, t._family, t.grad, t._wanted) for t in all_leaves()]
        self._kept = [Kept(uop) for _, uop, _, _, _ in self.tensors]
        families = {id(family): family for _, _, family, _, _ in self.tensors if family is not None}
        self.families = [
            (family, family.uop, [(member, member.uop) for member in family.members()]) for family in families.values()
        ]
        self.random = generator.reserve(0, None, 0)

    def restore(self) -> None:
        """Puts everything back."""
        for tensor, uop, family, grad, wanted in self.tensors:
            tensor.uop, tensor._family, tensor.grad, tensor._wanted = uop, family, grad, wanted
            renew(tensor)
        for family, uop, members in self.families:
            family.uop = uop
            for member, view in members:
                member.uop, member._family = view, family
                renew(member)
        generator.reserve(0, *self.random)

    def changed(self) -> dict[int, Any]:
        """The values of tensors that are something else now, by their numbers."""
        return {n: value_of(t) for n, (t, uop, _, _, _) in enumerate(self.tensors) if t.uop is not uop}


def check(name: str, plain: Callable[[], Any], replay: Callable[[], Any]) -> Any:
    """Runs both and compares; the result of the replay."""
    before = Snapshot()
    with Context(JIT=0):
        expected = _results(name, plain())
        changed = before.changed()
    before.restore()
    result = replay()
    if result is MISSED:
        return result
    for number, (left, right) in enumerate(zip(expected, _results(name, result), strict=False)):
        _compare(name, f"result {number}", left, right)
    for number in changed.keys() | before.changed().keys():
        tensor, *_ = before.tensors[number]
        old = changed[number] if number in changed else _value(before.tensors[number][1], tensor._wanted)
        _compare(name, f"a tensor {tensor._made()}", old, value_of(tensor))
    return result


def value_of(tensor: Any) -> Any:
    """The elements of a tensor."""
    return _value(tensor.uop, tensor._wanted)


def _value(node: UOp, device: str | None) -> Any:
    (buffer,) = realize([node], device)
    return to_numpy(buffer)


def _results(name: str, result: Any) -> list[Any]:
    return [value_of(tensor) for tensor in result_of(name, result, {})[1]]


def _compare(name: str, what: str, expected: Any, found: Any) -> None:
    if not _is_close(expected, found):
        raise JitError(
            f"{name}: {what} differs from that of a plain run",
            f"plain {_few(expected)}, captured {_few(found)}",
            "The function depends on something that a capture does not see (docs/jit.md). Pass it as an argument.",
        )


def _is_close(expected: Any, found: Any) -> bool:
    import numpy as np  # lazy: `import whit` must not load it

    tolerance = TOLERANCE.get(expected.dtype.name, 0.0 if expected.dtype.kind in "biu" else 0.1)
    if expected.shape != found.shape or expected.dtype != found.dtype:
        return False
    if expected.dtype.kind in "biu":
        return bool((expected == found).all())
    left, right = expected.astype(np.float64), found.astype(np.float64)
    return bool(np.allclose(left, right, rtol=tolerance, atol=tolerance, equal_nan=True))


def _few(array: Any) -> str:
    return str(array.ravel()[:4].tolist())
