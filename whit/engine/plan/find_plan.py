"""The plan of a parametrised graph, ready for its device: found again, or scheduled and loaded.

    find_plan(graph, "CPU")         what `Device["CPU"].run` takes, beside the memory of each slot

Plans are kept under their graph, so that the second of its kind is one lookup; schedules and machine code are kept
below that (`find_or_make`, the device's `load`), on disk too.
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from whit.cache import RecentlyUsed
from whit.config import CHECK_PLAN, DEBUG, settings_key
from whit.dtype import encode
from whit.engine.compile.compile import prepare_compilers, using_compilers
from whit.engine.compile.progress import Compiling
from whit.engine.compile.schedules import find_or_make
from whit.engine.devices.device import Device
from whit.engine.devices.disk import allocate
from whit.engine.memory.storage import nbytes_of, storage
from whit.engine.memory.view import view_of_buffer
from whit.engine.plan.plan import make_plan, plan_of
from whit.engine.realize.failure import explain_failure
from whit.engine.realize.many_sizes import note_program
from whit.engine.realize.parametrise import Parametrised
from whit.engine.realize.reuse import can_overwrite
from whit.engine.report.launch_names import Traced, names_of, note_traced, watched
from whit.engine.report.show import show_graph, show_stored
from whit.engine.report.why_stored import WhyStored
from whit.errors import BackendError, UserError
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp
from whit.recording import hooks
from whit.runtime.buffer import Buffer, has_memory, is_on_host

if TYPE_CHECKING:
    from whit.engine.report.launch_words import LaunchName

MOST_STEPS = 4096  # kernels of all plans together: about 0.1 GB with their graphs
MOST_CONSTANTS = 10_000

# (graph, slots, device, settings) -> what the device's `load` gave
_plans: RecentlyUsed[tuple[Any, ...], Any] = RecentlyUsed(
    "engine.plans", MOST_STEPS, lambda loaded: 1 + len(getattr(plan_of(loaded), "steps", ()))
)
_constants: RecentlyUsed[tuple[UOp, str], Buffer] = RecentlyUsed("engine.constants", MOST_CONSTANTS)
_lock = threading.RLock()
# (key of the plan, output, input) -> whether they can be one memory
_reused: RecentlyUsed[tuple[Any, ...], bool] = RecentlyUsed("engine.reused", MOST_STEPS)


def find_plan(graph: Parametrised, device: str) -> Any:
    """What the device runs for a graph; made, if it is the first of its kind."""
    loaded = _plans.get(_key(graph, device))
    if loaded is None:
        start = perf_counter_ns()
        with Compiling(), using_compilers():
            loaded = _load(graph, device)
        note_program(graph.graph, device)
        for timer in hooks.timers():
            timer.prepared(device, start, perf_counter_ns())
    return loaded


def _key(graph: Parametrised, device: str) -> tuple[Any, ...]:
    """What a plan is found under. A slot that the graph does not use is passed all the same, so their number counts."""
    return graph.graph, len(graph.slots), device, settings_key()


def _load(graph: Parametrised, device: str) -> Any:
    """Schedules the graph and makes it ready for the device."""
    key = _key(graph, device)
    with _lock:
        known = _plans.get(key)
        if known is not None:  # another thread was first
            return known
        try:
            if DEBUG >= 5:
                show_graph("graph", graph.graph)
            if (recorder := hooks.recorder) is not None:
                recorder.begin_schedule()
            linear = find_or_make(graph.graph, device, lambda each: _scheduled(each, device))
            if DEBUG >= 5:
                show_graph("schedule", linear)
            plan = make_plan(linear, graph.outputs + len(graph.slots))
            if CHECK_PLAN:
                load_check("check_schedule").check_schedule(graph.graph, linear)
                load_check("check_plan").check_plan(graph.graph, plan)
            if (recorder := hooks.recorder) is not None:
                recorder.scheduled(graph.graph, plan, device)
            loaded = Device[device].load(plan)
        except (UserError, BackendError, MemoryError, Warning):  # the last: as errors, because the user wants them so
            raise
        except OSError:  # a pipe that nobody reads, a full disk
            raise
        except Exception as error:
            raise explain_failure(graph.graph, device, error) from error
        _plans[key] = loaded
        return loaded


def load_check(name: str) -> Any:
    """A proof of plans, which loads NumPy."""
    return importlib.import_module(f"whit.engine.plan.{name}")  # lazy: few programs ask for it


def _scheduled(graph: UOp, device: str) -> UOp:
    prepare_compilers(len(topological((graph,))), device)
    traced = Traced() if watched else None
    why = WhyStored() if DEBUG >= 3 else None
    linear = load_scheduler(device, traced, None if why is None else why.observe)(graph)
    if traced is not None:
        note_traced(graph, device, traced)
    if why is not None:
        show_stored(why.calls)
    return linear


def load_scheduler(
    device: str, traced: Traced | None = None, observe: Callable[..., None] | None = None
) -> Callable[[UOp], UOp]:
    """`whit.schedule.schedule`, for a device; a program that only builds graphs does not load it."""
    schedule: Callable[..., UOp] = importlib.import_module("whit.schedule").schedule  # lazy: the first realize does
    target = Device[device].target
    return lambda graph: schedule(graph, target, traced, observe)


def can_lie_in(graph: Parametrised, slot: int, memory: UOp, device: str) -> bool:
    """Whether an output can lie in a memory that the graph may read."""
    if memory not in graph.slots:
        return True
    place = graph.slots.index(memory)
    key = (*_key(graph, device), slot, place)
    found = _reused.get(key)
    if found is None:
        linear = plan_of(find_plan(graph, device)).linear
        found = _reused[key] = can_overwrite(linear, slot, graph.outputs + place)
    return found


def call_names(graph: Parametrised, device: str) -> tuple[LaunchName, ...]:
    """What the calls of the schedule of a graph compute, for people; nothing where that is not known."""
    return names_of(graph.graph, graph.places, device, lambda each, traced: load_scheduler(device, traced)(each))


# ---- what slots hold


def memory_of_slot(slot: UOp, device: str) -> Buffer:
    """The memory that a slot of a parametrised graph stands for."""
    if slot.op is ops.BUFFER:
        return storage(slot)
    part = view_of_buffer(slot)
    if part is None:
        return _constant(slot, device)
    memory, start = part
    return storage(memory).view(start, nbytes_of(slot.dtype, slot.shape))


def _constant(node: UOp, device: str) -> Buffer:
    """The memory of a number that is passed to kernels."""
    found = _constants.get((node, device))
    if found is None:
        found = _constants[node, device] = _wrapped(device, encoded(node))
    return found


def _wrapped(device: str, data: bytes) -> Buffer:
    """Bytes on a device, in the memory where they are if it can read that."""
    if is_on_host(device) or not has_memory(device):
        return Buffer.wrap(device, data)
    buffer = allocate(device, len(data), is_counted=False)
    buffer.write(memoryview(data))
    return buffer


def encoded(node: UOp) -> bytes:
    """The bytes of a CONST."""
    bits = encode(node.dtype, node.arg)
    return int(bits).to_bytes(node.dtype.itemsize, "little")


def _after_fork() -> None:
    global _lock  # noqa: PLW0603  a fork: nobody would release it
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
