"""`Tensor.explain`: it says what `realize` does, and does nothing."""

import re
from collections.abc import Callable

import numpy as np
import pytest

from whit import Context, GlobalCounters, Tensor, TinyJit, Variable, clear_caches, function
from whit.engine.report.kernel import spell_count
from whit.kernel.rates import GPUS
from whit.target import _GPUS

TARGET = "NULL:LLVM:haswell"  # the same kernels and reasons on every machine that runs the tests


def zeros(*shape: int, device: str = "PYTHON") -> Tensor:
    return Tensor(np.zeros(shape, np.float32), device=device)


def test_kernels_reasons_and_memory() -> None:
    x, w = Tensor.empty(64, 48, device=TARGET), Tensor.empty(48, 32, device=TARGET)
    with Context(NOOPT=0, FLASH_ATTENTION=0):
        y = (x @ w).softmax(1) @ w.T
        text = y.explain()
        GlobalCounters.reset()
        before = GlobalCounters.device(TARGET).mem_used
        y.realize()
    shown = re.sub(
        r"(contraction through panels:) tiles of .*", r"\1 ...", text
    )  # tiles of this size are not the point
    assert shown.splitlines() == [
        "float32(64, 48) on NULL:LLVM:haswell: 3 kernels, 460800 operations, reads 40.96 kB, writes 28.67 kB",
        "  1  matmul  float32(64, 32)",
        "     test_explain.py:24, kernel add_reduce_64x32",
        "     196608 operations, reads 18.43 kB, writes 8.19 kB",
        "     stored float32(64, 32): a reduction of 98304 elements would be computed twice where it is read",
        "     contraction through panels: ...",
        "  2  softmax  float32(64, 32)",
        "     test_explain.py:24, kernel add_reduce_64x32",
        "     67584 operations, reads 8.19 kB, writes 8.19 kB",
        "     stored float32(64, 32): 26 operations an element would be computed 48 times where it is read",
        "     lanes along reduction k0: unit stride, 4 accumulators",
        "     lanes along reduction k1: unit stride, 4 accumulators",
        "     lanes along output r1, 4 vectors at a time",
        "     cores along r0: about 133120 operations",
        "  3  matmul  float32(64, 48)",
        "     test_explain.py:24, kernel add_reduce_64x48",
        "     196608 operations, reads 14.34 kB, writes 12.29 kB",
        "     contraction through panels: ...",
        "memory: inputs 18.43 kB, results 12.29 kB, temporaries 16.38 kB; at the peak 47.10 kB",
        "  float32(64, 32)  8.19 kB, kernels 1 to 2",
        "  float32(64, 32)  8.19 kB, kernels 2 to 3",
    ]
    assert GlobalCounters.kernel_count == 3
    assert GlobalCounters.global_ops == 460800
    assert (GlobalCounters.bytes_read, GlobalCounters.bytes_written) == (40960, 28672)
    assert GlobalCounters.device(TARGET).mem_peak - before == 12288 + 16384  # results and temporaries


@function
def centred(x: Tensor) -> Tensor:
    return x - x.mean(0)


STORED: dict[str, tuple[Callable[[Tensor], Tensor], list[str]]] = {
    "nothing is stored for others": (lambda x: x.exp().sum(1), []),
    "what the result of a mean costs": (
        lambda x: x - x.mean(0),
        ["float32(48,): 4 operations an element would be computed 64 times where it is read"],
    ),
    "inside of a function": (
        lambda x: centred(x) * 2,
        ["float32(48,): 4 operations an element would be computed 64 times where it is read"],
    ),
    "asked for": (lambda x: (x * 2).contiguous().sum(), ["float32(64, 48): the graph asks for it"]),
    "a scan": (
        lambda x: x.cumsum(0).sum(1),
        ["float32(64, 48): the loop of a scan is the innermost of its kernel"],
    ),
}


@pytest.mark.parametrize("name", STORED)
def test_why_values_are_stored(name: str) -> None:
    compute, expected = STORED[name]
    with Context(NOOPT=0):
        lines = compute(Tensor.empty(64, 48, device=TARGET)).explain().splitlines()
    assert [line.strip().removeprefix("stored ") for line in lines if " stored " in line] == expected


def test_debug_3_says_why_values_are_stored_whatever_lies_on_the_disk(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        clear_caches()
        with Context(DEBUG=3):
            x = Tensor.empty(64, 48, device=TARGET)
            (x - x.mean(0)).realize()
        assert "add_reduce_48: stored float32(48,): 4 operations an element" in capsys.readouterr().out


def test_what_a_kernel_waits_for_if_it_is_not_the_one_before() -> None:
    a, b = zeros(6, 6), zeros(6, 6)
    lines = ((a @ b).softmax(1) @ (b @ a).softmax(0)).explain().splitlines()
    assert [line.strip() for line in lines if "waits for" in line] == [
        "waits for none of these",  # 2
        "waits for 1",  # 3
        "waits for 2 and 3",  # 4; 5 waits for 4
    ]


@function
def product(a: Tensor, b: Tensor) -> Tensor:
    return (a @ b).relu()


CASES: dict[str, Callable[[], Tensor]] = {
    "elementwise": lambda: zeros(5, 3) * 2 + 1,
    "reduction": lambda: (zeros(5, 3) * 2.5).sum(1),
    "softmax of a matmul": lambda: (zeros(4, 3) @ zeros(3, 5)).softmax(1),
    "scan, sort, gather": lambda: zeros(4, 6).cumsum(1).sort(1)[0][Tensor([1, 2], device="PYTHON")],
    "cat": lambda: Tensor.cat(zeros(4, 3), zeros(2, 3) + 1),
    "size 0": lambda: zeros(0, 3) + 1,
    "written in part": lambda: _written(zeros(5, 3) + 0),
    "read after a write": lambda: _written(zeros(5, 3)) * 2,
    "whole": lambda: zeros(5, 3).assign(zeros(5, 3) + 1) * 2,
    "random": lambda: Tensor.rand(4, 4, device="PYTHON"),
    "symbolic": lambda: zeros(8, 3)[: Variable("n", 1, 8).bind(5)].sum(0),
    "equal kernels": lambda: (zeros(3, 3) @ zeros(3, 3)) @ zeros(3, 3),
    "from another device": lambda: zeros(4, 3, device="CPU").to("PYTHON") * 2,
    "computed on another device": lambda: (zeros(4, 3, device="PYTHON") * 3).to("PYTHON:1") * 2,
    "assigned from another device": lambda: zeros(4).assign(zeros(4, device="CPU").to("PYTHON") + 1) * 2,
    "functions": lambda: product(product(zeros(3, 3), zeros(3, 3)), zeros(3, 3)) + 1,
    "constant": lambda: Tensor.full((2000, 2), 3.5, device="PYTHON"),
}


def _written(x: Tensor) -> Tensor:
    x[2:4] = 7
    return x


@pytest.mark.parametrize("name", CASES)
def test_what_is_said_is_what_runs(name: str) -> None:
    tensor = CASES[name]()
    before = tensor.uop
    GlobalCounters.reset()
    text = tensor.explain()
    assert GlobalCounters.kernel_count == GlobalCounters.copy_count == 0
    assert tensor.uop is before
    assert tensor.explain() == text
    tensor.realize()
    said = [int(count) for count in re.findall(r": (\d+) kernels?, ", text)]
    assert sum(said) == GlobalCounters.kernel_count
    assert len(re.findall(r"^  \d+  \w", text, re.MULTILINE)) == GlobalCounters.kernel_count
    copies = text.count("copy of ")
    assert copies == GlobalCounters.copy_count or "copied first" in text
    assert "nothing to do" in tensor.explain()


def test_what_needs_no_kernel() -> None:
    x = zeros(8, 4)
    assert x.explain() == "float32(8, 4) on PYTHON: in memory already, nothing to do"
    assert x[2:5].explain() == "float32(3, 4) on PYTHON: a part of memory that is there already, no kernel"
    assert Tensor.ones(3, device="PYTHON").explain() == "float32(3,) on PYTHON: a number, written without a kernel"


def test_inside_a_function_that_is_captured(capsys: pytest.CaptureFixture[str]) -> None:
    @TinyJit
    def step(x: Tensor) -> Tensor:
        print((x * 2).explain())
        return x * 2 + 1

    assert step(zeros(2, 2)).tolist() == [[1, 1], [1, 1]]
    shown = capsys.readouterr().out
    assert shown.startswith("float32(2, 2) on PYTHON: 1 kernel, 4 operations, reads 16 B, writes 16 B\n")


def test_a_tensor_in_a_file(tmp_path: object) -> None:
    path = f"{tmp_path}/x"
    Tensor([1.0, 2.0]).to(f"disk:{path}").realize()
    x = Tensor.empty(2, device=f"disk:{path}")
    assert x.explain() == f"float32(2,) on DISK:{path}: in a file, nothing is computed there"


def test_temporaries_and_the_peak() -> None:
    a = zeros(16, 16)
    text = (((a @ a) @ a) @ a).explain()
    lines = text.splitlines()
    start = lines.index("memory: inputs 1.02 kB, results 1.02 kB, temporaries 2.05 kB; at the peak 4.10 kB")
    assert lines[start + 1 :] == [
        "  float32(16, 16)  1.02 kB, kernels 1 to 2",
        "  float32(16, 16)  1.02 kB, kernels 2 to 3",
    ]
    assert lines.count("     the same kernel as 2") == 1
    longer = ((((a @ a) @ a) @ a) @ a).explain()
    assert longer.endswith("\n  they share memory: apart they would take 3.07 kB")


def test_large_numbers_can_be_read() -> None:
    counts = (0, 9_999_999, 10_000_000, 276_824_064, 1_999_999_999, 14_495_514_624, 5 * 10**12)
    shown = ["0", "9999999", "10.00 M", "276.82 M", "2.00 G", "14.50 G", "5.00 T"]
    assert [spell_count(count) for count in counts] == shown


def test_of_attention_scores_count_once_and_only_those_that_are_seen() -> None:
    q, k, v = (Tensor.empty(3, 64, 32, device=TARGET) for _ in range(3))
    for causal, pairs in ((False, 64 * 64), (True, 64 * 65 // 2)):
        with Context(NOOPT=0, FLASH_ATTENTION=1):
            (kernel,) = q.scaled_dot_product_attention(k, v, is_causal=causal).kernels()
        each, rest = divmod(kernel.ops, 3 * pairs)
        assert rest == 0 and 0 < each - 2 * (32 + 32) < 30  # two products, and what is done to a score


@pytest.mark.parametrize(
    ("target", "roof"),
    [
        ("sm_80", "A100 of 80 GB, by its data sheet: 2040 GB/s, 311.9 TFLOP/s of bfloat16 by tensor cores"),
        ("sm_90a", "H200, by its data sheet: 4800 GB/s, 1070.5 TFLOP/s of bfloat16 by tensor cores"),
    ],
)
def test_a_gpu_that_is_not_here_has_the_roofline_of_its_data_sheet(target: str, roof: str) -> None:
    a = Tensor.empty(256, 256, dtype="bfloat16", device=f"NULL:PTX:{target}")
    (kernel,) = (a @ a).kernels()
    lines = kernel.explain().splitlines()
    assert lines[-1] == f"  {roof}; {kernel.bound()}" and kernel.bound().endswith("us, bound by bytes")
    title, *rest = (a @ a).explain().splitlines()
    assert title.endswith(f"writes 131.07 kB, at least {kernel.least_seconds * 1e6:.1f} us")
    assert f"     {kernel.bound()}" in rest


def test_every_gpu_that_kernels_are_compiled_for_has_a_data_sheet() -> None:
    assert set(_GPUS) <= set(GPUS)
