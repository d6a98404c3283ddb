"""Products of matrices and determinants."""

from __future__ import annotations

from whit.onnx.operators.arithmetic import aligned
from whit.onnx.operators.byte_products import can_multiply, float_product
from whit.onnx.operators.origins import origin
from whit.onnx.operators.registry import Node, operator, unary
from whit.tensor import Tensor

unary("Det", Tensor.det, (11, 22))


def product(a: Tensor, b: Tensor) -> Tensor:
    """a @ b."""
    left, right = origin(a), origin(b)
    if left is None or right is None or not can_multiply(left, right):
        return a @ b
    return float_product(left, right)


@operator("MatMul", since=(1, 9, 13))
def matmul(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """As NumPy's. Of bytes where both stand for them."""
    return product(a, b).cast(a.dtype)


@operator("Gemm", since=(1, 6, 7, 9, 11, 13))
def gemm(node: Node, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    """alpha * a @ b + beta * c, each of a and b turned if asked for."""
    left = a.transpose(0, 1) if node.get("transA", 0) else a
    right = b.transpose(0, 1) if node.get("transB", 0) else b
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    total = product(left, right)
    result = total if alpha == 1 else total * alpha
    if c is not None and beta != 0:
        result = result + (aligned(node, result, c) if beta == 1 else aligned(node, result, c) * beta)
    return result.cast(a.dtype)


@operator("Einsum", since=(12,))
def einsum(node: Node, *operands: Tensor) -> Tensor:
    """Einstein's sums."""
    return Tensor.einsum(node.get("equation").replace(" ", ""), *operands)
