"""TinyJit: a function that is traced once for each kind of arguments, and replayed without Python from then on.

    @TinyJit
    def step(x, y):
        loss = model(x).cross_entropy(y).backward()
        optimizer.step()
        return loss

    step(x, y)          # the first call traces, compiles and runs; the others run one list of kernels

What the calls have in common is in the key (`signature`): the arguments' containers, shapes, dtypes and devices, the
values of what is no tensor, the settings. What a trace has found besides is checked before each replay (`watch`,
`capture`). A program that does not fit is never run: the function is traced again.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import types
import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from whit.config import JIT, JIT_CHECK, settings_key
from whit.engine.devices.device import Device
from whit.engine.programs.overlay import Wrapper, current, is_traced
from whit.errors import ArgumentError, JitError
from whit.jit.signature import MISSED, Arguments, Key
from whit.recording import hooks

if TYPE_CHECKING:
    from whit.jit.guards import FunctionGuards
    from whit.jit.replayer import Replay

    Variant = tuple[Replay, FunctionGuards]  # a program, and what to compare before each of its runs

__all__ = ["JitError", "TinyJit"]

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
MOST_VARIANTS = 32  # captures of one key that differ in what was captured
MANY_VARIANTS = 8  # the user is told
MOST_CHANGES = 2  # calls of one key in a row that change something besides tensors, as the first one that makes a cache

_all_jits: weakref.WeakSet[Any] = weakref.WeakSet()


class TinyJit(Wrapper, Generic[Parameters, Result]):
    """A function under the JIT. Of a method, each instance has captures of its own, which go with it.

    `prune`: what depends on captured tensors alone, not on arguments, is computed once, and again when one of them has
    changed. `donate`: arguments, by place or by name, whose memory a result may get; they have no value afterwards.
    """

    def __init__(
        self, function: Callable[Parameters, Result], *, prune: bool = False, donate: Sequence[int | str] = ()
    ) -> None:
        if not callable(function):
            raise ArgumentError(f"TinyJit: {function!r:.60} is no function", fix="Give a function or a method.")
        self._prune, self._donate = prune, tuple(donate)
        functools.update_wrapper(self, function, updated=())
        self._function = function
        self._name = getattr(function, "__qualname__", type(function).__name__).rpartition("<locals>.")[2]
        self._captures: dict[Key, list[Variant]] = {}
        self._changing: dict[Key, int] = {}  # calls in a row that have changed something besides tensors
        self._lock = threading.RLock()
        self._attribute = ""
        self._calls = 0
        self._is_told = False  # why it is captured again and again
        _all_jits.add(self)

    def __set_name__(self, owner: type, name: str) -> None:
        self._attribute = f"_whit_jit_{name}"

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        if is_traced() or not JIT:
            return self._function(*args, **kwargs)
        result: Result = self._call(args, kwargs)
        return result

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        arguments = Arguments()
        parts = [arguments.key(value, i) for i, value in enumerate(args)]
        if kwargs:
            parts += [(name, arguments.key(kwargs[name], name)) for name in sorted(kwargs)]
        key = (*parts, settings_key(), Device.DEFAULT)
        with self._lock:
            variants = self._captures.get(key)
            if variants is None:
                variants = self._captures[key] = []
            for replay, watch in reversed(variants):
                if watch.holds() or watch.changed() is None:
                    result = self._run(replay, arguments, args, kwargs)
                    if result is not MISSED:
                        if (recorder := hooks.recorder) is not None:
                            recorder.event("jit replay", name=self._name)
                        return result
            return self._first_call(key, variants, arguments, args, kwargs)

    def _first_call(
        self, key: Key, variants: list[Variant], arguments: Arguments, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """No program fits: the function is captured, and runs."""
        from whit.jit.first_call import FirstCall  # lazy: it loads the runtime, which `import whit` must not

        if len(variants) >= MANY_VARIANTS and not self._is_told:
            self._tell(variants)
        first = FirstCall(self._name, self._function, args, kwargs, arguments, self._prune, self._donate)
        found = first.capture(any(replay.views for replay, _ in variants))
        if (recorder := hooks.recorder) is not None:
            recorder.event("jit capture", name=self._name, kernels=found.replay.program.kernels())
        if found.change is None:
            self._changing.pop(key, None)
            variants.append((found.replay, found.watch))
            del variants[:-MOST_VARIANTS]
        else:
            self._changing[key] = self._changing.get(key, 0) + 1
            if self._changing[key] > MOST_CHANGES:
                raise found.change
        result = found.replay(arguments.tensors, arguments.bindings)
        if result is MISSED:
            raise _does_not_fit(self._name)
        return result if found.change is None else found.result

    def _run(self, replay: Replay, arguments: Arguments, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._calls += 1
        if not JIT_CHECK or self._calls % JIT_CHECK.value:
            return replay(arguments.tensors, arguments.bindings)
        from whit.jit.check import check  # lazy: the debug mode

        return check(
            self._name,
            lambda: self._function(*args, **kwargs),
            lambda: replay(arguments.tensors, arguments.bindings),
        )

    def _tell(self, variants: list[Variant]) -> None:
        """Says, once, why a function is captured again and again."""
        change = variants[-1][1].changed()
        if change is not None:
            self._is_told = True
            warnings.warn(
                f"TinyJit: {self._name} was captured {len(variants)} times for arguments of one kind, and is again, as "
                f"{change.label} has changed from {change.before!r:.40} to {change.now!r:.40}. Pass it as an argument, "
                "as a tensor or a bound Variable if it changes often; or keep it where the function does not read it.",
                RuntimeWarning,
                stacklevel=5,
            )

    # ---- methods

    @overload
    def __get__(self, instance: None, owner: Any) -> TinyJit[Parameters, Result]: ...

    @overload
    def __get__(self, instance: Any, owner: Any = None) -> TinyJit[..., Result]: ...

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        name = self._attribute or f"_whit_jit_{self._name}"
        fields = getattr(instance, "__dict__", None)
        if not isinstance(fields, dict):
            raise JitError(
                f"{self._name}: a {type(instance).__name__} has no room for what is captured of its methods",
                fix="Leave out __slots__, or add __dict__ to them.",
            )
        holder = fields.get(name)
        if type(holder) is not _Holder or holder.owner is not self:
            holder = fields[name] = _Holder(self)
        if holder.jit is None or holder.jit._function.__self__ is not instance:  # a copy of another one
            holder = fields[name] = _Holder(self)
            method = types.MethodType(self._function, instance)
            holder.jit = TinyJit(method, prune=self._prune, donate=self._donate)
        return holder.jit

    # ---- questions

    def wrapped(self) -> Any:
        """The plain function."""
        return self._function

    @property
    def captured(self) -> list[Replay]:
        """The programs, in the order of their capture. `program.explain()` of one says what a run does."""
        return [replay for variants in self._captures.values() for replay, _ in variants]

    @property
    def kernels(self) -> int:
        """Kernels of a call of the program that was captured last; 0 before the first."""
        return self.captured[-1].program.kernels() if self._captures else 0

    def captured_kernels(self) -> list[Any]:
        """A report about each kernel of the program that was captured last; its `explain()` says why it is as it is."""
        from whit.engine.plan.find_plan import call_names  # lazy: the same
        from whit.engine.plan.plan import plan_of  # lazy: the same
        from whit.engine.report.explain import reports  # lazy: few programs ask

        found: list[Any] = []
        for part in self.captured[-1].program.parts if self._captures else []:
            if part.graph is not None:
                found += reports(plan_of(part.loaded), part.device, call_names(part.graph, part.device))
        return found

    @property
    def memory(self) -> int:
        """Bytes that are kept for temporaries; programs share them."""
        return max((replay.program.arena() for replay in self.captured), default=0)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes what was captured so far, with the values of captured tensors, to a file that `load` reads."""
        if current() is not None:
            raise JitError(f"save: {self._name} is saved while a function is captured", fix="Save it outside.")
        captures = [(key, *found) for key, variants in self._captures.items() for found in variants]
        if not captures:
            raise JitError(f"save: nothing of {self._name} is captured yet", fix="Call it first.")
        from whit.jit.files.jit import save  # lazy: few programs write files

        save(path, self._name, captures)

    @staticmethod
    def load(path: str | os.PathLike[str], types: Iterable[type] = ()) -> Any:
        """A captured function from a file: it runs the same programs, without Python code, on tensors of its own.

        `types` are the classes of results (dataclasses, named tuples) that a file has only the names of. A file has
        machine code: load what you trust, as with any program.
        """
        from whit.jit.files.jit import load  # lazy: the same

        return load(path, types)

    def reset(self) -> None:
        """Forgets all programs, and what they hold."""
        with self._lock:
            self._captures.clear()
            self._changing.clear()

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickles the name where it is found by it, as functions are; else the function. Programs are captured again;
        `save` writes them to files."""
        name: str = getattr(self._function, "__qualname__", "")
        found: Any = sys.modules.get(getattr(self._function, "__module__", None) or "")
        for part in name.split("."):
            found = getattr(found, part, None)
        return name if found is self else (_again, (self._function, self._prune, self._donate))

    def __repr__(self) -> str:
        return f"<TinyJit {self._name}: {len(self.captured)} captured>"


class _Holder(Wrapper):
    """Keeps the captures of a method in its instance, so that they go with it; a copy of the instance starts anew."""

    __slots__ = ("jit", "owner")

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.jit: Any = None

    def wrapped(self) -> Any:
        """The plain function, of which the instance has captures."""
        return self.owner

    def __deepcopy__(self, memo: dict[int, Any]) -> _Holder:
        return _Holder(self.owner)

    __copy__ = __deepcopy__

    def __reduce__(self) -> tuple[Any, ...]:
        return _Holder, (None,)


def _again(function: Any, prune: bool, donate: tuple[int | str, ...]) -> TinyJit[..., Any]:
    """A captured function from a pickle, or a copy: nothing is captured yet."""
    return TinyJit(function, prune=prune, donate=donate)


def _does_not_fit(name: str) -> JitError:
    return JitError(
        f"{name}: what the function reads has changed while it was captured",
        fix="Another thread may have changed it. Guard it with a lock.",
    )


def _after_fork() -> None:
    for jit in list(_all_jits):
        jit._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
