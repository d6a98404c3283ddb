"""Sequences of different lengths in one tensor, filled up behind their ends.

    x = pad_sequence([Tensor.ones(3, 2), Tensor.ones(5, 2)])            # (5, 2, 2): time, batch, size
    outputs, state = lstm(pack_padded_sequence(x, [3, 5]))              # states are those at the end of each sequence
    outputs, lengths = pad_packed_sequence(outputs)                     # 0 behind the ends

Nothing is packed: a PackedSequence is the filled tensor beside the lengths, so that kernels have one shape, and a step
under `TinyJit` serves all lengths. Names and meanings are those of `torch.nn.utils.rnn`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from whit.dtype import dtypes
from whit.errors import ArgumentError, ShapeError
from whit.ir.op import spell_shape
from whit.tensor import Tensor


class PackedSequence(NamedTuple):
    """Sequences (time, batch, ...) and how long each is."""

    sequences: Tensor
    lengths: Tensor

    @property
    def data(self) -> Tensor:
        """The sequences; in PyTorch, their steps one after the other."""
        return self.sequences

    def live(self) -> Tensor:
        """Where sequences have not ended: (time, batch, 1)."""
        times = Tensor.arange(self.sequences.shape[0], dtype=dtypes.int32).reshape(-1, 1, 1)
        return times < self.lengths.to(self.sequences.device).reshape(1, -1, 1)


def pad_sequence(
    sequences: Sequence[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Tensors (time, ...) of different times as one (time, batch, ...), filled up at the end, or on the left."""
    if not sequences:
        raise ArgumentError("pad_sequence: there are no sequences", fix="Give one or more tensors.")
    if padding_side not in ("left", "right"):
        raise ArgumentError(f"pad_sequence: padding_side={padding_side!r}", fix='It is "left" or "right".')
    longest = max(each.shape[0] for each in sequences)
    filled = []
    for each in sequences:
        missing = longest - each.shape[0]
        pads = (missing, 0) if padding_side == "left" else (0, missing)
        filled.append(each.pad((pads, *((0, 0) for _ in each.shape[1:])), value=padding_value))
    return filled[0].stack(*filled[1:], dim=0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Any, batch_first: bool = False) -> list[Tensor]:
    """The tensors that `pad_sequence` was given."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [rows[i, :length] for i, length in enumerate(_numbers(lengths))]


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = False
) -> PackedSequence:
    """Sequences (time, batch, ...) with their lengths, a list or a tensor of integers, in any order."""
    rows = input.transpose(0, 1) if batch_first else input
    count = lengths if isinstance(lengths, Tensor) else Tensor(list(lengths), dtype=dtypes.int32)
    if count.shape != (rows.shape[1],) or not count.dtype.is_int:
        raise ShapeError(
            f"pack_padded_sequence: lengths {spell_shape(count.shape)} of {count.dtype.name} for "
            f"{spell_shape(input.shape)}",
            input._made(),
            "Give one integer for each sequence.",
        )
    if not isinstance(lengths, Tensor) and any(not 0 < length <= rows.shape[0] for length in lengths):
        raise ArgumentError(f"pack_padded_sequence: lengths {list(lengths)} of {rows.shape[0]} steps")
    return PackedSequence(rows, count)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """The sequences, filled up behind their ends, and the lengths."""
    rows = sequence.sequences
    shape = (*rows.shape[:2], *(1 for _ in rows.shape[2:]))
    filled = sequence.live().reshape(shape).where(rows, padding_value)
    if total_length is not None:
        more = total_length - rows.shape[0]
        if more < 0:
            raise ArgumentError(f"pad_packed_sequence: total_length={total_length} of {rows.shape[0]} steps")
        filled = filled.pad(((0, more), *((0, 0) for _ in rows.shape[1:])), value=padding_value)
    return filled.transpose(0, 1) if batch_first else filled, sequence.lengths


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = False) -> PackedSequence:
    """`pad_sequence` with the lengths."""
    return pack_padded_sequence(pad_sequence(sequences), [each.shape[0] for each in sequences])


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The tensors that `pack_sequence` was given."""
    return unpad_sequence(packed_sequences.sequences, packed_sequences.lengths)


def _numbers(lengths: Any) -> list[int]:
    return [int(n) for n in (lengths.tolist() if isinstance(lengths, Tensor) else lengths)]
