"""What may be wrong with a node: what a file says about it, and what its operator says when it is computed.

check_node(node, inputs, outputs)       at load: numbers of inputs, graphs that loops and branches need
raise explained(error, node, inputs)    at run: whatever an operator stumbles over, with the node and what it got
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from whit.errors import ArgumentError, NotSupportedError, WhitError
from whit.ir.op import spell_shape
from whit.onnx.operators.registry import Node, Operator, find
from whit.tensor import Tensor

WRONG: Final = "The model is wrong: export it again, or check it with the program that wrote it."
TAKES_ANY: Final = 0x04  # of a code object's flags: *arguments
MOST_SHOWN: Final = 9  # inputs in a message

GRAPHS: Final[dict[str, tuple[str, ...]]] = {
    "If": ("then_branch", "else_branch"),
    "Loop": ("body",),
    "Scan": ("body",),
    "SequenceMap": ("body",),
}


def check_node(node: Node, inputs: Sequence[str], outputs: Sequence[str], graph: type) -> None:
    """Raises where a node cannot be meant so. An operator that nobody knows is somebody else's matter. `graph` is the
    class of graphs."""
    if node.domain == "" and node.op_type in GRAPHS:
        _check_graphs(node, len(inputs), len(outputs), graph)
        return
    try:
        least, most = inputs_of(find(node.domain, node.op_type, node.version))
    except NotSupportedError:
        return
    if not least <= len(inputs) <= most:
        wanted = f"{least}" if least == most else f"{least} or more" if most > 1 << 30 else f"{least} to {most}"
        raise ArgumentError(f"onnx: {node} has {len(inputs)} inputs", f"the operator takes {wanted}", WRONG)


def inputs_of(record: Operator) -> tuple[int, int]:
    """How many inputs an operator takes, at least and at most."""
    code = getattr(record.function, "__code__", None)
    if code is None:
        return 0, 1 << 62
    count = code.co_argcount - 1  # the first is the node
    return count - len(record.function.__defaults__ or ()), 1 << 62 if code.co_flags & TAKES_ANY else count


def _check_graphs(node: Node, inputs: int, outputs: int, graph: type) -> None:
    for name in GRAPHS[node.op_type]:
        if not isinstance(node.get(name), graph):
            raise ArgumentError(f"onnx: {node} has no graph {name}", "", WRONG)
    body: Any = node.get("body")
    if node.op_type == "If":
        branches = [len(node.get(name).outputs) for name in GRAPHS["If"]]
        if inputs != 1 or min(branches) < outputs:
            raise ArgumentError(
                f"onnx: {node} has {inputs} inputs and {outputs} outputs",
                f"it takes 1 condition; its graphs give {branches[0]} and {branches[1]}",
                WRONG,
            )
    elif node.op_type == "Loop":
        carried = inputs - 2
        fits = carried >= 0 and len(body.inputs) == inputs and len(body.outputs) > carried
        if not fits or outputs > len(body.outputs) - 1:
            raise _unfit(node, inputs, outputs, body)
    elif node.op_type == "Scan":
        scanned, given = node.get("num_scan_inputs"), inputs - (node.version < 9)
        fits = isinstance(scanned, int) and 0 < scanned <= given == len(body.inputs)
        if not fits or len(body.outputs) < max(given - scanned, outputs):
            raise _unfit(node, inputs, outputs, body)


def _unfit(node: Node, inputs: int, outputs: int, body: Any) -> ArgumentError:
    return ArgumentError(
        f"onnx: {node} and its graph do not fit together",
        f"it has {inputs} inputs and {outputs} outputs, its graph {len(body.inputs)} and {len(body.outputs)}",
        WRONG,
    )


def check_results(node: Node, count: int, missing: Sequence[str]) -> None:
    """Raises where outputs that somebody reads are not among the `count` that an operator gave."""
    if missing:
        raise ArgumentError(f"onnx: {node} gives {count} outputs", f'the model reads another, "{missing[0]}"', WRONG)


def explained(error: Exception, node: Node, given: Sequence[Any]) -> Exception:
    """An error of ours as it is; another one as ours. Both are told which node it was."""
    if isinstance(error, WhitError):
        return error
    kinds = [_spell(value) for value in given[:MOST_SHOWN]] + ["..."] * (len(given) > MOST_SHOWN)
    if isinstance(error, MemoryError):
        return NotSupportedError(
            f"onnx: {node} needs more memory than there is",
            f"of {', '.join(kinds) or 'nothing'}",
            "Give smaller inputs, or free memory.",
        )
    reason = str(error) or type(error).__name__
    found = ArgumentError(
        f"onnx: {node} cannot be computed", f"of {', '.join(kinds) or 'nothing'}: {reason:.300}", WRONG
    )
    found.__cause__ = error
    return found


def _spell(value: Any) -> str:
    """What a value is, for messages."""
    if value is None:
        return "nothing"
    if isinstance(value, Tensor):
        return f"{value.dtype.name}{spell_shape(value.shape)}"
    if isinstance(value, np.ndarray):
        name = "text" if value.dtype.kind in "OUS" else value.dtype.name
        shown = f" {value.tolist()}" if 0 < value.size <= 4 and value.dtype.kind in "biuf" else ""
        return f"{name}{spell_shape(value.shape)}{shown}"
    if isinstance(value, list):
        return f"a sequence of {len(value)}"
    return "a constant" if type(value).__module__.endswith("constants") else type(value).__name__
