"""Broadcasting, fancy indexing, gather and scatter, sorting."""

import whit.torch as torch


def main():
    table = torch.arange(1, 5).unsqueeze(1) * torch.arange(1, 7)
    centred = table.float() - table.float().mean(dim=0, keepdim=True)
    rows = table[[0, 2]]
    picked = table[torch.tensor([0, 1, 3]), torch.tensor([5, 0, 2])]
    even = table[table % 2 == 0]
    ids = torch.tensor([[0, 1], [2, 5], [1, 1], [4, 0]])
    gathered = torch.gather(table, 1, ids)
    counts = torch.zeros(4, dtype=torch.long).scatter_add_(0, torch.tensor([0, 1, 1, 3, 3, 3]), torch.ones(6).long())
    values, indices = torch.sort(torch.tensor([3.0, 1.0, 2.0]), descending=True)
    best, where = torch.topk(table.flatten().float(), 3)
    one_hot = torch.nn.functional.one_hot(torch.tensor([1, 0, 2]), 4)
    values_of_rows, places_of_rows = torch.max(table, dim=1)
    return {
        "centred": centred[0].tolist(),
        "rows": rows.tolist(),
        "picked": picked.tolist(),
        "even": even.tolist(),
        "gathered": gathered.tolist(),
        "counts": counts.tolist(),
        "sorted": [values.tolist(), indices.tolist()],
        "best": [best.tolist(), where.tolist()],
        "one_hot": one_hot.tolist(),
        "unique": torch.unique(table).tolist(),
        "max": [values_of_rows.tolist(), places_of_rows.tolist()],
        "nonzero": torch.nonzero(table > 14).tolist(),
        "cumsum": torch.cumsum(table[0], dim=0).tolist(),
        "outer": torch.outer(torch.arange(3), torch.arange(3)).tolist(),
        "clamped": torch.clamp(table, 3, 9)[1].tolist(),
    }
