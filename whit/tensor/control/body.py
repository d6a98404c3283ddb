"""The body of a loop: the graph that a function makes of tensors that stand for those of any step.

    body = Body.trace("scan", f, (state, part))         f ran once, on tensors like these
    body.members                     what it returned, as nodes over `body.inputs`
    body.function(order)             FUNCTION over params: first for `order`, then for `body.constants`

What does not depend on the tensors is computed once, outside: only views of it and numbers are left in the body. What
the function writes to tensors that it got, or has made, is seen by itself alone; writes to others are errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from whit.containers import Structure, opened
from whit.engine.memory.storage import computed_entries
from whit.engine.programs.overlay import Reads, transforming
from whit.errors import ArgumentError, NotSupportedError
from whit.ir import ops
from whit.ir.args import FunctionArg
from whit.ir.graph import topological
from whit.ir.placeholder import new_stand_in
from whit.ir.sizes import Size
from whit.ir.uop import UOp, make
from whit.records import dataclass, field
from whit.tensor.calls import is_number_to_vary
from whit.tensor.core import Core
from whit.tensor.graphs.threefry import Draws, drawing
from whit.tensor.nested import flatten_tensors
from whit.tensor.tensor import Tensor
from whit.transform.active import Compute, Read, Repeat, Step, during

VARIABLES = frozenset({ops.BIND, ops.VARIABLE})


def as_tensors(value: Any) -> Any:
    """Containers with tensors in the place of numbers and arrays."""
    if isinstance(value, Core):
        return value
    if isinstance(value, bool | int | float) or (hasattr(value, "__array__") and hasattr(value, "dtype")):
        return Tensor(value)
    found = opened(value)
    return value if found is None else found.rebuild([as_tensors(part) for part in found.parts])


def stand_in_for(tensor: Any, shape: tuple[Any, ...]) -> Any:
    """A tensor of a shape that stands for those of any step."""
    return tensor._make(new_stand_in(tensor.dtype, shape, tensor.device), tensor.device)


@dataclass(slots=True)
class Body:
    """What a function has made of tensors that stand for others."""

    name: str  # of the function, for people
    inputs: list[UOp]
    members: list[UOp]
    tensors: list[Any]  # those that it returned
    structure: Structure  # what they are in
    draws: list[tuple[UOp, Size]]  # what stands for random numbers, and how many of them a step has
    constants: dict[UOp, UOp] = field(default_factory=dict)  # what else it reads -> its param

    @classmethod
    def trace(cls, what: str, name: str, fn: Callable[..., Any], given: Sequence[Any], draws: Draws) -> Body:
        """Runs a function on tensors, which are in containers."""
        inside = [tensor for value in given for tensor in flatten_tensors(value)[0]]
        inputs = [tensor.uop for tensor in inside]
        reads = _Inside(what, name)
        for tensor in inside:
            reads.note_made(tensor)
        with transforming(), during(_Steps(what, inputs)), drawing(draws):
            result = as_tensors(reads.run(lambda: fn(*given)))
        tensors, structure = flatten_tensors(result)
        members = [tensor.uop for tensor in tensors]
        return cls(
            name if name.isidentifier() else "step",
            [*inputs, *(node for node, _ in draws.made)],
            members,
            tensors,
            structure,
            draws.made,
        )

    def is_fixed(self) -> bool:
        """Whether nothing in it has a symbolic size or depends on a variable."""
        nodes = topological(self.members, stop=self.inputs)
        return all(node.op not in VARIABLES and all(type(n) is int for n in node.shape) for node in nodes)

    def function(self, order: Sequence[UOp], members: Sequence[UOp], constants: dict[UOp, UOp]) -> UOp:
        """The FUNCTION over params for inputs in some order, and then for `constants`, which further ones are added to:
        several functions may have them in common."""
        params = {node: UOp.param(slot, node.dtype, node.shape) for slot, node in enumerate(order)}
        count = len(params)

        def constant(node: UOp) -> UOp:
            found = constants.get(node)
            if found is None:
                found = constants[node] = UOp.param(count + len(constants), node.dtype, node.shape)
            return found

        depending = self._depending()
        done: dict[UOp, UOp] = dict(params)
        for node in _order(members, params, lambda node: self._is_constant(node, depending)):
            if node in done:
                continue
            if self._is_constant(node, depending):
                done[node] = constant(node)
            elif node.op.opaque or not node.src:
                done[node] = node
            else:
                src = [constant(s) if is_number_to_vary(node, i) else done[s] for i, s in enumerate(node.src)]
                done[node] = make(node.op, tuple(src), node.arg)
        body = UOp.group(*[done[member] for member in members])
        used = sorted({node.arg for node in body.topological() if node.op is ops.PARAM}, key=lambda arg: arg.slot)
        return make(ops.FUNCTION, (body,), FunctionArg(self.name, tuple(used)))

    def _depending(self) -> set[UOp]:
        found = set(self.inputs)
        for node in topological(self.members, stop=self.inputs):
            if not found.isdisjoint(node.src):
                found.add(node)
        return found

    def _is_constant(self, node: UOp, depending: set[UOp]) -> bool:
        """Whether a node is the same in all steps, and better known from outside: no number, and no view."""
        if node in depending or node.op.opaque:
            return False
        if node.device is None:
            return node.op is ops.LEAF  # a number that somebody wants a gradient of
        if node.dtype.itemsize == 0:  # a group, or what a loop or call returns
            return False
        is_view = node.op in ops.MOVEMENT or node.op is ops.DETACH
        return not is_view or id(node) in computed_entries or node.src[0].device is None


def _order(roots: Iterable[UOp], params: dict[UOp, UOp], is_constant: Callable[[UOp], bool]) -> list[UOp]:
    """All of the body, sources first; what is constant is not looked into."""
    order: list[UOp] = []
    seen: set[UOp | None] = set()
    stack: list[UOp | None] = [*reversed(list(roots))]
    while stack:
        node = stack.pop()
        if node is None:
            order.append(stack.pop())  # type: ignore[arg-type]
        elif node not in seen:
            seen.add(node)
            stack += [node, None]
            if node not in params and not node.op.opaque and not is_constant(node):
                stack += [source for source in reversed(node.src) if source not in seen]
    return order


class _Inside(Reads):
    """Raises where the body of a loop changes what was there before it."""

    def __init__(self, what: str, name: str) -> None:
        super().__init__()
        self._what, self._name = what, name

    def check_change(self, tensor: Any) -> None:
        """A tensor from outside cannot be another one in each step."""
        if not self.is_made(tensor):
            raise self._error("writes to a tensor", tensor)

    def check_gradient(self, tensor: Any) -> None:
        """The same of a gradient."""
        if not self.is_made(tensor):
            raise self._error("gives a gradient to a tensor", tensor)

    def _error(self, what: str, tensor: Core) -> ArgumentError:
        return ArgumentError(
            f"{self._what}: {self._name} {what} from outside, and it runs once for all steps",
            tensor._made(),
            "Make it a part of the state, or return the new value; what was made in the function can be written to.",
        )


class _Steps:
    """What runs while a function is traced: nothing that computes at once."""

    def __init__(self, what: str, inputs: Iterable[UOp]) -> None:
        self._what, self._inputs = what, set(inputs)

    def computed(self, nodes: Sequence[UOp], compute: Compute) -> list[UOp]:
        """Values that all steps have in common."""
        self._check(nodes)
        return compute(nodes)

    def repeated(self, step: Step, state: Sequence[UOp], repeat: Repeat) -> list[UOp]:
        """The same of a state."""
        self._check(state)
        return repeat(step, state)

    def greatest(self, node: UOp, read: Read) -> float:
        """The same of a number."""
        self._check([node])
        return read(node)

    def _check(self, nodes: Sequence[UOp]) -> None:
        if not self._inputs.isdisjoint(topological(nodes)):
            raise NotSupportedError(
                f"{self._what}: a function in the body computes at once, and a step has no values yet",
                "decompositions of matrices do, which go on until they are exact",
                "Compute it before the loop, or loop in Python.",
            )
