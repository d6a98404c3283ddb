"""Labels: one kind of value into another by a table, and maps of labels."""

from __future__ import annotations

from typing import Any, Final

import numpy

from whit.dtype import dtypes
from whit.errors import ArgumentError
from whit.onnx.operators.learning.scores import DOMAIN
from whit.onnx.operators.registry import ALL, Node, Value, as_tensor, host_array, operator
from whit.onnx.operators.strings import text_array
from whit.tensor import Tensor

Array = numpy.ndarray[Any, Any]
_KINDS: Final[dict[str, Any]] = {"strings": object, "int64s": numpy.int64, "floats": numpy.float32}
_DEFAULTS: Final[dict[str, tuple[str, Any]]] = {
    "strings": ("default_string", "_Unused"),
    "int64s": ("default_int64", -1),
    "floats": ("default_float", -0.0),
}


def _table(node: Node, which: str) -> tuple[Array, str]:
    """The keys or values of a node, and what kind they are."""
    for kind, dtype in _KINDS.items():
        if node.get(f"{which}_{kind}") is not None:
            return numpy.array(node.get(f"{which}_{kind}"), dtype=dtype), kind
    if node.get(f"{which}_tensor") is None:
        raise ArgumentError(f"{node}: no {which}", fix="The model is wrong.")
    table = host_array(node.get(f"{which}_tensor")).reshape(-1)
    return table, {"f": "floats", "i": "int64s"}.get(table.dtype.kind, "strings")


def _default(node: Node, kind: str, values: Array) -> Any:
    given = node.get("default_tensor")
    if given is not None:
        return host_array(given).reshape(-1)[0]
    name, default = _DEFAULTS[kind]
    return numpy.array([node.get(name, default)], dtype=values.dtype)[0]


def looked_up(x: Value, keys: Array, values: Array, default: Any) -> Value:
    """Each element by a table; of equal keys the last. Numbers for numbers stay on the device."""
    if isinstance(x, Tensor) and keys.dtype.kind in "iuf" and values.dtype.kind in "iuf":
        known = Tensor(keys, device=x.device).cast(x.dtype)
        wide = x.unsqueeze(-1)
        hit = (wide == known) | ((wide != wide) & (known != known)) if x.dtype.is_float else wide == known
        number = Tensor.arange(len(keys), device=x.device, dtype=dtypes.int64)
        place = hit.where(number, -1).max(-1)
        found = Tensor(values, device=x.device).index_select(0, place.maximum(0).reshape((x.numel(),)))
        return (place < 0).where(
            Tensor(numpy.array(default, dtype=values.dtype), device=x.device), found.reshape(x.shape)
        )
    array = host_array(x)
    table = {_key(key): value for key, value in zip(keys.tolist(), values.tolist(), strict=True)}
    texts = [table.get(_key(element), default) for element in array.reshape(-1).tolist()]
    if values.dtype.kind in "OUS":
        return text_array(texts, array.shape)
    return as_tensor(numpy.array(texts, dtype=values.dtype).reshape(array.shape))


def _key(value: Any) -> Any:
    return "NaN" if isinstance(value, float) and value != value else value


@operator("LabelEncoder", since=(2, 4), domain=DOMAIN, host=ALL)
def label_encoder(node: Node, x: Value) -> Value:
    """Each element by a table of keys and values."""
    (keys, _), (values, kind) = _table(node, "keys"), _table(node, "values")
    return looked_up(x, keys, values, _default(node, kind, values))


@operator("LabelEncoder", since=(1,), domain=DOMAIN, host=ALL)
def class_encoder(node: Node, x: Value) -> Value:
    """Version 1: strings into their number in a list, or numbers into strings."""
    strings = numpy.array(node.get("classes_strings"), dtype=object)
    numbers = numpy.arange(len(strings), dtype=numpy.int64)
    if isinstance(x, numpy.ndarray) and x.dtype.kind in "OUS":
        return looked_up(x, strings, numbers, node.get("default_int64", -1))
    return looked_up(x, numbers, strings, node.get("default_string", "_Unused"))


@operator("CategoryMapper", since=(1,), domain=DOMAIN, host=ALL)
def category_mapper(node: Node, x: Value) -> Value:
    """Strings into numbers, or numbers into strings."""
    strings = numpy.array(node.get("cats_strings"), dtype=object)
    numbers = numpy.array(node.get("cats_int64s"), dtype=numpy.int64)
    if isinstance(x, numpy.ndarray) and x.dtype.kind in "OUS":
        return looked_up(x, strings, numbers, node.get("default_int64", -1))
    return looked_up(x, numbers, strings, node.get("default_string", "_Unused"))


@operator("OneHotEncoder", since=(1,), domain=DOMAIN, host=ALL)
def one_hot_encoder(node: Node, x: Value) -> Tensor:
    """Each element as a row of zeros with a one at its category."""
    strings = node.get("cats_strings")
    if strings:
        categories = numpy.array(strings, dtype=object)
        hit: Any = host_array(x)[..., None] == categories
        hot = Tensor(numpy.asarray(hit, dtype=bool))
    else:
        tensor = as_tensor(x)
        numbers = Tensor(numpy.array(node.get("cats_int64s"), dtype=numpy.int64), device=tensor.device)
        hot = tensor.cast(dtypes.int64).unsqueeze(-1) == numbers
    if not node.get("zeros", 1) and not host_array(hot.any(-1)).all():
        raise ArgumentError(f"{node}: a category that is not in the list", fix="zeros=1 makes rows of zeros of them.")
    return hot.cast(dtypes.float32)


# ---- maps


@operator("ZipMap", since=(1,), domain=DOMAIN, host=ALL)
def zip_map(node: Node, x: Value) -> Value:
    """Each row as a map from labels to its columns."""
    keys = list(node.get("classlabels_strings") or node.get("classlabels_int64s") or ())
    rows = host_array(x)
    rows = rows.reshape(1, -1) if rows.ndim == 1 else rows
    return [dict(zip(keys, row.tolist(), strict=True)) for row in rows]


@operator("CastMap", since=(1,), domain=DOMAIN, host=ALL)
def cast_map(node: Node, x: Value) -> Value:
    """A map with whole numbers as keys -> a row of its values, in their order or at their places."""
    kind = node.get("cast_to", "TO_FLOAT")
    if node.get("map_form", "DENSE") == "SPARSE":
        values = [x.get(i, 0) for i in range(int(node.get("max_map", 1)))]
    else:
        values = [x[key] for key in sorted(x)]
    if kind == "TO_STRING":
        return text_array([str(value) for value in values], (1, len(values)))
    numbers = [float(value) for value in values]
    return Tensor(numpy.array([numbers])).cast(dtypes.float32 if kind == "TO_FLOAT" else dtypes.int64)


@operator("DictVectorizer", since=(1,), domain=DOMAIN, host=ALL)
def dict_vectorizer(node: Node, x: Value) -> Value:
    """A map -> a row with a place for each word of a vocabulary."""
    words = list(node.get("string_vocabulary") or node.get("int64_vocabulary") or ())
    values = list(x.values())
    if values and isinstance(values[0], str):
        return text_array([x.get(word, "") for word in words], (1, len(words)))
    dtype = numpy.int64 if values and isinstance(values[0], int) else numpy.float32
    return Tensor(numpy.array([[x.get(word, 0) for word in words]], dtype=dtype))
