"""`torch.autograd`: gradients by name, functions with gradients of their own, derivatives as functions.

(dx,) = torch.autograd.grad(loss, [x])
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from whit.containers import flatten
from whit.errors import ArgumentError
from whit.ir import ops
from whit.tensor import Tensor
from whit.torch.autograd import functional
from whit.torch.autograd.function import Function
from whit.torch.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from whit.transform import flow

__all__ = [
    "Function",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "functional",
    "grad",
    "gradcheck",
    "inference_mode",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
]


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The gradients of outputs, or of sum(output * its grad_output), with respect to each input: a tuple of tensors.

    `allow_unused=True`: None for an input that no output depends on, instead of an error; with `materialize_grads`,
    zeros. Gradients are graphs like others, whatever `create_graph` says, and can be asked for again.
    """
    results, seeds, targets = _listed(outputs), _listed(grad_outputs), flatten(Tensor, inputs)[0]
    seeds = seeds if seeds and grad_outputs is not None else [None] * len(results)
    if len(seeds) != len(results) or not targets:
        raise ArgumentError(
            f"autograd.grad: {len(results)} outputs, {len(seeds)} grad_outputs, {len(targets)} inputs",
            fix="Give a tensor or a list of them for each; as many grad_outputs as outputs.",
        )
    if is_grads_batched:
        raise ArgumentError("autograd.grad: is_grads_batched=True", fix="Use torch.vmap of a function of one gradient.")
    found: list[Any] = [None] * len(targets)
    for result, seed in zip(results, seeds, strict=True):
        for place, gradient in enumerate(result.gradient(*targets, gradient=seed)):
            found[place] = gradient if found[place] is None else found[place] + gradient
    if materialize_grads:
        return tuple(found)
    reached = set(flow(tuple(result.uop for result in results)))
    for place, target in enumerate(targets):
        if target.uop in reached or not _is_zero(found[place]):
            continue
        if not allow_unused:
            raise ArgumentError(
                f"autograd.grad: the outputs do not depend on input {place}",
                target._made(),
                "Leave it out; or allow_unused=True gives None for it.",
            )
        found[place] = None
    return tuple(found)


def _is_zero(gradient: Tensor) -> bool:
    """Whether a gradient is that of a target which is not in the graph: a number, spread out."""
    node = gradient.uop
    while node.op in (ops.EXPAND, ops.RESHAPE):
        node = node.src[0]
    return node.op is ops.CONST


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return [value] if isinstance(value, Tensor) else list(value)


def backward(tensors: Any, grad_tensors: Any = None, **options: Any) -> None:
    """`backward()` of each tensor."""
    results, seeds = _listed(tensors), _listed(grad_tensors)
    for place, result in enumerate(results):
        result.backward(seeds[place] if seeds else None)


def Variable(data: Any, requires_grad: bool = False) -> Tensor:  # noqa: N802  # PyTorch's name
    """The tensor itself: once, only these took gradients."""
    found = data if isinstance(data, Tensor) else Tensor(data)
    return found.requires_grad_(True) if requires_grad else found


@contextmanager
def detect_anomaly(mode: bool = True, check_nan: bool = True) -> Iterator[None]:
    """Nothing to do: errors name the line that made the tensor."""
    yield


def set_detect_anomaly(mode: bool, check_nan: bool = True) -> None:
    """Nothing to do."""


def gradcheck(
    func: Any, inputs: Any, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3, raise_exception: bool = True
) -> bool:
    """Whether the gradients of a function are those that finite differences give. Inputs are best float64."""
    given = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    targets = [tensor for tensor in given if isinstance(tensor, Tensor) and tensor.requires_grad]
    result = func(*given)
    seed = Tensor.rand(*result.shape, dtype=result.dtype)
    for target, exact in zip(targets, result.gradient(*targets, gradient=seed), strict=True):
        flat = target.detach().flatten().clone().realize()
        for place in range(flat.numel()):
            ends = []
            for step in (eps, -eps):
                moved = flat.clone()
                moved[place] += step
                others = [moved.reshape(target.shape) if each is target else each for each in given]
                ends.append((func(*others) * seed).sum().item())
            found, wanted = (ends[0] - ends[1]) / (2 * eps), exact.flatten()[place].item()
            if abs(found - wanted) <= atol + rtol * abs(found):
                continue
            if raise_exception:
                raise ArgumentError(
                    f"gradcheck: element {place} of the gradient is {wanted}, by differences {found}",
                    target._made(),
                    "Look at backward(); inputs of float32 are too coarse for this.",
                )
            return False
    return True
