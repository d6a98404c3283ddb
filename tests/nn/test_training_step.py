"""What a step of training costs: kernels and bytes, for the models of bench/. Nothing is compiled or run."""

import gc
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from whit import GlobalCounters, Tensor, clear_caches
from whit.config import Context
from whit.engine.compile.compile import CompiledKernel
from whit.engine.devices import cpu
from whit.engine.plan.plan import Plan
from whit.runtime.blocks import ALIGNMENT

pytestmark = pytest.mark.slow

PATH = Path(__file__).parents[2] / "bench" / "training_models.py"


def load_models() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_training_models", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


MODELS = load_models().MODELS


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Plan]]:
    """The plans that are made on a device that neither compiles nor runs."""
    made: list[Plan] = []

    def no_kernels(functions: Any, target: Any, link: bool = True) -> tuple[CompiledKernel, ...]:
        return tuple(CompiledKernel(function.arg.name, 1, (), 0, 0, 0, "") for function in functions)

    def load(self: Any, plan: Plan) -> Any:
        made.append(plan)
        return plain(self, plan)

    plain = cpu.CpuDevice.load
    monkeypatch.setattr(cpu, "get_kernels", no_kernels)
    monkeypatch.setattr(cpu.CpuDevice, "load", load)
    clear_caches()
    for name in ("last_exc", "last_value", "last_traceback"):  # where the tensors of a test that failed live on
        sys.__dict__.pop(name, None)
    gc.collect()  # what other tests have left is not to be freed while something is measured
    with Context(DEV="NULL"):
        yield made
    clear_caches()


# name -> kernels of a step, and its peak in bytes; then the same of the model alone, without training
EXPECTED = {
    "mlp": (11, 7_495_468, 2, 5_553_824),
    "convnet": (45, 25_003_160, 8, 10_196_088),
    "gpt": (94, 27_127_864, 31, 11_555_880),
}
MOST_KERNELS = {"mlp": 12, "convnet": 45, "gpt": 110}


@pytest.mark.parametrize("name", EXPECTED)
def test_kernels_and_bytes_of_a_step(name: str, plans: list[Plan]) -> None:
    before = GlobalCounters.device("NULL").mem_used
    training = MODELS[name]()
    training.step()  # the first one has no gradients to forget
    GlobalCounters.reset()
    training.step()
    step = (GlobalCounters.kernel_count, GlobalCounters.device("NULL").mem_peak - before)
    assert step[0] <= MOST_KERNELS[name]
    training.optimizer.zero_grad()
    GlobalCounters.reset()
    training.model(training.x).realize()
    peak = GlobalCounters.device("NULL").mem_peak - before
    assert (*step, GlobalCounters.kernel_count, peak) == EXPECTED[name]
    assert len(plans) >= 2
    for plan in plans:
        apart = sum(-(-temporary.nbytes // ALIGNMENT) * ALIGNMENT for temporary in plan.temporaries)
        assert plan.least_arena_bytes <= plan.arena_bytes <= min(1.05 * plan.least_arena_bytes + 4096, apart)


def test_the_peak_of_a_model_that_fits_no_machine_is_known(plans: list[Plan]) -> None:
    size = 1 << 20  # a square of so many is 4 TiB
    before = GlobalCounters.device("NULL").mem_used
    x, w = (Tensor.empty(size, size) for _ in range(2))
    GlobalCounters.reset()
    (x @ w).relu().sum().realize()
    assert plans[-1].peak_bytes > 8 << 40
    assert GlobalCounters.device("NULL").mem_peak - before == plans[-1].peak_bytes
