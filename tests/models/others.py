"""Other models, written as those of `vision.py` are."""

from __future__ import annotations

from typing import Any

from models.vision import Framework, Model


def mlp(f: Framework) -> Model:
    """Two layers."""
    parts = {"first": f.Linear(13, 17), "last": f.Linear(17, 5)}

    def step(x: Any, y: Any) -> tuple[Any, Any]:
        out = parts["last"](parts["first"](x).relu())
        return out, f.cross_entropy(out, y)

    return parts, step


def autoencoder(f: Framework) -> Model:
    """Strided down and up again through a few numbers drawn around a mean."""
    parts = {
        "down": [f.Conv2d(1, 4, 3, stride=2, padding=1), f.Conv2d(4, 6, 3, stride=2, padding=1)],
        "mean": f.Linear(6 * 2 * 3, 4),
        "spread": f.Linear(6 * 2 * 3, 4),
        "start": f.Linear(4, 6 * 2 * 3),
        "up": [
            f.ConvTranspose2d(6, 4, 3, stride=2, padding=1, output_padding=1),
            f.ConvTranspose2d(4, 1, 3, stride=2, padding=1, output_padding=1),
        ],
    }

    def step(x: Any, noise: Any) -> tuple[Any, Any]:
        z = x
        for conv in parts["down"]:
            z = conv(z).relu()
        mean, spread = parts["mean"](z.flatten(1)), parts["spread"](z.flatten(1))
        z = parts["start"](mean + (spread * 0.5).exp() * noise).relu().reshape(-1, 6, 2, 3)
        out = parts["up"][1](parts["up"][0](z).relu()).sigmoid()
        apart = (mean.square() + spread.exp() - spread - 1).sum(1).mean()
        return out, (out - x).square().sum((1, 2, 3)).mean() + apart * 0.5

    return parts, step


def siamese(f: Framework) -> Model:
    """One network on two views of each row; a row's other view must be nearer than all others."""
    parts = {"first": f.Linear(7, 9), "norm": f.BatchNorm(9, 1), "last": f.Linear(9, 4)}

    def seen(x: Any) -> Any:
        z = parts["last"](parts["norm"](parts["first"](x)).relu())
        return z / (z.square().sum(1, keepdim=True) + 1e-6).sqrt()

    def step(x: Any, other: Any) -> tuple[Any, Any]:
        a, b = seen(x), seen(other)
        scores = a @ b.transpose(0, 1) * 5
        places = f.arange(x.shape[0])
        return scores, f.cross_entropy(scores, places) + f.cross_entropy(scores.transpose(0, 1), places)

    return parts, step


def diffusion(f: Framework) -> Model:
    """A block of a denoiser: group norm, the time as waves, attention over the places, strided down and repeated up."""
    parts = {
        "in": f.Conv2d(2, 8, 3, padding=1),
        "time": [f.Linear(8, 8), f.Linear(8, 8)],
        "norm1": f.GroupNorm(4, 8),
        "conv1": f.Conv2d(8, 8, 3, padding=1),
        "norm2": f.GroupNorm(2, 8),
        "conv2": f.Conv2d(8, 8, 3, padding=1),
        "down": f.Conv2d(8, 8, 3, stride=2, padding=1),
        "norm3": f.GroupNorm(4, 8),
        "mix": f.Conv2d(8, 24, 1),
        "back": f.Conv2d(8, 8, 1),
        "out": f.Conv2d(16, 2, 3, padding=1),
    }

    def step(x: Any, t: Any, speeds: Any, noise: Any) -> tuple[Any, Any]:
        angles = t.reshape(-1, 1) * (f.arange(4) * speeds).exp().reshape(1, 4)
        time = parts["time"][1](f.silu(parts["time"][0](f.cat([angles.sin(), angles.cos()], 1))))
        z = parts["in"](x)
        h = parts["conv1"](f.silu(parts["norm1"](z))) + time.reshape(-1, 8, 1, 1)
        z = z + parts["conv2"](f.silu(parts["norm2"](h)))
        low = parts["down"](z)
        q, k, v = parts["mix"](parts["norm3"](low)).flatten(2).transpose(1, 2).chunk(3, -1)
        mixed = f.attention(q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1)).squeeze(1)
        low = low + parts["back"](mixed.transpose(1, 2).reshape(*low.shape))
        up = f.nearest(low, tuple(z.shape[2:]))
        out = parts["out"](f.cat([z, up], 1))
        return out, (out - noise).square().mean()

    return parts, step


def lora(f: Framework) -> Model:
    """A layer beside which a product of two thin ones is learned."""
    parts = {"frozen": f.Linear(9, 9), "down": f.Linear(9, 2, bias=False), "up": f.Linear(2, 9, bias=False)}
    parts["out"] = f.Linear(9, 4)

    def step(x: Any, y: Any) -> tuple[Any, Any]:
        out = parts["out"](f.gelu(parts["frozen"](x).detach() + parts["up"](parts["down"](x)) * 0.5 + x))
        return out, f.cross_entropy(out, y)

    return parts, step


def policy(f: Framework) -> Model:
    """What was done, weighed by how much better it was than expected; and what is expected."""
    parts = {"trunk": f.Linear(4, 8), "policy": f.Linear(8, 3), "value": f.Linear(8, 1)}

    def step(x: Any, done: Any, gains: Any) -> tuple[Any, Any]:
        z = parts["trunk"](x).tanh()
        logs = parts["policy"](z).log_softmax(-1)
        expected = parts["value"](z).reshape(-1)
        taken = f.take(logs, 1, done.reshape(-1, 1)).reshape(-1)
        better = (gains - expected).detach()
        spread = (logs.exp() * logs).sum(1).mean()
        return logs, -(taken * better).mean() + (gains - expected).square().mean() * 0.5 + spread * 0.01

    return parts, step


def graph(f: Framework) -> Model:
    """Messages along edges, added up where they arrive."""
    parts = {"first": f.Linear(5, 6), "own": f.Linear(5, 6), "second": f.Linear(6, 3), "scale": f.Weight(1)}

    def step(x: Any, start: Any, end: Any, y: Any) -> tuple[Any, Any]:
        sent = parts["first"](x)[start].relu()
        z = f.index_add(parts["own"](x), end, sent) * parts["scale"]()
        out = parts["second"](f.index_add(z, start, z[end]).tanh())
        return out, f.cross_entropy(out, y)

    return parts, step


def points(f: Framework) -> Model:
    """The same layers for every point, the largest of each channel over the points, twice."""
    parts = {"first": f.Conv1d(3, 6, 1), "norm": f.BatchNorm(6, 1), "second": f.Conv1d(12, 7, 1), "out": f.Linear(7, 4)}

    def step(x: Any, y: Any) -> tuple[Any, Any]:
        z = parts["norm"](parts["first"](x)).relu()
        everywhere = f.largest(z, 2).unsqueeze(2).expand(*z.shape)
        out = parts["out"](f.largest(parts["second"](f.cat([z, everywhere], 1)), 2))
        return out, f.cross_entropy(out, y)

    return parts, step


def skipgram(f: Framework) -> Model:
    """Words near each other against words that are not; rows are named many times."""
    parts = {"inner": f.Embedding(7, 4), "outer": f.Embedding(7, 4)}

    def step(center: Any, near: Any, far: Any) -> tuple[Any, Any]:
        middle = parts["inner"](center)
        good = (middle * parts["outer"](near)).sum(-1)
        bad = (middle.unsqueeze(1) * parts["outer"](far)).sum(-1)
        return good, f.softplus(-good).mean() + f.softplus(bad).sum(1).mean()

    return parts, step
