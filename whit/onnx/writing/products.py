"""Reductions, and what is more than its parts: MatMul, Conv, MaxPool, Softmax, activations by name.

sum over k of a[m, k] * b[k, n]     ->  MatMul(a, b)
FORMULA "convolution ..."           ->  Conv(x, w)
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.op import Op
from whit.ir.uop import UOp
from whit.onnx.types import INT32
from whit.onnx.writing.movement import bare, settled, unshaped
from whit.records import dataclass
from whit.tensor.graphs.convolution.convolve import Sliding
from whit.tensor.graphs.convolution.max_pool import Pooling
from whit.transform import FORMULAS

if TYPE_CHECKING:
    from whit.onnx.writing.translate import Translator

REDUCTIONS: Final[dict[Op, str]] = {
    ops.ADD: "ReduceSum",
    ops.MUL: "ReduceProd",
    ops.MAX: "ReduceMax",
    ops.MIN: "ReduceMin",
}
OF_BOOLS: Final[dict[Op, str]] = {ops.AND: "ReduceMin", ops.OR: "ReduceMax", ops.MAX: "ReduceMax", ops.MIN: "ReduceMin"}
IN_PRODUCTS: Final = frozenset(
    {
        dtypes.float16,
        dtypes.bfloat16,
        dtypes.float32,
        dtypes.float64,
        dtypes.int32,
        dtypes.int64,
        dtypes.uint32,
        dtypes.uint64,
    }
)


def write_reduce(to: Translator, node: UOp) -> str:
    """A product of matrices, windows side by side, or a reduction."""
    known = _contraction(to, node) or _windows(to, node)
    if known is not None:
        return known
    (x,), axes = node.src[:1], to.sheet.numbers(node.arg.axes)
    is_bool = node.dtype is dtypes.bool
    kind = (OF_BOOLS if is_bool else REDUCTIONS).get(node.arg.op)
    if kind is None:
        raise to.error(node, f"there is no reduction by {node.arg.op.name}")
    name = to.sheet.add("Cast", to.name(x), to=INT32) if is_bool else to.name(x)
    found = to.sheet.add(kind, name, axes, keepdims=0)
    return to.sheet.add("Cast", found, to=to.element(node)) if is_bool else found


@dataclass(frozen=True, slots=True)
class Axes:
    """The axes of a product that is summed up: those of both operands that stay, those of the first, those of the
    second, those of both that are summed, and all that stay, with those of size 1."""

    batch: list[int]
    m: list[int]
    n: list[int]
    k: list[int]
    stays: list[int]


def _contraction(to: Translator, node: UOp) -> str | None:
    """The sum of products of two operands as MatMul, if one of them lacks axes that the other has.

    Operands are brought into the orders (batch, m, k) and (batch, k, n).
    """
    product = node.src[0]
    if node.arg.op is not ops.ADD or product.op is not ops.MUL or node.dtype not in IN_PRODUCTS:
        return None
    left, right = map(bare, product.src)
    axes = _kinds(left, right, product, node.arg.axes)
    if axes is None:
        return None
    shape = product.shape
    batch, depth = tuple(shape[axis] for axis in axes.batch), _product(shape, axes.k)
    rows = _ordered(left, [*axes.batch, *axes.m, *axes.k], (*batch, _product(shape, axes.m), depth))
    columns = _ordered(right, [*axes.batch, *axes.k, *axes.n], (*batch, depth, _product(shape, axes.n)))
    if axes.m and not axes.batch and len(axes.k) == 1:  # axes before the last one are rows as they are
        rows = _ordered(left, [*axes.m, *axes.k], tuple(shape[axis] for axis in (*axes.m, *axes.k)))
    found = to.sheet.add("MatMul", to.name(rows), to.name(columns))
    in_order = [*axes.batch, *axes.m, *axes.n]
    value = to.stand_for(found, node.dtype, (*rows.shape[:-1], columns.shape[-1]))
    value = value.reshape(tuple(shape[axis] for axis in in_order))
    value = value.permute(tuple(in_order.index(axis) for axis in axes.stays if axis in in_order))
    return to.name(value.reshape(node.shape))


def _windows(to: Translator, node: UOp) -> str | None:
    """The largest of windows that lie side by side in images: (n, c, h, kh, w, kw), of which kh and kw are reduced."""
    view = node.src[0]
    if node.arg.op is not ops.MAX or view.op is not ops.PERMUTE or not node.dtype.is_float:
        return None
    if tuple(view.arg) != (0, 1, 2, 4, 3, 5) or node.arg.axes != (4, 5):
        return None
    image = unshaped(view.src[0])
    *outer, height, down, width, across = view.src[0].shape
    whole = (*outer, _product((height, down), [0, 1]), _product((width, across), [0, 1]))
    if image.shape != whole or not isinstance(down, int) or not isinstance(across, int):
        return None
    kernel = (down, across)
    return to.sheet.add("MaxPool", to.name(image), kernel_shape=kernel, strides=kernel)


def _kinds(left: UOp, right: UOp, product: UOp, summed: tuple[int, ...]) -> Axes | None:
    """The axes of a product; None if it is none of matrices."""
    has_left, has_right = _axes(left, product), _axes(right, product)
    if not {*summed} <= has_left & has_right:
        return None
    stays = [axis for axis in range(len(product.shape)) if axis not in summed]
    m = [axis for axis in stays if axis in has_left - has_right]
    n = [axis for axis in stays if axis in has_right - has_left]
    if not m and not n:  # elements of both side by side
        return None
    return Axes([axis for axis in stays if axis in has_left & has_right], m, n, [*summed], stays)


def _axes(operand: UOp, product: UOp) -> set[int]:
    """Axes along which an operand of a product has elements of its own."""
    before = len(product.shape) - len(operand.shape)
    return {axis + before for axis, size in enumerate(operand.shape) if not isinstance(size, int) or size != 1}


def _product(shape: tuple[object, ...], axes: list[int]) -> object:
    found: object = 1
    for axis in axes:
        found = shape[axis] if found == 1 and isinstance(found, int) else found * shape[axis]  # type: ignore[operator]
    return found


def _ordered(operand: UOp, axes: list[int], shape: tuple[object, ...]) -> UOp:
    """An operand with the axes in this order, and of this shape."""
    own = sorted(axes)
    sizes = iter([size for size in operand.shape if not isinstance(size, int) or size != 1])
    flat = operand.reshape(tuple(next(sizes) for _ in own))
    return settled(flat).permute(tuple(own.index(axis) for axis in axes)).reshape(shape)


def write_softmax(to: Translator, node: UOp) -> str | None:
    """exp(shifted x) over the sum of the same, along one axis."""
    if node.op is not ops.FDIV or node.src[0].op is not ops.EXP:
        return None
    top, below = node.src[0], bare(node.src[1])
    shifted = top.src[0]
    total = below.src[0] if below.op is ops.RESHAPE else below
    if shifted.op is not ops.FORMULA or shifted.arg.name != "shift" or total.op is not ops.REDUCE:
        return None
    if total.src[0] is not top or total.arg.op is not ops.ADD or len(total.arg.axes) != 1:
        return None
    (axis,) = total.arg.axes
    if below.shape != (*top.shape[:axis], 1, *top.shape[axis + 1 :]):
        return None
    return to.sheet.add("Softmax", to.name(shifted.src[1]), axis=axis)


def write_known(to: Translator, node: UOp) -> str | None:
    """The operator of a function that has a name; None if its value has to be written."""
    name = node.arg.name
    if name == "relu":
        return to.sheet.add("Relu", to.name(node.src[1]))
    if name == "truncating_modulo":
        return to.sheet.add("Mod", *(to.name(bare(operand)) for operand in node.src[1:]), fmod=1)
    if name == "copysign":
        return _copysign(to, node)
    rule = FORMULAS.get(name)
    given = rule.args[0] if isinstance(rule, partial) and rule.args else None
    if isinstance(given, Sliding) and name.startswith("convolution "):
        return _convolution(to, node, given)
    if isinstance(given, Pooling) and name.startswith("max pool ") and given.axis == 2 and len(node.shape) == 4:
        return to.sheet.add(
            "MaxPool",
            to.name(node.src[1]),
            kernel_shape=given.kernel,
            strides=given.stride,
            pads=_sides(given.padding),
        )
    return None


def _sides(padding: tuple[tuple[int, int], ...]) -> tuple[int, ...]:
    """First what is before each axis, then what is after."""
    return (*[before for before, _ in padding], *[after for _, after in padding])


def _convolution(to: Translator, node: UOp, slide: Sliding) -> str | None:
    if min(_sides(slide.padding), default=0) < 0 or not slide.kernel:
        return None
    return to.sheet.add(
        "Conv",
        *(to.name(operand) for operand in node.src[1:3]),
        dilations=slide.dilation,
        group=slide.groups,
        kernel_shape=slide.kernel,
        pads=_sides(slide.padding),
        strides=slide.stride,
    )


def _copysign(to: Translator, node: UOp) -> str | None:
    """The magnitude of the first operand with the sign of the second."""
    magnitude, sign = map(bare, node.src[1:])
    size = to.sheet.add("Abs", to.name(magnitude))
    found = to.sheet.add("Where", to.is_negative(sign), to.sheet.add("Neg", size), size)
    return found if node.shape in (magnitude.shape, sign.shape) else None
