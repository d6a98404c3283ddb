"""A kernel that the user wrote, run on tensors.

Goes in: the body of a kernel, a GROUP of STOREs over PARAMs, and the BUFFER of each slot. Comes out: a BUFFER with the
new content of each slot that is stored to; those that were given stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from whit.engine.devices.device import Device
from whit.engine.memory.storage import new_buffer, storage
from whit.engine.plan.plan import make_plan
from whit.ir import ops
from whit.ir.uop import UOp, make


def run_kernel(body: UOp, name: str, buffers: Sequence[UOp], written: Sequence[int], device: str) -> list[UOp]:
    """The BUFFERs after the kernel, in the order of the slots."""
    results = list(buffers)
    for slot in written:
        old = buffers[slot]
        results[slot] = new_buffer(old.dtype, old.shape, device)
        storage(results[slot]).copy_from(storage(old))
    params = [UOp.param(slot, buffer.dtype, buffer.shape) for slot, buffer in enumerate(buffers)]
    call = body.function(name).call(*params)
    backend = Device[device]
    loaded = backend.load(make_plan(make(ops.LINEAR, (call,)), len(params)))
    backend.run(loaded, [storage(result) for result in results], {})
    return results
