"""What every kernel goes through, whatever its target: one file a pass. `codegen/pipeline.py` has their order."""
