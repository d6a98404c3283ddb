"""Operators of ONNX one by one, against NumPy; no package `onnx` is needed."""
