"""Connectionist temporal classification: the loss of labels whose places in time are not known.

Labels (a, b) with blanks around them are the states (-, a, -, b, -). `score[state]` is the logarithm of the probability
of all ways to be in a state at a time; a step comes from the same state, the one before, or, past a blank, the one
before that, unless the label is the same. Impossible ways have NEVER, which is finite so that gradients are, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whit.dtype import dtypes
from whit.errors import ArgumentError, ShapeError
from whit.ir.op import spell_shape
from whit.nn.functional.reduction import reduced
from whit.nn.steps import call_step
from whit.tensor import Tensor

NEVER = -1e30  # instead of the logarithm of 0
Lengths = Tensor | Sequence[int]


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Minus the logarithm of the probability of the targets. "mean" divides by their lengths first.

    log_probs       (time, batch, classes), or without the batch
    targets         (batch, longest), or one after the other
    zero_infinity   0 where the input is too short for the target, instead of infinity
    """
    is_alone = log_probs.ndim == 2
    logs = log_probs.unsqueeze(1) if is_alone else log_probs
    if logs.ndim != 3 or not 0 <= blank < logs.shape[2] or not targets.dtype.is_int:
        raise ShapeError(
            f"ctc_loss: log_probs {spell_shape(log_probs.shape)}, targets of {targets.dtype.name}, blank={blank}",
            log_probs._made(),
            "They are (time, batch, classes), integers, and one of the classes.",
        )
    wide = logs.cast(dtypes.float32) if logs.dtype.itemsize < 4 else logs
    batch = wide.shape[1]
    ends = _lengths("input_lengths", input_lengths, batch, wide)
    sizes = _lengths("target_lengths", target_lengths, batch, wide)
    rows = _rows(targets.unsqueeze(0) if is_alone and targets.ndim == 1 else targets, target_lengths, batch)
    if not wide.shape[0]:
        raise ShapeError(f"ctc_loss: log_probs {spell_shape(log_probs.shape)} of no time", log_probs._made())
    loss = -_score(wide, _states(rows, sizes, blank), ends, sizes, blank)
    is_impossible = loss > -NEVER / 2
    loss = is_impossible.where(0.0 if zero_infinity else float("inf"), loss).cast(log_probs.dtype)
    if reduction == "mean":
        loss = loss / sizes.maximum(1).cast(loss.dtype)
    return reduced("ctc_loss", loss.reshape(()) if is_alone else loss, reduction)


def _lengths(name: str, lengths: Any, batch: int, like: Tensor) -> Tensor:
    given = lengths if isinstance(lengths, Tensor) else Tensor(lengths, dtype=dtypes.int32)
    if given.numel() != batch or not given.dtype.is_int:
        raise ShapeError(f"ctc_loss: {name} {spell_shape(given.shape)} for a batch of {batch}", given._made())
    return given.reshape(batch).to(like.device)


def _rows(targets: Tensor, lengths: Any, batch: int) -> Tensor:
    """Targets (batch, longest)."""
    if targets.ndim == 2:
        if targets.shape[0] != batch:
            raise ShapeError(f"ctc_loss: targets {spell_shape(targets.shape)} for a batch of {batch}", targets._made())
        return targets
    counts = [int(n) for n in (lengths.reshape(-1).tolist() if isinstance(lengths, Tensor) else lengths)]
    if sum(counts) != targets.shape[0]:
        raise ArgumentError(f"ctc_loss: {targets.shape[0]} targets, and lengths that add up to {sum(counts)}")
    longest, start, rows = max(counts, default=0), 0, []
    for count in counts:
        rows.append(targets[start : start + count].pad((0, longest - count)))
        start += count
    return rows[0].stack(*rows[1:])


def _states(rows: Tensor, sizes: Tensor, blank: int) -> Tensor:
    """(batch, 2 * longest + 1): a blank, the first label, a blank ... Labels behind the end are blanks."""
    inside = Tensor.arange(rows.shape[1]).reshape(1, -1) < sizes.reshape(-1, 1)
    labels = inside.where(rows, blank).cast(dtypes.int32)
    pairs = labels.stack(labels * 0 + blank, dim=2).reshape(rows.shape[0], 2 * rows.shape[1])
    return pairs.pad(((0, 0), (1, 0)), value=blank)


def _score(logs: Tensor, states: Tensor, ends: Tensor, sizes: Tensor, blank: int) -> Tensor:
    """The logarithm of the probability of each row."""
    time, batch, _ = logs.shape
    count = states.shape[1]
    emitted = logs.gather(2, states.unsqueeze(0).expand(time, batch, count))
    place = Tensor.arange(count).reshape(1, -1)
    before = states.pad(((0, 0), (2, 0)), value=blank)[:, :count]
    jumps = (states != blank) & (states != before) & (place >= 2)
    score = (place < 2).where(emitted[0], NEVER)
    live = Tensor.arange(time).reshape(-1, 1, 1) < ends.reshape(1, -1, 1)
    for t in range(1, time):
        (score,) = call_step(_step, score, emitted[t], jumps, live[t])
    last = (place == 2 * sizes.reshape(-1, 1)) | (place == 2 * sizes.reshape(-1, 1) - 1)
    return last.where(score, NEVER).logsumexp(1)


def _step(score: Tensor, emitted: Tensor, jumps: Tensor, live: Tensor) -> tuple[Tensor]:
    """The scores at the next time; those of rows that have ended stay."""
    count = score.shape[1]
    one = score.pad(((0, 0), (1, 0)), value=NEVER)[:, :count]
    two = jumps.where(score.pad(((0, 0), (2, 0)), value=NEVER)[:, :count], NEVER)
    ways = score.stack(one, two).logsumexp(0) + emitted
    return (live.where(ways.maximum(NEVER), score),)
