"""Functions that ONNX has an operator for: LayerNormalization, Gelu, AveragePool, Attention and others.

What was called while the function was traced is known (`whit.tensor.told`). A writer gives the name of the result, or
None where the operator means something else, or is not there in the version of the file: then the parts are written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from whit.dtype import dtypes
from whit.ir.uop import UOp, const
from whit.onnx.types import FLOAT
from whit.tensor.told import Call

if TYPE_CHECKING:
    from whit.onnx.writing.translate import Translator

FLOATS: Final = frozenset({dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64})
WITHOUT_BFLOAT16: Final = FLOATS - {dtypes.bfloat16}
_RESIZES: Final = {
    "nearest": ("nearest", "asymmetric", "floor"),
    "nearest-exact": ("nearest", "half_pixel", "round_prefer_ceil"),
    **dict.fromkeys(("linear", "bilinear", "trilinear"), ("linear", "half_pixel", "")),
    **dict.fromkeys(("cubic", "bicubic"), ("cubic", "half_pixel", "")),
}


def write_call(to: Translator, node: UOp, call: Call) -> str | None:
    """The result of a function as one operator."""
    writer = CALLS.get(call.name)
    given = [operand for operand in call.operands if operand is not None]
    if writer is None or any(each.dtype is not node.dtype for each in given[:1]) or node.dtype not in FLOATS:
        return None
    return writer(to, node, call)


def _same_dtypes(call: Call, kinds: frozenset[Any] = FLOATS) -> bool:
    """Whether all operands are floats of one kind."""
    found = {operand.dtype for operand in call.operands if operand is not None}
    return len(found) == 1 and found <= kinds


def _numbers(to: Translator, like: UOp, shape: Sequence[object], value: float) -> str:
    """A tensor of equal numbers, in the place of weights that are not there."""
    return to.constant(const(like.dtype, value).reshape((1,) * len(shape)).expand(tuple(shape)))


def _or_numbers(to: Translator, given: UOp | None, like: UOp, shape: Sequence[object], value: float) -> str:
    return _numbers(to, like, shape, value) if given is None else to.name(given)


def _plain(kind: str, since: int = 18, **names: str) -> Writer:
    """An operator of one tensor; `names` are its attributes, each with that of the call."""

    def write(to: Translator, node: UOp, call: Call) -> str | None:
        (x,) = call.operands
        if to.opset < since or x is None or (node.dtype is dtypes.bfloat16 and to.opset < 22):
            return None
        return to.sheet.add(kind, to.name(x), **{name: float(call.attributes[of]) for name, of in names.items()})

    return write


def _along(kind: str) -> Writer:
    """Softmax and its logarithm, along one axis."""

    def write(to: Translator, node: UOp, call: Call) -> str | None:
        (x,), axes = call.operands, call.attributes["axes"]
        return to.sheet.add(kind, to.name(x), axis=axes[0]) if x is not None and len(axes) == 1 else None

    return write


def _log_sum(to: Translator, node: UOp, call: Call) -> str | None:
    """ONNX says nothing about no elements, and about infinities: those of one axis, which has some."""
    (x,), axes = call.operands, call.attributes["axes"]
    if x is None or not axes or any(not isinstance(x.shape[axis], int) or x.shape[axis] == 0 for axis in axes):
        return None
    keeps = int(call.attributes["keepdims"])
    return to.sheet.add("ReduceLogSumExp", to.name(x), to.sheet.numbers(axes), keepdims=keeps)


def _gelu(to: Translator, node: UOp, call: Call) -> str | None:
    (x,) = call.operands
    if to.opset < 20 or x is None:
        return None
    return to.sheet.add("Gelu", to.name(x), approximate=call.attributes["approximate"])


def _softplus(to: Translator, node: UOp, call: Call) -> str | None:
    return _plain("Softplus")(to, node, call) if call.attributes["beta"] == 1 else None


def _prelu(to: Translator, node: UOp, call: Call) -> str | None:
    """The slope is spread to the shape of x, and not x to that of the slope."""
    x, slope = call.operands
    if x is None or slope is None or not _same_dtypes(call, WITHOUT_BFLOAT16) or node.shape != x.shape:
        return None
    return to.sheet.add("PRelu", to.name(x), to.name(slope))


def _trailing(x: UOp, axes: Sequence[int]) -> int | None:
    """The first of the last axes, if it is those; their sizes are numbers."""
    first = len(x.shape) - len(axes)
    fits = tuple(sorted(axes)) == tuple(range(first, len(x.shape)))
    return first if axes and fits and all(isinstance(size, int) for size in x.shape[first:]) else None


def _layer_norm(to: Translator, node: UOp, call: Call) -> str | None:
    x, weight, bias = call.operands
    first = None if x is None else _trailing(x, call.attributes["axes"])
    if x is None or first is None or not _same_dtypes(call) or not _has_shape(x.shape[first:], weight, bias):
        return None
    names = [to.name(x), _or_numbers(to, weight, x, x.shape[first:], 1)]
    names += [] if bias is None else [to.name(bias)]
    return to.sheet.add("LayerNormalization", *names, axis=first, epsilon=float(call.attributes["eps"]))


def _rms_norm(to: Translator, node: UOp, call: Call) -> str | None:
    x, weight = call.operands
    first = None if x is None else _trailing(x, call.attributes["axes"])
    if to.opset < 23 or x is None or first is None or not _same_dtypes(call) or not _has_shape(x.shape[first:], weight):
        return None
    scale = _or_numbers(to, weight, x, x.shape[first:], 1)
    return to.sheet.add("RMSNormalization", to.name(x), scale, axis=first, epsilon=float(call.attributes["eps"]))


def _has_shape(shape: Sequence[object], *given: UOp | None) -> bool:
    return all(each is None or tuple(each.shape) == tuple(shape) for each in given)


def _of_channels(x: UOp) -> tuple[object, ...] | None:
    """The shape of weights for each channel."""
    return (x.shape[1],) if len(x.shape) >= 2 and isinstance(x.shape[1], int) else None


def _batch_norm(to: Translator, node: UOp, call: Call) -> str | None:
    x, weight, bias, mean, variance = call.operands
    shape = None if x is None else _of_channels(x)
    if x is None or mean is None or variance is None or shape is None:
        return None
    if not _same_dtypes(call) or not _has_shape(shape, weight, bias, mean, variance):
        return None
    names = [to.name(x), _or_numbers(to, weight, x, shape, 1), _or_numbers(to, bias, x, shape, 0)]
    names += [to.name(mean), to.name(variance)]
    return to.sheet.add("BatchNormalization", *names, epsilon=float(call.attributes["eps"]))


def _instance_norm(to: Translator, node: UOp, call: Call) -> str | None:
    x, weight, bias = call.operands
    shape = None if x is None else _of_channels(x)
    if x is None or shape is None or not _same_dtypes(call, WITHOUT_BFLOAT16) or not _has_shape(shape, weight, bias):
        return None
    names = to.name(x), _or_numbers(to, weight, x, shape, 1), _or_numbers(to, bias, x, shape, 0)
    return to.sheet.add("InstanceNormalization", *names, epsilon=float(call.attributes["eps"]))


def _group_norm(to: Translator, node: UOp, call: Call) -> str | None:
    """Before version 21 the operator had a scale for each group."""
    x, weight, bias = call.operands
    shape = None if x is None else _of_channels(x)
    if to.opset < 21 or x is None or shape is None or not _same_dtypes(call) or not _has_shape(shape, weight, bias):
        return None
    names = to.name(x), _or_numbers(to, weight, x, shape, 1), _or_numbers(to, bias, x, shape, 0)
    given = {"epsilon": float(call.attributes["eps"]), "num_groups": int(call.attributes["groups"])}
    return to.sheet.add("GroupNormalization", *names, **given)


def _sides(padding: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """First what is before each axis, then what is after."""
    return (*[before for before, _ in padding], *[after for _, after in padding])


def _avg_pool(to: Translator, node: UOp, call: Call) -> str | None:
    (x,), given = call.operands, call.attributes
    kernel, pads = tuple(given["kernel"]), _sides(given["padding"])
    if x is None or len(x.shape) != len(kernel) + 2 or min(pads) < 0 or x.dtype is dtypes.bfloat16:
        return None
    if kernel == tuple(x.shape[2:]) and not any(pads):
        return to.sheet.add("GlobalAveragePool", to.name(x))
    dilated = any(gap != 1 for gap in given["dilation"])
    if dilated and to.opset < 19:
        return None
    more = {"dilations": tuple(given["dilation"])} if dilated else {}
    strides = tuple(given["stride"])
    counted = {"count_include_pad": 1} if any(pads) else {}
    return to.sheet.add("AveragePool", to.name(x), kernel_shape=kernel, pads=pads, strides=strides, **counted, **more)


def _conv(to: Translator, node: UOp, call: Call) -> str | None:
    """With a bias; without one it is a function that the graph names itself."""
    x, weight, bias = call.operands
    given, pads = call.attributes, _sides(call.attributes["padding"])
    if x is None or weight is None or bias is None or not _same_dtypes(call, WITHOUT_BFLOAT16) or len(bias.shape) != 1:
        return None
    if 0 in weight.shape:
        return None
    return to.sheet.add(
        "Conv",
        *(to.name(each) for each in (x, weight, bias)),
        dilations=tuple(given["dilation"]),
        group=int(given["groups"]),
        kernel_shape=tuple(given["kernel"]),
        pads=pads,
        strides=tuple(given["stride"]),
    )


def _conv_transpose(to: Translator, node: UOp, call: Call) -> str | None:
    x, weight, bias = call.operands
    given, pads = call.attributes, _sides(call.attributes["padding"])
    if x is None or weight is None or not _same_dtypes(call, WITHOUT_BFLOAT16) or min(pads) < 0 or 0 in weight.shape:
        return None
    names = [to.name(each) for each in (x, weight, bias) if each is not None]
    return to.sheet.add(
        "ConvTranspose",
        *names,
        dilations=tuple(given["dilation"]),
        group=int(given["groups"]),
        kernel_shape=tuple(weight.shape[2:]),
        output_padding=tuple(given["output_padding"]),
        pads=pads,
        strides=tuple(given["stride"]),
    )


def _interpolate(to: Translator, node: UOp, call: Call) -> str | None:
    (x,), given = call.operands, call.attributes
    scales: list[float | None] = given["scales"]
    if x is None or given["mode"] not in _RESIZES or 0 in x.shape or node.shape == x.shape:
        return None
    mode, places, nearest = _RESIZES[given["mode"]]
    more: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": places}
    if given["align_corners"]:
        more["coordinate_transformation_mode"] = "align_corners"
    if nearest:
        more["nearest_mode"] = nearest
    if all(scale is None for scale in scales):
        return to.sheet.add("Resize", to.name(x), "", "", to.sizes(node.shape), **more)
    factors = [1.0] * (len(x.shape) - len(scales)) + [1.0 if scale is None else scale for scale in scales]
    array = b"".join(map(_float_bytes, factors))
    return to.sheet.add("Resize", to.name(x), "", to.sheet.tensor(FLOAT, (len(factors),), array), **more)


def _float_bytes(value: float) -> bytes:
    return np.float32(value).tobytes()


def _are_heads(*parts: UOp) -> bool:
    """Whether all are (batch, heads, length, depth), of one batch."""
    return all(len(part.shape) == 4 for part in parts) and len({part.shape[0] for part in parts}) == 1


def _attention(to: Translator, node: UOp, call: Call) -> str | None:
    """Heads in an axis of their own; a mask of bools gives 0 to queries that see nothing, which ONNX does not say."""
    q, k, v, mask = call.operands
    if to.opset < 23 or q is None or k is None or v is None or not _same_dtypes(call):
        return None
    is_causal = bool(call.attributes["is_causal"])
    if not _are_heads(q, k, v) or (is_causal and (mask is not None or q.shape[2] != k.shape[2])):
        return None
    names = [to.name(each) for each in (q, k, v, mask) if each is not None]
    more = {"is_causal": 1} if is_causal else {}
    return to.sheet.add("Attention", *names, scale=float(call.attributes["scale"]), **more)


Writer = Callable[["Translator", UOp, Call], "str | None"]
CALLS: Final[dict[str, Writer]] = {
    "attention": _attention,
    "avg_pool": _avg_pool,
    "batch_norm": _batch_norm,
    "celu": _plain("Celu", alpha="alpha"),
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "elu": _plain("Elu", alpha="alpha"),
    "gelu": _gelu,
    "global_average": _plain("GlobalAveragePool"),
    "group_norm": _group_norm,
    "hardsigmoid": _plain("HardSigmoid", alpha="alpha", beta="beta"),
    "hardswish": _plain("HardSwish"),
    "instance_norm": _instance_norm,
    "interpolate": _interpolate,
    "layer_norm": _layer_norm,
    "leaky_relu": _plain("LeakyRelu", alpha="alpha"),
    "log_softmax": _along("LogSoftmax"),
    "logsumexp": _log_sum,
    "mish": _plain("Mish"),
    "prelu": _prelu,
    "rms_norm": _rms_norm,
    "selu": _plain("Selu", alpha="alpha", gamma="gamma"),
    "softmax": _along("Softmax"),
    "softplus": _softplus,
    "softsign": _plain("Softsign"),
}
