"""Functions and classes in the words of launches: "softmax" of `Tensor.softmax`, "layer_norm" of `nn.LayerNorm`."""

from __future__ import annotations

import re
from types import CodeType


def spoken(called: CodeType) -> str:
    """ "softmax" of Tensor.softmax, "linear" of Linear.__call__, "add" of Tensor.__add__."""
    owner, _, name = called.co_qualname.rpartition(".")
    if name in ("__call__", "__init__", "forward"):
        return small(owner.rpartition(".")[2]) + " init" * (name == "__init__")
    return name.strip("_")


def small(name: str) -> str:
    """The name of a class in small letters: "LayerNorm" -> "layer_norm", "RMSNorm" -> "rms_norm", "GELU" -> "gelu"."""
    name = re.sub("(PRe|RRe|Re|Si|GE|CE|SE|E|G)LU", lambda found: found[0].capitalize(), name.strip("_"))
    name = re.sub("(?<=[A-Z])(?=[A-Z][a-z])|(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return name.lower()
