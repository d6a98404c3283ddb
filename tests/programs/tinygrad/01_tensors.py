"""Lazy tensors: made, joined, reduced, realised."""

from whit import Tensor, dtypes


def main():
    a = Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    b = Tensor.arange(6).reshape(2, 3)
    c = (a * b + 1).realize()
    joined = a.cat(b.float(), dim=0)
    padded = a.pad(((0, 1), (1, 0)))
    return {
        "c": c.tolist(),
        "shape": list(joined.shape),
        "sum": a.sum().item(),
        "mean": a.mean(axis=0).tolist(),
        "max": a.max(axis=1).tolist(),
        "padded": padded.tolist(),
        "transposed": a.T.tolist(),
        "product": (a @ a.T).tolist(),
        "where": (a > 2).where(a, 0).tolist(),
        "softmax": a.softmax().tolist(),
        "half": (Tensor.full((2,), 0.5, dtype=dtypes.float16) * 3).tolist(),
        "one_hot": Tensor([0, 2]).one_hot(3).tolist(),
        "eye": Tensor.eye(2).tolist(),
        "shrink": a.shrink(((0, 1), (1, 3))).tolist(),
        "flip": a.flip(1).tolist(),
        "stack": list(Tensor.stack(a, a).shape),
    }
