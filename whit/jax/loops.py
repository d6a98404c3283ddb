"""Control flow of `jax.lax` as Python runs it: what `whit.scan` and its neighbours mean, one step after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whit.errors import ArgumentError
from whit.jax import tree
from whit.jax.transforms import as_arrays
from whit.tensor import Tensor

Function = Callable[..., Any]


def scan(
    f: Function, init: Any, xs: Any = None, length: int | None = None, reverse: bool = False, unroll: Any = 1, **_: Any
) -> tuple[Any, Any]:
    """(carry, x) -> (carry, y) for each x in turn: the last carry, and all y."""
    leaves = tree.leaves(xs)
    sizes = {leaf.shape[0] for leaf in leaves} | ({length} if length is not None else set())
    if len(sizes) != 1:
        raise ArgumentError(f"scan: lengths {sorted(sizes)}", fix="Give xs of one length, or length=.")
    (count,) = sizes
    carry, ys = as_arrays(init), []
    for step in reversed(range(count)) if reverse else range(count):
        carry, y = f(carry, tree.map(lambda leaf, step=step: leaf[step], xs))
        ys.append(as_arrays(y))
    ys = ys[::-1] if reverse else ys
    if not ys:
        raise ArgumentError("scan: of no steps", fix="Give a length of at least 1.")
    return carry, tree.map(lambda *each: Tensor.stack(list(each)), ys[0], *ys[1:])


def while_loop(cond_fun: Function, body_fun: Function, init_val: Any) -> Any:
    """Again as long as the condition holds."""
    value = as_arrays(init_val)
    while bool(cond_fun(value).item()):
        value = as_arrays(body_fun(value))
        Tensor.realize(*tree.leaves(value))
    return value


def fori_loop(lower: Any, upper: Any, body_fun: Function, init_val: Any, **_: Any) -> Any:
    """For every number from lower on, below upper."""
    ends = [int(end.item()) if isinstance(end, Tensor) else end for end in (lower, upper)]
    value = as_arrays(init_val)
    for i in range(*ends):
        value = as_arrays(body_fun(Tensor(i), value))
    return value


def cond(pred: Any, true_fun: Function, false_fun: Function, *operands: Any) -> Any:
    """One of two functions."""
    if not isinstance(pred, Tensor):
        return true_fun(*operands) if pred else false_fun(*operands)
    both = [as_arrays(function(*[as_arrays(each) for each in operands])) for function in (true_fun, false_fun)]
    return tree.map(lambda yes, no: pred.cast("bool").where(yes, no), *both)


def map(f: Function, xs: Any, **_: Any) -> Any:
    """f of each x in turn."""
    return scan(lambda carry, x: (carry, f(x)), Tensor(0), xs)[1]
