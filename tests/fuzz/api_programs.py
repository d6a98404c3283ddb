"""Random programs of the public API: `make_program(seed)` is always the same one.

A program is a list of steps, each a line for whit beside the line of NumPy that means the same. Steps make views and
values, write in place, take and put by position, reduce, realise some of the tensors, forget others. A run of steps may
become the body of a function under the JIT that is called several times. There are two kinds of program: `exact` ones
compute with small whole numbers, so that every result is one number whatever the order; `smooth` ones with float64, end
in first and second gradients, and are compared with derivatives.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fuzz import api_meaning as M

MOST_ELEMENTS = 3000


@dataclass(frozen=True)
class Step:
    """One line, written twice."""

    ours: str
    meaning: str
    gives: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    writes: str = ""  # the name that is written to
    kind: str = "value"  # or "view", "write", "ask" (the reference does nothing), "look" (compares), "forget"


@dataclass(frozen=True)
class Block:
    """Steps that are the body of a captured function, and the calls of it."""

    name: str
    body: tuple[Step, ...]
    parameters: tuple[str, ...]
    results: tuple[str, ...]
    calls: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]  # arguments and names for the results of each

    @property
    def takes(self) -> tuple[str, ...]:
        inside = {name for step in self.body for name in step.gives}
        used = [name for step in self.body for name in step.takes if name not in inside | set(self.parameters)]
        return tuple(dict.fromkeys([*used, *(name for call in self.calls for name in call[0])]))

    @property
    def gives(self) -> tuple[str, ...]:
        return tuple(name for call in self.calls for name in call[1])


@dataclass(frozen=True)
class Program:
    """Steps, and what is compared after them."""

    seed: int
    mood: str  # "exact" or "smooth"
    dtype: str
    steps: tuple[Step | Block, ...]
    targets: tuple[str, ...] = ()  # of gradients
    losses: tuple[str, ...] = ()  # what the number whose gradient is taken is made of
    orders: int = 1
    is_captured: bool = False  # the gradients
    ends: tuple[str, ...] = field(default=())  # realised together before anything is compared


class Maker:
    """Draws steps, running the reference beside: so it knows shapes, values and what shares memory."""

    def __init__(self, seed: int, mood: str) -> None:
        self.random = random.Random(seed)
        self.mood = mood
        self.is_smooth = mood == "smooth"
        self.dtype = (
            "float64"
            if self.is_smooth
            else self.pick(*["float32"] * 6, "int32", "int32", "float64", "int64", "float16")
        )
        self.scope = scope_of(self.dtype, lambda _, x: x + 1e-30j * M.wave(x.shape, 1), lambda *_: None)
        self.steps: list[Step | Block] = []
        self.names: list[str] = []  # alive, oldest first
        self.roots: dict[str, str] = {}  # of a view, the value that it shows
        self.guarded: set[str] = set()  # roots that may not be written to: targets of gradients
        self.made = 0
        self.theme = self.pick("any", "sums", "writes")
        self.sizes = self.random.choices((1, 2, 2, 3, 3, 4, 4, 5, 6, 8, 8, 12, 16), k=3)
        if self.random.random() < 0.08:
            self.sizes[0] = self.pick(17, 32, 33, 64)
        if self.theme != "any":
            self.sizes[1:] = self.sizes[:1] + [self.sizes[1]] * self.chance(0.7)  # shapes that meet
        tilt = random.Random(seed * 7 + 1)
        self.weights = {kind: tilt.choice((0.3, 1, 1, 3)) for kind in KINDS}

    # ---- choices

    def pick(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def chance(self, p: float) -> bool:
        return self.random.random() < p

    def array(self, name: str) -> np.ndarray:
        found: np.ndarray = self.scope[name]
        return found

    def shape(self) -> tuple[int, ...]:
        return tuple(self.pick(*self.sizes) for _ in range(self.pick(1, 2, 2, 2, 3, 3, 4)))

    def some(self, accept: Callable[[np.ndarray], bool] = lambda _: True) -> str:
        """A name, one of the last rather than one of the first."""
        found = [name for name in self.names if accept(self.array(name))]
        if not found:
            raise M.Unclear("nothing fits")
        return self.pick(*found[-5:], *found)

    def other(self, x: str) -> str:
        """A name that broadcasts with another, or a number."""
        shape = self.array(x).shape
        if self.chance(0.15):
            return str(self.pick(-2, -1, 2, 3) if not self.is_smooth else self.pick(-1.5, 0.5, 2.0))

        def fits(y: np.ndarray) -> bool:
            try:
                return int(np.prod(np.broadcast_shapes(y.shape, shape))) <= MOST_ELEMENTS
            except ValueError:
                return False

        return self.some(fits)

    def axis(self, x: str) -> int:
        dimensions = self.array(x).ndim
        if not dimensions:
            raise M.Unclear("no axes")
        return self.random.randrange(dimensions)

    def named(self) -> str:
        self.made += 1
        return f"v{self.made - 1}"

    # ---- steps

    def add(self, step: Step) -> None:
        """Runs the reference, and keeps the step if that has one right result."""
        exec(step.meaning, self.scope)
        self.steps.append(step)
        for name in step.gives:
            array = self.array(name)
            if array.size > MOST_ELEMENTS:
                del self.steps[-1]
                raise M.Unclear("too large")
        for name in step.gives:
            shared = step.takes[0] if step.kind == "view" else ""
            is_view = shared and np.shares_memory(self.array(name), self.array(shared))
            self.roots[name] = self.roots[shared] if is_view else name
            self.names.append(name)

    def value(self, ours: str, meaning: str, *takes: str, kind: str = "value") -> None:
        """A new tensor: what the names in braces are is left to Python."""
        name = self.named()
        used = tuple(take for take in takes if take.startswith("v"))
        self.add(Step(f"{name} = {ours}", f"{name} = {meaning}", (name,), used, kind=kind))

    def view(self, ours: str, meaning: str, take: str) -> None:
        """A new name for elements of another; NumPy decides whether they had to be copied."""
        self.value(ours, meaning, take, kind="view")

    def write(self, ours: str, meaning: str, target: str, *takes: str) -> None:
        used = tuple(take for take in (target, *takes) if take.startswith("v"))
        self.add(Step(ours, meaning, (), used, writes=target, kind="write"))

    def writable(self) -> str:
        found: str = self.pick(*[name for name in self.names if _is_writable(self, name)] or [""])
        if not found:
            raise M.Unclear("nothing to write to")
        return found


# ---- kinds of steps


def leaf(m: Maker) -> None:
    """An input, or a constant."""
    shape, seed = m.shape(), m.random.randrange(1000)
    if m.is_smooth:
        m.value(f"Tensor(M.wave({shape}, {seed}))", f'leaf("v{m.made}", M.wave({shape}, {seed}))')
        return
    what = m.pick(*["data"] * 6, "lazy", "full", "zeros", "arange", "eye")
    cast = f'dtype="{m.dtype}"'
    data = f"M.whole({shape}, {seed}, dtype)"
    if what == "data":
        m.value(f"Tensor({data})", f"M.own({data})")
    elif what == "lazy":
        m.value(f"Tensor({data}) * 1", f"M.own({data})")
    elif what == "full":
        m.value(f"Tensor.full({shape}, 2, {cast})", f"np.full({shape}, 2, dtype)")
    elif what == "zeros":
        m.value(f"Tensor.zeros({shape}, {cast})", f"np.zeros({shape}, dtype)")
    elif what == "arange":
        n = shape[0]
        m.value(f"Tensor.arange({n}, {cast})", f"np.arange({n}, dtype=dtype)")
    else:
        n = shape[0]
        m.value(f"Tensor.eye({n}, {cast})", f"np.eye({n}, dtype=dtype)")


def elementwise(m: Maker) -> None:
    """One or two operands."""
    x = m.some()
    how = m.pick("neg", "abs", "square", "relu", "+", "+", "-", "*", "*", "maximum", "minimum", "where", "clamp")
    if m.is_smooth:
        how = m.pick(how, how, "exp", "tanh", "sin", "sigmoid", "softsqrt", "reciprocal")
    y = m.other(x)
    match how:
        case "neg":
            m.value(f"-{x}", f"M.own(-{x})", x)
        case "abs":
            m.value(f"{x}.abs()", f"M.absolute({x})", x)
        case "square":
            m.value(f"{x}.square()", f"M.own({x} * {x})", x)
        case "relu":
            m.value(f"{x}.relu()", f"M.relu({x})", x)
        case "+" | "-" | "*":
            m.value(f"{x} {how} {y}", f"M.own({x} {how} {y})", x, y)
        case "maximum" | "minimum":
            m.value(f"{x}.{how}({y})", f"M.{how}({x}, {y})", x, y)
        case "clamp":
            m.value(f"{x}.clamp(-2, 1)", f"M.clamp({x}, -2, 1)", x)
        case "where":
            z = m.pick("0", "1", m.other(y)) if y.startswith("v") else x
            m.value(f"({x} > 0).where({y}, {z})", f"M.wheres({x}.real > 0, {y}, {z}, {x}.dtype)", x, y, z)
        case "exp":
            m.value(f"({x} * 0.5).exp()", f"M.own(np.exp({x} * 0.5))", x)
        case "tanh" | "sin":
            m.value(f"{x}.{how}()", f"M.own(np.{how}({x}))", x)
        case "sigmoid":
            m.value(f"{x}.sigmoid()", f"M.sigmoid({x})", x)
        case "softsqrt":
            m.value(f"({x} * {x} + 1).sqrt()", f"M.own(np.sqrt({x} * {x} + 1))", x)
        case "reciprocal":
            m.value(f"1 / ({x} * {x} + 1)", f"M.own(1 / ({x} * {x} + 1))", x)


def movement(m: Maker) -> None:
    """Views."""
    x = m.some()
    array = m.array(x)
    axes = list(range(array.ndim))
    how = m.pick("slice", "slice", "slice", "permute", "flip", "reshape", "reshape", "unsqueeze", "expand", "diagonal")
    match how:
        case "slice":
            index = basic_index(m, array)
            whole = index if "..." in index else f"{index}, ..."  # of NumPy, an element would be a number, no view
            m.view(f"{x}[{index}]", f"{x}[{whole}]", x)
        case "permute":
            m.random.shuffle(axes)
            m.view(f"{x}.permute({tuple(axes)})", f"{x}.transpose({tuple(axes)})", x)
        case "flip":
            axis = m.axis(x)
            m.view(f"{x}.flip({axis})", f"np.flip({x}, {axis})", x)
        case "reshape":
            shape = reshaped(m, array.shape)
            m.view(f"{x}.reshape({shape})", f"{x}.reshape({shape})", x)
        case "unsqueeze":
            axis = m.random.randrange(array.ndim + 1)
            m.view(f"{x}.unsqueeze({axis})", f"np.expand_dims({x}, {axis})", x)
        case "expand":
            if 1 not in array.shape:
                x = m.some(lambda y: 1 in y.shape)
            shape = tuple(m.pick(*m.sizes) if n == 1 else n for n in m.array(x).shape)
            m.view(f"{x}.expand({shape})", f"np.broadcast_to({x}, {shape})", x)
        case "diagonal":
            x = m.some(lambda y: y.ndim >= 2)
            m.view(f"{x}.diagonal()", f"M.diagonal({x})", x)


def basic_index(m: Maker, array: np.ndarray, most: int = 9) -> str:
    """Numbers, slices, None and ..., never empty."""
    parts: list[str] = []
    for size in array.shape[:most]:
        what = m.random.random()
        if what < 0.2:
            parts.append(str(m.random.randrange(-size, size)))
        elif what < 0.45:
            parts.append(":")
        elif what < 0.55:
            parts.append(m.pick("::-1", "::2" if size > 1 else "::1"))
        else:
            start = m.random.randrange(size)
            parts.append(f"{start}:{m.random.randint(start + 1, size)}")
    if m.chance(0.1):
        parts.insert(m.random.randrange(len(parts) + 1), "None")
    if m.chance(0.1) and len(parts) >= 1:
        parts[m.random.randrange(len(parts))] = "..."
    while len(parts) > 1 and m.chance(0.3) and "..." not in parts:
        parts.pop()
    return ", ".join(parts) or "..."


def reshaped(m: Maker, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Another shape of as many elements: neighbours joined, or one axis cut in two."""
    sizes = list(shape)
    if len(sizes) > 1 and m.chance(0.5):
        place = m.random.randrange(len(sizes) - 1)
        sizes[place : place + 2] = [sizes[place] * sizes[place + 1]]
    elif sizes:
        place = m.random.randrange(len(sizes))
        size = sizes[place]
        part = m.pick(*[n for n in range(1, size + 1) if size % n == 0])
        sizes[place : place + 1] = [part, size // part]
    return tuple(sizes) if len(sizes) < 6 else (int(np.prod(sizes)),)


def same(m: Maker) -> None:
    """Another tensor of the same elements."""
    x = m.some()
    m.value(m.pick(f"{x}.clone()", f"{x}.contiguous()", f"{x} * 1", f"{x} + 0"), f"M.own({x})", x)


def copies(m: Maker) -> None:
    """Values of their own with the same elements, joined, repeated, padded."""
    x = m.some()
    array = m.array(x)
    how = m.pick(
        *("clone", "contiguous", "cat", "cat", "stack", "repeat", "repeat_interleave", "pad", "pad", "roll", "tril"),
        *("unfold", "plus"),
    )
    match how:
        case "clone" | "contiguous":
            m.value(f"{x}.{how}()", f"M.own({x})", x)
        case "plus":
            m.value(f"{x} * 1", f"M.own({x})", x)
        case "cat":
            axis = m.axis(x)
            rest = array.shape[:axis] + array.shape[axis + 1 :]

            def fits(b: np.ndarray) -> bool:
                return b.ndim == array.ndim and b.shape[:axis] + b.shape[axis + 1 :] == rest

            parts = [x, *(m.some(fits) for _ in range(m.pick(1, 1, 2)))]
            joined = ", ".join(parts)
            m.value(f"Tensor.cat({joined}, dim={axis})", f"M.cat([{joined}], {axis})", *parts)
        case "stack":
            y, axis = m.some(lambda b: b.shape == array.shape), m.random.randrange(array.ndim + 1)
            m.value(f"{x}.stack({y}, dim={axis})", f"M.own(np.stack([{x}, {y}], {axis}))", x, y)
        case "repeat" | "pad" if not array.ndim:
            raise M.Unclear("no axes")
        case "repeat":
            counts = tuple(m.pick(1, 1, 2, 3) for _ in array.shape)
            m.value(f"{x}.repeat({counts})", f"M.own(np.tile({x}, {counts}))", x)
        case "repeat_interleave":
            count, axis = m.pick(2, 3), m.axis(x)
            m.value(f"{x}.repeat_interleave({count}, {axis})", f"M.own(np.repeat({x}, {count}, {axis}))", x)
        case "pad":
            mode = m.pick("constant", "constant", "constant", "reflect", "replicate", "circular")
            widths = tuple((m.pick(0, 1, 2), m.pick(0, 1)) for _ in array.shape)
            if mode != "constant" and any(max(width) >= n for width, n in zip(widths, array.shape, strict=True)):
                raise M.Unclear("too wide")
            m.value(f'{x}.pad({widths}, mode="{mode}")', f'M.pad({x}, {widths}, "{mode}")', x)
        case "roll":
            shift, axis = m.pick(1, 2, -1), m.axis(x)
            m.value(f"{x}.roll({shift}, {axis})", f"M.own(np.roll({x}, {shift}, {axis}))", x)
        case "tril":
            x = m.some(lambda b: b.ndim >= 2)
            m.value(f"{x}.tril()", f"M.own(np.tril({x}))", x)
        case "unfold":
            axis = m.axis(x)
            size = m.random.randint(1, array.shape[axis])
            step = m.pick(1, 1, 2)
            m.value(f"{x}.unfold({axis}, {size}, {step})", f"M.unfold({x}, {axis}, {size}, {step})", x)


def inserted(m: Maker) -> None:
    """Zeros between the elements, as gradients of strides make them; halves side by side."""
    x = m.some(lambda b: b.ndim >= 1 and b.size <= 600)
    shape = m.array(x).shape
    if m.chance(0.5):
        cut = tuple(size for n in shape for size in (n, 1))
        widths = tuple(width for _ in shape for width in ((0, 0), (0, 1)))
        whole = tuple(2 * n for n in shape)
        m.value(
            f"{x}.reshape({cut}).pad({widths}).reshape({whole})",
            f'M.pad({x}.reshape({cut}), {widths}, "constant").reshape({whole})',
            x,
        )
        return
    axis = m.axis(x)
    n = shape[axis]
    half = m.random.randint(0, n)
    before, after = (f"{':, ' * axis}{part}" for part in (f":{half}", f"{half}:"))
    if half in (0, n):
        raise M.Unclear("no halves")
    m.value(f"{x}[{after}].cat({x}[{before}], dim={axis})", f"M.cat([{x}[{after}], {x}[{before}]], {axis})", x)


def reduction(m: Maker) -> None:
    """Along some of the axes."""
    x = m.some()
    axes = [axis for axis in range(m.array(x).ndim) if m.chance(0.5)]
    axis: Any = tuple(axes) if len(axes) > 1 else axes[0] if axes else None
    keep = m.chance(0.3)
    how = m.pick("sum", "sum", "sum", "sum", "max", "min", "product sum", "prod", "argmax", "argmin", "count")
    if m.is_smooth:
        how = m.pick(how, "mean", "var", "softmax", "layernorm", "logsumexp")
    if how in ("sum", "max", "min"):
        m.value(f"{x}.{how}({axis}, keepdim={keep})", f"M.{how}({x}, {axis}, {keep})", x)
    elif how == "product sum":
        y = m.other(x)
        m.value(f"({x} * {y}).sum({axis})", f"M.sum(M.own({x} * {y}), {axis})", x, y)
    elif how == "count":
        m.value(f"({x} > 0).sum({axis}).cast(dtype)", f"M.own(np.sum({x}.real > 0, {axis}).astype({x}.dtype))", x)
    elif how == "prod":
        m.value(f"{x}.prod({axis})", f"M.prod({x}, {axis})", x)
    elif how == "mean":
        m.value(f"{x}.mean({axis})", f"M.own({x}.mean({axis}))", x)
    else:
        axis = m.axis(x)
        if how == "var":
            m.value(f"{x}.var({axis}, correction=0)", f"M.var({x}, {axis}, 0)", x)
        elif how in ("softmax", "logsumexp"):
            m.value(f"{x}.{how}({axis})", f"M.{how}({x}, {axis})", x)
        elif how == "layernorm":
            m.value(f"{x}.layernorm()", f"M.layernorm({x})", x)
        else:
            m.value(f"{x}.{how}({axis}).cast(dtype)", f"M.{how}({x}, {axis})", x)


def scan(m: Maker) -> None:
    """Running sums and extremes, order."""
    x = m.some(lambda b: b.ndim >= 1)
    axis = m.axis(x)
    size = m.array(x).shape[axis]
    how = m.pick("cumsum", "cumsum", "cumprod", "cummax", "cummin", "sort", "argsort", "topk")
    if how.startswith("cum"):
        part = "[0]" if how in ("cummax", "cummin") else ""
        m.value(f"{x}.{how}({axis}){part}", f"M.{how}({x}, {axis})", x)
    elif how == "sort":
        down = m.chance(0.5)
        m.value(f"{x}.sort({axis}, {down})[0]", f"M.sort({x}, {axis}, {down})", x)
    elif how == "argsort":
        m.value(f"{x}.argsort({axis}).cast(dtype)", f"M.argsort({x}, {axis})", x)
    else:
        k = m.random.randint(1, size)
        cut = f"({':, ' * axis}slice(0, {k}),)".replace(":", "slice(None)")
        m.value(f"{x}.topk({k}, {axis})[0]", f"M.own(M.sort({x}, {axis}, True)[{cut}])", x)


def product(m: Maker) -> None:
    """Of matrices, and convolutions."""
    how = m.pick("matmul", "matmul", "outer", "einsum", "conv2d", "max_pool", "avg_pool")
    if how == "matmul":
        x = m.some(lambda b: b.ndim >= 2)
        inner = m.array(x).shape[-1]
        y = m.some(lambda b: b.ndim in (1, 2) and b.shape[0] == inner)
        m.value(f"{x} @ {y}", f"M.matmul({x}, {y})", x, y)
    elif how == "outer":
        x, y = m.some(lambda b: b.ndim == 1), m.some(lambda b: b.ndim == 1)
        m.value(f"{x}.outer({y})", f"M.own(np.outer({x}, {y}))", x, y)
    elif how == "einsum":
        x = m.some(lambda b: b.ndim == 2)
        shape = m.array(x).shape
        y = m.some(lambda b: b.shape == shape)
        formula = m.pick("ij,ij->i", "ij,ij->j", "ij,kj->ik", "ij,ij->", "ij,ik->jk")
        m.value(f'Tensor.einsum("{formula}", {x}, {y})', f'M.einsum("{formula}", {x}, {y})', x, y)
    else:
        x = m.some(lambda b: b.ndim == 4 and b.shape[2] >= 2 and b.shape[3] >= 2)
        shape = m.array(x).shape
        stride = m.pick(1, 2)
        if how == "max_pool":
            m.value(f"{x}.max_pool2d(2, stride={stride})", f"M.max_pool({x}, 2, {stride})", x)
        elif how == "avg_pool":
            scale = 1 if m.is_smooth else 4
            if m.dtype == "int32":
                raise M.Unclear("averages are not whole")
            m.value(
                f"{x}.avg_pool2d(2, stride={stride}) * {scale}", f"M.own(M.avg_pool({x}, 2, {stride}) * {scale})", x
            )
        else:
            groups = m.pick(1, 1, shape[1])
            window = (m.pick(1, groups * 2), shape[1] // groups, m.pick(1, 2), m.pick(1, 2))
            window = (groups * m.pick(1, 2), *window[1:])
            data = f"M.whole({window}, {m.random.randrange(99)}, dtype)"
            m.value(f"Tensor({data})", f"M.own({data})")
            weight = m.names[-1]
            padding, dilation = m.pick(0, 1), m.pick(1, 1, 2)
            if any((n + 2 * padding) < (k - 1) * dilation + 1 for n, k in zip(shape[2:], window[2:], strict=True)):
                raise M.Unclear("too small")
            m.value(
                f"{x}.conv2d({weight}, stride={stride}, padding={padding}, dilation={dilation}, groups={groups})",
                f"M.conv2d({x}, {weight}, {stride}, {padding}, {dilation}, {groups})",
                x,
                weight,
            )


def positions(m: Maker, shape: tuple[int, ...], size: int) -> tuple[str, str, str]:
    """Positions below a size, written for both, and the name that they are computed from, if any."""
    count = int(np.prod(shape))
    what = m.pick("list", "list", "constant", "arange", "computed", "expanded")
    if what == "computed" and not m.is_smooth:
        for name in reversed(m.names):
            if m.array(name).shape == shape:
                return f"({name} % {size}).cast('int32')", f"M.places({name} % {size})", name
    if what == "constant":
        at = m.random.randrange(size)
        return f"Tensor.full({shape}, {at}, dtype='int32')", f"np.full({shape}, {at})", ""
    if what == "arange" and len(shape) == 1:
        return f"Tensor.arange({count}) % {size}", f"np.arange({count}) % {size}", ""
    if what == "expanded" and len(shape) >= 1:
        last = [m.random.randrange(size) for _ in range(shape[-1])]
        row = (1,) * (len(shape) - 1) + shape[-1:]
        return f"Tensor({last}).reshape({row}).expand({shape})", f"np.broadcast_to(np.array({last}), {shape})", ""
    numbers = np.array([m.random.randrange(size) for _ in range(count)]).reshape(shape).tolist()
    return f"Tensor({numbers})", f"np.array({numbers})", ""


def taking(m: Maker) -> None:
    """Elements by position."""
    x = m.some(lambda b: b.ndim >= 1)
    array, axis = m.array(x), m.axis(x)
    size = array.shape[axis]
    how = m.pick("rows", "rows", "gather", "pairs", "list", "masked_fill")
    if how == "gather":
        shape = tuple(m.random.randint(1, n) if i != axis else m.pick(*m.sizes) for i, n in enumerate(array.shape))
        ours, meaning, name = positions(m, shape, size)
        m.value(f"{x}.gather({axis}, {ours})", f"M.gather({x}, {axis}, {meaning})", x, name)
    elif how == "masked_fill":
        m.value(f"{x}.masked_fill({x} > 1, -1)", f"M.wheres({x}.real > 1, -1, {x}, {x}.dtype)", x)
    elif how == "pairs" and array.ndim >= 2:
        n = m.pick(*m.sizes)
        first, second = positions(m, (n,), array.shape[0]), positions(m, (n,), array.shape[1])
        m.value(f"{x}[{first[0]}, {second[0]}]", f"M.own({x}[{first[1]}, {second[1]}])", x, first[2], second[2])
    elif how == "list":
        numbers = [m.random.randrange(-size, size) for _ in range(m.pick(*m.sizes))]
        m.value(f"{x}[{':, ' * axis}{numbers}]", f"M.own({x}[{':, ' * axis}{numbers}])", x)
    else:
        shape = tuple(m.pick(*m.sizes) for _ in range(m.pick(1, 1, 2)))
        ours, meaning, name = positions(m, shape, size)
        m.value(f"{x}[{':, ' * axis}{ours}]", f"M.own({x}[{':, ' * axis}{meaning}])", x, name)


def putting(m: Maker) -> None:
    """Copies with values at positions."""
    x = m.some(lambda b: b.ndim >= 1)
    array, axis = m.array(x), m.axis(x)
    how = m.pick(
        "scatter_add", "scatter_add", "scatter", "scatter_reduce", "index_add", "index_add", "index_put", "put"
    )
    if how.startswith("scatter"):
        candidates = [n for n in m.names if m.array(n).ndim == array.ndim]
        src = m.pick(*candidates)
        shape = tuple(
            min(n, k) if i != axis else k for i, (n, k) in enumerate(zip(array.shape, m.array(src).shape, strict=True))
        )
        ours, meaning, name = positions(m, shape, array.shape[axis])
        if how == "scatter_add":
            m.value(
                f"{x}.scatter_add({axis}, {ours}, {src})",
                f'M.scatter({x}, {axis}, {meaning}, {src}, "sum")',
                x,
                src,
                name,
            )
        elif how == "scatter":
            m.value(f"{x}.scatter({axis}, {ours}, {src})", f"M.scatter({x}, {axis}, {meaning}, {src})", x, src, name)
        else:
            reduce, include = m.pick("sum", "prod", "amax", "amin"), m.chance(0.6)
            m.value(
                f'{x}.scatter_reduce({axis}, {ours}, {src}, "{reduce}", include_self={include})',
                f'M.scatter({x}, {axis}, {meaning}, {src}, "{reduce}", {include})',
                x,
                src,
                name,
            )
        return
    rest = array.shape[:axis] + array.shape[axis + 1 :]
    if how == "index_add":
        src = m.some(lambda b: b.ndim == array.ndim and b.shape[:axis] + b.shape[axis + 1 :] == rest)
        ours, meaning, name = positions(m, (m.array(src).shape[axis],), array.shape[axis])
        m.value(f"{x}.index_add({axis}, {ours}, {src})", f"M.index_add({x}, {axis}, {meaning}, {src})", x, src, name)
        return
    ours, meaning, name = positions(m, (m.pick(*m.sizes),), array.shape[0])
    src, added = m.pick("1", "2"), how == "index_put"
    fitting = [n for n in m.names if m.array(n).shape == array.shape[1:]]
    if fitting and m.chance(0.6):
        src = m.pick(*fitting)
    function = "put_added" if added else "put"
    m.value(
        f"{x}.index_put(({ours},), {src}, accumulate={added})", f"M.{function}({x}, ({meaning},), {src})", x, src, name
    )


def writing(m: Maker) -> None:
    """In place, to a tensor or a view of one."""
    x = m.writable()
    array = m.array(x)
    how = m.pick("+=", "+=", "-=", "*=", "assign", "slice", "slice", "slice", "slice +=", "rows", "mask", "along")

    def source(shape: tuple[int, ...]) -> str:
        """Something that broadcasts to a shape."""
        if m.chance(0.2):
            return m.pick("1", "-2")

        def fits(b: np.ndarray) -> bool:
            try:
                return np.broadcast_shapes(b.shape, shape) == shape
            except ValueError:
                return False

        return m.some(fits)

    if how in ("+=", "-=", "*="):
        y = source(array.shape)
        m.write(f"{x} {how} {y}", f"{x}[...] = M.own({x} {how[0]} {y})", x, y)
    elif how == "assign":
        y = m.some(lambda b: b.shape == array.shape)
        m.write(f"{x}.assign({y})", f"{x}[...] = M.own({y})", x, y)
    elif how.startswith("slice"):
        index = basic_index(m, array)
        y = source(array[eval(f"np.index_exp[{index}]")].shape)
        if how == "slice":
            m.write(f"{x}[{index}] = {y}", f"{x}[{index}] = M.own({y})", x, y)
        else:
            m.write(f"{x}[{index}] += {y}", f"{x}[{index}] = M.own({x}[{index}] + {y})", x, y)
    elif how == "mask":
        value = m.pick("0", "1", "-1")
        m.write(f"{x}[{x} > 1] = {value}", f"{x}[{x}.real > 1] = {value}", x)
    elif not array.ndim:
        raise M.Unclear("no axes")
    elif how == "rows":
        ours, meaning, name = positions(m, (m.pick(*m.sizes),), array.shape[0])
        count = eval(meaning, m.scope).shape
        y = source(count + array.shape[1:])
        m.write(f"{x}[{ours}] = {y}", f"{x}[{meaning}] = M.own({y})", x, y, name)
    else:
        axis = m.axis(x)
        shape = tuple(m.pick(*m.sizes) if i == axis else n for i, n in enumerate(array.shape))
        ours, meaning, name = positions(m, shape, array.shape[axis])
        y = m.some(lambda b: b.shape == shape)
        m.write(f"{x}.put_along_axis({ours}, {y}, {axis})", f"M.put_along({x}, {meaning}, {y}, {axis})", x, y, name)


def looping(m: Maker) -> None:
    """A loop over rows, whose places move: gathered into a sum, written one after the other, or joined."""
    x = m.some(lambda b: b.ndim >= 1 and b.shape[0] <= 8)
    array = m.array(x)
    n, how = array.shape[0], m.pick("sum", "write", "stack", "windows")
    if how == "sum":
        name = m.named()
        start = f"{name} = {x}[0] * 0"
        ours = [start, f"for i in range({n}): {name} = {name} * -1 + {x}[i] * (i + 1)"]
        meaning = [
            f"{name} = M.own({x}[0] * 0)",
            f"for i in range({n}): {name} = M.own({name} * -1 + {x}[i] * (i + 1))",
        ]
        for line, same_line in zip(ours, meaning, strict=True):
            gives = (name,) if line is start else ()
            m.add(Step(line, same_line, gives, (x,) if gives else (x, name), kind="value" if gives else "ask"))
    elif how == "write":
        y = m.pick(*[k for k in m.names if m.array(k).shape == array.shape and _is_writable(m, k)] or [""])
        if not y:
            raise M.Unclear("nothing to write to")
        line = f"for i in range({n}): {y}[{n - 1} - i] = {x}[i]"
        m.write(line, line.replace(f"= {x}[i]", f"= M.own({x}[i])"), y, x)
    elif how == "stack":
        m.value(
            f"Tensor.stack(*[{x}[i] * i for i in range({n})])",
            f"M.own(np.stack([{x}[i] * i for i in range({n})]).astype({x}.dtype))",
            x,
        )
    else:
        size = m.random.randint(1, n)
        inner = f"{x}[i : i + {size}]"
        m.value(
            f"Tensor.cat(*[{inner} + i for i in range({n - size + 1})])",
            f"M.own(np.concatenate([{inner} + i for i in range({n - size + 1})]).astype({x}.dtype))",
            x,
        )


def _is_writable(m: Maker, name: str) -> bool:
    return m.array(name).flags.writeable and m.roots[name] not in m.guarded


def parts(m: Maker) -> None:
    """Several results of one call."""
    x = m.some(lambda b: b.ndim >= 1)
    array, axis = m.array(x), m.axis(x)
    n = array.shape[axis]
    if n < 2:
        raise M.Unclear("nothing to split")
    first, second = m.named(), m.named()
    how = m.pick("split", "chunk", "sort")
    if how == "sort":
        m.add(
            Step(
                f"{first}, {second} = {x}.sort({axis}); {second} = {second}.cast(dtype)",
                f"{first}, {second} = M.sort({x}, {axis}), M.argsort({x}, {axis})",
                (first, second),
                (x,),
            )
        )
        return
    cut = m.random.randrange(1, n) if how == "split" else (n + 1) // 2
    call = f"{x}.split([{cut}, {n - cut}], {axis})" if how == "split" else f"{x}.chunk(2, {axis})"
    m.add(
        Step(
            f"{first}, {second} = {call}",
            f"{first}, {second} = np.split({x}, [{cut}], {axis})",
            (first, second),
            (x,),
            kind="view",
        )
    )


def asking(m: Maker) -> None:
    """Some of the tensors are computed, looked at, or forgotten."""
    if not m.names:
        return
    how = m.pick("realize", "realize", "look", "forget")
    if how == "realize":
        chosen = m.random.sample(m.names, min(len(m.names), m.pick(1, 1, 2, 3)))
        m.add(Step(f"Tensor.realize({', '.join(chosen)})", "pass", (), tuple(chosen), kind="ask"))
    elif how == "look":
        x = m.some()
        m.add(Step(f'look("{x}", {x}.numpy())', f'look("{x}", {x})', (), (x,), kind="look"))
    elif len(m.names) > 3:
        x = m.pick(*[n for n in m.names if n not in m.guarded] or [""])
        if x:
            m.names.remove(x)
            m.add(Step(f"del {x}", f"del {x}", (), (x,), kind="forget"))


KINDS: dict[Callable[[Maker], None], float] = {
    leaf: 0.5,
    elementwise: 3,
    movement: 2.5,
    copies: 2,
    inserted: 0.7,
    reduction: 2.5,
    scan: 0.6,
    product: 0.7,
    taking: 1,
    putting: 1.2,
    writing: 1.6,
    looping: 0.5,
    parts: 0.4,
    asking: 0.8,
}


# What a program is mostly made of. Most faults are in how few things meet, not in how many there are.
THEMES: dict[str, dict[Callable[[Maker], None], float]] = {
    "any": KINDS,
    "sums": {movement: 2, copies: 1.5, inserted: 1.5, elementwise: 1.5, reduction: 5, product: 0.3},
    "writes": {
        movement: 1,
        same: 2.5,
        elementwise: 1,
        taking: 0.4,
        putting: 2.5,
        writing: 2.5,
        looping: 0.5,
        asking: 1.2,
    },
}


def make_program(seed: int) -> Program:
    """The program of that number: every third is smooth."""
    mood = "smooth" if seed % 3 == 2 else "exact"
    m = Maker(seed, mood)
    first = m.pick(2, 3, 3, 4)
    while len(m.names) < first:
        with suppress(M.Unclear):
            leaf(m)
    targets = tuple(m.names[: m.pick(1, 1, 2)]) if m.is_smooth else ()
    m.guarded |= set(targets)
    theme = THEMES[m.theme]
    kinds = [kind for kind in theme if not (m.is_smooth and kind is asking)]
    weights = [theme[kind] * m.weights.get(kind, 1) for kind in kinds]
    wanted = first + m.pick(3, 4, 6, 8, 12, *((16, 22, 30, 36) if m.theme == "any" and not m.is_smooth else (5,)))
    for _ in range(3 * wanted):
        if len(m.steps) >= wanted:
            break
        try:
            m.random.choices(kinds, weights)[0](m)
        except (M.Unclear, ValueError):  # no single right result, or shapes that do not fit
            m.made += 1
    program = Program(seed, mood, m.dtype, tuple(m.steps), targets)
    if m.is_smooth:
        known = _depending(program)[-6:] or list(targets)
        chosen = m.random.sample(known, min(len(known), m.pick(1, 2, 3)))
        return replace(
            program, losses=tuple(chosen), orders=m.pick(1, 1, 2), is_captured=m.chance(0.3) and not _writes_input(m)
        )
    for _ in range(m.pick(0, 0, 1, 1, 2)):
        wrapped = wrap(m, program)
        program = wrapped if wrapped is not None else program
    ends = m.random.sample(m.names, min(len(m.names), m.pick(0, 1, 2, 3, 6, 20)))
    return replace(program, ends=tuple(ends))


def _writes_input(m: Maker) -> bool:
    """Whether an input is written to: a function that does so writes once more each time it is called."""
    inputs = {name for step in m.steps if isinstance(step, Step) and not step.takes for name in step.gives}
    return any(isinstance(step, Step) and m.roots.get(step.writes) in inputs for step in m.steps)


def _depending(program: Program) -> list[str]:
    """What is alive at the end and changes with the targets."""
    bump = STEP * 1j
    scope = scope_of(program.dtype, lambda name, x: x + bump * (name in program.targets), lambda *_: None)
    exec("\n".join(meaning_lines(program)), scope)
    return [name for name in alive_at_end(program) if np.any(np.imag(scope[name]))]


def wrap(m: Maker, program: Program) -> Program | None:
    """A run of steps as a captured function that is called several times; None where that would mean something else."""
    steps = list(program.steps)
    first = m.random.randrange(len(steps))
    last = min(len(steps), first + m.pick(1, 2, 3, 5, 8))
    body = steps[first:last]
    plain = [step for step in body if isinstance(step, Step)]
    if len(plain) < len(body) or any(step.kind in ("look", "forget", "ask") for step in plain):
        return None
    if any("Tensor(M." in step.ours for step in plain):
        return None  # arrays cannot be made there
    inside = [name for step in plain for name in step.gives]
    outside = list(dict.fromkeys(name for step in plain for name in step.takes if name not in inside))
    later = {name for step in steps[last:] for name in (*step.takes, *step.gives)} | set(m.names)
    results = tuple(name for name in inside if name in later)
    if any(m.roots[name] != name for name in results):
        return None  # views that leave the function are copies
    shapes = {name: m.array(name).shape for name in outside if name in m.names}
    augmented = {step.writes for step in plain if re.match(r"v\w+ [-+*]= ", step.ours)}  # Python's local names
    parameters = tuple(name for name in outside if name in shapes and (name in augmented or m.chance(0.7)))
    if not augmented <= {*inside, *parameters}:
        return None
    if not parameters and not results:
        return None
    number = sum(isinstance(step, Block) for step in steps)
    count = m.pick(1, 2, 2, 3)
    calls = []
    known = {name for step in steps[:first] for name in step.gives}
    for call in range(count):
        given = tuple(parameters)
        if call < count - 1 and m.chance(0.5):
            given = tuple(m.pick(name, *_alike(m, name, known, plain)) for name in parameters)
        names = results if call == count - 1 else tuple(f"{name}_{number}{call}" for name in results)
        calls.append((given, names))
    block = Block(f"f{number}", tuple(plain), parameters, results, tuple(calls))
    made = replace(program, steps=(*steps[:first], block, *steps[last:]))
    return made if reference_of(made) is not None else None


def _alike(m: Maker, name: str, known: set[str], body: list[Step]) -> list[str]:
    """Tensors that could be given instead."""
    array = m.array(name)
    is_written = any(m.roots.get(step.writes) == m.roots[name] for step in body if step.writes)
    return [
        other
        for other in m.names
        if other in known and m.array(other).shape == array.shape and (m.array(other).flags.writeable or not is_written)
    ]


# ---- text


def meaning_lines(program: Program) -> list[str]:
    """The program in NumPy."""
    lines: list[str] = []
    for step in program.steps:
        if isinstance(step, Step):
            lines.append(step.meaning)
            continue
        lines += [f"def {step.name}({', '.join(step.parameters)}):", *(f"    {s.meaning}" for s in step.body)]
        lines += [f"    return ({''.join(f'{name}, ' for name in step.results)})"]
        lines += [
            f"({''.join(f'{n}, ' for n in names)}) = {step.name}({', '.join(given)})" for given, names in step.calls
        ]
    return lines


def our_lines(program: Program) -> list[str]:
    """The program in whit."""
    lines: list[str] = []
    for step in program.steps:
        if isinstance(step, Step):
            lines.append(step.ours)
            continue
        lines += ["@TinyJit", f"def {step.name}({', '.join(step.parameters)}):", *(f"    {s.ours}" for s in step.body)]
        lines += [f"    return ({''.join(f'{name}, ' for name in step.results)})"]
        lines += [
            f"({''.join(f'{n}, ' for n in names)}) = {step.name}({', '.join(given)})" for given, names in step.calls
        ]
    return lines


def scope_of(dtype: str, leaf: Callable[[str, Any], Any], look: Callable[[str, Any], None]) -> dict[str, Any]:
    """What the lines of a reference may name: `leaf` makes an input of a smooth program, `look` gets what is seen."""
    return {"np": np, "M": M, "dtype": dtype, "leaf": leaf, "look": look}


def alive_at_end(program: Program) -> list[str]:
    """Names that have a tensor after the last step."""
    names: dict[str, None] = {}
    for step in program.steps:
        if isinstance(step, Step) and step.kind == "forget":
            names.pop(step.takes[0], None)
        names.update(dict.fromkeys(step.gives))
    return list(names)


def reference_of(program: Program) -> list[tuple[str, np.ndarray]] | None:
    """What is looked at on the way and alive at the end, by NumPy; None where there is no single right result."""
    seen: list[tuple[str, np.ndarray]] = []
    scope = scope_of(program.dtype, lambda _, x: x, lambda name, x: seen.append((name, np.array(x))))
    try:
        exec("\n".join(meaning_lines(program)), scope)
        seen += [(name, M.own(scope[name])) for name in alive_at_end(program)]
    except (M.Unclear, ValueError):
        return None
    return seen


STEP = 1e-30  # of an imaginary part
APART = 1e-4  # of two points between which a derivative changes


def loss_line(program: Program) -> str:
    """The number whose gradients are taken, for both."""
    return "loss = " + " + ".join(f"({name} * w{name}).sum()" for name in program.losses)


def factor_lines(program: Program, tensor: str = "Tensor") -> list[str]:
    """The weights of what is summed, and the direction along which the first derivative is taken."""
    shapes = {name: array.shape for name, array in reference_of(program) or ()}
    lines = [f"w{name} = {tensor}(M.wave({shapes[name]}, {i + 1}))" for i, name in enumerate(program.losses)]
    return lines + [f"d{name} = {tensor}({direction(program, name, 1)})" for name in program.targets]


def direction(program: Program, name: str, which: int) -> str:
    """The text of the direction along which a derivative is taken."""
    shapes = {name: array.shape for name, array in reference_of(program) or ()}
    return f"M.wave({shapes[name]}, {100 * which + program.targets.index(name)})"


def derivatives_of(program: Program) -> tuple[float, float] | None:
    """The derivative of the loss along one direction, and how that changes along another."""

    def slope(along: float) -> float:
        def leaf(name: str, x: np.ndarray) -> np.ndarray:
            if name not in program.targets:
                return x.astype(complex)
            first, second = (M.wave(x.shape, 100 * k + program.targets.index(name)) for k in (1, 2))
            return x + along * second + STEP * 1j * first

        scope = scope_of(program.dtype, leaf, lambda *_: None)
        exec("\n".join([*meaning_lines(program), *factor_lines(program, ""), loss_line(program)]), scope)
        return float(np.imag(scope["loss"]) / STEP)

    try:
        return slope(0.0), (slope(APART) - slope(-APART)) / (2 * APART)
    except (M.Unclear, ValueError):
        return None


def gradient_lines(program: Program) -> list[str]:
    """The loss, its gradients, and those of their sum along a direction."""
    targets = ", ".join(program.targets)
    first = ", ".join(f"g{name}" for name in program.targets)
    lines = [loss_line(program), f"{first}, = loss.gradient({targets})"]
    if program.orders > 1:
        parts = [f"(g{name} * d{name}).sum()" for name in program.targets]
        second = ", ".join(f"h{name}" for name in program.targets)
        lines.append(f"{second}, = ({' + '.join(parts)}).gradient({targets})")
    return lines


def text_of(program: Program) -> str:
    """The program in whit, to be pasted."""
    lines = our_lines(program)
    if program.mood == "exact":
        return "\n".join([*lines, *([f"Tensor.realize({', '.join(program.ends)})"] if program.ends else [])])
    if not program.is_captured:
        return "\n".join([*lines, *factor_lines(program), *gradient_lines(program)])
    names = [f"{k}{name}" for k in "gh"[: program.orders] for name in program.targets]
    outer = [line for line in lines if "Tensor(M." in line]  # arrays cannot be made while a function is captured
    inner = [f"    {line}" for line in [*lines, *gradient_lines(program)] if line not in outer]
    results, given = ", ".join(["loss", *names]), ", ".join(program.targets)
    lines = [*outer, *factor_lines(program), "@TinyJit", f"def step({given}):", *inner, f"    return {results}"]
    lines += [
        f"step({', '.join(f'Tensor({name}.numpy() * 0.5)' for name in program.targets)})",
        f"{results} = step({given})",
    ]
    return "\n".join(lines)
