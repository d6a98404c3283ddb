"""Lloyd's k-means with cdist, and a nearest-neighbour vote."""

import whit.torch as torch


def k_means(points, centres, rounds):
    for _ in range(rounds):
        nearest = torch.cdist(points, centres).argmin(dim=1)
        for k in range(len(centres)):
            members = points[nearest == k]
            if len(members) > 0:
                centres[k] = members.mean(dim=0)
    return centres, nearest


def main():
    t = torch.arange(30)
    offsets = torch.stack([torch.sin(t * 12.9898), torch.cos(t * 78.233)], dim=1) * 0.3
    homes = torch.tensor([[0.0, 0.0], [3.0, 3.0], [0.0, 4.0]])
    points = homes[t % 3] + offsets
    centres, nearest = k_means(points, points[:3].clone(), 5)
    distances = (points[:, None, :] - centres[None, :, :]).norm(dim=-1)
    inertia = distances.gather(1, nearest[:, None]).pow(2).sum()
    query = torch.tensor([[0.5, 0.2], [2.5, 2.8]])
    neighbours = torch.cdist(query, points).topk(5, largest=False).indices
    votes = torch.mode(nearest[neighbours], dim=1).values
    return {
        "centres": centres.tolist(),
        "nearest": nearest.tolist(),
        "inertia": inertia.item(),
        "votes": votes.tolist(),
        "sizes": torch.bincount(nearest).tolist(),
    }
