"""Random functions under random nests of transforms, beside `torch.func`, in float64.

A program is a chain of steps that both libraries have, and up to four transforms around it: batches over any axes,
gradients, tangents, jacobians. By hand, where PyTorch is installed:

    python tests/fuzz/transforms.py --seed 0 --seconds 600
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import whit
from whit import Tensor

try:
    import torch
    from torch import func
except ImportError:
    torch = func = None

TOLERANCE = 1e-8  # relative to the largest element

Function = Callable[[Any], Any]


@dataclass(frozen=True)
class Library:
    """What a program is run with."""

    array: Callable[[Any], Any]
    transforms: Any  # a module with grad, vmap, jvp, jacrev, jacfwd
    vmap: Callable[..., Any]
    numpy: Callable[[Any], Any]


def ours() -> Library:
    return Library(lambda a: Tensor(np.array(a)), whit, whit.vmap, lambda x: x.numpy())


def theirs() -> Library:
    def vmap(f: Function, in_axes: int, out_axes: int) -> Function:
        return func.vmap(f, in_dims=in_axes, out_dims=out_axes)

    return Library(lambda a: torch.tensor(np.array(a)), func, vmap, lambda x: x.detach().numpy())


# ---- steps: a matrix into a matrix


def _weight(lib: Library, *shape: int) -> Any:
    return lib.array(np.cos(np.arange(np.prod(shape), dtype=np.float64) * 1.7).reshape(shape))


def _positions(lib: Library, count: int) -> Any:
    return lib.array(np.array([count - 1, 0, count // 2, 0], dtype=np.int64))


def _written(lib: Library, x: Any) -> Any:
    made = x * 1.5
    made[0] = x[-1] * x[0]
    made[:, 1:] += x[:, :-1].sin()
    return made


def _square(lib: Library, x: Any) -> Any:
    """A matrix that can be inverted."""
    count = int(x.shape[0])
    return x @ x.T * 0.2 + lib.array(np.eye(count) * 2)


def _inverse(lib: Library, x: Any) -> Any:
    square = _square(lib, x)
    return (square.inv() if isinstance(x, Tensor) else torch.linalg.inv(square)) @ x


def _solution(lib: Library, x: Any) -> Any:
    square = _square(lib, x)
    return square.solve(x) if isinstance(x, Tensor) else torch.linalg.solve(square, x)


def _convolved(lib: Library, x: Any) -> Any:
    image = x.reshape(1, 1, int(x.shape[0]), int(x.shape[1]))
    weight = _weight(lib, 1, 1, 1, 2)
    found = image.conv2d(weight) if isinstance(x, Tensor) else torch.nn.functional.conv2d(image, weight)
    return found.reshape(int(found.shape[2]), int(found.shape[3]))


def _pooled(lib: Library, x: Any) -> Any:
    image = x.reshape(1, 1, int(x.shape[0]), int(x.shape[1]))
    if isinstance(x, Tensor):
        found = image.max_pool2d((1, 2), stride=1)
    else:
        found = torch.nn.functional.max_pool2d(image, (1, 2), 1)
    return found.reshape(int(found.shape[2]), int(found.shape[3]))


def _attended(lib: Library, x: Any) -> Any:
    if isinstance(x, Tensor):
        return x.scaled_dot_product_attention(x * 0.5, x.sin())
    return ((x @ (x * 0.5).T) / x.shape[1] ** 0.5).softmax(-1) @ x.sin()


def _added(lib: Library, x: Any) -> Any:
    rows = _positions(lib, int(x.shape[0]))[: int(x.shape[0])]
    return x.index_add(0, rows, (x * x)[: int(rows.shape[0])])


def _of_both(x: Any) -> Any:
    return (x * x).cos()


_block = whit.function(lambda x: (x.sin() @ x.cos().T).tanh() @ x)
_custom = Tensor.custom_function(lambda x: x.tanh(), lambda dy, y, x: dy * (1 - x.tanh() * x.tanh()))

STEPS: dict[str, Callable[[Library, Any], Any]] = {
    "sin": lambda lib, x: x.sin(),
    "tanh": lambda lib, x: x.tanh(),
    "sigmoid": lambda lib, x: x.sigmoid() * x,
    "exp": lambda lib, x: (x.tanh() * 0.5).exp(),
    "log1p": lambda lib, x: (x * x).log1p(),
    "relu": lambda lib, x: (x + 0.1).relu(),
    "power": lambda lib, x: (x * x + 1.0) ** 0.3,
    "softmax": lambda lib, x: x.softmax(-1),
    "log_softmax": lambda lib, x: x.log_softmax(0),
    "logsumexp": lambda lib, x: x - x.logsumexp(1).reshape(-1, 1),
    "centred": lambda lib, x: x - x.mean(0),
    "norm": lambda lib, x: x / (x * x + 0.1).sum().sqrt(),
    "product": lambda lib, x: x @ _weight(lib, int(x.shape[1]), 3),
    "left": lambda lib, x: _weight(lib, 2, int(x.shape[0])) @ x,
    "gram": lambda lib, x: x @ x.T * 0.3,
    "transposed": lambda lib, x: x.T,
    "flipped": lambda lib, x: x.flip(0) * x,
    "cumsum": lambda lib, x: x.cumsum(1),
    "cumprod": lambda lib, x: (x * 0.5 + 0.1).cumprod(0),
    "sorted": lambda lib, x: x.sort(1)[0] if isinstance(x, Tensor) else x.sort(1).values,
    "largest": lambda lib, x: x.amax(0) * x,
    "rows": lambda lib, x: x[_positions(lib, int(x.shape[0]))],
    "columns": lambda lib, x: x[:, _positions(lib, int(x.shape[1]))],
    "reshaped": lambda lib, x: x.reshape(int(x.shape[1]), int(x.shape[0])),
    "chosen": lambda lib, x: (x > 0.2).where(x, x * x) if isinstance(x, Tensor) else torch.where(x > 0.2, x, x * x),
    "var": lambda lib, x: x * x.var(1).reshape(-1, 1),
    "written": _written,
    "inverse": _inverse,
    "solution": _solution,
    "convolved": _convolved,
    "pooled": _pooled,
    "attended": _attended,
    "added": _added,
    "block": lambda lib, x: _block(x) if isinstance(x, Tensor) else (x.sin() @ x.cos().T).tanh() @ x,
    "custom": lambda lib, x: _custom(x) if isinstance(x, Tensor) else x.tanh(),
    "checkpoint": lambda lib, x: (
        whit.checkpoint(lambda x: (x * x).cos(), x) if isinstance(x, Tensor) else (x * x).cos()
    ),
    "logcumsumexp": lambda lib, x: x.logcumsumexp(0),
    "prod": lambda lib, x: x + (x * 0.7).prod(0),
}


def weighted(lib: Library, y: Any) -> Any:
    """A number made of all elements."""
    shape = tuple(int(n) for n in y.shape)
    return (y * _weight(lib, *shape)).sum() if shape else y


# Steps whose second derivatives in PyTorch 2.13 are not those of small steps; ours are.
FIRST_ORDER = {"logcumsumexp", "solution"}


# ---- transforms: a function of an array into another one


@dataclass(frozen=True)
class Transform:
    """Its name, and for a batch the axes and the size."""

    name: str
    axis: int = 0
    out: int = 0
    size: int = 0

    def of(self, lib: Library, f: Function) -> Function:
        if self.name == "vmap":
            return lib.vmap(f, self.axis, self.out)
        if self.name == "grad":
            return lib.transforms.grad(lambda x: weighted(lib, f(x)))
        if self.name == "jvp":
            return lambda x: lib.transforms.jvp(f, (x,), (x * 0.5 + 0.3,))[1]
        if self.name == "vjp":
            return lambda x: (lambda y, pull: pull(y * 0.5)[0])(*lib.transforms.vjp(f, x))
        return getattr(lib.transforms, self.name)(f)


@dataclass(frozen=True)
class Program:
    """Steps from the first to the last, and transforms from the inside to the outside."""

    seed: int
    shape: tuple[int, ...]
    steps: tuple[str, ...]
    transforms: tuple[Transform, ...]

    def run(self, lib: Library) -> Any:
        def function(x: Any) -> Any:
            for step in self.steps:
                x = STEPS[step](lib, x)
            return x

        f: Function = function
        shape = list(self.shape)
        for transform in self.transforms:
            f = transform.of(lib, f)
            if transform.name == "vmap":
                shape.insert(transform.axis, transform.size)
        data = np.random.default_rng(self.seed).uniform(-1.3, 1.3, shape)
        return lib.numpy(f(lib.array(data)))


def make_program(seed: int) -> Program:
    draw = random.Random(seed)
    steps = tuple(draw.choice(list(STEPS)) for _ in range(draw.randint(1, 5)))
    transforms: list[Transform] = []
    rank, jacobians, derivatives = 2, 0, 0
    for _ in range(draw.randint(1, 4)):
        name = draw.choice(["vmap", "vmap", "grad", "jvp", "vjp", "jacrev", "jacfwd"])
        if name == "jacfwd" and "solution" in steps:
            name = "jacrev"  # in a batch, PyTorch's jacfwd of solve is not that of its own loop over examples
        jacobians += name.startswith("jac")
        derivatives += name != "vmap"
        is_second = derivatives > 1 and not FIRST_ORDER.isdisjoint(steps)
        if name != "vmap" and (is_second or (jacobians > 1 and name.startswith("jac"))):
            continue
        axis = draw.randint(0, rank)
        transforms.append(Transform(name, axis, 0 if name != "vmap" else draw.randint(0, 1), draw.choice([1, 2, 3])))
        rank += name == "vmap"
    return Program(seed, (3, 4), steps, tuple(transforms))


def problem_of(program: Program) -> str:
    """What is wrong, "" if nothing is. What PyTorch cannot do says nothing about us."""
    try:
        wanted = program.run(theirs())
    except Exception:  # of operations that it has no rule for, and of sizes that do not fit
        return ""
    try:
        found = program.run(ours())
    except Exception:
        return f"{program}\n{traceback.format_exc()}"
    if found.shape != wanted.shape:
        return f"{program}\nshape {found.shape}, and {wanted.shape} in PyTorch"
    if not np.isfinite(wanted).all():
        return ""
    error = np.abs(found - wanted).max(initial=0.0) / max(np.abs(wanted).max(initial=0.0), 1.0)
    return "" if error < TOLERANCE else f"{program}\nthe largest difference is {error}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first program")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long")
    options = parser.parse_args()
    start, seed, bad = time.perf_counter(), options.seed, 0
    while time.perf_counter() - start < options.seconds:
        problem = problem_of(make_program(seed))
        if problem:
            bad += 1
            print(f"---- seed {seed}\n{problem}\n", flush=True)
        seed += 1
    print(f"{seed - options.seed} programs, {bad} with a problem")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
