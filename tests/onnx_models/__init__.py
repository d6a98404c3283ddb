"""Models in ONNX files: reader, graphs, running; the standard's own tests where the package `onnx` is installed."""
