"""k-means: groups points by the nearest of k centres, moves each centre to the middle of its group, and repeats.

Run it with `python examples/k_means.py`. It finds the five clouds that the points were drawn from.
"""

from whit import Tensor

CLOUDS = Tensor([[0.0, 0.0], [6.0, 1.0], [2.0, 7.0], [-5.0, 4.0], [-3.0, -5.0]])


def distances(points: Tensor, centres: Tensor) -> Tensor:
    """Squared distance of each point to each centre, a row for each point."""
    return (points.unsqueeze(1) - centres).square().sum(axis=-1)


def first_centres(points: Tensor, k: int) -> Tensor:
    """k points far from each other: each is the one that is farthest from those before it."""
    centres = points[:1]
    for _ in range(k - 1):
        farthest = distances(points, centres).min(axis=1).argmax().item()
        centres = centres.cat(points[farthest : farthest + 1])
    return centres


def k_means(points: Tensor, k: int, steps: int) -> tuple[Tensor, Tensor]:
    """The centres, and the number of each point's group."""
    centres = first_centres(points, k)
    for _ in range(steps):
        groups = distances(points, centres).argmin(axis=1)
        sums = Tensor.zeros(k, 2).index_add(0, groups, points)
        moved = sums / groups.bincount(minlength=k).unsqueeze(1)
        if moved.allclose(centres):
            break
        centres = moved
    return centres, distances(points, centres).argmin(axis=1)


def main(points_each: int = 1000) -> tuple[Tensor, Tensor]:
    Tensor.manual_seed(3)
    clouds = CLOUDS.repeat(points_each, 1)
    points = (clouds + Tensor.randn(*clouds.shape)).realize()
    centres, groups = k_means(points, k=len(CLOUDS), steps=20)
    for i, (x, y) in enumerate(centres.tolist()):
        print(f"group {i}: {(groups == i).sum().item()} points around ({x:5.2f}, {y:5.2f})")
    return centres, groups


if __name__ == "__main__":
    main()
