"""An encoder layer with layer norm and dropout off, positions by sine, and padding masked away."""

import math

import whit.torch as torch
from whit.torch import nn


class PositionalEncoding(nn.Module):
    def __init__(self, size, longest=50):
        super().__init__()
        position = torch.arange(longest).unsqueeze(1)
        frequency = torch.exp(torch.arange(0, size, 2) * (-math.log(10000.0) / size))
        pe = torch.zeros(longest, 1, size)
        pe[:, 0, 0::2] = torch.sin(position * frequency)
        pe[:, 0, 1::2] = torch.cos(position * frequency)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[: x.size(0)]


class Tagger(nn.Module):
    def __init__(self, words, size):
        super().__init__()
        self.embedding = nn.Embedding(words, size, padding_idx=0)
        self.positions = PositionalEncoding(size)
        self.encoder = nn.TransformerEncoderLayer(size, nhead=2, dim_feedforward=16, dropout=0.0)
        self.head = nn.Linear(size, 3)

    def forward(self, ids):
        mask = ids == 0
        x = self.positions(self.embedding(ids).transpose(0, 1))
        return self.head(self.encoder(x, src_key_padding_mask=mask)).transpose(0, 1)


def main():
    model = Tagger(9, 8)
    with torch.no_grad():
        for number, p in enumerate(model.parameters()):
            p.copy_(0.3 * torch.sin(torch.arange(p.numel()).float() * 0.7 + number).reshape(p.shape))
    model.eval()
    ids = torch.tensor([[1, 2, 3, 4, 0, 0], [5, 6, 7, 8, 1, 2]])
    with torch.no_grad():
        logits = model(ids)
        shorter = model(ids[:1, :4])
    return {
        "logits": logits[1, 2].tolist(),
        "unmoved": torch.allclose(logits[0, :4], shorter[0], atol=1e-5),
        "shape": list(logits.shape),
        "buffers": [name for name, _ in model.named_buffers()],
        "encoding": model.positions.pe[3, 0].tolist(),
        "trained": len(list(model.parameters())),
    }
