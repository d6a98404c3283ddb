"""Windows, recurrent layers, attention, resizing."""

import numpy as np
import pytest

from onnx_operators.nodes import run
from whit.errors import NotSupportedError

RNG = np.random.default_rng(0)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def close(got, want):
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("how", "pads"), [("SAME_UPPER", (0, 1)), ("SAME_LOWER", (1, 0)), ("VALID", (0, 0))])
def test_padding_that_keeps_sizes(how, pads):
    x, w = floats(1, 2, 6), floats(3, 2, 2)
    close(run("Conv", x, w, auto_pad=how), run("Conv", x, w, pads=list(pads)))


def test_a_transposed_convolution_is_the_gradient_of_one():
    x, w = floats(1, 3, 4), floats(3, 2, 3)
    want = np.zeros((1, 2, 9))
    for i in range(4):
        want[:, :, 2 * i : 2 * i + 3] += np.einsum("nc,cok->nok", x[:, :, i], w)
    close(run("ConvTranspose", x, w, strides=[2]), want)
    close(
        run("ConvTranspose", x, w, strides=[2], pads=[1, 0], output_padding=[1]),
        np.pad(want, [(0, 0), (0, 0), (0, 1)])[:, :, 1:],
    )
    close(run("ConvTranspose", x, w, strides=[2], output_shape=[10]), np.pad(want, [(0, 0), (0, 0), (0, 1)]))


def test_places_of_the_largest_count_through_the_whole_tensor():
    x = np.arange(16, dtype=np.float32).reshape(1, 2, 2, 4)
    best, place = run("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], outputs=2)
    assert best.reshape(-1).tolist() == place.reshape(-1).tolist() == [5, 7, 13, 15]
    by_columns = run("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], outputs=2, storage_order=1)[1]
    assert by_columns.reshape(-1).tolist() == [3, 7, 11, 15]


def test_windows_of_padding_alone():
    x = floats(1, 1, 3)
    assert run("MaxPool", x, kernel_shape=[2], pads=[2, 0]).reshape(-1)[0] == -np.inf


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def written_out_lstm(x, w, r, b, lengths):
    hidden = r.shape[-1]
    h, c = np.zeros((x.shape[1], hidden)), np.zeros((x.shape[1], hidden))
    outputs = []
    for t, row in enumerate(x):
        i, o, f, g = np.split(row @ w.T + h @ r.T + b[: 4 * hidden] + b[4 * hidden :], 4, axis=1)
        new_c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        new_h = sigmoid(o) * np.tanh(new_c)
        live = (t < lengths)[:, None]
        c, h = np.where(live, new_c, c), np.where(live, new_h, h)
        outputs.append(np.where(live, new_h, 0))
    return np.array(outputs), h, c


def test_an_lstm_in_both_directions_with_sequences_that_end():
    x, w, r, b = floats(4, 2, 3), floats(2, 16, 3), floats(2, 16, 4), floats(2, 32)
    lengths = np.array([4, 2], np.int32)
    y, h, c = run("LSTM", x, w, r, b, lengths, outputs=3, hidden_size=4, direction="bidirectional")
    turned = x.copy()
    for i, length in enumerate(lengths):
        turned[:length, i] = x[:length, i][::-1]
    for k, rows in enumerate((x, turned)):
        want, last_h, last_c = written_out_lstm(rows, w[k], r[k], b[k], lengths)
        if k:
            for i, length in enumerate(lengths):
                want[:length, i] = want[:length, i][::-1].copy()
        close(y[:, k], want)
        close(h[k], last_h)
        close(c[k], last_c)


def test_no_time_at_all_leaves_the_first_state():
    h = floats(1, 2, 4)
    y, last = run("GRU", floats(0, 2, 3), floats(1, 12, 3), floats(1, 12, 4), None, None, h, outputs=2, hidden_size=4)
    assert y.shape == (0, 1, 2, 4)
    close(last, h)


def test_activations_that_nobody_knows_are_an_error():
    with pytest.raises(NotSupportedError, match="activation 'swash'"):
        run("RNN", floats(2, 1, 3), floats(1, 4, 3), floats(1, 4, 4), outputs=2, hidden_size=4, activations=["Swash"])


def test_attention_of_grouped_heads_with_a_past():
    q, k, v = floats(1, 4, 2, 8), floats(1, 2, 3, 8), floats(1, 2, 3, 8)
    past_k, past_v = floats(1, 2, 2, 8), floats(1, 2, 2, 8)
    y, keys, values = run("Attention", q, k, v, None, past_k, past_v, outputs=3, is_causal=1)
    all_k, all_v = np.concatenate([past_k, k], 2), np.concatenate([past_v, v], 2)
    close(keys, all_k)
    close(values, all_v)
    scores = np.einsum("bhqd,bhkd->bhqk", q, all_k.repeat(2, 1)) / np.sqrt(8)
    scores = np.where(np.arange(5) > np.arange(2)[:, None] + 2, -np.inf, scores)
    shares = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    close(y, shares @ all_v.repeat(2, 1))


def test_group_query_attention_puts_keys_behind_the_past_of_each_sequence():
    q, k, v = floats(2, 1, 16), floats(2, 1, 8), floats(2, 1, 8)
    past_k, past_v = floats(2, 1, 3, 8), floats(2, 1, 3, 8)
    last = np.array([3, 1], np.int32)
    about = {"domain": "com.microsoft", "version": 1, "num_heads": 2, "kv_num_heads": 1, "outputs": 3}
    y, keys, values = run("GroupQueryAttention", q, k, v, past_k, past_v, last, np.array(4), **about)
    for i, end in enumerate(last):
        close(keys[i, 0, end], k[i, 0])
        scores = q[i].reshape(2, 8) @ keys[i, 0, : end + 1].T / np.sqrt(8)
        shares = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
        close(y[i].reshape(2, 8), shares @ values[i, 0, : end + 1])


@pytest.mark.parametrize("how", ["half_pixel", "align_corners", "asymmetric"])
def test_resizing_by_lines_is_numpys_interpolation(how):
    x = floats(1, 1, 5)
    new = np.arange(8)
    place = {"half_pixel": (new + 0.5) * 5 / 8 - 0.5, "align_corners": new * 4 / 7, "asymmetric": new * 5 / 8}[how]
    sizes = np.array([1, 1, 8])
    got = run("Resize", x, None, None, sizes, mode="linear", coordinate_transformation_mode=how)
    close(got[0, 0], np.interp(place, np.arange(5), x[0, 0]))


def test_shrinking_with_antialias_is_a_mean_of_what_is_covered():
    x = floats(1, 1, 8)
    got = run("Resize", x, None, None, np.array([1, 1, 2]), mode="linear", antialias=1)
    around = np.pad(x[0, 0], 4, "edge")  # positions outside count as those at the border
    weights = np.maximum(1 - np.abs(np.arange(-4, 12) - np.array([[1.5], [5.5]])) / 4, 0)
    close(got[0, 0], (weights * around).sum(1) / weights.sum(1))


def test_boxes_that_overlap_a_better_one_are_left_out():
    boxes = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 2, 1, 3]]], np.float32)
    scores = np.array([[[0.5, 0.9, 0.1]]], np.float32)
    got = run("NonMaxSuppression", boxes, scores, np.array(3), np.array(0.5, np.float32), np.array(0.0, np.float32))
    assert got.tolist() == [[0, 0, 1], [0, 0, 2]]
    assert run("NonMaxSuppression", boxes, scores).shape == (0, 3)


def test_a_transform_and_back():
    x = floats(2, 7, 2)
    there = run("DFT", x, None, np.array(1))
    want = np.fft.fft(x[..., 0] + 1j * x[..., 1], axis=1)
    close(there[..., 0] + 1j * there[..., 1], want)
    close(run("DFT", there, None, np.array(1), inverse=1), x)
    half = run("DFT", x[..., :1], None, np.array(1), onesided=1)
    assert half.shape == (2, 4, 2)
    close(run("DFT", half, np.array(7), np.array(1), inverse=1, onesided=1), x[..., :1])
