"""The layers of a model as they are seen while somebody watches: class, parameters, and what gives values to what.

    blocks.0.attn.qkv   Linear   weight float32(96, 32), bias float32(96,)     blocks.0.ln1 -> blocks.0.attn.qkv

A layer is noted when its method makes a tensor (`whit.tensor.place`), under the path by which its parameters are named;
so nothing has to be registered, and any class is a layer. Nothing is kept alive: parameters are known by what they look
like, their memories weakly.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from whit.cache import register_cache
from whit.ir import ops
from whit.ir.uop import UOp
from whit.records import dataclass, field

if TYPE_CHECKING:
    from whit.engine.report.user_place import Place

MOST_LAYERS = 10_000
NOTHING_LEFT: Mapping[str, int] = {}


@dataclass(slots=True)
class Layer:
    """One layer, known by its path."""

    path: str
    kind: str  # the name of its class
    parameters: dict[str, tuple[str, tuple[int, ...], int]] = field(default_factory=dict)  # dtype, shape, bytes
    seen: int = 0  # how often it has made a tensor


layers: dict[str, Layer] = {}
flows: dict[tuple[str, str], None] = {}  # from one layer to another, in the forward pass
_paths: weakref.WeakKeyDictionary[UOp, str] = weakref.WeakKeyDictionary()  # BUFFER -> "head.weight"
register_cache(layers.clear, "engine.layers")
register_cache(flows.clear, "engine.flows")
register_cache(_paths.clear, "engine.parameter_paths")


def layer_at(path: str, kind: str) -> Layer | None:
    """The layer of a path, which has made something once more; None if there are too many."""
    found = layers.get(path)
    if found is None or found.kind != kind:
        if len(layers) >= MOST_LAYERS:
            return None
        found = layers[path] = Layer(path, kind)
    found.seen += 1
    return found


def note_layer(path: str, owner: Any) -> None:
    """A method of this object has made a tensor."""
    found = layer_at(path, type(owner).__name__)
    if found is None:
        return
    for name, value in vars(owner).items():
        if hasattr(type(value), "uop"):
            node = value.uop
            while node.op is ops.AFTER:  # written to, and not computed yet
                node = node.src[0]
            if node.op is ops.BUFFER:
                _paths[node] = f"{path}.{name}" if path else name
            if name not in found.parameters and all(type(size) is int for size in node.shape):
                sizes = tuple(int(size) for size in node.shape)
                count = node.dtype.itemsize
                for size in sizes:
                    count *= size
                found.parameters[name] = (node.dtype.name, sizes, count)


def layer_of(part: str) -> str:
    """The path of the layer that something is a part of: "blocks.0" of "blocks.0#2"."""
    return part.partition("#")[0]


def parameter_path(memory: UOp | None) -> str:
    """The path of the parameter in a memory: "head.weight"; "" if it is none."""
    return "" if memory is None else _paths.get(memory, "")


def note_flow(graph: UOp, owners: Mapping[UOp, Place], data: Collection[UOp]) -> None:
    """Which layers of a graph use what others made, gradients and optimisers left out. `data`: the PARAMs that are no
    numbers; what is computed from numbers alone is shared by layers that share nothing else.

    What a layer does itself before and after the layers inside of it are parts of it: "blocks.0", "blocks.0#2", ...
    """
    order = graph.topological()
    walk = _Flow(owners, order)
    given: set[UOp] = set(data)
    for node in order:
        if node in given or not given.isdisjoint(node.src):
            given.add(node)
            walk.visit(node)


class _Flow:
    """The parts of layers that nodes belong to."""

    def __init__(self, owners: Mapping[UOp, Place], order: Sequence[UOp]) -> None:
        self.paths = {node: place[3] for node, place in owners.items() if _is_forward(place)}
        users: dict[UOp, set[str]] = {}
        for node in reversed(order):
            is_view = node.op in ops.MOVEMENT  # of views those count that use what they show
            found = users.get(node, set()) if is_view else {self.paths[node]} if node in self.paths else set()
            for source in node.src:
                users.setdefault(source, set()).update(found)
        # Views that several layers make of one value are one node, which belongs to none of them.
        self.shared = {node for node, paths in users.items() if node.op in ops.MOVEMENT and len(paths) > 1}
        known = set(self.paths.values())
        self.outer = known & {outer for path in known for outer in around(path)}
        self.parts: dict[UOp, int] = {}  # which part of its layer a node is
        self.left: dict[UOp, dict[str, int]] = {}  # of each outer layer the part that follows on a way through others

    def visit(self, node: UOp) -> None:
        """One more node, after its sources."""
        if node in self.shared and node.src[0] in self.parts:
            source = node.src[0]
            self.paths[node], self.parts[node], self.left[node] = (
                self.paths[source],
                self.parts[source],
                self.left[source],
            )
            return
        path = self.paths.get(node)
        sources = [(self.paths[source], self.parts[source]) for source in node.src if source in self.parts]
        after: dict[str, int] = {}
        for source in node.src:
            _raise(after, self.left.get(source, NOTHING_LEFT))
        _raise(after, {other: part + 1 for other, part in sources if other != path and other in self.outer})
        self.left[node] = after
        if path is not None:
            number = max([after.get(path, 0), *(part for other, part in sources if other == path)])
            self.parts[node] = number
            found = {(_part(*source), _part(path, number)): None for source in sources}
            flows.update({pair: None for pair in found if pair[0] != pair[1]})


def _raise(numbers: dict[str, int], others: Mapping[str, int]) -> None:
    """The larger of both, for each name."""
    for name, number in others.items():
        numbers[name] = max(numbers.get(name, 0), number)


def _is_forward(place: Place) -> bool:
    """Whether a layer that was watched made it in the forward pass."""
    return not place[4] and isinstance(place[2], str) and not place[2].endswith(" init")


def around(path: str) -> list[str]:
    """The paths of the layers around one, the outermost first: "", "a", "a.b" of "a.b.c"."""
    parts = path.split(".")
    return [".".join(parts[:count]) for count in range(len(parts))] if path else []


def _part(path: str, number: int) -> str:
    return f"{path}#{number + 1}" if number else path
