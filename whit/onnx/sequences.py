"""Sequences and optionals: lists of values, and values that may be missing. The list is the host's, tensors are not."""

from __future__ import annotations

from typing import Any

import numpy as np

from whit.errors import ArgumentError
from whit.onnx.operators.registry import ALL, Node, Value, host_int_list, operator
from whit.onnx.values import lifted
from whit.tensor import Tensor


@operator("SequenceEmpty", since=(11,))
def sequence_empty(node: Node) -> Value:
    """A sequence of nothing."""
    return []


@operator("SequenceConstruct", since=(11,), host=ALL)
def sequence_construct(node: Node, *values: Value) -> Value:
    """A sequence of the inputs."""
    return list(values)


def _position(node: Node, sequence: Value, position: Value, most: int) -> int:
    if not isinstance(sequence, list):
        raise ArgumentError(f"{node}: a {type(sequence).__name__} is no sequence", fix="The model is wrong.")
    place = host_int_list(position)[0]
    if not -len(sequence) <= place < most:
        raise ArgumentError(f"{node}: place {place} of a sequence of {len(sequence)}", fix="The model is wrong.")
    return place if place >= 0 else place + len(sequence)


@operator("SequenceAt", since=(11,), host=ALL)
def sequence_at(node: Node, sequence: Value, position: Value) -> Value:
    """One element."""
    return sequence[_position(node, sequence, position, len(sequence))]


@operator("SequenceInsert", since=(11,), host=ALL)
def sequence_insert(node: Node, sequence: Value, value: Value, position: Value = None) -> Value:
    """A sequence with one element more, at the end if no place is given."""
    place = len(sequence) if position is None else _position(node, sequence, position, len(sequence) + 1)
    return [*sequence[:place], value, *sequence[place:]]


@operator("SequenceErase", since=(11,), host=ALL)
def sequence_erase(node: Node, sequence: Value, position: Value = None) -> Value:
    """A sequence without one of its elements, the last if no place is given."""
    place = len(sequence) - 1 if position is None else _position(node, sequence, position, len(sequence))
    return [*sequence[:place], *sequence[place + 1 :]]


@operator("SequenceLength", since=(11,), host=ALL)
def sequence_length(node: Node, sequence: Value) -> Value:
    """How many elements there are."""
    return np.array(len(sequence), np.int64)


@operator("ConcatFromSequence", since=(11,), host=ALL)
def concat_from_sequence(node: Node, sequence: Value) -> Value:
    """All elements along one axis, which may be a new one."""
    axis, is_new = int(node.get("axis")), bool(node.get("new_axis", 0))
    if all(isinstance(value, np.ndarray) for value in sequence):
        return (np.stack if is_new else np.concatenate)(sequence, axis=axis)
    tensors = [lifted(value, None) for value in sequence]
    return Tensor.stack(*tensors, dim=axis) if is_new else Tensor.cat(*tensors, dim=axis)


@operator("SplitToSequence", since=(11, 24), host=ALL)
def split_to_sequence(node: Node, x: Value, split: Value = None) -> Value:
    """The parts of a tensor along an axis; of size 1 if no sizes are given, then without the axis unless it is kept."""
    axis = int(node.get("axis", 0))
    size = int(x.shape[axis])
    sizes = [1] * size
    if split is not None:
        given = host_int_list(split)
        sizes = given
        if len(split.shape) == 0:
            each = given[0]
            sizes = [min(each, size - start) for start in range(0, size, each)]
    parts: list[Any] = []
    for start, length in zip(np.cumsum([0, *sizes]).tolist(), sizes, strict=False):
        place: list[Any] = [slice(None)] * len(x.shape)
        place[axis] = slice(start, start + length)
        part = x[tuple(place)]
        drops = split is None and not node.get("keepdims", 1)
        parts.append(part.squeeze(axis) if drops else part)
    return parts


@operator("Optional", since=(15,), host=ALL)
def optional(node: Node, value: Value = None) -> Value:
    """A value, or that there is none."""
    return value


@operator("OptionalHasElement", since=(15, 18), host=ALL)
def optional_has_element(node: Node, value: Value = None) -> Value:
    """Whether there is a value."""
    return np.array(value is not None)


@operator("OptionalGetElement", since=(15, 18), host=ALL)
def optional_get_element(node: Node, value: Value) -> Value:
    """The value that is there."""
    if value is None:
        raise ArgumentError(f"{node}: there is no value", fix="Ask OptionalHasElement first, in the model.")
    return value
