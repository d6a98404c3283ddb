"""Layers: plain classes that hold weights and are called with tensors.

    class Net:
        def __init__(self):
            self.first, self.second = nn.Linear(784, 128), nn.Linear(128, 10)
        def __call__(self, x):
            return self.second(self.first(x).relu())

No base class is needed: weights are found by walking attributes, lists and dictionaries (`nn.state`). A class that has
`nn.Module` as its base prints its layers, and may call its function `forward`; `nn.summary(model)` shows any model.
Names, shapes, arguments and initial values are PyTorch's, so that state dictionaries and training curves carry over.
"""

from typing import TYPE_CHECKING, NoReturn

from whit.names import NN, advice
from whit.nn import datasets, optim, state
from whit.nn.activation import (
    CELU,
    ELU,
    GELU,
    SELU,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Softsign,
    Tanh,
)
from whit.nn.attention import MultiHeadAttention, TransformerBlock
from whit.nn.linear import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, Embedding, Linear
from whit.nn.loss import (
    BCELoss,
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    HuberLoss,
    L1Loss,
    MSELoss,
    NLLLoss,
    SmoothL1Loss,
)
from whit.nn.module import Module, ModuleDict, ModuleList, Parameter, Sequential, summary
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
from whit.nn.shape import (
    AdaptiveAvgPool2d,
    AvgPool1d,
    AvgPool2d,
    Dropout,
    Flatten,
    Identity,
    MaxPool1d,
    MaxPool2d,
    Unflatten,
    Upsample,
)
from whit.tensor import checkpoint

if not TYPE_CHECKING:

    def __getattr__(name: str) -> NoReturn:
        """What a name of another library is called here."""
        raise AttributeError(advice("nn", name, NN) or f"module 'whit.nn' has no attribute '{name}'")


__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GRU",
    "LSTM",
    "SELU",
    "AdaptiveAvgPool2d",
    "AvgPool1d",
    "AvgPool2d",
    "BCELoss",
    "BCEWithLogitsLoss",
    "BatchNorm",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "Flatten",
    "GRUCell",
    "GroupNorm",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "HuberLoss",
    "Identity",
    "InstanceNorm",
    "L1Loss",
    "LSTMCell",
    "LayerNorm",
    "LayerNorm2d",
    "LeakyReLU",
    "Linear",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "MaxPool1d",
    "MaxPool2d",
    "Mish",
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiHeadAttention",
    "NLLLoss",
    "Parameter",
    "RMSNorm",
    "ReLU",
    "ReLU6",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "SmoothL1Loss",
    "Softmax",
    "Softplus",
    "Softsign",
    "Tanh",
    "TransformerBlock",
    "Unflatten",
    "Upsample",
    "checkpoint",
    "datasets",
    "optim",
    "state",
    "summary",
]
