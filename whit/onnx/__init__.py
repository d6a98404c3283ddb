"""Models in ONNX files: read, run."""
