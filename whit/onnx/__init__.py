"""Models in ONNX files: read, run.

    from whit import onnx
    model = onnx.load("model.onnx")
    model({"image": array})["label"]

`wire.py` and `proto/` read the file, `tensors.py` what is in it, `graph.py` checks it and brings it into order,
`run.py` runs it, with the operators of `operators/`.
"""

from whit.onnx.model import Model, load

__all__ = ["Model", "load"]
