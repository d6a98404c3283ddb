"""How Tensor is put together: topics that stand side by side, and nothing of that seen by users."""

import ast
import inspect
import pathlib
import pydoc
from collections import Counter
from types import FunctionType
from typing import Any

import pytest

import whit
from whit import Tensor
from whit.engine.programs.overlay import Overlaid
from whit.tensor.core import Core
from whit.tensor.topic import Topic

# What Python puts into a class by itself.
MADE_BY_PYTHON = {
    "__annotations__",
    "__module__",
    "__doc__",
    "__slots__",
    "__hash__",
    "__firstlineno__",
    "__static_attributes__",
}


def declared() -> list[ast.FunctionDef]:
    """What topics call of each other, as `Topic` declares it for type checkers."""
    tree = ast.parse(pathlib.Path(inspect.getfile(Topic)).read_text())
    (topic,) = (node for node in tree.body if isinstance(node, ast.ClassDef))
    (block,) = (node for node in topic.body if isinstance(node, ast.If))
    return [node for node in block.body if isinstance(node, ast.FunctionDef)]


def parameters(node: ast.FunctionDef) -> list[str]:
    given = node.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return sorted(parameter.arg for parameter in named if parameter is not None)


def test_topics_are_about_a_dozen_and_none_stands_on_another() -> None:
    topics = Tensor.__bases__
    assert len(topics) <= 16
    for topic in topics:
        assert issubclass(topic, Topic)
        assert not [other for other in topics if other is not topic and issubclass(topic, other)]
    assert Tensor.__mro__[-4:] == (Topic, Core, Overlaid, object)


def test_every_method_has_one_topic() -> None:
    names = Counter(name for kind in Tensor.__mro__[:-1] for name in vars(kind) if name not in MADE_BY_PYTHON)
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("node", declared(), ids=lambda node: node.name)
def test_what_topics_call_of_each_other_is_there(node: ast.FunctionDef) -> None:
    method: Any = getattr(Tensor, node.name)
    method = method.fget if isinstance(method, property) else method
    found = list(inspect.signature(getattr(method, "__func__", method)).parameters)
    assert sorted(found) == parameters(node)


def test_declarations_are_of_no_effect() -> None:
    assert not {node.name for node in declared()} & set(vars(Topic))


def test_users_see_one_class() -> None:
    methods = {name: getattr(method, "__func__", method) for name, method in inspect.getmembers_static(Tensor)}
    functions = {name: f for name, f in methods.items() if isinstance(f, FunctionType)}
    assert len(functions) > 500
    for name, function in functions.items():
        assert function.__qualname__ == f"Tensor.{name}"
        assert function.__module__ == Tensor.__module__


def test_help_shows_signature_and_words() -> None:
    assert pydoc.plain(pydoc.render_doc(Tensor.sum)).splitlines()[2].startswith("sum(self, axis")
    text = pydoc.plain(pydoc.render_doc(Tensor))
    for name in ("sum", "conv2d", "reshape", "arange", "float", "backward"):
        assert f"\n |  {name}(" in text


def test_completion_offers_every_topic() -> None:
    assert {"sum", "conv2d", "T", "assign", "sort", "astype", "float"} <= set(dir(Tensor([1.0])))
    assert (pathlib.Path(whit.__file__).parent / "py.typed").exists()


USER = """
from typing import assert_type

from whit import Tensor, nn


class Mine(Tensor):
    pass


x = Tensor([[1.0, 2.0], [3.0, 4.0]])
assert_type(x.sum().relu(), Tensor)
assert_type((x @ x + 1)[0], Tensor)
assert_type(x.conv2d(x).reshape(2, 2).softmax(), Tensor)
assert_type(x.split(1), tuple[Tensor, ...])
assert_type(Mine.arange(3).float().sum().exp(), Mine)
assert_type(nn.Linear(2, 2)(x), Tensor)
"""


@pytest.mark.slow
def test_a_program_keeps_its_types(tmp_path: pathlib.Path) -> None:
    api = pytest.importorskip("mypy.api")
    program = tmp_path / "program.py"
    program.write_text(USER)
    printed, _, status = api.run(["--strict", str(program)])
    assert status == 0, printed
