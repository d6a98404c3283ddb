"""What captured functions are given and return, in files: signatures as text, results without their tensors as JSON.

    key       ((2, 3), float32, "CPU", None), (int, 2)             "((2, 3), float32, 'CPU', None), (int, 2)"
    result    {"y": hole 0, "n": 7}                                {"dict": [["y", {"hole": [0, false]}], ...]}

Of classes a file has the names; the classes themselves are given by who loads it (`Classes`), so that nothing that a
file says makes Python import or run anything.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from enum import Enum
from typing import Any

from whit.dtype import DType, to_dtype
from whit.errors import JitError
from whit.ir.text import to_text
from whit.ir.uop import UOp
from whit.jit.files.program import Reader, Writer
from whit.jit.signature import PLAIN, Hole
from whit.tensor.tensor import Tensor

_IN_JSON = (bool, int, float, str, type(None))


class Classes:
    """The classes that results consist of, by name."""

    def __init__(self, known: Iterable[type] = ()) -> None:
        self._known: dict[str, type] = {kind.__name__: kind for kind in (Tensor, *known)}

    def to(self, kind: type) -> str:
        """The name of a class."""
        if self._known.setdefault(kind.__name__, kind) is not kind:
            raise JitError(
                f"save: there are two classes of the name {kind.__name__}", fix="Give one of them another name."
            )
        return kind.__name__

    def of(self, name: str) -> Any:
        """The class of a name."""
        if name not in self._known:
            raise JitError(
                f"load: the file has a {name}, of which it knows nothing but the name",
                fix=f"Give the class: TinyJit.load(path, types=[{name}]).",
            )
        return self._known[name]


def spell_key(key: Any) -> str:
    """A signature as text, the same in every process."""
    if isinstance(key, tuple):
        if len(key) == 2 and isinstance(key[0], type) and key[0] is not int and type(key[1]) is int:
            raise _not_data("an argument", key[0])  # the number is its id
        return f"({', '.join([spell_key(part) for part in key])})"
    if isinstance(key, type):
        return key.__name__
    if isinstance(key, DType):
        return key.name
    if isinstance(key, Enum):
        return f"{type(key).__name__}.{key.name}"
    if isinstance(key, frozenset):
        return f"{{{', '.join(sorted(spell_key(part) for part in key))}}}"
    if isinstance(key, UOp):
        return to_text(key, types=False)  # with the ranges of its variables
    if type(key) not in PLAIN and type(key) is not float:
        raise _not_data("an argument", type(key))
    return repr(key)


def _not_data(what: str, kind: type) -> JitError:
    return JitError(
        f"{what} is a {kind.__name__}, which a file cannot hold",
        fix="Use tensors, numbers, strings, and lists, tuples, dictionaries or dataclasses of them.",
    )


def template_to(template: Any, writer: Writer, classes: Classes) -> dict[str, Any]:  # noqa: C901  one line for each type
    """A result without tensors as something that JSON can hold."""

    def parts(values: Iterable[Any]) -> list[Any]:
        return [template_to(part, writer, classes) for part in values]

    kind = type(template)
    if kind is Hole:
        return {"hole": [template.number, template.is_argument]}
    if kind in _IN_JSON:
        return {"value": template}
    if kind is bytes:
        return {"bytes": writer.bytes(template)}
    if kind is complex:
        return {"complex": [template.real, template.imag]}
    if kind is range:
        return {"range": [template.start, template.stop, template.step]}
    if template is Ellipsis:
        return {"ellipsis": None}
    if isinstance(template, DType):
        return {"dtype": template.name}
    if isinstance(template, UOp):
        return {"node": writer.node(template)}
    if isinstance(template, type):
        return {"type": classes.to(template)}
    if isinstance(template, Enum):
        return {"enum": [classes.to(kind), template.name]}
    if kind is list or kind is tuple:
        return {kind.__name__: parts(template)}
    if kind is dict:
        return {"dict": [parts(pair) for pair in template.items()]}
    if isinstance(template, tuple | list):
        return {"named" if hasattr(template, "_fields") else "sequence": [classes.to(kind), parts(template)]}
    if dataclasses.is_dataclass(template):
        names = [field.name for field in dataclasses.fields(template) if field.init]
        return {"fields": [classes.to(kind), names, parts(getattr(template, name) for name in names)]}
    raise _not_data("a part of the result", kind)


def template_from(data: dict[str, Any], reader: Reader, classes: Classes) -> Any:  # noqa: C901  one line for each type
    """What `template_to` was given."""

    def parts(values: list[Any]) -> list[Any]:
        return [template_from(part, reader, classes) for part in values]

    ((kind, content),) = data.items()
    match kind:
        case "hole":
            return Hole(*content)
        case "value":
            return content
        case "bytes":
            return reader.bytes(content)
        case "complex":
            return complex(*content)
        case "range":
            return range(*content)
        case "ellipsis":
            return Ellipsis
        case "dtype":
            return to_dtype(content)
        case "node":
            return reader.node(content)
        case "type":
            return classes.of(content)
        case "enum":
            return classes.of(content[0])[content[1]]
        case "list":
            return parts(content)
        case "tuple":
            return tuple(parts(content))
        case "dict":
            return dict([parts(pair) for pair in content])
        case "named":
            return classes.of(content[0])(*parts(content[1]))
        case "sequence":
            return classes.of(content[0])(parts(content[1]))
        case "fields":
            return classes.of(content[0])(**dict(zip(content[1], parts(content[2]), strict=True)))
    raise ValueError(f"a result with {kind!r}")
