"""What a gradient cannot be asked for says so; what was written over is still what it was."""

from typing import Any

import numpy as np
import pytest

from whit import Tensor, TinyJit
from whit.errors import ArgumentError, DeviceError, DTypeError, ShapeError


def values(*numbers: float) -> Tensor:
    return Tensor(list(numbers), device="PYTHON")


x = values(1.0, 2.0)

WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "no float": (lambda: Tensor([1, 2]).sum().backward(), DTypeError, "backward: only floats have gradients"),
    "a target that is no float": (
        lambda: x.sum().gradient(Tensor([1, 2])),
        DTypeError,
        "gradient: a target is int32, and only floats have gradients",
    ),
    "a target that is no tensor": (lambda: x.sum().gradient(2.0), ArgumentError, "gradient: 2.0 is no tensor"),
    "no number": (lambda: (x * 2).gradient(x), ShapeError, r"a tensor of shape \(2,\) has no gradient, a number has"),
    "another shape": (
        lambda: (x * 2).gradient(x, gradient=values(1.0, 1.0, 1.0)),
        ShapeError,
        r"gradient= has shape \(3,\), the tensor \(2,\)",
    ),
    "a gradient that is no float": (
        lambda: (x * 2).backward(gradient=Tensor([1, 1], device="PYTHON")),
        DTypeError,
        "backward: gradient= is int32, the tensor float32",
    ),
    "another device": (
        lambda: (x * 2).gradient(x, gradient=Tensor([1.0, 1.0], device="CPU")),
        DeviceError,
        "CPU and PYTHON|PYTHON and CPU",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_questions(name: str) -> None:
    call, kind, message = WRONG[name]
    with pytest.raises(kind, match=message) as error:
        call()
    lines = str(error.value).splitlines()
    assert len(lines) >= 2 and lines[-1].rstrip().endswith((".", ")"))  # what, with what or where, what to do


def test_what_was_not_used_gets_zeros_and_no_grad() -> None:
    a, b, c = values(1.0), values(2.0), values(3.0)
    loss = (a * b.detach() + (c > 0).where(1.0, 2.0)).sum()
    assert [d.item() for d in loss.gradient(a, b, c)] == [2.0, 0.0, 0.0]
    loss.backward()
    assert (a.grad.item(), b.grad, c.grad) == (2.0, None, None)


def test_a_gradient_of_another_float_dtype_is_rounded() -> None:
    assert (x * 2).gradient(x, gradient=Tensor([1.0, 0.5], dtype="double", device="PYTHON"))[0].tolist() == [2.0, 1.0]


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_a_value_that_is_written_over_later_is_the_old_one_to_the_gradient(device: str) -> None:
    """Effects are values: what a gradient needs is what it was when it was used."""
    a, w = Tensor([1.0, 2.0], device=device), Tensor([3.0, 4.0], device=device).realize()
    y = (a * w).sum()
    w += 10
    w.realize()
    assert y.gradient(a)[0].tolist() == [3.0, 4.0]
    z = a * w
    w[0] = 7.0
    assert z.sum().gradient(a)[0].tolist() == [13.0, 14.0]
    assert (a * w).sum().gradient(a)[0].tolist() == [7.0, 14.0]


def test_gradients_go_through_writes_in_place() -> None:
    a, b = values(1.0, 2.0, 3.0), values(5.0)
    y = a * 1
    y[1:2] = b * 2
    y *= y
    da, db = y.sum().gradient(a, b)
    assert (da.tolist(), db.tolist()) == ([2.0, 0.0, 6.0], [40.0])


@pytest.mark.parametrize("write", ["+=", "[0] ="])
def test_a_target_that_was_written_to_after_it_was_used_is_an_error(write: str) -> None:
    a = values(1.0, 2.0)
    loss = (a * a).sum()
    if write == "+=":
        a += 1
    else:
        a[0] = 5.0
    with pytest.raises(ArgumentError, match="gradient: a target was written to after the tensor was computed from it"):
        loss.gradient(a)
    assert (a * a).sum().gradient(a)[0].tolist() == ([4.0, 6.0] if write == "+=" else [10.0, 4.0])


@pytest.mark.parametrize("write", ["assign", "[0] =", "view", "twice", "jit"])
def test_a_target_that_was_written_to_and_realised_since_is_an_error(write: str) -> None:
    a = Tensor([1.0, 2.0], device="PYTHON", requires_grad=True)
    part = a[1:]
    loss = (a * a).sum() + part.sum()
    if write == "assign":
        a.assign(a + 1).realize()
    elif write == "[0] =":
        a[0] = 5.0
        a.realize()
    elif write == "view":
        part += 1
        part.realize()
    elif write == "twice":
        for _ in range(2):
            a.assign(a + 1).realize()
    else:
        TinyJit(lambda: a.assign(a + 1))()
    message = "a target was written to after the tensor was computed from it"
    for target in (a, part):
        with pytest.raises(ArgumentError, match=f"gradient: {message}"):
            loss.gradient(target)
    with pytest.raises(ArgumentError, match=f"backward: {message}"):
        loss.backward()
    assert a.grad is None
    assert (a * 3).sum().gradient(a)[0].tolist() == [3.0, 3.0]


def test_a_target_that_was_realised_after_it_was_used_has_its_gradient() -> None:
    a = values(1.0, 2.0)
    doubled, written, drawn = a * 2, a * 1, Tensor.randn(2, device="PYTHON", requires_grad=True)
    written += 1
    alone = values(3.0, 4.0)[:1]
    loss = (doubled * doubled).sum() + (written * written).sum() + (drawn * 5).sum() + (alone * alone).sum()
    Tensor.realize(doubled, written, drawn, alone)
    found = loss.gradient(doubled, written, drawn, alone, a)
    assert [gradient.tolist() for gradient in found] == [[4.0, 8.0], [4.0, 6.0], [5.0, 5.0], [6.0], [12.0, 22.0]]
    loss.backward()
    assert drawn.grad.tolist() == [5.0, 5.0]


def test_a_realised_tensor_says_that_its_graph_is_gone() -> None:
    a = values(1.0, 2.0)
    loss = (a * a).sum()
    assert loss.item() == 5.0 and loss.gradient(a)[0].tolist() == [2.0, 4.0]  # reading a value is no realising
    loss.realize()
    message = "the tensor was realised, and what it was computed from is not known any more"
    with pytest.raises(ArgumentError, match=f"gradient: {message}"):
        loss.gradient(a)
    with pytest.raises(ArgumentError, match=f"backward: {message}"):
        loss.backward()
    assert loss.gradient(loss)[0].item() == 1.0
    one = values(1.0)
    assert one.backward().grad.tolist() == [1.0]
    assert Tensor.ones(1, device="PYTHON").realize().backward().grad.tolist() == [1.0]


def test_backward_to_a_parameter_that_was_written_to_since_is_an_error() -> None:
    w = Tensor([1.0, 2.0], device="PYTHON", requires_grad=True)
    loss = (w * w).sum()
    w += 1
    with pytest.raises(ArgumentError, match="backward: a target was written to"):
        loss.backward()
    np.testing.assert_array_equal((w * 2).sum().gradient(w)[0].numpy(), [2.0, 2.0])
