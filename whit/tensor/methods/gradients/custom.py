"""Kernels written by hand: a graph of ranges, loads and stores in place of what the scheduler would make.

    def add(c, a, b):
        i = UOp.range(c.shape[0], 0)
        return c.store(a.index(i) + b.index(i), i)

    c, _, _ = Tensor.custom_kernel(Tensor.empty(16), a, b, fxn=add)

The function gets one PARAM for each tensor, in the tensor's shape, and gives a STORE or a GROUP of STOREs. The kernel
is verified, tiled, vectorised and compiled like any other. It runs at the call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from whit.errors import ArgumentError, DeviceError, NotSupportedError
from whit.ir import ops
from whit.ir.op import KERNEL
from whit.ir.uop import UOp, make
from whit.tensor.core import Core
from whit.tensor.custom_function import with_gradient
from whit.tensor.engine import run_kernel
from whit.tensor.topic import Topic
from whit.transform import own_rule

Gradient = Callable[[UOp, UOp], "tuple[UOp | None, ...]"]


class Custom(Topic):
    """The way around the scheduler."""

    __slots__ = ()

    def custom_kernel(self, *lst: Core, fxn: Callable[..., UOp], grad_fxn: Gradient | None = None) -> list[Self]:
        """Runs a kernel on this tensor and the others; returns them all, those it stores to with their new elements.

        `grad_fxn(gradient, kernel)` gets the gradient of the tensor that is stored to, and a node whose sources are
        those of all tensors; it gives a gradient for each, or None.
        """
        tensors: list[Any] = [self, *lst]
        for tensor in tensors:
            if not isinstance(tensor, Core):
                raise ArgumentError(f"custom_kernel: {tensor!r:.60} is no tensor", fix="Pass fxn= by name.")
        body, written = _body(fxn, tensors)
        device = _device(tensors)
        buffers = run_kernel(body, fxn.__name__, [tensor.uop for tensor in tensors], written, device)
        result = []
        for slot, (tensor, buffer) in enumerate(zip(tensors, buffers, strict=True)):
            if slot not in written:
                result.append(tensor)
                continue
            node = _with_gradient(buffer, tensors, grad_fxn, len(written)) if buffer.dtype.is_continuous else buffer
            result.append(self._wrap(node))
        return result

    @classmethod
    def custom_function(cls, forward: Callable[..., Any], gradient: Callable[..., Any]) -> Callable[..., Any]:
        """forward as a function whose gradient is `gradient(dy, y, *args, **kwargs)`: one for each tensor it is given.

        Where forward gives several tensors, dy and y are tuples.
        """
        return with_gradient(cls, forward, gradient)


def _body(fxn: Callable[..., UOp], tensors: list[Any]) -> tuple[UOp, list[int]]:
    """What the user's function gives, checked, and the slots it stores to."""
    params = [UOp.param(slot, tensor.dtype, tensor.shape) for slot, tensor in enumerate(tensors)]
    body: Any = fxn(*params)
    if isinstance(body, UOp) and body.op is ops.STORE:
        body = UOp.group(body)
    stores = body.src if isinstance(body, UOp) and body.op is ops.GROUP else ()
    if not stores or any(store.op is not ops.STORE or store.src[0] not in params for store in stores):
        raise ArgumentError(
            f"custom_kernel: {fxn.__name__} gives {body!r:.80}",
            "a kernel is a STORE, or a GROUP of STOREs, into the params that it was given",
            "Return c.store(value, position), or UOp.group(...) of several.",
        )
    from whit.ir.check.verify import verify  # lazy: only kernels written by hand need it

    verify(body, KERNEL)
    return body, sorted({params.index(store.src[0]) for store in stores})


def _device(tensors: list[Any]) -> str:
    devices = sorted({tensor.device for tensor in tensors})
    if len(devices) > 1:
        raise DeviceError(
            f"custom_kernel: the tensors are on {' and '.join(devices)}", fix=f'Move them: x.to("{devices[0]}").'
        )
    return str(devices[0])


def _with_gradient(buffer: UOp, tensors: list[Any], grad_fxn: Gradient | None, outputs: int) -> UOp:
    """The result as a function of all tensors, whose gradient the user gives."""

    def gradient(y: UOp, dy: UOp, *operands: UOp) -> tuple[UOp | None, ...]:
        if grad_fxn is None or outputs != 1:
            raise NotSupportedError(
                "gradient: of a custom kernel " + ("without grad_fxn" if grad_fxn is None else "of several outputs"),
                fix="Pass grad_fxn=, and store to one tensor; or detach the result.",
            )
        found = tuple(grad_fxn(dy, UOp.group(*operands)))
        if len(found) != len(operands):
            raise ArgumentError(
                f"custom_kernel: grad_fxn gives {len(found)} gradients for {len(operands)} tensors",
                fix="Give one for each, None where there is none.",
            )
        return found

    operands = (tensor.uop for tensor in tensors)
    return make(ops.FORMULA, (buffer, *operands), own_rule("custom_kernel", gradient))
