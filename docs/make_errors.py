"""Writes docs/errors.md: the wrong programs of tests/errors/catalogue/, each with the message that it gets."""

import sys
from itertools import groupby

from pages import ROOT, publish

sys.path.insert(0, str(ROOT / "tests"))
from errors.catalogue import Wrong, catalogue, message, run, workplace  # found by the line above

HEAD = """\
# Errors

Every mistake is raised where it is made, not when something is computed. A message says what failed, with what and
where, and what to do. Shapes, dtypes and devices are in it, and so are the lines that made the operands; where there
are none, the line of the call. If the method that was called is made of another one, that is named too.

Each class of whit is also one that Python users catch already:

| class | is also | for |
|---|---|---|
| `ShapeError` | `ValueError`, `RuntimeError` | shapes that do not fit |
| `DTypeError` | `ValueError`, `TypeError` | dtypes that do not exist, or are not accepted |
| `ArgumentError` | `ValueError`, `TypeError` | arguments of the wrong kind |
| `AbsentError` | `ArgumentError`, `AttributeError` | parts that a node does not have: `hasattr` is False |
| `OutOfRangeError` | `ValueError`, `IndexError` | axes and positions that are not there |
| `DeviceError` | `ValueError`, `RuntimeError` | devices that do not exist, or differ |
| `MissingError` | `ValueError`, `KeyError` | names that are not there |
| `FileError` | `ValueError`, `OSError` | files; `FileMissingError` is a `FileNotFoundError` |
| `NotSupportedError` | `ValueError`, `NotImplementedError` | what has a meaning, and cannot be done yet |

This page is made of the programs in `tests/errors/catalogue/` by `make docs`; a test runs all of them.
"""


def shown(entry: Wrong, folder: str) -> str:
    """A program and its message."""
    error = run(entry.program)
    if error is None:
        raise SystemExit(f"nothing is wrong with this program:\n{entry.program}")
    lines = f"{type(error).__name__}: {message(error, folder)}".splitlines()
    return "\n".join(["```python", entry.program, *(f"# {line}" for line in lines), "```\n"])


if __name__ == "__main__":
    parts = [HEAD]
    with workplace() as folder:
        for topic, group in groupby(catalogue(), key=lambda entry: entry.topic):
            parts.append(f"## {topic}\n")
            parts += [shown(entry, folder) for entry in group]
    publish("errors.md", "\n".join(parts))
