"""Functions of tensors as ONNX files: traced, said in ONNX's operators, written as protobuf."""

from whit.onnx.writing.export import export

__all__ = ["export"]
