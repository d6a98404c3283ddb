"""Products of one row with packed weights of GGUF on a GPU: their text, run by a machine in Python."""

import numpy as np
import pytest
from render.ptx_machine import run_ptx
from test_gpu import TARGET

from whit import Tensor
from whit.codegen import generate, gpu_matvec
from whit.engine.normalise import below, normalise
from whit.nn.state.gguf_blocks import KINDS
from whit.render import render
from whit.schedule import schedule

pytestmark = pytest.mark.slow  # every thread is interpreted

SCALES = {"Q8_0": (0,), "Q4_0": (0,), "Q4_K": (0, 2), "Q6_K": (208,)}  # places of halves in a block
ROWS = 8


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_matvec, "LEAST_ROWS", 1)
    monkeypatch.setattr(gpu_matvec, "WARPS_A_CORE", 0)
    monkeypatch.setattr(gpu_matvec, "MOST_ROWS", 2)


@pytest.mark.parametrize(("name", "columns"), [("Q8_0", 256), ("Q4_0", 512), ("Q4_K", 256), ("Q6_K", 2048)])
def test_products_with_packed_weights(name: str, columns: int) -> None:
    kind = next(kind for kind in KINDS.values() if kind.name == name)
    assert kind.unpack is not None
    rng = np.random.default_rng(0)
    raw = rng.integers(0, 256, (ROWS * columns // kind.elements, kind.nbytes), np.uint8)
    for place in SCALES[name]:
        raw[:, place : place + 2] = rng.uniform(-2, 2, (len(raw), 1)).astype(np.float16).view(np.uint8)
    x, packed = (Tensor(array, device="CPU") for array in (rng.standard_normal((1, columns), np.float32), raw))
    weights = kind.unpack(packed).reshape(ROWS, columns)
    y = (x @ weights.T).uop
    graph = normalise([y], below([y])[0])
    (call,) = schedule(graph.graph, TARGET).src
    program = generate(call.src[0].src[0], TARGET)
    assert program.explanation.endswith("threads, 2 x 1 products in each")
    known = {x.uop: x.numpy().reshape(-1), packed.uop: raw.reshape(-1)}
    given = [np.zeros(ROWS, np.float32)]
    for slot in graph.slots:
        given.append(known[slot] if slot in known else np.array([slot.arg], np.float32))
    memory = {f"p{i}": given[argument.arg.slot] for i, argument in enumerate(call.src[1:])}
    text = render({"packed": program.linear}, TARGET)
    run_ptx(text, program.total, program.threads, memory)
    want = x.numpy().astype(np.float64) @ weights.numpy().astype(np.float64).T
    np.testing.assert_allclose(given[0], want[0], rtol=1e-5, atol=1e-5 * np.abs(want).max())
    assert "cp.async.bulk.prefetch.L2.global [%at" in text  # the row
    if name in ("Q8_0", "Q4_0"):  # scales are halves, and loaded as such
        assert "ld.global.u16" in text
