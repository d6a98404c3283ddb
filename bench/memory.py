"""The most memory that a step of training takes, whit's and PyTorch's, for the same models and batches.

    python bench/memory.py

Everything counts that is in use: weights, the optimiser's states, gradients, the batch, activations and temporaries.
PyTorch's number is the peak of its own allocator, as its profiler reports it, in the second step of a process; whit's
is `GlobalCounters.mem_peak` in the second step, of buffers that are in use.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path


def ours(name: str) -> int:
    """Bytes in whit."""
    from training_models import MODELS

    from whit import GlobalCounters

    training = MODELS[name]()
    training.step()
    GlobalCounters.reset()
    training.step()
    return GlobalCounters.mem_peak


def theirs(name: str) -> int:
    """Bytes in PyTorch."""
    import torch
    from torch.profiler import ProfilerActivity, profile
    from torch_models import MODELS

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        step = MODELS[name]()
        step()
        step()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        found.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    totals = [event["args"]["Total Allocated"] for event in events if event.get("name") == "[memory]"]
    assert torch.__version__
    return max(totals)  # type: ignore[no-any-return]


def main() -> None:
    """Prints a table; each number is from a process of its own."""
    if len(sys.argv) == 3:
        print({"whit": ours, "torch": theirs}[sys.argv[1]](sys.argv[2]))
        return
    print(f"{'model':10s} {'whit':>12s} {'PyTorch':>12s}   ratio")
    for name in ("mlp", "convnet", "gpt"):
        both = []
        for which in ("whit", "torch"):
            command = [sys.executable, __file__, which, name]
            both.append(int(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1]))
        print(f"{name:10s} {both[0]:12,d} {both[1]:12,d}   {both[0] / both[1]:.2f}")


if __name__ == "__main__":
    main()
