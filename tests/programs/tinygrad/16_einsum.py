"""einsum, rearrange, repeat, unfolded axes."""

from whit import Tensor


def main():
    a = Tensor.arange(6).float().reshape(2, 3)
    b = Tensor.arange(12).float().reshape(3, 4)
    c = Tensor.arange(24).float().reshape(2, 3, 4)
    return {
        "product": Tensor.einsum("ij,jk->ik", a, b).tolist(),
        "batch": Tensor.einsum("bij,kj->bik", c, b)[1, 0].tolist(),
        "sum": Tensor.einsum("ij->", a).item(),
        "rearranged": c.rearrange("b h (w two) -> (b h) w two", two=2).shape[0],
        "repeated": a.repeat(2, 1).tolist(),
        "interleaved": a.repeat_interleave(2, dim=1)[0].tolist(),
        "rolled": a.roll(1, dims=1).tolist(),
        "unflattened": list(b.unflatten(1, (2, 2)).shape),
        "split": [part.tolist() for part in b.split(2, dim=1)][1],
        "chunks": [list(part.shape) for part in b.chunk(3, dim=1)],
        "permuted": c.permute(2, 0, 1)[3].tolist(),
        "squeezed": list(a.unsqueeze(0).squeeze(0).shape),
        "meshgrid": [part.tolist() for part in Tensor.arange(2).meshgrid(Tensor.arange(3))],
    }
