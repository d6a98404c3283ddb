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
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any, Final

import numpy as np

from whit.dtype import DType
from whit.engine.programs.overlay import current
from whit.engine.realize.many_sizes import expecting_sizes
from whit.errors import JitError, WhitError
from whit.jit.signature import Arguments
from whit.onnx import control, host, symbolic
from whit.onnx import sequences as sequences  # puts its operators into the table
from whit.onnx.capture import Program, capture, take_out
from whit.onnx.constants import Constant, Derived, is_small
from whit.onnx.graph import Graph, Step
from whit.onnx.many_sizes import ManySizes, Served, Shape
from whit.onnx.operators.registry import Node, Operator, find
from whit.onnx.sizes import Sizes
from whit.onnx.values import lifted
from whit.records import dataclass
from whit.tensor import Tensor

MOST_PARTS: Final = 32  # programs for one shape that a graph keeps
MOST_SERVED: Final = 1024  # shapes of which it is known which other program runs for them
MOST_KEY_ELEMENTS: Final = 1 << 14  # of host values in a signature; with more, steps run by themselves

Values = dict[str, Any]
_MAY_FAIL: Final = (WhitError, ValueError, TypeError, RuntimeError, IndexError, KeyError)  # what steps raise


@dataclass(frozen=True, slots=True)
class Context:
    """What all graphs of a model share: where it runs, and whether it is captured."""

    device: str
    is_captured: bool


@dataclass(frozen=True, slots=True)
class Part:
    """Steps up to `stop`: as one program, or one by one."""

    stop: int
    program: Program | Served | None


class Runner:
    """Runs one graph, and the graphs in it."""

    def __init__(self, graph: Graph, context: Context) -> None:
        self.graph = graph
        self.context = context
        self.parts: OrderedDict[Any, Part] = OrderedDict()
        self.captures = 0  # that were made, for tests and reports
        self._inner: dict[int, Runner] = {}  # of subgraphs, by id; the graph keeps them alive
        self._operators: dict[tuple[str, str, int], Operator] = {}
        self._served: OrderedDict[Any, Part] = OrderedDict()  # without a program, or with one for many sizes
        self._many: OrderedDict[Any, ManySizes] = OrderedDict()  # by what is the same of all those sizes
        self._at = 0  # the step that runs

    def __call__(self, values: Mapping[str, Any], is_plain: bool = False) -> list[Any]:
        """The outputs, of values by name: inputs, and what is read from around the graph. `is_plain`: nothing is
        captured, as the next call will have other kinds of values."""
        live: Values = {**self.graph.constants, **values}
        if is_plain or not self.context.is_captured or current() is not None:
            self._run(live, 0, len(self.graph.steps))
        else:
            with expecting_sizes():
                self._run_parts(live)
        return [live[port.name] for port in self.graph.outputs]

    def all_values(self, values: Mapping[str, Any]) -> Values:
        """What every step gives, by name; nothing is captured."""
        live: Values = {**self.graph.constants, **values}
        found: Values = {}
        for number, step in enumerate(self.graph.steps):
            self._run(live, number, number + 1, is_kept=True)
            found.update({name: live[name] for name in step.outputs if name in live})
        return found

    def inner(self, graph: Graph) -> Runner:
        """The runner of a subgraph."""
        found = self._inner.get(id(graph))
        if found is None:
            found = self._inner[id(graph)] = Runner(graph, self.context)
        return found

    # ---- parts

    def _run_parts(self, live: Values) -> None:
        position, count = 0, len(self.graph.steps)
        while position < count:
            arguments, key = self._signature(live, position)
            part = self._find(live, position, key, arguments)
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

    def _find(self, live: Values, position: int, key: Any, arguments: Arguments) -> Part:
        """The part for a signature."""
        if key is None:
            return Part(position + 1, None)
        part = self.parts.get(key)
        if part is not None:
            if len(self.parts) > 1:
                self.parts.move_to_end(key)
            return part
        served = self._served.get(key)
        if served is not None and not (isinstance(served.program, Served) and served.program.is_too_slow()):
            self._served.move_to_end(key)
            return served
        return self._own_part(live, position, key, arguments) if served else self._part(live, position, key, arguments)

    def _part(self, live: Values, position: int, key: Any, arguments: Arguments) -> Part:
        """A part for a signature that is new: a program for many sizes, or one of its own."""
        many, shapes = self._many_of(key, arguments)
        found = many.find(shapes)
        if found is None and not self._tries_many(live, position, many, shapes, arguments):
            return self._own_part(live, position, key, arguments)
        found = found or many.find(shapes)
        if found is None:
            return self._own_part(live, position, key, arguments)
        part = self._served[key] = Part(many.stop, found)
        if len(self._served) > MOST_SERVED:
            self._served.popitem(last=False)
        return part

    def _own_part(self, live: Values, position: int, key: Any, arguments: Arguments) -> Part:
        """A part for this signature alone."""
        start = perf_counter()
        part = self._new_part(live, position, arguments)
        self._served.pop(key, None)
        if part.program is None:
            self._served[key] = part
            return part
        many, shapes = self._many_of(key, arguments)
        many.note_own(shapes, key, part.stop, perf_counter() - start)
        self.parts[key] = part
        while len(self.parts) > MOST_PARTS:
            self.parts.popitem(last=False)
        return part

    def _refused(self, live: Values, position: int, key: Any, arguments: Arguments) -> None:
        """A program does not take these tensors: there is another one next time."""
        if self.parts.pop(key, None) is None:
            self._own_part(live, position, key, arguments)

    def _tries_many(
        self, live: Values, position: int, many: ManySizes, shapes: Sequence[Shape], arguments: Arguments
    ) -> bool:
        """Whether there is a new program for many sizes."""
        choice = many.choose(shapes)
        if choice is None:
            return False
        try:
            program = self._captured(dict(live), position, many.stop, arguments.tensors, choice.symbolic(shapes))
        except Exception as error:  # what depends on a size is said in many ways, too
            if not isinstance(error, _MAY_FAIL):
                raise
            many.why_not = f"{error} {' '.join(getattr(error, '__notes__', ()))}"
            return False
        own = self.parts.get(many.key)
        many.add(program, choice, None if own is None else own.program, arguments.tensors)
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

    def _signature(self, live: Values, position: int) -> tuple[Arguments, Any]:
        """The tensors that are still needed, and what a part is found by; None if that would be too long."""
        arguments, last_use = Arguments(), self.graph.last_use
        parts: list[Any] = [position]
        budget = [MOST_KEY_ELEMENTS]
        for name, value in live.items():
            if last_use.get(name, -1) >= position and not (
                isinstance(value, Constant) and name in self.graph.constants
            ):
                parts.append((name, _key_of(value, arguments, name, budget)))
        return arguments, (tuple(parts) if budget[0] >= 0 else None)

    def _new_part(self, live: Values, position: int, arguments: Arguments) -> Part:
        """The longest part from a position on that can be captured."""
        stop = len(self.graph.steps)
        self._load(live, position, stop)
        while stop > position:
            try:
                program = self._captured(dict(live), position, stop, arguments.tensors)
            except Exception as error:  # a step that reads data says so in many ways; alone it says what is wrong
                if not isinstance(error, _MAY_FAIL):
                    raise
                if self._at >= stop:  # the steps are fine, their program is not
                    return Part(stop, None)
                stop = self._at
            else:
                return Part(stop, program)
        return Part(position + 1, None)

    def _captured(
        self,
        live: Values,
        position: int,
        stop: int,
        tensors: list[Any],
        shapes: Sequence[tuple[Any, ...]] | None = None,
    ) -> Program:
        """The program of steps. `shapes`: those with variables that the tensors are to have in it."""
        last_use = self.graph.last_use

        def run(shown: Sequence[Any]) -> Values:
            self._at = position
            other = {id(before): now for before, now in zip(tensors, shown, strict=True) if now is not before}
            live.update({name: other[id(value)] for name, value in live.items() if id(value) in other})
            before = set(live)
            self._run(live, position, stop)
            self._at = stop
            return {name: v for name, v in live.items() if name not in before and last_use.get(name, -1) >= stop}

        program = capture(self.graph.name or "graph", run, tensors, shapes)
        self.captures += 1
        return program

    def _load(self, live: Values, position: int, stop: int) -> None:
        """Reads the constants that steps will need: a file cannot be read while they are traced."""
        for step in self.graph.steps[position:stop]:
            for name in step.reads():
                value = live.get(name)
                if isinstance(value, Derived):
                    value.value()
                if isinstance(value, Constant) and (not value.is_small() or _is_weight(value.array())):
                    value.tensor(self.context.device)

    def _settle(self, live: Values) -> None:
        """Computes what a step has given, so that the next part has it in memory."""
        found: list[Tensor] = []
        for value in live.values():
            if not isinstance(value, Constant):
                take_out(value, found)
        if found:
            found[0].realize(*found[1:])

    def _drop(self, live: Values, position: int) -> None:
        last_use = self.graph.last_use
        for name in [name for name in live if last_use.get(name, -1) < position]:
            del live[name]

    # ---- steps

    def _run(self, live: Values, position: int, stop: int, is_kept: bool = False) -> None:
        """Runs steps one after the other; their results go into `live`. `is_kept`: what nobody needs stays, too."""
        last_use, is_traced = self.graph.last_use, current() is not None
        for number in range(position, stop):
            step = self.graph.steps[number]
            self._at = number
            try:
                results = self.step(step, live)
            except JitError:
                raise
            except Exception as error:
                error.add_note(f"in the node {_spell(step.node)} of the ONNX graph {self.graph.name!r}")
                raise
            for name, value in zip(step.outputs, results, strict=False):
                if name:
                    live[name] = value
            if not is_traced and not is_kept:
                for name in step.reads():
                    if last_use.get(name, -1) <= number:
                        live.pop(name, None)

    def step(self, step: Step, live: Values) -> tuple[Any, ...]:
        """The outputs of one step."""
        given = [live[name] if name else None for name in step.inputs]
        if step.body is not None:
            names = [port.name for port in step.body.inputs]
            given += [None] * (len(names) - len(given))
            return tuple(self.inner(step.body)(dict(zip(names, given, strict=True))))
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
        return id(value)
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
        if value is None or (isinstance(value, np.ndarray) and is_small("i", value.size)) or isinstance(value, Sizes):
            found.append(value)
        elif isinstance(value, Constant) and value.is_small():
            if isinstance(value, Derived) and not isinstance(value.value(), np.ndarray):
                return None
            found.append(value.array())
        else:
            return None
    return found if found else None


def _is_weight(array: Any) -> bool:
    """Whether a small array is kept as a tensor; others become parts of kernels, or are made where they are used."""
    return array.dtype.kind not in "biuOUS" and array.size > 1


def _spell(node: Node) -> str:
    return f"{node} ({node.domain or 'ai.onnx'} {node.version})"
