"""Schedules and compiles a saved graph, and runs it on zeros: what `python -m whit replay graph.whit [device]` does."""

from __future__ import annotations

from pathlib import Path

from whit.engine.devices.device import Device
from whit.engine.devices.disk import allocate
from whit.engine.memory.storage import nbytes_of
from whit.engine.plan.find_plan import load_scheduler
from whit.engine.plan.plan import make_plan
from whit.errors import ArgumentError, ParseError
from whit.ir import ops
from whit.ir.text.parse import parse


def replay(path: str, device: str) -> None:
    """What `realize` did with the graph."""
    try:
        graph = parse(Path(path).read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise ParseError(f"replay: {path} is no text", fix="Give a file that `realize` saved.") from None
    if isinstance(graph, tuple):
        raise ArgumentError(f"replay: {path} has several graphs", fix="Give a file that `realize` saved.")
    nodes = graph.topological()
    params = {node.arg.slot: node for node in nodes if node.op is ops.PARAM}
    backend = Device[device]
    loaded = backend.load(make_plan(load_scheduler(device)(graph), max(params, default=-1) + 1))
    buffers = []
    for slot in range(max(params, default=-1) + 1):
        node = params.get(slot)
        buffer = allocate(backend.name, nbytes_of(node.dtype, node.shape) if node is not None else 0)
        if buffer.address:
            buffer.write(memoryview(bytes(buffer.nbytes)))
        buffers.append(buffer)
    variables = {node.arg.name: node.arg.low for node in nodes if node.op is ops.VARIABLE}
    backend.run(loaded, buffers, variables)
    backend.synchronize()
