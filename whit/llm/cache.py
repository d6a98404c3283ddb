"""Keys and values of the positions so far: what attention reads instead of computing it again.

    cache = Cache(model.config, context=4096, dtype=dtypes.float16, device="CPU")
    keys, values = cache.update(layer, keys, values, position)      # (heads, position + new, size)

Each layer has two tensors (heads, context, size), written in place at a position that a captured program takes as a
variable. What lies behind the last position is not read.
"""

from __future__ import annotations

from typing import Any

from whit.dtype import DType
from whit.llm.config import Config
from whit.tensor import Tensor


class Cache:
    """Of one sequence."""

    def __init__(self, config: Config, context: int, dtype: DType, device: str) -> None:
        self.context = context
        latent = config.latent
        if latent is None:
            shapes = ((config.shared, context, config.size), (config.shared, context, config.value_size))
        else:
            shapes = ((1, context, latent.rank + latent.rope), (1, 0, 0))
        self.keys, self.values = (
            [_zeros(shape, dtype, device) for _ in range(config.layers)] if shape[1] else [] for shape in shapes
        )

    def update(self, layer: int, keys: Tensor, values: Tensor, position: Any) -> tuple[Tensor, Tensor]:
        """Stores those of the next positions; all up to them, of the cache's dtype."""
        return _put(self.keys[layer], keys, position), _put(self.values[layer], values, position)

    def update_latent(self, layer: int, keys: Tensor, position: Any) -> Tensor:
        """The same where values are part of the keys."""
        return _put(self.keys[layer], keys, position)

    @property
    def nbytes(self) -> int:
        """Memory of all layers."""
        return sum(int(x.nbytes()) for x in (*self.keys, *self.values))


def _zeros(shape: tuple[int, ...], dtype: DType, device: str) -> Tensor:
    return Tensor.zeros(*shape, dtype=dtype, device=device).contiguous().realize()


def _put(store: Tensor, new: Tensor, position: Any) -> Tensor:
    end = position + new.shape[1]
    store[:, position:end] = new.cast(store.dtype)
    return store[:, :end]
