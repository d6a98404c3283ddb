"""Transformers in NumPy, float64, as the papers write them: one position after the other, no cache, no fusion.

logits(spec, weights, tokens) -> (positions, words)

`spec` says what the family is, in words of its own: whit's table of families is not looked at. Weights have GGUF's
names.
Su and others, 2021 (rotation); Shazeer, 2020 (gates); Zhang and Sennrich, 2019 (RMS norm); Ainslie and others, 2023
(shared heads);
Jiang and others, 2024 (experts); DeepSeek-AI, 2024 (latent attention); Gemma Team, 2024 (caps, windows); Peng and
others, 2023 (YaRN).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Weights = Mapping[str, np.ndarray]


def erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf)(x)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x * (1 + erf(x / math.sqrt(2))) / 2,
    "gelu_tanh": lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
}


def norm(spec: Any, w: Weights, name: str, x: np.ndarray) -> np.ndarray:
    """x where there is no such norm."""
    if f"{name}.weight" not in w and not spec.get("plain_norms"):
        return x
    if spec.get("norm") == "layer":
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    else:
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)
    x = x * w.get(f"{name}.weight", 1.0)
    return x + w.get(f"{name}.bias", 0.0)


def linear(w: Weights, name: str, x: np.ndarray) -> np.ndarray:
    return x @ w[f"{name}.weight"].T.astype(np.float64) + w.get(f"{name}.bias", 0.0)


def frequency(spec: Any, i: int, size: int, base: float) -> float:
    """Of pair i of a head."""
    f = base ** (-2 * i / size)
    scaling = spec.get("scaling")
    if scaling == "linear":
        return f / spec["factor"]
    if scaling == "factors":
        return f / spec["factors"][i]
    if scaling == "yarn":
        turns = spec["original"] * f / (2 * math.pi)  # in the original context
        fast = size * math.log(spec["original"] / (32 * 2 * math.pi)) / (2 * math.log(base))
        slow = size * math.log(spec["original"] / (1 * 2 * math.pi)) / (2 * math.log(base))
        assert turns > 0
        low, high = max(math.floor(fast), 0), min(math.ceil(slow), size - 1)
        ramp = min(max((i - low) / max(high - low, 0.001), 0), 1)
        return f * (1 - ramp) + f / spec["factor"] * ramp
    return f


def rotate(spec: Any, head: np.ndarray, position: int, base: float, size: int) -> np.ndarray:
    """One head of one position."""
    found = head.copy()
    scale = 0.1 * math.log(spec["factor"]) + 1 if spec.get("scaling") == "yarn" else 1.0
    for i in range(size // 2):
        a, b = (2 * i, 2 * i + 1) if spec["pairs"] == "next" else (i, i + size // 2)
        angle = position * frequency(spec, i, size, base)
        turned = complex(head[a], head[b]) * complex(math.cos(angle), math.sin(angle)) * scale
        found[a], found[b] = turned.real, turned.imag
    return found


def seen(spec: Any, row: int, column: int, window: int) -> bool:
    if not spec.get("causal", True):
        return True
    return column <= row and (not window or column > row - window)


def attend(spec: Any, q: Any, k: Any, v: Any, window: int) -> np.ndarray:
    """q (positions, heads, size), k and v (positions, shared, size) -> (positions, heads * value size)"""
    rows, heads = q.shape[:2]
    group = heads // k.shape[1]
    out = np.zeros((rows, heads, v.shape[-1]))
    for h in range(heads):
        scores = q[:, h] @ k[:, h // group].T * spec["scale"]
        if spec.get("cap"):
            scores = np.tanh(scores / spec["cap"]) * spec["cap"]
        for i in range(rows):
            for j in range(rows):
                if not seen(spec, i, j, window):
                    scores[i, j] = -np.inf
        out[:, h] = softmax(scores) @ v[:, h // group]
    return out.reshape(rows, -1)


def attention(spec: Any, w: Weights, name: str, x: np.ndarray, layer: int) -> np.ndarray:
    rows, heads, shared, size, value = len(x), spec["heads"], spec["shared"], spec["size"], spec["value"]
    window = spec["windows"][layer] if spec.get("windows") else 0
    if f"{name}.attn_qkv.weight" in w:
        q, k, v = np.split(linear(w, f"{name}.attn_qkv", x), [heads * size, (heads + shared) * size], axis=-1)
    else:
        q, k, v = (linear(w, f"{name}.attn_{part}", x) for part in "qkv")
    if spec.get("clamp"):
        q, k, v = (np.clip(part, -spec["clamp"], spec["clamp"]) for part in (q, k, v))
    if spec.get("whole_norms"):  # of all heads as one row
        q, k = norm(spec, w, f"{name}.attn_q_norm", q), norm(spec, w, f"{name}.attn_k_norm", k)
    q, k, v = q.reshape(rows, heads, size), k.reshape(rows, shared, size), v.reshape(rows, shared, value)
    if spec.get("head_norms"):
        q, k = norm(spec, w, f"{name}.attn_q_norm", q), norm(spec, w, f"{name}.attn_k_norm", k)
    if spec.get("pairs"):
        base = spec["local_base"] if window and "local_base" in spec else spec["base"]
        use = spec if not (window and "local_base" in spec) else {**spec, "scaling": None}
        for p in range(rows):
            q[p] = [rotate(use, head, p, base, spec["turning"]) for head in q[p]]
            k[p] = [rotate(use, head, p, base, spec["turning"]) for head in k[p]]
    return linear(w, f"{name}.attn_output", attend(spec, q, k, v, window))


def latent(spec: Any, w: Weights, name: str, x: np.ndarray) -> np.ndarray:
    """Multi-head latent attention, with keys and values of every head written out."""
    rows, heads, size, value = len(x), spec["heads"], spec["size"], spec["value"]
    rank, turning = spec["rank"], spec["turning"]
    plain = size - turning
    inner = norm(spec, w, f"{name}.attn_q_a_norm", linear(w, f"{name}.attn_q_a", x)) if spec.get("query_rank") else x
    q = linear(w, f"{name}.attn_q_b" if spec.get("query_rank") else f"{name}.attn_q", inner).reshape(rows, heads, size)
    down = linear(w, f"{name}.attn_kv_a_mqa", x)
    short = norm(spec, w, f"{name}.attn_kv_a_norm", down[:, :rank])
    if f"{name}.attn_kv_b.weight" in w:
        both = linear(w, f"{name}.attn_kv_b", short).reshape(rows, heads, plain + value)
        k, v = both[..., :plain], both[..., plain:]
    else:
        k = np.einsum("tr,hrp->thp", short, w[f"{name}.attn_k_b.weight"])
        v = np.einsum("tr,hvr->thv", short, w[f"{name}.attn_v_b.weight"])
    keys = np.zeros((rows, heads, size))
    for p in range(rows):
        tail = rotate(spec, down[p, rank:], p, spec["base"], turning)
        for h in range(heads):
            q[p, h, plain:] = rotate(spec, q[p, h, plain:], p, spec["base"], turning)
            keys[p, h] = np.concatenate([k[p, h], tail])
    return linear(w, f"{name}.attn_output", attend(spec, q, keys, v, 0))


def feed_forward(spec: Any, w: Weights, name: str, x: np.ndarray, suffix: str = "") -> np.ndarray:
    act = ACTIVATIONS[spec["act"]]
    if f"{name}.ffn_gate{suffix}.weight" in w:
        inner = act(linear(w, f"{name}.ffn_gate{suffix}", x)) * linear(w, f"{name}.ffn_up{suffix}", x)
    elif spec.get("joined_gate"):
        gate, up = np.split(linear(w, f"{name}.ffn_up", x), 2, axis=-1)
        inner = act(gate) * up
    else:
        inner = act(linear(w, f"{name}.ffn_up{suffix}", x))
    return linear(w, f"{name}.ffn_down{suffix}", inner)


def experts(spec: Any, w: Weights, name: str, x: np.ndarray) -> np.ndarray:
    """Every position by itself."""
    act, out = ACTIVATIONS[spec["act"]], np.zeros_like(x)
    gate, up, down = (w[f"{name}.ffn_{part}_exps.weight"].astype(np.float64) for part in ("gate", "up", "down"))
    for p, row in enumerate(x):
        share = linear(w, f"{name}.ffn_gate_inp", row)
        share = 1 / (1 + np.exp(-share)) if spec.get("sigmoid") else softmax(share)
        wanted = share + w.get(f"{name}.exp_probs_b.bias", 0.0)
        chosen = np.argsort(-wanted)[: spec["used"]]
        total = share[chosen].sum() if spec["normalises"] else 1.0
        for e in chosen:
            inner = act(gate[e] @ row) * (up[e] @ row)
            out[p] += share[e] / total * spec.get("expert_scale", 1.0) * (down[e] @ inner)
    if f"{name}.ffn_up_shexp.weight" in w:
        more = feed_forward(spec, w, name, x, "_shexp")
        if f"{name}.ffn_gate_inp_shexp.weight" in w:
            more = more / (1 + np.exp(-(x @ w[f"{name}.ffn_gate_inp_shexp.weight"])))[:, None]
        out += more
    return out


def hidden(spec: Any, w: Weights, tokens: Sequence[int]) -> np.ndarray:
    """What the last layer gives."""
    x = w["token_embd.weight"][list(tokens)].astype(np.float64) * spec.get("embedding_scale", 1.0)
    if "position_embd.weight" in w:
        x = x + w["position_embd.weight"][: len(tokens)]
    if "token_types.weight" in w:
        x = x + w["token_types.weight"][0]
    if "token_embd_norm.weight" in w:
        x = norm(spec, w, "token_embd_norm", x)
    for layer in range(spec["layers"]):
        name = f"blk.{layer}"
        y = norm(spec, w, f"{name}.attn_norm", x)
        y = latent(spec, w, name, y) if spec.get("rank") else attention(spec, w, name, y, layer)
        y = norm({**spec, "plain_norms": False}, w, f"{name}.post_attention_norm", y)
        mlp = experts if f"{name}.ffn_gate_inp.weight" in w else feed_forward
        if spec.get("parallel"):
            second = f"{name}.ffn_norm" if f"{name}.ffn_norm.weight" in w else f"{name}.attn_norm"
            x = x + y + mlp(spec, w, name, norm(spec, w, second, x))
            continue
        x = x + y
        if f"{name}.attn_output_norm.weight" in w:
            x = norm(spec, w, f"{name}.attn_output_norm", x)
        y = mlp(spec, w, name, norm(spec, w, f"{name}.ffn_norm", x))
        x = x + norm({**spec, "plain_norms": False}, w, f"{name}.post_ffw_norm", y)
        if f"{name}.layer_output_norm.weight" in w:
            x = norm(spec, w, f"{name}.layer_output_norm", x)
    return x


def logits(spec: Any, w: Weights, tokens: Sequence[int]) -> np.ndarray:
    x = norm(spec, w, "output_norm", hidden(spec, w, tokens))
    x = x @ w.get("output.weight", w["token_embd.weight"]).T.astype(np.float64) * spec.get("logit_scale", 1.0)
    return np.tanh(x / spec["logit_cap"]) * spec["logit_cap"] if spec.get("logit_cap") else x
