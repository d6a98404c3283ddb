"""Features: scaled, normalised, filled in, chosen."""

from __future__ import annotations

import math

import numpy

from whit.dtype import dtypes
from whit.onnx.operators.learning.scores import DOMAIN
from whit.onnx.operators.registry import ALL, Node, Value, as_tensor, host_array, operator
from whit.tensor import Tensor


@operator("ArrayFeatureExtractor", since=(1,), domain=DOMAIN, host=ALL)
def choose_features(node: Node, x: Value, places: Value) -> Value:
    """Elements of the last axis; one row stays a row."""
    index = host_array(places).reshape(-1).astype(numpy.int64)
    if isinstance(x, numpy.ndarray) and x.dtype.kind in "OUS":
        return x[..., index].reshape((1, -1) if x.ndim == 1 else (*x.shape[:-1], -1))
    tensor = as_tensor(x)
    found = tensor.index_select(tensor.ndim - 1, Tensor(index, device=tensor.device))
    return found.reshape((1, index.size)) if tensor.ndim == 1 else found


@operator("Binarizer", since=(1,), domain=DOMAIN)
def binarizer(node: Node, x: Tensor) -> Tensor:
    """1 above a threshold, else 0."""
    return (x > float(node.get("threshold", 0.0))).cast(x.dtype)


@operator("FeatureVectorizer", since=(1,), domain=DOMAIN)
def join_features(node: Node, *inputs: Tensor) -> Tensor:
    """Features side by side, each input cut to its number of them."""
    sizes = list(node.get("inputdimensions") or ())
    rows = [x.unsqueeze(0) if x.ndim == 1 else x.reshape((x.shape[0], math.prod(x.shape[1:]))) for x in inputs]
    parts = [row[:, : int(sizes[i])] if i < len(sizes) else row for i, row in enumerate(rows)]
    wide = [part.cast(dtypes.float32) for part in parts]
    return wide[0].cat(*wide[1:], dim=1)


@operator("Imputer", since=(1,), domain=DOMAIN)
def imputer(node: Node, x: Tensor) -> Tensor:
    """One value (or NaN) replaced, in each feature by its own."""
    of_floats = x.dtype.is_float
    values = node.get("imputed_value_floats") if of_floats else node.get("imputed_value_int64s")
    missing = node.get("replaced_value_float", 0.0) if of_floats else node.get("replaced_value_int64", 0)
    new = Tensor(numpy.array(values), device=x.device).cast(x.dtype)
    is_missing = x.isnan() if of_floats and math.isnan(missing) else x == missing
    return is_missing.where(new if len(values) > 1 else new[0], x)


@operator("Normalizer", since=(1,), domain=DOMAIN)
def normalizer(node: Node, x: Tensor) -> Tensor:
    """Each row divided by its largest, its sum or its length."""
    wide, how = x.cast(dtypes.float32), node.get("norm", "MAX")
    if how == "MAX":
        norm = wide.max(-1, True)
    elif how == "L1":
        norm = wide.abs().sum(-1, True)
    else:
        norm = wide.square().sum(-1, True).sqrt()
    return (norm == 0).where(wide, wide / norm)


@operator("Scaler", since=(1,), domain=DOMAIN)
def scaler(node: Node, x: Tensor) -> Tensor:
    """(x - offset) * scale."""
    offset, scale = (
        Tensor(numpy.array(node.get(name) or [default], dtype=numpy.float32), device=x.device)
        for name, default in (("offset", 0.0), ("scale", 1.0))
    )
    return (x.cast(dtypes.float32) - offset) * scale
