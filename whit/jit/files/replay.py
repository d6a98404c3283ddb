"""A `Replay` as something that JSON can hold, and back, with the tensors that it has captured.

Tensors are in one table, which all programs of a file share: the memory or the constant behind each, its view of that,
its family, its gradient. So what were two views of one memory are that again, and `.grad` is where it was.

    bases     [[node, bytes or null]]                        memory; null: the node is a constant
    families  [[base, strides, is_read_only]]
    tensors   [[name, class, base, family, view, requires_grad, device that was asked for, gradient]]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from whit.engine.memory.ownership import base_of
from whit.engine.memory.placeholder import gradient_used_up, is_placeholder, new_placeholder
from whit.engine.memory.storage import nbytes_of, new_buffer, storage
from whit.engine.programs.program import Program, State, on_other_leaves
from whit.engine.programs.trace import Drawn
from whit.engine.realize.realize import realize
from whit.ir.uop import UOp
from whit.jit.files.program import Json, JsonReader, JsonWriter, at, program_from, program_to, size_from, size_to
from whit.jit.files.result import Classes, template_from, template_to
from whit.jit.records import CapturedInput, Change, Grad, Guards, Output, ReadTensor, Shared
from whit.jit.replayer import Replay
from whit.jit.signature import Result
from whit.tensor.tensor import Tensor

NOT_THERE = -1
USED_UP = -2  # a gradient that a captured step has used


# ---- tensors


class Tensors(Protocol):
    """What numbers the tensors that a program has captured."""

    writer: JsonWriter
    classes: Classes

    def number(self, tensor: Any, name: str = "tensor") -> int:
        """The number of a tensor; NOT_THERE of None."""

    def add_gradient(self, tensor: Any) -> None:
        """A program asks for the gradient of a tensor."""


class TensorWriter:
    """The table of tensors of a file that is being written."""

    def __init__(self, writer: JsonWriter, classes: Classes) -> None:
        self.writer = writer
        self.classes = classes
        self.ways: Mapping[int, str] = {}  # names of tensors, by id
        self.rows: dict[str, list[Any]] = {"bases": [], "families": [], "tensors": []}
        self._tensors: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._names: set[str] = set()
        self._bases: dict[UOp, tuple[int, UOp]] = {}  # the number of each, and what stands for it in the file
        self._families: dict[int, int] = {}

    def number(self, tensor: Any, name: str = "tensor") -> int:
        """The number of a tensor; NOT_THERE of None."""
        if tensor is None:
            return NOT_THERE
        if id(tensor) not in self._numbers:
            self._numbers[id(tensor)] = len(self._tensors)
            self._tensors.append(tensor)
            self.rows["tensors"].append(self._row(tensor, self.ways.get(id(tensor), name)))
        return self._numbers[id(tensor)]

    def add_gradient(self, tensor: Any) -> None:
        """The gradient of a tensor, which a program asks for, is to be in the file, too."""
        row = self.rows["tensors"][self.number(tensor)]
        is_used = tensor.grad is not None and is_placeholder(tensor.grad.uop)
        row[-1] = USED_UP if is_used else self.number(tensor.grad, f"{row[0]}.grad")

    def _row(self, tensor: Any, wish: str) -> list[Any]:
        name, count = wish, 0
        while name in self._names:
            count += 1
            name = f"{wish} {count}"
        self._names.add(name)
        node = base_of(tensor)
        base, stand_in = self._base(node, tensor)
        (view,) = on_other_leaves([tensor.uop], {node: stand_in})
        row = [name, self.classes.to(type(tensor)), base, self._family(tensor, base), self.writer.node(view)]
        return [*row, tensor.requires_grad, tensor._wanted, NOT_THERE]

    def _base(self, node: UOp, tensor: Any) -> tuple[int, UOp]:
        if node not in self._bases:
            stand_in, where = node, None
            if node.device is not None:
                (buffer,) = realize([node], tensor.device)
                stand_in = new_placeholder(node.dtype, node.shape, node.device)
                where = self.writer.memory(storage(buffer))
            self._bases[node] = len(self._bases), stand_in
            self.rows["bases"].append([self.writer.node(stand_in), where])
        return self._bases[node]

    def _family(self, tensor: Any, base: int) -> int:
        family = tensor._family
        if family is None:
            return NOT_THERE
        if id(family) not in self._families:
            self._families[id(family)] = len(self._families)
            strides = family.strides
            if strides is not None:
                strides = [stride if type(stride) is int else [self.writer.node(stride)] for stride in strides]
            self.rows["families"].append([base, strides, family.is_read_only])
        return self._families[id(family)]


def read_tensors(rows: Json, reader: JsonReader, classes: Classes) -> dict[str, Any]:
    """The tensors of a file by name, in their order."""
    bases: list[UOp] = []
    shown: dict[UOp, UOp] = {}
    for number, where in rows["bases"]:
        node = reader.node(number)
        if where is None:
            bases.append(node)
        else:
            buffer = new_buffer(node.dtype, node.shape, str(node.device))
            reader.fill(storage(buffer), where)
            shown[node] = buffer
            bases.append(buffer)
    families: list[Any] = []
    for base, strides, is_read_only in rows["families"]:
        if strides is not None:
            strides = tuple(stride if type(stride) is int else reader.node(*stride) for stride in strides)
        families.append(Tensor._new_family(at(bases, base), strides, is_read_only))
    found: dict[str, Any] = {}
    for name, kind, base, family, view, requires_grad, wanted, _ in rows["tensors"]:
        (node,) = on_other_leaves([reader.node(view)], shown)
        tensor = classes.of(kind)._of_buffer(node, None)
        tensor.requires_grad, tensor._wanted = requires_grad, wanted
        if family != NOT_THERE:
            tensor._family = at(families, family)
            tensor._family.add(tensor)
        elif node is not at(bases, base):
            raise ValueError(f"{name} is a view of nothing")
        found[name] = tensor
    tensors = list(found.values())
    for (*_, grad), tensor in zip(rows["tensors"], tensors, strict=True):
        tensor.grad = _gradient(grad, tensor, tensors)
    return found


def _gradient(number: int, tensor: Any, tensors: list[Any]) -> Any:
    if number == USED_UP:
        return type(tensor)._of_buffer(gradient_used_up(tensor.dtype, tensor.shape, tensor.device), None)
    return _tensor_at(tensors, number)


def _tensor_at(tensors: list[Any], number: int) -> Any:
    return None if number == NOT_THERE else at(tensors, number)


# ---- replays


def replay_to(replay: Replay, tensors: Tensors) -> Json:
    """What is kept of a captured function."""
    writer, number = tensors.writer, tensors.number
    guards = replay.guards
    given = [owner for owner, _, _ in guards.with_grad if owner is not None]
    for tensor in (*[seen.owner for seen in replay.seen if seen.owner is not None], *guards.without_grad, *given):
        tensors.add_gradient(tensor)
    return {
        "program": program_to(replay.program, writer),
        "views": replay.views,
        "sites": [
            [writer.node(captured_input.placeholder), captured_input.place] for captured_input in replay.captured_inputs
        ],
        "seen": [_seen_to(seen, tensors) for seen in replay.seen],
        "changes": [_change_to(change, tensors) for change in replay.changes],
        "gradients": [[number(g.tensor), g.argument, *_value_to(g.value, tensors), g.output] for g in replay.gradients],
        "outputs": [
            [tensors.classes.to(o.kind), writer.array(o.dtype, o.shape, o.device), o.name, o.asks]
            for o in replay.outputs
        ],
        "result": [replay.result.count, template_to(replay.result.template, writer, tensors.classes)],
        "shared": [_shared_to(one, tensors) for one in replay.shared],
        "guards": _guards_to(guards, tensors),
        "draws": [
            [writer.node(d.placeholder), d.seed, size_to(d.start, writer), size_to(d.count, writer)]
            for d in replay.draws
        ],
        "names": [[*key, name] for key, name in replay.names.items()],
        "seed": [replay.seed, size_to(replay.drawn, writer)],
    }


def _guards_to(guards: Guards, tensors: Tensors) -> Json:
    writer, number = tensors.writer, tensors.number
    return {
        "same": [[argument, number(tensor)] for argument, tensor in guards.same],
        "constants": [[number(tensor), writer.node(node)] for tensor, node in guards.constants],
        "without_grad": [number(tensor) for tensor in guards.without_grad],
        "arguments_without_grad": guards.arguments_without_grad,
        "with_grad": [
            [number(owner), argument, None if node is None else writer.node(node)]
            for owner, argument, node in guards.with_grad
        ],
        "asked": [number(tensor) for tensor in guards.asked],
        "requires_grad": guards.requires_grad,
    }


def _guards_from(data: Json, reader: JsonReader, tensors: list[Any]) -> Guards:
    return Guards(
        same=[(argument, _tensor_at(tensors, number)) for argument, number in data["same"]],
        constants=[(_tensor_at(tensors, number), reader.node(node)) for number, node in data["constants"]],
        without_grad=[_tensor_at(tensors, number) for number in data["without_grad"]],
        arguments_without_grad=data["arguments_without_grad"],
        with_grad=[
            (_tensor_at(tensors, owner), argument, None if node is None else reader.node(node))
            for owner, argument, node in data["with_grad"]
        ],
        asked=[_tensor_at(tensors, number) for number in data["asked"]],
        requires_grad=data["requires_grad"],
    )


def _seen_to(seen: ReadTensor, tensors: Tensors) -> list[Any]:
    tensor = None if seen.is_gradient() or seen.argument >= 0 else seen.tensor
    owner = None if seen.owner_argument >= 0 else seen.owner
    start = tensors.writer.node(seen.start)
    return [
        tensors.number(tensor),
        seen.argument,
        tensors.number(owner),
        seen.owner_argument,
        start,
        seen.captured_input,
    ]


def _shared_to(shared: Shared, tensors: Tensors) -> list[Any]:
    row = [shared.output, shared.argument, tensors.number(shared.tensor), shared.is_whole]
    if shared.view is None or shared.base is None:
        return [*row, None]
    writer, family = tensors.writer, shared.family
    return [*row, [writer.node(shared.view), writer.node(shared.base), family.strides, family.is_read_only]]


def _shared_from(row: list[Any], reader: JsonReader, tensors: list[Any], outputs: int) -> Shared:
    output, argument, number, is_whole, shown = row
    tensor = _tensor_at(tensors, number)
    if output >= 0:
        at(range(outputs), output)
    if shown is None:
        return Shared(output, argument, tensor)
    view, base, strides, is_read_only = shown
    node = reader.node(base)
    family = Tensor._new_family(node, None if strides is None else tuple(strides), is_read_only)
    return Shared(output, argument, tensor, reader.node(view), node, family, is_whole)


def _change_to(change: Change, tensors: Tensors) -> list[Any]:
    state = change.state
    tensor = tensors.number(change.tensor) if change.seen < 0 else NOT_THERE
    array = tensors.writer.array(change.dtype, change.shape, state.device or "CPU")
    states = [state.device, state.place, state.is_part, state.can_overwrite]
    return [states, change.seen, tensor, change.is_replaced, change.writes_first, array]


def _value_to(value: Any, tensors: Tensors) -> list[Any]:
    """A gradient from outside; of one that is used up, what it was."""
    if value is None or not is_placeholder(value.uop):
        return [tensors.number(value), None]
    return [USED_UP, tensors.writer.array(value.dtype, value.shape, value.device)]


def replay_from(name: str, data: Json, reader: JsonReader, tensors: list[Any], classes: Classes) -> Replay:
    """The captured function that was written, over these tensors."""
    captured_inputs = [CapturedInput(reader.node(number), place) for number, place in data["sites"]]
    seen = [
        ReadTensor(
            _tensor_at(tensors, number),
            argument,
            _tensor_at(tensors, owner),
            owner_argument,
            reader.node(start),
            at(range(len(captured_inputs)), captured_input),
        )
        for number, argument, owner, owner_argument, start, captured_input in data["seen"]
    ]
    changes = [_change_from(row, reader, captured_inputs, seen, tensors) for row in data["changes"]]
    arguments = tuple(sorted({one.argument for one in seen if one.argument >= 0}))
    outputs = [_output_from(row, reader, classes, arguments) for row in data["outputs"]]
    rooms = _rooms(data["program"]["outputs"], captured_inputs, seen, changes, outputs)
    program = program_from(data["program"], reader, rooms)
    program.states = [change.state for change in changes]
    count, template = data["result"]
    seed, drawn = data["seed"]
    draws = [
        Drawn(reader.node(number), its_seed, size_from(start, reader), size_from(count, reader))
        for number, its_seed, start, count in data["draws"]
    ]
    _check_filled(program, captured_inputs, seen, draws)
    return Replay(
        name=name,
        program=program,
        views=data["views"],
        captured_inputs=captured_inputs,
        seen=seen,
        changes=changes,
        gradients=[_grad_from(row, reader, tensors) for row in data["gradients"]],
        outputs=outputs,
        result=Result(count, template_from(template, reader, classes)),
        guards=_guards_from(data["guards"], reader, tensors),
        shared=[_shared_from(row, reader, tensors, len(outputs)) for row in data["shared"]],
        draws=draws,
        seed=seed,
        drawn=size_from(drawn, reader),
        names={(str(variable), int(value)): str(name) for variable, value, name in data["names"]},
    )


def _check_filled(
    program: Program, captured_inputs: list[CapturedInput], seen: list[ReadTensor], draws: list[Drawn]
) -> None:
    """Every place of the table that something runs on must get its memory from somewhere."""
    filled = {captured_inputs[one.captured_input].place for one in seen} | set(program.fixed) | set(program.outputs)
    filled |= {state.place for state in program.states}
    filled |= {program.inputs[node] for node in program.pruned if node in program.inputs}
    filled |= {program.inputs[drawn.placeholder] for drawn in draws if drawn.placeholder in program.inputs}
    missing = {place for part in program.parts for place in part.places or range(program.size)} - filled
    if missing:
        raise ValueError(f"nothing fills the places {sorted(missing)[:9]}")


def _change_from(
    row: list[Any], reader: JsonReader, captured_inputs: list[CapturedInput], seen: list[ReadTensor], tensors: list[Any]
) -> Change:
    (device, place, is_part, can_overwrite), number, tensor, is_replaced, writes_first, array = row
    old = None if number == NOT_THERE else captured_inputs[at(seen, number).captured_input].placeholder
    state = State(old, device, place, is_part, can_overwrite)
    target = at(tensors, tensor) if number == NOT_THERE else None
    node = reader.node(array)
    return Change(state, number, target, is_replaced, writes_first, node.dtype, node.shape)


def _grad_from(row: list[Any], reader: JsonReader, tensors: list[Any]) -> Grad:
    number, argument, value, used, output = row
    tensor = None if argument >= 0 else at(tensors, number)
    if value == USED_UP:
        node = reader.node(used)
        gradient = gradient_used_up(node.dtype, node.shape, str(node.device))
        return Grad(tensor, argument, Tensor._of_buffer(gradient, None), output)
    return Grad(tensor, argument, _tensor_at(tensors, value), output)


def _output_from(row: list[Any], reader: JsonReader, classes: Classes, arguments: tuple[int, ...]) -> Output:
    """A file does not say which arguments a gradient would go on to: all of them."""
    kind, array, name, asks = row
    node = reader.node(array)
    return Output(classes.of(kind), node.dtype, node.shape, str(node.device), None, name, asks, arguments)


def _rooms(
    places: list[int],
    captured_inputs: list[CapturedInput],
    seen: list[ReadTensor],
    changes: list[Change],
    outputs: list[Output],
) -> dict[int, int]:
    """How many bytes the results and the new values of tensors have at least, by place."""
    found = {place: nbytes_of(o.dtype, o.shape) for place, o in zip(places, outputs, strict=True)}
    for change in changes:
        nbytes = nbytes_of(change.dtype, change.shape)
        if change.can_stay():
            old = captured_inputs[seen[change.seen].captured_input].placeholder
            nbytes = min(nbytes, nbytes_of(old.dtype, old.shape))
        found[change.state.place] = nbytes
    return found
