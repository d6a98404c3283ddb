"""Random programs whose sizes depend on variables, run at bound variables and at plain numbers.

    make_program(seed)               # a list of steps, each a function of (tensor, n, m)
    find_difference(seed, "CPU")     # "" if both runs agree at every binding, else what differs

A step is chosen while the program is built at one binding; one that is refused there is left out. All bindings run the
same steps, so a compiled device must find the plans of the first binding again.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from whit import Tensor, UOp, Variable
from whit.errors import OutOfRangeError, UserError

Step = Callable[[Any, Any, Any], Any]  # tensor, n, m -> tensor
LARGEST = 3000  # elements, at scale 1


def _ends(rng: random.Random) -> Callable[[Any, Any], Any]:
    """An end of a slice."""
    number = rng.randint(-3, 6)
    choices: list[Callable[[Any, Any], Any]] = [
        lambda n, m: n,
        lambda n, m: m,
        lambda n, m: n - 1,
        lambda n, m: n + m,
        lambda n, m: 2 * n,
        lambda n, m: (n + 1) // 2,
        lambda n, m: -n,
        lambda n, m: number,
        lambda n, m: None,
    ]
    return rng.choice(choices)


def _at(axis: int, entry: Any) -> tuple[Any, ...]:
    return (*[slice(None)] * axis, entry)


def _slice(rng: random.Random, rank: int) -> Step:
    axis, start, stop, step = rng.randrange(rank), _ends(rng), _ends(rng), rng.choice((1, 1, 1, 2, 3, -1, -2))
    return lambda x, n, m: x[_at(axis, slice(start(n, m), stop(n, m), step))]


def _index(rng: random.Random, rank: int) -> Step:
    axis = rng.randrange(rank)
    place = rng.choice((lambda n, m: n - 1, lambda n, m: -n, lambda n, m: m, lambda n, m: -1, lambda n, m: 0))
    return lambda x, n, m: x[_at(axis, place(n, m))]


def _reduce(rng: random.Random, rank: int) -> Step:
    axis, keep = rng.choice((None, *range(rank))), rng.random() < 0.4
    name = rng.choice(("sum", "mean", "max", "min", "argmax", "std", "logsumexp"))
    if name == "std":
        return lambda x, n, m: x.float().std(axis, keepdim=keep, correction=0)
    return lambda x, n, m: getattr(x.float(), name)(axis, keepdim=keep)


def _along(rng: random.Random, rank: int) -> Step:
    axis, name = rng.randrange(rank), rng.choice(("softmax", "cumsum", "log_softmax", "flip"))
    return lambda x, n, m: getattr(x.float(), name)(axis)


def _reshape(rng: random.Random, rank: int) -> Step:
    kind, axis = rng.randrange(5), rng.randrange(rank)
    if kind == 0:
        return lambda x, n, m: x.flatten()
    if kind == 1 and axis + 1 < rank:
        return lambda x, n, m: x.flatten(axis, axis + 1)
    if kind == 2:
        return lambda x, n, m: x.unsqueeze(axis).expand(*x.shape[:axis], n, *x.shape[axis:])
    if kind == 3:
        return lambda x, n, m: x.reshape(*x.shape[:axis], -1, 2, *x.shape[axis + 1 :])
    return lambda x, n, m: x.reshape(-1, x.shape[axis])


def _move(rng: random.Random, rank: int) -> Step:
    order = rng.sample(range(rank), rank)
    before, after = rng.choice((0, 1, "m", "n")), rng.choice((0, 2, "m", "n - 1"))
    axis, kind, value = rng.randrange(rank), rng.randrange(4), rng.choice((0.0, 1.5))
    sizes: dict[Any, Callable[[Any, Any], Any]] = {
        "m": lambda n, m: m,
        "n": lambda n, m: n,
        "n - 1": lambda n, m: n - 1,
    }

    def pad(x: Any, n: Any, m: Any) -> Any:
        pair = tuple(sizes[size](n, m) if size in sizes else size for size in (before, after))
        return x.pad(tuple(pair if i == axis else (0, 0) for i in range(rank)), value=value)

    if kind == 0:
        return lambda x, n, m: x.permute(order)
    if kind == 1:
        return lambda x, n, m: x.repeat(*(2 if i == axis else 1 for i in range(rank)))
    if kind == 2:
        return lambda x, n, m: x.roll(1, axis)
    return pad


def _join(rng: random.Random, rank: int) -> Step:
    axis, kind = rng.randrange(rank), rng.randrange(3)
    if kind == 0:
        return lambda x, n, m: Tensor.cat(x, x * 2, dim=axis)
    if kind == 1:
        return lambda x, n, m: Tensor.cat(x, x[_at(axis, slice(0, 1))], x, dim=axis)
    return lambda x, n, m: Tensor.stack(x, x + 1, dim=axis)


def _compute(rng: random.Random, rank: int) -> Step:
    axis = rng.randrange(rank)
    steps: list[Step] = [
        lambda x, n, m: x * 0.5 + n,
        lambda x, n, m: (x > 0).where(x, m),
        lambda x, n, m: x - x.mean(axis, keepdim=True),
        lambda x, n, m: x + Tensor.arange(x.shape[-1], device=x.device),
        lambda x, n, m: (Tensor.arange(x.shape[-1], device=x.device) < n).where(x, -1.0),
        lambda x, n, m: x.abs().sqrt(),
        lambda x, n, m: x.layernorm(),
        lambda x, n, m: x.realize(),
        lambda x, n, m: x.contiguous(),
    ]
    if rank > 1:
        steps += [
            lambda x, n, m: x @ x.transpose(-1, -2) * 0.1,
            lambda x, n, m: x.tril(m),
            lambda x, n, m: x.triu(1),
        ]
    return rng.choice(steps)


def _write(rng: random.Random, rank: int) -> Step:
    axis, start, stop = rng.randrange(rank), _ends(rng), _ends(rng)
    kind = rng.randrange(3)

    def write(x: Any, n: Any, m: Any) -> Any:
        y = x.clone()
        place = _at(axis, slice(start(n, m), stop(n, m)))
        if kind == 0:
            y[place] = 2.5
        elif kind == 1:
            y[place] = x[place] * 3
        else:
            y[place] += 1
        return y

    return write


KINDS = (_slice, _slice, _slice, _index, _reduce, _along, _reshape, _move, _join, _compute, _compute, _write)


def variables(scale: int) -> tuple[UOp, UOp]:
    """n and m. At a scale of 1 everything is smaller than a vector, at 7 larger."""
    return Variable("n", 1, 6 * scale), Variable("m", 0, 3 * scale)


def bindings(scale: int) -> list[tuple[int, int]]:
    """Values of n and m: both ends, and some between."""
    return [(1, 0), (6 * scale, 3 * scale), (4 * scale + scale // 2, scale), (2 * scale, 3 * scale), (1, 3 * scale)]


def start(device: str, seed: int, scale: int) -> Tensor:
    """What a program begins with."""
    values = np.random.default_rng(seed).integers(-8, 9, (7 * scale, 8 * scale, 3)) / 4
    return Tensor(values.astype(np.float32), device=device)


def make_program(seed: int, scale: int = 1, length: int = 5) -> list[Step]:
    """Steps that are possible for all values of the variables."""
    rng = random.Random(seed)
    n, m = (variable.bind(2) for variable in variables(scale))
    x: Any = start("NULL", seed, scale)
    steps: list[Step] = []
    while len(steps) < length:
        step = rng.choice(KINDS)(rng, max(x.ndim, 1))
        try:
            new = step(x, n, m) if x.ndim else x.reshape(1).expand(n)
            if np.prod([size if isinstance(size, int) else 8 * scale for size in new.shape]) > LARGEST * scale**2:
                continue
        except (UserError, OverflowError):
            continue
        steps.append(step if x.ndim else lambda x, n, m: x.reshape(1).expand(n))
        x = new
    return steps


def result(steps: list[Step], x: Any, n: int | UOp, m: int | UOp) -> np.ndarray[Any, Any] | UserError:
    """What a program gives, or the error that it raises."""
    try:
        for step in steps:
            x = step(x, n, m)
        found: np.ndarray[Any, Any] = x.numpy()
    except UserError as error:
        return error
    return found


def find_difference(seed: int, device: str, scale: int = 1) -> str:
    """The first binding at which a program gives another result than at plain numbers, by the interpreter."""
    steps = make_program(seed, scale)
    first, second = variables(scale)
    for n, m in bindings(scale):
        wanted = result(steps, start("PYTHON", seed, scale), n, m)
        found = result(steps, start(device, seed, scale), first.bind(n), second.bind(m))
        what = _compare(wanted, found)
        if what:
            return f"seed {seed} on {device}, n={n}, m={m}: {what}"
    return ""


def _compare(wanted: Any, found: Any) -> str:
    if isinstance(found, OutOfRangeError):  # an end that is a variable must be inside, where a number means the end
        return ""
    if isinstance(wanted, UserError):  # of an empty tensor reshape(-1, 0) is refused, and of n elements it is not
        return ""
    if isinstance(found, UserError):
        return f"raises {found}"
    if wanted.shape != found.shape:
        return f"shape {found.shape} instead of {wanted.shape}"
    if not np.allclose(wanted, found, rtol=1e-4, atol=1e-5, equal_nan=True):
        return f"{found} instead of {wanted}"
    return ""
