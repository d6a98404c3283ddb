"""whit.errors: what messages look like, who catches what, where the user's line is found."""

import pickle
from pathlib import Path

import pytest

from whit import Tensor, errors
from whit.errors import MissingError, ShapeError, UserError, WhitError, nearest, user_line

ERRORS = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, WhitError)]


def test_message_has_details_and_fix_indented_on_their_own_lines() -> None:
    error = ShapeError("add: no", "left made at a.py:1\nright made at a.py:2", "Reshape one.")
    assert str(error) == "add: no\n  left made at a.py:1\n  right made at a.py:2\n  Reshape one."
    assert (error.what, error.fix) == ("add: no", "Reshape one.")


def test_empty_parts_leave_no_lines() -> None:
    assert str(UserError("no")) == "no"
    assert str(UserError("no", fix="Do.")) == "no\n  Do."


def test_missing_error_prints_its_message_and_not_its_repr() -> None:
    assert issubclass(MissingError, KeyError)
    assert str(MissingError('there is no weight "w"')) == 'there is no weight "w"'


@pytest.mark.parametrize(
    ("name", "builtins"),
    [
        ("UserError", [ValueError]),
        ("ShapeError", [ValueError, RuntimeError]),
        ("DTypeError", [ValueError, TypeError]),
        ("ArgumentError", [ValueError, TypeError]),
        ("OutOfRangeError", [ValueError, IndexError]),
        ("DeviceError", [ValueError, RuntimeError]),
        ("MissingError", [ValueError, KeyError]),
        ("ParseError", [ValueError]),
        ("NotSupportedError", [ValueError, NotImplementedError]),
        ("JitError", [ValueError, RuntimeError]),
        ("BackendError", [RuntimeError]),
        ("InternalError", [RuntimeError]),
        ("VerifyError", [RuntimeError]),
        ("RuleError", [RuntimeError]),
    ],
)
def test_error_is_caught_as_the_builtins_that_users_expect(name: str, builtins: list[type[Exception]]) -> None:
    error_class = getattr(errors, name)
    for builtin in [*builtins, WhitError]:
        with pytest.raises(builtin, match="what failed"):
            raise error_class("what failed")


def test_our_bugs_are_not_user_errors() -> None:
    for error_class in (errors.BackendError, errors.InternalError, errors.VerifyError, errors.RuleError):
        assert not issubclass(error_class, ValueError)


@pytest.mark.parametrize("error_class", ERRORS)
def test_error_survives_pickling(error_class: type[WhitError]) -> None:
    error = pickle.loads(pickle.dumps(error_class("what", "details", "fix")))
    assert type(error) is error_class
    assert (error.what, error.details, error.fix) == ("what", "details", "fix")
    assert str(error) == "what\n  details\n  fix"


def test_a_message_without_lines_gets_the_line_of_the_call_and_keeps_it_when_pickled() -> None:
    with pytest.raises(UserError) as caught:
        Tensor.zeros(-1)
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.method, error.line.partition(":")[0]) == ("zeros", "test_errors.py")
    assert str(error) == str(caught.value)
    assert str(error).splitlines()[2] == f"  called at {error.line}"


def test_a_message_about_a_part_of_a_method_names_the_method() -> None:
    with pytest.raises(UserError) as caught:
        Tensor.zeros(2).view(3)
    what, made, where, _ = str(caught.value).splitlines()
    assert what.startswith("reshape: ") and made.startswith("  made at test_errors.py:")
    assert where == f"  in view, called at {caught.value.line}"


def _run_as(path: str, module: str, source: str) -> str:
    scope = {"__name__": module, "user_line": user_line}
    exec(compile(source, path, "exec"), scope)
    return str(scope["line"])


def test_user_line_is_the_caller() -> None:
    assert _run_as("/home/me/train.py", "__main__", "\n\nline = user_line()") == "train.py:3"


def test_user_line_skips_frames_inside_whit() -> None:
    inside = str(Path(errors.__file__).parent / "ir" / "uop.py")
    scope: dict[str, object] = {"user_line": user_line}
    exec(compile("def build():\n    return user_line()", inside, "exec"), scope)
    user = {"build": scope["build"]}
    exec(compile("\nline = build()", "/home/me/train.py", "exec"), user)
    assert user["line"] == "train.py:2"


def test_user_line_skips_code_that_whit_generated() -> None:
    scope: dict[str, object] = {"__name__": "whit.ir.rewrite", "user_line": user_line}
    exec(compile("def rule():\n    return user_line()", "<rules>", "exec"), scope)
    user = {"rule": scope["rule"]}
    exec(compile("line = rule()", "/home/me/train.py", "exec"), user)
    assert user["line"] == "train.py:1"


def test_nearest_ignores_case_and_is_silent_when_nothing_is_close() -> None:
    assert nearest("debgu", ["BEAM", "DEBUG"]) == ' Did you mean "DEBUG"?'
    assert nearest("conv2d", ["BEAM", "DEBUG"]) == ""
    assert nearest("x", []) == ""
