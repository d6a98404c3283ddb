"""One step of an algorithm, run many times: the graph is built, parametrised and planned once.

    repeat(lambda k, state: [state[0] * 2 + k], [x], 5)      # x -> x * 2 + 0 -> ... -> ... + 4

The number of the step is a variable, so that all steps are the same kernels. A step after the first costs a launch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from whit.engine.devices.device import Device
from whit.engine.devices.disk import allocate
from whit.engine.memory.storage import attach, nbytes_of, storage
from whit.engine.plan.find_plan import find_plan, memory_of_slot
from whit.engine.realize.parametrise import below, parametrise
from whit.errors import InternalError
from whit.ir.uop import UOp

Step = Callable[[UOp, Sequence[UOp]], Sequence[UOp]]


def repeat(step: Step, state: Sequence[UOp], count: int, device: str) -> list[UOp]:
    """The BUFFERs of a state after `count` steps. A step gives the next state, in the same shapes and dtypes."""
    if not count:
        return list(state)
    number = UOp.variable("step", 0, max(count - 1, 1)).bind(0)
    roots = list(step(number, state))
    if [(node.dtype, node.shape) for node in roots] != [(node.dtype, node.shape) for node in state]:
        raise InternalError("repeat: a step changes the dtypes or shapes of its state")
    graph = parametrise(roots, below(roots)[0])
    loaded = find_plan(graph, device)
    read = [storage(node) for node in state]
    written, spare = ([allocate(device, nbytes_of(node.dtype, node.shape)) for node in state] for _ in range(2))
    places = [state.index(slot) if slot in state else None for slot in graph.slots]
    others = [memory_of_slot(slot, device) for slot in graph.slots]
    for k in range(count):
        inputs = [other if place is None else read[place] for place, other in zip(places, others, strict=True)]
        Device[device].run(loaded, [*written, *inputs], {"step": k})
        read, written, spare = written, spare, written
    return [attach(buffer, node.dtype, node.shape) for buffer, node in zip(read, state, strict=True)]
