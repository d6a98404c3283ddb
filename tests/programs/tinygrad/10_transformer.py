"""A block of a transformer from layers, with fixed weights."""

from whit import Tensor, nn
from whit.nn.state import get_state_dict


class Block:
    def __init__(self, dim, heads):
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def __call__(self, x):
        b, t, d = x.shape
        q, k, v = [
            p.reshape(b, t, self.heads, d // self.heads).transpose(1, 2) for p in self.qkv(self.ln1(x)).chunk(3, dim=-1)
        ]
        h = q.scaled_dot_product_attention(k, v, is_causal=True).transpose(1, 2).reshape(b, t, d)
        x = x + self.out(h)
        return x + self.down(self.up(self.ln2(x)).gelu())


def main():
    block = Block(8, 2)
    for number, (name, tensor) in enumerate(sorted(get_state_dict(block).items())):
        tensor.assign(
            (Tensor.arange(tensor.numel()).float() * 0.7 + number).sin().reshape(tensor.shape) * 0.3
        ).realize()
    x = Tensor.arange(40).float().cos().reshape(1, 5, 8)
    out = block(x)
    return {"out": out[0, 4].tolist(), "shape": list(out.shape), "tensors": len(get_state_dict(block))}
