"""What users of PyTorch and NumPy type in their first hour works, and means what it means there."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import numpy as np
import pytest

from whit import Tensor, dtypes
from whit.errors import ArgumentError, DeviceError, DTypeError, ShapeError

A = np.array([[1.5, -2.0, 3.0], [4.0, 0.5, -6.0]], np.float32)
B = np.array([[2.0, 1.0, 0.5], [-1.0, 3.0, 2.0]], np.float32)
BATCH = np.arange(12, dtype=np.float32).reshape(2, 2, 3)

# Of `x` and `y`, `b` of three axes: each is computed by PyTorch and by whit.
TORCH = """
x.t()
x[0].t()
x.mT
b.mT
x.mm(y.t())
x.mv(y[0])
b.bmm(b.mT)
x.dim()
x.nelement()
x.numel()
x.size()
x.size(1)
x.ndim
x.T
x.cpu()
x.view(3, 2)
x.view(-1)
x.view_as(y)
x.reshape_as(y.t())
x[0].expand_as(x)
x.permute(1, 0)
x.unsqueeze(0)
x.unsqueeze(dim=-1)
x.permute(dims=(1, 0))
b.permute((2, 0, 1))
x.select(1, 0)
x.select(-1, -1)
x.narrow(1, 1, 2)
x.narrow(1, -2, 1)
x.flip(dims=(0, 1))
x.masked_fill(x > 1, 0)
x.add(y)
x.sub(y)
x.mul(y)
x.div(y)
x.multiply(y)
x.subtract(y)
x.divide(y)
x.true_divide(y)
x.negative()
x.absolute()
(x / 8).arcsin()
(x / 8).arccos()
x.arctan()
x.arctan2(y)
x.clamp(min=0)
x.clamp(max=1)
x.clamp(min=-1, max=1)
x.clamp(-1, 1)
x.clip(min=-1, max=1)
x.leaky_relu(negative_slope=0.2) if hasattr(x, "leaky_relu") else torch.nn.functional.leaky_relu(x, 0.2)
x.amax(1)
x.amin(dim=0, keepdim=True)
x.sum(dim=1, keepdim=True)
x.sum(axis=1, keepdims=True)
x.mean(1, keepdims=True)
x.std(0, keepdims=True)
x.var(axis=0, keepdims=True)
x.prod(1, keepdims=True)
x.logsumexp(1, keepdims=True)
x.argmax(dim=1, keepdim=True)
x.argmax(axis=1, keepdims=True)
(x > 0).any(1, keepdims=True)
(x > 0).all(axis=1, keepdims=True)
x.chunk(3, axis=1)
x.unbind(dim=1)
x.argwhere()
x.new_zeros(2, 3)
x.new_ones((2,))
x.new_full((2, 2), 7)
x.new_tensor([1, 2])
x.clone().add_(y)
x.clone().add_(y, alpha=-0.5)
x.clone().sub_(y, alpha=2)
x.clone().mul_(y)
x.clone().div_(y)
x.clone().zero_()
x.clone().fill_(3)
x.clone().clamp_(-1, 1)
x.clone().clamp_(max=1)
x.clone().copy_(y[0])
x.type_as(y)
x.long().float()
x.requires_grad_().requires_grad
x.std(dim=0, unbiased=False)
x.var(0, unbiased=True)
x.std(0, correction=0)
x.clamp_min(0)
x.clamp_max(1)
x.greater(y)
x.greater_equal(y)
x.less(y)
x.less_equal(y)
x.not_equal(y)
x.swapdims(0, 1)
x.flipud()
x.fliplr()
(x[:, :2] + 3).inverse()
x.new_empty(2, 3).shape
"""


@pytest.mark.parametrize("expression", TORCH.strip().splitlines())
def test_as_in_pytorch(expression: str) -> None:
    torch = pytest.importorskip("torch")
    theirs = eval(expression, {"torch": torch, "x": torch.tensor(A), "y": torch.tensor(B), "b": torch.tensor(BATCH)})
    ours = eval(expression, {"x": Tensor(A), "y": Tensor(B), "b": Tensor(BATCH)})
    _same(ours, theirs)


def _same(ours: Any, theirs: Any) -> None:
    if isinstance(ours, tuple) and ours and isinstance(ours[0], Tensor):
        assert len(ours) == len(theirs)
        for left, right in zip(ours, theirs, strict=True):
            _same(left, right)
        return
    if not isinstance(ours, Tensor):
        assert ours == (tuple(theirs) if isinstance(ours, tuple) else theirs)
        return
    expected = theirs.detach().numpy()
    assert ours.shape == expected.shape
    assert ours.dtype.kind == dtypes.from_py(expected.dtype.type(0).item()).kind
    np.testing.assert_allclose(ours.numpy(), expected, rtol=1e-6)


# Of arrays `x` and `y`: by NumPy and by whit.
NUMPY = """
x.astype(np.int32)
x.astype("float16").astype(float).astype(np.float32)
x.astype(int).astype(np.float32)
x.copy()
x.sum(axis=1, keepdims=True)
x.max(axis=0, keepdims=True)
x.min(axis=0, keepdims=True)
x.clip(min=0, max=1)
x.var(axis=0, ddof=1)
x.std(0, ddof=0)
x.flatten()
x.swapaxes(0, 1)
"""


@pytest.mark.parametrize("expression", NUMPY.strip().splitlines())
def test_as_in_numpy(expression: str) -> None:
    theirs = eval(expression, {"np": np, "x": A, "y": B})
    ours = eval(expression, {"np": np, "x": Tensor(A), "y": Tensor(B)})
    np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-6)
    assert ours.dtype == theirs.dtype


@pytest.mark.parametrize("name", ("cat", "concat", "concatenate", "stack"))
def test_lists_of_tensors_take_a_positional_axis(name: str) -> None:
    join = getattr(Tensor, name)
    numpy = np.stack if name == "stack" else np.concatenate
    for given in (([Tensor(A), Tensor(B)], 1), ((Tensor(A), Tensor(B)), 1)):
        np.testing.assert_array_equal(join(*given).numpy(), numpy([A, B], 1))
    for keyword in ("dim", "axis"):
        np.testing.assert_array_equal(join([Tensor(A), Tensor(B)], **{keyword: 1}).numpy(), numpy([A, B], 1))
        np.testing.assert_array_equal(join(Tensor(A), Tensor(B), **{keyword: 1}).numpy(), numpy([A, B], 1))
    np.testing.assert_array_equal(join([Tensor(A), Tensor(B)]).numpy(), numpy([A, B]))


def test_medians_quantiles_and_modes_take_axis_and_keepdims() -> None:
    x = Tensor(A)
    assert x.median(axis=1, keepdims=True)[0].tolist() == np.sort(A, 1)[:, 1:2].tolist()
    assert np.allclose(x.quantile(0.5, axis=1, keepdims=True).numpy(), np.quantile(A, 0.5, 1, keepdims=True))
    assert x.kthvalue(1, axis=0, keepdims=True)[0].tolist() == A.min(0, keepdims=True).tolist()
    assert x.mode(axis=0, keepdims=True)[0].shape == (1, 3)
    assert x.unsqueeze(axis=0).shape == (1, 2, 3)
    assert x.normalize(axis=0).tolist() == x.normalize(dim=0).tolist()
    assert x.repeat_interleave(2, axis=0).tolist() == A.repeat(2, axis=0).tolist()


def test_to_takes_devices_dtypes_and_tensors() -> None:
    x = Tensor(A)
    assert x.to(dtypes.float16).dtype is x.to("float16").dtype is x.to(dtype=np.float16).dtype is dtypes.float16
    assert x.to(int).dtype is dtypes.int32
    moved = x.to("PYTHON", dtypes.float64)
    assert (moved.device, moved.dtype) == ("PYTHON", dtypes.float64)
    assert x.to(device="python").device == "PYTHON"
    like = x.to(moved)
    assert (like.device, like.dtype) == ("PYTHON", dtypes.float64)
    assert (x.type_as(moved).device, x.type(dtypes.int8).dtype) == ("PYTHON", dtypes.int8)
    assert x.to("CPU").cpu().device == "CPU"
    assert x.to(x.device) is x is x.to(x.dtype)
    assert (x.byte().dtype, x.char().dtype) == (dtypes.uint8, dtypes.int8)
    with pytest.raises(DeviceError, match='there is no device "flaot16"'):
        x.to("flaot16")
    with pytest.raises(ArgumentError, match="3 is no name of a device"):
        x.to(3)  # type: ignore[arg-type]


def test_view_of_a_dtype_is_a_bitcast() -> None:
    assert Tensor([1.0]).view(dtypes.int32).tolist() == Tensor([1.0]).view(np.int32).tolist() == [0x3F800000]
    assert Tensor([1.0]).view("int32").tolist() == [0x3F800000]


def test_dtypes_are_named_as_elsewhere() -> None:
    assert Tensor([1], dtype=float).dtype is dtypes.float32
    assert Tensor([1.5], dtype=int).tolist() == [1]
    assert Tensor.zeros(2, dtype=np.float16).dtype is dtypes.float16
    assert Tensor.ones(2, dtype=bool).dtype == "bool"
    assert Tensor([1.0]).dtype == "float32" == Tensor([1.0]).dtype
    assert Tensor([1.0]).dtype != "float16"


def test_writing_names_write() -> None:
    x = Tensor.zeros(2, 2).contiguous().realize()
    row = x[0]
    assert x.add_(1) is x is x.mul_(3)
    assert row.tolist() == [3, 3]
    row.copy_(Tensor([7], dtype=dtypes.int64))
    assert x.tolist() == [[7, 7], [3, 3]]
    assert row.fill_(2).zero_() is row
    assert x.tolist() == [[0, 0], [3, 3]]
    assert x.copy() is not x


def test_products_take_the_axes_that_pytorch_takes() -> None:
    x, b = Tensor(A), Tensor(BATCH)
    for name, left, right in (("mm", b, b), ("bmm", x, x), ("mv", x, x)):
        with pytest.raises(ShapeError, match=rf"{name}: shapes (.|\n)*matmul takes all"):
            getattr(left, name)(right)
    with pytest.raises(ShapeError, match=r"t: a tensor of shape \(2, 2, 3\) is no matrix(.|\n)*mT"):
        b.t()
    with pytest.raises(ShapeError, match=r"narrow: 3 positions from 1 on, of axis 1 of \(2, 3\)"):
        x.narrow(1, 1, 3)
    with pytest.raises(DTypeError, match="requires_grad=True of int32"):
        Tensor([1]).requires_grad_()


def test_random_numbers_of_a_size_that_comes_last_say_where_sizes_are() -> None:
    with pytest.raises(ArgumentError, match=r"randint: (.|\n)*Tensor\.randint\(3, low=0, high=10\)\."):
        Tensor.randint(0, 10, (3,))
    with pytest.raises(ArgumentError, match=r"normal: (.|\n)*Tensor\.normal\(2, 2, mean=0, std=1\)\."):
        Tensor.normal(0, 1, (2, 2))
    with pytest.raises(ArgumentError, match=r"uniform: (.|\n)*Tensor\.uniform\(4, low=-1, high=1\)\."):
        Tensor.uniform(-1, 1, [4])


RIGHT = """
import numpy as np
from whit import Tensor, dtypes, nn

x = Tensor([1.0], dtype=float).astype(np.float32).to(dtypes.half).to("cpu").cpu().type(int)
y: Tensor = x.sum(1, keepdims=True).mm(x).clamp(min=0).t().view(dtypes.int32)
z: Tensor = Tensor.cat([x, y], 1)
z = Tensor.concatenate((x, y), axis=1)
z = Tensor.stack([x, y], dim=1).permute(1, 0).add_(x, alpha=2)
same: bool = x.dtype == "float32"
count: int = x.dim()
layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.1))
print(layers, nn.optim.Adam(layers.parameters(), betas=(0.9, 0.99)), x.std(0, unbiased=False))
"""
WRONG = ("x.gpu()", "x.sum(keepdimz=True)", "nn.Conv9d", "nn.Linear(3, 4, device=3)", "x.mm(x, 3)")


@pytest.mark.slow
def test_programs_of_the_first_hour_have_types_and_wrong_names_do_not(tmp_path: pathlib.Path) -> None:
    api = pytest.importorskip("mypy.api")
    wrong = tmp_path / "wrong.py"
    wrong.write_text("\n".join(("from whit import Tensor, nn", "x = Tensor([1.0])", *WRONG)) + "\n")
    right = tmp_path / "right.py"
    right.write_text(RIGHT)
    options = ["--strict", "--no-error-summary"]
    printed, _, _ = api.run([*options, str(right), str(wrong)])
    found = re.findall(r"(right|wrong)\.py:(\d+): error", printed)
    assert found == [("wrong", str(3 + place)) for place in range(len(WRONG))], printed
