"""Where samples come from: by number (`Dataset`), or one after the other (`IterableDataset`)."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, chain
from typing import Any

from whit.errors import ArgumentError, ShapeError
from whit.nn.data.samplers import Generator, shuffled
from whit.tensor import Tensor


class Dataset:
    """A base for data sets; any object with `__getitem__` and `__len__` is one, a list too."""

    def __getitem__(self, index: Any) -> Any:
        raise ArgumentError(f"{type(self).__name__}: there is no __getitem__", fix="Define it, and __len__.")

    def __add__(self, other: Any) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset:
    """A base for samples that come one after the other: `__iter__` is what they are read by.

    Each worker goes through all of it, unless it asks `get_worker_info()` for its part.
    """

    def __iter__(self) -> Iterator[Any]:
        raise ArgumentError(f"{type(self).__name__}: there is no __iter__", fix="Define it.")

    def __add__(self, other: Any) -> ChainDataset:
        return ChainDataset([self, other])


class TensorDataset(Dataset):
    """Tensors whose first axes are the samples. A batch of a DataLoader is read by one kernel a tensor."""

    def __init__(self, *tensors: Tensor) -> None:
        sizes = {tensor.shape[0] for tensor in tensors if tensor.ndim}
        if len(sizes) != 1 or any(not tensor.ndim for tensor in tensors):
            raise ShapeError(f"TensorDataset: {sorted(sizes)} samples", fix="First axes must have one size.")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])


class StackDataset(Dataset):
    """Data sets side by side: a sample is a tuple of theirs, or a dictionary."""

    def __init__(self, *datasets: Any, **named: Any) -> None:
        self.datasets: Any = named or datasets
        if bool(datasets) == bool(named) or len({len(each) for each in self._all()}) != 1:
            raise ArgumentError(
                "StackDataset: data sets of several lengths, or of two kinds", fix="Give them by name, or by place."
            )

    def _all(self) -> list[Any]:
        return list(self.datasets.values() if isinstance(self.datasets, Mapping) else self.datasets)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, Mapping):
            return {name: each[index] for name, each in self.datasets.items()}
        return tuple(each[index] for each in self.datasets)

    def __len__(self) -> int:
        return len(self._all()[0])


class Subset(Dataset):
    """Some samples of another data set."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> Any:
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


class ConcatDataset(Dataset):
    """Data sets one after the other."""

    def __init__(self, datasets: Sequence[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets or any(isinstance(each, IterableDataset) for each in self.datasets):
            raise ArgumentError("ConcatDataset: no data sets with numbers", fix="ChainDataset joins iterable ones.")
        self.cumulative_sizes = list(accumulate(len(each) for each in self.datasets))

    def __getitem__(self, index: int) -> Any:
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        which = bisect_right(self.cumulative_sizes, place)
        return self.datasets[which][place - (self.cumulative_sizes[which - 1] if which else 0)]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


class ChainDataset(IterableDataset):
    """Iterable data sets one after the other."""

    def __init__(self, datasets: Sequence[Any]) -> None:
        self.datasets = list(datasets)

    def __iter__(self) -> Iterator[Any]:
        return chain.from_iterable(self.datasets)


def random_split(dataset: Any, lengths: Sequence[float], generator: Generator = None) -> list[Subset]:
    """Parts of these sizes, or of these shares that add up to 1, with samples in any order."""
    count = len(dataset)
    sizes = [int(length) for length in lengths]
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1 + 1e-9 and sum(sizes) != count:
        sizes = [math.floor(count * share) for share in lengths]
        for place in range(count - sum(sizes)):  # what is left, one for each
            sizes[place % len(sizes)] += 1
    if sum(sizes) != count or any(size < 0 for size in sizes):
        raise ArgumentError(
            f"random_split: {list(lengths)} of {count} samples", fix="They add up to all of them, or 1."
        )
    order, ends = shuffled(count, generator), list(accumulate(sizes))
    return [Subset(dataset, order[end - size : end]) for size, end in zip(sizes, ends, strict=True)]
