"""Samples -> a batch: numbers, arrays and tensors are stacked, in tuples, lists, dictionaries and named tuples.

Workers stack into NumPy arrays; the process that asked for batches makes tensors of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from whit.dtype import dtypes
from whit.errors import DTypeError, ShapeError
from whit.ir import ops
from whit.ir.uop import UOp
from whit.tensor import Tensor


def default_collate(batch: Sequence[Any]) -> Any:
    """A list of samples -> a batch of tensors; texts stay lists."""
    return to_tensors(stack_samples(batch), None)


def stack_samples(batch: Sequence[Any]) -> Any:
    """The same, with arrays in place of tensors, but for samples that are tensors."""
    import numpy as np  # lazy: `whit.nn` loads without numpy

    first = batch[0]
    if isinstance(first, Tensor):
        return _stacked_tensors(batch)
    if isinstance(first, np.ndarray | np.generic) or _is_number(first):
        return _stacked([np.asarray(each) for each in batch], type(first) is float)
    if isinstance(first, str | bytes):
        return list(batch)
    if isinstance(first, Mapping):
        return {key: stack_samples([each[key] for each in batch]) for key in first}
    if isinstance(first, tuple | list):
        return _stacked_parts(batch)
    if hasattr(first, "__array__"):
        return stack_samples([np.asarray(each) for each in batch])
    raise DTypeError(
        f"DataLoader: a sample has a {type(first).__name__}, which cannot be stacked",
        fix="Return numbers, arrays, tensors, texts, or tuples and dictionaries of them; or give a collate_fn.",
    )


def _stacked_tensors(samples: Sequence[Tensor]) -> Tensor:
    """Samples in a stack. Those that are rows of one tensor are gathered from it: one kernel, wherever they lie.

    What rows are a part of is computed first, once: else each row of each batch would be computed from where that
    comes from. Samples that are no rows stay lazy."""
    first = samples[0]
    family = first._family
    if family is not None and family.uop.op is not ops.BUFFER:
        wholes: list[Any] = [tensor for tensor in family.members() if tensor.uop is family.uop]
        Tensor.realize(*(wholes or [first]))
    places = [_row(sample) for sample in samples]
    sources = {None if place is None else place[0] for place in places}
    source = sources.pop()
    if sources or source is None or len(samples) == 1:
        return first.stack(*samples[1:])
    rows = Tensor([place[1] for place in places if place is not None], device=first.device)
    return first._wrap(source)[rows]


def _row(sample: Tensor) -> tuple[UOp, int] | None:
    """The node that a sample is a row of, and which one; None if it is something else."""
    window = sample.uop.src[0] if sample.uop.op is ops.RESHAPE else sample.uop
    if window.op is not ops.SHRINK or window.src[0].op is not ops.BUFFER:
        return None
    source, ((place, size), *others) = window.src[0], window.arg
    is_whole = [tuple(part) for part in others] == [(0, size) for size in source.shape[1:]]
    is_row = is_whole and size == 1 and sample.shape == source.shape[1:] and isinstance(place, int)
    return (source, place) if is_row else None


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float)


def _stacked(arrays: list[Any], are_floats: bool) -> Any:
    """Arrays of one shape; Python's floats are in the default dtype, its integers in int64, as in PyTorch."""
    import numpy as np  # lazy: `whit.nn` loads without numpy

    shapes = sorted({array.shape for array in arrays})
    if len(shapes) > 1:
        raise ShapeError(
            f"DataLoader: samples of shapes {', '.join(map(str, shapes))} in one batch",
            fix="Make them alike, or give a collate_fn: nn.utils.rnn.pad_sequence fills up sequences.",
        )
    array = np.stack(arrays)
    return array.astype("float32") if are_floats and dtypes.default_float is dtypes.float32 else array


def _stacked_parts(batch: Sequence[Any]) -> Any:
    """A tuple of batches from samples that are tuples; named tuples keep their names."""
    first = batch[0]
    if len({len(each) for each in batch}) != 1:
        raise ShapeError("DataLoader: samples with several numbers of parts in one batch")
    parts = [stack_samples(part) for part in zip(*batch, strict=True)]
    return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)


def default_convert(data: Any) -> Any:
    """Arrays -> tensors, in containers too; anything else stays."""
    return to_tensors(data, None)


def to_tensors(data: Any, device: str | None) -> Any:
    """The same on a device."""
    if isinstance(data, Tensor):
        return data if device is None else data.to(device)
    if type(data).__module__ == "numpy" and hasattr(data, "dtype") and data.dtype.kind in "biuf":
        return Tensor(data, device=device).realize()
    if isinstance(data, Mapping):
        return {key: to_tensors(part, device) for key, part in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(to_tensors(part, device) for part in data))
    if isinstance(data, tuple | list):
        return type(data)(to_tensors(part, device) for part in data)
    return data
