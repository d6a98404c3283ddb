"""What all layers share, and how models are shown: `print(model)` and `summary(model)`.

    class Net(nn.Module):                        # or any class: then print(nn.summary(net))
        def __init__(self):
            self.first, self.second = nn.Linear(784, 128), nn.Linear(128, 10)
        def forward(self, x):                    # or __call__
            return self.second(self.first(x).relu())

    >>> print(net)
    Net: 101,770 parameters
      first   Linear(784, 128)  weight (128, 784), bias (128,)  100,480
      second  Linear(128, 10)   weight (10, 128), bias (10,)      1,290

`Module` needs no `super().__init__()`: it gives a class a text, and the methods that PyTorch's has. Its only state is
what `train()` and `eval()` say; without them a layer follows `Tensor.training`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from math import prod
from types import FunctionType
from typing import Any, ClassVar, NamedTuple, Self

from whit.dtype import DType, dtypes
from whit.errors import ArgumentError, nearest
from whit.ir.op import spell_shape
from whit.names import MODULE, TAKES_ANY_NAME, Absent, advice, with_help
from whit.nn.state.model import get_parameters, get_state_dict, load_state_dict, parts_of
from whit.tensor import Tensor
from whit.tensor.display import escape


class Module:
    """A base for models that print their layers. Any other class is a model too."""

    aliases: ClassVar[Mapping[str, str]] = {}  # arguments that are others under another name
    _training: bool | None = None  # what train() and eval() said last

    def __init_subclass__(cls) -> None:
        made = vars(cls).get("__init__")
        if isinstance(made, FunctionType) and not made.__code__.co_flags & TAKES_ANY_NAME:
            cls.__init__ = with_help(made, cls.__name__)  # type: ignore[method-assign]
        if "forward" in vars(cls) and "__call__" not in vars(cls):
            cls.__call__ = vars(cls)["forward"]  # type: ignore[method-assign]  # seen by the JIT as the class's own

    def __call__(self, *args: Any, **given: Any) -> Any:
        raise ArgumentError(
            f"{type(self).__name__}: the class has no forward", fix="Define forward(self, x), or __call__(self, x)."
        )

    def __repr__(self) -> str:
        """Of a layer, how it was made; of what has layers, the table of them."""
        has_layers = any(row.name for row in _rows(self))
        return summary(self) if has_layers else _described(self)

    def _repr_html_(self) -> str:
        """The same in notebooks."""
        return html_summary(self)

    # ---- training or not

    @property
    def training(self) -> bool:
        """Whether this layer behaves as in training: what train() or eval() said, else `Tensor.training`."""
        said = self._training
        return Tensor.training if said is None else said

    @training.setter
    def training(self, mode: bool) -> None:
        self._training = bool(mode)

    def train(self, mode: bool = True) -> Self:
        """Training for this module and all in it, whatever `Tensor.training` is."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """The opposite of train()."""
        return self.train(False)

    # ---- what is in it

    def modules(self) -> Iterator[Module]:
        """This module and those in it, each once."""
        return (module for _, module in self.named_modules())

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """The same with the way to each; that to this one is the prefix."""
        return _modules(self, prefix)

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules right below this one; those of lists and dictionaries have two words in their name."""
        below = list(self.named_modules())[1:]
        names = {name for name, _ in below}
        for name, module in below:
            ways = [name[:at] for at, letter in enumerate(name) if letter == "."]
            if names.isdisjoint(ways):
                yield name, module

    def children(self) -> Iterator[Module]:
        """The same without names."""
        return (module for _, module in self.named_children())

    def apply(self, function: Callable[[Module], Any]) -> Self:
        """Calls a function with each module in this one, and with this one last."""
        for module in reversed(list(self.modules())):
            function(module)
        return self

    def get_submodule(self, target: str) -> Any:
        """What is at the end of a way as `layers.0.attention`."""
        found: Any = self
        for name in filter(None, target.split(".")):
            inside = dict(parts_of(found))
            if name not in inside:
                raise ArgumentError(f"get_submodule: {type(found).__name__} has no {name!r}{nearest(name, inside)}")
            found = inside[name]
        return found

    def parameters(self) -> list[Tensor]:
        """`nn.state.get_parameters`."""
        return get_parameters(self)

    def buffers(self) -> list[Tensor]:
        """The tensors that are no parameters: running statistics, tables."""
        return [tensor for _, tensor in self.named_buffers()]

    def named_buffers(self) -> list[tuple[str, Tensor]]:
        """The same with their names."""
        trained = {id(tensor) for tensor in get_parameters(self)}
        return [(name, tensor) for name, tensor in get_state_dict(self).items() if id(tensor) not in trained]

    def register_buffer(self, name: str, tensor: Tensor | None) -> None:
        """`self.name = tensor`, which is not trained."""
        if tensor is not None:
            tensor.requires_grad = False
        setattr(self, name, tensor)

    def register_parameter(self, name: str, param: Tensor | None) -> None:
        """`self.name = param`."""
        setattr(self, name, param)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Whether the parameters are trained. Frozen ones are no parameters any more: thaw them one by one."""
        for tensor in get_parameters(self):
            tensor.requires_grad = requires_grad
        return self

    def zero_grad(self) -> None:
        """Forgets the gradients of the parameters."""
        for tensor in self.parameters():
            tensor.grad = None

    def named_parameters(self) -> list[tuple[str, Tensor]]:
        """The same with their names."""
        trained = {id(tensor) for tensor in get_parameters(self)}
        return [(name, tensor) for name, tensor in get_state_dict(self).items() if id(tensor) in trained]

    def state_dict(self) -> dict[str, Tensor]:
        """`nn.state.get_state_dict`."""
        return get_state_dict(self)

    def load_state_dict(self, state_dict: MutableMapping[str, Tensor], strict: bool = True) -> None:
        """`nn.state.load_state_dict`."""
        load_state_dict(self, state_dict, strict=strict, verbose=False)

    def to(self, device: str | DType | None = None, dtype: DType | None = None) -> Self:
        """Moves all tensors to a device; float ones get the dtype."""
        if isinstance(device, DType):
            device, dtype = None, device
        for tensor in {id(tensor): tensor for tensor in get_state_dict(self).values()}.values():
            if device is not None:
                tensor.to_(device)
            if dtype is not None and tensor.is_floating_point() and tensor.dtype is not dtype:
                tensor.replace(tensor.detach().cast(dtype).realize())
        return self

    def cpu(self) -> Self:
        """`to("CPU")`."""
        return self.to("CPU")

    def half(self) -> Self:
        """`to(dtypes.float16)`."""
        return self.to(dtypes.float16)

    def bfloat16(self) -> Self:
        """`to(dtypes.bfloat16)`."""
        return self.to(dtypes.bfloat16)

    def float(self) -> Self:
        """`to(dtypes.float32)`."""
        return self.to(dtypes.float32)

    def double(self) -> Self:
        """`to(dtypes.float64)`."""
        return self.to(dtypes.float64)


def _modules(module: Module, prefix: str) -> Iterator[tuple[str, Module]]:
    """A module and those in it, outermost first, each once."""
    stack: list[tuple[str, Any]] = [(prefix, module)]
    seen: dict[int, Any] = {}  # by id; the objects stay alive
    while stack:
        name, value = stack.pop()
        if isinstance(value, Tensor) or id(value) in seen:
            continue
        seen[id(value)] = value
        if isinstance(value, Module):
            yield name, value
        stack += [(f"{name}.{key}".strip("."), part) for key, part in reversed(list(parts_of(value)))]


for _name in MODULE:
    setattr(Module, _name, Absent(str(advice("Module", _name, MODULE))))


class Sequential(Module):
    """Layers one after another: each is called with what the one before it gave.

    nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))       # a list of layers will do, too
    """

    def __init__(self, *layers: Any) -> None:
        first = layers[0] if len(layers) == 1 else None
        given = first if isinstance(first, list | tuple) else layers
        for layer in given:
            if not callable(layer):
                raise ArgumentError(f"Sequential: {layer!r:.60} is no layer", fix="Layers are functions of one tensor.")
        for place, layer in enumerate(given):
            setattr(self, str(place), layer)  # so that states are called as PyTorch's: "0.weight"

    def __iter__(self) -> Iterator[Callable[..., Any]]:
        return iter([layer for name, layer in vars(self).items() if name.isdecimal()])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def append(self, layer: Any) -> Self:
        """One more layer, at the end."""
        setattr(self, str(len(self)), layer)
        return self

    def __getitem__(self, place: int | slice) -> Any:
        """A layer; of a slice, a Sequential of those."""
        layers = list(self)
        return Sequential(*layers[place]) if isinstance(place, slice) else layers[place]

    def __call__(self, x: Any) -> Any:
        """What the last layer gives."""
        for layer in self:
            x = layer(x)
        return x


def ModuleList(layers: Iterable[Any] = ()) -> list[Any]:  # noqa: N802  # PyTorch's name
    """A list: layers in lists are found like others."""
    return list(layers)


def ModuleDict(layers: Any = ()) -> dict[str, Any]:  # noqa: N802  # PyTorch's name
    """A dictionary: layers in dictionaries are found like others."""
    return dict(layers)


def ParameterList(values: Iterable[Any] = ()) -> list[Tensor]:  # noqa: N802  # PyTorch's name
    """A list of tensors that are trained."""
    return [Parameter(value) for value in values]


def ParameterDict(parameters: Any = ()) -> dict[str, Tensor]:  # noqa: N802  # PyTorch's name
    """A dictionary of tensors that are trained."""
    return {name: Parameter(value) for name, value in dict(parameters).items()}


def Parameter(data: Any, requires_grad: bool = True) -> Tensor:  # noqa: N802  # PyTorch's name
    """A tensor that an optimiser trains: any float tensor in a model is one, unless `requires_grad` is False."""
    tensor = data if isinstance(data, Tensor) else Tensor(data)
    return tensor.requires_grad_(requires_grad)


# ---- shown


class _Row(NamedTuple):
    name: str
    layer: str
    tensors: list[tuple[str, Tensor]]  # its own, not those of layers in it


def summary(model: Any) -> str:
    """The layers of any model: names, how they were made, shapes, and numbers of parameters. Nothing is computed.

    Tensors that an optimiser leaves alone (`requires_grad=False`, integers) are named and not counted. One that is
    there twice counts once.
    """
    title, table = _table(model)
    widths = [max((len(line[column]) for line in table), default=0) for column in range(4)]
    lines = [title]
    for *words, count in table:
        cells = [*(word.ljust(width) for word, width in zip(words, widths, strict=False)), count.rjust(widths[3])]
        lines.append("  " + "  ".join(cell for cell, width in zip(cells, widths, strict=True) if width).rstrip())
    return "\n".join(lines)


def html_summary(model: Any) -> str:
    """The same as a table of HTML, for notebooks."""
    title, table = _table(model)
    heads = "".join(f"<th>{head}</th>" for head in ("layer", "made as", "tensors", "parameters"))
    rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in table)
    return f"<code>{escape(title)}</code><table><tr>{heads}</tr>{rows}</table>"


def _table(model: Any) -> tuple[str, list[tuple[str, str, str, str]]]:
    """A title, and for each layer its name, how it was made, its tensors, and how many numbers are trained."""
    parameters = {id(tensor): tensor for tensor in get_parameters(model)}
    counts = {key: int(prod(tensor.shape)) for key, tensor in parameters.items()}
    total = sum(counts.values())
    table = []
    for row in _rows(model):
        own = sum(counts.pop(id(tensor), 0) for _, tensor in row.tensors)
        table.append((row.name, row.layer, _text_of(row, parameters), f"{own:,}" if own else ""))
    return f"{type(model).__name__}: {total:,} parameter{'' if total == 1 else 's'}", table


def _text_of(row: _Row, parameters: Mapping[int, Tensor]) -> str:
    """Parameters with their shapes; the other tensors."""
    shapes = [f"{name} {spell_shape(tensor.shape)}" for name, tensor in row.tensors if id(tensor) in parameters]
    others = [name for name, tensor in row.tensors if id(tensor) not in parameters]
    return "; ".join(", ".join(names) for names in (shapes, others) if names)


def _rows(model: Any) -> list[_Row]:
    """The layers of a model: what holds tensors, what is a Module without layers in it, and functions in lists."""
    rows: list[_Row] = []
    stack: list[tuple[str, Any, tuple[int, ...], bool]] = [("", model, (), False)]
    while stack:
        name, value, parents, is_listed = stack.pop()
        if is_listed and _is_routine(value):
            rows.append(_Row(name, value.__name__, []))
            continue
        if isinstance(value, Tensor) or id(value) in parents:
            continue
        tensors, rest = _split(value)
        is_container = isinstance(value, list | tuple | dict)
        is_list = is_container or isinstance(value, Sequential)
        if tensors or _is_innermost(value, rest, is_list):
            rows.append(_Row(name, "" if is_container or not name else _described(value), tensors))
        below = (*parents, id(value))
        stack += [(f"{name}.{key}".strip("."), part, below, is_list) for key, part in reversed(rest)]
    return [row for row in rows if row.name or row.tensors]


def _is_innermost(value: Any, rest: list[tuple[str, Any]], is_list: bool) -> bool:
    """Whether something is a layer, and the parts that are no tensors have none."""
    return isinstance(value, Module) and not any(_holds(part, is_list) for _, part in rest)


def _split(value: Any) -> tuple[list[tuple[str, Tensor]], list[tuple[str, Any]]]:
    """The tensors among the parts of something, and the other parts."""
    inside = list(parts_of(value))
    tensors = [(key, part) for key, part in inside if isinstance(part, Tensor)]
    return tensors, [(key, part) for key, part in inside if not isinstance(part, Tensor)]


def _holds(part: Any, is_listed: bool) -> bool:
    """Whether something among the parts of a module is, or has, a layer."""
    if isinstance(part, list | tuple | dict):
        return any(_holds(inner, True) for _, inner in parts_of(part))
    return isinstance(part, Module) or bool(get_state_dict(part)) or (is_listed and _is_routine(part))


def _is_routine(value: Any) -> bool:
    import inspect  # lazy: 4 ms, for what is printed

    return inspect.isroutine(value)


def _described(layer: Any) -> str:
    """How a layer was made: Linear(784, 128). Of another object, its class."""
    import inspect  # lazy: as above

    name = type(layer).__name__
    if not isinstance(layer, Module):
        return name
    words = []
    for each in inspect.signature(type(layer).__init__).parameters.values():
        value = getattr(layer, each.name, each)
        if value is each or each.name in layer.aliases:  # not kept, or shown under the other name
            continue
        if isinstance(each.default, bool):  # a weight, or None
            value = value is not None and value is not False
        if isinstance(value, Tensor) or value == each.default:
            continue
        is_first = each.default is each.empty or each.name in layer.aliases.values()
        words.append(repr(value) if is_first else f"{each.name}={value!r}")
    return f"{name}({', '.join(words)})"
