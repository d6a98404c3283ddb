"""Causal self-attention by hand, against scaled_dot_product_attention."""

import math

import whit.torch as torch
import whit.torch.nn.functional as F


def attention(q, k, v, mask):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    scores = scores.masked_fill(mask == 0, float("-inf"))
    return F.softmax(scores, dim=-1) @ v


def main():
    batch, heads, time, size = 2, 2, 5, 4
    base = torch.arange(batch * heads * time * size).float()
    q = torch.sin(base).view(batch, heads, time, size)
    k = torch.cos(base * 1.3).view(batch, heads, time, size)
    v = torch.sin(base * 0.7).view(batch, heads, time, size)
    q.requires_grad_()
    mask = torch.tril(torch.ones(time, time))
    by_hand = attention(q, k, v, mask)
    fused = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    by_hand.pow(2).sum().backward()
    merged = by_hand.transpose(1, 2).contiguous().view(batch, time, heads * size)
    pattern = torch.einsum("bhqd,bhkd->bhqk", q, k).softmax(-1)
    return {
        "same": torch.allclose(by_hand, fused, atol=1e-6),
        "merged": merged[0, 3].tolist(),
        "slope": q.grad[1, 0, 2].tolist(),
        "pattern": pattern[0, 1, 4].tolist(),
        "shape": list(merged.shape),
    }
