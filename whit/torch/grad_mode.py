"""`no_grad`, `enable_grad`, `set_grad_enabled`, `inference_mode`: where gradients are not to flow.

whit keeps nothing for gradients that nobody asks for, so these save no memory. They mean what they mean elsewhere: at
the end of the block, what was computed inside of it is cut from what it was computed from, and parameters that were
written to are computed, as after a step of an optimiser. `with torch.no_grad(): weight -= rate * weight.grad`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from whit.engine.memory.holders import Holder, holders, newer_than, newest
from whit.ir import ops
from whit.tensor import Tensor
from whit.tensor.core import Leaf
from whit.tensor.family import change_all
from whit.tensor.methods.gradients.backward import unrealised_roots

_PLAIN = (ops.BUFFER, ops.CONST, ops.LEAF)  # nodes of leaves that nobody has written to

# When gradients were switched off: the number of the newest tensor, and all that there were; None where they flow.
_since: ContextVar[tuple[int, frozenset[Holder]] | None] = ContextVar("_since", default=None)


def is_grad_enabled() -> bool:
    """Whether gradients flow through what is computed now."""
    return _since.get() is None


def _switch(mode: bool) -> None:
    """From now on gradients flow, or not; where they did not, what was computed meanwhile is cut off."""
    since = _since.get()
    if (since is None) == mode:
        return
    if since is None:
        _since.set((newest(), frozenset(holders)))
        return
    _since.set(None)
    _cut(*since)


def _cut(since: int, before: frozenset[Holder]) -> None:
    """Results that were computed since then take no gradient; leaves that were written to are computed."""
    written, changes = [], []
    for holder in newer_than(since):
        tensor = holder()
        if not isinstance(tensor, Tensor) or not tensor.dtype.is_float:
            continue
        if isinstance(holder, Leaf):
            written += [tensor] if tensor.uop.op not in _PLAIN else []
        elif holder not in before and not tensor.requires_grad and tensor.uop.op is not ops.DETACH:
            changes += [(tensor, "uop", tensor.uop.detach()), (tensor, "requires_grad", False)]
    change_all(changes)
    if written:
        gradients = [tensor.grad for tensor in written if tensor.grad is not None]
        Tensor.realize(*written, *gradients, *unrealised_roots(written))


class set_grad_enabled:  # noqa: N801  # PyTorch's name
    """Switches gradients on or off: at once, and back at the end of a `with` block. Also decorates functions."""

    def __init__(self, mode: bool) -> None:
        self._mode = bool(mode)
        self._before = is_grad_enabled()
        _switch(self._mode)

    def __enter__(self) -> None:
        _switch(self._mode)

    def __exit__(self, *error: object) -> None:
        _switch(self._before)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        _switch(self._before)
        return _decorated(function, self._mode)


class _Block:
    """A `with` block, or a decorator with or without brackets."""

    mode = False

    def __new__(cls, function: Any = None, *args: Any, **given: Any) -> Any:
        if callable(function):
            return _decorated(function, cls.mode)
        return super().__new__(cls)

    def __init__(self, function: Any = None) -> None:
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(is_grad_enabled())
        _switch(self._wanted())

    def __exit__(self, *error: object) -> None:
        _switch(self._before.pop())

    def __call__(self, *function: Any) -> Any:
        return _decorated(function[0], self._wanted())

    def _wanted(self) -> bool:
        return self.mode


class no_grad(_Block):  # noqa: N801  # PyTorch's name
    """No gradient flows through what is computed in this block."""


class enable_grad(_Block):  # noqa: N801  # PyTorch's name
    """Gradients flow again, inside of `no_grad`."""

    mode = True


class inference_mode(_Block):  # noqa: N801  # PyTorch's name
    """The same as `no_grad`; `inference_mode(False)` as `enable_grad`."""

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self._off = not mode

    def _wanted(self) -> bool:
        return self._off


def is_inference_mode_enabled() -> bool:
    """The opposite of `is_grad_enabled`: there is one mode here."""
    return not is_grad_enabled()


def _decorated(function: Callable[..., Any], mode: bool) -> Callable[..., Any]:
    """A function whose calls are such blocks."""

    @functools.wraps(function)
    def call(*args: Any, **given: Any) -> Any:
        before = is_grad_enabled()
        _switch(mode)
        try:
            return function(*args, **given)
        finally:
            _switch(before)

    return call
