"""Layers that are made on a device, or of a dtype: `nn.Linear(4, 8, device="CUDA", dtype=dtypes.float16)`.

What a layer makes in `__init__`, layers inside of it included, is made where and as what the caller says: for so long,
these are the defaults. So there is one place that knows, and none that forgets to pass them on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from whit.config import Context
from whit.dtype import to_dtype
from whit.engine.devices.device import Device
from whit.errors import DTypeError
from whit.nn.state.model import get_state_dict

Layer = TypeVar("Layer")
Parameters = ParamSpec("Parameters")
Make = Callable[Concatenate[Layer, Parameters], None]


def placed(make: Make[Layer, Parameters]) -> Make[Layer, Parameters]:
    """An `__init__` with the parameters `device` and `dtype`: both are the defaults while it runs."""
    code = make.__code__
    names = code.co_varnames[1 : code.co_argcount]

    @functools.wraps(make)
    def made(self: Layer, *args: Parameters.args, **given: Parameters.kwargs) -> None:
        if len(args) == 1 and not given:  # as most layers are made
            return make(self, *args, **given)
        told = {**dict(zip(names, args, strict=False)), **given}
        device, dtype = told.get("device"), told.get("dtype")
        if device is None and dtype is None:
            return make(self, *args, **given)
        settings = _defaults(type(self).__name__, device, dtype)
        with Context(**settings):
            make(self, *args, **given)
        if device is not None:
            for tensor in get_state_dict(self).values():  # ones and zeros are where the default is, whichever that is
                tensor.to_(settings["DEV"])
        return None

    return cast(Make[Layer, Parameters], made)


def _defaults(layer: str, device: Any, dtype: Any) -> dict[str, str]:
    """The settings that say where and as what tensors are made."""
    settings = {}
    if device is not None:
        settings["DEV"] = Device.canonicalize(str(device))
    if dtype is not None:
        found = to_dtype(dtype)
        if not found.is_float:
            raise DTypeError(f"{layer}: dtype={found}", fix="Weights are floats: give dtypes.float16, for instance.")
        settings["DEFAULT_FLOAT"] = found.name
    return settings
