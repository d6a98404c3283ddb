"""Layers: plain classes that hold weights and are called with tensors.

    class Net:
        def __init__(self):
            self.first, self.second = nn.Linear(784, 128), nn.Linear(128, 10)
        def __call__(self, x):
            return self.second(self.first(x).relu())

There is no base class: weights are found by walking attributes, lists and dictionaries (`nn.state`). Names, shapes,
arguments and initial values are PyTorch's, so that state dictionaries and training curves carry over.
"""

from typing import TYPE_CHECKING, NoReturn

from whit.names import NN, advice
from whit.nn import datasets, optim, state
from whit.nn.attention import MultiHeadAttention, TransformerBlock
from whit.nn.linear import Conv1d, Conv2d, ConvTranspose1d, ConvTranspose2d, Embedding, Linear
from whit.nn.norm import (
    BatchNorm,
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    GroupNorm,
    InstanceNorm,
    LayerNorm,
    LayerNorm2d,
    RMSNorm,
)
from whit.nn.recurrent import GRU, LSTM, GRUCell, LSTMCell
from whit.tensor import checkpoint

if not TYPE_CHECKING:

    def __getattr__(name: str) -> NoReturn:
        """What a name of another library is called here."""
        raise AttributeError(advice("nn", name, NN) or f"module 'whit.nn' has no attribute '{name}'")


__all__ = [
    "GRU",
    "LSTM",
    "BatchNorm",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Conv1d",
    "Conv2d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "Embedding",
    "GRUCell",
    "GroupNorm",
    "InstanceNorm",
    "LSTMCell",
    "LayerNorm",
    "LayerNorm2d",
    "Linear",
    "MultiHeadAttention",
    "RMSNorm",
    "TransformerBlock",
    "checkpoint",
    "datasets",
    "optim",
    "state",
]
