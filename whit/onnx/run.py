"""Running the steps of a graph, each part of it as one captured program where that can be.

    runner = Runner(graph, context)
    outputs = runner({"x": tensor})

From a position on, the steps are captured together. Shapes that were not seen before may be served by a program for
many sizes (`whit.onnx.many_sizes`). A step that must read data (a size that depends on values, a
condition) ends a part: it runs by itself, and the steps after it are captured for the shapes that it gave. So a
detector whose last nodes choose boxes still is one program and a few steps. Which part fits is found by position and
signature of the values there: shapes and dtypes of tensors, and the numbers that the host knows. The parts that were
used last are kept; when there are many, the others go.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from math import prod
from time import perf_counter
from typing import Any, Final

import numpy as np

from whit.dtype import DType
from whit.engine.compile.compile import prepare_compilers, using_compilers
from whit.engine.programs.overlay import current
from whit.engine.realize.many_sizes import expecting_sizes
from whit.errors import JitError
from whit.jit.signature import Arguments
from whit.onnx import control, host, places, symbolic
from whit.onnx import sequences as sequences  # puts its operators into the table
from whit.onnx.capture import ANSWERS, Program, capture, forgive, take_out
from whit.onnx.constants import Constant, Derived, host_value
from whit.onnx.graph import Graph, Step
from whit.onnx.kept import Shelf
from whit.onnx.many_sizes import ManySizes, Served, Shape
from whit.onnx.modes import MODES
from whit.onnx.operators.registry import Node, Operator, find
from whit.onnx.problems import check_results, explained
from whit.onnx.sizes import Sizes
from whit.onnx.values import lifted, own_arrays
from whit.records import dataclass
from whit.tensor import Tensor

NODES_A_STEP: Final = 6  # of the graph that is compiled, about
MOST_PARTS: Final = 32  # programs for one shape that a graph keeps
MOST_SERVED: Final = 1024  # shapes of which it is known which other program runs for them
MOST_COUNTS: Final = 64  # numbers of rounds that a graph remembers
MOST_KEY_ELEMENTS: Final = 1 << 14  # of host values in a signature; with more, steps run by themselves

_CONTROLS: Final = {("", "If"): 1, ("", "Loop"): 2}  # how many inputs say what runs

Values = dict[str, Any]


class Live(dict[str, Any]):
    """The values that there are so far, by name; what is not among them is a constant of the graph."""

    __slots__ = ("constants",)

    def __init__(self, constants: Mapping[str, Constant], values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.constants = constants

    def __missing__(self, name: str) -> Constant:
        return self.constants[name]

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self.constants

    def copy(self) -> Live:
        """The same, to go on from."""
        return Live(self.constants, self)


@dataclass(frozen=True, slots=True)
class Context:
    """What all graphs of a model share: where it runs, whether it is captured, and where programs are kept."""

    device: str
    is_captured: bool
    is_training: bool = False
    shelf: Shelf | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """Steps up to `stop`: as one program, or one by one. `asks`: values that the host has to know to go on."""

    stop: int
    program: Program | Served | None
    asks: tuple[str, ...] = ()


class Runner:
    """Runs one graph, and the graphs in it."""

    def __init__(self, graph: Graph, context: Context) -> None:
        self.graph = graph
        self.context = context
        self.parts: OrderedDict[Any, Part] = OrderedDict()
        self.captures = 0  # that were made or found on disk, for tests and reports
        self._misfits: set[Any] = set()  # keys of programs that did not fit when they ran: they are not looked for
        self._inner: dict[int, Runner] = {}  # of subgraphs, by id; the graph keeps them alive
        self._operators: dict[tuple[str, str, int], Operator] = {}
        self._at = 0  # the step that runs
        self._counts: OrderedDict[Any, None] = OrderedDict()  # of rounds, that loops had
        self._served: OrderedDict[Any, Part] = OrderedDict()  # without a program, or with one for many sizes
        self._many: OrderedDict[Any, ManySizes] = OrderedDict()  # by what is the same of all those sizes

    def __call__(self, values: Mapping[str, Any], is_plain: bool = False) -> list[Any]:
        """The outputs, of values by name: inputs, and what is read from around the graph. `is_plain`: nothing is
        captured, as the next call will have other kinds of values."""
        live = Live(self.graph.constants, values)
        if is_plain or not self.context.is_captured or current() is not None:
            with own_arrays():
                self._run(live, 0, len(self.graph.steps))
        else:
            with expecting_sizes():
                self._run_parts(live)
        return [live[port.name] for port in self.graph.outputs]

    def whole(self, values: Mapping[str, Any]) -> tuple[Program, list[Any]] | None:
        """The program of a call that is one program, and the tensors that it takes."""
        if not self.parts:
            return None
        arguments, key = self._signature(Live(self.graph.constants, values), 0)
        part = None if key is None else self.parts.get(key)
        if part is None or not isinstance(part.program, Program) or part.stop < len(self.graph.steps):
            return None
        return part.program, arguments.tensors

    def all_values(self, values: Mapping[str, Any], names: Collection[str] | None = None) -> Values:
        """What every step gives, by name, or those of `names`; nothing is captured."""
        live = Live(self.graph.constants, values)
        wanted = {name for step in self.graph.steps for name in step.outputs} if names is None else set(names)
        found: Values = {}
        for number, step in enumerate(self.graph.steps):
            if names is not None and len(found) == len(wanted):
                break
            self._run(live, number, number + 1, is_kept=True)
            found.update({name: live[name] for name in step.outputs if name in live and name in wanted})
            self._drop(live, number + 1)
        return found

    def inner(self, graph: Graph) -> Runner:
        """The runner of a subgraph."""
        found = self._inner.get(id(graph))
        if found is None:
            found = self._inner[id(graph)] = Runner(graph, self.context)
        return found

    # ---- parts

    def _run_parts(self, live: Live) -> None:
        position, count = 0, len(self.graph.steps)
        while position < count:
            arguments, key = self._signature(live, position)
            part = self._find(live, position, key, arguments)
            if part.asks and self._is_told(live, position, part.asks):
                continue
            if part.program is None:
                self._run(live, position, part.stop)
                self._settle(live)
            else:
                made = part.program(arguments.tensors)
                if made is None:  # two arguments share memory now, or a weight has another shape
                    self._refused(live, position, key, arguments)
                    continue
                live.update(made)
                self._drop(live, part.stop)
            position = part.stop

    def _is_told(self, live: Live, position: int, names: tuple[str, ...]) -> bool:
        """Reads the values that a choice or a loop depends on, so that what follows is captured for them. Not for a
        number of rounds that was never asked for before: it may be another one each time."""
        read = {name: live[name].numpy() for name in names}
        counts = (position, *(value.tobytes() for value in read.values()))
        if self.graph.steps[position].node.op_type == "Loop" and counts not in self._counts:
            self._counts[counts] = None
            if len(self._counts) > MOST_COUNTS:
                self._counts.popitem(last=False)
            return False
        live.update(read)
        return True

    def _find(self, live: Live, position: int, key: Any, arguments: Arguments) -> Part:
        """The part for a signature."""
        if key is None:
            return Part(position + 1, None)
        part = self.parts.get(key)
        if part is not None:
            if len(self.parts) > 1:
                self.parts.move_to_end(key)
            return part
        served = self._served.get(key)
        if served is None:
            return self._part(live, position, key, arguments)
        if isinstance(served.program, Served) and served.program.is_too_slow():
            return self._own_part(live, position, key, arguments)
        self._served.move_to_end(key)
        return served

    def _part(self, live: Live, position: int, key: Any, arguments: Arguments) -> Part:
        """A part for a signature that is new: a program for many sizes, or one of its own."""
        many, shapes = self._many_of(key, arguments)
        found = many.find(shapes)
        if found is None and self._tries_many(live, position, many, shapes, arguments):
            found = many.find(shapes)
        if found is None:
            return self._own_part(live, position, key, arguments)
        return self._serve(key, Part(many.stop, found))

    def _serve(self, key: Any, part: Part) -> Part:
        self._served[key] = part
        if len(self._served) > MOST_SERVED:
            self._served.popitem(last=False)
        return part

    def _own_part(self, live: Live, position: int, key: Any, arguments: Arguments) -> Part:
        """A part for this signature alone."""
        start = perf_counter()
        part = self._new_part(live, position, key, arguments)
        self._served.pop(key, None)
        if part.program is None:
            return self._serve(key, part)
        many, shapes = self._many_of(key, arguments)
        many.note_own(shapes, key, part.stop, perf_counter() - start)
        self.parts[key] = part
        while len(self.parts) > MOST_PARTS:
            self.parts.popitem(last=False)
        return part

    def _refused(self, live: Live, position: int, key: Any, arguments: Arguments) -> None:
        """A program does not take these tensors: there is another one next time."""
        if self.parts.pop(key, None) is None:
            self._own_part(live, position, key, arguments)
        else:
            self._misfits.add(key)

    def _tries_many(
        self, live: Live, position: int, many: ManySizes, shapes: Sequence[Shape], arguments: Arguments
    ) -> bool:
        """Whether there is a new program for many sizes."""
        choice = many.choose(shapes)
        if choice is None:
            return False
        self._load(live, position, many.stop)
        try:
            part = self._captured(live.copy(), position, arguments.tensors, many.stop, choice.symbolic(shapes))
        except ANSWERS as error:  # what depends on a size is said in many ways, too
            why = " ".join([str(error), *getattr(error, "__notes__", ())])
            return many.fails(why) and self._tries_many(live, position, many, shapes, arguments)
        own = self.parts.get(many.key)
        if not isinstance(part.program, Program):
            return False
        many.add(part.program, choice, None if own is None else own.program, arguments.tensors)
        return True

    def _many_of(self, key: Any, arguments: Arguments) -> tuple[ManySizes, tuple[Shape, ...]]:
        """What is known of inputs that are the same but for sizes; and the sizes."""
        form = tuple([(part[0], _without_shape(part[1])) if type(part) is tuple else part for part in key])
        many = self._many.get(form)
        if many is None:
            many = self._many[form] = ManySizes()
            if len(self._many) > MOST_PARTS:
                self._many.popitem(last=False)
        else:
            self._many.move_to_end(form)
        return many, tuple([tensor.shape for tensor in arguments.tensors])

    def _signature(self, live: Live, position: int) -> tuple[Arguments, Any]:
        """The tensors that are still needed, and what a part is found by; None if that would be too long."""
        arguments, last_use = Arguments(), self.graph.last_use
        parts: list[Any] = [position]
        budget = [MOST_KEY_ELEMENTS]
        for name, value in live.items():
            if last_use.get(name, -1) >= position:
                parts.append((name, _key_of(value, arguments, name, budget)))
        return arguments, (tuple(parts) if budget[0] >= 0 else None)

    def _new_part(self, live: Live, position: int, key: Any, arguments: Arguments) -> Part:
        """The longest part from a position on that can be captured: found on disk, or made and kept there."""
        shelf = self.context.shelf
        shelf_key = None if shelf is None else shelf.key(self.graph.number, key, self.context.device)
        if shelf is None or shelf_key is None:
            return self._captured_part(live, position, arguments)
        found = None if key in self._misfits else shelf.find(shelf_key, self.context.device)
        if found is not None:
            self.captures += 1
            return Part(*found)
        with using_compilers():
            prepare_compilers(NODES_A_STEP * (len(self.graph.steps) - position), self.context.device)
            part = self._captured_part(live, position, arguments)
        if isinstance(part.program, Program):
            shelf.keep(shelf_key, part.stop, part.program)
        return part

    def _captured_part(self, live: Live, position: int, arguments: Arguments) -> Part:
        """The longest part from a position on that can be captured."""
        stop = len(self.graph.steps)
        self._load(live, position, stop)
        self._at = position
        try:
            return self._captured(live.copy(), position, arguments.tensors, stop)
        except ANSWERS:
            if self._at > position:
                return Part(self._at, None)  # the steps up to there are fine, their program is not
            return Part(position + 1, None, self._asks(live, position))

    def _asks(self, live: Live, position: int) -> tuple[str, ...]:
        """The names of numbers in tensors that a step depends on: a condition, how often."""
        step = self.graph.steps[position]
        count = _CONTROLS.get((step.node.domain, step.node.op_type), 0)
        tensors = {name: live[name] for name in step.inputs[:count] if name}
        return tuple(name for name, x in tensors.items() if isinstance(x, Tensor) and prod(x.shape) == 1)

    def _captured(
        self,
        live: Live,
        position: int,
        tensors: list[Any],
        stop: int,
        shapes: Sequence[tuple[Any, ...]] | None = None,
    ) -> Part:
        """The steps from a position on as a program, up to the first one that cannot be a part of it; an error if that
        is the first of all. `shapes`: those with variables that tensors have in it; then it is all steps or none."""
        last_use, stops = self.graph.last_use, [stop]

        def run(shown: Sequence[Any]) -> Values:
            other = {id(before): now for before, now in zip(tensors, shown, strict=True) if now is not before}
            live.update({name: other[id(value)] for name, value in live.items() if id(value) in other})
            before = set(live)
            try:
                self._run(live, position, stops[0])
                self._at = stops[0]
            except ANSWERS:
                if self._at == position or shapes is not None:
                    raise
                forgive()
            stop = stops[0] = self._at
            return {name: v for name, v in live.items() if name not in before and last_use.get(name, -1) >= stop}

        program = capture(self.graph.name or "graph", run, tensors, shapes)
        self.captures += 1
        return Part(stops[0], program)

    def _load(self, live: Live, position: int, stop: int) -> None:
        """Reads the constants that steps will need: a file cannot be read while they are traced."""
        for step in self.graph.steps[position:stop]:
            for name in step.reads():
                if name not in live:
                    continue
                value = live[name]
                if isinstance(value, Derived):
                    value.value()
                if isinstance(value, Constant) and (not value.is_small() or _is_weight(value.array())):
                    value.tensor(self.context.device)

    def _settle(self, live: Live) -> None:
        """Computes what a step has given, so that the next part has it in memory."""
        found: list[Tensor] = []
        for value in live.values():
            if not isinstance(value, Constant):
                take_out(value, found)
        if found:
            found[0].realize(*found[1:])

    def _drop(self, live: Live, position: int) -> None:
        last_use = self.graph.last_use
        for name in [name for name in live if last_use.get(name, -1) < position]:
            del live[name]

    # ---- steps

    def _run(self, live: Live, position: int, stop: int, is_kept: bool = False) -> None:
        """Runs steps one after the other; their results go into `live`. `is_kept`: what nobody needs stays, too."""
        last_use, is_traced = self.graph.last_use, current() is not None
        for number in range(position, stop):
            step = self.graph.steps[number]
            self._at = number
            place = places.enter(step)
            try:
                results = self.step(step, live)
                if any(isinstance(value, Tensor) for value in results):
                    places.note(step, [live[name] for name in step.inputs if name])
            except JitError:
                raise
            except Exception as error:
                error.add_note(f"in the node {_spell(step.node)} of the ONNX graph {self.graph.name!r}")
                raise
            finally:
                places.leave(place)
            check_results(step.node, step.outputs, results, last_use)
            for name, value in zip(step.outputs, results, strict=False):
                if name and name not in live:  # a condition may be known before
                    live[name] = value
            if not is_traced and not is_kept:
                for name in step.reads():
                    if last_use.get(name, -1) <= number:
                        live.pop(name, None)

    def step(self, step: Step, live: Values) -> tuple[Any, ...]:
        """The outputs of one step; an error of ours, whatever goes wrong."""
        try:
            return self._step(step, live)
        except JitError:
            raise
        except Exception as error:
            raise explained(error, step.node, [live[n] if n and n in live else None for n in step.inputs])  # noqa: B904

    def _step(self, step: Step, live: Values) -> tuple[Any, ...]:
        given = [live[name] if name else None for name in step.inputs]
        if step.body is not None:
            names = [port.name for port in step.body.inputs]
            given += [None] * (len(names) - len(given))
            return tuple(self.inner(step.body)(dict(zip(names, given, strict=True))))
        if self.context.is_training and step.node.op_type in MODES:
            return MODES[step.node.op_type](self, step, given)
        function = control.FUNCTIONS.get((step.node.domain, step.node.op_type))
        if function is not None:
            return function(self, step, given, live)
        on_host = _on_host(given)
        if on_host is not None:
            depends = any(isinstance(value, Sizes) for value in on_host)
            results = symbolic.evaluate(step.node, on_host) if depends else host.evaluate(step.node, on_host)
            if results is not None:
                return results
        operator = self._operator(step.node)
        return operator(step.node, *self._prepared(operator, given))

    def _operator(self, node: Node) -> Operator:
        key = (node.domain, node.op_type, node.version)
        found = self._operators.get(key)
        if found is None:
            found = self._operators[key] = find(*key)
        return found

    def _prepared(self, operator: Operator, given: list[Any]) -> list[Any]:
        """Inputs as the operator wants them: on the host what it reads itself, as tensors all other numbers."""
        return [self.value(value, number in operator.host) for number, value in enumerate(given)]

    def value(self, value: Any, on_host: bool) -> Any:
        """A value for an operator."""
        if isinstance(value, Derived):
            found = value.value()
            if isinstance(found, list | dict) or found is None:
                return found
        if isinstance(value, Constant):
            if not value.is_small():
                return value.tensor(self.context.device)
            array = value.array()
            if on_host:
                return array
            return value.tensor(self.context.device) if _is_weight(array) else lifted(array, self.context.device)
        return value if on_host else lifted(value, self.context.device)


def compute_constant(step: Step, known: Mapping[str, Constant], context: Context) -> tuple[Any, ...]:
    """The outputs of a step whose inputs are constants."""
    graph = Graph("constants", (), (), (step,), {}, (), {})
    return Runner(graph, context).step(step, dict(known))


def _key_of(value: Any, arguments: Arguments, name: str, budget: list[int]) -> Any:
    """What stands for a value in the signature."""
    if isinstance(value, Tensor):
        return arguments.key(value, name)
    if isinstance(value, np.ndarray):
        budget[0] -= value.size
        if budget[0] < 0:
            return None
        data = tuple(value.reshape(-1).tolist()) if value.dtype.kind == "O" else value.tobytes()
        return (value.dtype.str, value.shape, data)
    if isinstance(value, Constant):
        return (Constant, value.number)
    if isinstance(value, list):
        budget[0] -= len(value)
        return (list, *[_key_of(part, arguments, name, budget) for part in value])
    if isinstance(value, dict):
        return (dict, *[(key, _key_of(part, arguments, name, budget)) for key, part in value.items()])
    return (type(value), value)


def _without_shape(key: Any) -> Any:
    """What stands for a tensor in a signature, whatever its sizes are; of other values all."""
    if type(key) is tuple and len(key) == 4 and isinstance(key[1], DType):
        return (len(key[0]), *key[1:])
    return key


def _on_host(given: list[Any]) -> list[Any] | None:
    """Arrays for the host, if it knows all values, and they are small."""
    found: list[Any] = []
    for value in given:
        array = value if isinstance(value, Sizes) else host_value(value)
        if array is None and value is not None:
            return None
        found.append(array)
    return found if found else None


def _is_weight(array: Any) -> bool:
    """Whether a small array is kept as a tensor; others become parts of kernels, or are made where they are used."""
    if array.dtype.itemsize == 1 and array.dtype.kind in "iu":
        return bool(array.ndim > 1)
    return array.dtype.kind not in "biuOUS" and array.size > 1


def _spell(node: Node) -> str:
    return f"{node} ({node.domain or 'ai.onnx'} {node.version})"
