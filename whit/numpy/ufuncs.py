"""What functions of two operands have besides being called: `np.add.at`, `np.maximum.accumulate`, `np.multiply.outer`.

add_methods({"add": add})          add.reduce(x, axis=0), add.accumulate(x), add.outer(x, y), add.at(x, places, y)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whit.numpy.operands import tensor_of
from whit.tensor import Tensor

# name: (the reduction, what runs along an axis, what `x.at[...]` calls it)
_METHODS = {
    "add": ("sum", "cumsum", "add"),
    "multiply": ("prod", "cumprod", "multiply"),
    "maximum": ("max", "cummax", "max"),
    "minimum": ("min", "cummin", "min"),
}


def add_methods(functions: dict[str, Any]) -> None:
    """Gives functions by these names their methods."""
    for name, words in _METHODS.items():
        _add(functions[name], *words)


def _add(function: Any, whole: str, running: str, change: str) -> None:
    def reduce(array: Any, axis: Any = 0, keepdims: bool = False) -> Tensor:
        """All along an axis, to one."""
        return getattr(tensor_of(array), whole)(axis, keepdim=keepdims)  # type: ignore[no-any-return]

    def accumulate(array: Any, axis: int = 0) -> Tensor:
        """All up to each place."""
        found = getattr(tensor_of(array), running)(axis)
        return found[0] if isinstance(found, tuple) else found  # type: ignore[no-any-return]

    def outer(a: Any, b: Any) -> Tensor:
        """Of each element of one and each of the other."""
        first, second = tensor_of(a), tensor_of(b)
        return function(first.reshape(*first.shape, *(1,) * second.ndim), second)  # type: ignore[no-any-return]

    def at(a: Tensor, indices: Any, b: Any) -> None:
        """Writes into a; a position that is named twice is changed twice."""
        a.assign(getattr(a.at[indices], change)(b))

    methods: dict[str, Callable[..., Any]] = {"reduce": reduce, "accumulate": accumulate, "outer": outer, "at": at}
    for name, method in methods.items():
        setattr(function, name, method)
