"""Products of few rows with packed weights of GGUF on a GPU: their text, run by a machine in Python."""

from dataclasses import replace

import numpy as np
import pytest
from fuzz.native import memory_of, shown
from render.ptx_machine import run_ptx

from codegen.test_gpu import TARGET
from whit import Tensor, dtypes
from whit.codegen import Program, generate
from whit.codegen.gpu import threads as gpu
from whit.codegen.gpu.gemv import packed as gpu_packed
from whit.codegen.gpu.gemv import rows as gpu_matvec
from whit.engine.realize.parametrise import below, parametrise
from whit.nn.state.gguf_blocks import KINDS
from whit.render import render
from whit.schedule import schedule
from whit.schedule.rewrites import stage_operands as operands

pytestmark = pytest.mark.slow  # every thread is interpreted

SCALES = {  # places of halves in a block
    "Q4_0": (0,),
    "Q4_1": (0, 2),
    "Q5_0": (0,),
    "Q5_1": (0, 2),
    "Q8_0": (0,),
    "Q2_K": (80, 82),
    "Q3_K": (108,),
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q6_K": (208,),
}
ONE_CORE = replace(TARGET, cores=1)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_matvec, "LEAST_ROWS", 1)
    monkeypatch.setattr(gpu_packed, "BLOCKS_A_CORE", 0)
    monkeypatch.setattr(gpu_packed, "LEAST_THREADS", 32)
    monkeypatch.setattr(gpu_packed, "MOST_RESIDENT_THREADS", 64)


def packed(name: str, rows: int, columns: int, seed: int = 0) -> tuple[Tensor, np.ndarray]:
    """Random bytes as weights; and these, computed."""
    kind = next(kind for kind in KINDS.values() if kind.name == name)
    assert kind.unpack is not None
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 256, (rows * columns // kind.elements, kind.nbytes), np.uint8)
    for place in SCALES[name]:
        raw[:, place : place + 2] = rng.uniform(-2, 2, (len(raw), 1)).astype(np.float16).view(np.uint8)
    tensor = Tensor(raw, device="CPU").realize()
    weights, same = (kind.unpack(tensor).reshape(rows, columns) for _ in range(2))
    return weights, (same * 1).numpy().astype(np.float64)


def result_of(y: Tensor) -> tuple[np.ndarray, Program, str]:
    """What the kernel of a tensor gives, run by the machine; its program and text."""
    graph = parametrise([y.uop], below([y.uop])[0])
    (call,) = schedule(graph.graph, ONE_CORE).src
    program = generate(call.src[0].src[0], ONE_CORE)
    given = [np.zeros(y.shape, np.float32).reshape(-1)]
    for slot in graph.slots:
        is_number = slot.arg.__class__ is float
        given.append(np.array([slot.arg], np.float32) if is_number else Tensor(slot).numpy().reshape(-1))
    memory = {}
    for i, argument in enumerate(call.src[1:]):
        whole = memory_of(argument)
        memory[f"p{i}"] = shown(argument, given[whole.arg.slot].reshape(whole.shape)).reshape(-1)
    text = render({"packed": program.linear}, ONE_CORE)
    run_ptx(text, program.total, program.threads, memory)
    return given[0].reshape(y.shape), program, text


def check(y: Tensor, want: np.ndarray, reason: str) -> str:
    got, program, text = result_of(y)
    assert program.explanation == reason
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())
    assert "cp.async.cg.shared.global" in text  # rows, 16 bytes at once
    assert "cp.async.bulk.prefetch.L2.global" in text
    return text


def row(columns: int, count: int = 1) -> Tensor:
    return Tensor(np.random.default_rng(1).standard_normal((count, columns), np.float32), device="CPU").realize()


def wide(x: Tensor) -> np.ndarray:
    return x.numpy().astype(np.float64)


@pytest.mark.parametrize("name", SCALES)
def test_every_kind(name: str) -> None:
    """Three groups of rows: one block has them one after another, or two have one or two."""
    columns = 2048 if "K" in name else 1024
    weights, known = packed(name, 12, columns)
    x = row(columns)
    threads = 32 if name in ("Q3_K", "Q5_K") else columns // 32
    reason = f"{64 // threads} blocks of {threads} threads, 4 x 1 products of packed rows at a time"
    text = check(x @ weights.T, wide(x) @ known.T, reason)
    loop = text[text.index("_loop:") : text.index("st.global")]
    assert "ld.global" not in loop  # x stays in registers
    assert loop.count("bar.sync") == 1


def test_rows_of_x_share_the_weights() -> None:
    weights, known = packed("Q8_0", 4, 1024)
    x = row(1024, 3)
    check(x @ weights.T, wide(x) @ known.T, "1 blocks of 64 threads, 4 x 3 products of packed rows at a time")


def test_two_matrices_and_what_follows() -> None:
    (a, known_a), (b, known_b) = packed("Q4_0", 8, 1024), packed("Q6_K", 8, 1024, 1)
    x = row(1024)
    want = np.maximum(wide(x) @ known_a.T, 0) * (wide(x) @ known_b.T)
    check((x @ a.T).relu() * (x @ b.T), want, "1 blocks of 64 threads, 4 x 2 products of packed rows at a time")


def test_a_norm_before_the_product(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operands, "MANY_COLUMNS", 1)
    weights, known = packed("Q4_0", 8, 1024)
    x = row(1024)
    normed = x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
    want = wide(x) / np.sqrt((wide(x) ** 2).mean() + 1e-5) @ known.T
    check(normed @ weights.T, want, "2 blocks of 32 threads, 4 x 1 products of packed rows at a time")


def test_some_rows_of_a_matrix() -> None:
    weights, known = packed("Q4_0", 16, 1024)
    x = row(1024)
    reason = "2 blocks of 32 threads, 4 x 1 products of packed rows at a time"
    check(x @ weights[4:12].T, wide(x) @ known[4:12].T, reason)


def test_vectors_that_are_left_over() -> None:
    """68 of them for 64 threads, and then 4."""
    weights, known = packed("Q4_0", 8, 1088)
    x = row(1088)
    check(x @ weights.T, wide(x) @ known.T, "1 blocks of 64 threads, 4 x 1 products of packed rows at a time")


def test_rows_that_do_not_begin_at_multiples_of_16_bytes_are_read_where_they_are() -> None:
    weights, known = packed("Q4_0", 8, 224)
    x = row(224)
    got, program, _ = result_of(x @ weights.T)
    assert program.explanation.endswith("products in each")
    np.testing.assert_allclose(got, wide(x) @ known.T, rtol=1e-5, atol=1e-3)


def test_bytes_that_are_no_weights_are_not_copied_apart() -> None:
    """A kernel that only copies bytes has no shared memory."""
    source = Tensor(np.arange(256, dtype=np.uint8).reshape(2, 128), device="CPU").realize()
    _, _, text = result_of(Tensor.cat(source, source, dim=0).cast(dtypes.float32).contiguous())
    assert "cp.async.cg" not in text


def test_bits_of_bytes_are_put_together_four_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shifts move bits into the next byte, which are masked, unless there are none."""
    monkeypatch.setattr(gpu, "ENOUGH_THREADS", 1)
    rng = np.random.default_rng(2)
    x, y = (rng.integers(0, 256, 512, np.uint8) for _ in range(2))
    a, b = (Tensor(array, device="CPU").realize() for array in (x, y))
    made = ((a >> 3) | (b << 5)) ^ ((a & 9) << 2) ^ ((b & 240) >> 4)
    want = ((x >> 3) | (y << 5)) ^ ((x & 9) << 2) ^ ((y & 240) >> 4)
    got, _, text = result_of(made.cast(dtypes.float32))
    np.testing.assert_array_equal(got, want.astype(np.float32))
    for mask in (31, 9, 240):
        assert f", {mask * 0x01010101};" in text
    assert f", {(9 << 2) * 0x01010101};" not in text


def test_numbers_that_have_no_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of eight rows beside Q5_K, whose blocks have eight parts: a thread has one number of each."""
    monkeypatch.setattr(gpu_packed, "MOST_HELD_NUMBERS", 1)
    weights, known = packed("Q8_0", 12, 1024)
    x = row(1024)
    reason = "2 blocks of 32 threads, 4 x 1 products of packed rows at a time"
    check(x @ weights.T, wide(x) @ known.T, reason)
