"""Programs whose kernels are compared: the models and works of bench/, built of Tensors by each checkout.

    @program("training step: mlp")
    def _() -> None: ...                realizes what it computes, on the default device

A driver runs them on a device that computes nothing, so that a change above the schedule is seen too. They use public
names alone. Weights are memory that nobody fills. `sample=False`: only with --all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import numpy as np

from whit import Tensor, Variable, dtypes
from whit.errors import DeviceError

PROGRAMS: dict[str, Callable[[], None]] = {}


def program(name: str, sample: bool = True) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Makes a function one of the programs. Names are found in the text of this file too, so they are literals."""

    def enter(function: Callable[[], None]) -> Callable[[], None]:
        PROGRAMS[name] = function
        return function

    return enter


def empty(*shape: int, dtype: Any = dtypes.float32) -> Tensor:
    """Memory of a tensor."""
    return Tensor.empty(*shape, dtype=dtype, requires_grad=True).realize()


def each(results: Iterable[Tensor]) -> None:
    """Realizes tensors, each with a schedule of its own."""
    for result in results:
        result.realize()


# ---- works of the CPU


def run_works(works: Iterable[Any]) -> None:
    """What `bench/cpu.py` measures."""
    kinds = {"float32": dtypes.float32, "bfloat16": dtypes.bfloat16}
    for work in works:
        given = [empty(*shape, dtype=kinds[work.dtype]) for shape in work.shapes]
        if work.below:
            given[-1] = Tensor.empty(*work.shapes[-1], dtype=dtypes.int32).realize()
        with suppress(DeviceError):  # its shape is data, which there is none of; the kernels so far are noted
            result = work.ours(*given)
            Tensor.realize(*(result if isinstance(result, list | tuple) else [result]))


@program("cpu works: main")
def _() -> None:
    from cpu_works import main_works  # here, as below: a program that cannot be imported fails alone

    run_works(main_works())


@program("cpu works: matmul")
def _() -> None:
    from cpu_works import matmul_works

    run_works(matmul_works())


@program("cpu works: odd")
def _() -> None:
    from cpu_works import odd_works

    run_works(odd_works())


# ---- training and forward passes


@program("training step: mlp")
def _() -> None:
    from training_models import mlp

    mlp().step().realize()


@program("training step: convnet")
def _() -> None:
    from training_models import convnet

    convnet().step().realize()


@program("training step: gpt")
def _() -> None:
    from training_models import gpt

    gpt(layers=2).step().realize()


def forward(model: Any, layers: Any) -> None:
    """A model of `bench/forward.py`."""
    weights = {name: empty(*value.shape) for name, value in model.weights.items()}
    given: list[Any] = [
        empty(*x.shape) if x.dtype.kind == "f" else Tensor.empty(*x.shape, dtype=dtypes.int32).realize()
        for x in model.inputs
    ]
    if model.context:
        given.append(Variable("position", 0, model.context - 1).bind(7))
    model.function(layers, weights, *given).realize()


def forward_models() -> Any:
    """The module, whose weights are not filled: that takes longer than all kernels."""
    import forward as module

    module.matrix = lambda *shape: np.empty(shape, np.float32)
    return module


@program("forward: gpt2")
def _() -> None:
    models = forward_models()
    forward(models.gpt2(layers=2), models.our_layers())


@program("forward: bert")
def _() -> None:
    models = forward_models()
    forward(models.bert(layers=2), models.our_layers())


@program("forward: resnet18, batch 8")
def _() -> None:
    models = forward_models()
    forward(models.resnet18(8), models.our_layers())


@program("forward: decode")
def _() -> None:
    models = forward_models()
    forward(models.decode(layers=2), models.our_layers())


# ---- products


@program("products of models")
def _() -> None:
    from model_shapes import SHAPES

    for _, batch, m, k, n, layout in SHAPES:
        product(dtypes.float32, (m, k, n), layout, (batch,) if batch else ())


def product(dtype: Any, sizes: tuple[int, int, int], layout: str = "nn", batch: tuple[int, ...] = ()) -> None:
    """One product of matrices."""
    m, k, n = sizes
    a = empty(*batch, m, k, dtype=dtype) if layout[0] == "n" else empty(*batch, k, m, dtype=dtype).transpose(-1, -2)
    b = empty(*batch, k, n, dtype=dtype) if layout[1] == "n" else empty(*batch, n, k, dtype=dtype).transpose(-1, -2)
    (a @ b).realize()


@program("products of halves")
def _() -> None:
    sizes = [(4096, 4096, 4096), (16384, 768, 3072), (512, 4096, 6144), (64, 4096, 4096), (17, 4096, 14336)]
    for dtype in (dtypes.bfloat16, dtypes.float16):
        for each_size in sizes:
            for layout in ("nn", "nt"):
                product(dtype, each_size, layout)
        product(dtype, (768, 16384, 2304), "tn")
        product(dtype, (1024, 64, 1024), "nt", (192,))
        product(dtype, (4001, 4003, 4005))


@program("products of bytes")
def _() -> None:
    for dtype in (dtypes.int8, dtypes.fp8e4m3, dtypes.fp8e5m2):
        a, b = (Tensor.empty(4096, 4096, dtype=dtype).realize() for _ in range(2))
        each([a.matmul(b.T, dtype=dtypes.int32 if dtype is dtypes.int8 else dtypes.bfloat16)])


@program("around products")
def _() -> None:
    kind, n = dtypes.bfloat16, 4096
    x, y, z, u = empty(n, n, dtype=kind), empty(n, n, dtype=kind), empty(n, dtype=kind), empty(n, n, dtype=kind)
    each([(x @ y + z).relu(), (x @ y).gelu(), x @ y + z + u, (x @ y).silu() * u])
    each([(x * 2) @ y, x.relu() @ y, x @ (y * 2), x.layernorm() @ y])


@program("matrices and vectors")
def _() -> None:
    for dtype in (dtypes.bfloat16, dtypes.float32):
        for rows in (1, 2, 4, 8):
            for layout in ("nn", "nt"):
                product(dtype, (rows, 4096, 4096), layout)


# ---- convolutions and attention

CONVOLUTIONS = [  # batch, channels, outputs, size, window, stride, padding, groups
    (8, 64, 64, 56, 3, 1, 1, 1),
    (8, 256, 64, 56, 1, 1, 0, 1),
    (8, 128, 128, 56, 3, 1, 1, 128),
    (8, 3, 64, 224, 7, 2, 3, 1),
    (16, 64, 128, 32, 3, 2, 1, 1),
]


@program("convolutions")
def _() -> None:
    for dtype in (dtypes.float32, dtypes.bfloat16):
        for batch, channels, outputs, size, window, stride, padding, groups in CONVOLUTIONS:
            x = empty(batch, channels, size, size, dtype=dtype)
            w = empty(outputs, channels // groups, window, window, dtype=dtype)
            y = x.conv2d(w, stride=stride, padding=padding, groups=groups)
            dx, dw = y.gradient(x, w, gradient=empty(*y.shape, dtype=dtype))
            each([y, dx, dw])


@program("attention")
def _() -> None:
    for dtype in (dtypes.float32, dtypes.bfloat16):
        for shape in ((2, 8, 512, 64), (8, 4, 64, 32), (1, 12, 1024, 64)):
            for is_causal in (False, True):
                q, k, v, g = (empty(*shape, dtype=dtype) for _ in range(4))
                out = q.scaled_dot_product_attention(k, v, is_causal=is_causal)
                Tensor.realize(out, *out.gradient(q, k, v, gradient=g))


# ---- models for GPUs


def gpu_step(build: Callable[[Any], Any]) -> None:
    """A step of a model of `bench/gpu_models.py`, whose weights are not filled."""
    import gpu_models as module

    module.numbers = lambda *shape, scale: np.empty(shape, np.float32)
    module.our_step(build(module))().realize()


@program("gpu: gpt2 training", sample=False)
def _() -> None:
    gpu_step(lambda models: models.gpt2(layers=2, batch=4, length=1024))


@program("gpu: resnet18 training", sample=False)
def _() -> None:
    gpu_step(lambda models: models.resnet(18, 16, True))


@program("gpu: resnet50 forward", sample=False)
def _() -> None:
    gpu_step(lambda models: models.resnet(50, 16, False))


def decode(kind: str) -> None:
    """A token of a small model with the layers of Llama."""
    from gpu_decode import Ours, Shape, our_weights, step

    shape = Shape(2, 1024, 8, 2, 128, 2048, 4096, 512)
    device = Tensor.empty(1).device
    token = Tensor.empty(1, dtype=dtypes.int32).realize()
    step(Ours, shape, our_weights(shape, device, kind), token, Variable("position", 0, 511).bind(3)).realize()


@program("decode: bfloat16")
def _() -> None:
    decode("")


@program("decode: Q4_K")
def _() -> None:
    decode("Q4_K")


@program("decode: Q8_0", sample=False)
def _() -> None:
    decode("Q8_0")
