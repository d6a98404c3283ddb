"""Two steps of training, in whit or PyTorch: outputs, losses, all gradients, and the statistics of norms.

The second step shows what the first has made of the parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from models import ours
from models.table import Case, arrays_of, weight_of
from whit import Tensor, TinyJit
from whit.nn import optim
from whit.nn.state import get_state_dict

RATE = 0.0625  # exact in float32, which is what optimisers keep it in
STATISTICS = ("running_mean", "running_var")
Results = dict[str, np.ndarray]  # by "1 output", "1 loss", "2 gradient of NAME", "end NAME" of a statistic


@dataclass(frozen=True)
class Trained:
    """A model in whit whose weights are set."""

    step: Any
    inputs: list[Tensor]
    parameters: dict[str, Tensor]
    statistics: dict[str, Tensor]
    optimizer: optim.Optimizer


def prepared(case: Case, dtype: str, device: str | None = None) -> Trained:
    """A model with its weights and inputs, on a device."""
    parts, step = case.build(ours)
    found = get_state_dict(parts)
    statistics = {name: x for name, x in found.items() if name.endswith(STATISTICS)}
    for name, x in found.items():
        if name in statistics:
            x.replace(Tensor(np.full(x.shape, float(name.endswith("var")), dtype), device=device).realize())
        elif not name.endswith("num_batches_tracked"):
            x.replace(Tensor(weight_of(name, x.shape, dtype), device=device))
    parameters = {name: x for name, x in found.items() if name not in statistics and is_trained(name)}
    for x in found.values():
        if device and x.device != device:
            x.to_(device)
    inputs = [Tensor(array, device=device, requires_grad=False) for array in arrays_of(case, dtype)]
    return Trained(step, inputs, parameters, statistics, _optimizer(case, list(parameters.values())))


def is_trained(name: str) -> bool:
    """Whether a tensor of this name is given to the optimiser."""
    return not name.startswith("frozen") and not name.endswith((*STATISTICS, "num_batches_tracked"))


def _optimizer(case: Case, parameters: list[Tensor]) -> optim.Optimizer:
    if case.optimizer == "sgd":
        return optim.SGD(parameters, lr=RATE, momentum=0.9)
    return (optim.AdamW if case.optimizer == "adamw" else optim.Adam)(parameters, lr=RATE)


def train(case: Case, dtype: str, is_captured: bool, device: str | None = None, steps: int = 2) -> Results:
    """Steps of training in whit."""
    made = prepared(case, dtype, device)

    def step(*given: Tensor) -> tuple[Tensor, ...]:
        made.optimizer.zero_grad()
        output, loss = made.step(*given)
        loss.backward()
        gradients = [x.grad for x in made.parameters.values()]
        made.optimizer.step()
        return output, loss, *gradients

    run = TinyJit(step) if is_captured else step
    results: Results = {}
    with Tensor.train():
        for number in range(1, steps + 1):
            output, loss, *gradients = run(*made.inputs)
            Tensor.realize(output, loss, *gradients)
            results |= {f"{number} output": output.numpy(), f"{number} loss": loss.numpy()}
            for name, gradient in zip(made.parameters, gradients, strict=True):
                results[f"{number} gradient of {name}"] = gradient.numpy()
    return results | {f"end {name}": x.numpy() for name, x in made.statistics.items()}


def gradients_at_once(case: Case, dtype: str, device: str | None = None) -> Results:
    """One step without an optimiser: the loss and all gradients, realised together."""
    made = prepared(case, dtype, device)
    with Tensor.train():
        output, loss = made.step(*made.inputs)
        gradients = loss.gradient(*made.parameters.values())
        Tensor.realize(output, loss, *gradients)
    named = {f"1 gradient of {name}": x.numpy() for name, x in zip(made.parameters, gradients, strict=True)}
    return {"1 output": output.numpy(), "1 loss": loss.numpy()} | named


def train_theirs(case: Case, dtype: str) -> Results:
    """The same in PyTorch."""
    import torch

    from models import theirs

    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, dtype))
    try:
        parts, step = case.build(theirs)
        parameters, statistics = dict[str, torch.Tensor](), dict[str, torch.Tensor]()
        _walk("", parts, parameters, statistics)
        with torch.no_grad():
            for name, x in parameters.items():
                x.copy_(torch.from_numpy(weight_of(name, tuple(x.shape), dtype)))
        parameters = {name: x for name, x in parameters.items() if is_trained(name)}
        values = list(parameters.values())
        optimizer: Any = {
            "sgd": lambda: torch.optim.SGD(values, lr=RATE, momentum=0.9),
            "adam": lambda: torch.optim.Adam(values, lr=RATE),
            "adamw": lambda: torch.optim.AdamW(values, lr=RATE),
        }[case.optimizer]()
        inputs, results = [torch.from_numpy(array) for array in arrays_of(case, dtype)], Results()
        for number in (1, 2):
            optimizer.zero_grad()
            output, loss = step(*inputs)
            loss.backward()
            results |= {f"{number} output": output.detach().numpy().copy(), f"{number} loss": loss.detach().numpy()}
            for name, x in parameters.items():
                if x.grad is not None:
                    results[f"{number} gradient of {name}"] = x.grad.numpy().copy()
            optimizer.step()
        return results | {f"end {name}": x.numpy() for name, x in statistics.items()}
    finally:
        torch.set_default_dtype(before)


def _walk(prefix: str, part: Any, parameters: dict[str, Any], statistics: dict[str, Any]) -> None:
    """What is trained and what is gathered, by our names."""
    if isinstance(part, dict | list):
        named = part.items() if isinstance(part, dict) else enumerate(part)
        for key, value in named:
            _walk(f"{prefix}{key}.", value, parameters, statistics)
        return
    for name, x in part.named_parameters():
        parameters[prefix + name] = x
    for name, x in part.named_buffers():
        if name.endswith(STATISTICS):
            statistics[prefix + name] = x


# ---- comparison


def fingerprint(name: str, x: np.ndarray) -> float:
    """One number of an array: its product with a fixed direction, which almost every change of it changes."""
    random = np.random.default_rng(sum(map(ord, name)))
    return float((x.astype(np.float64) * random.standard_normal(x.shape)).sum())


def problems(found: Results, expected: dict[str, float] | Results, tolerance: float) -> list[str]:
    """What differs by more than a part of its norm: `expected` has arrays, or fingerprints of them.

    A gradient that is 0 but for rounding (that of a bias before a batch norm) is compared with the largest of all.
    """
    largest = {
        kind: max((float(np.linalg.norm(x)) for name, x in found.items() if name.startswith(kind)), default=0.0)
        for kind in ("1 gradient", "2 gradient", "end")
    }
    bad = []
    for name, x in found.items():
        kind = next((kind for kind in largest if name.startswith(kind)), None)
        allowed = tolerance * max(float(np.linalg.norm(x)), 1e-2 * largest[kind] if kind else 0.0, 1e-6)
        wanted = expected.get(name)
        if wanted is None:
            wanted = np.zeros_like(x) if isinstance(next(iter(expected.values())), np.ndarray) else 0.0
        off = float(
            np.linalg.norm(x - wanted) if isinstance(wanted, np.ndarray) else abs(fingerprint(name, x) - wanted)
        )
        if isinstance(wanted, np.ndarray) and wanted.shape != x.shape:
            bad.append(f"{name} has shape {x.shape}, not {wanted.shape}")
        elif not off <= allowed:
            bad.append(f"{name} is off by {off:.2e}, {off / (allowed / tolerance):.1e} of its size")
    return bad
