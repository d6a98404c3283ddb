"""What is seen of a tensor: values as NumPy shows them where they are in memory, and nothing computed to show them."""

from __future__ import annotations

import base64
import pathlib
import random
import struct
import sys
import zlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gpus import needs_gpu

from whit import Context, Device, GlobalCounters, JitError, Tensor, TinyJit, Variable, dtypes, nn
from whit.engine.memory import peek
from whit.errors import ArgumentError, FileError, ShapeError
from whit.tensor.display import text_of

DEVICE = Device.DEFAULT


def expected(array: Any, dtype: str, device: str = DEVICE) -> str:
    """The text of a realised tensor, by NumPy alone."""
    values = np.array2string(array, separator=", ", prefix="Tensor(", threshold=1000, precision=4)
    return f"Tensor({values}, shape={array.shape}, dtype={dtype}, device={device})"


@pytest.mark.parametrize(
    "array",
    (
        np.array([[1.5, -2.0], [3.0, 4.25]], np.float32),
        np.array([np.nan, np.inf, -np.inf, -0.0, 1e-30, 3e30], np.float32),
        np.array([0.1, 1 / 3], np.float64),
        np.array([0.1, 65504.0], np.float16),
        np.array([True, False]),
        np.array([-128, 127], np.int8),
        np.array([0, 2**64 - 1], np.uint64),
        np.zeros((0, 3), np.float32),
        np.zeros((2, 0), np.int32),
        np.float32(0.1).reshape(()),
        np.arange(24, dtype=np.int32).reshape(2, 3, 4),
        np.arange(1000, dtype=np.int32),
    ),
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_realised_tensors_show_their_values_as_numpy_does(array: Any) -> None:
    assert repr(Tensor(array)) == expected(array, array.dtype.name)


@pytest.mark.parametrize("shape", ((1001,), (7, 200), (1, 2000, 1), (40, 6, 40), (9, 8, 7, 20), (1500, 2)), ids=str)
def test_large_tensors_are_abbreviated_where_numpy_does(shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).standard_normal(shape)
    assert repr(Tensor(array)) == expected(array, "float64")
    with np.printoptions(edgeitems=2, precision=3, threshold=30):
        values = np.array2string(array, separator=", ", prefix="Tensor(")
        assert repr(Tensor(array)).startswith(f"Tensor({values}, shape=")


def test_many_axes_are_abbreviated_more() -> None:
    x = Tensor(np.zeros((8,) * 7, np.uint8))
    assert len(repr(x)) < 40_000


def test_small_floats_show_the_digits_that_they_have() -> None:
    bfloat16 = Tensor([0.1, 1.0, -2.5], dtype=dtypes.bfloat16)
    assert repr(bfloat16) == f"Tensor([ 0.1001,  1.    , -2.5   ], shape=(3,), dtype=bfloat16, device={DEVICE})"
    fp8 = Tensor([0.5, 448.0, float("nan")], dtype=dtypes.fp8e4m3)
    assert repr(fp8) == f"Tensor([  0.5, 448. ,   nan], shape=(3,), dtype=fp8e4m3, device={DEVICE})"


def test_lazy_tensors_say_so_and_are_not_computed() -> None:
    x = Tensor([[1.0, 2.0]])
    y = x * 2
    before = y.uop
    GlobalCounters.reset()
    assert repr(y) == str(y) == f"{y}" == f"<Tensor (1, 2) float32 on {DEVICE}, lazy: mul>"
    assert y.uop is before
    assert repr(x.T * 2) == f"<Tensor (2, 1) float32 on {DEVICE}, lazy: mul>"
    assert y._repr_html_() == f"<code>Tensor (1, 2) float32 on {DEVICE}, lazy: mul</code>"
    assert repr(x.sum()) == f"<Tensor () float32 on {DEVICE}, lazy: sum>"
    assert GlobalCounters.kernel_count == 0
    assert repr(y.realize()) == expected(np.array([[2, 4]], np.float32), "float32")


def test_constants_show_their_number() -> None:
    assert repr(Tensor(3)) == f"Tensor(3, shape=(), dtype=int32, device={DEVICE})"
    assert repr(Tensor.ones(2, device="PYTHON")) == "Tensor([1., 1.], shape=(2,), dtype=float32, device=PYTHON)"
    assert repr(Tensor(1.0, requires_grad=True)) == f"Tensor(1., shape=(), dtype=float32, device={DEVICE})"


def test_what_was_computed_for_a_reader_is_shown_and_stays_a_graph() -> None:
    y = Tensor([1.0, 2.0]) * 2
    y.tolist()
    assert repr(y) == expected(np.array([2, 4], np.float32), "float32")
    assert y.uop.op.name == "mul"
    y += 1
    assert repr(y) == f"<Tensor (2,) float32 on {DEVICE}, lazy: iadd>"
    assert repr(y.sum().gradient(y)[0] * 2).endswith("lazy: mul>")


def test_numbers_are_computed_by_str_and_formats() -> None:
    x = Tensor([0.1, 0.2])
    assert str(x.max()) == f"{x.max()}" == "0.2"
    assert f"{x[:1] * 1}" == "0.1"
    assert str(Tensor([[3]]) + 1) == "4"
    assert str(Tensor(True)) == "True"
    assert str(x.sum() / 0) == "inf"
    assert str(x.bfloat16()[0]) == "0.100098"
    loss = x.sum()
    str(loss)
    assert loss.uop.op.name != "buffer"  # a gradient can still be taken
    assert loss.gradient(x)[0].tolist() == [1, 1]


def test_a_number_that_is_captured_raises_and_repr_does_not(capsys: pytest.CaptureFixture[str]) -> None:

    @TinyJit
    def step(x: Tensor, how: Any) -> Tensor:
        print(how(x.sum()))
        return x.sum()

    for how in (str, "{}".format):
        with pytest.raises(JitError, match=r"(str|format): .*step is being captured, and its tensors have no values"):
            step(Tensor([1.0, 2.0]), how)

    @TinyJit
    def shown(x: Tensor) -> Tensor:
        print(repr(x), x, x + 1, repr(x.sum()), x._repr_html_(), sep="\n")
        return x + 1

    assert shown(Tensor([1.0, 2.0])).tolist() == [2, 3]
    title = f"Tensor (2,) float32 on {DEVICE}"
    assert capsys.readouterr().out.splitlines() == [
        f"<{title}, captured>",
        f"<{title}, captured>",
        f"<{title}, lazy: add>",
        f"<Tensor () float32 on {DEVICE}, lazy: sum>",
        f"<code>{title}, captured</code>",
    ]


def test_null_has_no_data() -> None:
    x = Tensor([1.0, 2.0], device="NULL")
    assert repr(x) == "<Tensor (2,) float32 on NULL, no data>"
    assert str(x.sum()) == "<Tensor () float32 on NULL, lazy: sum>"
    assert str(x.sum().realize()) == "<Tensor () float32 on NULL, no data>"


def test_memory_that_was_given_away_is_said_to_be_gone() -> None:
    x = Tensor([1.0, 2.0]).clone().realize()
    TinyJit(lambda x: x + 1, donate=(0,))(x)
    assert repr(x) == f"<Tensor (2,) float32 on {DEVICE}, memory is gone>"


def test_of_a_file_only_what_is_shown_is_read(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "numbers"
    np.arange(10**6, dtype=np.int32).tofile(path)
    x = Tensor(path, dtype=dtypes.int32)
    GlobalCounters.reset()
    assert repr(x).startswith("Tensor([     0,      1,      2, ..., 999997, 999998, 999999], shape=(1000000,), dtype=")
    assert repr(x).endswith(f"dtype=int32, device=DISK:{path})")
    assert GlobalCounters.bytes_read < 100
    path.write_bytes(b"short")
    assert repr(x) == f"<Tensor (1000000,) int32 on DISK:{path}, memory is gone>"


@needs_gpu
def test_of_a_gpu_only_what_is_shown_is_copied() -> None:
    array = np.arange(4_000_000, dtype=np.float32).reshape(2000, 2000)
    x = Tensor(array, device="CUDA").realize()
    assert repr(x.T[::2]) == expected(array.T[::2], "float32", "CUDA")


def test_symbolic_sizes_show_the_elements_of_now() -> None:
    n = Variable("n", 1, 6).bind(2)
    rows = Tensor([[1, 2], [3, 4], [5, 6]])[:n]
    assert repr(rows.pad(((1, 0), (0, 0)))).startswith("Tensor([[0, 0],\n        [1, 2],\n        [3, 4]], shape=(")


@pytest.mark.slow
def test_views_of_any_kind_show_what_numpy_gives() -> None:
    """Random chains of movement on memory: the places that are read are those that the chain shows."""
    rng = random.Random(0)
    for _ in range(150):
        x = Tensor(np.arange(1, 25, dtype=np.int32).reshape(2, 3, 4))
        for _ in range(rng.randint(1, 6)):
            x = _moved(x, rng)
        seen = peek.peek(x.uop, [range(size) for size in x.shape])
        assert seen is not None
        assert (seen == x.numpy()).all()
        assert text_of(x) == expected(x.numpy(), "int32")


def _moved(x: Tensor, rng: random.Random) -> Tensor:
    axis = rng.randrange(x.ndim)
    choice = rng.randrange(7)
    if choice == 0:
        return x.permute(*rng.sample(range(x.ndim), x.ndim))
    if choice == 1:
        return x.flip(axis)
    if choice == 2 and x.numel() < 300:
        return x.pad(tuple((rng.randint(0, 2), rng.randint(0, 2)) for _ in x.shape))
    if choice == 3 and x.shape[axis] > 1:
        return x.shrink(tuple((1, s) if i == axis else None for i, s in enumerate(x.shape)))
    if choice == 4 and x.ndim > 1:
        return x.flatten(0, 1)
    if choice == 5 and x.numel() < 300:
        return x.unsqueeze(axis).expand(*x.shape[:axis], 2, *x.shape[axis:])
    return x.detach()


def test_bits_under_another_dtype() -> None:
    assert text_of(Tensor([1.0, -0.0]).bitcast("int32")) == expected(np.array([0x3F800000, -(2**31)]), "int32")
    assert text_of(Tensor(1.0).bitcast("uint32")) == f"Tensor(1065353216, shape=(), dtype=uint32, device={DEVICE})"


# ---- notebooks


def test_notebooks_show_a_table() -> None:
    html = Tensor([[1.0, 2.5]])._repr_html_()
    facts = "<div><small>min 1, mean 1.75, max 2.5</small></div>"
    table = "<table><tr><td>1.</td><td>2.5</td></tr></table>"
    assert html == f"<code>Tensor (1, 2) float32 on {DEVICE}</code>{facts}{table}"


def test_tables_leave_out_what_numpy_leaves_out() -> None:
    html = Tensor(np.arange(10_000).reshape(100, 100))._repr_html_()
    assert html.count("<tr>") == 7
    assert html.count("<td>") == 49
    assert html.count("<td>…</td>") == 13
    assert "<tr><td>0</td><td>1</td><td>2</td><td>…</td><td>97</td><td>98</td><td>99</td></tr>" in html
    row = Tensor(np.arange(2000))._repr_html_()
    assert row.count("<tr>") == 1
    assert row.count("<td>") == 7


def test_more_axes_are_text_in_notebooks_and_names_are_escaped(tmp_path: pathlib.Path) -> None:
    assert "<pre>[[[1]]]</pre>" in Tensor([[[1]]])._repr_html_()
    assert "<pre>3</pre>" in Tensor(3)._repr_html_()
    path = tmp_path / "a<b>"
    path.write_bytes(b"12")
    assert "a&lt;b&gt;" in Tensor(path)._repr_html_()


def pixels(html: str) -> Any:
    """The picture in a text of HTML, as an array of its pixels."""
    data = base64.b64decode(html.partition("data:image/png;base64,")[2].partition('"')[0])
    return decoded(data)


def decoded(data: bytes) -> Any:
    """The pixels of a PNG file of rows that are stored as they are."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height, bits, kind = struct.unpack(">IIBB", data[16:26])
    assert bits == 8
    channels = {0: 1, 2: 3, 6: 4}[kind]
    length = struct.unpack(">I", data[33:37])[0]
    rows = np.frombuffer(zlib.decompress(data[41 : 41 + length]), np.uint8).reshape(height, 1 + width * channels)
    return rows[:, 1:].reshape(height, width, channels)


def test_few_digits_are_shown_and_a_setting_says_how_many() -> None:
    x = Tensor([0.123456789, 1.0])
    assert repr(x).startswith("Tensor([0.1235, 1.    ], ")
    with Context(PRINT_DIGITS=8):
        assert repr(x).startswith("Tensor([0.12345679, 1.        ], ")
    with np.printoptions(precision=2):
        assert repr(x).startswith("Tensor([0.12, 1.  ], ")


def test_heat_maps_show_signs_sizes_and_what_is_no_number() -> None:
    values = np.zeros((4, 5), np.float32)
    values[0, :3] = -1, 0.5, np.nan
    values[3, 4] = np.inf
    html = Tensor(values)._repr_html_()
    assert "min -1, mean -0.02778, max 0.5, 1 NaN, 1 infinite" in html
    found = pixels(html)
    assert found.shape == (4, 5, 3)
    assert found[0, 0].tolist() == [178, 24, 43] and found[0, 2].tolist() == [255, 210, 60]
    assert found[3, 4].tolist() == [33, 102, 172] and found[1, 1].tolist() == [255, 255, 255]
    assert found[0, 1].tolist() == [144, 179, 214]  # half as far
    assert pixels(Tensor(np.arange(20).reshape(4, 5) + 100)._repr_html_())[0, 0].tolist() == [255, 255, 255]


@pytest.mark.parametrize("dtype", (dtypes.float32, dtypes.uint8, dtypes.bool), ids=str)
@pytest.mark.parametrize("channels", (1, 3, 4))
def test_images_are_shown_as_such(dtype: Any, channels: int) -> None:
    light = np.random.default_rng(0).integers(0, 256, (9, 12, channels), np.uint8)
    if dtype is dtypes.bool:
        light = (light > 127).astype(np.uint8) * 255
    given = {dtypes.float32: light / np.float32(255), dtypes.uint8: light, dtypes.bool: light > 127}[dtype]
    last, first = Tensor(given), Tensor(np.ascontiguousarray(given.transpose(2, 0, 1)))
    for x in (last, first, first.permute(1, 2, 0)):
        assert (pixels(x._repr_html_()) == light).all()
    sheet = pixels(first.unsqueeze(0).expand(3, channels, 9, 12).contiguous().realize()._repr_html_())
    if channels != 4:
        assert sheet.shape == (9, 3 * 13 - 1, channels) and (sheet[:, 13:25] == light).all()


def test_shapes_that_are_no_images_are_heat_maps() -> None:
    assert pixels(Tensor(np.zeros((9, 9), np.float32))._repr_html_()).shape == (9, 9, 3)
    assert pixels(Tensor(np.ones((9, 9), np.uint8))._repr_html_()).shape == (9, 9, 1)
    assert pixels(Tensor(np.full((9, 9, 3), -1.0, np.float32))._repr_html_()).shape == (81, 3, 3)
    assert pixels(Tensor(np.zeros((2, 3, 4, 5), np.int64))._repr_html_()).shape == (24, 5, 3)


def test_of_one_axis_there_is_a_histogram() -> None:
    html = Tensor(np.arange(320) // 10)._repr_html_()
    assert html.count("<rect ") == 32 and ">0</text>" in html and ">31</text>" in html
    assert "<details><summary>values</summary><table>" in html
    assert "<svg" not in Tensor([1.0, 2.0])._repr_html_()


DTYPES = (dtypes.bool, dtypes.int8, dtypes.uint64, dtypes.fp8e5m2, dtypes.bfloat16, dtypes.float64)
SHAPES = ((), (0,), (0, 3), (3, 0), (1,), (1, 1), (200,), (20, 9), (1, 1, 1, 1, 70), (2, 0, 9, 9))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_any_tensor_has_a_text_of_html_and_can_be_drawn(dtype: Any, shape: Any, capsys: Any) -> None:
    x = Tensor.ones(*shape).cast(dtype).contiguous().realize()
    before = x.uop
    assert x._repr_html_().startswith("<code>Tensor (")
    x.show()
    assert capsys.readouterr().out.startswith("Tensor(" if x.numel() <= 8 else "Tensor (")
    assert x.uop is before


def test_ends_of_floats_overflow_nothing(recwarn: Any) -> None:
    x = Tensor(np.array([[-1.7e308, 1.7e308, np.nan, np.inf]] * 3))
    assert "min -1.7e+308" in x._repr_html_()
    assert "<svg" in Tensor(np.tile(np.array([-1.7e308, 1.7e308]), 50))._repr_html_()
    assert "<svg" not in Tensor(np.full(100, np.nan))._repr_html_()
    assert [str(each.message) for each in recwarn.list] == []


def test_complex_numbers_are_drawn_by_their_absolute_values(capsys: Any) -> None:
    x = Tensor([[3 + 4j, 0j, 1 + 0j]] * 3).realize()
    assert "<small>absolute values: min 0, mean 2, max 5</small>" in x._repr_html_()
    assert "3.+4.j" in repr(x)
    x.show()
    assert "absolute values: min 0, mean 2, max 5" in capsys.readouterr().out


def test_large_tensors_are_sampled() -> None:
    x = Tensor.ones(3000, 3000).contiguous().realize()
    html = x._repr_html_()
    assert "max 1 of a sample" in html and len(html) < 40_000
    assert pixels(html).shape == (256, 256, 3)


def test_show_computes_and_draws(capsys: Any, tmp_path: pathlib.Path) -> None:
    x = Tensor(np.arange(12, dtype=np.float32).reshape(3, 4)) - 5
    x.show()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"Tensor (3, 4) float32 on {DEVICE}, min -5, mean 0.5, max 6"
    assert len(lines) == 4 and set("".join(lines[1:])) <= set(" ░▒▓█")
    assert x.uop.op.name == "buffer"
    Tensor([3.0]).show()
    assert capsys.readouterr().out == f"Tensor([3.], shape=(1,), dtype=float32, device={DEVICE})\n"
    Tensor(np.repeat([0.0, 1.0, 1.0], 10)).show()
    assert capsys.readouterr().out.splitlines()[1].startswith("0 ▅ ")
    x.show(tmp_path / "x.png")
    assert decoded((tmp_path / "x.png").read_bytes()).shape == (3, 4, 3)
    x.show(str(tmp_path / "x.html"))
    assert "data:image/png" in (tmp_path / "x.html").read_text()
    with pytest.raises(ArgumentError, match="has no kind that is known"):
        x.show("x.gif")
    with pytest.raises(ShapeError, match="is no picture"):
        Tensor(3).show("x.png")
    with pytest.raises(FileError, match="cannot be written"):
        x.show(tmp_path / "nowhere" / "x.png")


def test_terminals_get_colours(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    Tensor(np.array([[1.0, -1.0, 0.0]] * 3)).show()
    text = capsys.readouterr().out
    assert "\033[38;2;33;102;172m\033[48;2;33;102;172m▀" in text and text.count("▀") == 6


def test_notebooks_are_given_html(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    shown: list[str] = []
    shell = SimpleNamespace(config={"IPKernelApp": {}})
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    display = SimpleNamespace(display=shown.append, HTML=lambda text: text)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    (Tensor([1.0, 2.0]) * 2).show()
    assert shown[0].startswith("<code>Tensor (2,)") and "<td>4.</td>" in shown[0]
    shell.config.clear()  # a prompt in a terminal
    Tensor([1.0]).show()
    assert len(shown) == 1 and capsys.readouterr().out.startswith("Tensor([1.]")


def test_models_are_tables_in_notebooks() -> None:
    html = nn.Sequential(nn.Linear(2, 3), nn.ReLU())._repr_html_()
    assert html.startswith("<code>Sequential: 9 parameters</code><table><tr><th>layer</th>")
    assert "<tr><td>0</td><td>Linear(2, 3)</td><td>weight (3, 2), bias (3,)</td><td>9</td></tr>" in html
