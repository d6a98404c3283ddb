"""A graph of tensors in operators of ONNX.

    to = Translator(Sheet(), {x: "x"}, weights, calls, 18)
    to.name(x.relu())                       # "Relu_0", with the nodes before it in `to.sheet`

Functions that were called (`calls`), and those that whit knows by name (FORMULA), become the operator of that name,
where ONNX has one: Gelu, Conv, MaxPool. Products become MatMul. What does not depend on the inputs is computed now and
becomes a tensor of the file, under its name in the state dict if it has one. Nodes are called after the layer that made
them. The walk has a stack of its own: a chain of 100,000 nodes is written, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from whit.dtype import DType, dtypes, encode
from whit.engine.realize.many_sizes import expecting_sizes
from whit.engine.report.launch_names import made
from whit.errors import NotSupportedError
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.op import Op
from whit.ir.placeholder import new_stand_in
from whit.ir.uop import UOp, const
from whit.onnx.types import DTYPES
from whit.onnx.writing.calls import write_call
from whit.onnx.writing.elements import write_element
from whit.onnx.writing.loops import write_loop
from whit.onnx.writing.memory import write_index, write_sort, write_written
from whit.onnx.writing.movement import MOVEMENT, aligned, bare
from whit.onnx.writing.products import write_known, write_reduce, write_softmax
from whit.onnx.writing.sheet import Sheet
from whit.tensor import Tensor
from whit.tensor.told import Call

ELEMENTS: Final = {dtype: number for number, dtype in DTYPES.items()}
SAME_VALUE: Final = frozenset({*ops.SAME_VALUE, ops.RECOMPUTE, ops.STAGE, ops.COPY})
VARIABLES: Final = frozenset({ops.VARIABLE, ops.BIND})
Name = str | tuple[str, ...]  # of a value, or of the members of a group


class _MissingError(Exception):
    """A value is asked for that is not written yet."""

    def __init__(self, node: UOp) -> None:
        super().__init__()
        self.node = node


class Translator:
    """Values of one graph of ONNX by node."""

    def __init__(
        self,
        sheet: Sheet,
        values: Mapping[UOp, str],
        weights: Mapping[UOp, str],
        calls: Mapping[UOp, Call],
        opset: int,
    ) -> None:
        self.sheet = sheet
        self.weights = weights
        self.calls = calls
        self.opset = opset
        self._names: dict[UOp, Name] = dict(values)
        self._standing: dict[str, UOp] = {}  # one node a name: a writer that is called again must ask for the same
        self._depends: dict[UOp, bool] = dict.fromkeys(values, True)

    # ---- what writers of ops ask for

    def name(self, node: UOp) -> str:
        """The name of a value. A writer that asks for one that is not there is called again when it is."""
        found = self.names(node)
        if isinstance(found, tuple):
            raise NotSupportedError(f"onnx.export: {node.op.name} gives several values", fix="Take one of them.")
        return found

    def names(self, node: UOp) -> Name:
        """The same of a group, too."""
        found = self._names.get(node)
        if found is None:
            raise _MissingError(node)
        return found

    def number(self, dtype: DType, value: float) -> str:
        """A number as a tensor of shape ()."""
        return self.constant(const(dtype, value))

    def known(self, node: UOp, name: str) -> None:
        """Says what a node is called."""
        self._names[node] = name
        self._depends[node] = True

    def stand_for(self, name: str, dtype: DType, shape: tuple[object, ...]) -> UOp:
        """A node for a value that has a name only, so that movement can be written of it."""
        node = self._standing.get(name)
        if node is None:
            node = self._standing[name] = new_stand_in(dtype, shape, None)
            self.known(node, name)
        return node

    def element(self, node: UOp, dtype: DType | None = None) -> int:
        """The number of its type in ONNX."""
        wanted = dtype or node.dtype
        found = ELEMENTS.get(dtypes.int64 if wanted is dtypes.weakint else wanted)
        if found is None:
            raise self.error(node, f"ONNX has no tensors of {wanted.name} that operators compute with")
        return found

    def sizes(self, shape: tuple[object, ...]) -> str:
        """A shape as a tensor; symbolic sizes are computed in the file."""
        if all(type(size) is int for size in shape):
            return self.sheet.numbers(shape)  # type: ignore[arg-type]
        parts = [self.size(size) for size in shape]
        return parts[0] if len(parts) == 1 else self.sheet.add("Concat", *parts, axis=0)

    def size(self, size: object) -> str:
        """One size, as a tensor of shape (1,)."""
        if isinstance(size, UOp):
            return self.sheet.add("Reshape", self.name(size), self.sheet.numbers([1]))
        return self.sheet.numbers([size])  # type: ignore[list-item]

    def inside(self, sheet: Sheet, values: Mapping[UOp, str]) -> Translator:
        """That of a function's body, or of a graph inside this one."""
        return Translator(sheet, values, self.weights, self.calls, self.opset)

    def error(self, node: UOp, why: str) -> NotSupportedError:
        """That an op cannot be written."""
        return NotSupportedError(
            f"onnx.export: {node.op.name} has no form in ONNX",
            f"{why}\n{node.short()}",
            "Compute that part outside of the function, or say it in other operations.",
        )

    # ---- the walk

    def write(self, root: UOp) -> Name:
        """The name of a value, and nodes for all that it needs."""
        stack = [(root, _scope(root))]
        while stack:
            node, self.sheet.scope = stack[-1]
            if node not in self._names:
                try:
                    self._names[node] = self._write(node)
                except _MissingError as missing:  # what no layer has made is for the one that needs it
                    stack.append((missing.node, _scope(missing.node) or self.sheet.scope))
                    continue
            stack.pop()
        return self._names[root]

    def _write(self, node: UOp) -> Name:
        if node in self.weights:
            return self.constant(node, self.weights[node])
        if self._is_constant(node):
            return self.constant(node)
        call = self.calls.get(node)
        if call is not None and (whole := write_call(self, node, call)) is not None:
            return whole
        if node.op is ops.FORMULA:
            known = write_known(self, node)
            return self.names(node.src[0]) if known is None else known
        if node.op in SAME_VALUE:
            return self.names(node.src[0])
        writer = WRITERS.get(node.op) or MOVEMENT.get(node.op)
        if writer is not None:
            return writer(self, node)
        if node.op.elementwise:
            return self._element(node)
        raise self.error(node, "there is no operator that does the same")

    def _element(self, node: UOp) -> str:
        """Operands may be smaller than the result, as operators spread them; all of them are: the result is spread."""
        softmax = write_softmax(self, node)
        if softmax is not None:
            return softmax
        magnitude = _asked_for_sign(node)
        if magnitude is not None:
            return self.is_negative(magnitude)
        operands = [bare(source) for source in node.src]
        if any(len(operand.shape) == len(node.shape) for operand in operands):
            operands = [aligned(operand) for operand in operands]
        self.element(node)
        found = write_element(self, node, tuple(self.name(operand) for operand in operands))
        if found is None:
            raise self.error(node, "there is no operator that does the same")
        shape = _common_shape([operand.shape for operand in operands])
        if shape == node.shape:
            return found
        return self.sheet.add("Expand", found, self.sizes(node.shape))

    def is_negative(self, x: UOp) -> str:
        """Whether the sign of a float is -, that of -0.0 too."""
        add, name, zero = self.sheet.add, self.name(x), self.number(x.dtype, 0)
        return add("Or", add("Less", name, zero), add("Less", add("Reciprocal", name), zero))

    # ---- constants

    def _is_constant(self, node: UOp) -> bool:
        """Whether it is known now. Weights stay as they are, and are moved in the file; numbers are not repeated."""
        if self.depends(node) or node.dtype is dtypes.void:
            return False
        return node.op is not ops.EXPAND and not (
            (node.op in MOVEMENT or node.op in SAME_VALUE) and self._is_weight(node)
        )

    def _is_weight(self, node: UOp) -> bool:
        while node not in self.weights and (node.op in MOVEMENT or node.op in SAME_VALUE):
            node = node.src[0]
        return node in self.weights

    def depends(self, node: UOp) -> bool:
        """Whether a value depends on the inputs, or on sizes of them."""
        known = self._depends
        if node not in known:
            for each in topological([node], stop=known):
                if each not in known:
                    known[each] = (
                        each.op in VARIABLES
                        or each.op is ops.PARAM
                        or (not each.op.opaque and any(known[s] for s in each.src))
                    )
        return known[node]

    def constant(self, node: UOp, name: str = "") -> str:
        """A tensor of the file with the value that a node has now."""
        dtype = dtypes.int64 if node.dtype is dtypes.weakint else node.dtype
        element = self.element(node)
        if node.op is ops.CONST:
            return self.sheet.tensor(element, (), _bytes_of(dtype, node.arg), name)
        with expecting_sizes():  # as many as the model has weights
            tensor = Tensor._make(node).cast(dtype).contiguous().realize()
        return self.sheet.tensor(element, tensor.shape, tensor.data(), name)


def _scope(node: UOp) -> str:
    """The layer that has made a node, as other exporters spell it: "/blocks.0/attn"; "" if that is not known."""
    place = made(node)
    if place is None or type(place[2]) is not str:
        return ""
    found = ""
    for part in filter(None, place[3].split(".")):
        found += f".{part}" if part.isdigit() and found else f"/{part}"
    return found


def _bytes_of(dtype: DType, value: Any) -> bytes:
    return encode(dtype, value).to_bytes(dtype.itemsize, "little")


def _common_shape(shapes: list[tuple[object, ...]]) -> tuple[object, ...]:
    """What shapes are spread to."""
    count = max(map(len, shapes))
    result: list[object] = [1] * count
    for shape in shapes:
        for axis, size in enumerate(shape, count - len(shape)):
            if size != 1 or not isinstance(size, int):
                result[axis] = size
    return tuple(result)


def _asked_for_sign(node: UOp) -> UOp | None:
    """x of the comparison of the bits of a float x with 0: bits < 0."""
    if node.op is not ops.LT or node.src[0].op is not ops.BITCAST or node.src[1].op is not ops.CONST:
        return None
    x = node.src[0].src[0]
    return x if x.dtype.is_float and node.src[1].arg == 0 else None


def _cast(to: Translator, node: UOp) -> str:
    (x,) = node.src
    element = to.element(node)
    return to.name(x) if to.element(x) == element else to.sheet.add("Cast", to.name(x), to=element)


def _bind(to: Translator, node: UOp) -> Name:
    return to.names(node.src[0])


def _scan(to: Translator, node: UOp) -> str:
    if node.arg.op is not ops.ADD:
        raise to.error(node, f"of running combinations ONNX has the sum, not {node.arg.op.name}")
    axis = to.number(dtypes.int64, node.arg.axis)
    flags = {"exclusive": int(node.arg.exclusive), "reverse": int(node.arg.reverse)}
    return to.sheet.add("CumSum", to.name(node.src[0]), axis, **flags)


def _arange(to: Translator, node: UOp) -> str:
    """Of a symbolic size."""
    add, zero, one = to.sheet.add, to.number(dtypes.int64, 0), to.number(dtypes.int64, 1)
    return add("Cast", add("Range", zero, to.name(node.src[0]), one), to=to.element(node))


def _stack(to: Translator, node: UOp) -> str:
    first = to.sheet.numbers([0])
    parts = [to.sheet.add("Unsqueeze", to.name(part), first) for part in node.src]
    return to.sheet.add("Concat", *parts, axis=0)


def _group(to: Translator, node: UOp) -> Name:
    return tuple(to.name(member) for member in node.src)


def _item(to: Translator, node: UOp) -> str:
    found = to.names(node.src[0])
    return found[node.arg] if isinstance(found, tuple) else found


def _call(to: Translator, node: UOp) -> Name:
    """The body of the function, in the place of its call."""
    function, *arguments = node.src
    body = function.src[0]
    params = {n: to.name(arguments[n.arg.slot]) for n in body.topological() if n.op is ops.PARAM}
    return to.inside(to.sheet, params).write(body)


WRITERS: Final[dict[Op, Callable[[Translator, UOp], Name]]] = {
    ops.ARANGE: _arange,
    ops.BIND: _bind,
    ops.CALL: _call,
    ops.CAST: _cast,
    ops.GROUP: _group,
    ops.ITEM: _item,
    ops.REDUCE: write_reduce,
    ops.SCAN: _scan,
    ops.SORT: write_sort,
    ops.INDEX: write_index,
    ops.AFTER: write_written,
    ops.STACK: _stack,
    ops.LOOP: write_loop,
}
