"""`jax.jit`, `grad`, `vmap` and the others, with JAX's arguments: those of whit, and TinyJit (docs/transforms.md).

    step = jit(value_and_grad(loss))
    step(params, x)

Functions are expected to be pure, as there. Python numbers and arrays that such a function is called with are tensors
inside of it, but for static arguments.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from whit.errors import ArgumentError
from whit.jax import tree
from whit.jit.jit import TinyJit
from whit.tensor import Tensor
from whit.tensor import transforms as whole
from whit.tensor.nested import tensors_in
from whit.tensor.recompute import checkpoint as _checkpoint
from whit.tensor.transforms import hessian as _hessian

Function = Callable[..., Any]

_inside: ContextVar[bool] = ContextVar("_inside", default=False)  # of a transform: the JIT does not capture there


@contextmanager
def transforming() -> Iterator[None]:
    """Functions that are called in this block are parts of one that is transformed."""
    token = _inside.set(True)
    try:
        yield
    finally:
        _inside.reset(token)


def _within(function: Function) -> Function:
    """A function whose calls are such blocks."""

    @functools.wraps(function, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        with transforming():
            return function(*args, **kwargs)

    return call


def as_arrays(value: Any) -> Any:
    """Numbers and arrays in containers, as tensors."""
    return tree.map(_as_array, value)


def _as_array(leaf: Any) -> Any:
    if isinstance(leaf, bool | int | float | complex) or (hasattr(leaf, "__array_interface__")):
        return Tensor(leaf)
    return leaf


def _transformed(transform: Function, fun: Function, *options: Any) -> Function:
    """A transform of a function: numbers and arrays that it is called with are tensors."""
    found = transform(fun, *options)

    @functools.wraps(fun, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        with transforming():
            return found(*[as_arrays(arg) for arg in args], **kwargs)

    return call


# ---- derivatives


def grad(
    fun: Function, argnums: Any = 0, has_aux: bool = False, holomorphic: bool = False, allow_int: bool = False
) -> Function:
    """The gradient of a function that gives a number."""
    return _transformed(whole.grad, fun, argnums, has_aux)


def value_and_grad(
    fun: Function, argnums: Any = 0, has_aux: bool = False, holomorphic: bool = False, allow_int: bool = False
) -> Function:
    """The number, too."""
    return _transformed(whole.value_and_grad, fun, argnums, has_aux)


def jacfwd(fun: Function, argnums: Any = 0, has_aux: bool = False, holomorphic: bool = False) -> Function:
    """The Jacobian, a column at a time."""
    return _transformed(whole.jacfwd, fun, argnums, has_aux)


def jacrev(
    fun: Function, argnums: Any = 0, has_aux: bool = False, holomorphic: bool = False, allow_int: bool = False
) -> Function:
    """The Jacobian, a row at a time."""
    return _transformed(whole.jacrev, fun, argnums, has_aux)


jacobian = jacrev


def hessian(fun: Function, argnums: Any = 0, has_aux: bool = False, holomorphic: bool = False) -> Function:
    """The second derivatives."""
    return _transformed(_hessian, fun, argnums, has_aux)


def vjp(fun: Function, *primals: Any, has_aux: bool = False, reduce_axes: Any = ()) -> Any:
    """fun(*primals), and what takes a cotangent of it to those of the arguments."""
    with transforming():
        return whole.vjp(fun, *[as_arrays(each) for each in primals], has_aux=has_aux)


def jvp(fun: Function, primals: Any, tangents: Any, has_aux: bool = False) -> Any:
    """fun(*primals), and how it moves along the tangents."""
    with transforming():
        return whole.jvp(fun, as_arrays(tuple(primals)), as_arrays(tuple(tangents)), has_aux=has_aux)


def linearize(fun: Function, *primals: Any, has_aux: bool = False) -> Any:
    """fun(*primals), and the linear function that is nearest to it there."""
    with transforming():
        return whole.linearize(fun, *[as_arrays(each) for each in primals], has_aux=has_aux)


def linear_transpose(fun: Function, *primals: Any) -> Function:
    """The transpose of a linear function: it takes a cotangent of its result to those of its arguments."""
    zeros = [tree.map(lambda leaf: Tensor.zeros(*leaf.shape, dtype=leaf.dtype), each) for each in primals]
    pull: Function = vjp(fun, *zeros)[1]
    return pull


# ---- batches, recomputation


def vmap(
    fun: Function,
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
    spmd_axis_name: Any = None,
) -> Function:
    """fun for every example of a batch at once."""
    axes = tuple(in_axes) if isinstance(in_axes, list) else in_axes
    return _transformed(whole.vmap, fun, axes, out_axes)


def checkpoint(
    fun: Function | None = None,
    *,
    concrete: bool = False,
    prevent_cse: bool = True,
    static_argnums: Any = (),
    policy: Any = None,
) -> Function:
    """fun, whose results in between are computed again for its gradient."""
    if fun is None:
        return functools.partial(checkpoint, static_argnums=static_argnums)

    @functools.wraps(fun, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        return _checkpoint(fun, *args, **kwargs)

    return call


remat = checkpoint


def stop_gradient(x: Any) -> Any:
    """The same values, where no gradient flows."""
    return tree.map(lambda leaf: leaf.detach() if isinstance(leaf, Tensor) else leaf, x)


# ---- jit


class Jitted:
    """A function under the JIT: one program for each kind of arguments."""

    def __init__(self, fun: Function, static_argnums: tuple[int, ...], static_argnames: tuple[str, ...]) -> None:
        functools.update_wrapper(self, fun, updated=())
        self._fun, self._argnums, self._argnames = fun, static_argnums, static_argnames
        self._programs: dict[Any, TinyJit[..., Any]] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _inside.get():
            return self._fun(*[self._argument(i, arg) for i, arg in enumerate(args)], **kwargs)
        static = {i: args[i] for i in self._static_places(len(args))}
        named = {name: kwargs[name] for name in self._argnames if name in kwargs}
        try:
            program = self._program(static, named)
        except TypeError as error:
            raise ArgumentError(
                f"jit: a static argument of {self.__name__} cannot be a key: {error}",  # type: ignore[attr-defined]
                fix="Static arguments are numbers, texts, tuples and functions: what can be hashed.",
            ) from None
        rest = [as_arrays(arg) for i, arg in enumerate(args) if i not in static]
        return program(*rest, **{name: as_arrays(value) for name, value in kwargs.items() if name not in named})

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """There is nothing to look at before the first call: `trace`, `explain()` and DEBUG show what runs."""
        raise ArgumentError("jit: there is no `lower`", fix="`y.explain()` says what would run for a tensor.")

    def clear_cache(self) -> None:
        """Forgets the programs."""
        self._programs.clear()

    def _argument(self, place: int, value: Any) -> Any:
        return value if place in self._static_places(place + 1) else as_arrays(value)

    def _static_places(self, count: int) -> set[int]:
        return {i % count if i < 0 else i for i in self._argnums if i < count}

    def _program(self, static: dict[int, Any], named: dict[str, Any]) -> TinyJit[..., Any]:
        key = (tuple(sorted(static.items(), key=lambda item: item[0])), tuple(sorted(named.items())))
        found = self._programs.get(key)
        if found is None:
            found = self._programs[key] = TinyJit(self._of_arrays(static, named))
        return found

    def _of_arrays(self, static: dict[int, Any], named: dict[str, Any]) -> Function:
        """The function of what is not static."""
        if not static and not named:
            return _with_arrays(self._fun)

        def call(*rest: Any, **kwargs: Any) -> Any:
            given = iter(rest)
            args = [static[i] if i in static else next(given) for i in range(len(static) + len(rest))]
            return as_arrays(self._fun(*args, **kwargs, **named))

        call.__name__ = call.__qualname__ = getattr(self._fun, "__name__", "jit")
        return call


def _with_arrays(fun: Function) -> Function:
    """A function whose results are tensors, numbers too."""

    @functools.wraps(fun, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        return as_arrays(fun(*args, **kwargs))

    return call


def jit(
    fun: Function | None = None,
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Iterable[str] = (),
    donate_argnums: Any = (),
    donate_argnames: Any = (),
    **options: Any,
) -> Any:
    """A function that is captured once for each kind of arguments, and replayed without Python from then on."""
    if fun is None:
        return functools.partial(jit, static_argnums=static_argnums, static_argnames=static_argnames)
    if not callable(fun):
        raise ArgumentError(f"jit: {fun!r:.60} is no function", fix="Give a function.")
    places = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    known = _parameters(fun)
    names += tuple(known[i] for i in places if i < len(known))
    places += tuple(known.index(name) for name in names if name in known)
    return Jitted(fun, tuple(dict.fromkeys(places)), tuple(dict.fromkeys(names)))


def _parameters(fun: Function) -> list[str]:
    try:
        return list(inspect.signature(fun).parameters)
    except (TypeError, ValueError):  # of C
        return []


# ---- functions with derivatives of their own


class custom_vjp:  # noqa: N801  # JAX's name
    """A function whose gradient is given by `defvjp(forward, backward)`."""

    def __init__(self, fun: Function, nondiff_argnums: Sequence[int] = ()) -> None:
        functools.update_wrapper(self, fun, updated=())
        self._fun, self._fixed = fun, tuple(nondiff_argnums)
        self._forward: Function | None = None
        self._backward: Function | None = None

    def defvjp(self, fwd: Function, bwd: Function, **options: Any) -> None:
        """`fwd(*args)` gives (result, residuals), `bwd(residuals, cotangent)` a cotangent for each argument."""
        self._forward, self._backward = fwd, bwd

    def __call__(self, *args: Any) -> Any:
        if self._forward is None or self._backward is None:
            raise ArgumentError(f"custom_vjp: {self._fun.__name__} has no gradient", fix="Call defvjp(fwd, bwd).")
        fixed = [args[i] for i in self._fixed]
        moving = [arg for i, arg in enumerate(args) if i not in self._fixed]
        forward, backward = self._forward, self._backward

        def put(given: Sequence[Any]) -> list[Any]:
            rest = iter(given)
            return [args[i] if i in self._fixed else next(rest) for i in range(len(args))]

        def value(*given: Any) -> Any:
            return self._fun(*put(given))

        def gradient(dy: Any, y: Any, *given: Any) -> list[Any]:
            _, residuals = forward(*put(given))
            return _of_tensors(backward(*fixed, residuals, dy), given)

        value.__name__ = self._fun.__name__
        return Tensor.custom_function(value, gradient)(*[as_arrays(arg) for arg in moving])


def _of_tensors(found: Any, given: Sequence[Any]) -> list[Any]:
    """The cotangents of the tensors among arguments."""
    result: list[Any] = []
    for slope, value in zip(found, given, strict=True):
        inside = tensors_in(value)
        slopes = [None] * len(inside) if slope is None else tree.structure(value).flatten_up_to(slope)
        pairs = zip(slopes, inside, strict=True)
        result += [None if each is None or not tensor.dtype.is_float else each for each, tensor in pairs]
    return result


class custom_jvp:  # noqa: N801  # JAX's name
    """A function whose derivative is given by `defjvp(rule)`, or by `defjvps` of one function for each argument."""

    def __init__(self, fun: Function, nondiff_argnums: Sequence[int] = ()) -> None:
        functools.update_wrapper(self, fun, updated=())
        self._fun, self._fixed = fun, tuple(nondiff_argnums)
        self._rule: Function | None = None

    def defjvp(self, jvp: Function, symbolic_zeros: bool = False) -> Function:
        """`jvp(primals, tangents)` gives the result and its tangent."""
        self._rule = jvp
        return jvp

    def defjvps(self, *jvps: Function | None) -> None:
        """One for each argument: `f(tangent, result, *args)`."""

        def rule(primals: Any, tangents: Any) -> Any:
            result = self._fun(*primals)
            parts = [f(t, result, *primals) for f, t in zip(jvps, tangents, strict=True) if f is not None]
            return result, sum(parts[1:], parts[0])

        self._rule = rule

    def __call__(self, *args: Any) -> Any:
        rule = self._rule
        if rule is None:
            raise ArgumentError(f"custom_jvp: {self._fun.__name__} has no derivative", fix="Call defjvp(rule).")
        fixed = [args[i] for i in self._fixed]
        moving = [arg for i, arg in enumerate(args) if i not in self._fixed]

        def value(*given: Any) -> Any:
            rest = iter(given)
            return self._fun(*[args[i] if i in self._fixed else next(rest) for i in range(len(args))])

        def gradient(dy: Any, y: Any, *given: Any) -> list[Any]:
            # The rule is linear in the tangents, so its gradient by them is the transpose.
            zeros = [each.zeros_like() for each in given]
            _, pull = whole.vjp(lambda *tangents: rule(*fixed, tuple(given), tangents)[1], *zeros)
            return list(pull(dy))

        value.__name__ = self._fun.__name__
        return Tensor.custom_function(value, gradient)(*[as_arrays(arg) for arg in moving])


def custom_gradient(fun: Function) -> Function:
    """A function that gives (value, what takes a cotangent of it to those of the arguments)."""

    def value(*args: Any) -> Any:
        return fun(*args)[0]

    def gradient(dy: Any, y: Any, *args: Any) -> list[Any]:
        found = fun(*args)[1](dy)
        return list(found) if isinstance(found, tuple | list) else [found]

    functools.update_wrapper(value, fun)
    return lambda *args: Tensor.custom_function(value, gradient)(*[as_arrays(arg) for arg in args])
