"""Rotary positions: tables of cosines and sines, with every way in which contexts were made longer.

    table(rope, 4096) -> cosines and sines, (4096, size / 2) each

Number i of a pair at position p turns by p / base**(2 i / size). Scaling changes the frequencies: `linear` divides all
of them; `yarn` those that turn slowly, with a ramp between (Peng and others, 2023), and makes scores larger;
`llama3` the
same by wavelength; `factors` (longrope and llama 3 in GGUF) gives a divisor for each.
"""

from __future__ import annotations

import math

import numpy as np

from whit.llm.config import Rope


def frequencies(rope: Rope) -> tuple[np.ndarray, float]:
    """Radians a position for each pair, and the factor of cosines and sines."""
    found = rope.base ** (-np.arange(0, rope.size, 2, dtype=np.float64) / rope.size)
    scale = 1.0 if rope.attention is None else rope.attention
    if rope.factors:
        return found / np.asarray(rope.factors, np.float64), scale
    if rope.kind == "linear":
        return found / rope.factor, scale
    if rope.kind == "llama3":
        return _by_wavelength(found, rope), scale
    if rope.kind == "yarn":
        return _ramped(found, rope), 0.1 * math.log(rope.factor) + 1.0 if rope.attention is None else scale
    return found, scale


def _by_wavelength(found: np.ndarray, rope: Rope) -> np.ndarray:
    """llama 3.1: long waves are slowed down by the factor, short ones not, those between partly."""
    turns = rope.original * found / (2 * math.pi)  # within the original context
    part = np.clip((turns - rope.low) / (rope.high - rope.low), 0.0, 1.0)
    return found * (part + (1 - part) / rope.factor)


def _ramped(found: np.ndarray, rope: Rope) -> np.ndarray:
    """YaRN: the ramp goes by the number of the pair."""

    def pair(turns: float) -> float:
        return rope.size * math.log(rope.original / (turns * 2 * math.pi)) / (2 * math.log(rope.base))

    first, last = max(math.floor(pair(rope.high)), 0), min(math.ceil(pair(rope.low)), rope.size - 1)
    slow = np.clip((np.arange(len(found)) - first) / max(last - first, 0.001), 0.0, 1.0)
    return found * (slow / rope.factor + 1 - slow)


def table(rope: Rope, positions: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines of every position and pair, float32."""
    radians, scale = frequencies(rope)
    angles = np.arange(positions, dtype=np.float64)[:, None] * radians
    return (np.cos(angles) * scale).astype(np.float32), (np.sin(angles) * scale).astype(np.float32)
