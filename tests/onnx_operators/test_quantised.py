"""Quantisation and products of bytes."""

import numpy as np
import pytest

from onnx_operators.nodes import run

RNG = np.random.default_rng(0)
MICROSOFT = "com.microsoft"


def integers(kind, *shape):
    low, high = (-128, 128) if kind is np.int8 else (0, 256)
    return RNG.integers(low, high, shape).astype(kind)


@pytest.mark.parametrize("left", [np.uint8, np.int8])
@pytest.mark.parametrize("right", [np.uint8, np.int8])
def test_products_of_bytes_are_exact(left, right):
    a, b = integers(left, 3, 40), integers(right, 40, 5)
    a_zero, b_zero = integers(left), integers(right, 5)
    want = (a.astype(int) - a_zero) @ (b.astype(int) - b_zero)
    assert (run("MatMulInteger", a, b, np.asarray(a_zero), b_zero) == want).all()
    rows = integers(left, 3)
    want = (a.astype(int) - rows[:, None]) @ b.astype(int)
    assert (run("MatMulInteger", a, b, rows) == want).all()


@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize(
    ("channels", "kind", "zero"), [(4, np.int8, 0), (130, np.int8, 0), (130, np.uint8, 128), (4, np.uint8, 9)]
)
def test_convolutions_of_bytes_are_exact(kernel, channels, kind, zero):
    x, w = integers(np.uint8, 1, channels, 5, 5), integers(kind, 3, channels, kernel, kernel)
    pad = kernel // 2
    padded = np.pad(x.astype(int) - 7, [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    size = (padded.shape[2] - kernel) // 2 + 1
    want = np.zeros((1, 3, size, size), int)
    for i in range(kernel):
        for j in range(kernel):
            seen = padded[:, :, i : i + 2 * size - 1 : 2, j : j + 2 * size - 1 : 2]
            want += np.einsum("nchw,oc->nohw", seen, w[:, :, i, j].astype(int) - zero)
    got = run("ConvInteger", x, w, np.array(7, np.uint8), np.array(zero, kind), strides=[2, 2], pads=[pad] * 4)
    assert (got == want).all()


def test_scales_by_tensor_axis_and_block():
    x = np.array([[0.3, -0.9, 5.0, 400.0]], np.float32)
    assert run("QuantizeLinear", x, np.array(0.5, np.float32), np.array(3, np.uint8)).tolist() == [[4, 1, 13, 255]]
    by_axis = np.array([0.1, 0.5, 1.0, 2.0], np.float32)
    assert run("QuantizeLinear", x, by_axis, np.zeros(4, np.int8)).tolist() == [[3, -2, 5, 127]]
    blocks = np.array([[0.1, 10.0]], np.float32)
    got = run("QuantizeLinear", x, blocks, axis=1, block_size=2, output_dtype=22)
    assert got.tolist() == [[3, -8, 0, 7]]
    back = run("DequantizeLinear", np.array([[3, -8, 0, 7]], np.int8), blocks, axis=1, block_size=2)
    np.testing.assert_allclose(back, [[0.3, -0.8, 0, 70]], rtol=1e-6)


def test_the_range_of_a_dynamic_scale_holds_zero():
    got, scale, zero = run("DynamicQuantizeLinear", np.array([1.0, 4.0], np.float32), outputs=3)
    assert (got.tolist(), zero.item()) == ([64, 255], 0)
    assert scale == pytest.approx(4 / 255)


@pytest.mark.parametrize("with_zeros", [False, True])
def test_weights_of_four_bits(with_zeros):
    rows, columns, block = 3, 40, 16
    packed, scales = integers(np.uint8, rows, 3, 8), RNG.random((rows, 3)).astype(np.float32)
    zeros = integers(np.uint8, rows, 2)
    low_first = np.stack([packed & 15, packed >> 4], -1).reshape(rows, 3, block).astype(np.float32)
    near = np.stack([zeros & 15, zeros >> 4], -1).reshape(rows, 4)[:, :3] if with_zeros else np.full((rows, 3), 8)
    weights = ((low_first - near[:, :, None]) * scales[:, :, None]).reshape(rows, -1)[:, :columns]
    a = RNG.standard_normal((2, columns)).astype(np.float32)
    given = [a, packed, scales.reshape(-1)] + ([zeros.reshape(-1)] if with_zeros else [])
    got = run("MatMulNBits", *given, domain=MICROSOFT, version=1, N=rows, K=columns, bits=4, block_size=block)
    np.testing.assert_allclose(got, a @ weights.T, rtol=1e-4, atol=1e-4)
