"""Optimisers: they change parameters by the gradients that `backward()` left in `.grad`.

    opt = nn.optim.Adam(nn.state.get_parameters(model), lr=1e-3)
    with Tensor.train():
        for x, y in batches:
            opt.zero_grad()
            loss = model(x).cross_entropy(y).backward()
            opt.step()                                  # or: loss.realize(*opt.schedule_step())

A step is a graph like any other. Realised together with lazy gradients, the new values of a parameter and of what the
optimiser keeps for it come out of the kernel that computes its gradient. Smaller pieces go around a step: limits of
gradients (`clip`), learning rates over time (`schedules`), averages of parameters (`EMA`), losses times a factor
(`LossScaler`). With `fused=True` the update is a number of kernels that does not depend on that of parameters.
"""

import importlib
from typing import TYPE_CHECKING, Any

from whit.names import OPTIM, advice
from whit.nn.optim.adam import LAMB, Adam, AdamW
from whit.nn.optim.adam_family import Adamax, NAdam, RAdam
from whit.nn.optim.adaptive import ASGD, Adadelta, Adafactor, Adagrad, RMSprop, Rprop
from whit.nn.optim.average import EMA
from whit.nn.optim.base import Optimizer, OptimizerGroup
from whit.nn.optim.clip import clip_grad_norm, clip_grad_value
from whit.nn.optim.lbfgs import LBFGS
from whit.nn.optim.momentum import LARS, SGD, Muon
from whit.nn.optim.scaling import LossScaler
from whit.nn.optim.schedules import CosineAnnealing, MultiStep, OneCycle, Schedule, WarmUp

if TYPE_CHECKING:
    from whit.nn.optim import lr_scheduler
else:

    def __getattr__(name: str) -> Any:
        """`lr_scheduler`, which is loaded when it is asked for; what a name of another library is called here."""
        if name == "lr_scheduler":
            return importlib.import_module("whit.nn.optim.lr_scheduler")  # lazy: 4 ms, for who has schedules
        raise AttributeError(advice("nn.optim", name, OPTIM) or f"module 'whit.nn.optim' has no attribute '{name}'")


__all__ = [
    "ASGD",
    "EMA",
    "LAMB",
    "LARS",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "CosineAnnealing",
    "LossScaler",
    "MultiStep",
    "Muon",
    "NAdam",
    "OneCycle",
    "Optimizer",
    "OptimizerGroup",
    "RAdam",
    "RMSprop",
    "Rprop",
    "Schedule",
    "WarmUp",
    "clip_grad_norm",
    "clip_grad_value",
    "lr_scheduler",
]
