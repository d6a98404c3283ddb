"""Methods that write into their tensor: views see it, what was lazy before does not, dtypes and shapes stay."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from whit import Tensor
from whit.dtype import dtypes
from whit.errors import DTypeError, ShapeError
from whit.tensor.methods.data.in_place import InPlace


def test_views_see_what_is_written() -> None:
    x = Tensor([-1.0, 2.0, -3.0, 4.0])
    tail, before = x[2:], x + 0
    assert x.relu_() is x
    assert tail.tolist() == [0.0, 4.0]
    assert before.tolist() == [-1.0, 2.0, -3.0, 4.0]
    tail.neg_()
    assert x.tolist() == [0.0, 2.0, 0.0, -4.0]
    x[:2].exp_()
    np.testing.assert_allclose(x.numpy(), [1.0, np.exp(2.0), 0.0, -4.0], rtol=1e-6)


def test_names_of_views_change_the_shape_and_share_the_elements() -> None:
    x = Tensor(np.arange(6.0).reshape(2, 3))
    y = x[0]
    assert x.t_() is x and x.shape == (3, 2)
    x[0, 0] = 9
    assert y.tolist() == [9.0, 1.0, 2.0]
    x.unsqueeze_(0)
    assert x.shape == (1, 3, 2)
    x.squeeze_(0)
    x.transpose_(0, 1)
    assert x.shape == (2, 3)
    y.zero_()
    assert x[0].tolist() == [0.0, 0.0, 0.0]


def test_dtypes_and_shapes_stay() -> None:
    x = Tensor([1, 2, 3])
    with pytest.raises(DTypeError, match=r"sqrt_: the result is float32(.|\n)*x = x.sqrt\(...\)"):
        x.sqrt_()
    with pytest.raises(ShapeError, match="add_: the result has shape"):
        x.add_(Tensor([[1], [2]]))
    y = Tensor([1.0, 2.0], dtype=dtypes.float16)
    assert y.add_(Tensor([1.0, 1.0])).dtype is dtypes.float16
    assert y.gt_(2.5).tolist() == [0.0, 1.0]


def test_gradients_go_through_what_is_written() -> None:
    x = Tensor([1.0, 2.0])
    y = (x * 3).sigmoid_()
    np.testing.assert_allclose(y.sum().gradient(x)[0].numpy(), 3 * y.numpy() * (1 - y.numpy()), rtol=1e-3)


def test_every_method_that_writes_names_one_that_is_there() -> None:
    found = 0
    for name, method in vars(InPlace).items():
        same_as = getattr(method, "same_as", None)
        if same_as is None:
            continue
        found += 1
        assert name.endswith("_") and hasattr(Tensor, same_as)
        assert inspect.signature(getattr(Tensor, name)) == inspect.signature(getattr(Tensor, same_as))
    assert found > 130


@pytest.mark.slow
def test_arrays_that_are_written_to_as_in_numpy() -> None:
    array, x = np.arange(6), Tensor(np.arange(6))
    for call in (
        lambda a: a.put([1, 4], [10, 20]),
        lambda a: a.put([0, 1, 2], [7]),
        lambda a: a.fill(3),
    ):
        assert call(array) is None and call(x) is None
        assert x.tolist() == array.tolist()
    array, x = np.arange(6), Tensor(np.arange(6))
    np.putmask(array, array > 2, [10, 20])
    x.putmask(x > 2, [10, 20])
    assert x.tolist() == array.tolist()
    np.place(array, array > 5, [1, 2])
    x.place(x > 5, [1, 2])
    assert x.tolist() == array.tolist()
    matrix, y = np.zeros((3, 4)), Tensor(np.zeros((3, 4)))
    np.fill_diagonal(matrix, 5)
    y.fill_diagonal(5)
    assert y.tolist() == matrix.tolist()
    tall, z = np.zeros((5, 2)), Tensor(np.zeros((5, 2)))
    np.fill_diagonal(tall, 5, wrap=True)
    z.fill_diagonal(5, wrap=True)
    assert z.tolist() == tall.tolist()


def test_bytes(tmp_path: Any) -> None:
    for dtype in (np.float32, np.int16, np.bool_, np.float16):
        array = np.arange(6).reshape(2, 3).astype(dtype)
        assert Tensor(array).T.tobytes() == array.T.tobytes()
    Tensor(array).tofile(tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == array.tobytes()


@pytest.mark.slow
def test_random_numbers_are_written() -> None:
    Tensor.manual_seed(1)
    x = Tensor(np.zeros((200, 50), np.float64))
    view = x[0]
    assert x.uniform_(2, 3) is x
    assert float(x.min().item()) >= 2 and float(x.max().item()) < 3 and float(view.min().item()) >= 2
    assert abs(float(x.normal_(1, 2).mean().item()) - 1) < 0.1 and abs(float(x.std().item()) - 2) < 0.1
    assert abs(float(x.exponential_(4).mean().item()) - 0.25) < 0.02
    assert abs(float(x.geometric_(0.25).mean().item()) - 4) < 0.2 and float(x.min().item()) == 1
    assert abs(float(x.bernoulli_(0.3).mean().item()) - 0.3) < 0.03
    assert abs(float(x.log_normal_(0, 0.5).log().mean().item())) < 0.02
    assert abs(float(x.cauchy_(3, 1).median().item()) - 3) < 0.1
    n = Tensor(np.zeros(1000, np.int32))
    assert set(n.random_(2, 5).tolist()) == {2, 3, 4}
    assert set(n.randint_like(4, 6).tolist()) == {4, 5}
    with pytest.raises(DTypeError, match="normal_: the tensor is int32"):
        n.normal_()
