"""Programs on the device PYTHON, where the interpreter carries out every store and scatter."""

from collections.abc import Iterator
from contextlib import contextmanager

from whit import Context


@contextmanager
def interpreted() -> Iterator[None]:
    """Inside, PYTHON is the default device."""
    with Context(DEV="PYTHON"):
        yield
