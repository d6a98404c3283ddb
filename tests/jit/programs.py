"""Programs that people get wrong with JITs. Each runs plainly and under TinyJit, and must give the same, or raise.

A program gets `jit`, which is TinyJit or does nothing, and tells what it saw by `see(...)`: tensors, numbers, lists.
"""

from __future__ import annotations

import dataclasses
import random
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np

from whit import Context, Tensor, Variable, dtypes, nn

Program = Callable[[Any, Any], None]
EQUAL: dict[str, tuple[str, Program]] = {}  # name -> (what it is about, program)
RAISES: dict[str, tuple[str, str, Program]] = {}  # name -> (what it is about, part of the message, program)


def equal(about: str) -> Callable[[Program], Program]:
    def enter(program: Program) -> Program:
        EQUAL[program.__name__] = (about, program)
        return program

    return enter


def raises(about: str, message: str) -> Callable[[Program], Program]:
    def enter(program: Program) -> Program:
        RAISES[program.__name__] = (about, message, program)
        return program

    return enter


# ---- values that are no tensors


@equal("a number in the arguments changes")
def static_number_changes(jit: Any, see: Any) -> None:
    f = jit(lambda x, k: x * k + k)
    for k in (2, 3, 2, 4.5, True, 1, 1.0):
        see(f(Tensor([1, 2, 3]), k))


@equal("0.0 and -0.0, which are equal, are different arguments; so are True and 1")
def equal_numbers_that_differ(jit: Any, see: Any) -> None:
    f = jit(lambda x, k: x / k)
    see(f(Tensor([1.0]), 0.0), f(Tensor([1.0]), -0.0))
    g = jit(lambda x, k: x + k)
    see(str(g(Tensor([True]), True).dtype), str(g(Tensor([True]), 1).dtype))


@equal("an attribute of the model changes")
def attribute_changes(jit: Any, see: Any) -> None:
    class Model:
        def __init__(self) -> None:
            self.rate = 0.5

    model = Model()
    f = jit(lambda x: x * model.rate)
    for rate in (0.5, 0.25, 0.5, 3.0):
        model.rate = rate
        see(f(Tensor([1.0, 2.0])))


@equal("a variable of the closure is bound to another number")
def closure_variable_changes(jit: Any, see: Any) -> None:
    scale = 2.0

    def f(x: Tensor) -> Tensor:
        return x * scale

    g = jit(f)
    see(g(Tensor([1.0])))
    scale = 5.0
    see(g(Tensor([1.0])))


@equal("a dictionary of settings changes")
def settings_dictionary(jit: Any, see: Any) -> None:
    settings: dict[str, Any] = {"scale": 2.0, "steps": [1, 2]}

    def f(x: Tensor) -> Tensor:
        return x * settings["scale"] + sum(settings["steps"])

    g = jit(f)
    see(g(Tensor([1.0])))
    settings["scale"] = 3.0
    see(g(Tensor([1.0])))
    settings["steps"].append(10)
    see(g(Tensor([1.0])))


def _factor() -> float:
    return FACTOR


FACTOR = 2.0


@equal("a global variable that a function it calls reads")
def global_of_a_helper(jit: Any, see: Any) -> None:
    global FACTOR
    f = jit(lambda x: x * _factor())
    for value in (2.0, 7.0):
        FACTOR = value
        see(f(Tensor([1.0])))
    FACTOR = 2.0


@equal("a class attribute changes")
def class_attribute(jit: Any, see: Any) -> None:
    class Settings:
        scale = 2

    f = jit(lambda x: x * Settings.scale)
    see(f(Tensor([1.0])))
    Settings.scale = 3
    see(f(Tensor([1.0])))


@equal("a function of the closure is replaced")
def helper_replaced(jit: Any, see: Any) -> None:
    act: Any = Tensor.relu

    def f(x: Tensor) -> Tensor:
        return act(x)

    g = jit(f)
    see(g(Tensor([-1.0, 1.0])))
    act = Tensor.neg
    see(g(Tensor([-1.0, 1.0])))


@equal("other shapes, dtypes and kinds of containers")
def other_signatures(jit: Any, see: Any) -> None:
    f = jit(lambda x: x + x)
    for x in (Tensor([1.0]), Tensor([1.0, 2.0]), Tensor([1, 2]), Tensor([[1, 2]])):
        see(f(x))
    g = jit(lambda pair: pair[0] * 2 - pair[1])
    a, b = Tensor([1.0]), Tensor([2.0])
    see(g([a, b]), g((a, b)), g({0: a, 1: b}), g({1: a, 0: b}))


@equal("keyword arguments in another order; defaults")
def keywords(jit: Any, see: Any) -> None:
    def f(x: Tensor, y: Tensor | None = None, k: int = 2) -> Tensor:
        return x * k if y is None else x * k - y

    g = jit(f)
    x, y = Tensor([1.0]), Tensor([5.0])
    see(g(x), g(x, y), g(y=y, x=x), g(x=x, y=y, k=3), g(x, k=3), g(x, None, 3))


@dataclasses.dataclass
class Batch:
    x: Tensor
    y: list[Tensor]
    scale: float = 1.0


Pair = namedtuple("Pair", ["first", "second"])


@equal("dataclasses, named tuples, dictionaries and None go in and out")
def containers(jit: Any, see: Any) -> None:
    def f(batch: Batch, pair: Any, none: None) -> dict[str, Any]:
        total = batch.x * batch.scale + batch.y[0]
        return {"b": Batch(total, [batch.x + 1], 2.0), "p": Pair(pair.second, pair.first * 2), "n": none, "t": (1, "s")}

    g = jit(f)
    for k in (1.0, 2.0, 1.0):
        found = g(Batch(Tensor([k]), [Tensor([3.0])], k), Pair(Tensor([4.0]), Tensor([5.0])), None)
        see(found["b"].x, found["b"].y, found["b"].scale, found["p"].first, found["p"].second, found["n"], found["t"])
        assert type(found["p"]) is Pair


# ---- results and inputs


@equal("a result does not change when the function is called again")
def results_are_fresh(jit: Any, see: Any) -> None:
    f = jit(lambda x: x * 2)
    results = [f(Tensor([float(i)])) for i in range(4)]
    see(results)


@equal("a view of a result does not change either")
def views_of_results(jit: Any, see: Any) -> None:
    f = jit(lambda x: x * 2)
    a = f(Tensor([1.0, 2.0, 3.0]))
    view = a[1:]
    f(Tensor([4.0, 5.0, 6.0]))
    see(view, a)
    a += 1
    see(view, f(Tensor([1.0, 2.0, 3.0])))


@equal("writing into a result changes no later one")
def results_written(jit: Any, see: Any) -> None:
    f = jit(lambda x: (x * 2, x + 1))
    for _ in range(3):
        a, b = f(Tensor([1.0, 2.0]))
        a += 10
        b[0] = 7
        see(a, b)


@equal("an argument is returned")
def returned_input(jit: Any, see: Any) -> None:
    f = jit(lambda x, y: (x, y + 1))
    x = Tensor([1.0])
    a, b = f(x, Tensor([2.0]))
    see(a is x, a, b)
    a, b = f(Tensor([3.0]), Tensor([2.0]))
    see(a, b, x)


@equal("part of an argument is returned, and the argument changes later")
def returned_view_of_input(jit: Any, see: Any) -> None:
    f = jit(lambda x: x[1:])
    x = Tensor([1.0, 2.0, 3.0])
    see(f(x), f(x + 1), f(x))


@equal("the same tensor is passed twice")
def same_input_twice(jit: Any, see: Any) -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        y += 1
        return x * 10 + y

    g = jit(f)
    a, b = Tensor([1.0]), Tensor([5.0])
    see(g(a, b), a, b)
    see(g(a, a), a)
    see(g(b, b), b)
    see(g(a, b), a, b)


@equal("two arguments are views of one tensor, and one is written")
def views_as_inputs(jit: Any, see: Any) -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        y += 1
        return x * 10

    g = jit(f)
    base = Tensor([1.0, 2.0, 3.0, 4.0])
    see(g(base[:2], base[1:3]), base)
    see(g(base[:2], base[2:]), base)
    see(g(base[1:3], base[:2]), base)
    other = Tensor([1.0, 2.0])
    see(g(other, base[2:]), other, base)


@equal("an argument is assigned to, while a lazy tensor and a view still show it")
def assigned_input(jit: Any, see: Any) -> None:
    def f(x: Tensor) -> Tensor:
        x.assign(x * 2)
        return x.sum()

    g = jit(f)
    x = Tensor([1.0, 2.0, 3.0]).realize()
    before, view = x + 100, x[1:]
    see(g(x), x, view, before)
    see(g(x), x, view, before)
    y = Tensor(np.array([1.0, 2.0, 3.0], dtype=np.float32))
    see(g(y), y)


@equal("an element of an argument is written")
def element_of_input_written(jit: Any, see: Any) -> None:
    def f(x: Tensor, v: Tensor) -> None:
        x[1] = v
        x[2:] += 1

    g = jit(f)
    x = Tensor([1.0, 2.0, 3.0, 4.0])
    before = x * 1
    for i in range(3):
        see(g(x, Tensor(float(i))), x, before)


@equal("arguments that are not computed yet, constants, views and permuted views")
def lazy_inputs(jit: Any, see: Any) -> None:
    f = jit(lambda x: x.reshape(-1) * 2)
    base = Tensor([[1.0, 2.0], [3.0, 4.0]])
    see(f(base + 1), f(base.T), f(base[::-1]), f(Tensor.ones(2, 2)), f(Tensor.full((2, 2), 3.0)), f(base))


@equal("a number as a tensor: no new program for another number")
def numbers_as_tensors(jit: Any, see: Any) -> None:
    f = jit(lambda x, k: x * k)
    for k in (1.0, 2.0, 3.0, 1.0):
        see(f(Tensor([1.0, 2.0]), Tensor(k)))


@equal("batches are parts of one tensor")
def batches(jit: Any, see: Any) -> None:
    f = jit(lambda x: x.sum(0))
    data = Tensor.arange(12).reshape(6, 2).float().contiguous().realize()
    for i in range(0, 6, 2):
        see(f(data[i : i + 2]))


# ---- captured tensors


@equal("a captured tensor is written from outside")
def captured_written_outside(jit: Any, see: Any) -> None:
    w = Tensor([1.0, 2.0])
    f = jit(lambda x: x * w)
    see(f(Tensor([1.0, 1.0])))
    w.assign(w + 1)
    see(f(Tensor([1.0, 1.0])))
    w[0] = 10
    see(f(Tensor([1.0, 1.0])))
    w.replace(Tensor([0.5, 0.25]))
    see(f(Tensor([1.0, 1.0])))


@equal("a captured variable is bound to another tensor")
def captured_rebound(jit: Any, see: Any) -> None:
    w = Tensor([1.0, 2.0])

    def f(x: Tensor) -> Tensor:
        return x * w

    g = jit(f)
    see(g(Tensor([1.0, 1.0])))
    w = Tensor([5.0, 6.0])
    see(g(Tensor([1.0, 1.0])))
    w = Tensor([[1.0, 2.0], [3.0, 4.0]])
    see(g(Tensor([1.0, 1.0])))


@equal("a layer of the model is replaced; getattr with a computed name")
def layer_replaced(jit: Any, see: Any) -> None:
    class Model:
        def __init__(self) -> None:
            self.layer0, self.layer1 = nn.Linear(2, 2), nn.Linear(2, 2)

        def __call__(self, x: Tensor) -> Tensor:
            for i in range(2):
                x = getattr(self, f"layer{i}")(x)
            return x

    Tensor.manual_seed(1)
    model = Model()
    f = jit(lambda x: model(x))
    x = Tensor([[1.0, 2.0]])
    see(f(x))
    model.layer1 = nn.Linear(2, 2)
    see(f(x))
    model.layer0.weight = Tensor([[1.0, 0.0], [0.0, 1.0]])
    see(f(x))


@equal("an in-place update of weights, while an old value is still to be computed")
def weights_updated(jit: Any, see: Any) -> None:
    w = Tensor([1.0, 2.0]).realize()

    def f(x: Tensor) -> Tensor:
        y = (w * x).sum()
        w.assign(w - x)
        return y

    g = jit(f)
    old = w * 100
    for _ in range(3):
        see(g(Tensor([0.5, 0.25])), w)
    see(old)


@equal("the state of a recurrence, which no kernel can overwrite")
def recurrent_state(jit: Any, see: Any) -> None:
    h = Tensor([1.0, 2.0, 3.0]).realize()

    def f(x: Tensor) -> Tensor:
        h.assign(h.flip(0) + x)
        return h.sum()

    g = jit(f)
    for i in range(4):
        see(g(Tensor([1.0, 0.0, float(i)])), h)


@equal("two tensors swap their values")
def swapped(jit: Any, see: Any) -> None:
    a, b = Tensor([1.0, 2.0]).realize(), Tensor([3.0, 4.0]).realize()

    def f() -> None:
        old = a + 0
        a.assign(b)
        b.assign(old)

    g = jit(f)
    for _ in range(3):
        g()
        see(a, b)


@equal("a KV cache: one row is written at a position, all are read")
def kv_cache(jit: Any, see: Any) -> None:
    cache = Tensor.zeros(4, 2).contiguous().realize()

    def f(x: Tensor, position: int) -> Tensor:
        cache[position] = x
        return cache.sum(0)

    g = jit(f)
    for i in range(4):
        see(g(Tensor([1.0, float(i)]), i), cache)


@equal("a cache is returned, and written again later: the result stays")
def cache_returned(jit: Any, see: Any) -> None:
    cache = Tensor.zeros(3).contiguous().realize()

    def f(x: Tensor) -> Tensor:
        cache[1:] += x
        return cache * 1

    g = jit(f)
    found = [g(Tensor([1.0, 2.0])) for _ in range(3)]
    see(found, cache)


@equal("a captured tensor is a constant, and is written to")
def constant_written(jit: Any, see: Any) -> None:
    count = Tensor(0)
    zeros = Tensor.zeros(3)

    def f(x: Tensor) -> Tensor:
        count.assign(count + 1)
        zeros[1] = count.float()
        return x * count

    g = jit(f)
    for _ in range(4):
        see(g(Tensor([1, 2])), count, zeros)


@equal("a write through a view of a captured tensor")
def captured_view_written(jit: Any, see: Any) -> None:
    base = Tensor([1.0, 2.0, 3.0, 4.0]).realize()
    part = base[1:3]

    def f() -> Tensor:
        part.assign(part * 2)
        return base.sum() + part.sum()

    g = jit(f)
    for _ in range(3):
        see(g(), base, part)
    lazy = part * 1
    g()
    see(lazy, base, part)


@equal("realize inside, in the middle of the computation")
def realize_inside(jit: Any, see: Any) -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)

    def f(x: Tensor) -> Tensor:
        y = (x * w).realize()
        z = (y.detach() * w).sum()
        z.backward()
        grad = w.grad
        w.grad = None
        return grad

    g = jit(f)
    for _ in range(2):
        see(g(Tensor([1.0, 3.0])), w.grad)


# ---- training


class Net:
    def __init__(self) -> None:
        self.first, self.norm, self.second = nn.Linear(3, 4), nn.BatchNorm(4), nn.Linear(4, 2)

    def __call__(self, x: Tensor) -> Tensor:
        return self.second(self.norm(self.first(x)).relu())


def _data(i: int) -> tuple[Tensor, Tensor]:
    x = Tensor([[float((i * 7 + r * 3 + c) % 5) for c in range(3)] for r in range(4)])
    return x, Tensor([[float((i + r) % 2), 1.0] for r in range(4)])


@equal("a training step with Adam and batch norm")
def training_step(jit: Any, see: Any) -> None:
    Tensor.manual_seed(5)
    net = Net()
    opt = nn.optim.Adam(nn.state.get_parameters(net), lr=0.05)

    def step(x: Tensor, y: Tensor) -> Tensor:
        opt.zero_grad()
        loss = ((net(x) - y) ** 2).mean().backward()
        opt.step()
        return loss

    g = jit(step)
    with Tensor.train():
        for i in range(3):
            see(g(*_data(i)))
    see(list(nn.state.get_state_dict(net).values()))


@equal("the learning rate is changed between steps")
def learning_rate(jit: Any, see: Any) -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    opt = nn.optim.SGD([w], lr=0.1)

    def step(x: Tensor) -> None:
        opt.zero_grad()
        (w * x).sum().backward()
        opt.step()

    g = jit(step)
    for rate in (0.1, 0.2, 0.4):
        opt.lr.assign([rate])
        g(Tensor([1.0, 2.0]))
        see(w)


@equal("two optimisers with parts of one model")
def two_optimisers(jit: Any, see: Any) -> None:
    a, b = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    first, second = nn.optim.SGD([a], lr=0.1, momentum=0.9), nn.optim.Adam([b], lr=0.1)

    def step(x: Tensor) -> Tensor:
        first.zero_grad()
        second.zero_grad()
        loss = (a * b * x).sum().backward()
        first.step()
        second.step()
        return loss

    g = jit(step)
    for _ in range(3):
        see(g(Tensor([1.0, 0.5])), a, b)


@equal("gradients gather over calls, and are used outside")
def gradient_accumulation(jit: Any, see: Any) -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    opt = nn.optim.SGD([w], lr=0.1)

    def gather(x: Tensor) -> Tensor:
        return (w * w * x).sum().backward()

    g = jit(gather)
    for _ in range(2):
        opt.zero_grad()
        for i in range(3):
            see(g(Tensor([1.0, float(i)])), w.grad)
        opt.step()
        see(w)


@equal("gradients of arguments gather, each in its own tensor")
def gradients_of_arguments(jit: Any, see: Any) -> None:
    f = jit(lambda x: (x * x).sum().backward())
    a, b = Tensor([1.0, 2.0], requires_grad=True), Tensor([3.0, 4.0], requires_grad=True)
    for x in (a, b, a, b, a):
        see(f(x), a.grad, b.grad)
    b.grad = None
    see(f(a), f(b), a.grad, b.grad)


@equal("only the optimiser's step is captured")
def step_alone(jit: Any, see: Any) -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    opt = nn.optim.SGD([w], lr=0.1, momentum=0.5)
    g = jit(opt.step)
    for i in range(3):
        opt.zero_grad()
        (w * Tensor([1.0, float(i)])).sum().backward()
        g()
        see(w)


@equal("fused optimiser: the parameters are views of one tensor")
def fused_optimiser(jit: Any, see: Any) -> None:
    a, b = Tensor([1.0, 2.0]), Tensor([[3.0], [4.0]])
    opt = nn.optim.SGD([a, b], lr=0.1, fused=True)

    def step(x: Tensor) -> Tensor:
        opt.zero_grad()
        loss = (a * x).sum() * b.sum()
        loss.backward()
        opt.step()
        return loss

    g = jit(step)
    for _ in range(3):
        see(g(Tensor([1.0, 0.5])), a, b)


@equal("Tensor.training is switched; dropout draws new numbers in every call, the same as without JIT")
def dropout(jit: Any, see: Any) -> None:
    f = jit(lambda x: x.dropout(0.5))
    Tensor.manual_seed(7)
    x = Tensor([1.0] * 16)
    with Tensor.train():
        see(f(x), f(x))
    see(f(x))
    with Tensor.train():
        see(f(x), Tensor.rand(3))


@equal("random numbers inside and outside take turns; the seed is set inside")
def random_numbers(jit: Any, see: Any) -> None:
    f = jit(lambda n: (Tensor.rand(n), Tensor.randint(n, high=100)))
    Tensor.manual_seed(3)
    see(f(3), Tensor.rand(2), f(3), f(2), Tensor.rand(2))

    def seeded() -> Tensor:
        a = Tensor.rand(2)
        Tensor.manual_seed(9)
        return a + Tensor.rand(2)

    g = jit(seeded)
    see(g(), Tensor.rand(2), g(), Tensor.rand(2))


@equal("settings change: the default float")
def settings_change(jit: Any, see: Any) -> None:
    f = jit(lambda x: x + Tensor([0.1]))
    see(str(f(Tensor([1])).dtype))
    with Context(DEFAULT_FLOAT="float64"):
        see(str(f(Tensor([1])).dtype))
    see(str(f(Tensor([1])).dtype))


# ---- calls


@equal("methods: two instances, each with its own weights")
def methods(jit: Any, see: Any) -> None:
    class Model:
        def __init__(self, k: float) -> None:
            self.w, self.k = Tensor([k, 2.0]), k

        def run(self, x: Tensor) -> Tensor:
            self.w += 1
            return x * self.w * self.k

    Model.run = jit(Model.run)  # type: ignore[method-assign]
    a, b = Model(1.0), Model(3.0)
    for _ in range(2):
        see(a.run(Tensor([1.0, 1.0])), b.run(Tensor([1.0, 1.0])), a.w, b.w)
    b.k = 10.0
    see(b.run(Tensor([1.0, 1.0])), a.run(Tensor([1.0, 1.0])))


@equal("one captured function calls another")
def nested(jit: Any, see: Any) -> None:
    w = Tensor([1.0, 2.0])

    def inner(x: Tensor) -> Tensor:
        w.assign(w + 1)
        return x * w

    inner_jit = jit(inner)

    def outer(x: Tensor) -> Tensor:
        return inner_jit(x) + inner_jit(x + 1)

    g = jit(outer)
    for _ in range(3):
        see(g(Tensor([1.0, 1.0])), inner_jit(Tensor([1.0, 1.0])), w)


@equal("a function that calls itself")
def recursion(jit: Any, see: Any) -> None:
    def power(x: Tensor, n: int) -> Tensor:
        return x if n == 0 else x * f(x, n - 1)

    f = jit(power)
    for n in (3, 2, 3, 0):
        see(f(Tensor([2.0, 3.0]), n))


@equal("branches on shapes and numbers")
def static_branches(jit: Any, see: Any) -> None:
    def f(x: Tensor, flip: bool) -> Tensor:
        if x.shape[0] > 2:
            x = x[:2]
        return x.flip(0) if flip else x * 2

    g = jit(f)
    for flip in (True, False, True):
        see(g(Tensor([1.0, 2.0, 3.0]), flip), g(Tensor([1.0, 2.0]), flip))


@equal("an exception in the function changes nothing, and the next call works")
def exception_inside(jit: Any, see: Any) -> None:
    w = Tensor([1.0, 2.0]).realize()

    def f(x: Tensor, fail: bool) -> Tensor:
        y = x * w
        if fail:
            raise KeyError("no")
        w.assign(w + 1)
        return y

    g = jit(f)
    for fail in (True, False, True, False):
        try:
            see(g(Tensor([1.0, 1.0]), fail), w)
        except KeyError:
            see("raised", w)


@equal("no tensors at all, nothing returned")
def nothing(jit: Any, see: Any) -> None:
    see(jit(lambda: None)(), jit(lambda k: k + 1)(2), jit(lambda: Tensor.zeros(2))(), jit(lambda: (Tensor([1]), 3))())


@equal("sizes of 0 and shape ()")
def odd_sizes(jit: Any, see: Any) -> None:
    f = jit(lambda x: (x + 1, x.sum()))
    for x in (Tensor([]), Tensor(3.0), Tensor([[]]), Tensor([[2.0]])):
        see(f(x), f(x))


@equal("different dtypes, NaN, and infinities")
def dtypes_and_specials(jit: Any, see: Any) -> None:
    f = jit(lambda x: (x.cast(dtypes.float32) * 2, x))
    for dtype in (dtypes.float16, dtypes.bfloat16, dtypes.int8, dtypes.bool, dtypes.float64, dtypes.uint64):
        see(f(Tensor([0, 1, 1], dtype=dtype)))
    see(f(Tensor([float("nan"), float("inf"), -0.0])))


@equal("a list of tensors grows")
def list_grows(jit: Any, see: Any) -> None:
    parts = [Tensor([1.0]), Tensor([2.0])]
    f = jit(lambda x: x + sum(parts, Tensor([0.0])))
    see(f(Tensor([1.0])))
    parts.append(Tensor([5.0]))
    see(f(Tensor([1.0])))
    parts[0] = Tensor([100.0])
    see(f(Tensor([1.0])))
    parts.pop()
    see(f(Tensor([1.0])))


@equal("results of one call are the arguments of the next, in place")
def chained(jit: Any, see: Any) -> None:
    f = jit(lambda x, y: (y, x + y))
    x, y = Tensor([1.0]), Tensor([1.0])
    for _ in range(5):
        x, y = f(x, y)
        see(x, y)


@equal("two captured functions share weights that one of them writes")
def shared_weights(jit: Any, see: Any) -> None:
    w = Tensor([1.0, 2.0]).realize()

    def train(x: Tensor) -> None:
        w.assign(w - x)

    def ask(x: Tensor) -> Tensor:
        return w * x

    f, g = jit(train), jit(ask)
    for i in range(3):
        f(Tensor([0.5, float(i)]))
        see(g(Tensor([1.0, 2.0])), w)


@equal("a tensor is kept in an attribute by the first call")
def tensor_kept(jit: Any, see: Any) -> None:
    class Model:
        last: Any = None

        def __init__(self) -> None:
            self.last = None

    model = Model()

    def f(x: Tensor) -> Tensor:
        if model.last is None:
            model.last = x * 2
        return x + model.last

    g = jit(f)
    for i in range(3):
        see(g(Tensor([1.0 + i])), model.last)


# ---- what cannot be captured


@raises("item() inside", "item: ")
def item_inside(jit: Any, see: Any) -> None:
    jit(lambda x: x * x.sum().item())(Tensor([1.0]))


@raises("a branch on data", "bool: ")
def branch_on_data(jit: Any, see: Any) -> None:
    jit(lambda x: x if x.sum() > 0 else -x)(Tensor([1.0]))


@raises("numpy() inside", "numpy: ")
def numpy_inside(jit: Any, see: Any) -> None:
    jit(lambda x: Tensor(x.numpy()))(Tensor([1.0]))


@raises("tolist() inside", "tolist: ")
def tolist_inside(jit: Any, see: Any) -> None:
    jit(lambda x: sum(x.tolist()))(Tensor([1.0]))


@raises("the value of a bound variable is read", "unbind: ")
def variable_read(jit: Any, see: Any) -> None:
    jit(lambda x, n: x * n.unbind()[1])(Tensor([1.0]), Variable("n", 0, 9).bind(3))


@equal("a size that depends on a bound variable is returned")
def size_returned(jit: Any, see: Any) -> None:
    base, n = Tensor.arange(8).realize(), Variable("n", 1, 8)
    f = jit(lambda x: {"sum": x.sum(), "sizes": (x.shape[0], x.shape[0] * 2)})
    for value in (3, 5):
        found = f(base[: n.bind(value)])
        see(found["sum"], str(found["sizes"]))


@equal("a bound variable as an index and as the size of a slice: one program for all values")
def bound_variables(jit: Any, see: Any) -> None:
    n = Variable("n", 1, 4)
    x = Tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    f = jit(lambda k: (x[k], x[:k].sum(), x[:k] * 2))
    for k in (1, 4, 2):
        see(*[part.tolist() for part in f(n.bind(k))])


@raises("a value is formatted inside", "format: ")
def format_inside(jit: Any, see: Any) -> None:
    jit(lambda x: f"{x.sum():.2f}")(Tensor([1.0]))


@raises("the number of results depends on data", "nonzero: ")
def nonzero_inside(jit: Any, see: Any) -> None:
    jit(lambda x: x.nonzero())(Tensor([1.0]))


@raises("a tensor is appended to a list in every call", "the function changes the length of losses")
def tensor_appended(jit: Any, see: Any) -> None:
    losses: list[Tensor] = []

    def f(x: Tensor) -> Tensor:
        losses.append(x.sum())
        return x

    g = jit(f)
    for _ in range(3):
        g(Tensor([1.0]))


@raises("a counter in Python, of every call", "the function changes calls")
def python_counter(jit: Any, see: Any) -> None:
    calls = 0

    def f(x: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return x * calls

    g = jit(f)
    for _ in range(3):
        g(Tensor([1.0]))


@raises("a random number of Python", "random numbers of Python")
def python_random(jit: Any, see: Any) -> None:
    jit(lambda x: x * random.random())(Tensor([1.0]))


@raises("an iterator", "does not see what it gives next")
def iterator_inside(jit: Any, see: Any) -> None:
    data = iter([1.0, 2.0])
    jit(lambda x: x * next(data))(Tensor([1.0]))


@raises("a NumPy array as an argument", "cannot be an argument")
def array_argument(jit: Any, see: Any) -> None:
    jit(lambda x: Tensor(x) * 2)(np.array([1.0]))


@raises("a NumPy array that is made inside", "array")
def array_inside(jit: Any, see: Any) -> None:
    jit(lambda x: x + Tensor(np.ones(1)))(Tensor([1.0]))


@raises("an object as the result", "which a replay cannot make")
def object_returned(jit: Any, see: Any) -> None:
    jit(lambda x: object())(Tensor([1.0]))


@raises("a gradient would leave through a lazy argument", "the gradient flows")
def gradient_leaves(jit: Any, see: Any) -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)

    def f(y: Tensor) -> Tensor:
        return y.sum().backward()

    jit(f)(w * 2)


@raises("the gradient after a captured step is read", "are not kept")
def gradient_after_step(jit: Any, see: Any) -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    opt = nn.optim.SGD([w], lr=0.1)

    def step(x: Tensor) -> None:
        opt.zero_grad()
        (w * x).sum().backward()
        opt.step()

    jit(step)(Tensor([1.0, 1.0]))
    see(w.grad)


@raises("a gradient is taken through a result", "result of")
def gradient_through_result(jit: Any, see: Any) -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    y = jit(lambda x: x * w)(Tensor([1.0, 1.0]))
    y.sum().backward()


@raises("an argument without a hash", "it has no hash")
def unhashable(jit: Any, see: Any) -> None:
    class Odd:
        __hash__ = None  # type: ignore[assignment]

    jit(lambda x, odd: x)(Tensor([1.0]), Odd())


def table() -> str:
    """The programs, for docs/jit.md."""
    rows = ["| program | about | under the JIT |", "|---|---|---|"]
    rows += [f"| {name.replace('_', ' ')} | {about} | equal |" for name, (about, _) in EQUAL.items()]
    rows += [f"| {name.replace('_', ' ')} | {about} | raises |" for name, (about, _, _) in RAISES.items()]
    return "\n".join(rows) + "\n"
