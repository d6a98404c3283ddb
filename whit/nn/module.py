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

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import prod
from types import FunctionType
from typing import Any, ClassVar, NamedTuple, Self

from whit.dtype import DType, DTypeLike, dtypes, to_dtype
from whit.errors import AbsentError, ArgumentError, nearest
from whit.ir.op import spell_shape
from whit.names import MODULE, TAKES_ANY_NAME, Absent, advice, with_help
from whit.nn.own_class import Handle, OwnClass, add_hook
from whit.nn.state.model import IncompatibleKeys, get_parameters, get_state_dict, load_named, parts_of
from whit.tensor import Tensor
from whit.tensor.display import escape


class Module:
    """A base for models that print their layers. Any other class is a model too."""

    aliases: ClassVar[Mapping[str, str]] = {}  # arguments that are others under another name
    _training: bool | None = None  # what train() and eval() said last

    def __init_subclass__(cls) -> None:
        made = vars(cls).get("__init__")
        plain: Any = getattr(made, "__wrapped__", made)
        plain = plain if isinstance(plain, FunctionType) else made
        if isinstance(made, FunctionType) and not plain.__code__.co_flags & TAKES_ANY_NAME:
            cls.__init__ = with_help(made, cls.__name__)  # type: ignore[method-assign]
        for name, other in (
            ("forward", "__call__"),
            ("__call__", "forward"),
        ):  # each seen by the JIT as the class's own
            if name in vars(cls) and other not in vars(cls) and not issubclass(cls, OwnClass):
                setattr(cls, other, vars(cls)[name])

    def __call__(self, *args: Any, **given: Any) -> Any:
        raise ArgumentError(
            f"{type(self).__name__}: the class has no forward", fix="Define forward(self, x), or __call__(self, x)."
        )

    def forward(self, *args: Any, **given: Any) -> Any:
        """What a call gives, without hooks."""
        return Module.__call__(self, *args, **given)

    # ---- hooks

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> Handle:
        """Calls hook(module, args) before each call; what it returns, if anything, are the arguments."""
        return add_hook(self, "before", hook, prepend, with_kwargs)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> Handle:
        """Calls hook(module, args, result) after each call; what it returns, if anything, is the result."""
        if always_call:
            raise ArgumentError("register_forward_hook: always_call=True", fix="Use try and finally around the call.")
        return add_hook(self, "after", hook, prepend, with_kwargs)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> Handle:
        """Calls hook(module, gradients of the results) when these are known; it may return others."""
        return add_hook(self, "backward_before", hook, prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> Handle:
        """Calls hook(module, gradients of the arguments, of the results); it may return others of the arguments."""
        return add_hook(self, "backward", hook, prepend)

    def __repr__(self) -> str:
        """Of a layer, how it was made; of what has layers, the table of them."""
        has_layers = any(row.name for row in _rows(self))
        return summary(self) if has_layers else _described(self)

    def extra_repr(self) -> str:
        """What stands between the parentheses of a layer that is printed: how it was made."""
        return _arguments(self)

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

    def add_module(self, name: str, module: Any) -> None:
        """`self.name = module`."""
        setattr(self, name, module)

    register_module = add_module

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
                raise AbsentError(f"get_submodule: {type(found).__name__} has no {name!r}{nearest(name, inside)}")
            found = inside[name]
        return found

    def set_submodule(self, target: str, module: Any) -> None:
        """Puts a module at the end of a way."""
        way, _, name = target.rpartition(".")
        owner = self.get_submodule(way)
        if isinstance(owner, list):
            owner[int(name)] = module
        elif isinstance(owner, dict):
            owner[name] = module
        else:
            setattr(owner, name, module)

    def get_parameter(self, target: str) -> Tensor:
        """The parameter at the end of a way as `layers.0.weight`."""
        return _named("get_parameter", target, dict(self.named_parameters()))

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at the end of a way as `norm.running_mean`."""
        return _named("get_buffer", target, dict(self.named_buffers()))

    def parameters(self, recurse: bool = True) -> Iterator[Tensor]:
        """One by one, those of `nn.state.get_parameters`; without `recurse`, those of this module alone."""
        return (tensor for _, tensor in self.named_parameters(recurse=recurse))

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """The same with their names, which begin with the prefix."""
        return self._named(True, prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The tensors that are no parameters: running statistics, tables."""
        return (tensor for _, tensor in self.named_buffers(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """The same with their names."""
        return self._named(False, prefix, recurse, remove_duplicate)

    def _named(self, trained: bool, prefix: str, recurse: bool, once: bool) -> Iterator[tuple[str, Tensor]]:
        """Tensors that are trained, or those that are not, with their names."""
        parameters = {id(tensor) for tensor in get_parameters(self)}
        before = f"{prefix}." if prefix else ""
        seen: set[int] = set()
        for name, tensor in get_state_dict(self).items():
            is_first = id(tensor) not in seen or not once
            if (id(tensor) in parameters) is trained and is_first and (recurse or "." not in name):
                seen.add(id(tensor))
                yield before + name, tensor

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

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients of the parameters."""
        if not set_to_none:
            raise ArgumentError("zero_grad: set_to_none=False", fix="Gradients that are None are zeros.")
        for tensor in self.parameters():
            tensor.grad = None

    def state_dict(
        self, *, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Tensor]:
        """`nn.state.get_state_dict`; into a dictionary, if one is given. `keep_vars` changes nothing: there are no
        other tensors than those of the module."""
        found = get_state_dict(self, prefix)
        if destination is None:
            return found
        destination.update(found)
        return destination

    def load_state_dict(
        self, state_dict: Mapping[str, Tensor], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Gives the tensors of the module the values of those of the same names; returns the names that only one side
        has, which raise if `strict`. With `assign` they get the dtypes and devices of the values, too."""
        return load_named(self, state_dict, strict, assign)

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

    def type(self, dst_type: DTypeLike) -> Self:
        """`to` of a dtype."""
        return self.to(dtype=to_dtype(dst_type))

    def cuda(self, device: int | str | None = None) -> Self:
        """`to("CUDA")`, or the GPU of that number."""
        return self.to("CUDA" if device is None else f"CUDA:{device}" if isinstance(device, int) else device)


def _named(asked: str, target: str, tensors: dict[str, Tensor]) -> Tensor:
    if target not in tensors:
        raise AbsentError(f"{asked}: there is no {target!r}{nearest(target, tensors)}")
    return tensors[target]


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
    name = type(layer).__name__
    return f"{name}({layer.extra_repr()})" if isinstance(layer, Module) else name


def _arguments(layer: Module) -> str:
    """The arguments that a layer was made with, where it keeps them and they are not the defaults."""
    import inspect  # lazy: 4 ms, for what is printed

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
    return ", ".join(words)
