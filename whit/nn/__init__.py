"""Layers: plain classes that hold weights and are called with tensors.

    class Net:
        def __init__(self):
            self.first, self.second = nn.Linear(784, 128), nn.Linear(128, 10)
        def __call__(self, x):
            return self.second(self.first(x).relu())

No base class is needed: weights are found by walking attributes, lists and dictionaries (`nn.state`). A class that has
`nn.Module` as its base prints its layers, and may call its function `forward`; `nn.summary(model)` shows any model.
Names, shapes, arguments and initial values are PyTorch's, so that state dictionaries and training curves carry over.
"""

import importlib
from typing import TYPE_CHECKING, Any

from whit.help import added
from whit.names import NN, advice

if TYPE_CHECKING:
    from whit.nn import data as data
    from whit.nn.layers import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        """Layers, which are loaded all at once; `data` and `onnx`; what a name of another library is called here."""
        if name in ("data", "onnx"):
            return importlib.import_module(f"whit.nn.{name}")  # lazy: one needs multiprocessing, the other NumPy
        if "__all__" not in globals() and (name == "__all__" or not name.startswith("__")):
            layers = importlib.import_module("whit.nn.layers")  # lazy: see there
            names = getattr(layers, "__all__", None)
            if names is not None:  # else they are being loaded, and this is one of the modules that they are in
                globals().update({one: getattr(layers, one) for one in names}, __all__=[*names, "data"])
                added(["whit.nn", "whit.nn.optim"])
                if name in globals():
                    return globals()[name]
        raise AttributeError(advice("nn", name, NN) or f"module 'whit.nn' has no attribute '{name}'")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__")} if "__all__" not in globals() else globals())
