"""Convolution as a function of an input and a weight, on nodes of the graph, with its gradients.

    y[b, o, i] = sum over c, j of x[b, c, i*s + j*d] * w[o, c, j]

The gradients are convolutions themselves, and each other's: what the input gets is a convolution of dy with the weight
turned round, what the weight gets one of the input with dy. Where the stride is s, position q*s + r of the input meets
only every s-th element of the window, from r on: s convolutions with parts of the weight, one for each r, laid between
each other. So no kernel multiplies by zeros that lie between elements, or adds up windows element by element.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from math import prod

from whit.ir import ops
from whit.ir.sizes import is_at_most
from whit.ir.uop import UOp, const
from whit.kernel.convolution_cost import WINOGRAD_TILES, best_winograd_tile, fastest_winograd_tile
from whit.kernel.forms import NO_PREFERENCE, Forms
from whit.records import dataclass, replace
from whit.tensor.graphs.convolution.channels_last import (
    channels_last,
    is_copied,
    is_half_precision,
    lies_as_shown,
    narrowed,
    rounded,
    summed,
    summed_weight,
)
from whit.tensor.graphs.convolution.fold_taps import Folding, folds
from whit.tensor.graphs.convolution.kept_weights import by_kept_weights, has_kept_form, spread_by_kept_weights
from whit.tensor.graphs.convolution.sliding import windows
from whit.transform import FORMULAS, Form, derivative

NEVER, ALWAYS = 0, 1  # of the setting WINO


@dataclass(frozen=True, slots=True)
class Sliding:
    """How a weight slides over an input."""

    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    sizes: tuple[int, ...]  # of the input's space
    kernel: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]  # zeros around it, before and after
    winograd: int = NEVER  # the setting where the convolution was written: its gradients follow it, wherever
    forms: Forms = NO_PREFERENCE  # what the device prefers, where the convolution was written

    @property
    def outputs(self) -> tuple[int, ...]:
        """The sizes of the result's space."""
        axes = zip(self.sizes, self.padding, self.kernel, self.stride, self.dilation, strict=True)
        return tuple((n + sum(p) - d * (k - 1) - 1) // s + 1 for n, p, k, s, d in axes)

    @property
    def is_product(self) -> bool:
        """Whether every pixel is multiplied by itself: a product of matrices."""
        return {*self.kernel, *self.stride} == {1} and not any(map(any, self.padding))

    @property
    def is_open_inside(self) -> bool:
        """Whether the size of an axis that is not the outermost depends on variables: its ends are somewhere inside."""
        return not all(isinstance(size, int) for size in self.sizes[1:])

    @property
    def is_side_by_side(self) -> bool:
        """Whether windows fill the input, and each element is in one."""
        whole = tuple(o * k for o, k in zip(self.outputs, self.kernel, strict=True))
        return self.stride == self.kernel and self.sizes == whole and {*self.dilation} == {1} and self.groups == 1


Rule = Callable[[Sliding, UOp, UOp, UOp, UOp], tuple[UOp, UOp]]


def _known(value: UOp, name: str, slide: Sliding, rule: Rule, *operands: UOp) -> UOp:
    """The value as a function that has a gradient of its own."""
    if not value.dtype.is_float:
        return value
    name = f"{name} {slide.stride} {slide.dilation} {slide.groups} {slide.sizes} {slide.kernel} {slide.padding}"
    name += f" winograd {slide.winograd}" if slide.winograd != NEVER else ""
    name += f" channels last, {slide.forms.cores} cores" if slide.forms.channels_last else ""
    if name not in FORMULAS:
        derivative(name, Form.COMPOSED)(partial(rule, slide))
    return value.formula(name, *operands)


def convolve(x: UOp, w: UOp, slide: Sliding) -> UOp:
    """(batch, in, *space) with (out, in / groups, *window) -> (batch, out, *space)."""
    count = len(slide.kernel)
    if slide.forms.keeps_weights and has_kept_form(x, w, slide):
        return _known(by_kept_weights(x, w, slide), "convolution", slide, _of_convolution, x, w)
    total = _by_winograd(x, w, slide)
    if total is None and slide.forms.channels_last and slide.groups == 1:
        total = _by_pixels(x, w, slide)
    is_open = not isinstance(x.shape[0], int) or (slide.is_open_inside and not slide.is_product)
    if total is None and slide.groups == 1 and is_open:
        total = _by_columns(x, w, slide)
    if total is None:
        seen, weight = _operands(x, w, slide)
        product = seen * weight
        total = product.reduce(ops.ADD, tuple(range(3 + count, 4 + 2 * count)))
        total = total.reshape((x.shape[0], w.shape[0], *slide.outputs))
    return _known(total, "convolution", slide, _of_convolution, x, w)


def _by_pixels(x: UOp, w: UOp, slide: Sliding) -> UOp | None:
    """The same of operands that are kept with channels last, if they are halves."""
    if folds(x, slide.kernel, slide.dilation) and is_half_precision(w):
        folding = _folding(x, slide)
        return _by_pixels(folding.image(x), folding.weight(w), _folded(folding, slide.forms))
    if not is_copied(x) or not is_copied(w) or (slide.is_product and lies_as_shown(x)):
        return None
    return summed(*_operands(channels_last(x), channels_last(w), slide), len(slide.kernel))


def _folding(x: UOp, slide: Sliding) -> Folding:
    (down, right), (_, across) = slide.kernel, slide.dilation
    before = slide.padding[0][0], slide.padding[1][0]
    strides, outputs = (slide.stride[0], slide.stride[1]), (slide.outputs[0], slide.outputs[1])
    return Folding(x.shape[1], (down, right), strides, across, before, outputs)


def _folded(folding: Folding, forms: Forms) -> Sliding:
    """How a folded weight slides over a folded image."""
    return Sliding((1, 1), (1, 1), 1, folding.sizes, (folding.taps, 1), ((0, 0), (0, 0)), forms=forms)


def _by_columns(x: UOp, w: UOp, slide: Sliding) -> UOp | None:
    """The same by a copy of what the window sees, a row for each of its elements: then positions are one long axis,
    which a product of matrices has tiles along, wherever lines end: 96 -> 24 channels, 3 x 3, 80 x 60: 21 -> 6 ms.
    None where the length of that axis is not seen to be one: (8*h - 2) * (8*w - 2)."""
    batch, outputs, part, count = x.shape[0], w.shape[0], w.shape[1], len(slide.kernel)
    places = (batch, *slide.outputs)
    taps, pixels = prod((part, *slide.kernel)), prod(places)
    if not is_at_most(0, pixels):
        return None
    seen = _seen(x, slide).reshape((*places, part, *slide.kernel))
    rows = seen.permute((*range(1 + count, 2 + 2 * count), *range(1 + count))).stage()
    full = (outputs, taps, pixels)
    product = rows.reshape((1, taps, pixels)).expand(full) * w.reshape((outputs, taps, 1)).expand(full)
    total = product.reduce(ops.ADD, (1,)).stage().reshape((outputs, *places))
    return total.permute((1, 0, *range(2, 2 + count)))


def _by_winograd(x: UOp, w: UOp, slide: Sliding) -> UOp | None:
    """The same with fewer products, where that has a form and is allowed or estimated to be faster."""
    if slide.winograd == NEVER or slide.kernel != (3, 3) or {*slide.stride, *slide.dilation} != {1}:
        return None
    if not x.dtype.is_float or not all(isinstance(size, int) for size in slide.sizes):
        return None
    m = _winograd_tile(x, w, slide)
    if not m:
        return None
    from whit.tensor.graphs.convolution.winograd import winograd  # lazy: loads fractions

    return winograd(x, w, m, slide.groups, slide.padding, slide.outputs)


def _winograd_tile(x: UOp, w: UOp, slide: Sliding) -> int:
    """The tile, 0 for none."""
    always, (outputs, inputs, *_) = slide.winograd == ALWAYS, w.shape
    batch = x.shape[0]
    if not isinstance(batch, int) or not batch * outputs * inputs * prod(slide.outputs):
        return WINOGRAD_TILES[0] if always else 0
    choose = fastest_winograd_tile if always else best_winograd_tile
    return choose(batch, inputs, outputs, slide.groups, slide.outputs)


def _operands(x: UOp, w: UOp, slide: Sliding) -> tuple[UOp, UOp]:
    """Both as (batch, groups, out / groups, *space, in / groups, *window)."""
    batch, outputs, part, groups, count = x.shape[0], w.shape[0], w.shape[1], slide.groups, len(slide.kernel)
    seen = _seen(x, slide)
    full = (batch, groups, outputs // groups, *slide.outputs, part, *slide.kernel)
    weight = w.reshape((1, groups, outputs // groups, *(1,) * count, part, *slide.kernel))
    return seen.expand(full), weight.expand(full)


def _seen(x: UOp, slide: Sliding) -> UOp:
    """What the window sees: (batch, groups, 1, *space, in / groups, *window)."""
    batch, groups, count = x.shape[0], slide.groups, len(slide.kernel)
    part = x.shape[1] // groups
    around = x.pad([(0, 0), (0, 0), *slide.padding]) if any(map(any, slide.padding)) else x
    seen = windows(around, slide.kernel, slide.stride, slide.dilation)
    seen = seen.reshape((batch, groups, part, *slide.outputs, *slide.kernel))
    seen = seen.permute((0, 1, *range(3, 3 + count), 2, *range(3 + count, 3 + 2 * count)))
    return seen.reshape((batch, groups, 1, *slide.outputs, part, *slide.kernel))


def _of_convolution(slide: Sliding, y: UOp, dy: UOp, x: UOp, w: UOp) -> tuple[UOp, UOp]:
    return gradient_of_input(dy, w, slide), gradient_of_weight(x, dy, slide)


def gradient_of_weight(x: UOp, dy: UOp, slide: Sliding) -> UOp:
    """What the weight gets: (out, in / groups, *window)."""
    batch, outputs, groups, count = dy.shape[0], dy.shape[1], slide.groups, len(slide.kernel)
    part = x.shape[1] // groups
    is_last = slide.forms.channels_last and groups == 1 and is_copied(dy)
    if is_last and folds(x, slide.kernel, slide.dilation):
        folding = _folding(x, slide)
        total = folding.unfolded(gradient_of_weight(folding.image(x), dy, _folded(folding, slide.forms)))
        return _known(total, "weight gradient of convolution", slide, _of_weight_gradient, x, dy)
    is_last = is_last and is_copied(x)
    if is_last:
        x, dy = channels_last(x), channels_last(dy)
    full = (batch, groups, outputs // groups, *slide.outputs, part, *slide.kernel)
    given = dy.reshape((batch, groups, outputs // groups, *slide.outputs, *(1,) * (1 + count)))
    seen, given = _seen(x, slide).expand(full), given.expand(full)
    if is_last:
        total = summed_weight(seen, given, count, slide.forms.cores)
    else:
        total = (seen * given).reduce(ops.ADD, (0, *range(3, 3 + count))).reshape((outputs, part, *slide.kernel))
    return _known(total, "weight gradient of convolution", slide, _of_weight_gradient, x, dy)


def _of_weight_gradient(slide: Sliding, dw: UOp, ddw: UOp, x: UOp, dy: UOp) -> tuple[UOp, UOp]:
    return gradient_of_input(dy, ddw, slide), convolve(x, ddw, slide)


def gradient_of_input(dy: UOp, w: UOp, slide: Sliding) -> UOp:
    """What the input gets: (batch, in, *space)."""
    if any(s > 1 and d > 1 for s, d in zip(slide.stride, slide.dilation, strict=True)):
        total = _by_zeros(dy, w, slide)
    elif slide.forms.keeps_weights and has_kept_form(dy, w, slide) and slide.is_side_by_side:
        total = spread_by_kept_weights(dy, w, slide)
    else:
        total = _by_residues(dy, w, slide)
    return _known(total, "input gradient of convolution", slide, _of_input_gradient, dy, w)


def _of_input_gradient(slide: Sliding, dx: UOp, ddx: UOp, dy: UOp, w: UOp) -> tuple[UOp, UOp]:
    return convolve(ddx, w, slide), gradient_of_weight(ddx, dy, slide)


def _flipped(w: UOp, groups: int) -> UOp:
    """(out, in / groups, *window) -> (in, out / groups, *window), windows back to front."""
    outputs, part, *kernel = w.shape
    count = len(kernel)
    transposed = w.reshape((groups, outputs // groups, part, *kernel)).permute((0, 2, 1, *range(3, 3 + count)))
    return transposed.reshape((groups * part, outputs // groups, *kernel)).flip(tuple(range(2, 2 + count)))


def _slid_back(dy: UOp, w: UOp, slide: Sliding, starts: tuple[int, ...], sizes: tuple[int, ...]) -> UOp:
    """The transposed convolution of stride 1, `sizes` elements from `starts` on: an element beyond dy's ends is 0."""
    kept, pads = [(0, dy.shape[0]), (0, dy.shape[1])], []
    for start, n, o, k, d in zip(starts, sizes, dy.shape[2:], w.shape[2:], slide.dilation, strict=True):
        low, high = start - d * (k - 1), start + n  # of dy, what the window sees
        first, last = min(max(low, 0), o), max(min(high, o), 0)
        kept.append((first, max(last - first, 0)))
        pads.append((first - low, high - first - max(last - first, 0)))
    inside = dy if tuple(size for _, size in kept) == tuple(dy.shape) else dy.shrink(kept)  # dy itself is kept once
    count = len(sizes)
    space, kernel = tuple(inside.shape[2:]), tuple(w.shape[2:])
    back = replace(slide, stride=(1,) * count, sizes=space, kernel=kernel, padding=tuple(pads))
    return convolve(inside, _flipped(w, slide.groups), back)


def _by_residues(dy: UOp, w: UOp, slide: Sliding) -> UOp:
    """A transposed convolution for each remainder of the positions by the strides."""
    batch, inputs, count = dy.shape[0], w.shape[1] * slide.groups, len(slide.sizes)
    before = tuple(low for low, _ in slide.padding)
    is_last = slide.forms.channels_last and slide.groups == 1 and is_copied(dy) and is_copied(w)
    if all(s == 1 for s in slide.stride):
        total = _slid_back(dy, w, slide, before, slide.sizes)
        return narrowed(total, dy) if is_last else total
    rows = tuple(-(-n // s) for n, s in zip(slide.sizes, slide.stride, strict=True))
    pieces: list[UOp] = []
    for residue in itertools.product(*(range(s) for s in slide.stride)):
        # position i of the input is q*s + r with its padding counted, and the first i of this residue is at its place
        places = [p + i for p, i in zip(before, residue, strict=True)]
        part = _met_by(places, w, slide)
        if part is None:
            zero = const(dy.dtype, 0).reshape((1,) * (2 + count))
            pieces.append(zero.expand((batch, inputs, *rows)))
            continue
        starts = tuple(place // s for place, s in zip(places, slide.stride, strict=True))
        piece = _slid_back(dy, part, slide, starts, rows)
        pieces.append(rounded(piece, dy) if is_last else piece.stage())
    return _interleaved(pieces, slide, (batch, inputs), rows)


def _met_by(places: list[int], w: UOp, slide: Sliding) -> UOp | None:
    """The elements of the window that positions with these remainders meet; None if there are none."""
    remainders = [place % s for place, s in zip(places, slide.stride, strict=True)]
    taps = [-(-(k - r) // s) for k, r, s in zip(slide.kernel, remainders, slide.stride, strict=True)]
    if any(tap <= 0 for tap in taps):
        return None
    part = w
    for axis, (r, s, tap) in enumerate(zip(remainders, slide.stride, taps, strict=True), 2):
        part = _every(part, axis, r, s, tap)
    return part


def _every(w: UOp, axis: int, start: int, step: int, count: int) -> UOp:
    """Elements start, start + step, ... of an axis."""
    if step == 1:
        return w
    shape = tuple(w.shape)
    size = shape[axis]
    end = start + count * step
    w = w.pad([(0, max(end - size, 0) if i == axis else 0) for i in range(len(shape))])
    w = w.shrink([(start, count * step) if i == axis else (0, n) for i, n in enumerate(shape)])
    w = w.reshape((*shape[:axis], count, step, *shape[axis + 1 :]))
    w = w.shrink([(0, 1) if i == axis + 1 else (0, n) for i, n in enumerate(w.shape)])
    return w.reshape((*shape[:axis], count, *shape[axis + 1 :]))


def _interleaved(pieces: list[UOp], slide: Sliding, lead: tuple[int, int], rows: tuple[int, ...]) -> UOp:
    """Pieces by remainder -> one tensor, cut to the input's sizes."""
    count = len(rows)
    stacked = UOp.stack(*pieces).reshape((*slide.stride, *lead, *rows))
    order = [count, count + 1]
    for axis in range(count):
        order += [count + 2 + axis, axis]
    full = tuple(q * s for q, s in zip(rows, slide.stride, strict=True))
    joined = stacked.permute(tuple(order)).reshape((*lead, *full))
    return joined.shrink([(0, n) for n in (*lead, *slide.sizes)])


def _by_zeros(dy: UOp, w: UOp, slide: Sliding) -> UOp:
    """One transposed convolution of dy with zeros between its elements."""
    spread = dy
    for axis, step in enumerate(slide.stride, 2):
        shape = tuple(spread.shape)
        if step > 1:
            spread = spread.reshape((*shape[: axis + 1], 1, *shape[axis + 1 :]))
            spread = spread.pad([(0, step - 1 if i == axis + 1 else 0) for i in range(len(shape) + 1)])
            spread = spread.reshape((*shape[:axis], shape[axis] * step, *shape[axis + 1 :]))
    return _slid_back(spread, w, slide, tuple(low for low, _ in slide.padding), slide.sizes)
