"""A model as a function of its tensors: `functional_call(model, tensors, x)`.

    params = get_state_dict(model)
    loss = lambda params, x, y: functional_call(model, params, x).cross_entropy(y)
    grad(loss)(params, x, y)                            a gradient under each name

The model stays what it is: it is copied, with other tensors in it, and the copy is called. Only what has tensors is
copied, so this is a walk over its layers. A tensor that is there twice is given by one of its names, or by both.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from whit.containers import opened
from whit.errors import ArgumentError, MissingError, nearest
from whit.nn.state.model import get_state_dict, parts_of
from whit.records import is_dataclass
from whit.tensor import Tensor


def functional_call(model: Any, tensors: Mapping[str, Tensor], /, *args: Any, **kwargs: Any) -> Any:
    """model(*args, **kwargs), with these tensors in the place of those that have their names in it.

    Names are those of `get_state_dict`; the others stay what they are. What the call writes into a tensor that was
    given is written there, and attributes that it sets are forgotten.
    """
    if not callable(model):
        raise ArgumentError(f"functional_call: {model!r:.60} cannot be called", fix="Pass a model, or a layer.")
    if not isinstance(tensors, Mapping):
        raise ArgumentError(
            f"functional_call: {tensors!r:.60} is no dictionary", fix="Pass tensors by name, as get_state_dict() gives."
        )
    own = get_state_dict(model)
    for name in tensors:
        if name not in own:
            raise MissingError(
                f"functional_call: the model has no tensor {name!r}.{nearest(name, own)}",
                fix="Names are those of get_state_dict(model).",
            )
    given = {id(own[name]): tensor for name, tensor in tensors.items()}
    return _copied(model, given, {})(*args, **kwargs)


def _copied(value: Any, given: Mapping[int, Any], done: dict[int, Any]) -> Any:
    """A value with other tensors in it: the same object where nothing in it is another one."""
    if isinstance(value, Tensor):
        return given.get(id(value), value)
    if id(value) in done:
        return done[id(value)]
    done[id(value)] = value  # of what is in itself the inner one stays
    found = value if isinstance(value, type) else _container(value, given, done)
    done[id(value)] = found
    return found


def _container(value: Any, given: Mapping[int, Any], done: dict[int, Any]) -> Any:
    is_object = hasattr(value, "__dict__") or is_dataclass(value)
    if is_object and not isinstance(value, list | tuple | Mapping):
        parts = dict(parts_of(value))
        made = {name: _copied(part, given, done) for name, part in parts.items()}
        if all(made[name] is part for name, part in parts.items()):
            return value
        other = copy.copy(value)
        for name, part in made.items():
            object.__setattr__(other, name, part)
        return other
    found = opened(value)
    if found is None:
        return value
    inside = [_copied(part, given, done) for part in found.parts]
    return value if all(a is b for a, b in zip(inside, found.parts, strict=True)) else found.rebuild(inside)
