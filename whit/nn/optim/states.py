"""What optimisers keep, in PyTorch's structure.

{"state": {0: {"step": ..., "exp_avg": ..., "exp_avg_sq": ...}, 1: ...},
 "param_groups": [{"lr": 0.001, "betas": (0.9, 0.999), ..., "params": [0, 1]}]}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from whit.errors import ArgumentError, ShapeError
from whit.ir.op import spell_shape
from whit.nn.optim.parts import as_parts, from_parts
from whit.tensor import Tensor

if TYPE_CHECKING:
    from whit.nn.optim.base import Optimizer


def _kept(optimizer: Optimizer) -> dict[str, list[Tensor]]:
    """By PyTorch's name what is kept for each parameter, in its shape."""
    found = {name: getattr(optimizer, label, []) for name, label in optimizer.saved.items()}
    return {name: optimizer._pieces(states) for name, states in found.items() if states}


def to_state_dict(optimizer: Optimizer) -> dict[str, Any]:
    """The tensors are copies."""
    state: dict[int, Any] = {}
    start = 0
    for part in optimizer._parts():
        state.update({start + place: parts for place, parts in _state_of(part).items()})
        start += len(part.params)
    groups, start = [], 0
    for group in optimizer.param_groups:
        numbers = list(range(start, start + len(group.params)))
        start += len(numbers)
        groups.append({"lr": group.number(), **group.settings, "params": numbers})
    return {"state": state, "param_groups": groups}


def _state_of(optimizer: Optimizer) -> dict[int, dict[str, Tensor]]:
    """What is kept for each parameter of the groups that an optimiser was made with."""
    kept, steps = _kept(optimizer), optimizer._count()
    count = None if steps is None else float(steps.item())
    state = {}
    if count != 0:
        for place in range(len(optimizer.params)):
            dtype = optimizer.params[place].dtype
            parts = {name: from_parts(states[place], dtype).clone().realize() for name, states in kept.items()}
            state[place] = parts if count is None else {"step": Tensor(count), **parts}
    return {place: parts for place, parts in state.items() if parts}


def from_state_dict(optimizer: Optimizer, given: Mapping[str, Any]) -> None:
    """Writes all into the optimiser, after looking whether it fits."""
    groups = _fitting(optimizer, given)
    numbers = [number for group in groups for number in group["params"]]
    states = [given["state"].get(number, {}) for number in numbers]
    shares, writes = [], []
    for part in optimizer._parts():
        shares.append(states[: len(part.params)])
        writes += _writes(part, shares[-1])
        states = states[len(part.params) :]
    for group, other in zip(optimizer.param_groups, groups, strict=True):
        for key, value in other.items():
            if key in group.settings:
                group.settings[key] = optimizer._checked_setting(type(optimizer).__name__, key, _plain(value))
        group["lr"] = float(other["lr"])
    for part, share in zip(optimizer._parts(), shares, strict=True):
        part._set_count(max((float(state["step"]) for state in share if "step" in state), default=0.0))
    for target, value in writes:
        target.assign(value.to(target.device).cast(target.dtype))
    if writes:
        Tensor.realize(*(target for target, _ in writes))


def _fitting(optimizer: Optimizer, given: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The groups of a state, of as many parameters as those of the optimiser."""
    if not {"state", "param_groups"} <= set(given):
        raise ArgumentError(
            f"load_state_dict: this is no state of an optimiser: {', '.join(map(str, given)):.100}",
            fix="Give what state_dict() gave; tensors of get_state_dict(opt) go into nn.state.load_state_dict.",
        )
    groups: list[Mapping[str, Any]] = list(given["param_groups"])
    sizes = [len(group["params"]) for group in groups]
    own = [len(group.params) for group in optimizer.param_groups]
    if sizes != own:
        raise ArgumentError(
            f"load_state_dict: groups of {sizes} parameters for groups of {own}",
            fix="Make the optimiser with the same groups.",
        )
    return groups


def _plain(value: Any) -> Any:
    """Lists of files are tuples again."""
    return tuple(value) if isinstance(value, list) else value


def _writes(optimizer: Optimizer, states: list[Mapping[str, Any]]) -> list[tuple[Tensor, Tensor]]:
    """What goes where: zeros where nothing was kept yet."""
    found = []
    for name, pieces in _kept(optimizer).items():
        for place, piece in enumerate(pieces):
            value = states[place].get(name)
            if value is None:
                continue
            tensor = value if isinstance(value, Tensor) else Tensor(getattr(value, "numpy", lambda v=value: v)())
            if optimizer.params[place].dtype.is_complex:
                tensor = as_parts(tensor)
            if tensor.numel() != piece.numel():
                raise ShapeError(
                    f"load_state_dict: {name} {spell_shape(tensor.shape)} for a parameter {spell_shape(piece.shape)}",
                    fix="Make the optimiser with the same parameters, in the same order.",
                )
            found.append((piece, tensor.reshape(piece.shape).detach()))
    return found
