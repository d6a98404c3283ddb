"""Products of bytes by words: exact for every sign, zero point and window, with weights that are laid out once."""

from typing import Any

import numpy as np
import pytest
from onnx_models.write import model, node, tensor, value

from whit import Context, GlobalCounters, Tensor, dtypes, onnx
from whit.onnx.operators import byte_products
from whit.onnx.operators.byte_products import convolved, integer_product, largest
from whit.onnx.operators.origins import Bytes, dequantised, origin
from whit.onnx.operators.windows import Window

RNG = np.random.default_rng(0)
UINT8, INT8, FLOAT = 2, 3, 1


@pytest.fixture(autouse=True)
def _with_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same graphs on every machine: without the instruction they are slower, not other ones."""
    monkeypatch.setattr(byte_products, "has_words", lambda x: True)


def integers(kind: str, *shape: int) -> Any:
    """All bytes, the extreme ones often."""
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    found = RNG.integers(low, high, shape, endpoint=True)
    return np.where(RNG.random(shape) < 0.3, RNG.choice([low, high], shape), found).astype(kind)


def convolution(*operands: Any) -> Tensor | None:
    """Of a weight that does not change."""
    with Context(FROZEN=True):
        return convolved(*operands)


def whole_convolution(x: Any, w: Any, window: Window, groups: int = 1) -> Any:
    """In int64, of numbers whose zero points are off."""
    x = np.pad(x, [(0, 0), (0, 0), *window.pads])
    (down, right), (rows, columns) = window.strides, window.reach
    height, width = (x.shape[2] - rows) // down + 1, (x.shape[3] - columns) // right + 1
    result = np.zeros((x.shape[0], w.shape[0], height, width), np.int64)
    part = w.shape[0] // groups
    for i, j in np.ndindex(*window.kernel):
        y0, x0 = i * window.dilations[0], j * window.dilations[1]
        seen = x[:, :, y0 : y0 + (height - 1) * down + 1 : down, x0 : x0 + (width - 1) * right + 1 : right]
        seen = seen.reshape(x.shape[0], groups, -1, height, width)
        for g in range(groups):
            taps = w[g * part : (g + 1) * part, :, i, j]
            result[:, g * part : (g + 1) * part] += np.einsum("nchw,oc->nohw", seen[:, g], taps)
    return result


ONE = Window((1, 1), (1, 1), (1, 1), ((0, 0), (0, 0)))
THREE = Window((3, 3), (2, 1), (1, 2), ((1, 0), (2, 1)))


@pytest.mark.parametrize(
    ("left", "right", "x_zero", "w_zero", "channels", "outputs", "window"),
    [
        ("uint8", "int8", 7, None, 8, 64, THREE),
        ("int8", "int8", -5, None, 3, 20, THREE),
        ("uint8", "uint8", 3, 128, 5, 8, THREE),
        ("int8", "uint8", 9, 113, 6, 96, THREE),
        ("uint8", "uint8", None, None, 12, 128, ONE),
        ("uint8", "int8", 255, -128, 4, 17, ONE),
    ],
)
@pytest.mark.parametrize("is_tensor", [False, True], ids=["known", "found out"])
def test_convolutions_by_words(
    left: str, right: str, x_zero: Any, w_zero: Any, channels: int, outputs: int, window: Window, is_tensor: bool
) -> None:
    x, w = integers(left, 2, channels, 6, 7), integers(right, outputs, channels, *window.kernel)
    want = whole_convolution(x.astype(int) - (x_zero or 0), w.astype(int) - (w_zero or 0), window)
    zeros = [zero if zero is None or not is_tensor else Tensor(np.array(zero, np.int32)) for zero in (x_zero, w_zero)]
    found = convolution(window, Tensor(x), Tensor(w), *zeros)
    assert found is not None and found.dtype is dtypes.int32
    assert (found.numpy() == want).all()


def test_zero_points_of_weights_by_channel() -> None:
    x, w, zeros = integers("uint8", 1, 8, 5, 5), integers("uint8", 16, 8, 3, 3), integers("uint8", 16)
    window = Window((3, 3), (1, 1), (1, 1), ((1, 1), (1, 1)))
    want = whole_convolution(x.astype(int) - 4, w.astype(int) - zeros.astype(int)[:, None, None, None], window)
    found = convolution(window, Tensor(x), Tensor(w), 4, Tensor(zeros))
    assert found is not None and (found.numpy() == want).all()


@pytest.mark.parametrize(("left", "right", "w_zero"), [("uint8", "int8", None), ("int8", "uint8", 100)])
def test_each_channel_by_itself(left: str, right: str, w_zero: int | None) -> None:
    x, w = integers(left, 1, 20, 6, 7), integers(right, 20, 1, 3, 3)
    want = whole_convolution(x.astype(int) - 3, w.astype(int) - (w_zero or 0), THREE, groups=20)
    found = convolution(THREE, Tensor(x), Tensor(w), 3, w_zero)
    assert found is not None and (found.numpy() == want).all()


def test_an_image_without_pixels_is_left_to_others() -> None:
    assert (
        convolution(ONE, Tensor(integers("uint8", 0, 8, 4, 4)), Tensor(integers("int8", 16, 8, 1, 1)), 3, None) is None
    )


def test_a_weight_that_may_change_has_no_panels() -> None:
    w = Tensor(integers("int8", 16, 8, 1, 1))
    assert convolved(ONE, Tensor(integers("uint8", 1, 8, 4, 4)), w, None, None) is None


@pytest.mark.parametrize("left", ["uint8", "int8"])
@pytest.mark.parametrize("right", ["uint8", "int8"])
def test_products_of_matrices(left: str, right: str) -> None:
    a, b = integers(left, 3, 40), integers(right, 40, 24)
    want = (a.astype(int) - 9) @ (b.astype(int) - 100)
    assert (integer_product(Tensor(a), Tensor(b), 9, 100).numpy() == want).all()
    turned = Tensor(np.ascontiguousarray(b.T)).transpose(0, 1)
    assert (integer_product(Tensor(a), turned, 9, Tensor(np.full(24, 100, np.uint8))).numpy() == want).all()


@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_the_largest_byte_of_a_window(kind: str) -> None:
    x = integers(kind, 1, 3, 6, 7)
    window = Window((3, 3), (2, 2), (1, 1), ((1, 1), (1, 0)))
    padded = np.pad(x.astype(int), [(0, 0), (0, 0), (1, 1), (1, 0)], constant_values=-999)
    seen = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, ::2]
    assert (largest(window, Tensor(x)).numpy() == seen.max((-2, -1))).all()


def test_views_of_floats_are_views_of_their_bytes() -> None:
    x = Tensor(integers("uint8", 2, 3, 4))
    floats = dequantised(Bytes(x, Tensor(0.5), 3))
    seen = origin(floats.permute((2, 0, 1)).reshape((4, 6)))
    assert seen is not None and seen.values.shape == (4, 6)
    assert (seen.values.numpy() == x.numpy().transpose(2, 0, 1).reshape(4, 6)).all()
    assert origin(floats.pad([(0, 0), (0, 0), (1, 1)])) is None  # 0 is not what stands for 0
    assert origin(floats + 1) is None


def dequantise(name: str, *parts: str, **about: Any) -> bytes:
    return node("DequantizeLinear", list(parts), [name], **about)


def quantised_model(outputs: int, beside: bool) -> tuple[onnx.Model, Any, Any]:
    """x -> bytes -> floats -> Conv (+ x) -> Relu -> bytes -> floats."""
    w = integers("int8", outputs, 16, 1 if beside else 3, 1 if beside else 3)
    pads = [0, 0, 0, 0] if beside else [1, 1, 1, 1]
    scales, bias = RNG.random(outputs).astype(np.float32) / 100, RNG.standard_normal(outputs).astype(np.float32)
    nodes = [
        node("QuantizeLinear", ["x", "sx", "zx"], ["qx"]),
        dequantise("dx", "qx", "sx", "zx"),
        dequantise("dw", "w", "sw", axis=0),
        node("Conv", ["dx", "dw", "bias"], ["c"], pads=pads),
        node("Add", ["c", "dx"], ["a"]) if beside else node("Identity", ["c"], ["a"]),
        node("Relu", ["a"], ["r"]),
        node("QuantizeLinear", ["r", "sy", "zy"], ["qy"]),
        dequantise("y", "qy", "sy", "zy"),
    ]
    tensors = [
        tensor("w", w),
        *(tensor("sw", scales), tensor("bias", bias)),
        *(tensor("sx", np.float32(0.02)), tensor("zx", np.uint8(120))),
        *(tensor("sy", np.float32(0.05)), tensor("zy", np.uint8(10))),
    ]
    run = onnx.load(model(nodes, [value("x", FLOAT, [1, 16, 6, 6])], [value("y")], tensors))

    def want(x: Any) -> Any:
        q = np.clip(np.rint(x / np.float32(0.02)) + 120, 0, 255).astype(int) - 120
        window = Window(w.shape[2:], (1, 1), (1, 1), ((pads[0],) * 2,) * 2)
        total = whole_convolution(q, w.astype(int), window) * (0.02 * scales.astype(float))[:, None, None]
        total = np.maximum(total + bias[:, None, None] + (q * 0.02 if beside else 0), 0)
        return (np.clip(np.rint(total / 0.05) + 10, 0, 255) - 10) * 0.05

    return run, want, w


@pytest.mark.parametrize("beside", [False, True], ids=["a window", "its input added"])
def test_a_convolution_between_bytes_is_one_of_bytes(beside: bool) -> None:
    run, want, _ = quantised_model(16 if beside else 48, beside)
    x = RNG.standard_normal((1, 16, 6, 6)).astype(np.float32)
    for _ in range(2):
        got = run({"x": x})["y"].numpy()
        np.testing.assert_allclose(got, want(x), atol=1e-4)
    GlobalCounters.reset()
    run({"x": x})
    assert GlobalCounters.kernel_count <= 3  # bytes of x, bytes of y, floats


def test_bytes_that_stay_in_one_scale_stay_bytes() -> None:
    given = [tensor("s", np.float32(0.1)), tensor("z", np.uint8(5)), tensor("axes", np.array([4, 2, 3], np.int64))]
    nodes = [
        dequantise("d", "x", "s", "z"),
        node("Transpose", ["d"], ["t"], perm=[2, 0, 1]),
        node("Reshape", ["t", "axes"], ["r"]),
        node("QuantizeLinear", ["r", "s", "z"], ["y"]),
    ]
    run = onnx.load(model(nodes, [value("x", UINT8, [2, 3, 4])], [value("y")], given))
    x = integers("uint8", 2, 3, 4)
    assert (run({"x": x})["y"].numpy() == x.transpose(2, 0, 1)).all()


def test_gradients_go_through_floats_that_stand_for_bytes() -> None:
    nodes = [
        dequantise("d", "w", "s"),
        node("MatMul", ["x", "d"], ["y"]),
    ]
    w = integers("int8", 24, 24)
    data = model(nodes, [value("x", FLOAT, [2, 24])], [value("y")], [tensor("w", w), tensor("s", np.float32(0.5))])
    x = Tensor(np.ones((2, 24), np.float32))
    y = onnx.load(data, jit=False)({"x": x})["y"]
    (found,) = y.sum().gradient(x)
    np.testing.assert_allclose(found.numpy(), np.broadcast_to(w.sum(1) * 0.5, (2, 24)))
