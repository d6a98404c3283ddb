"""What all optimisers share: checked parameters, a learning rate in memory, and steps as graphs.

A subclass says what it keeps for each parameter (`_keep`, in its constructor) and how one changes (`_change`). With
`fused=True` parameters of one dtype and device become views of one flat tensor, which is changed as one. Everything
that is written goes through `_write`, so that a whole step can be taken back by a condition.

All constructors take besides what they say themselves:

    params          tensors, or dictionaries of tensors and settings of their own (groups.py)
    state_dtype     of what is kept; by default that of the parameter, but at least float32
    state_device    where it is kept, and where the change is computed
    masters         parameters of less than 32 bits are kept in float32 too, and rounded from there after each step
    maximize        goes up along the gradient

`foreach`, `capturable` and `differentiable` are accepted, and change nothing. Complex parameters are changed by their
parts (parts.py), each in memory of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar, TypedDict, Unpack

from whit.device import canonicalize
from whit.dtype import DType, dtypes
from whit.errors import ArgumentError, DTypeError, ShapeError, UserError
from whit.ir.op import spell_shape
from whit.names import unknown_argument
from whit.nn.optim.flat import Flat
from whit.nn.optim.groups import Group, Hidden, groups_of, rate_tensor
from whit.nn.optim.parts import as_parts, from_parts, parts_dtype
from whit.nn.optim.states import from_state_dict, to_state_dict
from whit.tensor import Tensor
from whit.tensor.methods.gradients.backward import unrealised_roots, unrealised_states


class StateOptions(TypedDict, total=False):
    """How an optimiser keeps its states."""

    state_dtype: DType | None
    state_device: str | None
    masters: bool
    maximize: bool
    foreach: bool | None
    capturable: bool
    differentiable: bool


Params = Any  # tensors, with names or without; groups; containers of tensors


class Optimizer:
    """Parameters and a learning rate. `lr` is a tensor of one element: writing to it changes no kernel, whether by
    `lr.assign(...)` or by `opt.lr = 0.5`. Groups after the first have their rates in `rates`."""

    lr: Any  # a tensor; a number that is set is written into it
    below: ClassVar[Mapping[str, float]] = {}  # what settings must be below; all are at least 0
    signed: ClassVar[frozenset[str]] = frozenset()  # settings that may be below 0
    takes_complex: ClassVar[bool] = True
    saved: ClassVar[Mapping[str, str]] = {}  # PyTorch's name of what is kept for a parameter -> the attribute

    def __init__(
        self,
        params: Params,
        lr: float,
        fused: bool | None = False,
        settings: Mapping[str, Any] | None = None,
        **kept: Unpack[StateOptions],
    ) -> None:
        name = type(self).__name__
        self._check_names(kept)
        defaults = {**(settings or {}), "maximize": kept.get("maximize", False)}
        groups = groups_of(name, params, lr, defaults)
        self.params = _checked(name, [tensor for group in groups for tensor in group.params])
        self._share_out(groups)
        self.state_dtype = _state_dtype(name, kept.get("state_dtype"))
        device = kept.get("state_device")
        self.device = self.params[0].device if device is None else canonicalize(device)
        self._moves = device is not None
        self._defaults = Hidden({"lr": lr, **defaults})
        self._added: list[Optimizer] = []  # one for each group that was added later: it counts its own steps
        for group in groups:
            for key, value in group.settings.items():
                group.settings[key] = self._checked_setting(name, key, value)
            group.lr = group.lr if group.lr.device == self.device else group.lr.to(self.device).realize()
        self.lr, self.rates = groups[0].lr, [group.lr for group in groups[1:]]
        self._groups = Hidden(groups)
        self.fused = fused = self._is_fused(name, fused)
        Tensor.realize(*self.params)  # weights that are computed from nothing would be computed again in every step
        self._flat: list[Flat] = []
        self._members = [[place] for place in range(len(self.params))]  # the parameters of each tensor that is changed
        self._check_fused(fused)
        if fused:
            self._members = list(self._alike().values())
            self._flat = [self._flatten([self.params[i] for i in members]) for members in self._members]
        self._skip: Tensor | None = None  # while a step is made: the condition under which it changes nothing
        self._numbers: dict[Hashable, Tensor] = {}  # the same: what `_number` gave
        self.masters = [self._master(tensor) for tensor in self._whole] if kept.get("masters") else []

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "lr" or "lr" not in self.__dict__:
            super().__setattr__(name, value)
            return
        rate_tensor(type(self).__name__, value, self.lr)  # before anything is written
        for group in self.param_groups:
            group.write(value)

    @property
    def param_groups(self) -> list[Group]:
        """Parameters with their settings. `group["lr"] = 0.5` writes into its tensor; other settings are part of
        kernels, which are compiled again."""
        return [group for part in self._parts() for group in part._groups.content]

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """One group more, as of layers that are trained from now on. Settings that it does not say are those that the
        optimiser was made with. Schedules are made afterwards."""
        name = type(self).__name__
        if not isinstance(param_group, Mapping) or "params" not in param_group:
            raise ArgumentError(f"{name}: the group {param_group!r:.60}", fix='It is a dictionary with "params".')
        added = type(self)([param_group], **self._made_with())
        _checked(name, [*self._all_params(), *added.params])
        self._added.append(added)
        self.rates = [*self.rates, added.lr]

    def _made_with(self) -> dict[str, Any]:
        """The arguments of the constructor but the parameters."""
        import inspect  # lazy: for a call that few programs make

        known = {**vars(self), **self._defaults.content}
        found = {key: known[key] for key in inspect.signature(type(self)).parameters if key in known}
        found.pop("params")
        options = {"state_device": self.device if self._moves else None, "masters": bool(self.masters)}
        return {**found, **options, "state_dtype": self.state_dtype, "maximize": known["maximize"]}

    def _parts(self) -> Sequence[Optimizer]:
        return (self, *self._added)

    def _all_params(self) -> list[Tensor]:
        """Of all groups, also those that were added."""
        return [tensor for part in self._parts() for tensor in part.params]

    def _share_out(self, groups: list[Group]) -> None:
        """Which group each parameter is in; tensors that are not trained are in none."""
        wanted = {id(tensor) for tensor in self.params}
        self._places: list[int] = []
        for place, group in enumerate(groups):
            group.params = [tensor for tensor in group.params if id(tensor) in wanted]
            self._places += [place] * len(group.params)

    def _checked_setting(self, name: str, key: str, value: Any) -> Any:
        """A setting in its range: numbers are at least 0, betas below 1."""
        if key == "betas":
            if not isinstance(value, tuple | list) or len(value) != 2:
                raise ArgumentError(f"{name}: betas={value!r}", fix="They are two numbers.")
            return tuple(number(name, f"b{i}", beta, below=1.0) for i, beta in enumerate(value, 1))
        if value is None or isinstance(value, bool | str | tuple) or key in ("initial_lr", "max_lr", "min_lr"):
            return value
        return number(name, key, value, -math.inf if key in self.signed else 0.0, self.below.get(key))

    def _is_fused(self, name: str, fused: bool | None) -> bool:
        """Whether parameters become views of flat tensors: complex ones do not. Some optimisers refuse those."""
        for place, tensor in enumerate(self.params):
            if tensor.dtype.is_complex and not self.takes_complex:
                raise DTypeError(
                    f"{name}: parameter {place} is {tensor.dtype.name}, and {name} takes real parameters",
                    f"parameter {tensor._made()}",
                    "Give it to another optimiser, as AdamW, or train view_as_real() of it.",
                )
        return bool(fused) and not any(tensor.dtype.is_complex for tensor in self.params)

    def _check_fused(self, fused: bool) -> None:
        """Refuses what cannot be changed as one."""

    def _check_names(self, kept: Iterable[str]) -> None:
        """Refuses settings that no optimiser has."""
        for label in kept:
            if label not in StateOptions.__annotations__:
                import inspect  # lazy: for a message alone

                known = [*inspect.signature(type(self)).parameters, *StateOptions.__annotations__]
                raise unknown_argument(type(self).__name__, label, known)

    @property
    def _whole(self) -> list[Tensor]:
        """The tensors that are changed: parameters, or flat ones."""
        return [flat.tensor for flat in self._flat] if self.fused else self.params

    def _alike(self) -> dict[Hashable, list[int]]:
        """The parameters that can be one tensor."""
        groups: dict[Hashable, list[int]] = {}
        for place, tensor in enumerate(self.params):
            groups.setdefault((self._places[place], self._kind(tensor)), []).append(place)
        return groups

    # ---- for subclasses

    def _kind(self, tensor: Tensor) -> tuple[Hashable, ...]:
        """What parameters have in common that a fused step changes as one."""
        return tensor.dtype, tensor.device

    def _flatten(self, params: list[Tensor]) -> Flat:
        """Parameters as one tensor."""
        return Flat(params)

    def _group(self, index: int) -> Group:
        """The settings of one tensor that is changed."""
        group: Group = self._groups.content[self._places[self._members[index][0]]]
        return group

    def _keep(self) -> list[Tensor]:
        """A state of zeros for each tensor that is changed."""
        states = [self._zeros(tensor) for tensor in self._whole]
        Tensor.realize(*states)
        return states

    def _asked(self, key: str) -> bool:
        """Whether any group has a setting that is not 0 or False."""
        return any(group[key] for group in self._groups.content)

    def _decayed(self, index: int, weight: Tensor, grad: Tensor) -> Tensor:
        """The gradient with weight_decay times the weight."""
        decay = self._group(index)["weight_decay"]
        return grad + decay * weight if decay else grad

    def _rate(self, index: int, weight: Tensor) -> Tensor:
        """The learning rate beside a tensor that is changed."""
        return self._number(self._group(index).lr, weight)

    def _change(self, index: int, weight: Tensor, grad: Tensor) -> Tensor:
        """What is subtracted from one tensor; writes the states on the way. All in at least float32."""
        raise NotImplementedError(type(self).__name__)

    def _begin(self) -> list[Tensor]:
        """Changes what is kept once for all parameters, and returns it."""
        return []

    def _states(self) -> list[Tensor]:
        """What is kept for parameters."""
        return [tensor for name in dict.fromkeys(self.saved.values()) for tensor in getattr(self, name, ())]

    def _count(self) -> Tensor | None:
        """How many steps were made, one element; None if nobody counts."""
        return None

    def _set_count(self, steps: float) -> None:
        """Goes on as after so many steps."""

    def _pieces(self, states: list[Tensor]) -> list[Tensor]:
        """What is kept for each tensor that is changed -> for each parameter, in its shape; views."""
        if not self.fused:
            return states
        found: dict[int, Tensor] = {}
        for members, flat, whole in zip(self._members, self._flat, states, strict=True):
            for place, start, size in zip(members, flat._starts(), flat.sizes, strict=True):
                found[place] = whole[start : start + size].reshape(self.params[place].shape)
        return [found[place] for place in range(len(self.params))]

    def _number(self, values: Tensor, like: Tensor, place: int = 0) -> Tensor:
        """A number that is kept once, as it is used beside a parameter."""
        key = (id(values), place, like.dtype, like.device)
        if key not in self._numbers:
            self._numbers[key] = values[place].to(like.device).cast(like.dtype)
        return self._numbers[key]

    def _write(self, state: Tensor, value: Tensor) -> Tensor:
        """Writes a state unless the step is skipped; what it is now, in the dtype of the value."""
        new = value.detach().cast(state.dtype)
        if self._skip is not None:
            new = self._skip.to(state.device).where(state, new)
        state.assign(new)
        return state.cast(value.dtype)

    # ---- for programs

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients."""
        for tensor in self._all_params():
            tensor.grad = None

    def step(self, skip: Tensor | Callable[[], Any] | None = None) -> Any:
        """Changes the parameters, and computes the loss with them if it is still lazy. With `skip`, a bool tensor of
        one element, nothing changes where it is true. A function in its place, PyTorch's closure, is called first:
        it computes gradients, and returns the loss."""
        found = None if isinstance(skip, Tensor) or not callable(skip) else skip()
        condition = skip if isinstance(skip, Tensor) or not callable(skip) else None
        losses = unrealised_roots(self._all_params())
        Tensor.realize(*self.schedule_step(condition), *losses)
        return found

    def state_dict(self) -> dict[str, Any]:
        """What is kept, in the structure of PyTorch: `state` by number of the parameter, and `param_groups`.

        For a file of tensors, `nn.state.get_state_dict(opt)` has all that is needed to go on.
        """
        return to_state_dict(self)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes what `state_dict()` gave, here or in PyTorch."""
        from_state_dict(self, state_dict)

    def schedule_step(self, skip: Tensor | None = None) -> list[Tensor]:
        """The same without computing anything: the tensors to realise, best together with the loss.

        Among them are other tensors that the batch has changed, as running statistics.
        """
        changed = unrealised_states()
        used = [part for part in self._added if part._is_used()]
        later = [tensor for part in used for tensor in part.schedule_step(skip)]
        if used and not self._is_used():
            return [*changed, *later]
        self._skip = None if skip is None else _condition(type(self).__name__, skip)
        gradients = self._gradients()
        shared = self._begin()
        for index, (weight, grad) in enumerate(zip(self._whole, gradients, strict=True)):
            if grad is not None:
                self._step_one(index, weight, grad)
        self._skip = None
        self._numbers.clear()
        return [*self._whole, *self.masters, *self._states(), *shared, *changed, *later]

    def _step_one(self, index: int, weight: Tensor, grad: Tensor) -> None:
        exact = self.masters[index] if self.masters else weight
        wide = wide_dtype(parts_dtype(weight.dtype))
        old, grad = exact.detach(), grad.detach()
        if self._moves:
            old, grad = old.to(self.device), grad.to(self.device)
        grad = -grad if self._group(index)["maximize"] else grad
        old = as_parts(old).cast(wide)
        new = from_parts(old - self._change(index, old, as_parts(grad).cast(wide)), weight.dtype)
        if self.masters and exact is not weight:
            new = self._write(exact, new)
        self._write(weight, new.to(weight.device) if self._moves else new)

    def _is_used(self) -> bool:
        """Whether the loss is computed from any of the parameters."""
        return any(tensor.grad is not None for tensor in self.params)

    def _gradients(self) -> Sequence[Tensor | None]:
        """The gradient of each tensor that is changed. Parameters without one stay as they are, unless all are; fused
        ones, which are changed as one, all need theirs."""
        if self._is_used() and not self.fused:
            return [None if tensor.grad is None else self._gradient(tensor) for tensor in self.params]
        found = [self._gradient(tensor) for tensor in self.params]
        if not self.fused:
            return found
        groups = zip(self._members, self._flat, strict=True)
        return [flat.take(alike([found[i] for i in members])) for members, flat in groups]

    def _gradient(self, tensor: Tensor) -> Tensor:
        gradient: Tensor | None = tensor.grad
        if gradient is not None and gradient.shape == tensor.shape:
            return gradient
        if gradient is not None:
            raise ShapeError(
                f"{type(self).__name__}: a gradient of shape {spell_shape(gradient.shape)} for a parameter of shape "
                f"{spell_shape(tensor.shape)}",
                f"parameter {tensor._made()}, gradient {gradient._made()}",
                "They must be equal.",
            )
        raise UserError(
            f"{type(self).__name__}: a parameter of shape {spell_shape(tensor.shape)} has no gradient",
            f"parameter {tensor._made()}",
            "Call backward() on a loss that is computed from it before the step, or leave it out of the parameters.",
        )

    # ---- states

    def _home(self, tensor: Tensor) -> str:
        """Where the states of a parameter are."""
        return self.device if self._moves else tensor.device

    def _zeros(self, tensor: Tensor) -> Tensor:
        dtype = self.state_dtype or wide_dtype(parts_dtype(tensor.dtype))
        shape = (*tensor.shape, 2) if tensor.dtype.is_complex else tensor.shape
        return Tensor.zeros(*shape, dtype=dtype, device=self._home(tensor), requires_grad=False)

    def _master(self, tensor: Tensor) -> Tensor:
        """The exact value of a parameter; itself, if it is exact enough and in the right place."""
        wide, home = wide_dtype(tensor.dtype), self._home(tensor)
        if tensor.dtype is wide and tensor.device == home:
            return tensor
        exact = tensor.detach().cast(wide).to(home).clone().realize()
        exact.requires_grad = False
        return exact


class OptimizerGroup(Optimizer):
    """Several optimisers that step together, as for parameters with and without weight decay."""

    def __init__(self, *optimizers: Optimizer) -> None:
        if not optimizers or not all(isinstance(part, Optimizer) for part in optimizers):
            raise ArgumentError("OptimizerGroup: nothing to group", repr(optimizers)[:200], "Give optimisers.")
        self.optimizers = optimizers
        self.params = _checked("OptimizerGroup", list(chain.from_iterable(part.params for part in optimizers)))
        self.device, self.lr = optimizers[0].device, optimizers[0].lr
        self.rates: list[Tensor] = []

    def _parts(self) -> Sequence[Optimizer]:
        return [part for each in self.optimizers for part in each._parts()]

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Refuses: one of them has to take it."""
        raise UserError("OptimizerGroup: add_param_group", fix="Say to which: group[0].add_param_group(...).")

    def __getitem__(self, index: int) -> Optimizer:
        return self.optimizers[index]

    def state_dict(self) -> dict[str, Any]:
        """That of each optimiser, by its number."""
        return {str(place): part.state_dict() for place, part in enumerate(self.optimizers)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes what `state_dict()` gave."""
        if sorted(state_dict) != sorted(str(place) for place in range(len(self.optimizers))):
            raise ArgumentError(f"load_state_dict: a state of {len(state_dict)} optimisers for {len(self.optimizers)}")
        for place, part in enumerate(self.optimizers):
            part.load_state_dict(state_dict[str(place)])

    def schedule_step(self, skip: Tensor | None = None) -> list[Tensor]:
        """The tensors of all of them."""
        return list(chain.from_iterable(part.schedule_step(skip) for part in self.optimizers))


def wide_dtype(dtype: DType) -> DType:
    """What a parameter is updated in: no less than float32."""
    return dtypes.float32 if dtype.itemsize < 4 else dtype


def alike(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The tensors in one dtype."""
    first = tensors[0].dtype
    if all(tensor.dtype is first for tensor in tensors):
        return list(tensors)
    widest = max((wide_dtype(tensor.dtype) for tensor in tensors), key=lambda dtype: dtype.itemsize)
    return [tensor.cast(widest) for tensor in tensors]


def number(name: str, label: str, value: Any, least: float = 0.0, below: float | None = None) -> float:
    """A setting in its range."""
    if not isinstance(value, int | float) or not value >= least or (below is not None and value >= below):
        limit = f"at least {least:g}" + ("" if below is None else f" and below {below:g}")
        raise ArgumentError(f"{name}: {label}={value!r}", fix=f"It is a number, {limit}.")
    return float(value)


def _state_dtype(name: str, dtype: Any) -> DType | None:
    if dtype is None or (isinstance(dtype, DType) and dtype.is_float):
        return dtype
    what = dtype.name if isinstance(dtype, DType) else repr(dtype)
    raise DTypeError(f"{name}: state_dtype={what}", fix="It is a float dtype, as dtypes.float32 or dtypes.bfloat16.")


def _condition(name: str, skip: Any) -> Tensor:
    """A condition for a whole step, of shape ()."""
    if isinstance(skip, Tensor) and skip.dtype.is_bool and skip.numel() == 1:
        return skip.reshape(())
    raise ArgumentError(f"{name}: skip={skip!r:.60}", fix="It is a bool tensor of one element, as (x > 1).any().")


def _checked(name: str, params: Iterable[Tensor]) -> list[Tensor]:
    """The parameters to train; those with requires_grad=False are left out."""
    given = list(params)
    for place, tensor in enumerate(given):
        if not isinstance(tensor, Tensor):
            raise ArgumentError(
                f"{name}: parameter {place} is no tensor: {tensor!r:.60}", fix="Use nn.state.get_parameters(model)."
            )
        if tensor.requires_grad is not False and not tensor.dtype.is_continuous:
            raise DTypeError(
                f"{name}: parameter {place} is {tensor.dtype.name}, and only floats have gradients",
                f"parameter {tensor._made()}",
                "Leave it out, or make it with requires_grad=False.",
            )
    found: dict[int, int] = {}
    for place, tensor in enumerate(given):
        if found.setdefault(id(tensor), place) != place:
            raise ArgumentError(
                f"{name}: parameters {found[id(tensor)]} and {place} are the same tensor, of shape "
                f"{spell_shape(tensor.shape)}",
                f"parameter {tensor._made()}",
                "Give each tensor once: nn.state.get_parameters(model) does.",
            )
    wanted = [tensor for tensor in given if tensor.requires_grad is not False]
    if not wanted:
        why = "all of them have requires_grad=False" if given else "the list is empty"
        raise ArgumentError(f"{name}: there are no parameters: {why}", fix="Use nn.state.get_parameters(model).")
    for tensor in wanted:
        tensor.requires_grad = True
    return wanted
