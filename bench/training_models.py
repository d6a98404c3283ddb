"""The models whose training is counted, timed and planned: a multilayer perceptron, a convnet, and a small GPT.

    model, optimiser, batch = MODELS["mlp"]()
    step(model, optimiser, batch)               # forward, backward and update, as a user writes them

Tests assert kernels and bytes of their steps; `first_step.py` and `memory.py` here measure the same ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from whit import Tensor, nn
from whit.nn import optim


class MLP:
    """784-512-10."""

    def __init__(self) -> None:
        self.first, self.last = nn.Linear(784, 512), nn.Linear(512, 10)

    def __call__(self, x: Tensor) -> Tensor:
        return self.last(self.first(x).relu())


class ConvNet:
    """Three convolutions with batch norm, two of them pooled, on MNIST's 28 x 28."""

    def __init__(self) -> None:
        self.conv1, self.norm1 = nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm(16)
        self.conv2, self.norm2 = nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm(32)
        self.conv3, self.norm3 = nn.Conv2d(32, 32, 3, padding=1, bias=False), nn.BatchNorm(32)
        self.out = nn.Linear(32 * 7 * 7, 10)

    def __call__(self, x: Tensor) -> Tensor:
        x = self.norm1(self.conv1(x)).relu()  # (batch, 16, 28, 28)
        x = self.norm2(self.conv2(x)).relu().max_pool2d(2)  # (batch, 32, 14, 14)
        x = self.norm3(self.conv3(x)).relu().max_pool2d(2)  # (batch, 32, 7, 7)
        return self.out(x.flatten(1))


class GPT:
    """Blocks of attention over characters: (batch, time) to (batch, time, vocabulary)."""

    def __init__(self, layers: int = 4, dim: int = 128, heads: int = 4, time: int = 64, vocabulary: int = 64) -> None:
        self.characters, self.places = nn.Embedding(vocabulary, dim), nn.Embedding(time, dim)
        self.blocks = [nn.TransformerBlock(dim, heads) for _ in range(layers)]
        self.norm, self.out = nn.LayerNorm(dim), nn.Linear(dim, vocabulary, bias=False)

    def __call__(self, x: Tensor) -> Tensor:
        y = self.characters(x) + self.places(Tensor.arange(x.shape[1]))
        for block in self.blocks:
            y = block(y, is_causal=True)
        return self.out(self.norm(y))


@dataclass
class Training:
    """A model, what trains it, and a batch."""

    model: Callable[[Tensor], Tensor]
    optimizer: optim.Optimizer
    x: Tensor
    y: Tensor

    def loss(self) -> Tensor:
        """Of the batch."""
        return self.model(self.x).cross_entropy(self.y)

    def step(self) -> Tensor:
        """One step of training; the loss before it."""
        with Tensor.train():
            self.optimizer.zero_grad()
            loss = self.loss().backward()
            self.optimizer.step()
        return loss


def _batch(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    Tensor.realize(x, y)
    return x, y


def mlp(batch: int = 128) -> Training:
    """Adam on rows of 784."""
    model = MLP()
    x, y = _batch(Tensor.rand(batch, 784, requires_grad=False), Tensor.randint(batch, high=10))
    return Training(model, optim.Adam(nn.state.get_parameters(model)), x, y)


def convnet(batch: int = 64) -> Training:
    """Adam on images of 28 x 28."""
    model = ConvNet()
    x, y = _batch(Tensor.rand(batch, 1, 28, 28, requires_grad=False), Tensor.randint(batch, high=10))
    return Training(model, optim.Adam(nn.state.get_parameters(model)), x, y)


def gpt(batch: int = 8, layers: int = 4) -> Training:
    """AdamW on sequences of 64 characters."""
    model = GPT(layers)
    x, y = _batch(Tensor.randint(batch, 64, high=64), Tensor.randint(batch, 64, high=64))
    trained = Training(model, optim.AdamW(nn.state.get_parameters(model)), x, y)
    trained.loss = lambda: model(x).flatten(0, 1).cross_entropy(y.flatten())  # type: ignore[method-assign]
    return trained


MODELS: dict[str, Callable[[], Training]] = {"mlp": mlp, "convnet": convnet, "gpt": gpt}
