"""Which of several graphs of one value a target computes fastest.

    forms_of(parse_target("CPU"))                  Winograd's transforms, where an estimate says so
    forms_of(parse_target("CUDA:PTX:sm_90a"))      channels last, gradients that gather, all sums of a channel at once

The graphs differ in their gradients too, and a gradient is taken of what was written. So a form is chosen where an
expression is written, not by the scheduler: methods of Tensor ask for the record of their device, and hand it on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from whit.records import dataclass

if TYPE_CHECKING:
    from whit.target import Target


@dataclass(frozen=True, slots=True)
class Forms:
    """What a target prefers. Without any preference operations are written one by one."""

    has_transforms: bool = False  # convolutions by Winograd's algorithm; its estimates were measured on CPUs
    channels_last: bool = False  # operands of convolutions of 16-bit floats, as matrix units want them
    pools_gather: bool = False  # the gradient of max pooling reads windows, rather than adding them up
    overlaps_gather: bool = False  # the same of windows that overlap, in wide floats
    has_residues: bool = False  # transposed convolutions of wide floats, for each remainder by the strides
    sums_together: bool = False  # variances and batch norms by the sums of each channel, in one pass over elements
    keeps_weights: bool = False  # those of convolutions do not change: kept as kernels read them, channels last
    cores: int = 1  # that compute a tile of a product each, at the same time


NO_PREFERENCE = Forms()


def forms_of(target: Target | None, *, is_frozen: bool = False) -> Forms:
    """The forms for a target; for None, an interpreter or a file, no preference. `is_frozen`: weights do not change."""
    if target is None:
        return NO_PREFERENCE
    if target.is_gpu:
        return Forms(channels_last=True, pools_gather=True, sums_together=True, cores=target.cores)
    # Pooling of 3 x 3 by steps of 2: 84 -> 13 ms for 8 x 64 x 56 x 56 with its gradient (bench/nn.py)
    return Forms(
        has_transforms=True, overlaps_gather=True, has_residues=True, keeps_weights=is_frozen, cores=target.cores
    )
