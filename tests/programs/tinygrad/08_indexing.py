"""Slices, tensors as indices, gather, scatter, sorting."""

from whit import Tensor


def main():
    t = Tensor.arange(12).reshape(3, 4)
    index = Tensor([2, 0])
    values, places = Tensor([3.0, 1.0, 2.0]).sort(descending=True)
    best, where = Tensor([3.0, 9.0, 1.0, 7.0]).topk(2)
    return {
        "row": t[1].tolist(),
        "part": t[1:, ::2].tolist(),
        "picked": t[index].tolist(),
        "pairs": t[Tensor([0, 1]), Tensor([3, 0])].tolist(),
        "gathered": t.gather(1, Tensor([[0, 3], [1, 1], [2, 0]])).tolist(),
        "scattered": Tensor.zeros(1, 4).scatter(1, Tensor([[1, 3]]), Tensor([[5.0, 6.0]])).tolist(),
        "sorted": [values.tolist(), places.tolist()],
        "best": [best.tolist(), where.tolist()],
        "masked": t.masked_fill(t > 6, 0).tolist(),
        "triangle": t.tril().tolist(),
        "cumsum": t.cumsum(axis=1).tolist(),
        "expanded": t[:, None, :1].shape[1],
        "argmax": t.argmax().item(),
    }
