"""Cases for the gradient of every Tensor method that has one: a function of tensors, and the arrays it is given.

A name of the API is in CASES, or in NONE with the others that have no gradient; `test_methods.py` fails where one is
in neither. Arrays have no equal elements and none near 0, so that small steps meet no kink.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from whit import Tensor

Function = Callable[..., Tensor]


@dataclass(frozen=True)
class Case:
    """A differentiable function at a point."""

    function: Function
    arrays: tuple[Any, ...]
    is_smooth: bool = True  # twice


def names(text: str) -> list[str]:
    return text.split()


def spread(*shape: int, low: float = -2.0, high: float = 2.0, seed: int = 0) -> Any:
    """Numbers in any order, at least 1/300 of the range apart and away from 0."""
    count = prod(shape)
    generator = np.random.default_rng([seed, *shape])
    places = (np.arange(count) + generator.uniform(0.35, 0.65, count)) / max(count, 1)
    return generator.permutation(low + (high - low) * places).reshape(shape)


def at(function: Function, *arrays: Any, smooth: bool = True) -> Case:
    return Case(function, arrays, smooth)


def ints(*values: Any) -> Tensor:
    return Tensor(np.array(values), device="PYTHON")


ROWS = spread(3, 4)
CUBE = spread(2, 3, 4)
POSITIVE = spread(3, 4, low=0.3, high=2.5)
INSIDE = spread(3, 4, low=-0.85, high=0.85)
MATRIX = spread(3, 3) + 4 * np.eye(3)
POSITIVE_DEFINITE = MATRIX @ MATRIX.T
SYMMETRIC = np.diag([1.0, 2.5, 4.0]) + (MATRIX + MATRIX.T) * 0.05
IMAGE = spread(2, 4, 5, 5)
INDEX = ints([0, 2, 1, 1], [2, 2, 0, 1])
MASK = Tensor(ROWS > 0.2, device="PYTHON")
LABELS = ints(1, 0, 3)


def one(name: str, array: Any = ROWS, *arguments: Any, smooth: bool = True, **named: Any) -> Case:
    """A method of one tensor."""
    return at(lambda x: getattr(x, name)(*arguments, **named), array, smooth=smooth)


def parts(name: str, array: Any, *arguments: Any, **named: Any) -> Case:
    """A method of complex numbers, whose parts are the last axis of the array; and of its result."""

    def function(x: Tensor) -> Tensor:
        found: Any = getattr(x.view_as_complex(), name)
        found = found if isinstance(found, Tensor) else found(*arguments, **named)
        return found.view_as_real() if found.is_complex() else found

    return at(function, array)


def first(name: str, array: Any = ROWS, *arguments: Any, **named: Any) -> Case:
    """The first result of a method that has several."""
    return at(lambda x: getattr(x, name)(*arguments, **named)[0], array)


def two(name: str, left: Any = ROWS, right: Any = None, *arguments: Any, smooth: bool = True, **named: Any) -> Case:
    """A method of two tensors."""
    other = spread(3, 4, seed=1) if right is None else right
    return at(lambda x, y: getattr(x, name)(y, *arguments, **named), left, other, smooth=smooth)


def broadcast(name: str, low: float = -2.0, high: float = 2.0, smooth: bool = True) -> tuple[Case, ...]:
    """A method of two tensors whose shapes are equal, broadcast, or have axes of size 1."""
    left = spread(3, 4, low=low, high=high, seed=2)
    others = [spread(*shape, low=low * 0.97, high=high * 0.97, seed=3) for shape in ((3, 4), (4,), (3, 1), ())]
    return tuple(two(name, left, other, smooth=smooth) for other in others)


def _put(x: Tensor, source: Tensor) -> Tensor:
    y = x * 1
    y.put_along_axis(ints([0], [2], [1]), source, 1)
    return y


POINTWISE = {
    **dict.fromkeys(
        names(
            "exp exp2 expm1 sin cos sinh cosh tanh atan asinh erf sinc sigmoid logsigmoid softplus gelu quick_gelu "
            "silu swish mish softsign square abs neg positive cbrt deg2rad rad2deg elu celu selu hardswish relu relu6 "
            "leaky_relu hardtanh hardsigmoid nan_to_num reciprocal frac"
        ),
        ROWS,
    ),
    **dict.fromkeys(names("log log2 log10 log1p sqrt rsqrt"), POSITIVE),
    **dict.fromkeys(names("asin acos atanh tan"), INSIDE),
    "acosh": POSITIVE + 1,
}
# Functions that are pieces of constants: their gradient is 0.
STEPS = names("floor ceil round trunc sign")

CASES: dict[str, tuple[Case, ...]] = {
    **{name: (one(name, array), one(name, array[1, 2])) for name, array in POINTWISE.items()},
    **{name: (one(name),) for name in STEPS},
    "gelu": (one("gelu", ROWS, approximate="none"), one("gelu", ROWS, approximate="tanh")),
    # ---- two operands
    **{name: broadcast(name) for name in names("add sub mul maximum minimum logaddexp hypot copysign")},
    **{name: broadcast(name, low=0.4, high=2.3) for name in names("div pow atan2 xlogy")},
    **{name: broadcast(name, low=0.4, high=2.3) for name in names("mod fmod remainder floor_divide")},
    "lerp": (at(lambda x, y, w: x.lerp(y, w), ROWS, spread(3, 4, seed=1), spread(4, seed=2)),),
    "clamp": (one("clamp", ROWS, -0.5, 1.1), one("clamp", ROWS, None, 0.3)),
    "clip": (one("clip", ROWS, -0.5, 1.1),),
    "where": (at(lambda x, y: MASK.where(x, y), ROWS, spread(4, seed=1)),),
    "masked_fill": (one("masked_fill", ROWS, MASK, 3.0),),
    # ---- movement
    "T": (at(lambda x: x.T, ROWS),),
    "reshape": (one("reshape", ROWS, 2, 6), one("reshape", ROWS, 12, 1)),
    "view": (one("view", ROWS, 2, -1),),
    "expand": (one("expand", spread(1, 3, 1), 2, 3, 4),),
    "broadcast_to": (one("broadcast_to", spread(3, 1), (2, 3, 4)),),
    "permute": (one("permute", CUBE, 2, 0, 1),),
    "transpose": (one("transpose", CUBE, 0, 2),),
    "swapaxes": (one("swapaxes", CUBE, 0, 1),),
    "movedim": (one("movedim", CUBE, 0, 2),),
    "moveaxis": (one("moveaxis", CUBE, 2, 0),),
    "flip": (one("flip", CUBE, (0, 2)),),
    "rot90": (one("rot90", ROWS),),
    "shrink": (one("shrink", ROWS, ((1, 3), (0, 2))),),
    "pad": (
        one("pad", ROWS, ((1, 0), (2, 1))),
        one("pad", ROWS, (1, 2), mode="reflect"),
        one("pad", ROWS, (1, 2), mode="replicate"),
        one("pad", ROWS, (1, 2), mode="circular"),
    ),
    "flatten": (one("flatten", CUBE, 1),),
    "ravel": (one("ravel", CUBE),),
    "unflatten": (one("unflatten", ROWS, 1, (2, 2)),),
    "squeeze": (one("squeeze", spread(3, 1, 2)),),
    "unsqueeze": (one("unsqueeze", ROWS, 1),),
    "rearrange": (one("rearrange", CUBE, "a b c -> c (a b)"),),
    "split": (at(lambda x: x.split((1, 3), 1)[1], ROWS),),
    "chunk": (at(lambda x: x.chunk(2, 1)[0], ROWS),),
    "unbind": (at(lambda x: x.unbind(1)[2], ROWS),),
    "stack": (two("stack", dim=1),),
    "cat": (two("cat", ROWS, spread(2, 4)),),
    "repeat": (one("repeat", ROWS, 2, 3),),
    "tile": (one("tile", ROWS, (2, 1)),),
    "repeat_interleave": (one("repeat_interleave", ROWS, 2, 1),),
    "roll": (one("roll", ROWS, 2, 1),),
    "unfold": (one("unfold", ROWS, 1, 2, 1),),
    "diag": (one("diag", spread(4)),),
    "diagonal": (one("diagonal", spread(4, 4)),),
    "trace": (one("trace", spread(4, 4)),),
    "tril": (one("tril", spread(4, 4)),),
    "triu": (one("triu", spread(4, 4), 1),),
    "meshgrid": (at(lambda x, y: x.meshgrid(y)[0] * x.meshgrid(y)[1], spread(3), spread(2)),),
    # ---- the same elements
    **{name: (one(name),) for name in names("clone contiguous contiguous_backward double")},
    "cast": (one("cast", ROWS, "float64"),),
    "to": (one("to", ROWS, "PYTHON"),),
    # ---- indexing
    "gather": (one("gather", ROWS, 1, ints([0, 2, 2], [1, 0, 3], [3, 3, 3])),),
    "take_along_axis": (one("take_along_axis", ROWS, ints([0, 2], [1, 0], [3, 3]), 1),),
    "take": (one("take", ROWS, ints(0, 5, 5)),),
    "index_select": (one("index_select", ROWS, 1, ints(3, 0, 0)),),
    "scatter": (
        at(lambda x, s: x.scatter(0, INDEX, s), ROWS, spread(2, 4)),
        at(lambda x, s: x.scatter(0, INDEX, s, reduce="add"), ROWS, spread(2, 4)),
        at(lambda x, s: x.scatter(0, INDEX, s, reduce="multiply"), ROWS, spread(2, 4)),
    ),
    "scatter_add": (at(lambda x, s: x.scatter_add(0, INDEX, s), ROWS, spread(2, 4)),),
    "scatter_reduce": tuple(
        at(lambda x, s, kind=kind: x.scatter_reduce(0, INDEX, s, kind), ROWS, spread(2, 4, seed=5))
        for kind in ("sum", "prod", "mean", "amax", "amin")
    ),
    "put_along_axis": (at(_put, ROWS, spread(3, 1)),),
    "index_add": (at(lambda x, s: x.index_add(0, ints(0, 2), s), ROWS, spread(2, 4)),),
    "index_put": (at(lambda x, s: x.index_put((ints(0, 2),), s), ROWS, spread(2, 4)),),
    "masked_select": (one("masked_select", ROWS, MASK, size=12),),
    "sort": (first("sort"), first("sort", CUBE, 0, True)),
    "msort": (one("msort"),),
    "topk": (first("topk", ROWS, 2),),
    "kthvalue": (first("kthvalue", ROWS, 2),),
    "median": (first("median", ROWS, 1), one("median")),
    "mode": (first("mode", ROWS, 1),),
    "quantile": (one("quantile", ROWS, 0.3, 1),),
    # ---- reductions and scans
    **{name: (one(name), one(name, CUBE, (0, 2)), one(name, ROWS, 1, keepdim=True)) for name in ("sum", "mean")},
    **{name: (one(name), one(name, CUBE, (0, 2)), one(name, ROWS, 1, keepdim=True)) for name in ("max", "min")},
    **{name: (one(name), one(name, CUBE, (0, 2)), one(name, spread(1, 3), 0)) for name in ("prod", "logsumexp")},
    **{name: (one(name), one(name, CUBE, (0, 2))) for name in ("var", "std", "nansum", "nanmean")},
    "var_mean": (at(lambda x: x.var_mean(1)[0] * x.var_mean(1)[1], ROWS),),
    "std_mean": (at(lambda x: x.std_mean(1)[0] * x.std_mean(1)[1], ROWS),),
    "norm": (one("norm"), one("norm", ROWS, 3, 1), one("norm", ROWS, 1, 0), one("norm", ROWS, float("inf"), 1)),
    "normalize": (one("normalize"), one("normalize", ROWS, 3.0, 0)),
    **{name: (one(name, ROWS, 1), one(name, CUBE, 0)) for name in ("cumsum", "logcumsumexp")},
    "cumprod": (one("cumprod", ROWS, 1), one("cumprod", CUBE, 0)),
    "cummax": (first("cummax", ROWS, 1),),
    "cummin": (first("cummin", ROWS, 0),),
    # ---- products
    "dot": (two("dot", ROWS, spread(4, 2)), two("dot", spread(4), spread(4, seed=1))),
    "matmul": (
        two("matmul", CUBE, spread(4, 2)),
        two("matmul", spread(4), spread(2, 4, 3)),
        two("matmul", CUBE, spread(4)),
    ),
    "inner": (two("inner", spread(4), spread(4, seed=1)),),
    "outer": (two("outer", spread(3), spread(4)),),
    "vdot": (two("vdot", spread(4), spread(4, seed=1)),),
    "kron": (two("kron", spread(2, 2), spread(2, 3)),),
    "cross": (two("cross", spread(2, 3), spread(2, 3, seed=1)),),
    "tensordot": (two("tensordot", ROWS, spread(4, 2), 1),),
    "einsum": (at(lambda x, y: Tensor.einsum("ij,kj->ki", x, y), ROWS, spread(2, 4)),),
    "linear": (at(lambda x, w, b: x.linear(w, b), ROWS, spread(4, 2), spread(2)),),
    "matrix_power": (one("matrix_power", MATRIX, 3), one("matrix_power", MATRIX, -1)),
    "newton_schulz": (one("newton_schulz", spread(2, 3), 2, (3.4445, -4.7750, 2.0315)),),
    "inv": (one("inv", MATRIX),),
    "det": (one("det", MATRIX),),
    "slogdet": (at(lambda x: x.slogdet()[1], MATRIX),),
    "solve": (two("solve", MATRIX, spread(3, 2)),),
    "cholesky": (at(lambda x: (x + x.T).cholesky(), POSITIVE_DEFINITE / 2),),
    "eigh": (
        at(lambda x: (x + x.T).eigh()[0], SYMMETRIC / 2),
        at(lambda x: (x + x.T).eigh()[1].square(), SYMMETRIC / 2),
    ),
    "qr": (first("qr", MATRIX), at(lambda x: x.qr()[1], spread(4, 3))),
    "lu": (first("lu", MATRIX),),
    "lu_unpack": (at(lambda x: Tensor.lu_unpack(x, ints(2, 2, 3))[1], MATRIX),),
    "lu_solve": (at(lambda x, b: b.lu_solve(x, ints(2, 3, 3)), MATRIX, spread(3, 2)),),
    "triangular_solve": (at(lambda x, b: b.triangular_solve(x)[0], MATRIX, spread(3, 2)),),
    "orgqr": (two("orgqr", spread(4, 2), spread(2)),),
    "ormqr": (at(lambda x, tau, other: x.ormqr(tau, other), spread(3, 2), spread(2), spread(3, 2)),),
    "svd": (at(lambda x: x.svd()[1], spread(4, 3), smooth=False),),
    # ---- complex numbers
    "real": (parts("real", spread(3, 2)),),
    "imag": (parts("imag", spread(3, 2)),),
    "conj": (parts("conj", spread(3, 2)),),
    "angle": (parts("angle", spread(3, 2)),),
    "complex": (at(lambda x, y: Tensor.complex(x, y).square().view_as_real(), spread(4), spread(4, seed=1)),),
    "polar": (at(lambda x, y: Tensor.polar(x, y).view_as_real(), spread(4), spread(4, seed=1)),),
    "view_as_real": (parts("view_as_real", spread(3, 2)),),
    "view_as_complex": (parts("positive", spread(3, 2)),),
    "cfloat": (at(lambda x: x.double().cdouble().exp().real, ROWS),),
    "cdouble": (at(lambda x: (x.cdouble() * 1j).exp().imag, ROWS),),
    # ---- Fourier
    "fft": (parts("fft", spread(4, 2)), parts("fft", spread(3, 2))),
    "ifft": (parts("ifft", spread(4, 2)),),
    "fft2": (parts("fft2", spread(2, 3, 2)),),
    "ifft2": (parts("ifft2", spread(2, 3, 2)),),
    "fftn": (parts("fftn", spread(2, 3, 2)),),
    "ifftn": (parts("ifftn", spread(2, 3, 2)),),
    "rfft": (at(lambda x: x.rfft().view_as_real(), spread(5)),),
    "rfft2": (at(lambda x: x.rfft2().view_as_real(), spread(2, 3)),),
    "rfftn": (at(lambda x: x.rfftn().view_as_real(), spread(2, 3)),),
    "irfft": (parts("irfft", spread(3, 2)),),
    "irfft2": (parts("irfft2", spread(2, 3, 2)),),
    "irfftn": (parts("irfftn", spread(2, 3, 2)),),
    "hfft": (parts("hfft", spread(3, 2)),),
    "ihfft": (at(lambda x: x.ihfft().view_as_real(), spread(5)),),
    "fftshift": (one("fftshift"),),
    "ifftshift": (one("ifftshift"),),
    # ---- layers
    "softmax": (one("softmax"), one("softmax", ROWS, 0)),
    "softmin": (one("softmin"),),
    "log_softmax": (one("log_softmax"), one("log_softmax", ROWS, 0)),
    "layernorm": (one("layernorm"), one("layernorm", CUBE, (1, 2))),
    "batchnorm": (at(lambda x, w, b, m, s: x.batchnorm(w, b, m, s), CUBE, *(spread(3, seed=i) for i in range(4))),),
    "conv2d": (
        at(lambda x, w, b: x.conv2d(w, b, padding=1, stride=2), IMAGE, spread(3, 4, 3, 3), spread(3)),
        at(lambda x, w: x.conv2d(w, groups=2, dilation=2), IMAGE, spread(2, 2, 2, 2)),
        at(lambda x, w: x.conv2d(w), spread(1, 2, 7), spread(2, 2, 3)),
    ),
    "conv_transpose2d": (
        at(lambda x, w: x.conv_transpose2d(w, stride=2, padding=1, output_padding=1), IMAGE, spread(4, 2, 3, 3)),
    ),
    "avg_pool2d": (one("avg_pool2d", IMAGE), one("avg_pool2d", IMAGE, 3, 2, padding=1, count_include_pad=False)),
    "max_pool2d": (one("max_pool2d", IMAGE), one("max_pool2d", IMAGE, 3, 1)),
    "max_unpool2d": (one("max_unpool2d", spread(1, 1, 2, 2), ints([[[0, 3], [8, 10]]])),),
    "interpolate": (
        one("interpolate", IMAGE, (3, 7), mode="linear"),
        one("interpolate", IMAGE, (7, 7), mode="linear", align_corners=True),
        one("interpolate", IMAGE, (3, 7), mode="nearest"),
    ),
    "scaled_dot_product_attention": (
        at(lambda q, k, v: q.scaled_dot_product_attention(k, v), *(spread(2, 3, 4, seed=i) for i in range(3))),
        at(
            lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True),
            *(spread(2, 3, 4, seed=i) for i in range(3)),
        ),
    ),
    "sequential": (at(lambda x: x.sequential([Tensor.exp, Tensor.sin]), ROWS),),
    "dropout": (at(lambda x: x.dropout(0.5), ROWS),),
    # ---- losses
    "cross_entropy": (one("cross_entropy", ROWS, LABELS), two("cross_entropy", ROWS, spread(3, 4, low=0.1, high=0.4))),
    "sparse_categorical_crossentropy": (one("sparse_categorical_crossentropy", ROWS, LABELS, label_smoothing=0.1),),
    "nll_loss": (one("nll_loss", ROWS, LABELS),),
    "binary_crossentropy": (two("binary_crossentropy", *(spread(3, 4, low=0.1, high=0.9, seed=i) for i in (0, 1))),),
    "binary_crossentropy_logits": (two("binary_crossentropy_logits", ROWS, spread(3, 4, low=0.1, high=0.9)),),
    "mse_loss": (two("mse_loss"),),
    "l1_loss": (two("l1_loss"),),
    "smooth_l1_loss": (two("smooth_l1_loss"),),
    "huber_loss": (two("huber_loss"),),
    "kl_div": (two("kl_div", ROWS, spread(3, 4, low=0.1, high=0.9)),),
    # ---- written in place
    "assign": (at(lambda x, y: (x * 1).assign(y * y) * x, ROWS, spread(3, 4, seed=1)),),
    "replace": (at(lambda x, y: (x * 1).replace(y * y) * x, ROWS, spread(3, 4, seed=1)),),
}

# Functions that complex numbers have too.
OF_COMPLEX = names("""
    exp log log1p expm1 sqrt sigmoid sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh abs sign reciprocal
""")
CASES |= {name: (*CASES[name], parts(name, spread(3, 2))) for name in OF_COMPLEX}
CASES["pow"] = (*CASES["pow"], parts("pow", spread(3, 2), 1.5 - 0.5j))

# Names that have no gradient: what they give is no float, does not depend on the tensor, or is no tensor.
NONE = frozenset(names("""
    all allclose any argmax argmin argsort bincount bitcast bitwise_and bitwise_not bitwise_or bitwise_xor bool
    count_nonzero eq equal ge gt histogram int isclose isfinite isinf isnan le logical_and logical_not logical_or
    logical_xor long lshift lt matrix_rank ne nonzero one_hot rshift searchsorted short signbit unique
    arange bernoulli detach empty empty_like exponential eye fftfreq from_blob from_dlpack from_url full full_like
    glorot_uniform gumbel heaviside kernels kaiming_normal kaiming_uniform linspace manual_seed multinomial normal ones
    ones_like rand rand_like randint randn randn_like randperm rfftfreq scaled_uniform shuffle train uniform zeros
    zeros_like get_rng_state set_rng_state
    backward custom_function custom_kernel data device dtype element_size grad gradient is_floating_point item nbytes
    explain ndim numel numpy realize requires_grad shape size to_ tolist uop
    bfloat16 float half at
    lstsq pinv geqrf
"""))  # fmt: skip
