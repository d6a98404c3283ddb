"""Data in batches, as `torch.utils.data` has it: data sets, samplers, a loader with workers, and changes to batches.

from whit.nn.data import DataLoader, TensorDataset
for x, y in DataLoader(TensorDataset(images, labels), batch_size=64, shuffle=True):
    x = augment.random_flip(augment.random_crop(x, 32, padding=4))
"""

from whit.nn.data import augment
from whit.nn.data.collate import default_collate, default_convert
from whit.nn.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from whit.nn.data.loader import DataLoader
from whit.nn.data.samplers import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from whit.nn.data.workers import WorkerInfo, get_worker_info

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "WorkerInfo",
    "augment",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
]
