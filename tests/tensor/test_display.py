"""What is seen of a tensor: values as NumPy shows them where they are in memory, and nothing computed to show them."""

from __future__ import annotations

import pathlib
import random
from typing import Any

import numpy as np
import pytest
from gpus import needs_gpu

from whit import Device, GlobalCounters, JitError, Tensor, TinyJit, Variable, dtypes
from whit.engine.memory import peek
from whit.tensor.display import text_of

DEVICE = Device.DEFAULT


def expected(array: Any, dtype: str, device: str = DEVICE) -> str:
    """The text of a realised tensor, by NumPy alone."""
    values = np.array2string(array, separator=", ", prefix="Tensor(", threshold=1000)
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
    assert repr(y) == str(y) == f"{y}" == f"<Tensor (1, 2) float32 on {DEVICE}, lazy>"
    assert y.uop is before
    assert repr(x.T * 2) == f"<Tensor (2, 1) float32 on {DEVICE}, lazy>"
    assert y._repr_html_() == f"<code>Tensor (1, 2) float32 on {DEVICE}, lazy</code>"
    assert repr(x.sum()) == f"<Tensor () float32 on {DEVICE}, lazy>"
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
    assert repr(y) == f"<Tensor (2,) float32 on {DEVICE}, lazy>"


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
        f"<{title}, lazy>",
        f"<Tensor () float32 on {DEVICE}, lazy>",
        f"<code>{title}, captured</code>",
    ]


def test_null_has_no_data() -> None:
    x = Tensor([1.0, 2.0], device="NULL")
    assert repr(x) == "<Tensor (2,) float32 on NULL, no data>"
    assert str(x.sum()) == "<Tensor () float32 on NULL, lazy>"
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
    assert html == f"<code>Tensor (1, 2) float32 on {DEVICE}</code><table><tr><td>1.</td><td>2.5</td></tr></table>"


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
