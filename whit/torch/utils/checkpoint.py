"""`torch.utils.checkpoint`: what a function computes is computed again for its gradient, instead of being kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whit.tensor.recompute import checkpoint as _checkpoint


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    determinism_check: str = "default",
    debug: bool = False,
    **kwargs: Any,
) -> Any:
    """function(*args, **kwargs), whose results in between are not kept. Random numbers are the same both times."""
    return _checkpoint(function, *args, **kwargs)


def checkpoint_sequential(functions: Any, segments: int, input: Any, **options: Any) -> Any:
    """Layers one after another, of which only what is between `segments` parts is kept."""
    layers = list(functions)
    size = -(-len(layers) // segments)
    for start in range(0, len(layers), size):
        part = layers[start : start + size]

        def run(x: Any, part: list[Any] = part) -> Any:
            for layer in part:
                x = layer(x)
            return x

        input = checkpoint(run, input)
    return input
