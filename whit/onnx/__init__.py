"""Models in ONNX files: read, run, written.

    from whit import onnx
    model = onnx.load("model.onnx")
    model({"image": array})["label"]
    onnx.export(function, example_inputs, "other.onnx")

`wire.py` and `proto/` read the file, `tensors.py` what is in it, `graph.py` checks it and brings it into order,
`run.py` runs it, with the operators of `operators/`; `writing/` writes files.
"""

from whit.onnx.model import Model, load
from whit.onnx.writing import export

__all__ = ["Model", "export", "load"]
