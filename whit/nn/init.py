"""Initial values under PyTorch's names: each writes into a tensor and returns it.

nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
"""

from __future__ import annotations

import math

from whit.dtype import dtypes
from whit.errors import ArgumentError, ShapeError
from whit.ir.op import spell_shape
from whit.tensor import Tensor

__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]


GAINS = {"tanh": 5 / 3, "relu": math.sqrt(2), "selu": 0.75}
PLAIN = ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "sigmoid")
NEWTON_STEPS = 3  # from the first approximation of the inverse normal distribution, 1e-3 off, to float64


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """By what a nonlinearity makes values smaller."""
    if nonlinearity in PLAIN:
        return 1.0
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in GAINS:
        raise ArgumentError(
            f"calculate_gain: nonlinearity={nonlinearity!r}", fix=f"Use one of {', '.join([*PLAIN, *GAINS])}."
        )
    return GAINS[nonlinearity]


def fans(tensor: Tensor) -> tuple[int, int]:
    """How many inputs an output has, and how many outputs an input: of weights (out, in, *window)."""
    if tensor.ndim < 2:
        raise ShapeError(
            f"init: a tensor {spell_shape(tensor.shape)} has no inputs and outputs",
            tensor._made(),
            "Use 2 axes or more.",
        )
    window = math.prod(tensor.shape[2:])
    return int(tensor.shape[1]) * window, int(tensor.shape[0]) * window


def _put(tensor: Tensor, value: Tensor) -> Tensor:
    return tensor.assign(value.to(tensor.device).cast(tensor.dtype).detach())


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0) -> Tensor:
    """Numbers from a to b."""
    return _put(tensor, Tensor.uniform(*tensor.shape, low=a, high=b, device=tensor.device))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Normal numbers."""
    return _put(tensor, Tensor.normal(*tensor.shape, mean=mean, std=std, device=tensor.device))


def trunc_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0) -> Tensor:
    """Normal numbers of which those outside of [a, b] are drawn again."""
    if not a < b or not std > 0:
        raise ArgumentError(f"trunc_normal_: a={a!r}, b={b!r}, std={std!r}", fix="a is below b, and std above 0.")
    low, high = (math.erf((limit - mean) / std / math.sqrt(2)) for limit in (a, b))
    share = Tensor.uniform(*tensor.shape, low=low, high=high, dtype=dtypes.float64, device=tensor.device)
    return _put(tensor, (_erfinv(share) * (std * math.sqrt(2)) + mean).clip(a, b))


def _erfinv(y: Tensor) -> Tensor:
    """x of erf(x) = y: Winitzki's approximation, then steps of Newton."""
    y = y.clip(-1 + 1e-15, 1 - 1e-15)
    logs = (1 - y * y).log()
    middle = 2 / (math.pi * 0.147) + logs / 2
    x = y.sign() * ((middle * middle - logs / 0.147).sqrt() - middle).sqrt()
    for _ in range(NEWTON_STEPS):
        x = x - (x.erf() - y) * (math.sqrt(math.pi) / 2) * (x * x).exp()
    return x


def constant_(tensor: Tensor, val: float) -> Tensor:
    """One number everywhere."""
    return _put(tensor, Tensor.full(tensor.shape, val, dtype=tensor.dtype, device=tensor.device))


def ones_(tensor: Tensor) -> Tensor:
    """1 everywhere."""
    return constant_(tensor, 1)


def zeros_(tensor: Tensor) -> Tensor:
    """0 everywhere."""
    return constant_(tensor, 0)


def eye_(tensor: Tensor) -> Tensor:
    """1 on the diagonal of a matrix."""
    if tensor.ndim != 2:
        raise ShapeError(f"eye_: {spell_shape(tensor.shape)} is no matrix", tensor._made())
    return _put(tensor, Tensor.eye(*tensor.shape))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Weights of a convolution that passes on as many channels as it can."""
    if tensor.ndim not in (3, 4, 5) or tensor.shape[0] % groups:
        raise ShapeError(f"dirac_: {spell_shape(tensor.shape)} in {groups} groups", tensor._made())
    rows = Tensor.eye(tensor.shape[0] // groups, tensor.shape[1]).repeat(groups, 1)
    shape = (*rows.shape, *(1 for _ in tensor.shape[2:]))
    pads = tuple((size // 2, size - size // 2 - 1) for size in tensor.shape[2:])
    return _put(tensor, rows.reshape(shape).pad(((0, 0), (0, 0), *pads)))


def xavier_uniform(*shape: int, gain: float = 1.0) -> Tensor:
    """A new tensor of Glorot's uniform numbers."""
    bound = gain * math.sqrt(6 / max(sum(fans(Tensor.empty(*shape))), 1))
    return Tensor.uniform(*shape, low=-bound, high=bound)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Glorot's uniform numbers: variance 2 / (inputs + outputs)."""
    bound = gain * math.sqrt(6 / max(sum(fans(tensor)), 1))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Glorot's normal numbers."""
    return normal_(tensor, 0.0, gain * math.sqrt(2 / max(sum(fans(tensor)), 1)))


def _he(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ArgumentError(f"kaiming: mode={mode!r}", fix='It is "fan_in" or "fan_out".')
    fan = fans(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(max(fan, 1))


def kaiming_uniform_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Tensor:
    """He's uniform numbers: variance gain ** 2 / inputs."""
    bound = math.sqrt(3.0) * _he(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Tensor:
    """He's normal numbers."""
    return normal_(tensor, 0.0, _he(tensor, a, mode, nonlinearity))


def orthogonal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """A matrix of orthogonal rows or columns, whichever are fewer; axes after the first are taken as one."""
    fans(tensor)
    rows, columns = int(tensor.shape[0]), math.prod(tensor.shape[1:])
    flat = Tensor.randn(max(rows, columns), min(rows, columns), device=tensor.device)
    q, r = flat.qr()
    q = q * r.diagonal().sign()
    q = q if rows >= columns else q.transpose()
    return _put(tensor, (q * gain).reshape(tensor.shape))


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01) -> Tensor:
    """Normal numbers, of which a share in each column is 0."""
    if tensor.ndim != 2 or not 0 <= sparsity <= 1:
        raise ArgumentError(f"sparse_: {spell_shape(tensor.shape)}, sparsity={sparsity!r}", fix="A matrix, and 0 to 1.")
    zeros = math.ceil(sparsity * int(tensor.shape[0]))
    order = Tensor.rand(*tensor.shape, device=tensor.device).argsort(0).argsort(0)
    return _put(tensor, (order < zeros).where(0, Tensor.normal(*tensor.shape, std=std, device=tensor.device)))
