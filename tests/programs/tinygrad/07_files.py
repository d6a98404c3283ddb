"""safe_save, safe_load, load_state_dict."""

import os
import tempfile

from whit import Tensor, nn
from whit.nn.state import get_state_dict, load_state_dict, safe_load, safe_save


class Net:
    def __init__(self):
        self.a = nn.Linear(2, 3)
        self.blocks = [nn.LayerNorm(3), nn.Linear(3, 1)]

    def __call__(self, x):
        return self.blocks[1](self.blocks[0](self.a(x)))


def main():
    first, second = Net(), Net()
    x = Tensor([[0.5, -1.0], [2.0, 0.1]])
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "net.safetensors")
        safe_save(get_state_dict(first), path)
        load_state_dict(second, safe_load(path), verbose=False)
        same = (first(x) - second(x)).abs().max().item() < 1e-6
    return {"same": same, "keys": sorted(get_state_dict(first))}
