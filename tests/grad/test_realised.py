"""Realising a tensor never changes a gradient: it is what it would have been, or an error that says what to do."""

import gc
from collections.abc import Callable

import pytest

from whit import Tensor, TinyJit, nn
from whit.errors import ArgumentError, JitError
from whit.ir import ops

CUT = "the gradient ends at a tensor that was realised"


def values(*numbers: float, requires_grad: bool | None = None) -> Tensor:
    return Tensor(list(numbers), requires_grad=requires_grad)


def square(t: Tensor) -> Tensor:
    return t**2


KEEPS: dict[str, Callable[[Tensor], object]] = {  # what computes a tensor and leaves its graph as it is
    "nothing": lambda m: None,
    "numpy": lambda m: m.numpy(),
    "tolist": lambda m: m.tolist(),
    "item": lambda m: m.sum().item(),
    "data": lambda m: bytes(m.data()),
    "repr": repr,
    "format": lambda m: f"{m.sum():.2f}",
    "bool": lambda m: bool(m.sum() > 0),
    "a later tensor": lambda m: (m * 2).realize(),
    "a contiguous copy": lambda m: m.contiguous().realize(),
    "a clone": lambda m: m.clone().realize(),
    "a view": lambda m: m[:1].realize(),
    "its detached self": lambda m: m.detach().realize(),
    "collected garbage": lambda m: [(m + 1).realize(), gc.collect()],
}


@pytest.mark.parametrize("how", KEEPS)
def test_reading_leaves_the_graph(how: str) -> None:
    t = values(1.0, 2.0)
    m = square(t)
    KEEPS[how](m)
    assert (m * t).sum().gradient(t)[0].tolist() == [3.0, 12.0]
    (m * t).sum().backward()
    assert t.grad.tolist() == [3.0, 12.0]


CUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "realize": lambda m: m.realize(),
    "realize of several": lambda m: [m.realize(m + 1, m * 2), m][1],
    "as one of several": lambda m: [(m + 1).realize(m), m][1],
    "twice": lambda m: (m.realize() * 1).realize(),
    "a contiguous copy": lambda m: m.contiguous().realize(),
    "a clone": lambda m: m.clone().realize(),
    "a view of nothing else": lambda m: (m * 1).reshape(1, 2).realize().reshape(2),
    "a view of it": lambda m: m.realize()[0:],
    "cast": lambda m: m.realize().cast("float64").cast("float32"),
    "a long chain": lambda m: [m := (m * 1).realize() for _ in range(5)][-1],
}


@pytest.mark.parametrize("how", CUTS)
def test_a_realised_tensor_in_between_is_an_error(how: str) -> None:
    t = values(1.0, 2.0)
    m = CUTS[how](square(t))
    for loss in ((m * t).sum(), m.sum()):
        with pytest.raises(ArgumentError, match=f"gradient: {CUT}"):
            loss.gradient(t)
    with pytest.raises(ArgumentError, match=f"backward: {CUT}"):
        (m * t).sum().backward()
    assert t.grad is None
    assert (m.detach() * t).sum().gradient(t)[0].tolist() == [1.0, 4.0]


@pytest.mark.parametrize("how", CUTS)
def test_a_parameter_behind_a_realised_tensor_is_an_error(how: str) -> None:
    t, other = values(1.0, 2.0, requires_grad=True), values(1.0, 1.0, requires_grad=True)
    m = CUTS[how](square(t))
    with pytest.raises(ArgumentError, match=f"backward: {CUT}"):
        (m * other).sum().backward()
    (m.detach() * other).sum().backward()
    assert other.grad.tolist() == [1.0, 4.0] and t.grad is None


def test_a_result_of_an_operation_as_the_target() -> None:
    x = values(1.0, 2.0)
    h, other = x * 2, x * 3
    m = square(h).realize()
    with pytest.raises(ArgumentError, match=CUT):
        (m * h).sum().gradient(h)
    with pytest.raises(ArgumentError, match=CUT):
        (m * h).sum().gradient(x)
    assert (m * other).sum().gradient(other)[0].tolist() == [4.0, 16.0]


def test_what_a_realised_tensor_was_not_made_of() -> None:
    t, w = values(1.0, 2.0), values(3.0, 4.0, requires_grad=True)
    m = ((t.detach() + 1) * (t > 0).where(1.0, 2.0)).realize()
    assert (m * t).sum().gradient(t)[0].tolist() == [2.0, 3.0]
    data = (t / 2).realize()
    assert (data * w).sum().gradient(w)[0].tolist() == [0.5, 1.0]
    (data * w).sum().backward()
    assert w.grad.tolist() == [0.5, 1.0] and t.grad is None
    base = values(1.0, 2.0, 3.0, 4.0)
    low, high = base[:2], base[2:]
    m = (low * 2).realize()
    assert (m * high).sum().gradient(high)[0].tolist() == [2.0, 4.0]
    with pytest.raises(ArgumentError, match=CUT):
        (m * low).sum().gradient(low)
    with pytest.raises(ArgumentError, match=CUT):
        (m * low).sum().gradient(base)


def test_what_was_written_to_and_realised() -> None:
    t = values(1.0, 2.0)
    w = values(1.0, 1.0)
    w += t
    w.realize()
    with pytest.raises(ArgumentError, match=CUT):
        (w * t).sum().gradient(t)
    w.assign(values(5.0, 6.0)).realize()  # all of it: nothing of t is left
    assert (w * t).sum().gradient(t)[0].tolist() == [5.0, 6.0]
    w[0] = t.detach()[0]
    w.realize()
    assert (w * t).sum().gradient(t)[0].tolist() == [1.0, 6.0]


def test_what_takes_over_the_memory_of_another() -> None:
    w, data = values(1.0, 1.0), values(3.0, 4.0)
    w.assign(data).realize()
    for target in (w, data):
        assert (w * w).sum().gradient(target)[0].tolist() == [6.0, 8.0]


def test_a_realised_gradient_is_not_differentiated_again() -> None:
    t = values(1.0, 2.0)
    (g,) = (t**3).sum().gradient(t)
    assert (g * g).sum().gradient(t)[0].tolist() == [36.0, 288.0]
    g.realize()
    with pytest.raises(ArgumentError, match=CUT):
        (g * g).sum().gradient(t)


def test_a_realised_tensor_that_asks_is_a_leaf() -> None:
    base = values(1.0, 2.0, requires_grad=True)
    w = (base * 2).realize()
    w.requires_grad = True
    (w * base).sum().backward()
    assert w.grad.tolist() == [1.0, 2.0] and base.grad.tolist() == [2.0, 4.0]


def test_training_steps_do_not_make_parameters_depend_on_data() -> None:
    """Adversarial training, alternating optimisers: what an optimiser writes has no gradient."""
    x = values(1.0, 2.0)
    a, b = values(1.0, 1.0), values(2.0, 2.0)
    one, two = nn.optim.SGD([a], lr=0.5), nn.optim.Adam([b], lr=0.5)
    for _ in range(2):
        for optimizer in (one, two):
            loss = (a * b * x).sum()
            loss.gradient(x)
            one.zero_grad()
            two.zero_grad()
            loss.backward()
            optimizer.step()


@pytest.mark.parametrize("requires_grad", (None, True))
def test_steps_that_are_written_by_hand(requires_grad: bool | None) -> None:
    x = values(1.0, 2.0)
    w, b = values(1.0, 1.0, requires_grad=requires_grad), values(2.0, requires_grad=requires_grad)
    for _ in range(3):  # together, one after the other, in place
        w.grad = b.grad = None
        ((w * x).sum() + b).square().sum().backward()
        w.assign(w - 0.01 * w.grad).realize()
        b -= 0.01 * b.grad
        b.realize()
    for _ in range(3):  # alternating, as a GAN is trained; and by data too
        for one in (w, b):
            w.grad = b.grad = None
            loss = ((w * x).sum() + b).square().sum()
            loss.gradient(x, w, b)
            loss.backward()
            one -= 0.01 * one.grad
            one.realize()
    del one
    speed = Tensor.zeros(2)
    for _ in range(3):  # with a momentum that is a new tensor
        (slope,) = ((w * x).sum() + b).square().sum().gradient(w)
        speed = (0.9 * speed + slope).realize()
        w.assign(w - 0.01 * speed).realize()
        ((w * x).sum() + b).square().sum().backward()
        w, b = ((p - 0.01 * p.grad).realize() for p in (w, b))
        ((w * x).sum() + b).square().sum().gradient(w, b)


def test_a_realised_penalty_on_gradients() -> None:
    w, x = values(1.0, 2.0, requires_grad=True), values(3.0, 4.0)
    (slope,) = ((w * x) ** 3).sum().gradient(x)
    for loss in ((slope.realize() ** 2).sum(), ((slope * 2).realize() ** 2).sum()):
        with pytest.raises(ArgumentError, match=f"backward: {CUT}"):
            loss.backward()
        with pytest.raises(ArgumentError, match=f"gradient: {CUT}"):
            loss.gradient(w)


def test_the_error_names_both_tensors() -> None:
    t = values(1.0, 2.0)
    m = square(t).realize()
    with pytest.raises(ArgumentError) as error:
        (m * t).sum().gradient(t)
    text = str(error.value)
    assert text.count("test_realised.py:") == 2 and "detach()" in text and "numpy()" in text


def test_a_number_has_a_gradient() -> None:
    for make in (lambda: Tensor(3.0), lambda: Tensor.full((), 3.0), lambda: Tensor(3.0, dtype="float64")):
        x, y = make(), make()
        (x * x * y).backward()
        assert (x.grad.item(), y.grad.item()) == (18.0, 9.0)
        assert [g.item() for g in (x * x * y).gradient(x, y)] == [18.0, 9.0]
    fixed = Tensor(3.0, requires_grad=False)
    (x * fixed).backward()
    assert fixed.grad is None and (Tensor([1.0]) + fixed).uop.src[1].op is ops.CONST


def test_a_number_as_the_argument_of_a_captured_function() -> None:
    def step(x: Tensor) -> Tensor:
        (x * x).backward()
        return x.grad

    assert [TinyJit(step)(Tensor(number)).item() for number in (3.0, 4.0)] == [6.0, 8.0]


# ---- captured functions


def test_inside_of_a_captured_function_too() -> None:
    def step(t: Tensor) -> Tensor:
        m = square(t).realize()
        return (m * t).sum().gradient(t)[0]

    with pytest.raises(ArgumentError, match=CUT):
        TinyJit(step)(values(1.0, 2.0))
    detached = TinyJit(lambda t: (square(t).realize().detach() * t).sum().gradient(t)[0])
    assert [detached(values(1.0, 2.0)).tolist() for _ in range(2)] == [[1.0, 4.0]] * 2


def test_an_input_of_a_captured_function_that_was_realised() -> None:
    t = values(1.0, 2.0)
    step = TinyJit(lambda m: (m * t).sum().gradient(t)[0])
    with pytest.raises(JitError, match="a tensor that one of its inputs was computed from"):
        step(square(t).realize())
    for _ in range(2):
        assert step(square(t).detach()).tolist() == step(square(t).detach().realize()).tolist() == [1.0, 4.0]
        assert step((t.detach() * 2).realize()).tolist() == [2.0, 4.0]


def test_constants_as_the_input_of_a_captured_function() -> None:
    step = TinyJit(lambda x: (x * x).sum().gradient(x)[0])
    assert [step(Tensor.full((2,), number)).tolist() for number in (1.0, 3.0)] == [[2.0, 2.0], [6.0, 6.0]]


def test_the_result_of_a_captured_function() -> None:
    function = TinyJit(lambda t: t**2)
    for _ in range(3):
        t, w = values(1.0, 2.0), values(3.0, 4.0)
        y = function(t)
        for loss in (y.sum(), (y * t).sum(), (y + 1).sum()):
            with pytest.raises(JitError, match="gradient: the gradient ends at a result of"):
                loss.gradient(t)
        with pytest.raises(JitError, match="backward: the gradient ends at a result of"):
            (y * t).sum().backward()
        assert (y * w).sum().gradient(w)[0].tolist() == [1.0, 4.0]
        assert (y * w).sum().gradient(y)[0].tolist() == [3.0, 4.0]
        assert (y.detach() * t).sum().gradient(t)[0].tolist() == [1.0, 4.0]


def test_the_result_of_a_captured_function_of_a_lazy_tensor() -> None:
    function, t = TinyJit(lambda t: t**2), values(1.0, 2.0)
    for _ in range(2):
        y = function(t * 2)
        with pytest.raises(JitError, match="ends at a result of"):
            (y * t).sum().gradient(t)


def test_a_captured_tensor_behind_a_result() -> None:
    w, x = values(1.0, 2.0), values(3.0, 4.0)
    function = TinyJit(lambda x: x * w)
    for _ in range(2):
        y = function(x)
        with pytest.raises(JitError, match="ends at a result of"):
            y.sum().gradient(w)
        z = (y * 2).realize()
        with pytest.raises(JitError, match="ends at a result of"):
            z.sum().gradient(w)


# ---- memory


def test_what_is_remembered_is_little() -> None:
    from whit.engine.memory import origins

    w = values(1.0, 2.0)
    state, kept = values(1.0, 1.0), []
    for _ in range(50):
        state = (state * w).realize()
        kept.append((state * w).sum().realize())
    gc.collect()
    found = origins.of(state.uop)
    assert found is not None and len(found.references) <= 4 and len(found.before) <= 2
    dead = Tensor([1.0])
    m = (dead * 2).realize()
    del dead
    gc.collect()
    assert not any(reference() for reference in origins.of(m.uop).references)
