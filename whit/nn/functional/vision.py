"""Images read at any places."""

from __future__ import annotations

from collections.abc import Sequence

from whit.dtype import dtypes
from whit.errors import ArgumentError, ShapeError
from whit.ir.op import spell_shape
from whit.tensor import Tensor


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Matrices (batch, 2, 3) -> the places (batch, height, width, 2) that `grid_sample` reads, -1 to 1."""
    if theta.ndim != 3 or theta.shape[1:] != (2, 3) or len(size) != 4 or size[0] != theta.shape[0]:
        raise ShapeError(
            f"affine_grid: matrices {spell_shape(theta.shape)} for images {tuple(size)}",
            theta._made(),
            "They are (batch, 2, 3), and (batch, channels, height, width).",
        )
    _, _, height, width = size
    rows, columns = (_centres(count, bool(align_corners), theta) for count in (height, width))
    x, y = columns.reshape(1, -1).expand(height, width), rows.reshape(-1, 1).expand(height, width)
    base = x.stack(y, x * 0 + 1, dim=-1).reshape(1, -1, 3).expand(theta.shape[0], height * width, 3)
    return (base @ theta.transpose(1, 2)).reshape(theta.shape[0], height, width, 2)


def _centres(count: int, align_corners: bool, like: Tensor) -> Tensor:
    place = Tensor.arange(count, device=like.device).cast(like.dtype)
    if align_corners:
        return place * (2 / (count - 1)) - 1 if count > 1 else place * 0
    return (place * 2 + 1) * (1 / count) - 1


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Images (batch, channels, height, width) at places (batch, rows, columns, 2): x, then y, from -1 to 1."""
    if mode not in ("bilinear", "nearest") or padding_mode not in ("zeros", "border", "reflection"):
        raise ArgumentError(
            f"grid_sample: mode={mode!r}, padding_mode={padding_mode!r}",
            fix='Modes are "bilinear" and "nearest"; paddings "zeros", "border" and "reflection".',
        )
    if input.ndim != 4 or grid.ndim != 4 or grid.shape[-1] != 2 or grid.shape[0] != input.shape[0]:
        raise ShapeError(
            f"grid_sample: images {spell_shape(input.shape)} at places {spell_shape(grid.shape)}",
            f"images {input._made()}, places {grid._made()}",
            "They are (batch, channels, height, width) and (batch, rows, columns, 2).",
        )
    aligned = bool(align_corners)
    height, width = int(input.shape[2]), int(input.shape[3])
    x = _inside(_unscaled(grid[..., 0], width, aligned), width, padding_mode, aligned)
    y = _inside(_unscaled(grid[..., 1], height, aligned), height, padding_mode, aligned)
    if mode == "nearest":
        return _read(input, x.round(), y.round()).permute(0, 3, 1, 2)
    left, top = x.floor(), y.floor()
    right_share, bottom_share = (x - left).unsqueeze(-1), (y - top).unsqueeze(-1)
    above = _read(input, left, top) * (1 - right_share) + _read(input, left + 1, top) * right_share
    below = _read(input, left, top + 1) * (1 - right_share) + _read(input, left + 1, top + 1) * right_share
    return (above * (1 - bottom_share) + below * bottom_share).permute(0, 3, 1, 2)


def _unscaled(place: Tensor, count: int, aligned: bool) -> Tensor:
    """From -1 to 1 -> the number of a pixel."""
    return (place + 1) * ((count - 1) / 2) if aligned else ((place + 1) * count - 1) / 2


def _inside(place: Tensor, count: int, padding_mode: str, aligned: bool) -> Tensor:
    if padding_mode == "zeros":
        return place
    if padding_mode == "reflection":
        least, span = (0.0, count - 1.0) if aligned else (-0.5, float(count))
        if span <= 0:
            return place * 0
        away = (place - least).abs()
        turns = (away / span).floor()
        rest = away - turns * span
        place = (turns % 2 == 0).where(rest, span - rest) + least
    return place.clip(0, count - 1)


def _read(input: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Pixels (batch, rows, columns, channels); 0 outside of images."""
    height, width = int(input.shape[2]), int(input.shape[3])
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    column, row = (at.detach().clip(0, n - 1).cast(dtypes.int32) for at, n in ((x, width), (y, height)))
    image = Tensor.arange(input.shape[0], device=input.device).reshape(-1, 1, 1)
    return inside.unsqueeze(-1).where(input.permute(0, 2, 3, 1)[image, row, column], 0)
