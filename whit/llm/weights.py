"""Matrices as they are in the file: packed blocks, halves or floats, unpacked by the kernel that multiplies them.

weights = Weights(entries, device)          entries by the names of GGUF
weights.matrix("blk.0.attn_q")              a layer: x @ weight.T + bias
weights.vector("output_norm.weight")        float32
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Protocol

from whit.dtype import dtypes
from whit.errors import ParseError
from whit.ir.op import spell_shape
from whit.llm.config import FIX
from whit.nn.module import Module
from whit.nn.state.gguf_blocks import Kind
from whit.tensor import Tensor

MANY_ROWS = 64  # from which on weights are unpacked once for all rows


def has_many_rows(x: Tensor) -> bool:
    """Whether a product is worth unpacking its weights; of symbolic sizes nobody knows, and so they are many."""
    sizes = x.shape[:-1]
    return not all(isinstance(size, int) for size in sizes) or prod(sizes) >= MANY_ROWS


class Entry(Protocol):
    """A tensor of a file that has not been read: `nn.state.gguf.Packed` is one."""

    @property
    def kind(self) -> Kind:
        """How it is packed."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of what is unpacked."""

    def bytes(self) -> Tensor:
        """(blocks, bytes of a block), or the elements of what is not packed."""


class Matrix(Module):
    """x @ weight.T + bias; the weight may be packed, and may have axes before the last two."""

    def __init__(self, weight: Tensor, kind: Kind, shape: tuple[int, ...], bias: Tensor | None = None) -> None:
        self.weight, self.kind, self.shape, self.bias = weight, kind, shape, bias

    def extra_repr(self) -> str:
        """What is printed."""
        return f"{self.shape[-1]}, {self.shape[-2]}, {self.kind.name}"

    def unpacked(self) -> Tensor:
        """Its elements, float32: part of the kernel that uses them."""
        return self._floats(self.weight).reshape(self.shape)

    def _floats(self, weight: Tensor) -> Tensor:
        return weight.cast(dtypes.float32) if self.kind.unpack is None else self.kind.unpack(weight)

    def rows(self, numbers: Tensor) -> Tensor:
        """Some entries of the first axis, the only ones that are read: (n, ...)."""
        if self.kind.unpack is None:
            return self.weight.reshape(self.shape)[numbers].cast(dtypes.float32)
        blocks = prod(self.shape[1:]) // self.kind.elements
        chosen = self.weight.reshape(self.shape[0], blocks, self.kind.nbytes)[numbers]
        found = self.kind.unpack(chosen.reshape(-1, self.kind.nbytes))
        return found.reshape(*numbers.shape, *self.shape[1:])

    def __call__(self, x: Tensor, after: Tensor | None = None) -> Tensor:
        """(..., columns) -> (..., rows). Of many rows not before another product, which would share a kernel."""
        weight = self.weight
        is_many = has_many_rows(x)
        if is_many:
            x = x.contiguous()
            weight = Tensor(weight.uop.recompute((x if after is None else after).uop))
        floats = self._floats(weight)
        if is_many and self.kind.unpack is not None:
            floats = floats.contiguous()  # 100 -> 210 GFLOP/s on two cores; and not before it is needed: see above
        found = x @ floats.reshape(self.shape).transpose(-2, -1)
        found = found.contiguous() if is_many else found
        return found if self.bias is None else found + self.bias


class Weights:
    """The tensors of a model by the names of GGUF, each on the device when it is asked for."""

    def __init__(self, entries: Mapping[str, Entry], device: str) -> None:
        self.entries, self.device = entries, device
        self.used: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self.entries

    def entry(self, name: str) -> Entry:
        """A tensor that must be there."""
        found = self.entries.get(name)
        if found is None:
            raise ParseError(f"load: the tensor {name!r:.80} is missing", "", FIX)
        self.used.add(name)
        return found

    def on_device(self, name: str) -> Tensor:
        """Its bytes."""
        data = self.entry(name).bytes()
        return data if data.device == self.device else data.to(self.device)

    def matrix(self, name: str, *shape: int) -> Matrix:
        """`name.weight`, which must have this shape, and `name.bias` if there is one."""
        entry = self.entry(f"{name}.weight")
        if entry.shape != shape:
            raise ParseError(
                f"load: the tensor {name}.weight is {spell_shape(entry.shape)}",
                f"the sizes in the file say {spell_shape(shape)}",
                FIX,
            )
        bias = self.vector(f"{name}.bias", *shape[:-1]) if f"{name}.bias" in self else None
        return Matrix(self.on_device(f"{name}.weight"), entry.kind, entry.shape, bias)

    def vector(self, name: str, *shape: int) -> Tensor:
        """A small tensor, float32."""
        entry = self.entry(name)
        if prod(entry.shape) != prod(shape):
            raise ParseError(
                f"load: the tensor {name} is {spell_shape(entry.shape)}",
                f"the sizes in the file say {spell_shape(shape)}",
                FIX,
            )
        return self.floats(name).reshape(shape)

    def floats(self, name: str) -> Tensor:
        """A small tensor of any shape, float32."""
        entry = self.entry(name)
        data = self.on_device(name)
        found: Tensor = data.cast(dtypes.float32) if entry.kind.unpack is None else entry.kind.unpack(data)
        shaped: Tensor = found.reshape(entry.shape)
        return shaped
