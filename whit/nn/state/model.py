"""The tensors of a model by name, and putting others in their place.

A model is any object: its tensors are found in attributes, lists, tuples, dictionaries, named tuples and dataclasses,
and named after the way to them, as PyTorch does: `layers.0.weight`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any, NamedTuple

from whit.containers import opened_registered
from whit.engine.devices.device import is_disk
from whit.errors import UserError, nearest
from whit.ir.op import spell_shape
from whit.records import fields, is_dataclass
from whit.tensor import Tensor

MOST_SHOWN = 20  # lines of each kind of problem in a message


def get_state_dict(obj: Any, prefix: str = "", tensor_type: type = Tensor) -> dict[str, Any]:
    """The tensors in an object by name. A tensor that is there twice has two names; cycles are walked once."""
    found: dict[str, Any] = {}
    stack: list[tuple[str, Any, tuple[int, ...]]] = [(prefix, obj, ())]
    while stack:
        name, value, parents = stack.pop()
        if isinstance(value, tensor_type):
            found[name.strip(".")] = value
        elif id(value) not in parents:
            inside = (*parents, id(value))
            stack += [(f"{name}{key}.", part, inside) for key, part in reversed(list(parts_of(value)))]
    return found


def parts_of(value: Any) -> Iterator[tuple[str, Any]]:
    """What is in an object, with the names of the places."""
    if isinstance(value, str | bytes | int | float | type) or value is None:
        return
    own = getattr(type(value), "named_tensors", None)
    if own is not None:  # it is told what is in it: a model whose tensors are no attributes
        yield from own(value).items()
    elif isinstance(value, tuple) and hasattr(value, "_asdict"):
        yield from value._asdict().items()
    elif isinstance(value, Mapping):
        yield from ((str(key), part) for key, part in value.items())
    elif isinstance(value, list | tuple):
        yield from ((str(i), part) for i, part in enumerate(value))
    else:
        yield from _attributes(value)


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """The attributes of an object; the parts of a registered container that has none."""
    names = dict.fromkeys(getattr(value, "__dict__", {}))
    if is_dataclass(value):
        names = dict.fromkeys(field.name for field in fields(value)) | names
    registered = None if names else opened_registered(value)
    if registered is not None:
        yield from ((str(i), part) for i, part in enumerate(registered.parts))
    yield from ((name, getattr(value, name)) for name in names if hasattr(value, name))


def get_parameters(obj: Any) -> list[Tensor]:
    """What an optimiser trains: the float tensors in an object, each once, without those of `requires_grad=False`."""
    tensors = {id(tensor): tensor for tensor in get_state_dict(obj).values()}
    return [t for t in tensors.values() if t.is_floating_point() and t.requires_grad is not False]


def load_state_dict(
    model: Any,
    state_dict: MutableMapping[str, Tensor],
    strict: bool = True,
    verbose: bool = True,
    consume: bool = False,
    realize: bool = True,
) -> list[Tensor]:
    """Gives the tensors of a model the values of others of the same names; returns the tensors of the model.

    The model keeps its dtypes and devices: values are cast and moved. With `strict`, each name must be on both sides;
    without, names that are not are left alone, and told on stderr if `verbose`. Shapes must be equal (one element of
    shape () or (1,) is both). Nothing is changed unless all fits. `consume` empties `state_dict` on the way, so
    that values can be freed; `realize=False` leaves values to be read and computed when they are needed.
    """
    own = get_state_dict(model)
    _check(own, state_dict, strict, verbose)
    done: dict[int, Tensor] = {}
    for name, tensor in own.items():
        if name not in state_dict:
            continue
        value = state_dict[name]
        if consume:
            del state_dict[name]
        if not isinstance(value, Tensor):
            value = Tensor(value, "CPU")
        _put(tensor, value)
        if realize:
            tensor.realize()
        done[id(tensor)] = tensor
    return list(done.values())


class IncompatibleKeys(NamedTuple):
    """The names that only the model has, and those that only the dictionary has."""

    missing_keys: list[str]
    unexpected_keys: list[str]


def load_named(model: Any, state_dict: Mapping[str, Tensor], strict: bool, assign: bool) -> IncompatibleKeys:
    """The same as PyTorch's modules have it: what is left alone is returned. With `assign`, the tensors of the model
    become the values, with their dtypes and devices."""
    own = get_state_dict(model)
    if assign:
        _check(own, state_dict, strict, verbose=False)
        for name, tensor in own.items():
            if name in state_dict:
                value = state_dict[name]
                given = value if isinstance(value, Tensor) else Tensor(value)
                tensor.replace(given.detach())
    else:
        load_state_dict(model, dict(state_dict), strict=strict, verbose=False)
    missing = _missing(own, [name for name in own if name in state_dict])
    return IncompatibleKeys(missing, [name for name in state_dict if name not in own])


def _put(tensor: Tensor, value: Tensor) -> None:
    """The tensor gets the value, in its own dtype and on its own device; views of it see that. Files stay as they are:
    a tensor of a file becomes the value instead."""
    shaped = value if value.shape == tensor.shape else value.reshape(tensor.shape)
    if is_disk(tensor.device):
        in_memory = shaped.to(None) if is_disk(shaped.device) else shaped
        tensor.replace(in_memory.cast(tensor.dtype))
        return
    moved = shaped if shaped.device == tensor.device else shaped.to(tensor.device)
    tensor.assign(moved if moved.dtype is tensor.dtype else moved.cast(tensor.dtype))


def _check(own: dict[str, Tensor], given: Mapping[str, Any], strict: bool, verbose: bool) -> None:
    """All problems in one error, before anything is changed."""
    both = [name for name in own if name in given]
    missing = _missing(own, both)
    unexpected = [name for name in given if name not in own]
    shapes = [name for name in both if not _fits(own[name].shape, tuple(given[name].shape))]
    lines = _listed("shapes differ", [f"{name}: {_differ(own[name], given[name])}" for name in shapes])
    names = _listed("missing", [f"{name}{nearest(name, unexpected)}" for name in missing])
    names += _listed("unexpected", [f"{name}{nearest(name, missing)}" for name in unexpected])
    count = len(shapes) + (len(missing) + len(unexpected)) * strict
    if count:
        raise StateError(
            f"load_state_dict: {count} of {len(own)} tensors of the model and {len(given)} given ones do not fit",
            "\n".join(lines + names * strict),
            _fix(missing, unexpected, bool(shapes)),
        )
    if names and verbose:
        print("\n".join(["load_state_dict:", *names]), file=sys.stderr)


def _missing(own: dict[str, Tensor], loaded: Iterable[str]) -> list[str]:
    """The names of tensors that are loaded under none of their names."""
    found = {id(own[name]) for name in loaded}
    return [name for name, tensor in own.items() if id(tensor) not in found]


def _fits(own: tuple[Any, ...], given: tuple[Any, ...]) -> bool:
    return own == given or {own, given} == {(), (1,)}


def _differ(own: Tensor, given: Any) -> str:
    return f"the model has {spell_shape(own.shape)}, given {spell_shape(tuple(given.shape))}"


def _listed(title: str, lines: list[str]) -> list[str]:
    if not lines:
        return []
    more = [f"  ... and {len(lines) - MOST_SHOWN} more"] if len(lines) > MOST_SHOWN else []
    return [f"{title}:", *[f"  {line}" for line in lines[:MOST_SHOWN]], *more]


def _fix(missing: list[str], unexpected: list[str], shapes: bool) -> str:
    """A prefix that all names of one side have is the most common reason."""
    for names, others, verb in ((unexpected, missing, "Remove"), (missing, unexpected, "Add")):
        for name in names[:1]:
            other = next((other for other in others if name.endswith(f".{other}")), None)
            if other is not None:
                return f'{verb} the prefix "{name.removesuffix(other)}" of the given names.'
    if shapes:
        return "Make the model with the sizes that the values have."
    return "Rename them, or use strict=False to leave them alone."


class StateError(UserError, KeyError, RuntimeError):
    """A model and the values for it have different names or shapes."""

    __str__ = UserError.__str__
