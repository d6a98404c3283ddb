"""Tables whose rows are read by their numbers: one at a time, or many as a sum, a mean or a maximum."""

from __future__ import annotations

from typing import ClassVar

from whit.errors import ArgumentError, ShapeError
from whit.ir.op import spell_shape
from whit.nn.functional.linear import embedding, embedding_bag, row_of
from whit.nn.module import Module
from whit.tensor import Tensor
from whit.tensor.core import mark_leaf


class Embedding(Module):
    """A row of the table for each index. `num_embeddings=` and `embedding_dim=` are the sizes, too.

    padding_idx         a row of zeros, which has no gradient
    max_norm            longer rows are made shorter, in the table, when they are read
    scale_grad_by_freq  the gradient of a row is divided by how often it was read
    sparse              accepted; gradients are dense
    """

    aliases: ClassVar = {"num_embeddings": "vocab_size", "embedding_dim": "embed_size"}

    def __init__(
        self,
        vocab_size: int | None = None,
        embed_size: int | None = None,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        *,
        num_embeddings: int | None = None,
        embedding_dim: int | None = None,
    ) -> None:
        rows = vocab_size if num_embeddings is None else num_embeddings
        columns = embed_size if embedding_dim is None else embedding_dim
        if rows is None or columns is None:
            raise ArgumentError(f"{type(self).__name__}: a table of how many rows and columns?")
        self.vocab_size, self.embed_size = rows, columns
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        self.weight = Tensor.randn(rows, columns)
        self.padding_idx = None if padding_idx is None else row_of(padding_idx, self.weight)
        if self.padding_idx is not None:
            self.weight = (Tensor.arange(rows).unsqueeze(1) == self.padding_idx).where(0, self.weight)
            mark_leaf(self.weight)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """A layer of this table; it is trained if `freeze` is False."""
        if embeddings.ndim != 2:
            raise ShapeError(
                f"Embedding: a table {spell_shape(embeddings.shape)}", embeddings._made(), "It has 2 axes."
            )
        rows, columns = embeddings.shape
        layer = cls(rows, columns, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
        layer.weight = embeddings
        embeddings.requires_grad = not freeze
        return layer

    @property
    def num_embeddings(self) -> int:
        """The number of rows."""
        return self.vocab_size

    @property
    def embedding_dim(self) -> int:
        """The size of a row."""
        return self.embed_size

    def __call__(self, idx: Tensor) -> Tensor:
        """Integers of any shape give that shape and an axis of embed_size."""
        return embedding(idx, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq)


class EmbeddingBag(Module):
    """The sum, mean or maximum of the rows of each bag."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> None:
        self.num_embeddings, self.embedding_dim, self.mode = num_embeddings, embedding_dim, mode
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        self.include_last_offset = include_last_offset
        self.weight = Tensor.randn(num_embeddings, embedding_dim)
        self.padding_idx = None if padding_idx is None else row_of(padding_idx, self.weight)
        if self.padding_idx is not None:
            is_padding = Tensor.arange(num_embeddings).unsqueeze(1) == self.padding_idx
            self.weight = is_padding.where(0, self.weight)
            mark_leaf(self.weight)

    def __call__(self, idx: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        """Integers (bags, length), or of one axis with the offsets at which bags begin: (bags, embedding_dim)."""
        return embedding_bag(
            idx,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )
