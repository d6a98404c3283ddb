"""Making tensors, looking at them, slicing, joining, and numbers back in Python."""

import whit.torch as torch


def main():
    data = torch.tensor([[1, 2], [3, 4]])
    like = torch.ones_like(data)
    floats = torch.full((2, 3), 0.5)
    grid = torch.arange(12).reshape(3, 4)
    joined = torch.cat([grid, grid + 100], dim=1)
    stacked = torch.stack([grid.float(), torch.zeros(3, 4)])
    column = joined[:, -1]
    joined[:, 1] = 0
    product = data @ data.T
    return {
        "dtypes": [str(data.dtype).split(".")[-1], str(floats.dtype).split(".")[-1], str(grid.dtype).split(".")[-1]],
        "sum": (data + like).sum().item(),
        "joined": joined.tolist(),
        "column": column.tolist(),
        "stacked": list(stacked.shape),
        "product": product.tolist(),
        "mean": floats.mean().item(),
        "where": torch.where(grid % 2 == 0, grid, -grid).tolist(),
        "is_tensor": torch.is_tensor(data),
        "largest": grid.max().item(),
        "numel": grid.numel(),
    }
