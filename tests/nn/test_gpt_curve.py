"""A small GPT trains as PyTorch's does: the same weights, batches and AdamW give the same losses for fifty steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from whit import Tensor, nn

LETTERS, WIDTH, HEADS, CONTEXT, BATCH = 27, 32, 4, 12, 8


class GPT:
    def __init__(self) -> None:
        self.token, self.place = nn.Embedding(LETTERS, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = [nn.TransformerBlock(WIDTH, HEADS) for _ in range(2)]
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, LETTERS, bias=False)

    def __call__(self, tokens: Tensor) -> Tensor:
        x = self.token(tokens) + self.place(Tensor.arange(CONTEXT))
        for block in self.blocks:
            x = block(x, is_causal=True)
        return self.out(self.norm(x))


def torch_gpt(torch: Any) -> Any:
    """The same in PyTorch, under the same names."""
    layers: Any = torch.nn

    class Attention(layers.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query, self.key, self.value, self.out = (layers.Linear(WIDTH, WIDTH) for _ in range(4))

        def forward(self, x: Any) -> Any:
            heads = [part(x).unflatten(2, (HEADS, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)]
            mixed = layers.functional.scaled_dot_product_attention(*heads, is_causal=True)
            return self.out(mixed.transpose(1, 2).flatten(2))

    class Block(layers.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = Attention()
            self.norm1, self.norm2 = layers.LayerNorm(WIDTH), layers.LayerNorm(WIDTH)
            self.ff1, self.ff2 = layers.Linear(WIDTH, 4 * WIDTH), layers.Linear(4 * WIDTH, WIDTH)

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.norm1(x))
            return x + self.ff2(layers.functional.gelu(self.ff1(self.norm2(x)), approximate="tanh"))

    class Module(layers.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token, self.place = layers.Embedding(LETTERS, WIDTH), layers.Embedding(CONTEXT, WIDTH)
            self.blocks = layers.ModuleList([Block(), Block()])
            self.norm, self.out = layers.LayerNorm(WIDTH), layers.Linear(WIDTH, LETTERS, bias=False)

        def forward(self, tokens: Any) -> Any:
            x = self.token(tokens) + self.place(torch.arange(CONTEXT))
            for block in self.blocks:
                x = block(x)
            return self.out(self.norm(x))

    return Module()


def batches(count: int) -> list[np.ndarray]:
    """Windows (BATCH, CONTEXT + 1) of a text in which most letters follow from the one before."""
    rng = np.random.default_rng(0)
    text = np.cumsum(rng.choice([1, 1, 1, 5], size=2000)) % LETTERS
    starts = rng.integers(0, len(text) - CONTEXT - 1, size=(count, BATCH, 1))
    return list(text[starts + np.arange(CONTEXT + 1)].astype(np.int32))


@pytest.mark.slow
def test_fifty_steps_of_a_gpt_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    Tensor.manual_seed(0)
    model, theirs = GPT(), torch_gpt(torch)
    state = nn.state.get_state_dict(model)
    theirs.load_state_dict({name: torch.tensor(tensor.numpy()) for name, tensor in state.items()})
    opt = nn.optim.AdamW(nn.state.get_parameters(model), lr=0.003)
    torch_opt = torch.optim.AdamW(theirs.parameters(), lr=0.003)
    found, wanted = [], []
    for rows in batches(50):
        tokens = Tensor(rows)
        opt.zero_grad()
        loss = model(tokens[:, :-1]).flatten(0, 1).cross_entropy(tokens[:, 1:].flatten()).backward()
        opt.step()
        found.append(loss.item())
        torch_opt.zero_grad()
        other = torch.tensor(rows).long()
        torch_loss = torch.nn.functional.cross_entropy(theirs(other[:, :-1]).flatten(0, 1), other[:, 1:].flatten())
        torch_loss.backward()
        torch_opt.step()
        wanted.append(torch_loss.item())
    np.testing.assert_allclose(found, wanted, rtol=2e-3)
    assert found[-1] < 0.6 * found[0]
    for name, tensor in state.items():
        np.testing.assert_allclose(tensor.numpy(), theirs.state_dict()[name].numpy(), atol=5e-3, err_msg=name)
