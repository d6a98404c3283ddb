"""Graphs have the forms that the target of a device prefers, whether the device is here or not."""

import re
from pathlib import Path

import pytest

import whit
from whit import Tensor
from whit.engine.devices.device import target_of
from whit.ir import ops
from whit.kernel.forms import NO_PREFERENCE, forms_of
from whit.target import parse_target
from whit.tensor.core import Core


def names(x: Tensor) -> str:
    return " ".join(node.arg.name for node in x.uop.topological() if node.op is ops.FORMULA)


def test_a_device_without_a_target_has_no_preference() -> None:
    assert target_of("PYTHON") is None and forms_of(target_of("DISK:/tmp/x")) == NO_PREFERENCE


def test_the_number_of_cores_is_the_target_s_own() -> None:
    for arch in ("sm_75", "sm_80", "sm_90a"):
        target = parse_target(f"CUDA:PTX:{arch}")
        assert target_of(f"NULL:PTX:{arch}") == target
        assert forms_of(target).cores == target.cores


def test_what_is_planned_for_a_processor_has_the_form_that_it_would_run() -> None:
    def total(device: str) -> Tensor:
        x, w = Tensor.empty(8, 64, 56, 56, device=device), Tensor.empty(64, 64, 3, 3, device=device)
        return x.conv2d(w, padding=1)

    stages = [sum(node.op is ops.STAGE for node in total(name).uop.topological()) for name in ("CPU", "NULL")]
    assert stages[0] == stages[1] > 0  # Winograd's: around, of the weight, of the input, products, results


@pytest.mark.parametrize("device, prefers", [("NULL", False), ("NULL:PTX:sm_80", True)])
def test_channels_have_their_sums_together_on_gpus(device: str, prefers: bool) -> None:
    x = Tensor.empty(2, 3, 8, 8, device=device)
    ones = Tensor.empty(3, device=device)
    assert ("squares from the mean" in names(x.var((0, 2, 3)))) == prefers
    assert ("scaled along" in names(x.batchnorm(ones, ones, ones, ones))) == prefers
    assert ("max pool" in names(x.max_pool2d())) == prefers


def test_methods_of_tensor_know_no_machine() -> None:
    folder = Path(whit.__file__).parent / "tensor"
    asks = re.compile(r"\bis_gpu\b|sm_\d\d|\b132\b|startswith\(\"(CPU|CUDA)\"\)")
    found = {path.name for path in folder.rglob("*.py") if asks.search(path.read_text())}
    assert found <= {"exchange.py"}  # DLPack has numbers for kinds of devices
    assert not hasattr(Core, "is_gpu")
