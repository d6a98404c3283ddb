"""Functions of one tensor as layers, for `Sequential`: each calls the method of its name."""

from __future__ import annotations

from whit.dtype import DTypeLike
from whit.nn import functional as F
from whit.nn.module import Module
from whit.nn.placed import placed
from whit.tensor import Tensor


class _InPlace(Module):
    """Activations that PyTorch can write into their input: `inplace` is accepted, and changes nothing here."""

    def __init__(self, inplace: bool = False) -> None:
        pass


class ReLU(_InPlace):
    """max(x, 0)."""

    def __call__(self, x: Tensor) -> Tensor:
        return x.relu()


class ReLU6(_InPlace):
    """min(max(x, 0), 6)."""

    def __call__(self, x: Tensor) -> Tensor:
        return x.relu6()


class SiLU(_InPlace):
    """x * sigmoid(x)."""

    def __call__(self, x: Tensor) -> Tensor:
        return x.silu()


class Mish(_InPlace):
    """x * tanh(softplus(x))."""

    def __call__(self, x: Tensor) -> Tensor:
        return x.mish()


class SELU(_InPlace):
    """ELU whose numbers keep mean and variance."""

    def __call__(self, x: Tensor) -> Tensor:
        return x.selu()


class Hardswish(_InPlace):
    """x * relu6(x + 3) / 6."""

    def __call__(self, x: Tensor) -> Tensor:
        return x.hardswish()


class Hardsigmoid(_InPlace):
    """relu6(x + 3) / 6."""

    def __call__(self, x: Tensor) -> Tensor:
        return x.hardsigmoid()


class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    def __call__(self, x: Tensor) -> Tensor:
        return x.sigmoid()


class LogSigmoid(Module):
    """The logarithm of the sigmoid."""

    def __call__(self, x: Tensor) -> Tensor:
        return x.logsigmoid()


class Tanh(Module):
    """The hyperbolic tangent."""

    def __call__(self, x: Tensor) -> Tensor:
        return x.tanh()


class Softsign(Module):
    """x / (1 + |x|)."""

    def __call__(self, x: Tensor) -> Tensor:
        return x.softsign()


class LeakyReLU(Module):
    """x, or negative_slope * x below 0."""

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        self.negative_slope = negative_slope

    def __call__(self, x: Tensor) -> Tensor:
        return x.leaky_relu(self.negative_slope)


class ELU(Module):
    """x, or alpha * (exp(x) - 1) below 0."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        self.alpha = alpha

    def __call__(self, x: Tensor) -> Tensor:
        return x.elu(self.alpha)


class CELU(Module):
    """x, or alpha * (exp(x / alpha) - 1) below 0."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        self.alpha = alpha

    def __call__(self, x: Tensor) -> Tensor:
        return x.celu(self.alpha)


class Hardtanh(Module):
    """x, but not below min_val or above max_val."""

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        self.min_val, self.max_val = min_val, max_val

    def __call__(self, x: Tensor) -> Tensor:
        return x.hardtanh(self.min_val, self.max_val)


class GELU(Module):
    """x times the probability of a normal number below x. Exact by default, as in PyTorch; `Tensor.gelu` is not."""

    def __init__(self, approximate: str = "none") -> None:
        self.approximate = approximate

    def __call__(self, x: Tensor) -> Tensor:
        return x.gelu(self.approximate)


class Softplus(Module):
    """log(1 + exp(beta * x)) / beta."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        self.beta, self.threshold = beta, threshold

    def __call__(self, x: Tensor) -> Tensor:
        return x.softplus(self.beta)


class Softmax(Module):
    """exp(x) in shares of its sum along an axis."""

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def __call__(self, x: Tensor) -> Tensor:
        return x.softmax(self.dim)


class LogSoftmax(Module):
    """The logarithm of the softmax along an axis."""

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def __call__(self, x: Tensor) -> Tensor:
        return x.log_softmax(self.dim)


class Softmin(Softmax):
    """The softmax of -x."""

    def __call__(self, x: Tensor) -> Tensor:
        return x.softmin(self.dim)


class Softmax2d(Module):
    """The softmax over the channels of images, axis -3."""

    def __call__(self, x: Tensor) -> Tensor:
        return x.softmax(-3)


class PReLU(Module):
    """x, or weight * x below 0: one weight that is trained, or one for each channel (axis 1)."""

    @placed
    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: str | None = None, dtype: DTypeLike | None = None
    ) -> None:
        self.num_parameters = num_parameters
        self.weight = Tensor.full((num_parameters,), float(init))

    def __call__(self, x: Tensor) -> Tensor:
        return F.prelu(x, self.weight)


class RReLU(Module):
    """x, or a slope times x below 0: random between lower and upper while training, else their mean."""

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        self.lower, self.upper = lower, upper

    def __call__(self, x: Tensor) -> Tensor:
        return F.rrelu(x, self.lower, self.upper, self.training)


class Threshold(Module):
    """x, or value where x is at most the threshold."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        self.threshold, self.value = threshold, value

    def __call__(self, x: Tensor) -> Tensor:
        return F.threshold(x, self.threshold, self.value)


class GLU(Module):
    """The first half of an axis times the sigmoid of the second."""

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def __call__(self, x: Tensor) -> Tensor:
        return F.glu(x, self.dim)


class Hardshrink(Module):
    """x, or 0 where |x| is at most lambd."""

    def __init__(self, lambd: float = 0.5) -> None:
        self.lambd = lambd

    def __call__(self, x: Tensor) -> Tensor:
        return F.hardshrink(x, self.lambd)


class Softshrink(Module):
    """x moved by lambd towards 0, and 0 where it would pass."""

    def __init__(self, lambd: float = 0.5) -> None:
        self.lambd = lambd

    def __call__(self, x: Tensor) -> Tensor:
        return F.softshrink(x, self.lambd)


class Tanhshrink(Module):
    """x - tanh(x)."""

    def __call__(self, x: Tensor) -> Tensor:
        return F.tanhshrink(x)
