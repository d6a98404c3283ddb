"""Programs with bound variables in shapes, slices and indices give what they give with plain numbers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from whit import Tensor, Variable, dtypes, nn
from whit.errors import ArgumentError, OutOfRangeError, ShapeError

pytestmark = pytest.mark.slow  # compiles much

RNG = np.random.default_rng(0)
X = RNG.standard_normal((8, 8)).astype(np.float32)
CUBE = RNG.standard_normal((2, 8, 6)).astype(np.float32)
WEIGHT = RNG.standard_normal((8, 5)).astype(np.float32)
IMAGES = RNG.standard_normal((6, 2, 5, 5)).astype(np.float32)
KERNELS = RNG.standard_normal((3, 2, 3, 3)).astype(np.float32)
PLACES = np.array([3, 1, 0, 2, 5, 7, 6, 4], np.int32)
DEVICE = "PYTHON"

Program = Callable[[Any], Tensor]


def t(array: Any) -> Tensor:
    return Tensor(array, device=DEVICE)


def changed(write: Callable[[Tensor, Any], None]) -> Program:
    """The program that writes into a tensor and returns it."""

    def program(n: Any) -> Tensor:
        x = t(X).clone()
        write(x, n)
        return x

    return program


def gradient(loss: Callable[[Tensor, Any], Tensor]) -> Program:
    """The program that returns a gradient."""

    def program(n: Any) -> Tensor:
        x = Tensor(X, device=DEVICE, requires_grad=True)
        loss(x, n).backward()
        return x.grad

    return program


def put_row(x: Tensor, n: Any) -> None:
    x[n - 1] = 5.0


def put_column(x: Tensor, n: Any) -> None:
    x[:, n - 1 : n] = t(WEIGHT[:, :1])


def put_rows(x: Tensor, n: Any) -> None:
    x[:n] = x[8 - n :] * 2


def put_view(x: Tensor, n: Any) -> None:
    x[:n].reshape(n * 8)[: n * 4] += 1


def assign_column(x: Tensor, n: Any) -> None:
    x.realize()[:, n - 1 : n].assign(t(WEIGHT[:, :1]))


def drawn(n: Any) -> Tensor:
    Tensor.manual_seed(1)
    return Tensor.cat(Tensor.rand(n, 3, device=DEVICE), Tensor.randn(2, 3, device=DEVICE))


PROGRAMS: dict[str, Program] = {
    # slices: by Python's rules, also from the end and with steps; numbers also past the end
    "slice": lambda n: t(X)[:, :n],
    "from": lambda n: t(X)[n:],
    "from the end": lambda n: t(X)[-n:],
    "up to the end": lambda n: t(X)[:-n],
    "past the end": lambda n: t(X)[:n][2:9],
    "up to twice": lambda n: t(X)[: n + 2][1 : n + 1],
    "steps": lambda n: t(X)[:n:2],
    "backwards": lambda n: t(X)[:n][::-2],
    "window": lambda n: t(X)[n - 1 : n + 1],
    "number on a symbolic axis": lambda n: t(X)[:n][:4],
    "last of a symbolic axis": lambda n: t(X)[:n][-1],
    "index": lambda n: t(X)[n - 1, :n],
    "index from the end": lambda n: t(X)[-n],
    "shrink": lambda n: t(X).shrink(((0, n), (n - 1, n + 1))),
    # creation
    "arange": lambda n: Tensor.arange(n, device=DEVICE) * 2 + 1,
    "arange from": lambda n: Tensor.arange(n, n + 4, device=DEVICE),
    "arange by": lambda n: Tensor.arange(2 * n, 0, -3, device=DEVICE),
    "arange by a variable": lambda n: Tensor.arange(n, 20, n, device=DEVICE),
    "arange back by a variable": lambda n: Tensor.arange(20, n, -n, device=DEVICE) * 2,
    "full of a variable": lambda n: Tensor.full((2, n), n + 1, device=DEVICE),
    "zeros": lambda n: Tensor.zeros(n, 4, device=DEVICE),
    "full": lambda n: Tensor.full((4, n), 2.5, device=DEVICE).sum(1),
    "eye": lambda n: Tensor.eye(n, device=DEVICE),
    "random": drawn,
    # movement
    "pad": lambda n: t(X).pad(((n, 0), (0, 1))),
    "pad to a known size": lambda n: t(X)[:n].pad(((0, 8 - n), (0, 0)), value=3.0),
    "pad less than nothing": lambda n: t(X).pad(((1 - n, 0), (0, 0))),
    "cat": lambda n: Tensor.cat(t(X)[:n], t(X)),
    "cat three": lambda n: Tensor.cat(t(X)[:, :n], t(X)[:, :2], t(X)[:, :n], dim=1),
    "stack": lambda n: Tensor.stack(t(X)[:n], t(X)[8 - n :], dim=1),
    "merge": lambda n: t(CUBE)[:, :n].reshape(2 * n, 6),
    "split": lambda n: t(CUBE)[:, :n].reshape(2, n, 3, 2).transpose(1, 2),
    "split by sizes": lambda n: t(X).split([n, 8 - n])[1],
    "split into known many": lambda n: Tensor.cat(*t(X)[: n + 2].split(8)[::-1]),
    "split by a variable": lambda n: Tensor.cat(*t(CUBE).reshape(96)[: 3 * n].split(n)[::-1]),
    "chunk": lambda n: Tensor.cat(*t(CUBE).reshape(96)[: 6 * n].chunk(3)[::-1]),
    "chunk with a rest": lambda n: Tensor.cat(*t(X)[: n + 2].chunk(2)[::-1]),
    "rearrange": lambda n: t(CUBE)[:, :n].rearrange("a b (c d) -> (b c) a d", c=2),
    "work out": lambda n: t(CUBE)[:, :n].reshape(2, -1, 3),
    "flatten": lambda n: t(CUBE)[:, :n].flatten(),
    "unflatten": lambda n: t(CUBE)[:, :n].unflatten(2, (-1, 2)),
    "expand": lambda n: t(X)[:1].expand(n, -1),
    "repeat": lambda n: t(X)[:n].repeat(2, n),
    "roll": lambda n: t(X)[:n].roll(1, 0) + t(X).roll(n, 1)[:n],
    # reductions
    "sum": lambda n: t(X)[:, :n].sum(1),
    "mean and variance": lambda n: t(X)[:, : n + 1].var(1) + t(X)[:n].mean(),
    "max": lambda n: t(X)[:, :n].max(1),
    "argmax": lambda n: t(X)[:, :n].argmax(1),
    "softmax": lambda n: t(X)[:, :n].softmax(),
    "softmax of rows": lambda n: t(X)[:n].log_softmax(),
    "layernorm": lambda n: t(X)[:, :n].layernorm(),
    "cumsum": lambda n: t(X)[:, :n].cumsum(1) + t(X)[:, :n].cumsum(0),
    "sort": lambda n: t(X)[:, :n].sort(1)[0] + t(X)[:, :n].argsort(1),
    "largest": lambda n: t(X)[:, : n + 1].topk(2, 1)[0],
    "sort of rows": lambda n: t(X)[:n].sort(1)[0],
    # products
    "matmul m": lambda n: t(X)[:n] @ t(WEIGHT),
    "matmul n": lambda n: t(X) @ t(X)[:, :n],
    "matmul k": lambda n: t(X)[:, :n] @ t(X)[:n],
    "matmul all": lambda n: t(X)[:n] @ t(X)[:n].T,
    "einsum of three": lambda n: Tensor.einsum("ij,kj,lk->il", t(X)[:n], t(X)[:n], t(X)[:, :n]),
    "einsum": lambda n: Tensor.einsum("ij,jk->ki", t(X)[:, :n], t(X)[:n]),
    "attention": lambda n: t(CUBE)[:, :1].scaled_dot_product_attention(t(CUBE)[:, :n], t(CUBE)[:, :n]),
    "causal attention": lambda n: t(CUBE)[:, :n].scaled_dot_product_attention(
        t(CUBE)[:, :n], t(CUBE)[:, :n], is_causal=True
    ),
    "layers": lambda n: (t(X)[:n] @ t(WEIGHT)).relu() @ t(WEIGHT.T) + t(X[0]),
    "conv of a batch": lambda n: t(IMAGES)[:n].conv2d(t(KERNELS), padding=1),
    "conv of an axis": lambda n: t(IMAGES).pad((0, 0, 0, n)).conv2d(t(KERNELS), stride=2),
    "pool": lambda n: t(IMAGES)[:n].max_pool2d(),
    # positions and masks
    "embedding": lambda n: t(X)[Tensor.arange(n, device=DEVICE)],
    "take": lambda n: t(X)[t(PLACES)[:n]],
    "gather": lambda n: t(X)[:n].gather(1, t(PLACES)[:n].reshape(n, 1)),
    "one hot": lambda n: t(PLACES)[:n].one_hot(8),
    "triangle": lambda n: Tensor.ones(n, n, device=DEVICE).tril(),
    "lower triangle": lambda n: t(X).tril(n - 3) + t(X)[:n].triu(-n)[0],
    "mask of later positions": lambda n: Tensor.full((2, n + 2), -np.inf, device=DEVICE).triu(n + 1),
    "mask": lambda n: (Tensor.arange(8, device=DEVICE) < n).where(t(X), -1),
    "a number": lambda n: n * t(X) + n - t(X) / n,
    "cross entropy": lambda n: t(X)[:n].sparse_categorical_crossentropy(t(PLACES)[:n]),
    # memory
    "realised": lambda n: (t(X)[:, :n] * 2).realize()[1:3].sum(0),
    "put a row": changed(put_row),
    "put a column": changed(put_column),
    "put rows": changed(put_rows),
    "put through a view": changed(put_view),
    "assign a column": changed(assign_column),
    "gradient": gradient(lambda x, n: (x[:n] ** 2).sum()),
    "gradient of a mean": gradient(lambda x, n: (x[:, :n] @ t(WEIGHT)[:n]).relu().mean()),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_bound_variable_is_as_good_as_its_value(name: str) -> None:
    variable = Variable("n", 1, 6)
    for value in (1, 3, 6):
        wanted, found = PROGRAMS[name](value).numpy(), PROGRAMS[name](variable.bind(value)).numpy()
        assert found.shape == wanted.shape
        assert np.allclose(found, wanted, rtol=1e-5, atol=1e-5, equal_nan=True)


EMPTY = ("slice", "from the end", "arange", "zeros", "pad", "sum", "cumsum", "matmul k", "matmul m", "mask", "flatten")


@pytest.mark.parametrize("name", [name for name in EMPTY if name != "from the end"])
def test_a_size_may_be_zero(name: str) -> None:
    variable = Variable("n", 0, 4)
    for value in (0, 4, 1):
        wanted, found = PROGRAMS[name](value).numpy(), PROGRAMS[name](variable.bind(value)).numpy()
        assert found.shape == wanted.shape
        assert np.allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_a_variable_of_zero_or_one_writes_nothing_or_one_row() -> None:
    flag = Variable("flag", 0, 1)
    for device in ("PYTHON", "CPU"):
        for value in (0, 1):
            x = Tensor(X, device=device).clone()
            x[: flag.bind(value)] = 0.0
            wanted = X.copy()
            wanted[:value] = 0
            assert (x.numpy() == wanted).all()


def test_layers_take_symbolic_batches() -> None:
    layers = (nn.LayerNorm(8), nn.RMSNorm(8), nn.Linear(8, 3))
    n = Variable("n", 1, 6).bind(4)
    for layer in layers:
        assert np.allclose(layer(Tensor(X)[:n]).numpy(), layer(Tensor(X)[:4]).numpy(), rtol=1e-5, atol=1e-6)


# ---- numbers past int32


@pytest.mark.parametrize("device", ["PYTHON", pytest.param("CPU", marks=pytest.mark.cpu)])
def test_variables_may_be_past_int32(device: str) -> None:
    """They are int64 where they may need it, whatever they are now."""
    large, small = Variable("large", 0, 2**40), Variable("small", -(2**31), 2**31 - 2).bind(-5)
    x = Tensor([1, 2, 3], device=device)
    for value in (7, 2**35 + 1):
        n = large.bind(value)
        wanted = np.array([1, 2, 3]) * np.int64(value)
        assert (x * n).dtype is dtypes.int64
        assert ((x * n).numpy() == wanted).all()
        assert (Tensor([1.0, 2.0, 3.0], device=device) * n).numpy().tolist() == wanted.astype(np.float32).tolist()
        assert Tensor(n, device=device).item() == value
        assert Tensor.full((2,), n, device=device).tolist() == [value] * 2
        assert Tensor.arange(n, n + 3, device=device).tolist() == [value, value + 1, value + 2]
        assert (x < n).all().item()
        assert x[n - (value - 1)].item() == 2
        assert x[n - (value - 1) : n - (value - 3)].tolist() == [2, 3]
        assert (x > 1).where(n, 0).tolist() == [0, value, value]
    assert (x * small).dtype is dtypes.int32
    assert Tensor.arange(small, small + 2, device=device).dtype is dtypes.int32


# ---- shapes, and what is seen of them


def test_shapes_show_expressions_and_values() -> None:
    n = Variable("n", 1, 6).bind(4)
    x = t(X)[:n]
    assert x.shape[0] is n
    assert repr(x.pad(((1, 0), (0, 0))) * 2) == "<Tensor (n=4 + 1, 8) float32 on PYTHON, lazy: mul>"
    assert repr(x.flatten().shape) == "(<UOp (n=4)*8>,)"
    assert x.numel() is x.flatten().shape[0]
    assert x.numpy().shape == (4, 8)
    assert x.sum(0).shape == (8,)
    assert np.array(x.tolist()).shape == (4, 8)
    assert Tensor(X)[:n].data().shape == (4, 8)
    assert x[: Variable("k", 1, 3).bind(1), 0].item() == X[0, 0]


def test_equal_sizes_are_the_same_size() -> None:
    n = Variable("n", 1, 6).bind(4)
    x = t(X)
    assert (x[:n].pad(((0, 8 - n), (0, 0))) + x).shape == (8, 8)
    assert Tensor.cat(x[:n], x[n:]).shape == (8, 8)
    assert x[n : n + 1].shape == (1, 8)
    assert (x[: n + 1][1:] + x[:n]).shape[0] is n


def test_sizes_compare_with_numbers_where_all_values_agree() -> None:
    n = Variable("n", 2, 6)
    assert n > 1
    assert n + 2 <= 8
    assert not n >= 7
    assert max(n, 1) is n
    with pytest.raises(ArgumentError, match="bool: n < 3 depends on the value of a variable"):
        bool(n < 3)
    assert n.bind(3).unbind() == (n, 3)


# ---- mistakes


def test_a_value_outside_of_the_bounds_is_refused() -> None:
    n = Variable("n", 1, 6)
    with pytest.raises(OutOfRangeError, match=r"bind: n = 7 is outside \[1, 6\]\n  called at test_symbolic.py:\d+\n"):
        n.bind(7)


def test_a_variable_without_a_value_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"realize: no value for n\n  in numpy, called at test_symbolic.py"):
        t(X)[: Variable("n", 1, 6)].sum(0).numpy()


def test_two_variables_of_one_name_are_refused() -> None:
    both = t(X)[: Variable("n", 1, 6).bind(3)].sum(0) + t(X)[: Variable("n", 1, 8).bind(3)].sum(0)
    with pytest.raises(ArgumentError, match=r'two variables are called n: variable "n", 1..6 and variable "n", 1..8'):
        both.numpy()


def test_one_value_after_the_other_is_fine_once_the_first_is_realised() -> None:
    n = Variable("n", 1, 6)
    first = t(X)[: n.bind(3)].sum(0).realize()
    assert np.allclose((first + t(X)[: n.bind(4)].sum(0)).numpy(), X[:3].sum(0) + X[:4].sum(0), rtol=1e-5)


def test_what_has_no_one_meaning_is_refused() -> None:
    n = Variable("n", 1, 6).bind(3)
    with pytest.raises(OutOfRangeError, match="may count from the start or from the end"):
        t(X)[n - 4 :]
    with pytest.raises(ShapeError, match=r"\(n=3, 8\) has \(n=3\)\*8 elements, which \(-1, 3\) cannot hold"):
        t(X)[:n].reshape(-1, 3)
    with pytest.raises(ShapeError, match=r"how many pieces axis 0 of \(n=3, 8\) has depends on a variable"):
        t(X)[:n].split(2)
    with pytest.raises(ShapeError, match=r"chunk: how many pieces axis 0 of \(n=3, 8\) has depends on a variable"):
        t(X)[:n].chunk(2)
    with pytest.raises(ArgumentError, match=r"arange: the step n=3 - 1 may be 0\n  it lies between 0 and 5"):
        Tensor.arange(0, 9, n - 1)
    with pytest.raises(ShapeError, match="max: no elements along axes"):
        t(X)[: Variable("k", 0, 3).bind(0)].max(0)
    with pytest.raises(ArgumentError, match="rand: the size n has no value"):
        Tensor.rand(Variable("n", 1, 6))


def test_a_variable_without_a_value_must_fit_for_all_of_them() -> None:
    wide = Variable("wide", 0, 8)
    with pytest.raises(OutOfRangeError, match=r"wide may be outside axis 0 of \(8, 8\)\n.*\n  It lies between 0 and 8"):
        t(X)[wide]
    with pytest.raises(ShapeError, match=r"shrink: \(0, wide \+ 1\) is not inside axis 0 of \(8, 8\)"):
        t(X).shrink(((0, wide + 1), None))
    assert t(X)[: wide + 1].shape[0].expression() == "min(wide + 1, 8)"


@pytest.mark.cpu
@pytest.mark.parametrize("device", ["CPU", "CPU:C"])
@pytest.mark.parametrize("name", ["start", "stop", "buffers", "p0", "var.at.3", "a b", "a\\", "a\nb", 'q"q', "%x"])
def test_a_variable_may_have_any_name(name: str, device: str) -> None:
    variable, x = Variable(name, 0, 100), Tensor.arange(200, device=device).realize()
    assert x[variable.bind(3) : variable.bind(3) + 4].sum().item() == 18
    assert (x * variable.bind(7)).sum().item() == 7 * 199 * 100


def test_a_softmax_written_by_hand_along_a_symbolic_axis() -> None:
    """The expanded axis has a size that is a source of the EXPAND, too."""
    n = Variable("n", 1, 8)
    x = t(X)[:, : n.bind(5)]
    e = (x - x.max(-1, keepdim=True)).exp()
    np.testing.assert_allclose((e / e.sum(-1, keepdim=True)).numpy(), x.softmax(-1).numpy(), rtol=1e-6)


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation"), [(3, 1, 1, 1), (3, 2, 1, 1), (2, 1, 0, 2), (5, 2, 2, 1)]
)
def test_convolutions_over_images_of_symbolic_height_and_width(
    kernel: int, stride: int, padding: int, dilation: int
) -> None:
    rng = np.random.default_rng(0)
    height, width = Variable("height", 1, 4), Variable("width", 1, 3)
    whole = Tensor(rng.standard_normal((2, 3, 32, 24)).astype(np.float32)).realize()
    weight = Tensor(rng.standard_normal((4, 3, kernel, kernel)).astype(np.float32)).realize()
    options: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation}
    for h, w in ((1, 1), (2, 3), (4, 2)):
        image = whole[:, :, : height.bind(h) * 8, : width.bind(w) * 8]
        found = image.conv2d(weight, **options).relu().numpy()
        expected = whole[:, :, : h * 8, : w * 8].conv2d(weight, **options).relu().numpy()
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, 1e-4, 1e-4)
