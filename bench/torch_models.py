"""The models of `training_models.py` in PyTorch: the same layers, batches and optimisers."""

# mypy: disable-error-code="misc"
from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """A block of a transformer, with one weight for queries, keys and values each."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.query, self.key, self.value, self.out = (nn.Linear(dim, dim) for _ in range(4))
        self.ff1, self.ff2 = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm1(x)
        q, k, v = (
            layer(y).view(*x.shape[:2], self.heads, -1).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.ff2(functional.gelu(self.ff1(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    """Blocks over characters."""

    def __init__(self, layers: int = 4, dim: int = 128, heads: int = 4, time: int = 64, vocabulary: int = 64) -> None:
        super().__init__()
        self.characters, self.places = nn.Embedding(vocabulary, dim), nn.Embedding(time, dim)
        self.blocks = nn.Sequential(*(Block(dim, heads) for _ in range(layers)))
        self.norm, self.out = nn.LayerNorm(dim), nn.Linear(dim, vocabulary, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.characters(x) + self.places(torch.arange(x.shape[1]))
        return self.out(self.norm(self.blocks(y)))


def _convnet() -> nn.Module:
    layers: list[nn.Module] = []
    for inputs, outputs, pools in ((1, 16, False), (16, 32, True), (32, 32, True)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
        if pools:
            layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(32 * 7 * 7, 10))


Step = Callable[[], float]


def _training(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> Step:
    def step() -> float:
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x).flatten(0, -2), y.flatten())
        loss.backward()
        optimizer.step()
        return float(loss)

    return step


def mlp(batch: int = 128) -> Step:
    """784-512-10 with Adam."""
    model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 10))
    x, y = torch.rand(batch, 784), torch.randint(10, (batch,))
    return _training(model, torch.optim.Adam(model.parameters()), x, y)


def convnet(batch: int = 64) -> Step:
    """Three convolutions with Adam."""
    model = _convnet()
    x, y = torch.rand(batch, 1, 28, 28), torch.randint(10, (batch,))
    return _training(model, torch.optim.Adam(model.parameters()), x, y)


def gpt(batch: int = 8) -> Step:
    """Four blocks with AdamW."""
    model = GPT()
    x, y = torch.randint(64, (batch, 64)), torch.randint(64, (batch, 64))
    return _training(model, torch.optim.AdamW(model.parameters()), x, y)


MODELS: dict[str, Callable[[], Step]] = {"mlp": mlp, "convnet": convnet, "gpt": gpt}
