"""Random numbers. With a seed they are those of NumPy's RandomState, the same at every run; without one, whit's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

from whit.dtype import DType, dtypes
from whit.onnx.operators.element_types import dtype_of
from whit.onnx.operators.registry import Node, Value, host_array, operator
from whit.tensor import Tensor

Array = numpy.ndarray[Any, Any]
Draw = Callable[["numpy.random.RandomState", tuple[int, ...]], Array]


def _drawn(node: Node, shape: Sequence[int], draw: Draw, own: Callable[..., Tensor], device: str | None) -> Tensor:
    """From the seed of the node, or without one by whit."""
    seed, sizes = node.get("seed"), tuple(int(n) for n in shape)
    if seed is None:
        return own(*sizes, device=device, dtype=dtypes.float32)
    return Tensor(numpy.asarray(draw(numpy.random.RandomState(int(seed)), sizes)), device=device)


def uniform(node: Node, shape: Sequence[int], device: str | None = None) -> Tensor:
    """Between 0 and 1."""
    return _drawn(node, shape, lambda state, sizes: state.uniform(0, 1, sizes), Tensor.rand, device)


def normal(node: Node, shape: Sequence[int], device: str | None = None) -> Tensor:
    """With mean 0 and standard deviation 1."""
    return _drawn(node, shape, lambda state, sizes: state.normal(0, 1, sizes), Tensor.randn, device)


def _dtype(node: Node, default: DType) -> DType:
    number = node.get("dtype")
    return default if number is None else dtype_of(int(number))


@operator("RandomUniform", since=(1, 22))
def random_uniform(node: Node) -> Tensor:
    """Between `low` and `high`."""
    return _between(node, uniform(node, node.get("shape")), dtypes.float32)


def _between(node: Node, share: Tensor, default: DType) -> Tensor:
    low, high = float(node.get("low", 0.0)), float(node.get("high", 1.0))
    return (share * (high - low) + low).cast(_dtype(node, default))


@operator("RandomUniformLike", since=(1, 22))
def random_uniform_like(node: Node, x: Tensor) -> Tensor:
    """In the shape of a tensor."""
    return _between(node, uniform(node, x.shape, x.device), x.dtype)


@operator("RandomNormal", since=(1, 22))
def random_normal(node: Node) -> Tensor:
    """With a mean and a standard deviation."""
    return _around(node, normal(node, node.get("shape")), dtypes.float32)


def _around(node: Node, share: Tensor, default: DType) -> Tensor:
    return (share * float(node.get("scale", 1.0)) + float(node.get("mean", 0.0))).cast(_dtype(node, default))


@operator("RandomNormalLike", since=(1, 22))
def random_normal_like(node: Node, x: Tensor) -> Tensor:
    """In the shape of a tensor."""
    return _around(node, normal(node, x.shape, x.device), x.dtype)


@operator("Bernoulli", since=(15, 22))
def bernoulli(node: Node, x: Tensor) -> Tensor:
    """1 with the probability of each element, else 0."""
    return (uniform(node, x.shape, x.device) < x).cast(_dtype(node, x.dtype))


@operator("Multinomial", since=(7, 22))
def multinomial(node: Node, x: Tensor) -> Tensor:
    """(batch, samples): classes, with the probabilities of their scores."""
    count = int(node.get("sample_size", 1))
    ends = x.cast(dtypes.float32).softmax(1).cumsum(1).unsqueeze(1)
    place = uniform(node, (x.shape[0], count), x.device).cast(dtypes.float32).unsqueeze(2)
    below = (place >= ends[:, :, : int(x.shape[1]) - 1]).cast(dtypes.int32).sum(2)
    return below.cast(_dtype(node, dtypes.int32))


@operator("Dropout", since=(1, 6, 7, 10, 12, 13, 22), host=(1, 2))
def dropout(node: Node, x: Tensor, ratio: Value = None, training: Value = None) -> Value:
    """The tensor itself, or in training with elements set to zero; and which were kept."""
    share = float(host_array(ratio).reshape(-1)[0]) if ratio is not None else float(node.get("ratio", 0.5))
    if training is not None:
        active = bool(host_array(training).reshape(-1)[0])
    else:
        active = node.version < 7 and node.get("is_test", 0) == 0
    if not active or share == 0:
        kept = Tensor.ones(*x.shape, dtype=dtypes.bool, device=x.device)
        return (x, kept if node.version >= 10 else kept.cast(x.dtype))[: node.outputs]
    kept = uniform(node, x.shape, x.device) >= share
    result = kept.where(x / (1 - share), 0)
    return (result.cast(x.dtype), kept)[: node.outputs]
