"""Models of sequences, written as those of `vision.py` are."""

from __future__ import annotations

from typing import Any

from models.vision import Framework, Model


def _attention(f: Framework, dim: int) -> dict[str, Any]:
    return {name: f.Linear(dim, dim) for name in ("query", "key", "value", "out")}


def _heads(x: Any, heads: int) -> Any:
    return x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def _attend(f: Framework, part: dict[str, Any], x: Any, other: Any, heads: int, **how: Any) -> Any:
    q, k, v = _heads(part["query"](x), heads), _heads(part["key"](other), heads), _heads(part["value"](other), heads)
    mixed = f.attention(q, k, v, **how).transpose(1, 2)
    return part["out"](mixed.reshape(x.shape[0], x.shape[1], -1))


def _block(f: Framework, dim: int) -> dict[str, Any]:
    return {
        "norm1": f.LayerNorm(dim),
        "attention": _attention(f, dim),
        "norm2": f.LayerNorm(dim),
        "up": f.Linear(dim, 2 * dim),
        "down": f.Linear(2 * dim, dim),
    }


def _run(f: Framework, block: dict[str, Any], x: Any, **how: Any) -> Any:
    y = block["norm1"](x)
    x = x + _attend(f, block["attention"], y, y, 2, **how)
    return x + block["down"](f.gelu(block["up"](block["norm2"](x))))


def gpt(f: Framework) -> Model:
    """Two causal blocks over characters; positions are a table that the batch shares."""
    parts = {"characters": f.Embedding(11, 8), "places": f.Embedding(9, 8), "blocks": [_block(f, 8), _block(f, 8)]}
    parts |= {"norm": f.LayerNorm(8), "out": f.Linear(8, 11, bias=False)}

    def step(x: Any, y: Any) -> tuple[Any, Any]:
        z = parts["characters"](x) + parts["places"](f.arange(x.shape[1]))
        for block in parts["blocks"]:
            z = _run(f, block, z, causal=True)
        out = parts["out"](parts["norm"](z))
        return out, f.cross_entropy(out.reshape(-1, 11), y.reshape(-1))

    return parts, step


def bert(f: Framework) -> Model:
    """Blocks that see both ways but not the padding; positions are looked up for every sequence of the batch."""
    parts = {
        "words": f.Embedding(13, 8),
        "places": f.Embedding(7, 8),
        "kinds": f.Embedding(2, 8),
        "norm": f.LayerNorm(8),
    }
    parts |= {"blocks": [_block(f, 8)], "pool": f.Linear(8, 8), "out": f.Linear(8, 3), "words_out": f.Linear(8, 13)}

    def step(x: Any, kinds: Any, seen: Any, y: Any) -> tuple[Any, Any]:
        places = f.arange(x.shape[1]).reshape(1, -1).expand(x.shape[0], x.shape[1])
        z = parts["norm"](parts["words"](x) + parts["places"](places) + parts["kinds"](kinds))
        mask = (seen > 0).reshape(x.shape[0], 1, 1, x.shape[1])
        for block in parts["blocks"]:
            z = _run(f, block, z, mask=mask)
        out = parts["out"](parts["pool"](z[:, 0]).tanh())
        words = parts["words_out"](z).reshape(-1, 13)
        return out, f.cross_entropy(out, y) + f.cross_entropy(words, x.reshape(-1))

    return parts, step


def vit(f: Framework) -> Model:
    """Patches as words, and one more for the class."""
    parts = {"patches": f.Conv2d(3, 8, 4, stride=4), "first": f.Weight(1, 1, 8), "places": f.Weight(1, 7, 8)}
    parts |= {"blocks": [_block(f, 8)], "norm": f.LayerNorm(8), "out": f.Linear(8, 5)}

    def step(x: Any, y: Any) -> tuple[Any, Any]:
        z = parts["patches"](x).flatten(2).transpose(1, 2)
        z = f.cat([parts["first"]().expand(z.shape[0], 1, 8), z], 1) + parts["places"]()
        for block in parts["blocks"]:
            z = _run(f, block, z)
        out = parts["out"](parts["norm"](z)[:, 0])
        return out, f.cross_entropy(out, y)

    return parts, step


def seq2seq(f: Framework) -> Model:
    """An encoder, and a decoder that looks at it; inputs and outputs share their table."""
    parts = {"words": f.Embedding(11, 8), "encoder": _block(f, 8), "decoder": _block(f, 8)}
    parts |= {"cross": _attention(f, 8), "norm": f.LayerNorm(8)}

    def step(x: Any, y: Any) -> tuple[Any, Any]:
        memory = _run(f, parts["encoder"], parts["words"](x))
        z = _run(f, parts["decoder"], parts["words"](y[:, :-1]), causal=True)
        z = z + _attend(f, parts["cross"], parts["norm"](z), memory, 2)
        out = z @ parts["words"].weight.transpose(0, 1)
        return out, f.cross_entropy(out.reshape(-1, 11), y[:, 1:].reshape(-1))

    return parts, step


def llama(f: Framework) -> Model:
    """RMS norm, rotated queries and keys, fewer heads for keys than for queries, a gated product."""
    parts = {"words": f.Embedding(11, 12), "norm1": f.RMSNorm(12), "norm2": f.RMSNorm(12), "norm3": f.RMSNorm(12)}
    parts |= {"query": f.Linear(12, 16, bias=False), "key": f.Linear(12, 8, bias=False)}
    parts |= {"value": f.Linear(12, 8, bias=False), "out": f.Linear(16, 12, bias=False)}
    parts |= {name: f.Linear(12, 20, bias=False) for name in ("gate", "up")}
    parts |= {"down": f.Linear(20, 12, bias=False), "head": f.Linear(12, 11, bias=False)}

    def rotated(x: Any, cos: Any, sin: Any) -> Any:
        first, second = x[..., 0::2], x[..., 1::2]
        turned = f.stack([first * cos - second * sin, first * sin + second * cos], -1)
        return turned.flatten(-2)

    def step(x: Any, y: Any, angles: Any) -> tuple[Any, Any]:
        cos, sin = angles.cos(), angles.sin()
        z = parts["words"](x)
        n = parts["norm1"](z)
        q = rotated(_heads(parts["query"](n), 4), cos, sin)
        k = f.repeat(rotated(_heads(parts["key"](n), 2), cos, sin), 2, 1)
        v = f.repeat(_heads(parts["value"](n), 2), 2, 1)
        mixed = f.attention(q, k, v, causal=True).transpose(1, 2).reshape(x.shape[0], x.shape[1], -1)
        z = z + parts["out"](mixed)
        n = parts["norm2"](z)
        z = z + parts["down"](f.silu(parts["gate"](n)) * parts["up"](n))
        out = parts["head"](parts["norm3"](z))
        return out, f.cross_entropy(out.reshape(-1, 11), y.reshape(-1))

    return parts, step


def moe(f: Framework) -> Model:
    """Each row goes to two of four experts, weighed by a softmax of their scores."""
    parts = {
        "norm": f.LayerNorm(6),
        "gate": f.Linear(6, 4, bias=False),
        "up": f.Weight(4, 6, 8),
        "down": f.Weight(4, 8, 6),
    }
    parts["out"] = f.Linear(6, 3)

    def step(x: Any, y: Any) -> tuple[Any, Any]:
        z = parts["norm"](x)
        scores, chosen = f.topk(parts["gate"](z), 2)
        weights = scores.softmax(-1)
        mixed = x
        for i in range(2):
            up, down = parts["up"]()[chosen[:, i]], parts["down"]()[chosen[:, i]]
            mixed = mixed + weights[:, i : i + 1] * (f.gelu(z.unsqueeze(1) @ up) @ down).squeeze(1)
        out = parts["out"](mixed)
        return out, f.cross_entropy(out, y)

    return parts, step


def mixer(f: Framework) -> Model:
    """Products along the places, then along the channels."""
    parts = {"patches": f.Conv2d(3, 7, 4, stride=4), "norm1": f.LayerNorm(7), "norm2": f.LayerNorm(7)}
    parts |= {
        "places_up": f.Linear(6, 9),
        "places_down": f.Linear(9, 6),
        "up": f.Linear(7, 10),
        "down": f.Linear(10, 7),
    }
    parts["out"] = f.Linear(7, 5)

    def step(x: Any, y: Any) -> tuple[Any, Any]:
        z = parts["patches"](x).flatten(2).transpose(1, 2)
        turned = parts["norm1"](z).transpose(1, 2)
        z = z + parts["places_down"](f.gelu(parts["places_up"](turned))).transpose(1, 2)
        z = z + parts["down"](f.gelu(parts["up"](parts["norm2"](z))))
        out = parts["out"](z.mean(1))
        return out, f.cross_entropy(out, y)

    return parts, step


def lstm(f: Framework) -> Model:
    """Two layers over time, the last output."""
    parts = {"words": f.Embedding(9, 5), "cells": f.LSTM(5, 6, num_layers=2), "out": f.Linear(6, 9)}

    def step(x: Any, y: Any) -> tuple[Any, Any]:
        outputs, _ = parts["cells"](parts["words"](x))
        out = parts["out"](outputs)
        return out, f.cross_entropy(out.reshape(-1, 9), y.reshape(-1))

    return parts, step


def gru(f: Framework) -> Model:
    """One layer over time."""
    parts = {"cells": f.GRU(3, 6), "out": f.Linear(6, 2)}

    def step(x: Any, y: Any) -> tuple[Any, Any]:
        outputs, last = parts["cells"](x)
        out = parts["out"](last[0] + outputs.mean(0))
        return out, (out - y).square().mean()

    return parts, step


def wavenet(f: Framework) -> Model:
    """Dilated causal convolutions with gates; what each layer adds to the end is summed."""
    layers = [
        {"filter": f.Conv1d(4, 4, 2, dilation=d), "gate": f.Conv1d(4, 4, 2, dilation=d), "mix": f.Conv1d(4, 4, 1)}
        for d in (1, 2, 4)
    ]
    parts = {"in": f.Conv1d(1, 4, 1), "layers": layers, "out": f.Conv1d(4, 6, 1)}

    def step(x: Any, y: Any) -> tuple[Any, Any]:
        z: Any = parts["in"](x)
        total: Any = 0
        for dilation, layer in zip((1, 2, 4), parts["layers"], strict=True):
            before = f.pad(z, (dilation, 0))
            new = layer["mix"](layer["filter"](before).tanh() * layer["gate"](before).sigmoid())
            z, total = z + new, total + new
        out = parts["out"](total.relu())
        return out, f.cross_entropy(out.transpose(1, 2).reshape(-1, 6), y.reshape(-1))

    return parts, step
