"""Whole models on the device CUDA beside PyTorch on the same GPU: steps of training, and forward passes.

    python bench/gpu_models.py                       every model, under TinyJit; torch eager and torch.compile
    python bench/gpu_models.py gpt2 --layers 2       these; GPT-2 of fewer layers
    python bench/gpu_models.py --no-compile          without torch.compile, whose first calls take long
    python bench/gpu_models.py gpt2 --kernels        the time of each kernel of a step on the GPU, by events
    python bench/gpu_models.py --first               the first step of a process: nothing compiled, then from the disk

A model is one function over weights and a namespace of layers, the same for both sides, with the same weights. GPT-2
has weights of bfloat16 and AdamW; residual networks have weights of float32 and compute in bfloat16 (for PyTorch:
channels last, under autocast), and are trained by SGD with momentum. Losses of a few steps, or outputs, are compared;
so is what the optimiser keeps of the first gradient of every weight, with that of PyTorch in float32: the norm of the
difference by the norm of the gradient. No weight may be twice as far off as PyTorch's own bfloat16, and one hundredth.
Then the contestants take turns; a number is the least of many steps, by events.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

import whit
from whit import Device, GlobalCounters, Tensor, TinyJit, nn
from whit.dtype import dtypes

Weights = dict[str, Any]
WORDS, DIM, HEADS = 50257, 768, 12
NUMBERS = np.random.default_rng(0).standard_normal((1 << 20) + 7, np.float32)  # repeated in every weight
TURNS, IN_A_ROW, COMPARED = 8, 3, 3


@dataclass
class Model:
    """A function of layers, weights and inputs, which gives logits; with labels it is trained."""

    name: str
    function: Callable[..., Any]
    weights: dict[str, np.ndarray]
    inputs: np.ndarray
    labels: np.ndarray | None = None
    is_mixed: bool = False  # computes in bfloat16 from weights of float32; otherwise weights are bfloat16
    tolerance: float = 2e-2


def numbers(*shape: int, scale: float) -> np.ndarray:
    """Normal ones."""
    return np.resize(NUMBERS, shape) * np.float32(scale)


# ---- the models


def gpt2(layers: int = 12, batch: int = 16, length: int = 1024) -> Model:
    """Norms before, causal, a head that shares the embedding: 124 million numbers with 12 layers."""
    weights = {"words": numbers(WORDS, DIM, scale=0.02), "places": numbers(length, DIM, scale=0.01)}
    shapes = {"qkv": (3 * DIM, DIM), "out": (DIM, DIM), "up": (4 * DIM, DIM), "down": (DIM, 4 * DIM)}
    for i in range(layers):
        for name, shape in shapes.items():
            weights[f"{i}.{name}"], weights[f"{i}.{name}.bias"] = numbers(*shape, scale=0.02), np.zeros(shape[0])
    for name in ("last", *(f"{i}.{norm}" for i in range(layers) for norm in ("norm1", "norm2"))):
        weights[name], weights[f"{name}.bias"] = np.ones(DIM), np.zeros(DIM)

    def function(n: Any, w: Weights, tokens: Any) -> Any:
        def linear(x: Any, name: str) -> Any:
            return n.linear(x, w[name], w[f"{name}.bias"])

        x = w["words"][tokens] + w["places"]  # (batch, length, dim)
        for i in range(layers):
            qkv = linear(n.layer_norm(x, w[f"{i}.norm1"], w[f"{i}.norm1.bias"]), f"{i}.qkv")
            q, k, v = (
                qkv[:, :, j * DIM : (j + 1) * DIM].reshape(batch, length, HEADS, -1).transpose(1, 2) for j in range(3)
            )
            x = x + linear(n.attention(q, k, v).transpose(1, 2).reshape(batch, length, DIM), f"{i}.out")
            y = n.layer_norm(x, w[f"{i}.norm2"], w[f"{i}.norm2.bias"])
            x = x + linear(n.gelu(linear(y, f"{i}.up")), f"{i}.down")
        return n.linear(n.layer_norm(x, w["last"], w["last.bias"]), w["words"]).reshape(batch * length, WORDS)

    tokens, labels = np.random.default_rng(1).integers(0, WORDS, (2, batch, length))
    return Model(f"gpt2 {layers} layers, {batch} x {length}", function, weights, tokens, labels.reshape(-1))


def resnet(depth: int, batch: int, is_trained: bool) -> Model:
    """On images of 224 x 224. Statistics of norms are those of the batch where it is trained, else given ones."""
    counts, wider = {18: ((2, 2, 2, 2), 1), 50: ((3, 4, 6, 3), 4)}[depth]
    weights: dict[str, np.ndarray] = {}
    blocks: list[tuple[str, int, bool]] = []  # name, stride, whether there is a convolution beside it

    def conv(name: str, outputs: int, inputs: int, size: int) -> None:
        weights[name] = numbers(outputs, inputs, size, size, scale=(2 / (inputs * size * size)) ** 0.5)
        weights[f"{name}.scale"], weights[f"{name}.bias"] = np.ones(outputs), np.zeros(outputs)
        if not is_trained:
            weights[f"{name}.mean"], weights[f"{name}.var"] = np.zeros(outputs), np.ones(outputs)

    conv("first", 64, 3, 7)
    width = 64
    for stage, count in enumerate(counts):
        inner = 64 << stage
        for i in range(count):
            name, outputs, stride = f"{stage}.{i}", inner * wider, 2 if stage and not i else 1
            if wider == 1:
                conv(f"{name}.a", inner, width, 3)
            else:
                conv(f"{name}.in", inner, width, 1)
                conv(f"{name}.a", inner, inner, 3)
            conv(f"{name}.b", outputs, inner, 3 if wider == 1 else 1)
            weights[f"{name}.b.scale"] = np.full(outputs, 0.2)  # keeps sums small
            if width != outputs:
                conv(f"{name}.short", outputs, width, 1)
            blocks.append((name, stride, width != outputs))
            width = outputs
    weights["last"], weights["last.bias"] = numbers(1000, width, scale=width**-0.5), np.zeros(1000)

    def function(n: Any, w: Weights, x: Any) -> Any:
        def normed(x: Any, name: str, stride: int = 1) -> Any:
            given = (w.get(f"{name}.{part}") for part in ("scale", "bias", "mean", "var"))
            return n.batch_norm(n.conv(x, w[name], stride, w[name].shape[-1] // 2), *given)

        x = n.pool(n.relu(normed(x, "first", 2)))
        for name, stride, has_short in blocks:
            y = n.relu(normed(x, f"{name}.in")) if wider > 1 else x
            y = normed(n.relu(normed(y, f"{name}.a", stride)), f"{name}.b")
            x = n.relu(y + (normed(x, f"{name}.short", stride) if has_short else x))
        return n.linear(x.mean((2, 3)), w["last"], w["last.bias"])

    images = numbers(batch, 3, 224, 224, scale=1.0)
    labels = np.random.default_rng(1).integers(0, 1000, batch) if is_trained else None
    what = "training" if is_trained else "forward"
    return Model(f"resnet{depth} {what}, batch {batch}", function, weights, images, labels, True, 5e-2)


MODELS: dict[str, Callable[..., Model]] = {
    "gpt2": gpt2,
    "resnet18-forward": lambda: resnet(18, 256, False),
    "resnet50-forward": lambda: resnet(50, 256, False),
    "resnet18": lambda: resnet(18, 128, True),
    "resnet50": lambda: resnet(50, 128, True),
}


# ---- ours


def our_layers() -> SimpleNamespace:
    """Products are of bfloat16, whatever the weights are."""
    narrow = dtypes.bfloat16

    def batch_norm(x: Tensor, scale: Tensor, bias: Tensor, mean: Any = None, var: Any = None) -> Tensor:
        wide = x.float()
        if mean is None:
            var, mean = wide.var_mean(axis=(0, 2, 3), correction=0)
        return wide.batchnorm(scale, bias, mean, (var + 1e-5).rsqrt()).cast(narrow)

    def linear(x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
        return x.linear(w.cast(narrow).T, None if b is None else b.cast(narrow))

    return SimpleNamespace(
        linear=linear,
        layer_norm=lambda x, w, b: x.layernorm() * w + b,
        batch_norm=batch_norm,
        attention=lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True),
        conv=lambda x, w, stride, padding: x.cast(narrow).conv2d(w.cast(narrow), stride=stride, padding=padding),
        pool=lambda x: x.max_pool2d(3, 2, padding=1),
        gelu=lambda x: x.gelu(),
        relu=lambda x: x.relu(),
    )


def our_step(model: Model, kept: Weights | None = None) -> Callable[[], Tensor]:
    """One call: the loss of a step, or logits. `kept` gets what the optimiser keeps of gradients, by the weights."""
    dtype = dtypes.float32 if model.is_mixed else dtypes.bfloat16
    weights = {name: Tensor(x.astype(np.float32)).cast(dtype) for name, x in model.weights.items()}
    x = Tensor(model.inputs.astype(np.float32 if model.is_mixed else np.int32), requires_grad=False)
    Tensor.realize(x, *weights.values())
    layers, function = our_layers(), model.function  # a captured function must not refer to the arrays of a model
    if model.labels is None:
        return lambda: function(layers, weights, x).realize()
    labels = Tensor(model.labels.astype(np.int32)).realize()
    parameters = list(weights.values())
    optimizer = nn.optim.SGD(parameters, 1e-3, momentum=0.9) if model.is_mixed else nn.optim.AdamW(parameters, 1e-4)
    if kept is not None:
        kept.update(zip(weights, optimizer.b if isinstance(optimizer, nn.optim.SGD) else optimizer.m, strict=True))

    def step() -> Tensor:
        with Tensor.train():
            optimizer.zero_grad()
            loss = function(layers, weights, x).cross_entropy(labels).backward()
            optimizer.step()
        return loss  # type: ignore[no-any-return]

    return step


# ---- PyTorch


def their_layers() -> SimpleNamespace:
    import torch

    f = torch.nn.functional

    def batch_norm(x: Any, scale: Any, bias: Any, mean: Any = None, var: Any = None) -> Any:
        return f.batch_norm(x, mean, var, scale, bias, training=mean is None)

    return SimpleNamespace(
        linear=f.linear,
        layer_norm=lambda x, w, b: f.layer_norm(x, w.shape, w, b),
        batch_norm=batch_norm,
        attention=lambda q, k, v: f.scaled_dot_product_attention(q, k, v, is_causal=True),
        conv=lambda x, w, stride, padding: f.conv2d(x, w, stride=stride, padding=padding),
        pool=lambda x: f.max_pool2d(x, 3, 2, 1),
        gelu=lambda x: f.gelu(x, approximate="tanh"),
        relu=torch.relu,
    )


def their_step(
    model: Model, is_compiled: bool, kept: Weights | None = None, is_exact: bool = False
) -> Callable[[], Any]:
    """The same as `our_step`; if it is to be exact, all in float32."""
    import torch

    dtype = torch.float32 if model.is_mixed or is_exact else torch.bfloat16

    def given(x: np.ndarray) -> Any:
        made = torch.from_numpy(np.array(x)).cuda()
        made = made.to(dtype) if made.is_floating_point() else made
        return made.to(memory_format=torch.channels_last) if made.ndim == 4 else made

    weights = {name: given(x).requires_grad_(model.labels is not None) for name, x in model.weights.items()}
    x, layers = given(model.inputs), their_layers()

    def logits() -> Any:
        with torch.autocast("cuda", torch.bfloat16, enabled=model.is_mixed and not is_exact):
            return model.function(layers, weights, x)

    if model.labels is None:
        forward = torch.compile(logits) if is_compiled else logits
        return torch.no_grad()(forward)  # type: ignore[no-any-return]
    labels, parameters = given(model.labels), list(weights.values())
    optimizer = (
        torch.optim.SGD(parameters, 1e-3, momentum=0.9) if model.is_mixed else torch.optim.AdamW(parameters, 1e-4)
    )

    def loss_of() -> Any:
        return torch.nn.functional.cross_entropy(logits().float() if model.is_mixed else logits(), labels)

    called = torch.compile(loss_of) if is_compiled else loss_of

    def step() -> Any:
        optimizer.zero_grad()
        loss = called()
        loss.backward()
        optimizer.step()
        if kept is not None:
            name = "momentum_buffer" if model.is_mixed else "exp_avg"
            kept.update({key: optimizer.state[weight][name] for key, weight in weights.items()})
        return loss.detach()

    return step


# ---- the contest


def measure(model: Model, with_compile: bool) -> bool:
    """Prints a line; whether the results were right."""
    import torch

    GlobalCounters.reset()
    kept: Weights = {}
    ours = TinyJit(our_step(model, kept))
    start = time.perf_counter()
    found = [ours().float().numpy()]
    first = time.perf_counter() - start
    gradients = {name: t.float().numpy() for name, t in kept.items()}
    found += [ours().float().numpy() for _ in range(COMPARED - 1)]
    theirs: Weights = {}
    contestants: dict[str, Callable[[], Any]] = {"torch": their_step(model, False, theirs)}
    expected = [contestants["torch"]().float().cpu().numpy()]
    far = compare_gradients(model, gradients, theirs) if gradients else ""
    expected += [contestants["torch"]().float().cpu().numpy() for _ in range(COMPARED - 1)]
    error = max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(found, expected, strict=True))
    if with_compile:
        contestants["compile"] = their_step(model, True)
        contestants["compile"]()
    gpu = Device["CUDA"].gpu  # type: ignore[attr-defined]
    best = dict.fromkeys(("jit", *contestants), float("inf"))
    for _ in range(TURNS):
        torch.cuda.synchronize()
        begin = gpu.event()
        for _ in range(IN_A_ROW):
            ours()
        best["jit"] = min(best["jit"], gpu.event().since(begin) / IN_A_ROW)
        for name, run in contestants.items():
            events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            events[0].record()
            for _ in range(IN_A_ROW):
                run()
            events[1].record()
            events[1].synchronize()
            best[name] = min(best[name], events[0].elapsed_time(events[1]) / IN_A_ROW / 1e3)
    text = f"{model.name:28s} jit {best['jit'] * 1e3:8.2f} ms, {ours.kernels} kernels, {peak() / 1e9:.1f} GB"
    text += "".join(f"   {name} {best[name] * 1e3:8.2f} ms {best[name] / best['jit']:5.2f}x" for name in contestants)
    wrong = "" if error < model.tolerance and "WRONG" not in far else "   WRONG"
    print(f"{text}   first step {first:.1f} s   error {error:.1e}{far}{wrong}", flush=True)
    return not wrong


def compare_gradients(model: Model, ours: dict[str, np.ndarray], theirs: Weights) -> str:
    """How far the gradients are from those of float32, of ours and of PyTorch's the worst and where."""
    import torch

    exact: Weights = {}
    torch.backends.cudnn.allow_tf32 = False
    their_step(model, False, exact, is_exact=True)()
    torch.backends.cudnn.allow_tf32 = True
    errors: dict[str, tuple[float, float]] = {}
    for name, right in exact.items():
        both = (torch.from_numpy(ours[name]).cuda(), theirs[name].float())
        errors[name] = tuple(float((each - right).norm() / right.norm()) for each in both)  # type: ignore[assignment]
    wrong = [f" WRONG {name} {mine:.1e}" for name, (mine, other) in errors.items() if not mine < 2 * other + 1e-2]
    texts = []
    for i, whose in enumerate(("", "torch ")):
        worst = max(errors, key=lambda name: errors[name][i])
        middle = sorted(error[i] for error in errors.values())[len(errors) // 2]
        texts.append(f"{whose}{middle:.1e}, {errors[worst][i]:.1e} at most ({worst})")
    return f"   gradients {'; '.join(texts)}{''.join(wrong[:5])}"


def peak() -> int:
    """The most bytes of the GPU that were in use at once."""
    return int(GlobalCounters.mem_peak)


def kernels(model: Model, most: int = 30) -> None:
    """Where the time of a step goes on the GPU."""
    step = our_step(model)
    start = time.perf_counter()
    step().realize()
    print(f"{model.name}: first step {time.perf_counter() - start:.2f} s", flush=True)
    step().realize()
    with whit.profile() as found:
        step().realize()
    print(f"{found.text(most)}\n{peak() / 1e9:.1f} GB at most", flush=True)


def first_steps(name: str, layers: int) -> None:
    """In two processes that share a folder for compiled kernels."""
    with tempfile.TemporaryDirectory() as folder:
        for state in ("empty", "full"):
            command = [sys.executable, __file__, name, "--layers", str(layers), "--one"]
            environment = {**os.environ, "CACHE_DIR": folder, "CUDA_CACHE_PATH": folder}  # the driver keeps code too
            result = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
            print(f"{state:5s} cache: {result.stdout.rstrip()}", flush=True)


def first_step(model: Model) -> None:
    """Of this process: weights are on the GPU before."""
    start = time.perf_counter()
    step = TinyJit(our_step(model))
    Device["CUDA"].synchronize()
    init = time.perf_counter() - start
    start, processor = time.perf_counter(), time.process_time()
    found = step().realize().float().numpy()
    first, processor = time.perf_counter() - start, time.process_time() - processor
    start = time.perf_counter()
    step().realize().float().numpy()
    second = time.perf_counter() - start
    print(
        f"{model.name}: init {init:.2f} s, first step {first:.2f} s ({processor:.2f} s of processors), "
        f"second {second * 1e3:.1f} ms, {found.reshape(-1)[0]:.4f}"
    )


def main() -> None:
    """Prints tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", choices=[[], *MODELS], help="which of the models")
    parser.add_argument("--layers", type=int, default=12, help="of GPT-2")
    for flag in ("--no-compile", "--kernels", "--first", "--one"):
        parser.add_argument(flag, action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    failed = 0
    for name in options.models or MODELS:
        try:
            failed += not run(name, options)
        except Exception:  # one that fails must not hide the others
            failed += 1
            traceback.print_exc()
    sys.exit(bool(failed))


def run(name: str, options: argparse.Namespace) -> bool:
    """What is wanted of one model; whether it was right."""
    if options.first:
        first_steps(name, options.layers)
        return True
    model = gpt2(options.layers) if name == "gpt2" else MODELS[name]()
    if options.one:
        first_step(model)
    elif options.kernels:
        kernels(model)
    else:
        return measure(model, not options.no_compile)
    return True


if __name__ == "__main__":
    main()
