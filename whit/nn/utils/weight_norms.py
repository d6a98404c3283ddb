"""Weights that are computed: a length times a direction (`weight_norm`), or divided by their largest singular value
(`spectral_norm`).

Those of `nn.utils.parametrizations` keep what is trained in `parametrizations.weight`, the older ones of `nn.utils`
beside the weight: `weight_g` and `weight_v`, `weight_orig` and `weight_u`.
"""

from __future__ import annotations

from typing import Any

from whit.errors import ArgumentError
from whit.nn.linear import _ConvTranspose
from whit.nn.module import Module
from whit.nn.own_class import Handle, add_hook, compute, compute_no_more, trained_as
from whit.nn.utils.parametrize import register_parametrization
from whit.records import dataclass
from whit.tensor import Tensor

FIRST_STEPS = 15  # of the power iteration, when a weight gets its spectral norm


def _length(weight: Tensor, dim: int | None) -> Tensor:
    """The norm over all axes but one; over all of them for None or -1."""
    if dim is None or dim == -1:
        return weight.square().sum().sqrt()
    axes = tuple(axis for axis in range(weight.ndim) if axis != dim)
    return weight.square().sum(axes, keepdim=True).sqrt()


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        self.dim = -1 if dim is None else dim

    def __call__(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / _length(weight_v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """The length and the direction of a weight."""
        return _length(weight, self.dim), weight


def parametrized_weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """The tensor is original0, its length along all axes but `dim`, times the direction of original1."""
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


def _matrix(weight: Tensor, dim: int) -> Tensor:
    """A weight as a matrix, whose rows are those along an axis."""
    return weight if weight.ndim == 1 else weight.transpose(0, dim).reshape(weight.shape[dim], -1)


def _unit(vector: Tensor, eps: float) -> Tensor:
    return vector.normalize(dim=0, eps=eps)


class _SpectralNorm(Module):
    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        if n_power_iterations < 1:
            raise ArgumentError(f"spectral_norm: n_power_iterations={n_power_iterations}", fix="It is 1 at least.")
        self.dim, self.eps, self.n_power_iterations = dim, eps, n_power_iterations
        matrix = _matrix(weight.detach(), dim)
        if matrix.ndim == 1:
            return
        rows, columns = matrix.shape
        self._u, self._v = (
            _unit(Tensor.randn(size, dtype=weight.dtype, device=weight.device), eps).realize()
            for size in (rows, columns)
        )
        self._u.requires_grad = self._v.requires_grad = False
        self._iterate(matrix, FIRST_STEPS)

    def _iterate(self, matrix: Tensor, steps: int) -> None:
        u, v = self._u, self._v
        for _ in range(steps):
            u = _unit(matrix @ v, self.eps)
            v = _unit(matrix.T @ u, self.eps)
        self._u.assign(u)
        self._v.assign(v)

    def __call__(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return _unit(weight, self.eps)
        matrix = _matrix(weight, self.dim)
        if self.training:
            self._iterate(matrix.detach(), self.n_power_iterations)
        u, v = self._u.detach().clone(), self._v.detach().clone()
        return weight / (u * (matrix @ v)).sum()

    def right_inverse(self, value: Tensor) -> Tensor:
        """The weight itself: it is not divided again."""
        return value


def parametrized_spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Any:
    """The tensor is divided by its largest singular value, which is followed by a power iteration in training."""
    axis = _axis_of(module, dim)
    weight = _tensor_of("spectral_norm", module, name)
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, axis, eps))


def _axis_of(module: Any, dim: int | None) -> int:
    """The axis of outputs."""
    if dim is None:
        return 1 if isinstance(module, _ConvTranspose) else 0
    return dim


def _tensor_of(function: str, module: Any, name: str) -> Tensor:
    found = getattr(module, name, None)
    if not isinstance(found, Tensor):
        raise ArgumentError(
            f"{function}: {type(module).__name__} has no tensor {name!r}", fix="Give the name of one that it has."
        )
    return found


# ---- the older forms


@dataclass(frozen=True, slots=True)
class _Scaled:
    """A weight of `weight_g` and `weight_v`."""

    name: str
    dim: int | None

    def __call__(self, module: Any) -> Tensor:
        direction = getattr(module, f"{self.name}_v")
        scaled: Tensor = direction * (getattr(module, f"{self.name}_g") / _length(direction, self.dim))
        return scaled


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """The same as that of `parametrizations`, with its tensors beside the weight."""
    weight = _tensor_of("weight_norm", module, name)
    if hasattr(module, f"{name}_g"):
        raise ArgumentError(f"weight_norm: {name} of {type(module).__name__} has it already")
    compute(module, name, _Scaled(name, dim))
    setattr(module, f"{name}_g", trained_as(_length(weight, dim).detach().realize(), weight))
    setattr(module, f"{name}_v", weight)
    return module


def remove_weight_norm(module: Any, name: str = "weight") -> Any:
    """The weight is a plain tensor again, with its value of now."""
    return _removed("remove_weight_norm", module, name, [f"{name}_g", f"{name}_v"])


def _removed(function: str, module: Any, name: str, others: list[str]) -> Any:
    if any(other not in vars(module) for other in others):
        raise ArgumentError(f"{function}: {name} of {type(module).__name__} has none")
    value = trained_as(getattr(module, name).detach().realize(), getattr(module, others[0]))
    compute_no_more(module, name)
    for other in others:
        delattr(module, other)
    setattr(module, name, value)
    return module


@dataclass(frozen=True, slots=True)
class _Divided:
    """A weight of `weight_orig`, `weight_u` and `weight_v`; called as a hook, a step of the power iteration."""

    name: str
    dim: int
    steps: int
    eps: float

    def __call__(self, module: Any, args: Any = None) -> Any:
        weight, u, v = (getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        matrix = _matrix(weight, self.dim)
        if args is None:
            return weight / (u.detach().clone() * (matrix @ v.detach().clone())).sum()
        if module.training:
            fixed, left, right = matrix.detach(), u, v
            for _ in range(self.steps):
                right = _unit(fixed.T @ left, self.eps)
                left = _unit(fixed @ right, self.eps)
            u.assign(left)
            v.assign(right)
        return None


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Any:
    """The same as that of `parametrizations`, with its tensors beside the weight; a step with each call in training."""
    weight = _tensor_of("spectral_norm", module, name)
    if hasattr(module, f"{name}_orig"):
        raise ArgumentError(f"spectral_norm: {name} of {type(module).__name__} has it already")
    divided = _Divided(name, _axis_of(module, dim), n_power_iterations, eps)
    matrix = _matrix(weight.detach(), divided.dim)
    for part, size in zip("uv", matrix.shape, strict=True):
        vector = _unit(Tensor.randn(size, dtype=weight.dtype, device=weight.device), eps).realize()
        vector.requires_grad = False
        setattr(module, f"{name}_{part}", vector)
    compute(module, name, divided)
    setattr(module, f"{name}_orig", weight)
    _handles(module)[name] = add_hook(module, "before", divided)
    return module


def _handles(module: Any) -> dict[str, Handle]:
    found: dict[str, Handle] = vars(module).setdefault("_spectral_hooks", {})
    return found


def remove_spectral_norm(module: Any, name: str = "weight") -> Any:
    """The weight is a plain tensor again, with its value of now."""
    found = _removed("remove_spectral_norm", module, name, [f"{name}_{part}" for part in ("orig", "u", "v")])
    _handles(module).pop(name).remove()
    return found
