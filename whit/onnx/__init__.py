"""Models in ONNX files: read, run, written.

    from whit import onnx
    model = onnx.load("model.onnx")
    model({"image": array})["label"]
    onnx.export(function, example_inputs, "other.onnx")

`wire.py` and `proto/` read the file, `tensors.py` what is in it, `graph.py` checks it and brings it into order,
`run.py` runs it, with the operators of `operators/`; `writing/` writes files.
"""

import importlib
from typing import TYPE_CHECKING, Any

from whit.onnx.model import Model, load

if TYPE_CHECKING:
    from whit.onnx.writing.export import export

__all__ = ["Model", "export", "load"]


def __getattr__(name: str) -> Any:
    if name == "export":
        return importlib.import_module("whit.onnx.writing").export  # lazy: who runs a model writes none
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
