"""Control flow in the graph: `scan`, `map`, `while_loop`, `fori_loop`, `cond`, under JAX's names and signatures.

    carry, ys = whit.scan(lambda c, x: (c + x, c), init, xs)

A function of tensors runs once, on tensors that stand for those of any step; what it made is the body of a node of the
graph, which is scheduled and compiled once (docs/control-flow.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["cond", "fori_loop", "map", "scan", "while_loop"]


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: Any = None,
    reverse: bool = False,
    unroll: int = 1,
) -> tuple[Any, Any]:
    """(state, ys): a state carried through steps, `state, y = f(state, x)`, and what they return, stacked.

    `xs` is a tensor, or containers of them: x has their parts along the first axis, in order, or from the end with
    `reverse`. Without it steps get None, and `length` says how many there are. States keep their shapes and dtypes.
    `unroll` is taken and does nothing: steps have no overhead to share.
    """
    from whit.tensor.control.loops import scanned  # lazy: it loads the runtime, which `import whit` must not

    return scanned(f, init, xs, length, reverse)


def map(f: Callable[[Any], Any], xs: Any) -> Any:  # noqa: A001  as in JAX
    """f of each part of xs along the first axis, one after another, stacked; `vmap` takes them all at once."""
    from whit.tensor.control.loops import mapped  # lazy: as above

    return mapped(f, xs)


def while_loop(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any) -> Any:
    """The state after `while cond_fun(state): state = body_fun(state)`, from init_val on.

    `cond_fun` gives one bool. Nobody knows how many steps there will be, so there is no reverse gradient; `jvp` works.
    """
    from whit.tensor.control.loops import looped  # lazy: as above

    return looped(cond_fun, body_fun, init_val)


def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init_val: Any) -> Any:
    """The state after `for i in range(lower, upper): state = body_fun(i, state)`; i is a tensor.

    With bounds that are known it is a scan, which has gradients; bounds that are tensors make it a while loop.
    """
    from whit.tensor.control.loops import counted  # lazy: as above

    return counted(lower, upper, body_fun, init_val)


def cond(pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any) -> Any:
    """true_fun(*operands) if pred is true, else false_fun(*operands): only one of them runs.

    pred is a tensor of shape (), or a number; both functions return containers of the same kinds, with tensors of the
    same shapes and dtypes. `where` takes one of two for each element.
    """
    from whit.tensor.control.branches import chosen  # lazy: as above

    return chosen(pred, true_fun, false_fun, operands)
