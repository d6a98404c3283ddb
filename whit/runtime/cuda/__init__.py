"""NVIDIA GPUs through the driver (`driver`): one of them (`gpu`), memory, copies, graphs, times."""
