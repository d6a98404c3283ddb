"""A convolution of nodes, whose gradients are convolutions.

    y = convolve(x, w)        dx: dy, spread out by the stride, with zeros around it, convolved with w turned round
                              dw: windows of x times dy, summed over batch and space

Of the windows alone the gradient would be as large as all windows together, and then be added up.
"""

from __future__ import annotations

from whit.grad.formulas import FORMULAS, derivative
from whit.ir import ops
from whit.ir.uop import UOp
from whit.tensor.sliding import windows

Sizes = tuple[int, ...]


def convolve(x: UOp, w: UOp, groups: int, stride: Sizes, dilation: Sizes) -> UOp:
    """(batch, in, *space) with (out, in / groups, *window) -> (batch, out, *space), in one dtype; nothing is padded."""
    seen = _windows(x, w, groups, stride, dilation)  # (batch, groups, 1, *space, part, *window)
    count, outputs = len(stride), w.shape[0]
    batch, space = x.shape[0], seen.shape[3 : 3 + count]
    full = (batch, groups, outputs // groups, *space, *seen.shape[3 + count :])
    weight = w.reshape((1, groups, outputs // groups, *(1,) * count, *w.shape[1:])).expand(full)
    total = (seen.expand(full) * weight).reduce(ops.ADD, tuple(range(3 + count, 4 + 2 * count)))
    return total.reshape((batch, outputs, *space)).formula(_name(groups, stride, dilation), x, w)


def _windows(x: UOp, w: UOp, groups: int, stride: Sizes, dilation: Sizes) -> UOp:
    count, part = len(stride), w.shape[1]
    seen = windows(x, w.shape[2:], stride, dilation)  # (batch, in, *space, *window)
    space, window = seen.shape[2 : 2 + count], seen.shape[2 + count :]
    seen = seen.reshape((x.shape[0], groups, part, *space, *window))
    seen = seen.permute((0, 1, *range(3, 3 + count), 2, *range(3 + count, 3 + 2 * count)))
    return seen.reshape((x.shape[0], groups, 1, *space, part, *window))


def _name(groups: int, stride: Sizes, dilation: Sizes) -> str:
    """The name of the function with these settings; its derivative is known from now on."""
    name = f"convolve groups={groups} stride={stride} dilation={dilation}"
    if name in FORMULAS:
        return name

    @derivative(name)
    def gradient(y: UOp, dy: UOp, x: UOp, w: UOp) -> tuple[UOp | None, ...]:
        return _by_input(dy, x, w, groups, stride, dilation), _by_weight(dy, x, w, groups, stride, dilation)

    return name


def _by_input(dy: UOp, x: UOp, w: UOp, groups: int, stride: Sizes, dilation: Sizes) -> UOp:
    """dx[i] = sum over k of dy[(i - k * dilation) / stride] * w[k]."""
    outputs, part, *window = w.shape
    count = len(stride)
    turned = w.reshape((groups, outputs // groups, part, *window))
    turned = turned.permute((0, 2, 1, *range(3, 3 + count))).reshape((groups * part, outputs // groups, *window))
    spread = dy
    pads = [(0, 0), (0, 0)]
    for axis, (k, s, d, size) in enumerate(zip(window, stride, dilation, x.shape[2:], strict=True), 2):
        spread = _spread_out(spread, axis, s)
        pads.append((d * (k - 1), size - spread.shape[axis]))
    return convolve(spread.pad(pads), turned.flip(tuple(range(2, 2 + count))), groups, (1,) * count, dilation)


def _spread_out(x: UOp, axis: int, step: int) -> UOp:
    """Zeros between the elements of an axis: n -> (n - 1) * step + 1."""
    size = x.shape[axis]
    if step == 1:
        return x
    shape = x.shape
    x = x.reshape((*shape[: axis + 1], 1, *shape[axis + 1 :]))
    x = x.pad([(0, step - 1 if i == axis + 1 else 0) for i in range(len(x.shape))])
    x = x.reshape((*shape[:axis], size * step, *shape[axis + 1 :]))
    return x.shrink([(0, (size - 1) * step + 1 if i == axis else n) for i, n in enumerate(x.shape)])


def _by_weight(dy: UOp, x: UOp, w: UOp, groups: int, stride: Sizes, dilation: Sizes) -> UOp:
    """dw[k] = sum over i of x[i * stride + k * dilation] * dy[i]."""
    seen = _windows(x, w, groups, stride, dilation)
    count, outputs = len(stride), w.shape[0]
    full = (*seen.shape[:2], outputs // groups, *seen.shape[3:])
    gradient = dy.reshape((*full[: 3 + count], *(1,) * (1 + count))).expand(full)
    total = (seen.expand(full) * gradient).reduce(ops.ADD, (0, *range(3, 3 + count)))
    return total.reshape(w.shape)
