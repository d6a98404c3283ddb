"""What may be wrong with a node: what a file says about it, and what its operator says when it is computed.

check_node(node, inputs, outputs)       at load: numbers of inputs, graphs that loops and branches need
raise explained(error, node, inputs)    at run: whatever an operator stumbles over, with the node and what it got
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
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
    graphs: list[Any] = [node.get(name) for name in GRAPHS[node.op_type]]
    for name, found in zip(GRAPHS[node.op_type], graphs, strict=True):
        if not isinstance(found, graph):
            raise ArgumentError(f"onnx: {node} has no graph {name}", "", WRONG)
    if not _FITS[node.op_type](node, inputs, outputs, graphs):
        theirs = " and ".join(f"{len(found.inputs)} and {len(found.outputs)}" for found in graphs)
        raise ArgumentError(
            f"onnx: {node} and its graph do not fit together",
            f"it has {inputs} inputs and {outputs} outputs, its graph {theirs}",
            WRONG,
        )


def _fits_branches(node: Node, inputs: int, outputs: int, graphs: list[Any]) -> bool:
    return inputs == 1 and all(len(branch.outputs) >= outputs for branch in graphs)


def _fits_loop(node: Node, inputs: int, outputs: int, graphs: list[Any]) -> bool:
    (body,) = graphs
    return inputs >= 2 and len(body.inputs) == inputs and len(body.outputs) > max(inputs - 2, outputs)


def _fits_scan(node: Node, inputs: int, outputs: int, graphs: list[Any]) -> bool:
    (body,), scanned, given = graphs, node.get("num_scan_inputs"), inputs - (node.version < 9)
    if not isinstance(scanned, int) or not 0 < scanned <= given:
        return False
    return len(body.inputs) == given and len(body.outputs) >= max(given - scanned, outputs)


_FITS: Final[dict[str, Callable[[Node, int, int, list[Any]], bool]]] = {
    "If": _fits_branches,
    "Loop": _fits_loop,
    "Scan": _fits_scan,
    "SequenceMap": lambda node, inputs, outputs, graphs: True,
}


def check_results(node: Node, outputs: Sequence[str], results: Sequence[Any], read: Container[str]) -> None:
    """Raises where an output that is `read` is not among the results of an operator."""
    missing = [name for name in outputs[len(results) :] if name in read]
    if missing:
        raise ArgumentError(
            f"onnx: {node} gives {len(results)} outputs", f'the model reads another, "{missing[0]}"', WRONG
        )


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
