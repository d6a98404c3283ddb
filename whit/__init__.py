"""whit is a complete deep-learning stack in Python that can be read: one graph, rewritten until it runs.

    from whit import Tensor
    (Tensor([1.0, 2.0]) * 3).tolist()

`Tensor` builds graphs of nodes (`UOp`); asking for values compiles and runs them. Importing whit loads no backend and
no numpy.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING

from whit.cache import clear_caches
from whit.config import Context, getenv
from whit.containers import register_container
from whit.dtype import dtypes
from whit.engine.devices.device import Device
from whit.engine.report.counters import GlobalCounters
from whit.engine.report.launch_names import watch_from_environment
from whit.engine.report.profile import profile
from whit.engine.report.profile import start_from_environment as start_profile
from whit.errors import JitError
from whit.function import function
from whit.help import added
from whit.helpers import fetch
from whit.ir import UOp
from whit.jit import jit as jit_module
from whit.jit.jit import TinyJit
from whit.jit.jit import TinyJit as jit  # noqa: N813  as in JAX; the folder: `from whit.jit import ...`
from whit.names import WHIT, advice
from whit.tensor import Tensor, checkpoint
from whit.tensor.control import cond, fori_loop, map, scan, while_loop  # noqa: A004  as in JAX
from whit.tensor.nested import map_tensors
from whit.tensor.transforms import (
    grad,
    hessian,
    hvp,
    jacfwd,
    jacobian,
    jacrev,
    jvp,
    linearize,
    value_and_grad,
    vjp,
    vmap,
)
from whit.viz import trace
from whit.viz.session import start_from_environment as start_trace

Variable = UOp.variable

# Programs for tinygrad import the JIT by this path.
sys.modules.setdefault("whit.engine.jit", jit_module)

if TYPE_CHECKING:
    from whit import nn as nn
    from whit import numpy as numpy
else:

    def __getattr__(name: str) -> ModuleType:
        """`nn` and `numpy`, loaded when they are looked for; and what a name of another library is called here."""
        if name == "nn":
            import whit.nn as found  # lazy: half of all programs need no layers

            return found
        if name == "numpy":
            import whit.numpy as arrays  # lazy: most programs need methods alone

            return arrays
        for kind, owner in (("Tensor", Tensor), ("dtypes", dtypes)):
            if name not in WHIT and not name.startswith("_") and hasattr(owner, name):
                raise AttributeError(f"whit has no `{name}`; instead: {kind}.{name}")
        raise AttributeError(advice("whit", name, WHIT) or f"module 'whit' has no attribute '{name}'")


__version__ = "0.1.0"

__all__ = [
    "Context",
    "Device",
    "GlobalCounters",
    "JitError",
    "Tensor",
    "TinyJit",
    "UOp",
    "Variable",
    "checkpoint",
    "clear_caches",
    "cond",
    "dtypes",
    "fetch",
    "fori_loop",
    "function",
    "getenv",
    "grad",
    "hessian",
    "hvp",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jit",
    "jvp",
    "linearize",
    "map",
    "map_tensors",
    "nn",
    "numpy",
    "profile",
    "register_container",
    "scan",
    "trace",
    "value_and_grad",
    "vjp",
    "vmap",
    "while_loop",
]

added(["whit"])
start_trace()
start_profile()
watch_from_environment()
