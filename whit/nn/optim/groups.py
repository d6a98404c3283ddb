"""Groups of parameters with settings of their own, as PyTorch's `param_groups`.

opt = AdamW([{"params": matrices}, {"params": biases, "weight_decay": 0.0, "lr": 1e-4}], lr=1e-3)
for group in opt.param_groups:
    group["lr"] = 0.5e-3                        # a number that is set is written into a tensor: nothing is compiled
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any

from whit.containers import parts_in
from whit.dtype import dtypes
from whit.errors import ArgumentError, nearest
from whit.tensor import Tensor

FREE = frozenset({"initial_lr", "max_lr", "min_lr"})  # what schedules note


class Group(MutableMapping[str, Any]):
    """`params`, `lr` (a tensor of one element), and settings. Other settings than `lr` are part of kernels."""

    __slots__ = ("_exact", "lr", "params", "settings")

    def __init__(self, params: list[Tensor], settings: dict[str, Any], rate: float) -> None:
        self.params, self.settings = params, settings
        self.lr = Tensor([rate], dtype=dtypes.float32, requires_grad=False)  # the optimiser puts it where it works
        # The rate with all digits, from which the next one follows, where it can be read without waiting for a device.
        # A tensor, because a number would be part of what a captured step depends on.
        self._exact = Tensor([rate], dtype=dtypes.float64, device="CPU", requires_grad=False).realize()

    def __getitem__(self, key: str) -> Any:
        if key == "params":
            return self.params
        return self.lr if key == "lr" else self.settings[key]

    def __setitem__(self, key: str, value: Any) -> None:
        if key == "lr":
            self.write(value)
        elif key in self.settings or key in FREE:
            self.settings[key] = value
        else:
            raise ArgumentError(f"param_groups: there is no setting {key!r}{nearest(key, self.settings)}")

    def __delitem__(self, key: str) -> None:
        if key not in FREE:
            raise ArgumentError(f"param_groups: {key!r} is needed")
        del self.settings[key]

    def __iter__(self) -> Iterator[str]:
        return iter(("params", "lr", *self.settings))

    def __len__(self) -> int:
        return 2 + len(self.settings)

    def __repr__(self) -> str:
        words = [f"{key}={value!r}" for key, value in self.settings.items()]
        return f"Group({len(self.params)} parameters, {', '.join(words)})"

    def write(self, value: Any) -> None:
        """Sets the learning rate: at once, because a captured step reads what is in memory."""
        self.lr.assign(rate_tensor("param_groups", value, self.lr)).realize()
        self._exact.assign(rate_tensor("param_groups", value, self._exact)).realize()

    def filled(self, like: Tensor) -> Tensor:
        """The learning rate at every element of a tensor. It is not read: the optimiser may be made in a capture."""
        return self._exact.to(like.device).cast(like.dtype).reshape((1,) * like.ndim).expand(*like.shape)

    def number(self) -> float:
        """The learning rate that was set last, here, by `opt.lr = ...` or by a scheduler."""
        return float(self._exact.item())


class Hidden:
    """Something whose tensors have no names of their own in a state dict."""

    __slots__ = ("content",)

    def __init__(self, content: Any) -> None:
        self.content = content


def check_rate(name: str, lr: Any) -> None:
    """Refuses what is no number of at least 0."""
    if isinstance(lr, bool) or not isinstance(lr, int | float) or not lr >= 0:
        raise ArgumentError(f"{name}: lr={lr!r:.60}", fix="The learning rate is a number, 0 or more.")


def rate_tensor(name: str, value: Any, now: Tensor) -> Tensor:
    """A number, or a tensor of one element, for the learning rate."""
    if isinstance(value, Tensor) and value.numel() == 1:
        return value.detach().to(now.device).cast(now.dtype).reshape(now.shape)
    number = value.item() if type(value).__module__ == "numpy" and getattr(value, "size", 0) == 1 else value
    check_rate(name, number)
    return Tensor([float(number)], dtype=now.dtype, device=now.device)


def groups_of(name: str, params: Iterable[Any], lr: Any, defaults: Mapping[str, Any]) -> list[Group]:
    """Tensors, or dictionaries of `params` and settings -> groups. Their tensors are not checked yet."""
    if isinstance(params, Tensor):
        raise ArgumentError(f"{name}: one tensor", fix="Give a list of tensors.")
    given = _listed(params)
    if not any(isinstance(each, Mapping) and "params" in each for each in given):
        given = [{"params": given}]
    found = []
    for place, each in enumerate(given):
        if not isinstance(each, Mapping) or "params" not in each:
            raise ArgumentError(
                f"{name}: group {place} is {each!r:.60}", fix='Each is a dictionary with "params", or none is.'
            )
        found.append(_group(name, place, each, lr, defaults))
    return found


def _group(name: str, place: int, given: Mapping[str, Any], lr: Any, defaults: Mapping[str, Any]) -> Group:
    settings = {"lr": lr, **defaults}
    for key, value in given.items():
        if key not in (*settings, *FREE, "params"):
            raise ArgumentError(f"{name}: group {place} has a setting {key!r}{nearest(key, settings)}")
        if key != "params":
            settings[key] = value
    rate = settings.pop("lr")
    rate = float(rate.item()) if isinstance(rate, Tensor) and rate.numel() == 1 else rate
    check_rate(name, rate)
    members = given["params"]
    tensors = [inside for member in _listed(members) for inside in _tensors_of(member)]
    return Group(tensors, settings, float(rate))


def _listed(given: Any) -> list[Any]:
    """What was given one by one: an iterable as it is, any other container as one thing."""
    is_one = isinstance(given, Tensor | Mapping) or not isinstance(given, Iterable)
    return [given] if is_one else list(given)


def _tensors_of(given: Any) -> list[Any]:
    """A tensor, also one of `named_parameters()` without its name; those in a container; anything else as it is."""
    return [given] if isinstance(given, Tensor) else parts_in(Tensor, given) or [given]
