"""A class of its own for one module: hooks around its calls, and attributes that are computed when they are read.

    handle = layer.register_forward_hook(hook)     # layer(x), then hook(layer, (x,), y)
    compute(layer, "weight", scaled)               # layer.weight is scaled(layer), each time

Python looks for `__call__` and properties in classes, not in instances. So a module with hooks becomes an instance of a
class of the same name above its own, and modules without hooks are called as if there were none. The JIT sees the class
of what it calls, and captures again when it has changed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, ClassVar, NamedTuple, Self

from whit.cache import register_cache
from whit.errors import ArgumentError
from whit.tensor import Tensor

_numbers = itertools.count()
_quiet: ContextVar[bool] = ContextVar("quiet", default=False)  # gradients are asked for by a hook itself


class Hook(NamedTuple):
    """A function of the user, and what it wants."""

    number: int
    function: Callable[..., Any]
    with_kwargs: bool = False


class Extras:
    """The hooks of a module, and its attributes that are computed. Not seen by what looks for tensors."""

    __slots__ = ("after", "backward", "backward_before", "before", "computed")

    def __init__(self) -> None:
        self.before: list[Hook] = []
        self.after: list[Hook] = []
        self.backward_before: list[Hook] = []
        self.backward: list[Hook] = []
        self.computed: dict[str, Callable[[Any], Tensor]] = {}


class Handle:
    """Takes a hook away: `handle.remove()`, or the end of `with handle:`."""

    __slots__ = ("hooks", "number")

    def __init__(self, hooks: list[Hook], number: int) -> None:
        self.hooks, self.number = hooks, number

    def remove(self) -> None:
        """The hook is not called any more. Twice is once."""
        self.hooks[:] = [hook for hook in self.hooks if hook.number != self.number]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def add_hook(
    module: Any, kind: str, function: Callable[..., Any], prepend: bool = False, with_kwargs: bool = False
) -> Handle:
    """One more hook of a kind, the name of a field of Extras."""
    if not callable(function):
        raise ArgumentError(f"{type(module).__name__}: {function!r:.60} is no hook", fix="Give a function.")
    hooks: list[Hook] = getattr(_extras_of(module), kind)
    hook = Hook(next(_numbers), function, with_kwargs)
    hooks.insert(0 if prepend else len(hooks), hook)
    return Handle(hooks, hook.number)


def compute(module: Any, name: str, function: Callable[[Any], Tensor]) -> None:
    """From now on, an attribute is what the function of the module gives."""
    extras = _extras_of(module)
    vars(module).pop(name, None)
    extras.computed[name] = function
    _become(module, extras)


def compute_no_more(module: Any, name: str) -> None:
    """The attribute is none again; its value is for the caller to set."""
    extras = _extras_of(module)
    del extras.computed[name]
    _become(module, extras)


def _extras_of(module: Any) -> Extras:
    """The extras of a module, which has a class of its own then."""
    extras: Extras | None = vars(module).get("_extras")
    if extras is None:
        extras = module._extras = Extras()
        _become(module, extras)
    return extras


def _become(module: Any, extras: Extras) -> None:
    kind = type(module)
    module.__class__ = _own_class(kind._plain if issubclass(kind, OwnClass) else kind, tuple(extras.computed))


class OwnClass:
    """What a class for one module has before its own."""

    _plain: ClassVar[Any]
    _extras: Extras

    def __call__(self, *args: Any, **given: Any) -> Any:
        """What the module gives for the arguments, with the hooks before and after."""
        extras = self._extras
        for hook in tuple(extras.before):
            args, given = _called_before(hook, self, args, given)
        backward = _Backward(self, extras) if extras.backward or extras.backward_before else None
        if backward is not None:
            args = backward.entered(args)
        result = super().__call__(*args, **given)  # type: ignore[misc]  # the class above is a module's
        for hook in tuple(extras.after):
            words = (self, args, given, result) if hook.with_kwargs else (self, args, result)
            found = hook.function(*words)
            result = result if found is None else found
        return result if backward is None else backward.left(result)

    def __reduce_ex__(self, _: Any) -> tuple[Any, ...]:
        return _restored, (self._plain, tuple(self._extras.computed)), vars(self)


def _called_before(hook: Hook, module: Any, args: Any, given: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments after a hook has seen them."""
    found = hook.function(module, args, given) if hook.with_kwargs else hook.function(module, args)
    if found is None:
        return args, given
    if not hook.with_kwargs:
        return found if isinstance(found, tuple) else (found,), given
    if not (isinstance(found, tuple) and len(found) == 2):
        raise ArgumentError(
            f"{type(module).__name__}: a hook of arguments with keywords gives {found!r:.60}",
            fix="Return None, or a pair: the arguments and the keywords.",
        )
    return found


class _Backward:
    """Hooks of the gradients of one call: both ends of it are the identity, whose gradient calls them.

    What reaches the inputs is asked for at the outputs already: no gradient may be wanted of any input.
    """

    def __init__(self, module: Any, extras: Extras) -> None:
        self.module, self.extras = module, extras
        self.inputs: tuple[Tensor, ...] = ()
        self.places: list[int] = []
        self.replaced: tuple[Any, ...] | None = None

    def entered(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        self.places = [i for i, value in enumerate(args) if isinstance(value, Tensor) and value.is_floating_point()]
        if not self.places:
            return args
        function = Tensor.custom_function(_same, self._at_inputs)
        passed = function(*[args[place] for place in self.places])
        self.inputs = passed if isinstance(passed, tuple) else (passed,)
        values = list(args)
        for place, value in zip(self.places, self.inputs, strict=True):
            values[place] = value
        return tuple(values)

    def left(self, result: Any) -> Any:
        many = isinstance(result, tuple | list)
        outputs = list(result) if many else [result]
        places = [i for i, value in enumerate(outputs) if isinstance(value, Tensor) and value.is_floating_point()]
        if not places:
            return result
        self.outputs = [outputs[place] for place in places]
        passed = Tensor.custom_function(_same, self._at_outputs)(*self.outputs)
        for place, value in zip(places, passed if isinstance(passed, tuple) else (passed,), strict=True):
            outputs[place] = value
        if not many:
            return outputs[0]
        return type(result)(*outputs) if hasattr(result, "_fields") else type(result)(outputs)

    def _at_outputs(self, slopes: Any, _: Any, *__: Tensor) -> Any:
        given = tuple(slopes) if isinstance(slopes, tuple | list) else (slopes,)
        if _quiet.get():
            return given
        for hook in tuple(self.extras.backward_before):
            given = _as_told(hook.function(self.module, given), given)
        if self.extras.backward:
            asked = self._of_inputs(given)
            for hook in tuple(self.extras.backward):
                found = _as_told(hook.function(self.module, asked, given), asked)
                if found is not asked:
                    asked = self.replaced = found
        return given

    def _of_inputs(self, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The gradients of the inputs, for hooks; hooks of modules inside are not called for them."""
        if not self.inputs:
            return ()
        before = _quiet.set(True)
        try:
            products = [(y * dy).sum() for y, dy in zip(self.outputs, given, strict=True)]
            total = products[0]
            for more in products[1:]:
                total = total + more
            return tuple(total.gradient(*self.inputs))
        finally:
            _quiet.reset(before)

    def _at_inputs(self, slopes: Any, _: Any, *__: Tensor) -> Any:
        given = tuple(slopes) if isinstance(slopes, tuple | list) else (slopes,)
        return given if self.replaced is None or _quiet.get() else self.replaced


def _same(*values: Tensor) -> Any:
    return values if len(values) > 1 else values[0]


def _as_told(found: Any, before: tuple[Any, ...]) -> tuple[Any, ...]:
    """The gradients that a hook gives; None leaves them."""
    if found is None:
        return before
    return tuple(found) if isinstance(found, tuple | list) else (found,)


def trained_as(tensor: Tensor, other: Tensor) -> Tensor:
    """A tensor that is trained if another one is."""
    tensor.requires_grad = other.requires_grad
    return tensor


# (class, names of computed attributes) -> the class above it
_own: dict[tuple[type, tuple[str, ...]], type] = {}
register_cache(_own.clear, "nn.own_classes")


def _own_class(plain: type, names: tuple[str, ...]) -> type:
    if (plain, names) not in _own:
        words: dict[str, Any] = {name: _computed(name) for name in names}
        words |= {"_plain": plain, "__module__": plain.__module__, "__qualname__": plain.__qualname__}
        _own[plain, names] = type(plain.__name__, (OwnClass, plain), words)
    return _own[plain, names]


def _computed(name: str) -> property:
    def value(self: Any) -> Tensor:
        found: Tensor = self._extras.computed[name](self)
        return found

    def put(self: Any, given: Any) -> None:
        setter = getattr(self._extras.computed[name], "put", None)
        if setter is None:
            raise ArgumentError(
                f"{type(self).__name__}: `{name}` is computed from other tensors",
                fix="Change these, or remove its norm.",
            )
        setter(self, given)

    return property(value, put)


def _restored(plain: type, names: tuple[str, ...]) -> Any:
    """A module from a pickle, or a copy, without its attributes."""
    kind: Any = _own_class(plain, names)
    return kind.__new__(kind)
