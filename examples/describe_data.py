"""Statistics of a data set: heights and weights of people who do not exist.

Run it with `python examples/describe_data.py`. It prints the mean, the quartiles, the correlation, a fitted line and a
histogram.
"""

from whit import Tensor


def correlation(x: Tensor, y: Tensor) -> Tensor:
    """Pearson's coefficient: 1 if y grows with x on a line, 0 if they have nothing to do with each other."""
    return ((x - x.mean()) * (y - y.mean())).mean() / (x.std(correction=0) * y.std(correction=0))


def main(people: int = 10_000) -> dict[str, Tensor]:
    Tensor.manual_seed(1)
    height = Tensor.normal(people, mean=172.0, std=9.0)  # cm
    weight = 0.9 * (height - 100) + Tensor.normal(people, std=7.0)  # kg
    Tensor.realize(height, weight)  # drawn once; tensors are lazy, and every line below would draw them for itself

    for name, values in (("height", height), ("weight", weight)):
        low, middle, high = values.quantile([0.25, 0.5, 0.75])
        print(f"{name}: mean {values.mean():.1f}, std {values.std():.1f}, quartiles {low:.1f} {middle:.1f} {high:.1f}")

    r = correlation(height, weight)
    slope = r * weight.std() / height.std()
    print(f"correlation {r:.3f}: one cm more is {slope:.2f} kg more\n")

    counts, edges = height.histogram(bins=13, range=(140, 205))
    for edge, count in zip(edges.tolist(), counts.tolist(), strict=False):
        print(f"{edge:4.0f} cm {'#' * (200 * count // people)} {count}")
    return {"height": height, "weight": weight, "correlation": r, "slope": slope, "edges": edges, "counts": counts}


if __name__ == "__main__":
    main()
