"""Causal attention by hand and by scaled_dot_product_attention."""

from whit import Tensor


def main():
    base = Tensor.arange(2 * 2 * 4 * 3).float()
    q = base.sin().reshape(2, 2, 4, 3)
    k = (base * 1.1).cos().reshape(2, 2, 4, 3)
    v = (base * 0.3).sin().reshape(2, 2, 4, 3)
    mask = Tensor.ones(4, 4).tril().cast("bool")
    scores = (q @ k.transpose(-2, -1)) / 3**0.5
    by_hand = mask.where(scores, -float("inf")).softmax(-1) @ v
    fused = q.scaled_dot_product_attention(k, v, is_causal=True)
    return {
        "out": by_hand[1, 0, 2].tolist(),
        "same": (by_hand - fused).abs().max().item() < 1e-5,
        "merged": list(by_hand.transpose(1, 2).reshape(2, 4, 6).shape),
    }
